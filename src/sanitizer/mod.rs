//! A version of a kernel under the sanitizers, before it is accepted: small cases with secret contents, made by the judge's
//! executable, and a tool that says what it found, and where.
//!
//! | module | what |
//! |---|---|
//! | `native` | AddressSanitizer and UndefinedBehaviorSanitizer, compiled in; confined, since the program is the candidate's code |
//! | `device` | NVIDIA's compute-sanitizer, which watches the judge's executable make the calls |

mod device;
mod native;

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use kopt_build::BuildError;
use kopt_build::sanitize::Cell;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Class, Manifest};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::{self, Group, Interrupts};

/// What the sanitizers say of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Nothing.
    Clean,
    /// What it did, in the sanitizer's words.
    Found(String),
    /// They cannot be had here, and why.
    Unavailable(String),
}

/// Lines of a finding that are told.
const LINES: usize = 12;

/// Bytes that are heard of what a program prints.
const HEARD: u64 = 16 << 20;

/// A version to look at, and what is needed for it.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    context: &'a Context,
    interrupts: &'a Interrupts,
    folder: &'a Utf8Path,
    manifest: &'a Manifest,
    judge: &'a Utf8Path,
    scratch: &'a Utf8Path,
}

/// Runs the version of a kernel that lies in `folder` under the sanitizers. `judge` makes the calls; `scratch` is a
/// folder of its own, made if need be.
///
/// # Errors
/// When the judge makes no calls, or a file cannot be written.
pub fn run(
    context: &Context,
    interrupts: &Interrupts,
    (folder, manifest): (&Utf8Path, &Manifest),
    judge: &Utf8Path,
    scratch: &Utf8Path,
) -> Result<Finding> {
    let subject = Subject { context, interrupts, folder, manifest, judge, scratch };
    match manifest.class {
        Class::Native => native::run(&subject),
        Class::Device | Class::Launcher => device::run(&subject),
    }
}

impl Subject<'_> {
    /// Runs a command to its end; how it ended and what it said, or nothing where that took longer than `limit`.
    fn watched(&self, command: Command, limit: Duration) -> Result<Option<(ExitStatus, String)>> {
        self.watched_in(None, command, limit)
    }

    /// The same, confined.
    fn watched_in(
        &self,
        cell: Option<&Cell>,
        mut command: Command,
        limit: Duration,
    ) -> Result<Option<(ExitStatus, String)>> {
        let said = self.scratch.join("said");
        let failed = |error: std::io::Error| Error::new(Exit::Output, format!("cannot write `{said}`")).because(&error);
        process::withhold(&mut command, self.context);
        let file = File::create(&said).map_err(failed)?;
        command.current_dir(self.scratch).stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
        let lost = || Err(Error::new(Exit::Internal, "the thread that starts the sanitizers' program was lost"));
        let mut group = match cell {
            Some(cell) => cell.inside(|| Group::start(command)).unwrap_or_else(lost)?,
            None => Group::start(command)?,
        };
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = group.ended()? {
                let mut text = Vec::new();
                // The program is the candidate's, and may print without end.
                let _ = File::open(&said).and_then(|file| file.take(HEARD).read_to_end(&mut text));
                return Ok(Some((status, String::from_utf8_lossy(&text).into_owned())));
            }
            if let Some(signal) = self.interrupts.signal() {
                group.end()?;
                return Err(Error::new(Exit::Locked, format!("interrupted by signal {signal} under the sanitizers")));
            }
            if Instant::now() > until {
                group.end()?;
                return Ok(None);
            }
            process::pause();
        }
    }
}

/// A full disk, or memory that is over, speaks against no version.
fn not_here(error: &BuildError) -> Error {
    Error::new(Exit::Output, "cannot compile the kernel for the sanitizers here").because(error)
}

/// The first lines that say something, from the one that `mark` knows on, without the machine's folders.
fn told(text: &str, scratch: &Utf8Path, mark: impl Fn(&str) -> bool) -> String {
    let from = text.lines().position(&mark).unwrap_or(0);
    let lines = text.lines().skip(from).filter(|line| !line.trim_matches(['=', ' ', '\t']).is_empty());
    let text = lines.take(LINES).collect::<Vec<_>>().join("\n").replace(scratch.as_str(), "");
    if text.is_empty() { "it ended without saying why".to_owned() } else { text }
}
