//! How an entry is called: on a stack of its own that holds fresh random bytes, with every register in its first state, so
//! that nothing of the last call is left for the next to find; and what the processor must look like when it returns.
//!
//! ```text
//! | guard, 8 MiB | stack, 256 KiB | frame, arguments |
//!                                 ^ the stack begins here
//! ```
//!
//! Everything but the guard is overwritten before each call, outside of what is timed. The arguments lie on it too: what a
//! kernel writes into them is gone with the rest. The size is the same for all: when it followed what a kernel used, a deep
//! one took more processor time than its own clock told, and was accused of hiding work.
//!
//! Complete on x86-64. Elsewhere entries are called as any function is, and the evidence says so.

#![allow(unsafe_code, reason = "switches stacks")]

use kopt_schema::sandbox::Force;

use super::Entry;

/// How an entry is called.
pub(super) enum Caller {
    /// On a stack of its own.
    #[cfg(target_arch = "x86_64")]
    Clean(x86_64::Stack),
    /// As any function.
    Plain(Option<(Entry, *const u64, *mut u8)>),
}

/// How far clean calls are in force here.
pub(crate) fn clean_calls() -> (Force, String) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("xsave") {
            return (Force::Whole, "own stack, registers reset and compared".to_owned());
        }
        (Force::Part, "no xsave: vector registers keep what the last call left".to_owned())
    }
    #[cfg(not(target_arch = "x86_64"))]
    (Force::None, format!("not written for {}", std::env::consts::ARCH))
}

impl Caller {
    pub(super) fn new(clean: bool) -> std::io::Result<Self> {
        #[cfg(target_arch = "x86_64")]
        if clean {
            return Ok(Self::Clean(x86_64::Stack::new()?));
        }
        let _ = clean;
        Ok(Self::Plain(None))
    }

    /// Takes everything away that earlier calls left.
    pub(super) fn refresh(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if let Self::Clean(stack) = self {
            stack.refresh();
        }
    }

    /// Puts the next call's function and arguments in place; the second is null for a function that has one only.
    pub(super) fn aim(&mut self, function: Entry, args: &[u64], second: *mut u8) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Clean(stack) => stack.aim(function, args, second),
            Self::Plain(next) => *next = Some((function, args.as_ptr(), second)),
        }
    }

    /// Calls it: what is timed.
    ///
    /// # Safety
    /// As the function that it was aimed at asks; the arguments are still there.
    #[inline]
    pub(super) unsafe fn call(&mut self) -> i64 {
        match self {
            // SAFETY: the caller's.
            #[cfg(target_arch = "x86_64")]
            Self::Clean(stack) => unsafe { stack.call() },
            Self::Plain(next) => match *next {
                // SAFETY: the caller's.
                Some((function, args, second)) => unsafe { function(args.cast(), second) },
                None => 0,
            },
        }
    }

    /// What the call left as no function may, in words.
    pub(super) fn left(&self) -> Option<String> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Clean(stack) => stack.left(),
            Self::Plain(_) => None,
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::overflows;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::overflows;

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    /// Calls have no stack of their own here.
    pub(crate) fn overflows(_address: u64) -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::mem::offset_of;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

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

    /// Whether an address is in the guard: a call went deeper than its stack.
    pub(crate) fn overflows(address: u64) -> bool {
        let depth = usize::try_from(address).ok().and_then(|address| TOP.load(Relaxed).checked_sub(address));
        depth.is_some_and(|depth| depth > DEEPEST && depth <= DEEPEST + GUARD)
    }

    /// What the trampoline reads and writes. It lies where the stack begins, so that it is found again whatever a kernel
    /// has done to the registers.
    #[repr(C, align(64))]
    struct Frame {
        function: usize,
        args: *const u8,
        second: *mut u8,
        /// The worker's own stack.
        own: u64,
        status: u64,
        flags: u64,
        mxcsr: u32,
        control: u16,
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
    /// Components that are reset: x87, SSE, AVX, AVX-512 (three of them), the further general registers of APX. Not the
    /// rights of memory keys, which the system sets.
    const COMPONENTS: u32 = 0xe7 | 1 << 19;
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
    }

    impl Stack {
        pub(crate) fn new() -> std::io::Result<Self> {
            let mut pool = Box::new([0; 2 * CHUNK]);
            getrandom::fill(pool.as_mut_slice()).map_err(std::io::Error::other)?;
            let draw = getrandom::u64().map_err(std::io::Error::other)?;
            let mut reset = Box::new(Reset([0; 1024]));
            reset.0[24..28].copy_from_slice(&MXCSR.to_le_bytes());
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a fresh reservation that nothing else knows and that stays as long as the process; part of it is opened.
            let top = unsafe {
                let base = mmap_anonymous(std::ptr::null_mut(), GUARD + DEEPEST + ABOVE, ProtFlags::empty(), flags)?
                    .cast::<u8>();
                let top = base.add(GUARD + DEEPEST);
                mprotect(top.sub(DEEPEST).cast(), DEEPEST + ABOVE, MprotectFlags::READ | MprotectFlags::WRITE)?;
                top
            };
            TOP.store(top as usize, Relaxed);
            let has_xsave = std::arch::is_x86_feature_detected!("xsave");
            Ok(Self { top, pool, draw, reset, thread: Thread::read(), has_xsave })
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
            self.reset();
        }

        fn reset(&self) {
            // SAFETY: both ways write registers that the compiler is told of. The area is 64-byte aligned, and its header says
            // that nothing was saved, so that nothing behind the header is read.
            unsafe {
                if self.has_xsave {
                    std::arch::asm!("xrstor64 [{area}]", area = in(reg) &raw const *self.reset, in("eax") COMPONENTS,
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
        pub(crate) fn left(&self) -> Option<String> {
            // SAFETY: the frame is this stack's own, and nobody writes to it now.
            let frame = unsafe { &*self.frame() };
            let found = self.differs(frame);
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
            (Thread::read() != self.thread)
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
            "mov [rdi + {own}], rsp",
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
            "xor eax, eax",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            "call [rsp + {function}]",
            "mov [rsp + {status}], rax",
            "pushfq",
            "pop rax",
            "cld",
            "mov [rsp + {flags}], rax",
            "mov [rsp + {after}], rbx",
            "mov [rsp + {after} + 8], rbp",
            "mov [rsp + {after} + 16], r12",
            "mov [rsp + {after} + 24], r13",
            "mov [rsp + {after} + 32], r14",
            "mov [rsp + {after} + 40], r15",
            "stmxcsr [rsp + {mxcsr}]",
            "fnstcw [rsp + {control}]",
            "mov rsp, [rsp + {own}]",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbp",
            "pop rbx",
            "ret",
            own = const offset_of!(Frame, own),
            before = const offset_of!(Frame, before),
            after = const offset_of!(Frame, after),
            args = const offset_of!(Frame, args),
            second = const offset_of!(Frame, second),
            function = const offset_of!(Frame, function),
            status = const offset_of!(Frame, status),
            flags = const offset_of!(Frame, flags),
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
}
