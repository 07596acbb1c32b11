//! Child processes. Cargo shares our process group, so that Ctrl-C reaches it as it always does; a test or bench
//! executable gets a group of its own, so that it can be ended with everything it started.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopt_schema::exit::Exit;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::context::Context;
use crate::error::{Error, Result};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub struct Captured {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

/// Makes `command` forget what belongs to another package's run.
pub fn withhold(command: &mut Command, context: &Context) {
    for name in &context.withheld {
        command.env_remove(name);
    }
}

/// Runs a program to its end and keeps what it prints.
///
/// # Errors
/// When it cannot be started.
pub fn capture(mut command: Command) -> Result<Captured> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| cannot_start(&command, &error))?;
    Ok(Captured {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a program to its end and hands on each line of its standard output as it comes; its standard error is ours.
///
/// # Errors
/// When it cannot be started or read.
pub fn lines(mut command: Command, mut heard: impl FnMut(&str) -> Result<()>) -> Result<ExitStatus> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(&command, &error))?;
    let told = match child.stdout.take() {
        Some(stdout) => read_lines(stdout, &mut heard),
        None => Ok(()),
    };
    if told.is_err() {
        // Nobody listens any more; a failure to kill means that it has ended by itself.
        let _ = child.kill();
    }
    let status =
        child.wait().map_err(|error| Error::new(Exit::Internal, "cannot wait for a process").because(&error))?;
    told.map(|()| status)
}

fn read_lines(stdout: impl Read, heard: &mut impl FnMut(&str) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::new(Exit::Internal, "cannot read from a process").because(&error))?;
        if length == 0 {
            return Ok(());
        }
        heard(String::from_utf8_lossy(&line).trim_end())?;
    }
}

/// A process with everything it starts; ended when dropped.
#[derive(Debug)]
pub struct Group {
    leader: Child,
    id: Pid,
    reaped: bool,
}

impl Group {
    /// Starts `command` as the leader of a group of its own.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut leader = command.process_group(0).spawn().map_err(|error| cannot_start(&command, &error))?;
        let Some(id) = i32::try_from(leader.id()).ok().and_then(Pid::from_raw) else {
            let _ = leader.kill();
            return Err(Error::new(Exit::Internal, "a process has no usable number"));
        };
        Ok(Self { leader, id, reaped: false })
    }

    /// Keeps the leader's first thread on one processor, where the system lets it: those that take turns are timed on the same.
    pub fn keep_on(&self, processor: usize) {
        let mut only = CpuSet::new();
        // A set has room for 1024.
        if processor < CpuSet::MAX_CPU {
            only.set(processor);
            let _ = sched_setaffinity(Some(self.id), &only);
        }
    }

    /// How the leader ended, if it has. What it left behind is ended then, before its number can be given away.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(WaitId::Pid(self.id), look) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Ok(None),
            Ok(Some(_)) => self.end().map(Some),
            Err(error) => Err(Error::new(Exit::Internal, "cannot ask how a process ended").because(&error)),
        }
    }

    /// Ends the group now.
    ///
    /// # Errors
    /// When the system does not say how the leader ended.
    pub fn end(&mut self) -> Result<ExitStatus> {
        if !self.reaped {
            // Fails only when nobody is left in the group, which is what is wanted.
            let _ = rustix::process::kill_process_group(self.id, Signal::KILL);
        }
        let status = self.leader.wait();
        self.reaped = true;
        status.map_err(|error| Error::new(Exit::Internal, "cannot wait for a process").because(&error))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

/// Notices Ctrl-C and its kin while a [`Group`] runs, which the terminal does not reach.
#[derive(Debug)]
pub struct Interrupts {
    seen: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Starts noticing; from here on the signals no longer end the tool by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn watch() -> Result<Self> {
        let seen = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or(0);
            signal_hook::flag::register_usize(signal, Arc::clone(&seen), number)
                .map_err(|error| Error::new(Exit::Internal, "cannot watch for signals").because(&error))?;
        }
        Ok(Self { seen })
    }

    /// The signal that came, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.seen.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
    }

    /// Ends the tool as the signal would have, so that the shell that started it knows.
    pub fn obey(signal: i32) -> ! {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        std::process::exit(128 + signal)
    }
}

/// Sleeps between two looks at a running process: short enough not to be felt, long enough to cost nothing.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Error {
    let program = command.get_program().to_string_lossy();
    Error::setup(format!("cannot run `{program}`")).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_come_one_by_one_and_the_status_with_them() {
        let mut seen = Vec::new();
        let status = lines(shell("echo a; printf b; exit 3"), |line| {
            seen.push(line.to_owned());
            Ok(())
        });
        assert_eq!(status.unwrap().code(), Some(3));
        assert_eq!(seen, ["a", "b"]);
    }

    #[test]
    fn a_group_takes_its_children_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("alive");
        let out = std::fs::File::create(&pipe).unwrap();
        let mut command = shell("sleep 600 & echo $!; wait");
        command.stdout(out);
        let mut group = Group::start(command).unwrap();
        let child = loop {
            let text = std::fs::read_to_string(&pipe).unwrap();
            if let Some(number) = text.strip_suffix('\n') {
                break number.parse::<i32>().unwrap();
            }
            pause();
        };
        assert!(group.ended().unwrap().is_none());
        group.end().unwrap();
        // An orphan may stay a zombie until its new parent looks; it runs no more either way.
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let gone = (0..1000).any(|_| {
            pause();
            is_gone()
        });
        assert!(gone, "process {child} still runs");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = capture(Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run `no-such-program`");
    }
}
