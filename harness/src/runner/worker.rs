//! The process that runs a candidate: it obeys requests, one at a time, and decides nothing. Any test or bench binary
//! of a kernel crate becomes one when it is started with [`ARGUMENT`].
//!
//! It opens its channel and its memory before it loads the candidate, confines itself (`sandbox`), dies with the process
//! that started it, and reports the address of a fault or the number of a forbidden system call as its last words, so that
//! the judge can say which buffer was meant, and which call.

#![allow(unsafe_code, reason = "owns descriptors, and handles faults of foreign code")]

use std::fs::File;
use std::io::{BufRead, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;

use camino::Utf8Path;
use kopt_schema::manifest::Class;
use kopt_schema::wire::{Blame, FIRST_MEMORY_FD, NOT_ITS_OWN, REPLY_FD, Reply, Request, TOO_DEEP, Turn, WIRE_VERSION};

use super::backend::{self, Backend, BackendError, Timing, stack};
use super::sandbox::{self, Confinement, Pass};

/// The first argument of a worker; the second is the numbers of its descriptors.
pub(crate) const ARGUMENT: &str = "--kopt-worker";

/// Numbers of descriptors from here on are none that a worker with so many puts them at.
pub(crate) fn beyond(files: usize) -> i32 {
    i32::try_from(files).unwrap_or(0) + FIRST_MEMORY_FD + 64
}

/// Puts the descriptors that the judge passed on, by their numbers, where they belong: the channel first, then the memory.
fn settle() -> Option<()> {
    let numbers = std::env::args().nth(2)?;
    for (place, number) in (REPLY_FD..).zip(numbers.split(',')) {
        let number: i32 = number.parse().ok()?;
        // SAFETY: plain system calls on numbers; this process has opened nothing at either yet.
        if unsafe { libc::dup2(number, place) } < 0 || unsafe { libc::close(number) } < 0 {
            return None;
        }
    }
    Some(())
}

/// If this process was started as a worker, serves until the channel closes.
pub(crate) fn serve_if_asked() -> Option<ExitCode> {
    std::env::args_os().nth(1).filter(|argument| argument == ARGUMENT)?;
    Some(serve())
}

fn serve() -> ExitCode {
    // A judge that is killed must not leave a kernel running.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if settle().is_none() {
        return ExitCode::FAILURE;
    }
    catch_faults();
    // SAFETY: the judge opened this descriptor for the worker, and nothing else in this process uses it.
    let mut replies = unsafe { File::from_raw_fd(REPLY_FD) };
    let mut state = State { backend: None, next_fd: FIRST_MEMORY_FD, confinement: None };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (turn, says) = match serde_json::from_str::<Turn<Request>>(&line) {
            Ok(request) => (
                request.turn,
                state
                    .obey(request.says)
                    .unwrap_or_else(|error| Reply::Failed { blame: error.blame(), message: error.to_string() }),
            ),
            Err(error) => (0, Reply::Failed { message: format!("not a request: {error}"), blame: Blame::Setup }),
        };
        let Ok(mut text) = serde_json::to_string(&Turn { turn, says }) else { break };
        text.push('\n');
        if replies.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    // At once: whatever the candidate wanted done at the end is not, and the runtime's own end takes forbidden calls.
    // SAFETY: ends the process; nothing of it is needed any more.
    unsafe { libc::_exit(0) }
}

struct State {
    backend: Option<Box<dyn Backend>>,
    next_fd: i32,
    confinement: Option<Confinement>,
}

