//! A call whose buffers each have an allocation of their own, for tools that watch where a kernel reads and writes: within
//! an arena one buffer's end is another's beginning.

use kopt_schema::wire::{Arena, EntryCall, Placed};

use super::super::BackendError;
use super::Gpu;
use super::launch::Prepared;
use super::memory::Buffer;

impl Gpu {
    /// Makes one call and waits for it. `buffers` are lengths, and contents where there are any; what has none is not written
    /// before the kernel does.
    pub(crate) fn call_apart(
        &self,
        entry: &EntryCall,
        buffers: &[(usize, Option<Vec<u8>>)],
    ) -> Result<(), BackendError> {
        let allocated = buffers.iter().map(|(len, content)| match content {
            Some(bytes) => Buffer::with(&self.device, bytes),
            None => Buffer::new(&self.device, *len),
        });
        let allocated: Vec<Buffer> = allocated.collect::<Result<_, _>>()?;
        // From address 0 on, an offset is an address.
        let place = |buffer: &Buffer| {
            let offset = usize::try_from(buffer.address).map_err(|error| BackendError::Failed(error.to_string()))?;
            Ok(Placed { name: String::new(), written: false, bytes: buffer.len, offsets: vec![offset] })
        };
        let arena = Arena {
            on_device: true,
            input_len: 0,
            output_len: 0,
            input_fences: Vec::new(),
            output_fences: Vec::new(),
            buffers: allocated.iter().map(place).collect::<Result<_, BackendError>>()?,
            entries: Vec::new(),
        };
        let prepared = Prepared::new(&self.device, &self.object, &arena, [0, 0], entry)?;
        prepared.enqueue(&self.device, 0)?;
        self.device.synchronize()
    }
}
