//! Which processor contestants run on: all of a launch, and of a trace, on the same one.
//!
//! Left to the system, one contestant stays on one processor for most of a launch and the other on another, and processors
//! of a machine that is shared differ: who else runs on the same core slows one of the two down, for seconds. Launches of
//! equal code differed by 4 to 9 % so where they differ by 0.5 to 1 % on one processor (harness/README.md).

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

/// Keeps processes of one thread on the processor that this thread runs on, where the system has found room for it. Which that
/// is, if it could be done for all: those that may be anywhere are timed all the same.
pub(crate) fn keep_here(processes: impl Iterator<Item = u32>) -> Option<usize> {
    let here = sched_getcpu();
    // A set has room for 1024.
    if here >= CpuSet::MAX_CPU {
        return None;
    }
    let mut only = CpuSet::new();
    only.set(here);
    let keep = |process: u32| sched_setaffinity(Some(Pid::from_raw(i32::try_from(process).ok()?)?), &only).ok();
    processes.map(keep).collect::<Option<Vec<()>>>().map(|_| here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_kept_where_this_thread_runs() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let here = keep_here(std::iter::once(child.id()));
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(allowed.trim(), here.unwrap().to_string());
        assert_eq!(keep_here(std::iter::once(child.id())), None, "it is gone");
    }
}
