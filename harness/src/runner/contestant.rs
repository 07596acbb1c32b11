//! A worker seen from the process that judges: started, asked, and ended if it does not answer in time or in turn.
//!
//! The absence of a reply is a finding, not an error: see [`Loss`].

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kopt_schema::manifest::{Backend, Class};
use kopt_schema::message::FailureKind;
use kopt_schema::sandbox::{Defence, Force, Guard, Sandbox};
use kopt_schema::wire::{self, Blame, NOT_ITS_OWN, Reply, Request, TOO_DEEP, Turn, WIRE_VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::arena::Arena;
use super::candidate::Loaded;
use super::memory::Given;
use super::{environment, sandbox, worker};

/// Why a contestant lost: what a failed trial reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub kind: FailureKind,
    pub message: String,
    /// The reason is that there is no device: nothing was learned of the kernel.
    pub no_device: bool,
    /// The judging process could not do its own part: nothing was learned of the contestant.
    pub of_judge: bool,
    /// The address that a fault touched.
    pub address: Option<u64>,
}

impl Loss {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), no_device: false, of_judge: false, address: None }
    }

    /// Nobody's: the judging process got no memory, no process, no secret, or its reference is none.
    pub(crate) fn of_judge(message: impl Into<String>) -> Self {
        Self { of_judge: true, ..Self::new(FailureKind::Setup, message) }
    }
}

/// Starting a worker and loading an object, a GPU context included, may take this long.
const START: Duration = Duration::from_secs(60);

/// How often a contestant that has not answered yet is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// No reply is longer than this.
const LONGEST_REPLY: usize = 1 << 16;

/// Held while a worker is started: its descriptors can be inherited for that long, and no other worker may get them.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a worker that has these descriptors, as numbers in its last argument.
///
/// Nothing is done between fork and exec, so that the system need not fork at all: a judge holds gigabytes, and copying
/// the page tables of these took half the time of a check.
fn with_files(command: &mut Command, files: Vec<OwnedFd>) -> std::io::Result<Child> {
    let _alone = STARTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let beyond = worker::beyond(files.len());
    let mut inherited = Vec::new();
    for file in files {
        let twin = rustix::io::fcntl_dupfd_cloexec(&file, beyond)?;
        rustix::io::fcntl_setfd(&twin, rustix::io::FdFlags::empty())?;
        inherited.push(twin);
    }
    let numbers: Vec<String> = inherited.iter().map(|file| file.as_raw_fd().to_string()).collect();
    // The twins are closed here, whatever comes of it: with the answer's end open, a worker's death would go unnoticed.
    command.arg(numbers.join(",")).spawn()
}

/// A running worker.
pub(crate) struct Contestant {
    child: Child,
    requests: Option<ChildStdin>,
    replies: std::io::PipeReader,
    unread: Vec<u8>,
    /// Addresses of each attached arena's inputs and outputs, to explain faults.
    addresses: Vec<(u64, u64)>,
    /// Resident bytes that it may have beyond shared memory.
    pub memory: u64,
    /// Bytes of the files it was given.
    given: u64,
    /// Whether what it runs is on a device.
    on_device: bool,
    pub device: String,
    /// What confines it.
    pub sandbox: Sandbox,
}

impl Contestant {
    /// Starts a worker that can map these arenas, and loads the candidate.
    pub(crate) fn start(
        candidate: &Loaded,
        backend: Backend,
        symbols: &[String],
        arenas: &[&Arena],
    ) -> Result<Self, Loss> {
        let files: Vec<_> = arenas.iter().map(|arena| arena.files()).collect();
        let mut contestant = Self::spawn(&files)?;
        contestant.load(candidate, backend, symbols)?;
        Ok(contestant)
    }

