//! Memory that the judging process owns and a worker maps.
//!
//! Two anonymous files an arena: inputs, which the worker gets through a read-only descriptor and so cannot map
//! writable, and outputs. Two ways to lay buffers out:
//!
//! - *fenced*, for checking: each buffer on pages of its own, its end against a page that the worker makes
//!   inaccessible, and the rest of its pages filled with a pattern. An access past either end faults or is seen.
//! - *packed*, for timing: buffers at large alignment with room between, on huge pages where the system grants them.

#![allow(unsafe_code, reason = "shared memory")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

use crate::parallel;

/// The page size. A machine with larger pages refuses the fences, and says so when the first trial starts.
pub(crate) const PAGE: usize = 4096;

/// Huge pages of x86 and of aarch64 with 4 KiB pages.
const HUGE: usize = 2 << 20;

/// Bytes that become huge pages in one call.
const AT_ONCE: usize = 32 * HUGE;

/// `MADV_COLLAPSE`, which libc does not name on every target.
const COLLAPSE: libc::c_int = 25;

/// Memory that a worker can be given, as a descriptor.
pub(crate) trait Given {
    /// A descriptor for a worker. Read-only memory of the host cannot be mapped writable.
    fn descriptor(&self, writable: bool) -> std::io::Result<OwnedFd>;

    /// How much of the worker's resident memory it may be.
    fn resident(&self) -> usize;
}

/// An anonymous file, mapped here for writing.
#[derive(Debug)]
pub(crate) struct Shared {
    fd: OwnedFd,
    map: Mapping,
    huge_pages: bool,
}

// SAFETY: the mapping is this value's own, reads of it borrow the value and writes borrow it mutably.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// A file of `len` bytes, whole pages, and whole huge pages from one on.
    pub(crate) fn new(len: usize) -> std::io::Result<Self> {
        let len = len.max(1).next_multiple_of(if len < HUGE { PAGE } else { HUGE });
        let fd = rustix::fs::memfd_create("kopt", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        // A worker that made it shorter would take the memory away under whoever reads it.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        let map = Mapping::with(&fd, len, true, &[], false)?;
        let mut shared = Self { fd, map, huge_pages: false };
        shared.huge_pages = shared.collapse();
        Ok(shared)
    }

    /// Whether it has huge pages. They make timings steadier; without them everything works too. True for a file that is
    /// too small to have any.
    pub(crate) const fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// From here on only this mapping can write: a worker that opens the file again through `/proc` cannot either.
    pub(crate) fn seal(&self) -> std::io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
    }

    /// From here on nobody can change what may be done with it: a worker must not close it to the next one.
    pub(crate) fn settle(&self) -> std::io::Result<()> {
        Ok(rustix::fs::fcntl_add_seals(&self.fd, SealFlags::SEAL)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long and lives as long as this value; a worker that writes to it shows up as changed
        // bytes, which is what the mapping is for, and the file's length never changes.
        unsafe { std::slice::from_raw_parts(self.map.base, self.map.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this value is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.map.base, self.map.len) }
    }

    /// Asks for huge pages, before anything is written: what has small ones is copied, and takes ten times as long.
    fn collapse(&mut self) -> bool {
        if self.map.len < HUGE {
            return true;
        }
        // By all processors: the system clears the pages, one after the other.
        let parts = (0..self.map.len.div_ceil(AT_ONCE)).map(|part| part * AT_ONCE);
        let shared = &*self;
        parallel::all(parts, |from| {
            let to = shared.map.len.min(from + AT_ONCE);
            // Where nothing has been written to at all, there is nothing to collapse, and it is refused.
            for offset in (from..to).step_by(HUGE) {
                let byte = shared.map.address(offset);
                // SAFETY: inside this mapping, which is borrowed mutably, and in no other part.
                unsafe { byte.write_volatile(byte.read_volatile()) };
            }
            // SAFETY: the range is this mapping's own; the call moves its pages and changes no byte.
            unsafe { libc::madvise(shared.map.address(from).cast(), to - from, COLLAPSE) == 0 }
        })
    }
}

impl Given for Shared {
    fn descriptor(&self, writable: bool) -> std::io::Result<OwnedFd> {
        use std::os::fd::AsRawFd as _;
        let flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let path = format!("/proc/self/fd/{}", self.fd.as_fd().as_raw_fd());
        Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn resident(&self) -> usize {
        self.len()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the reservation was made for this mapping, and nothing borrows its bytes any more.
        let _ = unsafe { rustix::mm::munmap(self.map.reserved.0.cast(), self.map.reserved.1) };
    }
}

/// How buffers are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// For checking.
    Fenced,
    /// For timing.
    Packed,
}

/// Places of buffers in one file.
#[derive(Debug, Default)]
pub(crate) struct Placer {
    /// The file's length so far.
    pub len: usize,
    /// Inaccessible ranges: start and length.
    pub fences: Vec<(usize, usize)>,
}

