//! A GPU through its driver, loaded at run time: a machine without one builds and runs everything else.
//!
//! The object is device code (a cubin, a code object), and one call is what the launch plan says: no host code of the
//! candidate exists. Or it is a launcher, whose host code queues the work: that is recorded, and trusted less. What differs
//! between vendors is behind one trait; nothing of HIP has run on hardware, only on a stand-in for its library
//! (`harness/tests/hip`).
//!
//! | module | what |
//! |---|---|
//! | `driver` | what is asked of a driver, and errors that name their call |
//! | `cuda` | NVIDIA's, through cudarc |
//! | `hip` | AMD's, through `libamdhip64` |
//! | `device` | the first device and its context |
//! | `memory` | buffers, and pages that one process owns and others map |
//! | `object` | what is loaded: device code, or a launcher |
//! | `launch` | one call of a launch plan, or of a launcher |
//! | `tiles` | tensor maps of a call, for each window |
//! | `recording` | what a launcher queues |
//! | `apart` | one whose buffers are apart, for tools that watch memory |
//! | `clock` | events, and caches that hold nothing of the next call |
//! | `ceilings` | what the device can do at most |
//! | `gauge` | what holds the clocks back |
//! | `table` | the judge's own kernels |

#![allow(unsafe_code, reason = "the driver's interface")]

mod apart;
mod ceilings;
mod clock;
mod cuda;
mod device;
pub(crate) mod driver;
pub(crate) mod gauge;
pub(crate) mod hip;
mod launch;
pub(crate) mod memory;
mod object;
mod recording;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;
mod tiles;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kopt_schema::manifest;
use kopt_schema::wire::Arena;

use self::clock::Clock;
use self::device::Device;
use self::driver::{Access, Driver};
use self::launch::Prepared;
use self::memory::{Buffer, Pages};
use self::object::Object;
use super::{Backend, BackendError, Ceilings, Timing};
use crate::runner::memory::Mapping;

/// The driver of a backend.
pub(crate) fn driver_of(backend: manifest::Backend) -> Result<&'static dyn Driver, BackendError> {
    match backend {
        manifest::Backend::Cpu => Err(BackendError::NoDevice("the processor is no GPU".to_owned())),
        manifest::Backend::Cuda => cuda::Cuda::load(),
        manifest::Backend::Hip => hip::load(),
    }
}

/// A GPU with a loaded object.
pub(crate) struct Gpu {
    device: Arc<Device>,
    object: Object,
    arenas: Vec<Attached>,
    clock: Option<Clock>,
    /// Calls before which scratch memory was spoiled.
    spoiled: u64,
}

struct Attached {
    memory: Memory,
    calls: Vec<Prepared>,
}

/// The memory of an arena, as kernels see it. Inputs can only be read: a write to one is a fault.
enum Memory {
    /// The judge's own.
    Judges { inputs: Pages, outputs: Pages },
    /// Inputs were copied from the host once; outputs go there and back with each call, as a whole, so that what was written
    /// between them is seen.
    Copied { inputs: Pages, outputs: Buffer, host: Mapping },
}

impl Memory {
    fn addresses(&self) -> [u64; 2] {
        match self {
            Self::Judges { inputs, outputs } => [inputs.address, outputs.address],
            Self::Copied { inputs, outputs, .. } => [inputs.address, outputs.address],
        }
    }
}

impl Gpu {
    /// Takes the first device.
    pub(crate) fn open(driver: &'static dyn Driver) -> Result<Self, BackendError> {
        let device = Arc::new(Device::open(driver)?);
        // A candidate must not keep data in the second-level cache.
        driver.forbid_persisting();
        Ok(Self { device, object: Object::Device(Vec::new()), arenas: Vec::new(), clock: None, spoiled: 0 })
    }

    fn map(&self, arena: &Arena, inputs: OwnedFd, outputs: OwnedFd) -> Result<Memory, BackendError> {
        let device = &self.device;
        if arena.on_device {
            return Ok(Memory::Judges {
                inputs: Pages::import(device, inputs, arena.input_len, Access::Read)?,
                outputs: Pages::import(device, outputs, arena.output_len, Access::ReadWrite)?,
            });
        }
        // The device has no fences: the pattern in their place shows what was written there.
        let read = Mapping::new(inputs, arena.input_len, false, &[])?;
        let host = Mapping::new(outputs, arena.output_len, true, &[])?;
        // SAFETY: the mapping is this long, and the judge writes to it only before it asks for this.
        let bytes = unsafe { std::slice::from_raw_parts(read.address(0), arena.input_len) };
        let inputs = Pages::sealed(device, bytes)?;
        Ok(Memory::Copied { inputs, outputs: Buffer::new(device, arena.output_len)?, host })
    }

