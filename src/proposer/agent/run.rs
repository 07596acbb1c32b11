//! One run of an agent: started in a group of its own, listened to, and ended with everything it started.
//!
//! Its outputs are read as they come, without ever waiting for them: a process that got away may hold them open for as
//! long as it likes.

use std::fs::{self, File};
use std::io::{ErrorKind, PipeReader, Read as _, Write as _};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::strays;
use crate::error::{Error, Result};
use crate::process::{self, Group, Interrupts};

/// Read at one go from one output, before the clock and the other one are looked at.
const AT_ONCE: usize = 1 << 20;

/// Of an output that is longer than what is kept, so much of its end is heard all the same: the last line tells what the whole
/// run has cost.
const END: usize = 64 << 10;

/// What to run.
pub struct Job<'a> {
    /// The command; its outputs are set here.
    pub command: Command,
    /// Where its outputs go, with `.stdout` and `.stderr` added.
    pub log: &'a Utf8Path,
    /// The value by which processes that got away are known.
    pub mark: &'a str,
    /// How long it may take.
    pub limit: Duration,
    /// Bytes of each output that are kept.
    pub output: usize,
}

/// How an agent ended.
#[derive(Debug)]
pub enum End {
    /// By itself.
    Exited(ExitStatus),
    /// It was ended.
    OutOfTime,
}

/// What is left of a run.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// What it printed, as far as it was kept, and the end of it.
    pub stdout: String,
    /// And on its standard error.
    pub stderr: String,
    /// How long it took.
    pub seconds: f64,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Runs an agent to its end, or ends it.
///
/// # Errors
/// When it cannot be started or heard, or the user interrupts.
pub fn run(mut job: Job<'_>, interrupts: &Interrupts) -> Result<Ended> {
    let (mut stdout, out) = Sink::new(job.log.with_added_extension("stdout"), job.output)?;
    let (mut stderr, err) = Sink::new(job.log.with_added_extension("stderr"), job.output)?;
    job.command.stdout(out).stderr(err);
    let started = Instant::now();
    // The command, and with it our copies of the pipes' other ends, is gone when this returns.
    let mut group = Group::start(job.command)?;
    let end = listen(&mut group, [&mut stdout, &mut stderr], started, job.limit, interrupts);
    // Whatever happened: first the group, then those that left it.
    let ended = group.end();
    let escaped = strays::end(job.mark);
    let end = end?;
    ended?;
    let seconds = started.elapsed().as_secs_f64();
    let mut notes = Vec::new();
    for sink in [&mut stdout, &mut stderr] {
        sink.pour()?;
        notes.extend(sink.note());
    }
    if escaped > 0 {
        notes.push(format!("the agent left {escaped} processes of its own running; they were ended"));
    }
    Ok(Ended { end, stdout: stdout.text(), stderr: stderr.text(), seconds, notes })
}

fn listen(
    group: &mut Group,
    mut sinks: [&mut Sink; 2],
    started: Instant,
    limit: Duration,
    interrupts: &Interrupts,
) -> Result<End> {
    loop {
        if let Some(signal) = interrupts.signal() {
            return Err(Error::new(
                Exit::Locked,
                format!("interrupted by signal {signal} while the agent was at work"),
            )
            .hint("nothing of this attempt is kept; the campaign can be resumed"));
        }
        if let Some(status) = group.ended()? {
            return Ok(End::Exited(status));
        }
        if started.elapsed() >= limit {
            return Ok(End::OutOfTime);
        }
        let mut heard = false;
        for sink in &mut sinks {
            heard |= sink.pour()?;
        }
        if !heard {
            process::pause();
        }
    }
}

/// One output: a pipe, the file it goes to, and what is kept of it.
struct Sink {
    pipe: PipeReader,
    file: File,
    path: Utf8PathBuf,
    kept: Vec<u8>,
    most: usize,
    /// The end of what is not kept, and some before it.
    end: Vec<u8>,
    dropped: u64,
}

impl Sink {
    /// The sink, and the end that the agent writes to.
    fn new(path: Utf8PathBuf, most: usize) -> Result<(Self, std::io::PipeWriter)> {
        let no_pipe = |error: &dyn std::error::Error| Error::new(Exit::Internal, "cannot make a pipe").because(error);
        let (pipe, writer) = std::io::pipe().map_err(|error| no_pipe(&error))?;
        fcntl_getfl(&pipe)
            .and_then(|flags| fcntl_setfl(&pipe, flags | OFlags::NONBLOCK))
            .map_err(|error| no_pipe(&error))?;
        // Made anew: a link that an earlier attempt left there would be written through.
        let _ = fs::remove_file(&path);
        let file = File::create_new(&path).map_err(|error| cannot_write(&path, &error))?;
        Ok((Self { pipe, file, path, kept: Vec::new(), most, end: Vec::new(), dropped: 0 }, writer))
    }

    /// Takes what is there; whether there was anything.
    fn pour(&mut self) -> Result<bool> {
        let mut buffer = [0; 64 << 10];
        let mut taken = 0;
        while taken < AT_ONCE {
            match self.pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    taken += length;
                    let room = length.min(self.most.saturating_sub(self.kept.len()));
                    self.file.write_all(&buffer[..room]).map_err(|error| cannot_write(&self.path, &error))?;
                    self.kept.extend_from_slice(&buffer[..room]);
                    self.pass_over(&buffer[room..length]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Error::new(Exit::Internal, "cannot read what an agent prints").because(&error));
                }
            }
        }
        Ok(taken > 0)
    }

    fn pass_over(&mut self, bytes: &[u8]) {
        self.dropped += bytes.len() as u64;
        self.end.extend_from_slice(bytes);
        // Not at every step: what stays is moved each time.
        if self.end.len() > 2 * END {
            self.end.drain(..self.end.len() - END);
        }
    }

    fn note(&self) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default();
        (self.dropped > 0)
            .then(|| format!("{name} has the first {} bytes; {} more were dropped", self.most, self.dropped))
    }

    fn text(&self) -> String {
        let end = &self.end[self.end.len().saturating_sub(END)..];
        let mut bytes = self.kept.clone();
        if (end.len() as u64) < self.dropped {
            // What stands on both sides of a gap is not one line.
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(end);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn cannot_write(path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot write `{path}`")).because(error)
}
