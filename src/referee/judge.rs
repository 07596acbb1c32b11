//! The judge seen from the referee: started in a group of its own, asked over a pipe, and ended with everything it
//! started when it does not answer, when the user interrupts, and when the match is over.
//!
//! It is trusted code, so that one that dies, hangs or talks nonsense is a bug and not a verdict.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use command_fds::{CommandFdExt as _, FdMapping};
use kopt_schema::bout::{JUDGE_ARGUMENT, JUDGE_FD, JudgeReply, JudgeRequest};
use kopt_schema::exit::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::{self, Group, Interrupts};

/// For the C library: what was freed is kept. A judge takes and frees tens of megabytes for each of hundreds of trials, and
/// the system would clear their pages each time, which takes an eighth of a check.
pub(super) const KEEPS_MEMORY: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.arena_max=1");

/// The last part of what a judge printed is enough to see why it died.
const KEPT: usize = 8 << 10;
/// No reply is longer than this.
const LONGEST_REPLY: usize = 64 << 20;
/// Between two looks at whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// A judge that was told that nothing more comes ends within this, or is ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// What would make a judge do something else than it is asked.
const WITHHELD: [&str; 8] =
    ["KOPT_BENCH", "KOPT_CANDIDATE", "KOPT_DUEL", "KOPT_OUT", "KOPT_SEED", "KOPT_SEEDS", "KOPT_TIMEOUT", "KOPT_TRIALS"];

/// A running judge.
#[derive(Debug)]
pub struct Judge<'a> {
    group: Group,
    requests: Option<PipeWriter>,
    replies: PipeReader,
    unread: Vec<u8>,
    output: Option<PipeReader>,
    printed: Vec<u8>,
    answered: bool,
    interrupts: &'a Interrupts,
}