    fn attached(&self, arena: usize) -> Result<&Attached, BackendError> {
        self.arenas.get(arena).ok_or_else(|| BackendError::Failed("no such arena".to_owned()))
    }
}

impl Backend for Gpu {
    fn device(&mut self) -> Result<String, BackendError> {
        self.device.name()
    }

    fn load(&mut self, object: &str, symbols: &[String]) -> Result<(), BackendError> {
        self.object = Object::device(self.device.driver, object, symbols)?;
        Ok(())
    }

    fn load_launcher(&mut self, object: &str, symbols: &[String]) -> Result<(), BackendError> {
        self.object = Object::launcher(object, symbols)?;
        // Constructors have run.
        self.device.here()
    }

    fn attach(&mut self, arena: &Arena, inputs: OwnedFd, outputs: OwnedFd) -> Result<(u64, u64), BackendError> {
        let memory = self.map(arena, inputs, outputs)?;
        let addresses = memory.addresses();
        let prepared = |entry| Prepared::new(&self.device, &self.object, arena, addresses, entry);
        let calls = arena.entries.iter().map(prepared).collect::<Result<_, _>>()?;
        // Host code of a launcher may have allowed some, and runs no more from here on.
        self.device.driver.forbid_persisting();
        self.arenas.push(Attached { memory, calls });
        Ok((0, 0))
    }

    fn call(&mut self, arena: usize, entry: usize, window: usize) -> Result<i32, BackendError> {
        let spoiled = self.spoiled;
        self.spoiled = spoiled.wrapping_add(1);
        let attached = self.attached(arena)?;
        let prepared = attached.calls.get(entry).ok_or_else(|| BackendError::Failed("no such entry".to_owned()))?;
        if let Memory::Copied { outputs, host, .. } = &attached.memory {
            // SAFETY: the mapping is as long as the buffer, and the judge touches it only between requests.
            let poisoned = unsafe { std::slice::from_raw_parts(host.address(0), outputs.len) };
            memory::upload(&self.device, outputs.address, poisoned)?;
        }
        prepared.spoil(&self.device, spoiled)?;
        prepared.enqueue(&self.device, window)?;
        self.device.settle()?;
        if let Memory::Copied { outputs, host, .. } = &attached.memory {
            // SAFETY: as above.
            let results = unsafe { std::slice::from_raw_parts_mut(host.address(0), outputs.len) };
            memory::download(&self.device, outputs.address, results)?;
        }
        Ok(0)
    }

    fn time(&mut self, timing: &Timing<'_>) -> Result<f64, BackendError> {
        let spoiled = self.spoiled;
        self.spoiled = spoiled.wrapping_add(timing.calls.max(1));
        if self.clock.is_none() {
            self.clock = Some(Clock::new(&self.device)?);
        }
        let Some(clock) = &self.clock else { return Err(BackendError::Failed("no clock".to_owned())) };
        let attached = self.attached(timing.arena)?;
        let run = |call: u64| {
            let window = timing.windows[usize::try_from(call).unwrap_or(0) % timing.windows.len()];
            timing.entries.iter().try_for_each(|entry| attached.calls[*entry].enqueue(&self.device, window))
        };
        // Scratch memory is no memory of past calls. Hot calls, which nothing is decided by, are spoiled once.
        let ready = |call: u64| {
            let spoiled = spoiled.wrapping_add(call);
            timing.entries.iter().try_for_each(|entry| attached.calls[*entry].spoil(&self.device, spoiled))
        };
        let seconds = match timing.cold {
            true => clock.cold(timing.calls, ready, run)?,
            false => ready(0).and_then(|()| clock.hot(timing.calls, run))?,
        };
        self.device.settle()?;
        // A wait of some hundred nanoseconds cannot be put behind each kernel exactly: the known slowdown is waited for
        // once, here, so that the judge's clock sees it too.
        let end = Instant::now() + Duration::from_secs_f64(seconds * timing.handicap);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        Ok(seconds * (1.0 + timing.handicap))
    }

    fn ceilings(&mut self) -> Result<Ceilings, BackendError> {
        ceilings::measure(&self.device)
    }
}
