//! Which processor contestants run on: all of a launch, and of a trace, on the same one.
//!
//! Left to the system, one contestant stays on one processor for most of a launch and the other on another, and processors
//! of a machine that is shared differ: who else runs on the same core slows one of the two down, for seconds. Launches
//! differed by up to 7 % so where they differ by 1 % at most on one processor (harness/README.md).

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps processes of one thread on the processor that this thread runs on, where the system has found room for it. Which that
/// is, if it could be done for all; if not, they are timed all the same, and none is kept.
pub(crate) fn keep_here(processes: &[u32]) -> Option<usize> {
    let here = sched_getcpu();
    let only = only(here)?;
    let before = sched_getaffinity(None).ok()?;
    let kept = processes.iter().all(|process| is_set(*process, &only));
    if !kept {
        processes.iter().for_each(|process| {
            is_set(*process, &before);
        });
    }
    kept.then_some(here)
}

/// Whether a process that was kept on a processor still is: it may not choose another itself. One that is gone has not.
pub(crate) fn is_kept(process: u32, processor: usize) -> bool {
    let set = pid(process).and_then(|process| sched_getaffinity(Some(process)).ok());
    set.is_none_or(|set| only(processor).is_some_and(|only| only == set))
}

/// Keeps this thread on a processor until it is dropped, where that can be had.
#[derive(Debug)]
pub(crate) struct Stay(Option<CpuSet>);

impl Stay {
    pub(crate) fn on(processor: usize) -> Self {
        let set = |only: &CpuSet| sched_setaffinity(None, only).is_ok();
        Self(sched_getaffinity(None).ok().filter(|_| only(processor).as_ref().is_some_and(set)))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was its own a moment ago.
            let _ = sched_setaffinity(None, before);
        }
    }
}

fn only(processor: usize) -> Option<CpuSet> {
    // A set has room for 1024.
    (processor < CpuSet::MAX_CPU).then(|| {
        let mut only = CpuSet::new();
        only.set(processor);
        only
    })
}

fn is_set(process: u32, to: &CpuSet) -> bool {
    pid(process).is_some_and(|process| sched_setaffinity(Some(process), to).is_ok())
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_kept_where_this_thread_runs_all_of_them_or_none() {
        let mut children = [0; 2].map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap());
        let ids = [children[0].id(), children[1].id()];
        let here = keep_here(&ids);
        let kept = here.map(|here| ids.map(|id| is_kept(id, here)));
        let free = sched_getaffinity(None).unwrap();
        children[1].kill().unwrap();
        children[1].wait().unwrap();
        let again = keep_here(&ids);
        let left = sched_getaffinity(pid(ids[0])).unwrap();
        children[0].kill().unwrap();
        children[0].wait().unwrap();
        assert_eq!(kept, Some([true; 2]));
        assert_eq!((again, left == free), (None, true), "one of them is gone: the other is not kept alone");
    }

    #[test]
    fn a_process_that_moves_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let here = keep_here(&[child.id()]).unwrap();
        let elsewhere = is_kept(child.id(), here + 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!elsewhere);
    }

    #[test]
    fn a_thread_stays_until_it_is_let_go() {
        let before = sched_getaffinity(None).unwrap();
        let here = sched_getcpu();
        let stay = Stay::on(here);
        let during = sched_getaffinity(None).unwrap();
        drop(stay);
        assert_eq!(during.count(), 1);
        assert!(during.is_set(here) && sched_getaffinity(None).unwrap() == before);
    }
}
