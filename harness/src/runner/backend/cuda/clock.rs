//! Time on the device: events around calls, and caches that hold nothing of the next one.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::super::BackendError;
use super::device::{Device, Named as _};
use super::memory::Buffer;

/// Events recorded before the first must be read back.
const EVENTS: usize = 64;

/// Bytes that a copy moves when the ceiling is measured.
const COPIED: usize = 1 << 30;

/// Events, and the buffer whose overwriting empties the second-level cache.
pub(super) struct Clock {
    device: Arc<Device>,
    events: Vec<(sys::CUevent, sys::CUevent)>,
    flush: Buffer,
}

impl Clock {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).of("cuEventCreate");
        let events = (0..EVENTS).map(|_| Ok((event()?, event()?))).collect::<Result<_, BackendError>>()?;
        let cache = device.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let flush = Buffer::new(device, (2 * cache).max(128 << 20))?;
        Ok(Self { device: Arc::clone(device), events, flush })
    }

    /// Seconds of `calls` back to back; `run` queues one.
    pub(super) fn hot(&self, calls: u64, run: impl Fn(u64) -> Result<(), BackendError>) -> Result<f64, BackendError> {
        // Overwriting the cache keeps the device busy while the first calls are queued, so that no launch gap is timed.
        self.overwrite_cache(1)?;
        run(0)?;
        self.record(self.events[0].0)?;
        (0..calls).try_for_each(run)?;
        self.record(self.events[0].1)?;
        self.device.synchronize()?;
        self.elapsed(self.events[0])
    }

    /// Seconds of `calls`, each after the cache was overwritten.
    pub(super) fn cold(&self, calls: u64, run: impl Fn(u64) -> Result<(), BackendError>) -> Result<f64, BackendError> {
        let mut seconds = 0.0;
        let mut done = 0;
        while done < calls {
            let chunk = (calls - done).min(EVENTS as u64);
            for (call, (start, end)) in (done..done + chunk).zip(&self.events) {
                self.overwrite_cache(call.to_le_bytes()[0])?;
                self.record(*start)?;
                run(call)?;
                self.record(*end)?;
            }
            self.device.synchronize()?;
            for pair in &self.events[..usize::try_from(chunk).unwrap_or(0)] {
                seconds += self.elapsed(*pair)?;
            }
            done += chunk;
        }
        Ok(seconds)
    }

    /// Bytes read and written a second by a copy, the best of some.
    pub(super) fn copy_rate(&self) -> Result<f64, BackendError> {
        let (from, to) = (Buffer::new(&self.device, COPIED)?, Buffer::new(&self.device, COPIED)?);
        // SAFETY: the allocation is this long.
        unsafe { result::memset_d8_async(from.address, 1, COPIED, self.device.stream) }.of("cuMemsetD8Async")?;
        let mut best = f64::INFINITY;
        for _ in 0..12 {
            let copy = |_| {
                // SAFETY: both allocations are this long.
                unsafe { result::memcpy_dtod_async(to.address, from.address, COPIED, self.device.stream) }
                    .of("cuMemcpyDtoDAsync")
            };
            best = best.min(self.cold(1, copy)?);
        }
        Ok(2.0 * COPIED as f64 / best)
    }

    fn overwrite_cache(&self, value: u8) -> Result<(), BackendError> {
        // SAFETY: the allocation is this long. A device without persisting lines refuses to reset them, rightly.
        unsafe {
            let _ = sys::cuCtxResetPersistingL2Cache();
            result::memset_d8_async(self.flush.address, value, self.flush.len, self.device.stream)
        }
        .of("cuMemsetD8Async")
    }

    fn record(&self, event: sys::CUevent) -> Result<(), BackendError> {
        // SAFETY: event and stream are this process's own.
        unsafe { result::event::record(event, self.device.stream) }.of("cuEventRecord")
    }

    fn elapsed(&self, pair: (sys::CUevent, sys::CUevent)) -> Result<f64, BackendError> {
        // SAFETY: both events were created with timing and have been recorded and waited for.
        let milliseconds = unsafe { result::event::elapsed(pair.0, pair.1) }.of("cuEventElapsedTime")?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}
