//! Memory on the device: plain buffers, and pages that one process owns and others map.
//!
//! Pages are made by the driver (`cuMemCreate`, `hipMemCreate`), leave the process as a file descriptor, and are mapped with the rights that are asked
//! for: a kernel that writes to pages mapped for reading faults, in its own process. Lengths are multiples of the
//! driver's granularity (2 MiB on what is sold today).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use super::super::BackendError;
use super::device::Device;
use super::driver::{Access, Handle};
use crate::runner::memory::Given;

/// A buffer that no other process can reach.
#[derive(Debug)]
pub(crate) struct Buffer {
    device: Arc<Device>,
    pub address: u64,
    pub len: usize,
}

impl Buffer {
    /// At least one byte, so that there is an address.
    pub(crate) fn new(device: &Arc<Device>, len: usize) -> Result<Self, BackendError> {
        device.here()?;
        let address = device.driver.alloc(len.max(1))?;
        Ok(Self { device: Arc::clone(device), address, len })
    }

    /// A buffer with these bytes.
    pub(crate) fn with(device: &Arc<Device>, bytes: &[u8]) -> Result<Self, BackendError> {
        let buffer = Self::new(device, bytes.len())?;
        upload(device, buffer.address, bytes)?;
        Ok(buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A context that has faulted refuses, and ends with its process.
        if self.device.here().is_ok() && self.device.synchronize().is_ok() {
            // SAFETY: the allocation is this value's own, and what was queued on it has been waited for.
            let _ = unsafe { self.device.driver.free(self.address) };
        }
    }
}

/// Copies bytes to the device and waits for it.
pub(crate) fn upload(device: &Device, to: u64, bytes: &[u8]) -> Result<(), BackendError> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's allocation is at least as long; the bytes are borrowed until the copy was waited for.
    unsafe { device.driver.upload(to, bytes, device.stream) }?;
    device.synchronize()
}

/// Copies bytes from the device and waits for it.
pub(crate) fn download(device: &Device, from: u64, bytes: &mut [u8]) -> Result<(), BackendError> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: as above, the other way round.
    unsafe { device.driver.download(from, bytes, device.stream) }?;
    device.synchronize()
}

/// Pages, mapped into this process.
#[derive(Debug)]
pub(crate) struct Pages {
    device: Arc<Device>,
    pub address: u64,
    pub len: usize,
}

impl Pages {
    /// Pages that hold these bytes, and that this process's kernels can only read.
    pub(crate) fn sealed(device: &Arc<Device>, bytes: &[u8]) -> Result<Self, BackendError> {
        device.here()?;
        let len = rounded(device, bytes.len())?;
        let handle = device.driver.create(device.id, len)?;
        let filled = Self::map(device, handle, len, Access::ReadWrite)
            .and_then(|writable| upload(device, writable.address, bytes))
            .and_then(|()| Self::map(device, handle, len, Access::Read));
        release(device, handle)?;
        filled
    }

    /// Maps pages that another process has exported; `len` is their length.
    pub(crate) fn import(
        device: &Arc<Device>,
        descriptor: OwnedFd,
        len: usize,
        access: Access,
    ) -> Result<Self, BackendError> {
        device.here()?;
        // The descriptor is closed after the import, which keeps a reference of its own.
        let handle = device.driver.import(descriptor.as_fd())?;
        let mapped = Self::map(device, handle, len, access);
        release(device, handle)?;
        mapped
    }

    fn map(device: &Arc<Device>, handle: Handle, len: usize, access: Access) -> Result<Self, BackendError> {
        let address = device.driver.reserve(len)?;
        // SAFETY: the range was reserved for this, and the handle's allocation is this long or the call refuses.
        if let Err(error) = unsafe { device.driver.map(address, len, handle) } {
            // SAFETY: the range is this frame's own, and nothing is mapped in it.
            let _ = unsafe { device.driver.unreserve(address, len) };
            return Err(error.into());
        }
        // From here on `drop` unmaps and frees.
        let pages = Self { device: Arc::clone(device), address, len };
        // SAFETY: the range is mapped whole.
        unsafe { device.driver.allow(device.id, address, len, access) }?;
        Ok(pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.device.here().is_err() || self.device.synchronize().is_err() {
            return;
        }
        // SAFETY: the range was reserved and mapped for this value, and all work on it has been waited for.
        unsafe {
            let _ = self.device.driver.unmap(self.address, self.len);
            let _ = self.device.driver.unreserve(self.address, self.len);
        }
    }
}

/// Pages of this process that others can map.
#[derive(Debug)]
pub(crate) struct Exported {
    pub pages: Pages,
    descriptor: OwnedFd,
}

impl Exported {
    /// At least `len` bytes.
    pub(crate) fn new(device: &Arc<Device>, len: usize) -> Result<Self, BackendError> {
        device.here()?;
        let len = rounded(device, len)?;
        let handle = device.driver.create(device.id, len)?;
        let exported = export(device, handle).and_then(|descriptor| {
            let pages = Pages::map(device, handle, len, Access::ReadWrite)?;
            Ok(Self { pages, descriptor })
        });
        release(device, handle)?;
        exported
    }
}

impl Given for Exported {
    fn descriptor(&self, _writable: bool) -> std::io::Result<OwnedFd> {
        // The rights are those of the mapping, which trusted code makes: a candidate on a device has no code on the host.
        self.descriptor.try_clone()
    }

    fn resident(&self) -> usize {
        0
    }
}

/// The next length that pages can have.
fn rounded(device: &Device, len: usize) -> Result<usize, BackendError> {
    let unit = device.driver.granularity(device.id)?;
    Ok(len.max(1).next_multiple_of(unit.max(1)))
}

fn export(device: &Device, handle: Handle) -> Result<OwnedFd, BackendError> {
    // SAFETY: the handle was made to be exported, and is the caller's own.
    let descriptor = unsafe { device.driver.export(handle) }?;
    // Workers get a twin of it, on purpose; nobody else shall.
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    Ok(descriptor)
}

/// Gives the handle back; mappings and exported descriptors keep the memory.
fn release(device: &Device, handle: Handle) -> Result<(), BackendError> {
    // SAFETY: the handle is the caller's own, and not used again.
    Ok(unsafe { device.driver.release(handle) }?)
}