impl Placer {
    /// A place for a buffer.
    pub(crate) fn place(&mut self, bytes: usize, align: usize, layout: Layout) -> usize {
        match layout {
            Layout::Fenced => {
                if self.len == 0 {
                    self.fence();
                }
                // The pattern before the buffer is at least one alignment unit long; the gap after it, less than one.
                let room = (align + bytes).next_multiple_of(PAGE).max(PAGE);
                let end = self.len + room;
                let start = (end - bytes) / align * align;
                self.len = end;
                self.fence();
                start
            }
            Layout::Packed => {
                let align = if bytes >= HUGE { HUGE } else { PAGE };
                let start = self.len.next_multiple_of(align);
                // A page between buffers, so that an overrun is seen.
                self.len = (start + bytes).next_multiple_of(PAGE) + PAGE;
                start
            }
        }
    }

    fn fence(&mut self) {
        self.fences.push((self.len, PAGE));
        self.len += PAGE;
    }
}

/// A mapped file. In a worker it stays as long as the process.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: usize,
    reserved: (*mut u8, usize),
}

impl Mapping {
    /// Maps a descriptor, `len` bytes, at an address of huge alignment, without which there are no huge pages, and takes all
    /// rights from the fences. All pages at once: who touches them first in a call that is not timed must not be the faster
    /// for it.
    pub(crate) fn new(fd: impl AsFd, len: usize, writable: bool, fences: &[(usize, usize)]) -> std::io::Result<Self> {
        Self::with(fd, len, writable, fences, true)
    }

    /// The same; `populated` or not. A fresh file is filled with small pages by that.
    fn with(
        fd: impl AsFd,
        len: usize,
        writable: bool,
        fences: &[(usize, usize)],
        populated: bool,
    ) -> std::io::Result<Self> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect};
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh reservation that nothing else knows; the second call replaces part of it; the fences lie inside
        // it (checked). Who unmaps it sees to it that no pointer is left.
        unsafe {
            let reserved = mmap_anonymous(
                std::ptr::null_mut(),
                len + HUGE,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?;
            let aligned = reserved.cast::<u8>().add(reserved.align_offset(HUGE));
            let populate = if populated { MapFlags::POPULATE } else { MapFlags::empty() };
            let flags = MapFlags::SHARED | MapFlags::FIXED | populate;
            let base = mmap(aligned.cast(), len, protection, flags, fd, 0)?.cast::<u8>();
            for (start, length) in fences {
                if start + length > len {
                    return Err(std::io::Error::other("a fence outside the file"));
                }
                mprotect(base.add(*start).cast(), *length, MprotectFlags::empty())?;
            }
            Ok(Self { base, len, reserved: (reserved.cast(), len + HUGE) })
        }
    }

    /// The address of a byte.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        self.base.wrapping_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_buffer_is_aligned_and_ends_within_one_unit_of_a_fence() {
        for bytes in [0, 1, 4, 63, 64, 4095, 4096, 4097, 100_000] {
            let mut placer = Placer::default();
            placer.place(10, 256, Layout::Fenced);
            let start = placer.place(bytes, 256, Layout::Fenced);
            assert_eq!(start % 256, 0);
            let (fence, _) = placer.fences[placer.fences.len() - 1];
            assert!(start + bytes <= fence && fence - (start + bytes) < 256, "{bytes}");
            let (before, length) = placer.fences[placer.fences.len() - 2];
            assert!(start >= before + length, "{bytes}");
        }
    }

    #[test]
    fn packed_buffers_do_not_touch() {
        let mut placer = Placer::default();
        let first = placer.place(5000, 256, Layout::Packed);
        let second = placer.place(5000, 256, Layout::Packed);
        assert!(second >= first + 5000 + PAGE);
    }

    #[test]
    fn a_read_only_descriptor_cannot_be_mapped_writable() {
        let mut shared = Shared::new(100).unwrap();
        shared.bytes_mut()[7] = 42;
        let reader = Mapping::new(shared.descriptor(false).unwrap(), shared.len(), false, &[]).unwrap();
        // SAFETY: inside the mapping.
        assert_eq!(unsafe { reader.address(7).read_volatile() }, 42);
        assert!(Mapping::new(shared.descriptor(false).unwrap(), shared.len(), true, &[]).is_err());
        assert!(Mapping::new(shared.descriptor(true).unwrap(), shared.len(), true, &[]).is_ok());
        shared.seal().unwrap();
        let reopened = shared.descriptor(true).unwrap();
        assert!(Mapping::new(reopened, shared.len(), true, &[]).is_err(), "a sealed file was mapped writable");
        shared.bytes_mut()[7] = 43;
        // SAFETY: inside the mapping.
        assert_eq!(unsafe { reader.address(7).read_volatile() }, 43);
    }
}
