//! Calls on x86-64: the stack, the frame above it, and the way in and out.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use super::super::fence::{self, Fence};
use super::Entry;

/// What a call has.
const DEEPEST: usize = 256 << 10;
/// Nothing: as much as a process has of its own by default, so that who goes deeper ends here.
const GUARD: usize = 8 << 20;
/// Frame and arguments.
const ABOVE: usize = 8 << 10;
/// Where the arguments begin: behind the frame.
const ARGS: usize = 512;
/// Bytes that are copied at a time.
const CHUNK: usize = 4096;

/// Where the stack of this process's calls begins. Read by the handler of faults.
static TOP: AtomicUsize = AtomicUsize::new(0);

/// The worker's own stack while a call runs. Not in the frame: a call can write there.
static OWN: AtomicUsize = AtomicUsize::new(0);

/// Whether calls are fenced in.
static FENCED: AtomicU32 = AtomicU32::new(0);

/// Whether an address is in the guard: a call went deeper than its stack.
pub(crate) fn overflows(address: u64) -> bool {
    let depth = usize::try_from(address).ok().and_then(|address| TOP.load(Relaxed).checked_sub(address));
    depth.is_some_and(|depth| depth > DEEPEST && depth <= DEEPEST + GUARD)
}

/// What the trampoline reads and writes. It lies where the stack begins.
#[repr(C, align(64))]
struct Frame {
    function: usize,
    args: *const u8,
    second: *mut u8,
    status: u64,
    flags: u64,
    mxcsr: u32,
    control: u16,
    /// Rights of memory keys at its end.
    keys: u32,
    /// What the preserved registers hold before and after: rbx, rbp, r12 to r15.
    before: [u64; 6],
    after: [u64; 6],
}

const _: () = assert!(size_of::<Frame>() <= ARGS && ABOVE.is_multiple_of(CHUNK) && DEEPEST.is_multiple_of(CHUNK));

/// The initial state of vector and floating-point registers, as `xrstor` takes it: nothing saved, so that all is reset.
#[repr(C, align(64))]
struct Reset([u8; 1024]);

/// Default of the control register of vector arithmetic: nearest, no flushing, nothing trapped.
static MXCSR: u32 = 0x1f80;
/// Its status bits, which any arithmetic may set.
const MXCSR_STATUS: u32 = 0x3f;
/// Default of the control word of the x87.
const CONTROL: u16 = 0x37f;
/// Components that are reset: whatever the processor has, such as x87, SSE, AVX, AVX-512, tiles and their configuration, the
/// further general registers of APX. Not the rights of memory keys, which the system sets.
const COMPONENTS: u32 = !(1 << 9);
/// Direction, nested task, alignment check.
const FLAGS: u64 = 1 << 10 | 1 << 14 | 1 << 18;

/// A stack to call on.
pub(crate) struct Stack {
    top: *mut u8,
    /// Random bytes, drawn once; where a piece of them is taken from is drawn each time.
    pool: Box<[u8; 2 * CHUNK]>,
    draw: u64,
    reset: Box<Reset>,
    thread: Thread,
    has_xsave: bool,
    fence: Option<Fence>,
}

impl Stack {
    pub(crate) fn new(fence: Option<Fence>) -> std::io::Result<Self> {
        let mut pool = Box::new([0; 2 * CHUNK]);
        getrandom::fill(pool.as_mut_slice()).map_err(std::io::Error::other)?;
        let draw = getrandom::u64().map_err(std::io::Error::other)?;
        let mut reset = Box::new(Reset([0; 1024]));
        reset.0[24..28].copy_from_slice(&MXCSR.to_le_bytes());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh reservation that nothing else knows and that stays as long as the process; part of it is opened.
        let top = unsafe {
            let base =
                mmap_anonymous(std::ptr::null_mut(), GUARD + DEEPEST + ABOVE, ProtFlags::empty(), flags)?.cast::<u8>();
            let top = base.add(GUARD + DEEPEST);
            mprotect(top.sub(DEEPEST).cast(), DEEPEST + ABOVE, MprotectFlags::READ | MprotectFlags::WRITE)?;
            top
        };
        TOP.store(top as usize, Relaxed);
        if let Some(fence) = &fence {
            // SAFETY: the open part, as above.
            fence.admit(unsafe { top.sub(DEEPEST) }, DEEPEST + ABOVE)?;
        }
        FENCED.store(u32::from(fence.is_some()), Relaxed);
        let has_xsave = std::arch::is_x86_feature_detected!("xsave");
        Ok(Self { top, pool, draw, reset, thread: Thread::read(), has_xsave, fence })
    }

