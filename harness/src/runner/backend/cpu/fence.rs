//! What a call may write to: its outputs, its stack, what its object has of its own, and the page where the C library keeps
//! the number of an error. Everything else of the process is closed for writing while it runs, by a memory key of the
//! processor, so that no call leaves anything for the next in memory that it was not given: imports are not needed to
//! find such memory, the address of one function leads to all of it. That page is put back after each call.
//!
//! Instructions that change a key's rights are refused by the audit. Those of the worker are made such that jumping into
//! them gains nothing, and the C library's own is taken out. What is left is in the known limits of the harness.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kopt_schema::sandbox::Force;

const PAGE: usize = 4096;

/// Rights of the keys outside of calls and during one; equal where there is no fence.
pub(super) static OPEN: AtomicU32 = AtomicU32::new(0);
pub(super) static CLOSED: AtomicU32 = AtomicU32::new(0);

/// A fence around calls.
#[derive(Debug)]
pub(super) struct Fence {
    key: i32,
    /// The page with the number of an error, as it was before the call.
    thread: *mut u8,
    before: Box<[u8; PAGE]>,
}

/// Whether calls can be fenced in here, and why not.
pub(crate) fn available() -> (Force, String) {
    match refusal() {
        None => (Force::Whole, "memory keys: a call can write to nothing but what is its own".to_owned()),
        Some(why) => (Force::None, why),
    }
}

fn refusal() -> Option<String> {
    if !std::arch::is_x86_feature_detected!("xsave") || !has_keys() {
        return Some("the processor or the system has no memory keys".to_owned());
    }
    // Before that a signal was not delivered while the handler's stack was closed: a fault would not say where it was.
    if release() < Some((6, 12)) {
        return Some("the system is older than Linux 6.12".to_owned());
    }
    // The system writes to a registered sequence whenever it likes, also during a call.
    (registered_sequence() != 0).then(|| "the C library has registered a restartable sequence".to_owned())
}

fn has_keys() -> bool {
    // Bit 4: the system has turned them on.
    std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 4 != 0
}

fn release() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(['.', '-']).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Bytes of the sequence that the C library has registered; 0 if none.
fn registered_sequence() -> u32 {
    // SAFETY: looks a name up; if the library has it, it is a number of this type that is never changed later.
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        if size.is_null() { 0 } else { size.read() }
    }
}

impl Fence {
    /// A fence, where there can be one. Before anything of a candidate is loaded.
    pub(super) fn new() -> std::io::Result<Option<Self>> {
        if refusal().is_some() {
            return Ok(None);
        }
        take_out_the_librarys_own();
        // SAFETY: a key that nothing uses yet, and the address of a number that lives as long as the thread.
        let (key, thread) = unsafe {
            let key = libc::syscall(libc::SYS_pkey_alloc, 0, 0);
            let errno = libc::__errno_location().cast::<u8>();
            (i32::try_from(key).unwrap_or(-1), errno.sub(errno as usize % PAGE))
        };
        if key <= 0 {
            return Err(std::io::Error::last_os_error());
        }
        // Two bits a key, the upper one forbids writing.
        let closed = 0xaaaa_aaaa & !(0b11 << (2 * key));
        OPEN.store(rights(), Relaxed);
        CLOSED.store(closed, Relaxed);
        let fence = Self { key, thread, before: Box::new([0; PAGE]) };
        fence.admit(thread, PAGE)?;
        Ok(Some(fence))
    }

