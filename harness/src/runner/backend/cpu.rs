//! The host's cores: the object is a shared library, an entry one of its functions.
//!
//! | module | what |
//! |---|---|
//! | `stack` | how an entry is called: on a stack of its own, with registers in their first state |
//! | `fence` | what of the process's memory a call may write to |
//! | `flush` | memory out of the caches |
//! | `ceilings` | what the machine can do at most |

#![allow(unsafe_code, reason = "loads and calls foreign code")]

mod ceilings;
#[cfg(target_arch = "x86_64")]
mod fence;
pub(crate) mod flush;
pub(crate) mod stack;

use std::os::fd::OwnedFd;
use std::time::Duration;

use kopt_schema::wire::{Arena, EntryCall};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use self::stack::Caller;
use super::{Backend, BackendError, Ceilings, Timing};
use crate::runner::memory::Mapping;

/// Every function of a kernel's header: an entry and one that tells a size take one argument and leave the second register
/// alone, and of the result an entry's caller takes the lower half.
type Entry = unsafe extern "C" fn(*const u8, *mut u8) -> i64;

/// The CPU backend.
pub(crate) struct Cpu {
    // Functions point into the library: it is never unloaded while they live.
    library: Option<Library>,
    symbols: Vec<(String, Entry)>,
    arenas: Vec<Mapped>,
    slowdown: Slowdown,
    caller: Caller,
}

impl Cpu {
    /// With calls on a stack of their own, and fenced in, or as any function is called.
    pub(crate) fn open(clean_calls: bool, fenced: bool) -> Result<Self, BackendError> {
        // Their first readings look for the system's fast ones, with calls that are forbidden later.
        let _ = [Clock::Wall.now(), Clock::Processor.now()];
        let (symbols, arenas, slowdown) = (Vec::new(), Vec::new(), Slowdown::default());
        Ok(Self { library: None, symbols, arenas, slowdown, caller: Caller::new(clean_calls, fenced)? })
    }
}

struct Mapped {
    buffers: Vec<Vec<(*mut u8, usize)>>,
    calls: Vec<Prepared>,
    _mappings: [Mapping; 2],
}

struct Prepared {
    function: Entry,
    /// The args struct of each window, as 64-bit words so that it is aligned for every field it may have.
    args: Vec<Vec<u64>>,
    /// The second argument in each window, of a function that has one.
    second: Option<Vec<*mut u8>>,
}

impl Prepared {
    fn aim(&self, caller: &mut Caller, window: usize) {
        let second = self.second.as_ref().map_or(std::ptr::null_mut(), |second| second[window]);
        caller.aim(self.function, &self.args[window], second);
    }
}

impl Backend for Cpu {
    fn device(&mut self) -> Result<String, BackendError> {
        Ok(device_name())
    }

