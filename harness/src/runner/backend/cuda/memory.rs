//! Memory on the device: plain buffers, and pages that one process owns and others map.
//!
//! Pages are made by `cuMemCreate`, leave the process as a file descriptor, and are mapped with the rights that are asked
//! for: a kernel that writes to pages mapped for reading faults, in its own process. Lengths are multiples of the
//! driver's granularity (2 MiB on what is sold today).

use std::ffi::c_void;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUmemAllocationHandleType_enum as HandleType, CUmemGenericAllocationHandle as Handle};

use super::super::BackendError;
use super::device::{Device, Named as _};
use crate::runner::memory::Given;

/// What a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

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
        // SAFETY: a fresh allocation, freed when this value goes.
        let address = unsafe { result::malloc_sync(len.max(1)) }.of("cuMemAlloc")?;
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
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Copies bytes to the device and waits for it.
pub(crate) fn upload(device: &Device, to: u64, bytes: &[u8]) -> Result<(), BackendError> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's allocation is at least as long; the bytes are borrowed until the copy was waited for.
    unsafe { result::memcpy_htod_async(to, bytes, device.stream) }.of("cuMemcpyHtoDAsync")?;
    device.synchronize()
}

/// Copies bytes from the device and waits for it.
pub(crate) fn download(device: &Device, from: u64, bytes: &mut [u8]) -> Result<(), BackendError> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: as above, the other way round.
    unsafe { result::memcpy_dtoh_async(bytes, from, device.stream) }.of("cuMemcpyDtoHAsync")?;
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
        let handle = create(device, len)?;
        let filled = Self::map(device, handle, len, Access::ReadWrite)
            .and_then(|writable| upload(device, writable.address, bytes))
            .and_then(|()| Self::map(device, handle, len, Access::Read));
        release(handle)?;
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
        let mut handle: Handle = 0;
        let os_handle = descriptor.as_raw_fd() as usize as *mut c_void;
        // SAFETY: the descriptor is open, and passed by value, as its type asks for; it is closed after the import, which
        // keeps a reference of its own.
        unsafe {
            sys::cuMemImportFromShareableHandle(
                &mut handle,
                os_handle,
                HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            )
        }
        .of("cuMemImportFromShareableHandle")?;
        let mapped = Self::map(device, handle, len, access);
        release(handle)?;
        mapped
    }

    fn map(device: &Arc<Device>, handle: Handle, len: usize, access: Access) -> Result<Self, BackendError> {
        let mut address = 0;
        // SAFETY: asks for a fresh range of addresses.
        unsafe { sys::cuMemAddressReserve(&mut address, len, 0, 0, 0) }.of("cuMemAddressReserve")?;
        // SAFETY: the range was reserved for this, and the handle's allocation is this long or the call refuses.
        if let Err(error) = unsafe { sys::cuMemMap(address, len, 0, handle, 0) }.of("cuMemMap") {
            // SAFETY: the range is this frame's own, and nothing is mapped in it.
            let _ = unsafe { sys::cuMemAddressFree(address, len) };
            return Err(error);
        }
        // From here on `drop` unmaps and frees.
        let pages = Self { device: Arc::clone(device), address, len };
        let flags = match access {
            Access::Read => sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Access::ReadWrite => sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let rights = sys::CUmemAccessDesc { location: location(device), flags };
        // SAFETY: the range is mapped whole, and one description is passed.
        unsafe { sys::cuMemSetAccess(address, len, &rights, 1) }.of("cuMemSetAccess")?;
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
            let _ = sys::cuMemUnmap(self.address, self.len);
            let _ = sys::cuMemAddressFree(self.address, self.len);
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
        let handle = create(device, len)?;
        let exported = export(handle).and_then(|descriptor| {
            let pages = Pages::map(device, handle, len, Access::ReadWrite)?;
            Ok(Self { pages, descriptor })
        });
        release(handle)?;
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

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device.id }
}

fn property(device: &Device) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// The next length that pages can have.
fn rounded(device: &Device, len: usize) -> Result<usize, BackendError> {
    let mut unit = 0;
    let recommended = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
    // SAFETY: one number is written to a variable of this frame.
    unsafe { sys::cuMemGetAllocationGranularity(&mut unit, &property(device), recommended) }
        .of("cuMemGetAllocationGranularity")?;
    Ok(len.max(1).next_multiple_of(unit.max(1)))
}

fn create(device: &Device, len: usize) -> Result<Handle, BackendError> {
    let mut handle: Handle = 0;
    // SAFETY: the length is a multiple of the granularity, and the description lives as long as the call.
    unsafe { sys::cuMemCreate(&mut handle, len, &property(device), 0) }.of("cuMemCreate")?;
    Ok(handle)
}

fn export(handle: Handle) -> Result<OwnedFd, BackendError> {
    let mut descriptor: i32 = -1;
    // SAFETY: the handle was made to be exported as a descriptor, and a place for one number is passed.
    unsafe {
        sys::cuMemExportToShareableHandle(
            std::ptr::from_mut(&mut descriptor).cast(),
            handle,
            HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            0,
        )
    }
    .of("cuMemExportToShareableHandle")?;
    // SAFETY: the driver opened it for this process, and nobody else knows it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Workers get a twin of it, on purpose; nobody else shall.
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    Ok(descriptor)
}

/// Gives the handle back; mappings and exported descriptors keep the memory.
fn release(handle: Handle) -> Result<(), BackendError> {
    // SAFETY: the handle is the caller's own, and not used again.
    unsafe { sys::cuMemRelease(handle) }.of("cuMemRelease")
}
