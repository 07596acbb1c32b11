//! Time on the device: events around calls, and caches that hold nothing of the next one.

use std::sync::Arc;

use super::super::BackendError;
use super::device::Device;
use super::driver::Event;
use super::memory::Buffer;

/// Events recorded before the first must be read back.
const EVENTS: usize = 64;

/// Events, and the buffer whose overwriting empties the second-level cache.
pub(super) struct Clock {
    device: Arc<Device>,
    events: Vec<(Event, Event)>,
    flush: Buffer,
}

impl Clock {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        let event = || device.driver.event();
        let events = (0..EVENTS).map(|_| Ok((event()?, event()?))).collect::<Result<_, BackendError>>()?;
        let cache = device.driver.cache(device.id)?;
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

    /// Seconds of `calls`, each after `ready` and after the cache was overwritten.
    pub(super) fn cold(
        &self,
        calls: u64,
        ready: impl Fn(u64) -> Result<(), BackendError>,
        run: impl Fn(u64) -> Result<(), BackendError>,
    ) -> Result<f64, BackendError> {
        let mut seconds = 0.0;
        let mut done = 0;
        while done < calls {
            let chunk = (calls - done).min(EVENTS as u64);
            for (call, (start, end)) in (done..done + chunk).zip(&self.events) {
                ready(call)?;
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

    fn overwrite_cache(&self, value: u8) -> Result<(), BackendError> {
        self.device.driver.reset_persisting();
        // SAFETY: the allocation is this long.
        Ok(unsafe { self.device.driver.set(self.flush.address, value, self.flush.len, self.device.stream) }?)
    }

    fn record(&self, event: Event) -> Result<(), BackendError> {
        // SAFETY: event and stream are this process's own.
        Ok(unsafe { self.device.driver.record(event, self.device.stream) }?)
    }

    fn elapsed(&self, pair: (Event, Event)) -> Result<f64, BackendError> {
        // SAFETY: both events were created with timing and have been recorded and waited for.
        let milliseconds = unsafe { self.device.driver.elapsed(pair.0, pair.1) }?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}