impl State {
    fn obey(&mut self, request: Request) -> Result<Reply, BackendError> {
        match request {
            Request::Load { version, backend, class, object, symbols, without } => {
                if version != WIRE_VERSION {
                    return Err(BackendError::Failed(format!("protocol {version} is not {WIRE_VERSION}")));
                }
                let opened = self.backend.insert(backend::open(backend, &without)?);
                let device = opened.device()?;
                let draw = || getrandom::u64().map_err(|error| BackendError::Failed(error.to_string()));
                let pass = Pass { first: draw()?, second: draw()? };
                let confinement = sandbox::enter(backend, class, Utf8Path::new(&object), &without, pass);
                let sandbox = confinement.sandbox.clone();
                self.confinement = Some(confinement);
                match class {
                    Class::Launcher => opened.load_launcher(&object, &symbols)?,
                    Class::Native | Class::Device => opened.load(&object, &symbols)?,
                }
                return Ok(Reply::Loaded { device, sandbox });
            }
            Request::Ceilings { backend } if self.backend.is_none() => {
                let mut opened = backend::open(backend, &[])?;
                let (device, ceilings) = (opened.device()?, opened.ceilings()?);
                return Ok(Reply::Ceilings {
                    device,
                    copy_bytes_per_s: ceilings.copy_bytes_per_s,
                    read_bytes_per_s: ceilings.read_bytes_per_s,
                    write_bytes_per_s: ceilings.write_bytes_per_s,
                    fma_flops_per_s: ceilings.fma_flops_per_s,
                });
            }
            _ => {}
        }
        if matches!(request, Request::Call { .. } | Request::Time { .. } | Request::Size { .. }) {
            self.confinement.as_mut().map_or(Ok(()), Confinement::seal)?;
        }
        let backend = self.backend.as_mut().ok_or_else(|| BackendError::Failed("nothing is loaded".to_owned()))?;
        match request {
            Request::Load { .. } | Request::Ceilings { .. } => {
                Err(BackendError::Failed("something is loaded already".to_owned()))
            }
            Request::Attach(arena) => {
                // SAFETY: the judge passes two descriptors an arena, in order, and each is taken once.
                let (inputs, outputs) =
                    unsafe { (OwnedFd::from_raw_fd(self.next_fd), OwnedFd::from_raw_fd(self.next_fd + 1)) };
                self.next_fd += 2;
                let (inputs, outputs) = backend.attach(&arena, inputs, outputs)?;
                Ok(Reply::Attached { inputs, outputs })
            }
            Request::Call { arena, entry, window } => {
                backend.call(arena, entry, window).map(|status| Reply::Called { status })
            }
            Request::Time { arena, entries, windows, cold, calls, processor, handicap } => {
                let timing = Timing { arena, entries: &entries, windows: &windows, cold, calls, processor, handicap };
                backend.time(&timing).map(|seconds| Reply::Timed { seconds })
            }
            Request::Size { symbol, args } => backend.size(&symbol, &args).map(|bytes| Reply::Size { bytes }),
        }
    }
}

/// Installs a handler that writes the address of a fault, or the number of a forbidden call, to the channel and ends the
/// process. None of the candidate's code runs before, and none may change it afterwards.
fn catch_faults() {
    const STACK: usize = 64 << 10;
    // SAFETY: the alternate stack is leaked and so outlives every signal; the handler only formats into its own frame,
    // calls write and exit, and reads one static, all of which a signal handler may do.
    unsafe {
        let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
        let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
        libc::sigaltstack(&alternate, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = report_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS] {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Code of a fault by a memory key (`SEGV_PKUERR`).
const KEY_FAULT: i32 = 4;

extern "C" fn report_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as u64;
    // SAFETY: as above.
    let is_fenced = signal == libc::SIGSEGV && unsafe { (*info).si_code } == KEY_FAULT;
    let told = match signal {
        libc::SIGSEGV if stack::overflows(address) => TOO_DEEP,
        _ if is_fenced => NOT_ITS_OWN,
        _ => signal,
    };
    let mut line = [0u8; 96];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            if at < line.len() {
                line[at] = *byte;
                at += 1;
            }
        }
    };
    let mut digits = [0u8; 20];
    if signal == libc::SIGSYS {
        // SAFETY: for this signal the system puts an address, then the call's number, behind the three words that every
        // siginfo begins with; the layout is the same on all architectures of 64 bits.
        let call = unsafe { info.cast::<i32>().add(6).read() };
        put(b"{\"turn\":0,\"says\":{\"forbidden\":{\"call\":");
        put(decimal(u64::from(call.unsigned_abs()), &mut digits));
    } else {
        put(b"{\"turn\":0,\"says\":{\"fault\":{\"signal\":");
        if told < 0 {
            put(b"-");
        }
        put(decimal(u64::from(told.unsigned_abs()), &mut digits));
        put(b",\"address\":");
        put(decimal(address, &mut digits));
    }
    put(b"}}}\n");
    // SAFETY: the bytes are this frame's own. Ending here and not by the signal: the candidate's frames never run again.
    unsafe {
        libc::write(REPLY_FD, line.as_ptr().cast(), at);
        libc::_exit(128 + signal);
    }
}

/// Digits without allocating, for the signal handler.
fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_without_allocation() {
        let mut digits = [0; 20];
        for value in [0, 7, 10, 12345, u64::MAX] {
            assert_eq!(super::decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
