//! One call: as the launch plan says, its kernels with their grids, its arguments for each window, its scratch memory; or as a
//! launcher queues it.

use std::ffi::c_void;
use std::sync::Arc;

use kopt_schema::plan::{Fill, Launch};
use kopt_schema::wire::{Arena, EntryCall};

use super::super::BackendError;
use super::device::Device;
use super::driver::{Encoded, Function};
use super::memory::Buffer;
use super::object::{Entry, Object};
use super::recording::Recording;
use super::tiles;

/// An entry, ready to be queued.
pub(super) struct Prepared {
    work: Work,
    /// One a window: the args struct, aligned.
    args: Vec<Box<[u64]>>,
    /// One list a window.
    maps: Vec<Vec<Encoded>>,
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
        let scratch: Vec<(Buffer, Fill)> = scratch.collect::<Result<_, BackendError>>()?;
        let maps = (0..windows).map(|window| tiles::maps(device, arena, addresses, entry, &scratch, window));
        let maps = maps.collect::<Result<_, _>>()?;
        Ok(Self { work, args, maps, entry: entry.clone(), scratch })
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
        let maps = self.maps.get(window).ok_or_else(missing)?;
        let functions = match &self.work {
            Work::Recorded(recordings) => return recordings.get(window).ok_or_else(missing)?.enqueue(device),
            Work::Planned(functions) => functions,
        };
        for (launch, function) in self.entry.launches.iter().zip(functions) {
            let mut parameters: Vec<*mut c_void> = match &launch.fields {
                None => vec![args.as_ptr().cast_mut().cast()],
                Some(names) => names.iter().map(|name| self.field(args, maps, name)).collect(),
            };
            // SAFETY: the function is of the loaded module; the parameters point at the args struct, at fields of it, at
            // scratch addresses or at tensor maps, all of which the driver copies before it returns.
            unsafe { device.driver.launch_planned(*function, launch, device.stream, &mut parameters) }?;
        }
        Ok(())
    }

    /// Where the value of a parameter stands: a tensor map, a scratch buffer's address, or a field of the args struct.
    fn field(&self, args: &[u64], maps: &[Encoded], name: &str) -> *mut c_void {
        if let Some(index) = self.entry.tensor_maps.iter().position(|map| map.name == *name) {
            return maps[index].0.as_ptr().cast_mut().cast();
        }
        if let Some(index) = self.entry.workspace.iter().position(|buffer| buffer.name == *name) {
            return std::ptr::from_ref(&self.scratch[index].0.address).cast_mut().cast();
        }
        let offset = self.entry.fields.iter().find(|field| field.name == *name).map_or(0, |field| field.offset);
        args.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
    }
}

/// The address of a buffer's window.
pub(super) fn address(arena: &Arena, addresses: [u64; 2], buffer: usize, window: usize) -> u64 {
    let buffer = &arena.buffers[buffer];
    addresses[usize::from(buffer.written)] + buffer.offsets[window] as u64
}

/// The args struct with the addresses of a window.
fn arguments(arena: &Arena, addresses: [u64; 2], entry: &EntryCall, window: usize) -> Box<[u64]> {
    let mut bytes = entry.args.clone();
    for field in &entry.fields {
        if let Some(buffer) = field.buffer {
            let address = address(arena, addresses, buffer, window);
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
    // SAFETY: the function belongs to the loaded module.
    unsafe { device.driver.allow_shared(function, launch.shared) }?;
    // SAFETY: as above.
    unsafe { device.driver.allow_clusters(function) };
    if launch.cooperative {
        // SAFETY: as above.
        let resident = unsafe { device.driver.resident(device.id, function, launch) }?;
        let blocks = launch.grid.iter().fold(1u64, |blocks, size| blocks.saturating_mul(u64::from(*size)));
        if let Some(most) = resident.filter(|most| blocks > *most) {
            let kernel = &launch.kernel;
            return Err(BackendError::Failed(format!(
                "`{kernel}` is cooperative and has {blocks} blocks, of which the device holds {most} at once: \
                 let `grid` end there, and each block do more"
            )));
        }
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