    /// What calls are fenced in by.
    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    fn bits(&mut self) -> u64 {
        // SplitMix64.
        self.draw = self.draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.draw;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// New bytes in the whole stack and above, new contents of the preserved registers, all others reset.
    pub(crate) fn refresh(&mut self) {
        for at in (0..DEEPEST + ABOVE).step_by(CHUNK) {
            let from = (self.bits() as usize % CHUNK) & !7;
            // SAFETY: the range is open (`new`), and nothing lives on it between calls.
            unsafe {
                let to = self.top.sub(DEEPEST).add(at);
                std::ptr::copy_nonoverlapping(self.pool.as_ptr().add(from), to, CHUNK);
            }
        }
        let before = [(); 6].map(|()| self.bits());
        // SAFETY: the frame is in the open part, aligned to its page, and nobody else's.
        unsafe { (*self.frame()).before = before };
        if let Some(fence) = &mut self.fence {
            fence.remember();
        }
        self.reset();
    }

    fn reset(&self) {
        // SAFETY: both ways write registers that the compiler is told of. The area is 64-byte aligned, and its header says
        // that nothing was saved, so that nothing behind the header is read.
        unsafe {
            if self.has_xsave {
                // Who jumps here with other components in mind gets no further.
                std::arch::asm!("xrstor64 [{area}]", "cmp eax, {components}", "je 2f", "ud2", "2:",
                    area = in(reg) &raw const *self.reset, components = const COMPONENTS, in("eax") COMPONENTS,
                    in("edx") 0, clobber_abi("C"), options(nostack));
            } else {
                std::arch::asm!("fninit", "ldmxcsr [{mxcsr}]", mxcsr = in(reg) &raw const MXCSR, clobber_abi("C"),
                    options(nostack));
            }
        }
    }

    fn frame(&self) -> *mut Frame {
        self.top.cast()
    }

    pub(crate) fn aim(&mut self, function: Entry, args: &[u64], second: *mut u8) {
        let room = (ABOVE - ARGS) / size_of::<u64>();
        // SAFETY: frame and arguments lie in the open part above the stack; longer arguments stay where they are.
        unsafe {
            let frame = &mut *self.frame();
            frame.function = function as usize;
            frame.args = args.as_ptr().cast();
            frame.second = second;
            if args.len() <= room {
                let place = self.top.add(ARGS);
                std::ptr::copy_nonoverlapping(args.as_ptr(), place.cast::<u64>(), args.len());
                frame.args = place;
            }
        }
    }

    /// # Safety
    /// As the function that it was aimed at asks.
    #[inline]
    pub(crate) unsafe fn call(&mut self) -> i64 {
        // SAFETY: the frame is whole (`refresh`, `aim`), and the stack below it open and nobody else's.
        unsafe {
            enter(self.frame());
            (*self.frame()).status.cast_signed()
        }
    }

    /// What the call left as no function may.
    pub(crate) fn left(&mut self) -> Option<String> {
        let is_mended = self.fence.as_mut().is_none_or(Fence::mend);
        // SAFETY: the frame is this stack's own, and nobody writes to it now.
        let frame = unsafe { &*self.frame() };
        let found = self.differs(frame);
        let found = found.or_else(|| (!is_mended).then(|| "wrote to memory of the thread".to_owned()));
        if found.is_some() {
            self.reset();
        }
        found
    }

    fn differs(&self, frame: &Frame) -> Option<String> {
        let mxcsr = frame.mxcsr & !MXCSR_STATUS;
        if mxcsr != MXCSR {
            return Some(format!("left the floating-point mode changed (MXCSR {mxcsr:#x}, not {MXCSR:#x})"));
        }
        if frame.control != CONTROL {
            let control = frame.control;
            return Some(format!("left the floating-point mode changed (x87 {control:#x}, not {CONTROL:#x})"));
        }
        if frame.flags & FLAGS != 0 {
            let which = if frame.flags & 1 << 10 != 0 { "the direction flag" } else { "a system flag" };
            return Some(format!("left {which} set"));
        }
        let names = ["rbx", "rbp", "r12", "r13", "r14", "r15"];
        let mut pairs = names.iter().zip(frame.before.iter().zip(&frame.after));
        if let Some((name, _)) = pairs.find(|(_, (before, after))| before != after) {
            return Some(format!("did not preserve the register {name}"));
        }
        let opened = self.fence.is_some() && frame.keys != fence::CLOSED.load(Relaxed);
        (opened || Thread::read() != self.thread)
            .then(|| "left a register of the thread changed (fs, gs or memory keys)".to_owned())
    }
}

/// Calls the frame's function on the stack below the frame, and notes what it leaves.
#[unsafe(naked)]
unsafe extern "C" fn enter(frame: *mut Frame) {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rip + {own}], rsp",
        "mov rsp, rdi",
        "mov rbx, [rsp + {before}]",
        "mov rbp, [rsp + {before} + 8]",
        "mov r12, [rsp + {before} + 16]",
        "mov r13, [rsp + {before} + 24]",
        "mov r14, [rsp + {before} + 32]",
        "mov r15, [rsp + {before} + 40]",
        "push 0x202",
        "popfq",
        "mov rdi, [rsp + {args}]",
        "mov rsi, [rsp + {second}]",
        "xor ecx, ecx",
        "xor edx, edx",
        "cmp dword ptr [rip + {fenced}], 0",
        "je 2f",
        // Who jumps to the next line with other rights in mind gets no further than the one after it.
        "mov eax, [rip + {closed}]",
        "wrpkru",
        "cmp eax, [rip + {closed}]",
        "je 2f",
        "ud2",
        "2:",
        "xor eax, eax",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "call [rsp + {function}]",
        "mov r11, rax",
        "cmp dword ptr [rip + {fenced}], 0",
        "je 3f",
        "xor ecx, ecx",
        "rdpkru",
        "mov r10d, eax",
        "mov eax, [rip + {open}]",
        "xor edx, edx",
        "wrpkru",
        "3:",
        // From here on nothing that a call has left in registers says where is written: jumping here ends the call.
        "mov rsp, [rip + {own}]",
        "mov rcx, [rip + {top}]",
        "mov [rcx + {status}], r11",
        "mov [rcx + {keys}], r10d",
        "pushfq",
        "pop rax",
        "cld",
        "mov [rcx + {flags}], rax",
        "mov [rcx + {after}], rbx",
        "mov [rcx + {after} + 8], rbp",
        "mov [rcx + {after} + 16], r12",
        "mov [rcx + {after} + 24], r13",
        "mov [rcx + {after} + 32], r14",
        "mov [rcx + {after} + 40], r15",
        "stmxcsr [rcx + {mxcsr}]",
        "fnstcw [rcx + {control}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        own = sym OWN,
        top = sym TOP,
        fenced = sym FENCED,
        open = sym fence::OPEN,
        closed = sym fence::CLOSED,
        before = const offset_of!(Frame, before),
        after = const offset_of!(Frame, after),
        args = const offset_of!(Frame, args),
        second = const offset_of!(Frame, second),
        function = const offset_of!(Frame, function),
        status = const offset_of!(Frame, status),
        flags = const offset_of!(Frame, flags),
        keys = const offset_of!(Frame, keys),
        mxcsr = const offset_of!(Frame, mxcsr),
        control = const offset_of!(Frame, control),
    )
}

/// Registers that belong to the thread, and that a program may write: places to keep a number in from call to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    selectors: [u16; 4],
    bases: [u64; 2],
    keys: u32,
}

impl Thread {
    fn read() -> Self {
        let mut selectors = [0u16; 4];
        // SAFETY: these read registers; the last two only where the system has allowed them, as it says itself.
        unsafe {
            std::arch::asm!("mov {0:x}, ds", "mov {1:x}, es", "mov {2:x}, fs", "mov {3:x}, gs",
                out(reg) selectors[0], out(reg) selectors[1], out(reg) selectors[2], out(reg) selectors[3],
                options(nomem, nostack, preserves_flags));
            let (mut bases, mut keys) = ([0u64; 2], 0u32);
            if libc::getauxval(libc::AT_HWCAP2) & 2 != 0 {
                std::arch::asm!("rdfsbase {}", "rdgsbase {}", out(reg) bases[0], out(reg) bases[1],
                    options(nomem, nostack, preserves_flags));
            }
            if std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 4 != 0 {
                std::arch::asm!("rdpkru", in("ecx") 0, out("eax") keys, out("edx") _,
                    options(nomem, nostack, preserves_flags));
            }
            Self { selectors, bases, keys }
        }
    }
}
