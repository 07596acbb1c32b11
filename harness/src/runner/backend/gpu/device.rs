//! The first device of a driver, and its context: what both a worker and a judge start from.

use super::super::BackendError;
use super::driver::{Context, Driver, Stream};

/// A device with its context and a stream of this process's own.
#[derive(Debug)]
pub(crate) struct Device {
    pub driver: &'static dyn Driver,
    pub id: i32,
    pub stream: Stream,
    context: Context,
}

// SAFETY: context and stream are handles of the driver, which may be used from any thread that has made the context
// current; every use here does so first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Device {}

impl Device {
    /// Takes the first device, and makes its context current for this thread.
    pub(crate) fn open(driver: &'static dyn Driver) -> Result<Self, BackendError> {
        driver.init()?;
        if driver.count()? == 0 {
            return Err(BackendError::NoDevice("the driver lists no GPU".to_owned()));
        }
        let id = driver.device(0)?;
        let context = driver.context(id)?;
        let mut device = Self { driver, id, stream: Stream(std::ptr::null_mut()), context };
        device.here()?;
        device.stream = driver.stream()?;
        Ok(device)
    }

    /// Makes the context current for this thread: what every other call relies on.
    pub(crate) fn here(&self) -> Result<(), BackendError> {
        // SAFETY: the context is retained for the life of this process.
        Ok(unsafe { self.driver.make_current(self.id, self.context) }?)
    }

    pub(crate) fn name(&self) -> Result<String, BackendError> {
        Ok(self.driver.name(self.id)?)
    }

    /// Waits for everything that this process has on the device.
    pub(crate) fn settle(&self) -> Result<(), BackendError> {
        // SAFETY: the stream is this value's own, and its context is current.
        Ok(unsafe { self.driver.settle(self.stream) }?)
    }

    /// Waits for everything that was queued.
    pub(crate) fn synchronize(&self) -> Result<(), BackendError> {
        // SAFETY: the stream is this value's own.
        Ok(unsafe { self.driver.synchronize(self.stream) }?)
    }
}
