//! What a launcher queues, recorded before anything is timed. What is run and timed afterwards is the recording: no host code
//! of the candidate runs in a timed call, and work on a stream that nobody waits for is no part of it, or refused.
//!
//! Host code in this process could still defeat what is done here: evidence of class `launcher` says so.

use super::super::BackendError;
use super::device::Device;
use super::driver::{Piece, Replay};

/// Recorded work.
#[derive(Debug)]
pub(super) struct Recording(Replay);

impl Recording {
    /// Of what `queue` queues on the device's stream.
    pub(super) fn of(device: &Device, queue: impl FnOnce() -> Result<(), BackendError>) -> Result<Self, BackendError> {
        // SAFETY: the stream is the device's own.
        unsafe { device.driver.begin_recording(device.stream) }?;
        let queued = queue();
        // Whatever host code did to this thread.
        device.here()?;
        // SAFETY: as above.
        let graph = unsafe { device.driver.end_recording(device.stream) };
        queued?;
        // Whatever it queued elsewhere runs to its end now, or is found to have none.
        device.settle()?;
        let graph = graph.map_err(|refused| {
            BackendError::Fault(format!(
                "what it queues cannot be recorded: a launcher works on the stream that it is given, or on others that this \
                 one waits for, waits for nothing itself, and allocates with cudaMallocAsync or not at all ({refused})"
            ))
        })?;
        // SAFETY: the graph was recorded here.
        let pieces = unsafe { device.driver.pieces(graph) }?;
        for piece in pieces {
            if let Piece::Elsewhere(what) = piece {
                return Err(BackendError::Fault(format!("it queues {what}: only the device may work on a call")));
            }
        }
        // SAFETY: as above; it is not used again.
        Ok(Self(unsafe { device.driver.replay(graph) }?))
    }

    /// Queues it.
    pub(super) fn enqueue(&self, device: &Device) -> Result<(), BackendError> {
        // SAFETY: it was made for this device, and stays for the life of this process.
        Ok(unsafe { device.driver.queue(self.0, device.stream) }?)
    }
}
