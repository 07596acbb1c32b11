//! How a command ended that failed: in words, and whose doing it is, as far as that tells.
//!
//! A compiler is the machine's: it says what is wrong with a source, and where it is killed nobody here has done that. Code of a
//! candidate, which runs while it is compiled, may say anything, come to the limits that it runs under, and end itself: what
//! fails then is its own doing, unless the system says that memory ran out.

use std::io::{Error, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::error::Blame;

/// Whose doing it is that a command was not run to its end.
pub(crate) fn of_none(error: &Error) -> Blame {
    // The one limit that is kept here; everything else comes from the system.
    if error.kind() == ErrorKind::TimedOut { Blame::Version } else { Blame::Machine }
}

/// Whose doing it is that a command failed which said this. `is_own` is code of a candidate; `memory_ran_out` while it ran.
pub(crate) fn of_failed(status: ExitStatus, said: &str, is_own: bool, memory_ran_out: bool) -> Blame {
    // It is mostly a part of a compiler that needs the memory, and the compiler says that it was killed.
    let is_said = || ["Killed", "SIGKILL", "signal 9"].iter().any(|words| said.contains(words));
    match status.signal() {
        signal if memory_ran_out && (signal == Some(libc::SIGKILL) || is_said()) => Blame::Machine,
        _ if is_own => Blame::Version,
        Some(libc::SIGKILL) => Blame::Machine,
        Some(libc::SIGXCPU) => Blame::Version,
        _ => Blame::Unclear,
    }
}

/// How many processes the system has ended because memory ran out; nothing where it does not count them.
pub(crate) fn ended_for_memory() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// What a command said that failed, and how it ended where that tells more: who is killed says nothing.
pub(crate) fn told(said: String, status: ExitStatus, blame: Blame) -> String {
    let end = match status.signal() {
        _ if blame == Blame::Machine => "it was killed, or a part of it, as happens where memory runs out".to_owned(),
        Some(libc::SIGXCPU) => "it was ended: it had used all the processor time that a compiler gets".to_owned(),
        Some(signal) => format!("it died of signal {signal}"),
        None if said.trim().is_empty() => format!("it said nothing, and ended with {status}"),
        None => return said,
    };
    let gap = if said.is_empty() || said.ends_with('\n') { "" } else { "\n" };
    format!("{said}{gap}{end}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILLED: i32 = libc::SIGKILL;
    const FAILED: i32 = 1 << 8;

    #[test]
    fn how_a_compiler_ended_is_told_where_it_did_not_say_so_itself() {
        let of = |said: &str, raw: i32| told(said.to_owned(), ExitStatus::from_raw(raw), Blame::Unclear);
        assert_eq!(of("x.c:1: error: no\n", FAILED), "x.c:1: error: no\n");
        assert_eq!(of("", 4 << 8), "it said nothing, and ended with exit status: 4\n");
        assert!(of("", libc::SIGXCPU).contains("processor time"));
        assert_eq!(of("", 11), "it died of signal 11\n");
        let killed = told("x.c: note".to_owned(), ExitStatus::from_raw(KILLED), Blame::Machine);
        assert_eq!(killed, "x.c: note\nit was killed, or a part of it, as happens where memory runs out\n");
    }

    #[test]
    fn a_compiler_that_is_killed_is_the_machine_s_and_one_at_its_limit_the_version_s() {
        let of = |raw: i32, said: &str, ran_out| of_failed(ExitStatus::from_raw(raw), said, false, ran_out);
        assert_eq!(of(KILLED, "", false), Blame::Machine);
        assert_eq!(of(libc::SIGXCPU, "", false), Blame::Version);
        assert_eq!(of(FAILED, "x.c:1: error: no", false), Blame::Unclear);
        // Another process was ended for memory meanwhile.
        assert_eq!(of(FAILED, "x.c:1: error: no", true), Blame::Unclear);
        assert_eq!(of(11, "internal compiler error", false), Blame::Unclear);
        let part = "gcc: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n";
        assert_eq!(of(FAILED, part, true), Blame::Machine);
        assert_eq!(of(FAILED, part, false), Blame::Unclear);
    }

    #[test]
    fn code_of_a_candidate_is_to_blame_whatever_it_says_and_however_it_ends() {
        let of = |raw: i32, said: &str, ran_out| of_failed(ExitStatus::from_raw(raw), said, true, ran_out);
        for (raw, said) in [
            (FAILED, "cannot write x.ptx: File too large"),
            (FAILED, "cannot write x.ptx: No space left on device"),
            (FAILED, "Killed"),
            (KILLED, ""),
            (libc::SIGXFSZ, ""),
            (libc::SIGXCPU, ""),
        ] {
            assert_eq!(of(raw, said, false), Blame::Version, "{raw} {said}");
        }
        // It cannot make that up.
        assert_eq!(of(KILLED, "", true), Blame::Machine);
        assert_eq!(of(FAILED, "ptxas died with <Signals.SIGKILL: 9>.", true), Blame::Machine);
    }

    #[test]
    fn what_does_not_run_to_its_end_is_the_machine_s_unless_its_time_is_over() {
        assert_eq!(of_none(&Error::from_raw_os_error(libc::ENOENT)), Blame::Machine);
        assert_eq!(of_none(&Error::other("a thread was lost")), Blame::Machine);
        assert_eq!(of_none(&Error::new(ErrorKind::TimedOut, "it did not end")), Blame::Version);
    }
}
