//! One call: as the launch plan says, its kernels with their grids, its arguments for each window, its scratch memory; or as a
//! launcher queues it.

use std::ffi::c_void;
use std::sync::Arc;

use kopt_schema::plan::{Fill, Launch};
use kopt_schema::wire::{Arena, EntryCall};

use super::super::BackendError;
use super::device::Device;
use super::driver::{Function, Geometry};
use super::memory::Buffer;
use super::object::{Entry, Object};
use super::recording::Recording;

/// Dynamic shared memory beyond this must be asked for.
const PLAIN_SHARED: u32 = 48 << 10;

/// An entry, ready to be queued.
pub(super) struct Prepared {
    work: Work,
    /// One a window: the args struct, aligned.
    args: Vec<Box<[u64]>>,
    entry: EntryCall,
    scratch: Vec<(Buffer, Fill)>,
}

/// What a call does.
enum Work {
    /// A kernel for each launch of the plan.
    Planned(Vec<Function>),
    /// One a window.
    Recorded(Vec<Recording>),
}

impl Prepared {
    /// `addresses` are those of the inputs and of the outputs on the device.
    pub(super) fn new(
        device: &Arc<Device>,
        object: &Object,
        arena: &Arena,
        addresses: [u64; 2],
        entry: &EntryCall,
    ) -> Result<Self, BackendError> {
        let windows = arena.buffers.first().map_or(0, |buffer| buffer.offsets.len());
        let args: Vec<Box<[u64]>> = (0..windows).map(|window| arguments(arena, addresses, entry, window)).collect();
        let work = match object.entry(&entry.symbol) {
            Some(launcher) => Work::Recorded(recordings(device, launcher?, &args)?),
            None => {
                let functions = entry.launches.iter().map(|launch| function(device, object, launch));
                Work::Planned(functions.collect::<Result<_, _>>()?)
            }
        };
        let scratch = entry.workspace.iter().map(|scratch| Ok((Buffer::new(device, scratch.bytes)?, scratch.fill)));
        let scratch = scratch.collect::<Result<_, BackendError>>()?;
        Ok(Self { work, args, entry: entry.clone(), scratch })
    }

    /// Queues what makes scratch memory that may hold anything hold what no kernel expects: nothing of an earlier call, and
    /// not the same each time. A maximum drops a NaN, and a sum a zero: other numbers have their turn.
    pub(super) fn spoil(&self, device: &Device, call: u64) -> Result<(), BackendError> {
        const BYTES: [u8; 6] = [0xff, 0x7f, 0x42, 0xc2, 0x01, 0x00];
        let byte = BYTES[usize::try_from(call % BYTES.len() as u64).unwrap_or(0)];
        for (buffer, _) in self.scratch.iter().filter(|(buffer, fill)| *fill != Fill::Zero && buffer.len > 0) {
            // SAFETY: the allocation is this long.
            unsafe { device.driver.set(buffer.address, byte, buffer.len, device.stream) }?;
        }
        Ok(())
    }

    /// Queues one call.
    pub(super) fn enqueue(&self, device: &Device, window: usize) -> Result<(), BackendError> {
        for (buffer, _) in self.scratch.iter().filter(|(buffer, fill)| *fill == Fill::Zero && buffer.len > 0) {
            // SAFETY: the allocation is this long.
            unsafe { device.driver.set(buffer.address, 0, buffer.len, device.stream) }?;
        }
        let missing = || BackendError::Failed(format!("there is no window {window}"));
        let args = self.args.get(window).ok_or_else(missing)?;
        let functions = match &self.work {
            Work::Recorded(recordings) => return recordings.get(window).ok_or_else(missing)?.enqueue(device),
            Work::Planned(functions) => functions,
        };
        for (launch, function) in self.entry.launches.iter().zip(functions) {
            let mut parameters: Vec<*mut c_void> = match &launch.fields {
                None => vec![args.as_ptr().cast_mut().cast()],
                Some(names) => names.iter().map(|name| self.field(args, name)).collect(),
            };
            let geometry = Geometry { grid: launch.grid, block: launch.block, shared: launch.shared };
            // SAFETY: the function is of the loaded module; the parameters point at the args struct, at fields of it or at
            // scratch addresses, all of which the driver copies before it returns.
            unsafe {
                device.driver.launch_planned(*function, &geometry, launch.cluster, device.stream, &mut parameters)
            }?;
        }
        Ok(())
    }

    /// Where the value of a parameter stands: a scratch buffer's address, or a field of the args struct.
    fn field(&self, args: &[u64], name: &str) -> *mut c_void {
        if let Some(index) = self.entry.workspace.iter().position(|buffer| buffer.name == *name) {
            return std::ptr::from_ref(&self.scratch[index].0.address).cast_mut().cast();
        }
        let offset = self.entry.fields.iter().find(|field| field.name == *name).map_or(0, |field| field.offset);
        args.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
    }
}

/// The args struct with the addresses of a window.
fn arguments(arena: &Arena, addresses: [u64; 2], entry: &EntryCall, window: usize) -> Box<[u64]> {
    let mut bytes = entry.args.clone();
    for field in &entry.fields {
        if let Some(buffer) = field.buffer.map(|index| &arena.buffers[index]) {
            let address = addresses[usize::from(buffer.written)] + buffer.offsets[window] as u64;
            bytes[field.offset..field.offset + 8].copy_from_slice(&address.to_le_bytes());
        }
    }
    let mut words = vec![0u64; bytes.len().div_ceil(8)].into_boxed_slice();
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut filled = [0; 8];
        filled[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(filled);
    }
    words
}

fn function(device: &Device, object: &Object, launch: &Launch) -> Result<Function, BackendError> {
    let function = object.function(&launch.kernel)?;
    if launch.shared > PLAIN_SHARED {
        // SAFETY: the function belongs to the loaded module.
        unsafe { device.driver.allow_shared(function, launch.shared) }?;
    }
    Ok(function)
}

/// What a launcher queues for each window.
fn recordings(device: &Device, launcher: Entry, args: &[Box<[u64]>]) -> Result<Vec<Recording>, BackendError> {
    let mut recordings = Vec::with_capacity(args.len());
    for args in args {
        recordings.push(Recording::of(device, || {
            // SAFETY: the struct has the layout of the header that the object was compiled with; what host code of the
            // candidate does, it does in a process whose only purpose is to run it.
            match unsafe { launcher(args.as_ptr().cast(), device.stream.0) } {
                0 => Ok(()),
                code => Err(BackendError::Returned(code)),
            }
        })?);
    }
    Ok(recordings)
}
