//! One running trainer, which has foreign code in it: its answers are read with a limit of time and size, and one that
//! does not answer has lost, which is a finding and no error.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use kopt_schema::exit::Exit;
use kopt_schema::training::{TrainingReply, TrainingRequest};
use kopt_schema::wire::Turn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::trainer::Trainer;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::{self, Group, Interrupts};

/// No reply is longer than this.
const LONGEST_REPLY: usize = 16 << 20;
/// Between two looks at whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// The last part of what it printed is enough to see why it died.
const KEPT: u64 = 4 << 10;

/// Why there is no answer: the contestant's doing, or not.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It crashed, hung, failed or talked nonsense; in words.
    Lost(String),
    /// The tool or the machine.
    Error(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A running trainer.
#[derive(Debug)]
pub(super) struct Contestant<'a> {
    group: Group,
    requests: PipeWriter,
    replies: PipeReader,
    unread: Vec<u8>,
    printed: File,
    interrupts: &'a Interrupts,
}

impl<'a> Contestant<'a> {
    pub(super) fn start(context: &Context, interrupts: &'a Interrupts, trainer: &Trainer) -> Result<Self> {
        let failed =
            |error: &dyn std::error::Error| Error::new(Exit::Internal, "cannot start a trainer").because(error);
        let (asked, requests) = std::io::pipe().map_err(|error| failed(&error))?;
        let (replies, answer) = std::io::pipe().map_err(|error| failed(&error))?;
        let printed = tempfile::tempfile().map_err(|error| failed(&error))?;
        let mut command = Command::new(&trainer.program);
        process::withhold(&mut command, context);
        command.args(&trainer.arguments).stdin(asked).stdout(answer);
        command.stderr(printed.try_clone().map_err(|error| failed(&error))?);
        // The command, and with it our copies of the trainer's ends of the pipes, is gone when this returns.
        let group = Group::start(command)?;
        Ok(Self { group, requests, replies, unread: Vec::new(), printed, interrupts })
    }

    /// Keeps it on one processor from now on, where the system lets it: threads that it has started for a device stay free.
    pub(super) fn keep_on(&self, processor: usize) {
        self.group.keep_on(processor);
    }

    /// One request, one reply within `limit`, and the seconds between them by our own clock.
    pub(super) fn ask(
        &mut self,
        request: TrainingRequest,
        limit: Duration,
    ) -> std::result::Result<(TrainingReply, f64), Trouble> {
        let turn = random()?;
        let internal = |error: &dyn std::error::Error| {
            Trouble::Error(Error::new(Exit::Internal, "cannot write a request as JSON").because(error))
        };
        let mut line = serde_json::to_vec(&Turn { turn, says: request }).map_err(|error| internal(&error))?;
        line.push(b'\n');
        let start = Instant::now();
        // One that is dead takes no request; why it is dead is found out below.
        let _ = self.requests.write_all(&line);
        let line = self.line(limit)?;
        let wall_s = start.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&line).chars().take(200).collect::<String>();
        match serde_json::from_slice::<Turn<TrainingReply>>(&line) {
            Ok(Turn { says: TrainingReply::Failed { message }, .. }) => Err(Trouble::Lost(message)),
            Ok(reply) if reply.turn == turn => Ok((reply.says, wall_s)),
            Ok(_) => Err(Trouble::Lost(format!("answered out of turn: {said}"))),
            Err(_) => Err(Trouble::Lost(format!("answered with something that is no reply: {said}"))),
        }
    }

    fn line(&mut self, limit: Duration) -> std::result::Result<Vec<u8>, Trouble> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return Ok(line);
            }
            if self.unread.len() > LONGEST_REPLY {
                return Err(Trouble::Lost("gave a reply without an end".to_owned()));
            }
            if let Some(signal) = self.interrupts.signal() {
                let _ = self.group.end();
                Interrupts::obey(signal);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Lost(format!("did not answer within {:.0} s", limit.as_secs_f64())));
            }
            if !self.waits(left.min(PATIENCE))? {
                continue;
            }
            let mut chunk = [0; 1 << 16];
            match self.replies.read(&mut chunk) {
                Ok(0) => return Err(Trouble::Lost(self.died())),
                Ok(read) => self.unread.extend_from_slice(&chunk[..read]),
                Err(error) => {
                    return Err(Error::new(Exit::Internal, "cannot read from a trainer").because(&error).into());
                }
            }
        }
    }

    /// Waits a while; whether there is something to read.
    fn waits(&self, wait: Duration) -> Result<bool> {
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let mut watched = [PollFd::from_borrowed_fd(self.replies.as_fd(), PollFlags::IN)];
        match poll(&mut watched, Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Error::new(Exit::Internal, "cannot wait for a trainer").because(&error)),
        }
    }

    /// It has closed its channel: how it ended, and its last words.
    fn died(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            match self.group.ended() {
                Ok(Some(ended)) => status = Some(ended),
                Ok(None) => process::pause(),
                Err(_) => break,
            }
        }
        let how = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("exited with {code} instead of answering"),
            Some((_, Some(signal))) => format!("died of signal {signal}"),
            _ => "closed its channel instead of answering".to_owned(),
        };
        let mut printed = Vec::new();
        let length = self.printed.metadata().map_or(0, |facts| facts.len());
        let read = self.printed.seek(std::io::SeekFrom::Start(length.saturating_sub(KEPT)));
        let _ = read.and_then(|_| self.printed.read_to_end(&mut printed));
        match String::from_utf8_lossy(&printed).trim() {
            "" => how,
            printed => format!("{how}; it printed:\n{printed}"),
        }
    }
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Exit::Internal, "the system gives no random numbers").cause(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}
