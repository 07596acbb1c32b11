//! System calls, by seccomp: two lists of what is allowed, everything else is a signal that the worker's handler reports
//! with the call's number.
//!
//! The first list is what loading an object and mapping memory take. The second is what answering takes, and has nothing
//! that could keep a bit from one call to the next: no memory, no files, no signal mask, no timers.
//!
//! The call that installs the second list is the worker's alone. It carries secret numbers, drawn before anything of the
//! candidate was loaded, in arguments that the system ignores.

#![allow(unsafe_code, reason = "installs a filter with an argument that no crate passes")]

use std::collections::BTreeMap;
use std::io::Error;

use kopt_schema::wire::REPLY_FD;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Secret numbers that the worker's own calls carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    /// As the fourth argument.
    pub first: u64,
    /// As the fifth.
    pub second: u64,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What a rule asks of an argument.
struct Asks(u8, Length, Is, u64);

fn word(argument: u8, is: Is, value: u64) -> Asks {
    Asks(argument, Length::Dword, is, value)
}

fn long(argument: u8, value: u64) -> Asks {
    Asks(argument, Length::Qword, Is::Eq, value)
}

/// A list of allowed calls.
#[derive(Default)]
struct List {
    rules: Rules,
}

impl List {
    /// Whatever the arguments.
    fn any(mut self, calls: &[i64]) -> Self {
        calls.iter().for_each(|call| drop(self.rules.insert(*call, Vec::new())));
        self
    }

    /// With arguments as asked; one of several ways to make a call.
    fn only(mut self, call: i64, asks: Vec<Asks>) -> Result<Self, String> {
        let conditions: Result<Vec<_>, _> = asks
            .into_iter()
            .map(|Asks(index, length, is, value)| SeccompCondition::new(index, length, is, value))
            .collect();
        let rule = conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())?;
        self.rules.entry(call).or_default().push(rule);
        Ok(self)
    }

    fn program(self) -> Result<BpfProgram, String> {
        let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
        let filter = SeccompFilter::new(self.rules, SeccompAction::Trap, SeccompAction::Allow, architecture);
        filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
    }
}

/// What both stages need: answers, clocks, and an end.
fn common() -> Result<List, String> {
    let process = u64::from(std::process::id());
    List::default()
        // No return from a signal: no handler here ever does, and it would restore whatever registers somebody has written
        // down, the rights of memory keys among them.
        .any(&[libc::SYS_exit, libc::SYS_exit_group, libc::SYS_getpid, libc::SYS_gettid])
        .only(libc::SYS_write, vec![word(0, Is::Eq, fd(REPLY_FD))])?
        // The clock of `backend::cpu`. Any clock: the system remembers that such a call passes and does not run the filter,
        // which would stand in the timed region.
        .any(&[libc::SYS_clock_gettime])
        // abort(): an assertion that fails should be told as such. Nothing is blocked, so nothing is learned.
        .only(libc::SYS_rt_sigprocmask, vec![word(0, Is::Eq, libc::SIG_UNBLOCK as u64), long(2, 0)])?
        .only(
            libc::SYS_tgkill,
            vec![word(0, Is::Eq, process), word(1, Is::Eq, process), word(2, Is::Eq, libc::SIGABRT as u64)],
        )
}

fn fd(number: i32) -> u64 {
    u64::from(number.unsigned_abs())
}

/// Flags of an open that is for more than reading.
const WRITING: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE | libc::O_APPEND | libc::O_PATH;

/// Nothing that this process starts may get more rights than it has.
pub(super) fn no_new_privileges() -> std::io::Result<()> {
    // SAFETY: the call takes numbers and changes nothing but this process's rights.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// From before the object is loaded: its constructors run under this.
pub(super) fn load(pass: &Pass) -> std::io::Result<()> {
    let list = || {
        let reading = u64::from((WRITING & !libc::O_DIRECTORY).unsigned_abs());
        let writable = u64::from(libc::PROT_WRITE.unsigned_abs());
        common()?
            .any(&[libc::SYS_read, libc::SYS_pread64, libc::SYS_lseek, libc::SYS_close])
            .any(&[libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx])
            .any(&[libc::SYS_mmap, libc::SYS_munmap, libc::SYS_brk, libc::SYS_madvise, libc::SYS_mremap])
            .any(&[libc::SYS_futex, libc::SYS_getrandom, libc::SYS_sched_getaffinity, libc::SYS_uname])
            .only(libc::SYS_openat, vec![word(2, Is::MaskedEq(reading), 0)])?
            // The loader takes rights away; nobody gives them.
            .only(libc::SYS_mprotect, vec![word(2, Is::MaskedEq(writable), 0)])?
            // What is writable gets the key of what calls may write to; nothing gets more rights by it.
            .any(&[libc::SYS_pkey_mprotect])
            // Debug builds ask whether a descriptor is open before they close it.
            .only(libc::SYS_fcntl, vec![word(1, Is::Eq, libc::F_GETFD as u64)])?
            .only(libc::SYS_seccomp, vec![long(3, pass.first), long(4, pass.second)])?
            .program()
    };
    no_new_privileges()?;
    install(&list().map_err(Error::other)?, pass)
}

/// From before the first call.
pub(super) fn serve(pass: &Pass) -> std::io::Result<()> {
    let list = || common()?.only(libc::SYS_read, vec![word(0, Is::Eq, 0)])?.program();
    install(&list().map_err(Error::other)?, pass)
}

fn install(program: &BpfProgram, pass: &Pass) -> std::io::Result<()> {
    let length = u16::try_from(program.len()).map_err(Error::other)?;
    // The same layout: both are the system's `sock_filter`.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the system copies the program, which outlives the call, and looks at three of the arguments.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            // Systems before 5.16 slow down what is filtered, against leaks through speculation. There is no secret here.
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
            pass.first,
            pass.second,
        )
    };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
