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

/// How far calls are kept from writing to what is not theirs.
pub(crate) fn fenced_calls() -> (Force, String) {
    #[cfg(target_arch = "x86_64")]
    return super::fence::available();
    #[cfg(not(target_arch = "x86_64"))]
    (Force::None, format!("not written for {}", std::env::consts::ARCH))
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
    /// Clean and fenced in as far as the machine has it, and it is wanted.
    pub(super) fn new(clean: bool, fenced: bool) -> std::io::Result<Self> {
        #[cfg(target_arch = "x86_64")]
        if clean {
            let fence = if fenced { super::fence::Fence::new()? } else { None };
            return Ok(Self::Clean(x86_64::Stack::new(fence)?));
        }
        let _ = (clean, fenced);
        Ok(Self::Plain(None))
    }

    /// Lets calls write to these whole pages.
    pub(super) fn admit(&self, start: *mut u8, bytes: usize) -> std::io::Result<()> {
        #[cfg(target_arch = "x86_64")]
        if let Self::Clean(stack) = self {
            return stack.fence().map_or(Ok(()), |fence| fence.admit(start, bytes));
        }
        let _ = (start, bytes);
        Ok(())
    }

    /// Lets calls write to what the object has of its own.
    pub(super) fn admit_object(&self, object: &str) -> std::io::Result<()> {
        #[cfg(target_arch = "x86_64")]
        if let Self::Clean(stack) = self {
            return stack.fence().map_or(Ok(()), |fence| fence.admit_object(object));
        }
        let _ = object;
        Ok(())
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
    pub(super) fn left(&mut self) -> Option<String> {
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
mod x86_64;