    fn load(&mut self, object: &str, symbols: &[String]) -> Result<(), BackendError> {
        // SAFETY: loading runs the object's constructors, in this process whose only purpose is to run it.
        let library = unsafe { Library::open(Some(object), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| BackendError::Failed(format!("the object does not load: {error}")))?;
        for symbol in symbols {
            // SAFETY: the header that declares the entry gives it this type for every kernel.
            let function = unsafe { library.get::<Entry>(symbol.as_bytes()) }
                .map_err(|_| BackendError::Failed(format!("the object has no function `{symbol}`")))?;
            self.symbols.push((symbol.clone(), *function));
        }
        self.library = Some(library);
        self.caller.admit_object(object)?;
        Ok(())
    }

    fn attach(&mut self, arena: &Arena, inputs: OwnedFd, outputs: OwnedFd) -> Result<(u64, u64), BackendError> {
        let inputs = Mapping::new(inputs, arena.input_len, false, &arena.input_fences)?;
        let outputs = Mapping::new(outputs, arena.output_len, true, &arena.output_fences)?;
        for (start, bytes) in between(&arena.output_fences, arena.output_len) {
            self.caller.admit(outputs.address(start), bytes)?;
        }
        let windows = arena.buffers.first().map_or(0, |buffer| buffer.offsets.len());
        let place = |window: usize| -> Vec<(*mut u8, usize)> {
            let file = |written: bool| if written { &outputs } else { &inputs };
            arena
                .buffers
                .iter()
                .map(|buffer| (file(buffer.written).address(buffer.offsets[window]), buffer.bytes))
                .collect()
        };
        let buffers: Vec<_> = (0..windows).map(place).collect();
        let prepare = |entry: &EntryCall| {
            let found = self.symbols.iter().find(|(symbol, _)| *symbol == entry.symbol);
            let (_, function) =
                found.ok_or_else(|| BackendError::Failed(format!("`{}` was not loaded", entry.symbol)))?;
            let args = buffers.iter().map(|window| aligned(&filled(entry, window))).collect();
            let second = entry.second.map(|buffer| buffers.iter().map(|window| window[buffer].0).collect());
            Ok(Prepared { function: *function, args, second })
        };
        let calls = arena.entries.iter().map(prepare).collect::<Result<_, BackendError>>()?;
        let addresses = (inputs.address(0) as u64, outputs.address(0) as u64);
        self.arenas.push(Mapped { buffers, calls, _mappings: [inputs, outputs] });
        Ok(addresses)
    }

    fn call(&mut self, arena: usize, entry: usize, window: usize) -> Result<i32, BackendError> {
        let prepared = self.arenas.get(arena).and_then(|arena| arena.calls.get(entry));
        let Some(prepared) = prepared.filter(|prepared| window < prepared.args.len()) else {
            return Err(BackendError::Failed("no such call".to_owned()));
        };
        self.caller.refresh();
        prepared.aim(&mut self.caller, window);
        // SAFETY: the struct has the size and layout of the header the object was compiled with, and its pointers are
        // mappings that live as long as this process. What the code does beyond that is what is being tested.
        let status = unsafe { self.caller.call() } as i32;
        self.caller.left().map_or(Ok(status), |left| Err(BackendError::CallingConvention(left)))
    }

    fn time(&mut self, timing: &Timing<'_>) -> Result<f64, BackendError> {
        let arena = self.arenas.get(timing.arena).ok_or_else(|| BackendError::Failed("no such arena".to_owned()))?;
        let window_of = |call: u64| timing.windows[usize::try_from(call).unwrap_or(0) % timing.windows.len()];
        let clock = if timing.processor { Clock::Processor } else { Clock::Wall };
        let (mut status, caller) = (0, &mut self.caller);
        let mut seconds = 0.0;
        if timing.cold {
            for call in 0..timing.calls {
                let window = window_of(call);
                for (start, bytes) in &arena.buffers[window] {
                    // SAFETY: a mapping that lives as long as this process; nothing reads through the slice.
                    flush::flush(unsafe { std::slice::from_raw_parts(*start, *bytes) });
                }
                // Entry by entry: between them the stack is made new, which is none of their time.
                let mut call = Duration::ZERO;
                for entry in timing.entries {
                    let prepared = &arena.calls[*entry];
                    caller.refresh();
                    prepared.aim(caller, window);
                    let start = clock.now();
                    // SAFETY: as in `call`.
                    let returned = unsafe { caller.call() } as i32;
                    call += clock.now() - start;
                    if let Some(left) = caller.left() {
                        return Err(BackendError::CallingConvention(left));
                    }
                    // The last that is not 0: a bitwise or would name a number that no entry returned.
                    status = if returned == 0 { status } else { returned };
                }
                seconds += (call + self.slowdown.after(clock, call, timing.handicap)).as_secs_f64();
            }
        } else {
            // What is hot stays hot: one new stack for all calls. Nothing is decided by these times.
            caller.refresh();
            let start = clock.now();
            for call in 0..timing.calls {
                for entry in timing.entries {
                    let prepared = &arena.calls[*entry];
                    prepared.aim(caller, window_of(call));
                    // SAFETY: as in `call`.
                    let returned = unsafe { caller.call() } as i32;
                    status = if returned == 0 { status } else { returned };
                }
            }
            let calls = clock.now() - start;
            if let Some(left) = caller.left() {
                return Err(BackendError::CallingConvention(left));
            }
            seconds = (calls + self.slowdown.after(clock, calls, timing.handicap)).as_secs_f64();
        }
        if status == 0 { Ok(seconds) } else { Err(BackendError::Returned(status)) }
    }

    fn size(&mut self, symbol: &str, args: &[u8]) -> Result<i64, BackendError> {
        let library = self.library.as_ref().ok_or_else(|| BackendError::Failed("nothing is loaded".to_owned()))?;
        // SAFETY: the header that declares the function gives it this type.
        let function = *unsafe { library.get::<Entry>(symbol.as_bytes()) }
            .map_err(|_| BackendError::Failed(format!("the object has no function `{symbol}`")))?;
        let args = aligned(args);
        self.caller.refresh();
        self.caller.aim(function, &args, std::ptr::null_mut());
        // SAFETY: the struct has the header's layout and null pointers, which the function is told not to follow.
        let bytes = unsafe { self.caller.call() };
        self.caller.left().map_or(Ok(bytes), |left| Err(BackendError::CallingConvention(left)))
    }

    fn ceilings(&mut self) -> Result<Ceilings, BackendError> {
        ceilings::measure().map_err(BackendError::from)
    }
}

/// What time is counted.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// The wall's: 20 ns a reading.
    Wall,
    /// This thread's processor time, which stands still while others run: a system call, some 200 ns.
    Processor,
}

