//! The driver, its first device, and a context: what both a worker and a judge start from. Every call is checked, and an
//! error names the call that it came from.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::super::BackendError;

/// A device with its primary context and a stream of this process's own.
#[derive(Debug)]
pub(crate) struct Device {
    pub id: sys::CUdevice,
    pub stream: sys::CUstream,
    context: sys::CUcontext,
}

// SAFETY: context and stream are handles of the driver, which may be used from any thread that has made the context
// current; every use here does so first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Device {}

impl Device {
    /// Takes the first device, and makes its context current for this thread.
    pub(crate) fn open() -> Result<Self, BackendError> {
        // SAFETY: only looks whether the library can be loaded. cudarc panics later if it cannot.
        if !unsafe { sys::is_culib_present() } {
            return Err(BackendError::NoDevice("the CUDA driver (libcuda) is not installed".to_owned()));
        }
        result::init().of("cuInit")?;
        if result::device::get_count().of("cuDeviceGetCount")? == 0 {
            return Err(BackendError::NoDevice("the driver lists no GPU".to_owned()));
        }
        let id = result::device::get(0).of("cuDeviceGet")?;
        // SAFETY: the device is valid; the context is retained for the life of this process.
        let context = unsafe { result::primary_ctx::retain(id) }.of("cuDevicePrimaryCtxRetain")?;
        let mut device = Self { id, stream: std::ptr::null_mut(), context };
        device.here()?;
        device.stream = result::stream::create(result::stream::StreamKind::NonBlocking).of("cuStreamCreate")?;
        Ok(device)
    }

    /// Makes the context current for this thread: what every other call relies on.
    pub(crate) fn here(&self) -> Result<(), BackendError> {
        // SAFETY: the context is retained for the life of this process.
        unsafe { result::ctx::set_current(self.context) }.of("cuCtxSetCurrent")
    }

    pub(crate) fn name(&self) -> Result<String, BackendError> {
        result::device::get_name(self.id).of("cuDeviceGetName")
    }

    pub(crate) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<usize, BackendError> {
        // SAFETY: the device is valid.
        let value = unsafe { result::device::get_attribute(self.id, attribute) }.of("cuDeviceGetAttribute")?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// Waits for everything that was queued.
    pub(crate) fn synchronize(&self) -> Result<(), BackendError> {
        // SAFETY: the stream is this value's own.
        unsafe { result::stream::synchronize(self.stream) }.of("cuStreamSynchronize")
    }
}

/// A driver's result, with the call that it came from.
pub(super) trait Named<T> {
    fn of(self, call: &str) -> Result<T, BackendError>;
}

impl<T> Named<T> for Result<T, DriverError> {
    fn of(self, call: &str) -> Result<T, BackendError> {
        self.map_err(|error| named(call, error))
    }
}

impl Named<()> for sys::CUresult {
    fn of(self, call: &str) -> Result<(), BackendError> {
        self.result().of(call)
    }
}

fn named(call: &str, error: DriverError) -> BackendError {
    use sys::cudaError_enum as code;
    let text = format!("CUDA, {call}: {error}");
    match error.0 {
        code::CUDA_ERROR_NO_DEVICE | code::CUDA_ERROR_INVALID_DEVICE => BackendError::NoDevice(text),
        code::CUDA_ERROR_ILLEGAL_ADDRESS => {
            BackendError::Fault(format!("touched memory that it may not, or wrote to an input ({text})"))
        }
        code::CUDA_ERROR_MISALIGNED_ADDRESS
        | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | code::CUDA_ERROR_INVALID_PC
        | code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | code::CUDA_ERROR_LAUNCH_TIMEOUT
        | code::CUDA_ERROR_LAUNCH_FAILED
        | code::CUDA_ERROR_ASSERT => BackendError::Fault(text),
        _ => BackendError::Failed(text),
    }
}
