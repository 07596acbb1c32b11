//! Where a kernel runs, seen from inside a worker. One trait, one module a backend, one conformance suite for all
//! (`conformance.rs`).

mod conformance;
pub(crate) mod cpu;
pub(crate) mod gpu;

use std::os::fd::OwnedFd;

use kopt_schema::manifest;
use kopt_schema::message::FailureKind;
use kopt_schema::sandbox::Defence;
use kopt_schema::wire::{Arena, Blame};

pub(crate) use cpu::stack;
pub(crate) use cpu::stack::{clean_calls, fenced_calls};

use super::contestant::Loss;

/// Why a backend could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    /// There is no such device here.
    #[error("no device: {0}")]
    NoDevice(String),
    /// The device has no memory left.
    #[error("the device has no memory left for it; does another process use it? ({0})")]
    NoMemory(String),
    /// The kernel faulted on the device.
    #[error("{0}")]
    Fault(String),
    /// An entry returned this instead of 0.
    #[error("the entry returned {0}, not 0")]
    Returned(i32),
    /// An entry returned with the processor in another state than a function may leave it in.
    #[error("{0}")]
    CallingConvention(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl BackendError {
    pub(crate) fn blame(&self) -> Blame {
        match self {
            Self::NoDevice(_) => Blame::NoDevice,
            Self::NoMemory(_) => Blame::NoMemory,
            Self::Fault(_) => Blame::Kernel,
            Self::Returned(_) => Blame::Returned,
            Self::CallingConvention(_) => Blame::CallingConvention,
            Self::Failed(_) => Blame::Setup,
        }
    }
}

/// What goes wrong with the judge's own device says nothing of a contestant.
impl From<BackendError> for Loss {
    fn from(error: BackendError) -> Self {
        let no_device = matches!(error, BackendError::NoDevice(_));
        let kind = if matches!(error, BackendError::NoMemory(_)) { FailureKind::NoMemory } else { FailureKind::Setup };
        Self { kind, no_device, ..Self::of_judge(format!("the judge's memory: {error}")) }
    }
}

impl From<std::io::Error> for BackendError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Measured ceilings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceilings {
    pub copy_bytes_per_s: f64,
    pub read_bytes_per_s: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    pub fma_flops_per_s: Option<f64>,
}

/// Which calls to time.
#[derive(Debug, Clone)]
pub(crate) struct Timing<'a> {
    pub arena: usize,
    pub entries: &'a [usize],
    pub windows: &'a [usize],
    pub cold: bool,
    pub calls: u64,
    pub processor: bool,
    pub handicap: f64,
}

/// A device with a loaded candidate.
pub(crate) trait Backend {
    /// The device's name.
    fn device(&mut self) -> Result<String, BackendError>;

    /// Loads the object and finds the functions.
    fn load(&mut self, object: &str, symbols: &[String]) -> Result<(), BackendError>;

    /// Loads a launcher, whose host code queues the work, and finds its entries.
    fn load_launcher(&mut self, _object: &str, _symbols: &[String]) -> Result<(), BackendError> {
        Err(BackendError::Failed("class launcher is for GPUs".to_owned()))
    }

    /// Maps an arena. Returns the addresses of inputs and outputs where the host's are used.
    fn attach(&mut self, arena: &Arena, inputs: OwnedFd, outputs: OwnedFd) -> Result<(u64, u64), BackendError>;

    /// Calls an entry once; outputs are in the shared file afterwards.
    fn call(&mut self, arena: usize, entry: usize, window: usize) -> Result<i32, BackendError>;

    /// Times calls; seconds in all.
    fn time(&mut self, timing: &Timing<'_>) -> Result<f64, BackendError>;

    /// Asks a function of the host for a number of bytes.
    fn size(&mut self, symbol: &str, _args: &[u8]) -> Result<i64, BackendError> {
        Err(BackendError::Failed(format!("`{symbol}`: kernels of this backend prepare nothing")))
    }

    /// Measures what the device can do at most.
    fn ceilings(&mut self) -> Result<Ceilings, BackendError>;
}

/// The backend of a manifest, without some of its defences.
pub(crate) fn open(backend: manifest::Backend, without: &[Defence]) -> Result<Box<dyn Backend>, BackendError> {
    match backend {
        manifest::Backend::Cpu => {
            let has = |defence| !without.contains(&defence);
            Ok(Box::new(cpu::Cpu::open(has(Defence::CleanCalls), has(Defence::Memory))?))
        }
        manifest::Backend::Cuda | manifest::Backend::Hip => Ok(Box::new(gpu::Gpu::open(gpu::driver_of(backend)?)?)),
    }
}
