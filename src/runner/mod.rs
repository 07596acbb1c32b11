//! One run of a test or bench executable. What it means to say it appends to the file named by `KOPT_OUT`, as JSON
//! lines; what it prints is kept only to be shown when it misbehaves, and never parsed: a kernel can print too.

pub mod certify;
mod tail;

use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;
use kopt_schema::message::Message;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Kernel;
use crate::process::{self, Group, Interrupts};
use tail::{Lines, Text};

/// The harness ends kernels that hang; an executable that says nothing for this long hangs itself.
const SILENCE: Duration = Duration::from_secs(900);
/// The last part of what an executable printed is enough to see why it died.
const KEPT: usize = 8 << 10;

/// What to run.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// Whose executable it is; it runs in that crate's folder.
    pub kernel: &'a Kernel,
    /// The executable.
    pub executable: &'a Utf8Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to its environment.
    pub environment: Vec<(&'static str, String)>,
}

/// Something an executable did.
#[derive(Debug)]
pub enum Heard {
    /// It said this, in its file.
    Message(Box<Message>),
    /// It printed this.
    Printed(String),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The leader's status.
    pub status: ExitStatus,
    /// It was ended because it was silent for too long.
    pub stalled: bool,
    /// The first line of its file that is no message.
    pub garbled: Option<String>,
    /// The end of what it printed.
    pub printed: String,
    /// How long it took.
    pub seconds: f64,
}

impl Ended {
    /// How it ended, in words; nothing where it ended well.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        if self.stalled {
            return Some(format!("said nothing for {} s and was ended", SILENCE.as_secs()));
        }
        match (self.status.code(), self.status.signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("exited with {code}")),
            (None, Some(signal)) => Some(format!("died of signal {signal}")),
            (None, None) => Some(format!("ended with {}", self.status)),
        }
    }
}

/// Runs executables, one at a time: two at once would disturb each other's timing.
#[derive(Debug)]
pub struct Runner<'a> {
    context: &'a Context,
    interrupts: Interrupts,
}

impl<'a> Runner<'a> {
    /// A runner.
    ///
    /// # Errors
    /// When signals cannot be watched.
    pub fn new(context: &'a Context) -> Result<Self> {
        Ok(Self { context, interrupts: Interrupts::watch()? })
    }

    /// Runs one executable to its end and tells what it does as it does it.
    ///
    /// # Errors
    /// When it cannot be run, or `heard` fails. That it ends badly is no error.
    pub fn run(&self, job: &Job<'_>, heard: &mut dyn FnMut(Heard) -> Result<()>) -> Result<Ended> {
        let folder = tempfile::Builder::new().prefix("cargo-kopt-").tempdir().map_err(|error| no_room(&error))?;
        let folder = Utf8PathBuf::from_path_buf(folder.path().to_owned())
            .map(|path| (path, folder))
            .map_err(|path| Error::setup(format!("the name of `{}` is not UTF-8", path.display())))?;
        let (messages, output) = (folder.0.join("messages.jsonl"), folder.0.join("output.txt"));
        File::create(&messages).map_err(|error| no_room(&error))?;
        let printed = File::create(&output).map_err(|error| no_room(&error))?;
        let started = Instant::now();
        let mut group = Group::start(self.command(job, &messages, printed)?)?;
        let mut said = Lines::open(&messages)?;
        let mut text = Text::open(&output, KEPT)?;
        let mut last = Instant::now();
        let (mut garbled, mut stalled) = (None, false);
        let status = loop {
            if let Some(signal) = self.interrupts.signal() {
                group.end()?;
                // The folder would outlive a process that ends here.
                drop(folder);
                Interrupts::obey(signal);
            }
            // Asked before reading: what was written before the end is then read after it.
            let ended = group.ended()?;
            for line in said.new_lines()? {
                last = Instant::now();
                match serde_json::from_str(&line) {
                    Ok(message) => heard(Heard::Message(Box::new(message)))?,
                    Err(error) => drop(garbled.get_or_insert_with(|| format!("{error}: {line}"))),
                }
            }
            if let Some(more) = text.new_text()? {
                last = Instant::now();
                heard(Heard::Printed(more))?;
            }
            if let Some(status) = ended {
                break status;
            }
            if last.elapsed() > SILENCE {
                stalled = true;
                break group.end()?;
            }
            process::pause();
        };
        if let Some(rest) = said.unfinished() {
            garbled.get_or_insert_with(|| format!("ends in the middle of a line: {rest}"));
        }
        Ok(Ended { status, stalled, garbled, printed: text.kept(), seconds: started.elapsed().as_secs_f64() })
    }

    /// The executable as `cargo test` would start it, and `KOPT_OUT`.
    fn command(&self, job: &Job<'_>, messages: &Utf8Path, printed: File) -> Result<Command> {
        let member = &job.kernel.member;
        let also = printed.try_clone().map_err(|error| no_room(&error))?;
        let mut command = Command::new(job.executable);
        process::withhold(&mut command, self.context);
        command
            .args(&job.arguments)
            .current_dir(&member.folder)
            .env("CARGO", &self.context.cargo)
            .env("CARGO_MANIFEST_DIR", &member.folder)
            .env("CARGO_MANIFEST_PATH", member.folder.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &member.name)
            .env("CARGO_PKG_VERSION", &member.version)
            .env("KOPT_OUT", messages)
            // Only a second look makes do with few.
            .env_remove("KOPT_TRIALS")
            .envs(job.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(printed)
            .stderr(also);
        Ok(command)
    }
}

fn no_room(error: &std::io::Error) -> Error {
    Error::new(Exit::Output, "cannot write a temporary file").because(error)
}