impl<'a> Judge<'a> {
    /// Starts the judge `executable` in `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        context: &Context,
        interrupts: &'a Interrupts,
        executable: &Utf8Path,
        folder: &Utf8Path,
    ) -> Result<Self> {
        let no_pipe = |error: &dyn std::error::Error| Error::new(Exit::Internal, "cannot make a pipe").because(error);
        let pipe = || std::io::pipe().map_err(|error| no_pipe(&error));
        let ((asked, requests), (replies, answer), (output, print)) = (pipe()?, pipe()?, pipe()?);
        let also = print.try_clone().map_err(|error| no_pipe(&error))?;
        let mut command = Command::new(executable);
        process::withhold(&mut command, context);
        for name in WITHHELD {
            command.env_remove(name);
        }
        command.envs([KEEPS_MEMORY]).arg(JUDGE_ARGUMENT).current_dir(folder).stdin(asked).stdout(print).stderr(also);
        command
            .fd_mappings(vec![FdMapping { parent_fd: answer.into(), child_fd: JUDGE_FD }])
            .map_err(|error| no_pipe(&error))?;
        // The command, and with it our copies of the judge's ends of the pipes, is gone when this returns: else a dead
        // judge would not close them.
        let group = Group::start(command)?;
        Ok(Self {
            group,
            requests: Some(requests),
            replies,
            unread: Vec::new(),
            output: Some(output),
            printed: Vec::new(),
            answered: false,
            interrupts,
        })
    }

    /// One request, one reply, within `limit`. An interrupt of the user ends the judge and the tool.
    ///
    /// # Errors
    /// When the judge could not do it (as its reply says), dies, hangs, or answers with something else.
    pub fn ask(&mut self, request: &JudgeRequest, limit: Duration) -> Result<JudgeReply> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| Error::new(Exit::Internal, "cannot write a request as JSON").because(&error))?;
        line.push(b'\n');
        // One that is dead takes no request; why it is dead is found out below.
        let _ = self.requests.as_mut().map(|requests| requests.write_all(&line));
        let Some(line) = self.line(limit)? else { return Err(self.died()) };
        let reply = serde_json::from_slice(&line).map_err(|error| {
            let start = String::from_utf8_lossy(&line).chars().take(200).collect::<String>();
            self.wrong("answered with something that is no reply").because(&error).cause(format!("it said: {start}"))
        })?;
        self.answered = true;
        match reply {
            JudgeReply::Failed { message, no_device: true } => Err(Error::new(Exit::NoDevice, message)),
            JudgeReply::Failed { message, no_device: false } => Err(Error::setup(message)),
            reply => Ok(reply),
        }
    }

    /// A line of the channel; none if it was closed.
    fn line(&mut self, limit: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.unread.len() > LONGEST_REPLY {
                return Err(self.wrong("gave a reply without an end"));
            }
            if let Some(signal) = self.interrupts.signal() {
                let _ = self.group.end();
                Interrupts::obey(signal);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let _ = self.group.end();
                return Err(self.wrong(&format!("did not answer within {:.0} s", limit.as_secs_f64())));
            }
            if self.listen(left.min(PATIENCE))? && self.hear()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits a while, keeps what was printed, and says whether there is something on the channel.
    fn listen(&mut self, wait: Duration) -> Result<bool> {
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let mut watched = vec![PollFd::from_borrowed_fd(self.replies.as_fd(), PollFlags::IN)];
        watched.extend(self.output.iter().map(|output| PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)));
        match poll(&mut watched, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::new(Exit::Internal, "cannot wait for the judge").because(&error)),
        }
        let ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
        drop(watched);
        if ready.get(1) == Some(&true) {
            self.keep();
        }
        Ok(ready[0])
    }

    /// Reads from the channel; zero when it is closed.
    fn hear(&mut self) -> Result<usize> {
        let mut chunk = [0; 1 << 16];
        let read = self.replies.read(&mut chunk);
        let read = read.map_err(|error| Error::new(Exit::Internal, "cannot read from the judge").because(&error))?;
        self.unread.extend_from_slice(&chunk[..read]);
        Ok(read)
    }

    /// Reads what was printed and keeps the end of it.
    fn keep(&mut self) {
        let mut chunk = [0; 1 << 12];
        match self.output.as_mut().map(|output| output.read(&mut chunk)) {
            Some(Ok(read)) if read > 0 => {
                self.printed.extend_from_slice(&chunk[..read]);
                let over = self.printed.len().saturating_sub(KEPT);
                self.printed.drain(..over);
            }
            _ => self.output = None,
        }
    }

    /// It has closed its channel: how it ended, and its last words.
    fn died(&mut self) -> Error {
        let ended = self.farewell();
        let how = match ended.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("exited with {code} instead of answering"),
            Some((_, Some(signal))) => format!("died of signal {signal}"),
            _ => "closed its channel instead of answering".to_owned(),
        };
        let error = self.wrong(&how);
        match self.answered {
            true => error,
            false => {
                error.hint("the judge is built from the base: one from before this version does not know how to be one")
            }
        }
    }

    /// Closes the requests and waits for the end, which the judge should find by itself.
    fn farewell(&mut self) -> Option<ExitStatus> {
        self.requests = None;
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            match self.group.ended() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => process::pause(),
                // It was ended before.
                Err(_) => return None,
            }
        }
        let _ = self.group.end();
        None
    }

    /// An error about the judge, with the end of what it printed.
    pub fn wrong(&mut self, what: &str) -> Error {
        while self.has_output() {
            self.keep();
        }
        let error = Error::new(Exit::Internal, format!("the judge {what}"))
            .hint("this is a bug of cargo kopt or of the base's harness; please report it with the text above");
        let printed = String::from_utf8_lossy(&self.printed);
        match printed.trim() {
            "" => error,
            printed => error.cause(format!("it printed:\n{printed}")),
        }
    }

    /// Whether more of what was printed can be read without waiting.
    fn has_output(&self) -> bool {
        let Some(output) = &self.output else { return false };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        // Asked first: a judge that ends by itself ends its contestants in order.
        self.farewell();
    }
}