impl Clock {
    fn now(self) -> Duration {
        let id = match self {
            Self::Wall => rustix::time::ClockId::Monotonic,
            Self::Processor => rustix::time::ClockId::ThreadCPUTime,
        };
        let now = rustix::time::clock_gettime(id);
        Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    /// Spins for `span`; how long it really was.
    fn spin(self, span: Duration) -> Duration {
        let start = self.now();
        loop {
            let gone = self.now() - start;
            if gone >= span {
                return gone;
            }
            std::hint::spin_loop();
        }
    }
}

/// A known slowdown. Reading the clock takes as long as a hundredth of a short call: what is owed is gathered, over batches
/// too, until it is worth a wait, and what was waited too long is owed less afterwards, so that the whole is exact.
#[derive(Debug, Default)]
struct Slowdown {
    owed_s: f64,
}

impl Slowdown {
    const WORTH_A_WAIT_S: f64 = 2e-6;

    /// Waits for what calls owe, if it is worth it; the time to add to theirs.
    fn after(&mut self, clock: Clock, calls: Duration, share: f64) -> Duration {
        self.owed_s += calls.as_secs_f64() * share;
        if share <= 0.0 || self.owed_s < Self::WORTH_A_WAIT_S {
            return Duration::ZERO;
        }
        let waited = clock.spin(Duration::from_secs_f64(self.owed_s));
        self.owed_s -= waited.as_secs_f64();
        waited
    }
}

/// What lies between the fences of a file.
fn between(fences: &[(usize, usize)], len: usize) -> Vec<(usize, usize)> {
    let mut fences = fences.to_vec();
    fences.sort_unstable();
    let (mut open, mut at) = (Vec::new(), 0);
    for (start, length) in fences.into_iter().chain([(len, 0)]) {
        if start > at {
            open.push((at, start - at));
        }
        at = at.max(start + length);
    }
    open
}

/// The args struct with the addresses of one window.
fn filled(entry: &EntryCall, window: &[(*mut u8, usize)]) -> Vec<u8> {
    let mut args = entry.args.clone();
    for field in &entry.fields {
        if let Some(buffer) = field.buffer {
            let address = window[buffer].0 as u64;
            args[field.offset..field.offset + 8].copy_from_slice(&address.to_le_bytes());
        }
    }
    args
}

fn aligned(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

/// The processor's name.
pub(crate) fn device_name() -> String {
    kopt_schema::machine::processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}
