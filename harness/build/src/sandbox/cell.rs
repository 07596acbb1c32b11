//! Where a program runs that is made of a candidate's own code: it reads libraries and the files it is given, writes to what it
//! was started with, starts no other program, has no socket and reaches no other process.
//!
//! As compilers are, it is started from a thread that is confined first. What the system cannot put up is left out: the
//! candidate's compiler lacked it as well, and `candidate.json` says so.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    Scope, path_beneath_rules,
};
use object::Endianness;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use super::{ABI_WANTED, DEVICES};
use crate::environment;
use crate::toolchain::Compiler;

/// Where libraries lie, and what sanitizers read of the system. Of other processes there is little to see: what is guarded by
/// the right to trace them is out of reach from inside.
const READ: [&str; 12] = [
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/sys/devices/system/cpu",
    "/proc",
];

/// What starting a program, its libraries and a sanitizer's runtime take. Whatever else is asked for is answered as by a system
/// that does not know it: libraries have another way for that, and there is no list of what systems will know.
const CALLS: &[i64] = &[
    // A program is started.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_setpgid,
    libc::SYS_chdir,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_pipe2,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_personality,
    // Files, as far as they can be opened.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Itself, its threads and the time.
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    // abort(). Landlock keeps it from other processes.
    libc::SYS_tgkill,
];

/// What newer processors have under another name.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[i64] = &[
    libc::SYS_vfork,
    libc::SYS_dup2,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[i64] = &[];

/// A place for one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    program: Utf8PathBuf,
    readable: Vec<Utf8PathBuf>,
}

impl Cell {
    /// For a program that `compiler` made, whose own libraries may lie beside it.
    pub(crate) fn new(program: &Utf8Path, compiler: &Compiler) -> Self {
        let mut readable: Vec<Utf8PathBuf> = READ.iter().map(Utf8PathBuf::from).collect();
        readable.extend(compiler.home().iter().flat_map(|home| ["lib", "lib64"].map(|folder| home.join(folder))));
        // Where the loader is told to look by whoever installed the compiler elsewhere.
        readable.extend(
            environment::folders("LD_LIBRARY_PATH").into_iter().filter(|folder| folder.is_absolute() && folder != "/"),
        );
        Self { program: program.to_owned(), readable }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Utf8Path {
        &self.program
    }

    /// The same, and one more file to read.
    #[must_use]
    pub fn and_read(mut self, file: &Utf8Path) -> Self {
        self.readable.push(file.to_owned());
        self
    }

    /// Does something in a thread that is confined, and what it starts with it: `start` starts the program. None where the
    /// thread is lost.
    pub fn inside<T: Send>(&self, start: impl FnOnce() -> T + Send) -> Option<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // The filter comes last: it knows nothing of what puts up the walls.
                let filter = filter();
                let _ = self.put_up();
                let _ = filter.map(|filter| apply_filter(&filter));
                start()
            });
            thread.join().ok()
        })
    }

    fn put_up(&self) -> Result<(), RulesetError> {
        let look: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        Ruleset::default()
            .handle_access(AccessFs::from_all(ABI_WANTED))?
            .handle_access(AccessNet::from_all(ABI_WANTED))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .add_rules(path_beneath_rules(&self.readable, look))?
            .add_rules(path_beneath_rules(self.run(), AccessFs::ReadFile | AccessFs::Execute))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))?
            .restrict_self()?;
        Ok(())
    }

    /// What may be run: the program, and the loader that it names. What the loader could be asked to run lies in no folder of
    /// libraries.
    fn run(&self) -> Vec<Utf8PathBuf> {
        let loader = || {
            let bytes = std::fs::read(&self.program).ok()?;
            let file = ElfFile64::<Endianness>::parse(bytes.as_slice()).ok()?;
            let named = file
                .elf_program_headers()
                .iter()
                .find_map(|part| part.interpreter(file.endian(), bytes.as_slice()).ok().flatten())?;
            std::str::from_utf8(named).ok().map(Utf8PathBuf::from)
        };
        std::iter::once(self.program.clone()).chain(loader()).collect()
    }
}

fn filter() -> Option<BpfProgram> {
    let calls: BTreeMap<i64, Vec<_>> = CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(calls, unknown, SeccompAction::Allow, architecture).ok()?;
    BpfProgram::try_from(filter).ok()
}