    /// Starts a worker that gets these files, inputs and outputs of each arena. It dies with the thread that calls this,
    /// so that a killed judge leaves none behind.
    pub(crate) fn spawn(files: &[(&dyn Given, &dyn Given)]) -> Result<Self, Loss> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Loss::of_judge(format!("{what}: {error}"));
        let (replies, answer) = std::io::pipe().map_err(|error| failed("pipe", &error))?;
        let mut given_files: Vec<OwnedFd> = vec![answer.into()];
        let given = files.iter().map(|(inputs, outputs)| (inputs.resident() + outputs.resident()) as u64).sum();
        for (inputs, outputs) in files {
            for descriptor in [inputs.descriptor(false), outputs.descriptor(true)] {
                given_files.push(descriptor.map_err(|error| failed("shared memory", &error))?);
            }
        }
        let program = std::env::current_exe().map_err(|error| failed("this program's path", &error))?;
        let mut command = command(&program);
        let mut child = with_files(&mut command, given_files).map_err(|error| failed("worker", &error))?;
        let requests = child.stdin.take();
        let (unread, addresses, device) = (Vec::new(), Vec::new(), String::new());
        let sandbox = Sandbox::default();
        let (memory, on_device) = (u64::MAX, false);
        Ok(Self { child, requests, replies, unread, addresses, memory, given, on_device, device, sandbox })
    }

    /// Loads the candidate.
    pub(crate) fn load(&mut self, candidate: &Loaded, backend: Backend, symbols: &[String]) -> Result<(), Loss> {
        let mut symbols = if candidate.class == Class::Device { candidate.kernels.clone() } else { symbols.to_vec() };
        let prepare = |op: &String| ["prepare_size", "prepare"].map(|function| format!("{op}_{function}"));
        symbols.extend(candidate.prepares.iter().flat_map(prepare));
        let object = candidate.object.to_string();
        self.on_device = backend != Backend::Cpu;
        let (class, without) = (candidate.class, candidate.without.clone());
        match self.ask(&Request::Load { version: WIRE_VERSION, backend, class, object, symbols, without }, START)? {
            Reply::Loaded { device, sandbox } => (self.device, self.sandbox) = (device, sandbox),
            other => return Err(out_of_turn(&other)),
        }
        // Constructors have run. Calls are filtered, and by nobody else's filter, which could answer in the system's place.
        self.is_filtered(1)
    }

    /// Measures what a device can do at most, in a process that loads nothing.
    pub(crate) fn ceilings(backend: Backend, limit: Duration) -> Result<Reply, Loss> {
        match Self::spawn(&[])?.ask(&Request::Ceilings { backend }, limit)? {
            found @ Reply::Ceilings { .. } => Ok(found),
            other => Err(out_of_turn(&other)),
        }
    }

    /// That the system filters its calls by so many filters, where it said that it does.
    fn is_filtered(&self, filters: u32) -> Result<(), Loss> {
        let claimed = |guard: &Guard| guard.defence == Defence::SystemCalls && guard.force == Force::Whole;
        let number = |status: &str| -> Option<u32> {
            status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse().ok())
        };
        // Systems before 5.9 do not count them, and a process that is gone is found out otherwise. Those of this process are
        // inherited.
        let inherited = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| number(&status));
        let wanted = inherited.unwrap_or(0) + filters;
        match number(&self.status()) {
            Some(found) if found != wanted && self.sandbox.guards.iter().any(claimed) => {
                let message = format!("its system calls go through {found} filters, and should go through {wanted}");
                Err(Loss::new(FailureKind::ForbiddenCall, message))
            }
            _ => Ok(()),
        }
    }

    /// The system's word on its process; empty when it is gone.
    fn status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default()
    }

    /// Maps an arena, the next in the order given to [`Self::start`]; returns its number.
    pub(crate) fn attach(&mut self, arena: wire::Arena) -> Result<usize, Loss> {
        match self.ask(&Request::Attach(arena), START)? {
            Reply::Attached { inputs, outputs } => {
                self.addresses.push((inputs, outputs));
                Ok(self.addresses.len() - 1)
            }
            other => Err(out_of_turn(&other)),
        }
    }

    /// Calls an entry once; anything but success is a loss.
    pub(crate) fn call(&mut self, arena: usize, entry: usize, window: usize, limit: Duration) -> Result<(), Loss> {
        match self.ask(&Request::Call { arena, entry, window }, limit)? {
            Reply::Called { status: 0 } => Ok(()),
            Reply::Called { status } => {
                Err(Loss::new(FailureKind::ReturnedError, format!("the entry returned {status}, not 0")))
            }
            other => Err(out_of_turn(&other)),
        }
    }

    /// Seconds of a timed run.
    pub(crate) fn time(&mut self, request: &Request, limit: Duration) -> Result<f64, Loss> {
        match self.ask(request, limit)? {
            Reply::Timed { seconds } => Ok(seconds),
            other => Err(out_of_turn(&other)),
        }
    }

    /// One request, one reply.
    pub(crate) fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, Loss> {
        let turn = getrandom::u64().map_err(|error| Loss::of_judge(error.to_string()))?.max(1);
        let line =
            serde_json::to_string(&Turn { turn, says: request }).map_err(|error| Loss::of_judge(error.to_string()))?;
        let sent = match &mut self.requests {
            Some(requests) => requests.write_all((line + "\n").as_bytes()),
            None => Ok(()),
        };
        if sent.is_err() {
            return Err(self.ended(None));
        }
        let Some(line) = self.read_line(limit)? else { return Err(self.ended(None)) };
        let Ok(reply) = serde_json::from_slice::<Turn<Reply>>(&line) else {
            return Err(Loss::new(FailureKind::Protocol, "the process answered with something that is no reply"));
        };
        match reply.says {
            Reply::Fault { signal, address } => return Err(self.ended(Some((signal, address)))),
            Reply::Forbidden { call } => {
                return Err(Loss::new(FailureKind::ForbiddenCall, sandbox::forbidden(call)));
            }
            _ => {}
        }
        if reply.turn != turn || !self.unread.is_empty() {
            return Err(Loss::new(FailureKind::Protocol, "the process answered a question that it was not asked"));
        }
        match reply.says {
            Reply::Failed { message, blame } => {
                let kind = match blame {
                    Blame::Setup | Blame::NoDevice => FailureKind::Setup,
                    Blame::NoMemory if self.on_device => FailureKind::NoMemory,
                    // No worker says so that has none: it wants not to be judged.
                    Blame::NoMemory => FailureKind::Protocol,
                    Blame::Kernel => FailureKind::Crashed,
                    Blame::Returned => FailureKind::ReturnedError,
                    Blame::CallingConvention => FailureKind::CallingConvention,
                };
                Err(Loss { no_device: blame == Blame::NoDevice, ..Loss::new(kind, message) })
            }
            reply => Ok(reply),
        }
    }

    /// A line of the channel; none if it was closed.
    fn read_line(&mut self, limit: Duration) -> Result<Option<Vec<u8>>, Loss> {
        let deadline = Instant::now() + limit;
        let mut is_dead = false;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.unread.len() > LONGEST_REPLY {
                return Err(Loss::new(FailureKind::Protocol, "the worker's reply has no end"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message =
                    format!("no answer within {:.1} s: the kernel hangs or is far too slow", limit.as_secs_f64());
                return Err(Loss::new(FailureKind::TimedOut, message));
            }
            let timeout = Timespec::try_from(left.min(LOOK)).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            let mut descriptors = [PollFd::from_borrowed_fd(self.replies.as_fd(), PollFlags::IN)];
            match poll(&mut descriptors, Some(&timeout)) {
                // What it started may hold the channel open when it is dead. Its last words were waited for once more.
                Ok(0) if is_dead => return Ok(None),
                Ok(0) => {
                    if let Some(loss) = self.takes_too_much() {
                        return Err(loss);
                    }
                    is_dead = matches!(self.child.try_wait(), Ok(Some(_)));
                    continue;
                }
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(Loss::of_judge(format!("poll: {error}"))),
            }
            let mut chunk = [0; 4096];
            match self.replies.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(read) => self.unread.extend_from_slice(&chunk[..read]),
                Err(error) => return Err(Loss::of_judge(format!("read: {error}"))),
            }
        }
    }

    /// Whether it has more memory than it may.
    pub(crate) fn takes_too_much(&self) -> Option<Loss> {
        let taken = self.own_memory();
        (taken > self.memory).then(|| {
            let message = format!("took {} MiB of memory, and may take {}", taken >> 20, self.memory >> 20);
            Loss::new(FailureKind::MemoryLimit, message)
        })
    }

    /// Resident memory of its own: private, and shared beyond what it was given.
    fn own_memory(&self) -> u64 {
        let text = self.status();
        let bytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
        };
        bytes("RssAnon:") + bytes("RssShmem:").saturating_sub(self.given)
    }

    /// Stops it, and whatever it started in its group, until it is let go: who waits for a turn does not run.
    pub(crate) fn halt(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn let_go(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Begins to end it; who lets it go waits for that.
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // Fails only when nobody is left in it, which the next request finds out.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What a closed channel or a fault means.
    fn ended(&mut self, fault: Option<(i32, u64)>) -> Loss {
        self.requests = None;
        // It has closed its end of the pipe or is about to die; one that does neither is killed by `drop`.
        let mut status = None;
        for _ in 0..200 {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match (fault, status) {
            (Some((NOT_ITS_OWN, address)), _) => {
                let message = format!(
                    "wrote to memory of the process that is not its own, at address {address:#x} (nor is the C library's: \
                     no allocation, no printing, no exit in a call)"
                );
                Loss { address: Some(address), ..Loss::new(FailureKind::OutOfBounds, message) }
            }
            (Some((TOO_DEEP, _)), _) => {
                Loss::new(FailureKind::Crashed, "went deeper than the 256 KiB of stack that a call has")
            }
            (Some((signal, address)), _) => {
                let message = format!("died of {} at address {address:#x}", signal_name(signal));
                Loss { address: Some(address), ..Loss::new(FailureKind::Crashed, message) }
            }
            (None, Some(status)) => match (status.signal(), status.code()) {
                // A call of another architecture, or one whose signal it had blocked.
                (Some(libc::SIGSYS), _) => {
                    Loss::new(FailureKind::ForbiddenCall, "made a system call that a kernel may not")
                }
                (Some(signal), _) => Loss::new(FailureKind::Crashed, format!("died of {}", signal_name(signal))),
                (None, code) => {
                    let code = code.unwrap_or_default();
                    Loss::new(FailureKind::Exited, format!("the process exited with code {code} instead of answering"))
                }
            },
            (None, None) => Loss::new(FailureKind::Exited, "the process closed its channel instead of answering"),
        }
    }

    /// The file and offset that an address of an arena belongs to: (written, offset).
    pub(crate) fn locate(&self, arena: usize, address: u64, lens: (usize, usize)) -> Option<(bool, usize)> {
        let (inputs, outputs) = *self.addresses.get(arena)?;
        let within = |base: u64, len: usize| {
            let offset = usize::try_from(address.checked_sub(base)?).ok()?;
            (base != 0 && offset < len).then_some(offset)
        };
        within(inputs, lens.0)
            .map(|offset| (false, offset))
            .or_else(|| within(outputs, lens.1).map(|offset| (true, offset)))
    }
}

impl Contestant {
    /// Ends it, and whatever it started: the whole group, since a kernel may have forked.
    pub(crate) fn end(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        self.end();
    }
}

/// What starts a worker.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(worker::ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The system would write to a sequence that the C library registers also while a call's memory is fenced in.
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        // A launcher's kernels cannot be loaded while its work is recorded.
        .env("CUDA_MODULE_LOADING", "EAGER")
        .process_group(0);
    for name in environment::OF_SEEDS {
        command.env_remove(name);
    }
    command
}

fn out_of_turn(reply: &Reply) -> Loss {
    Loss::new(FailureKind::Protocol, format!("the worker answered out of turn: {reply:?}"))
}

fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL (an instruction this machine does not have)".to_owned(),
        6 => "SIGABRT".to_owned(),
        7 => "SIGBUS".to_owned(),
        8 => "SIGFPE".to_owned(),
        9 => "SIGKILL".to_owned(),
        11 => "SIGSEGV".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_contestant_is_told_what_is_drawn() {
        let command = command(Path::new("worker"));
        for name in ["KOPT_SEED", "KOPT_SEEDS"] {
            assert!(command.get_envs().any(|(known, value)| known == name && value.is_none()), "{name}");
        }
    }
}