    /// Lets calls write to these whole pages, which can be written to already.
    pub(super) fn admit(&self, start: *mut u8, bytes: usize) -> std::io::Result<()> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: gives pages of this process another key; their rights stay what the caller says they are.
        match unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, bytes.next_multiple_of(PAGE), rights, self.key) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Lets calls write to what the object has of its own. Whether it may have any is for the audit to say.
    pub(super) fn admit_object(&self, object: &str) -> std::io::Result<()> {
        let mut search = Search { object: object.as_bytes(), found: Vec::new() };
        // SAFETY: the callback gets the search, which outlives the walk, and nothing is loaded meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found.into_iter().try_for_each(|(start, bytes)| self.admit(start as *mut u8, bytes))
    }

    /// Before a call.
    pub(super) fn remember(&mut self) {
        // SAFETY: a page of this thread, which stays.
        unsafe { std::ptr::copy_nonoverlapping(self.thread, self.before.as_mut_ptr(), PAGE) };
    }

    /// After a call: whether it wrote anything to the thread's page but the number of an error. All of it is put back.
    pub(super) fn mend(&mut self) -> bool {
        // SAFETY: as above; only this thread runs.
        unsafe {
            let errno = libc::__errno_location();
            let number = errno.cast::<u8>().offset_from_unsigned(self.thread);
            let kept: [u8; 4] = errno.read().to_ne_bytes();
            let before: [u8; 4] = std::array::from_fn(|index| self.before[number + index]);
            self.before[number..number + 4].copy_from_slice(&kept);
            let is_same = std::slice::from_raw_parts(self.thread, PAGE) == &self.before[..];
            self.before[number..number + 4].copy_from_slice(&before);
            std::ptr::copy_nonoverlapping(self.before.as_ptr(), self.thread, PAGE);
            is_same
        }
    }
}

struct Search<'a> {
    object: &'a [u8],
    found: Vec<(usize, usize)>,
}

/// Pages of the object that can be written to once it is loaded: of its writable parts what the loader has not closed.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the loader passes what it has loaded, and the caller its search.
    unsafe {
        let (info, search) = (&*info, &mut *search.cast::<Search<'_>>());
        if info.dlpi_name.is_null() || std::ffi::CStr::from_ptr(info.dlpi_name).to_bytes() != search.object {
            return 0;
        }
        let parts = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let range = |part: &libc::Elf64_Phdr| {
            let start = info.dlpi_addr as usize + part.p_vaddr as usize;
            (start, start + part.p_memsz as usize)
        };
        let closed = parts.iter().find(|part| part.p_type == libc::PT_GNU_RELRO).map(range);
        for part in parts.iter().filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_W != 0) {
            let (mut start, end) = range(part);
            if let Some((_, until)) =
                closed.filter(|(from, until)| *from >= start && *until <= end.next_multiple_of(PAGE))
            {
                start = until;
            }
            start -= start % PAGE;
            if start < end {
                search.found.push((start, end - start));
            }
        }
    }
    0
}

fn rights() -> u32 {
    let rights: u32;
    // SAFETY: reads a register, which the processor has (`refusal`).
    unsafe {
        std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _,
            options(nomem, nostack, preserves_flags));
    }
    rights
}

/// The C library has a function that changes rights: nothing here calls it, and who looks it up shall not either.
fn take_out_the_librarys_own() {
    const CHANGES: [u8; 3] = [0x0f, 0x01, 0xef];
    const INVALID: [u8; 3] = [0x0f, 0x0b, 0x90];
    const LONGEST: usize = 128;
    // SAFETY: the function is code of the library; its pages stay executable while one instruction of it is replaced, and no
    // other thread runs. Where the system does not allow that, it stays as it was.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr()).cast::<u8>();
        if function.is_null() {
            return;
        }
        let pages = function.sub(function as usize % PAGE);
        let length = (function as usize % PAGE + LONGEST).next_multiple_of(PAGE);
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let code = std::slice::from_raw_parts(function, LONGEST);
        let Some(at) = code.windows(CHANGES.len()).position(|bytes| bytes == CHANGES) else { return };
        if libc::mprotect(pages.cast(), length, all) == 0 {
            std::ptr::copy_nonoverlapping(INVALID.as_ptr(), function.add(at), INVALID.len());
            libc::mprotect(pages.cast(), length, libc::PROT_READ | libc::PROT_EXEC);
        }
    }
}
