//! A version of the kernel under the sanitizers, before it is accepted: kopt-build compiles its sources with them, the
//! judge's executable writes calls of small cases with secret contents, and the program that makes these calls either ends
//! well or says what it found, and where.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use kopt_build::bindings;
use kopt_build::sanitize::{Sanitized, sanitized};
use kopt_schema::bout::EXERCISE_ARGUMENT;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Manifest;

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

/// The calls take a second or so.
const LIMIT: Duration = Duration::from_secs(120);

/// Lines of a finding that are told.
const LINES: usize = 12;

/// Runs the version of a kernel that lies in `folder` under the sanitizers. `judge` writes the calls; `scratch` is a
/// folder of its own, made if need be.
///
/// # Errors
/// When the judge writes no calls, or a file cannot be written.
pub fn run(
    context: &Context,
    interrupts: &Interrupts,
    (folder, manifest): (&Utf8Path, &Manifest),
    judge: &Utf8Path,
    scratch: &Utf8Path,
) -> Result<Finding> {
    let interface = bindings::load(folder, manifest, false)
        .map_err(|error| Error::setup("cannot read the kernel's interface").because(&error))?;
    let entries: Vec<String> = interface.entries.iter().map(|entry| entry.symbol.clone()).collect();
    let program = match sanitized(folder, manifest, &entries, &scratch.join("build")) {
        Ok(Sanitized::Program(program)) => program,
        Ok(Sanitized::Unavailable(why)) => return Ok(Finding::Unavailable(why)),
        // It did without them: whatever keeps it from being looked at is the version's own.
        Err(error) => return Ok(Finding::Found(format!("it does not compile with them: {error}"))),
    };
    let calls = scratch.join("calls");
    let mut command = Command::new(judge);
    process::withhold(&mut command, context);
    command.current_dir(folder).arg(EXERCISE_ARGUMENT).arg(&calls);
    let written = process::capture(command)?;
    if !written.status.success() {
        let cause = written.stderr.trim().to_owned();
        return Err(Error::setup("the judge wrote no calls for the sanitizers").cause(cause));
    }
    let said = scratch.join("said");
    let failed = |error: std::io::Error| Error::new(Exit::Output, format!("cannot write `{said}`")).because(&error);
    let mut command = Command::new(&program);
    process::withhold(&mut command, context);
    command
        .current_dir(scratch)
        .arg(&calls)
        // What is leaked is looked for by ptrace, which a container may forbid; the audit refuses allocation itself.
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=1:color=never")
        .env("UBSAN_OPTIONS", "print_stacktrace=1:color=never")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).map_err(failed)?);
    let mut group = Group::start(command)?;
    let until = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = group.ended()? {
            break status;
        }
        if interrupts.signal().is_some() || Instant::now() > until {
            group.end()?;
            return Ok(Finding::Found(format!("not done within {} s", LIMIT.as_secs())));
        }
        process::pause();
    };
    if status.success() {
        return Ok(Finding::Clean);
    }
    let text = std::fs::read(&said).unwrap_or_default();
    Ok(Finding::Found(told(&String::from_utf8_lossy(&text), scratch)))
}

/// The first lines that say something, without the machine's folders.
fn told(text: &str, scratch: &Utf8Path) -> String {
    let mark = |line: &str| line.contains("ERROR: ") || line.contains("runtime error: ");
    let from = text.lines().position(mark).unwrap_or(0);
    let lines = text.lines().skip(from).filter(|line| !line.trim().is_empty() && !line.starts_with("====="));
    let text = lines.take(LINES).collect::<Vec<_>>().join("\n").replace(scratch.as_str(), "");
    if text.is_empty() { "it ended without saying why".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_begins_with_what_was_found() {
        let said = "hello\n=================\n==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6\nREAD of size 4\n\n    #0 0x5 in softmax kernels/softmax.c:12\n";
        let found = told(said, Utf8Path::new("/scratch"));
        assert!(found.starts_with("==12==ERROR: AddressSanitizer: heap-buffer-overflow"), "{found}");
        assert!(found.ends_with("kernels/softmax.c:12"), "{found}");
        assert_eq!(told("\n", Utf8Path::new("/scratch")), "it ended without saying why");
    }
}
