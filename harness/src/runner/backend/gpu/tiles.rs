//! Tensor maps of a call: made here, by the driver, once for each window and before anything is timed. A candidate gives
//! numbers in its launch plan, and the judge has checked them against its buffers.

use kopt_schema::plan::{Fill, TensorMap};
use kopt_schema::wire::{Arena, EntryCall};

use super::super::BackendError;
use super::device::Device;
use super::driver::Encoded;
use super::launch::address;
use super::memory::Buffer;

/// The maps of a window, in the order of the entry's. `addresses` are those of the inputs and of the outputs on the device.
pub(super) fn maps(
    device: &Device,
    arena: &Arena,
    addresses: [u64; 2],
    entry: &EntryCall,
    scratch: &[(Buffer, Fill)],
    window: usize,
) -> Result<Vec<Encoded>, BackendError> {
    let encode = |map: &TensorMap| {
        let own = entry.workspace.iter().position(|buffer| buffer.name == map.buffer);
        let field = || entry.fields.iter().find(|field| field.name == map.buffer)?.buffer;
        let place = match own {
            Some(index) => scratch.get(index).map(|(buffer, _)| buffer.address),
            None => field().map(|index| address(arena, addresses, index, window)),
        };
        let (name, buffer) = (&map.name, &map.buffer);
        let missing = || BackendError::Failed(format!("tensor map `{name}`: there is no buffer `{buffer}`"));
        let place = place.ok_or_else(missing)?;
        // The operator says how its buffers are aligned, and the driver would not say what it dislikes.
        if !place.is_multiple_of(TensorMap::UNIT) {
            let unit = TensorMap::UNIT;
            let message = format!("tensor map `{name}`: `{buffer}` begins at {place:#x}, no multiple of {unit}");
            return Err(BackendError::Failed(message));
        }
        Ok(device.driver.tensor_map(map, place)?)
    };
    entry.tensor_maps.iter().map(encode).collect()
}
