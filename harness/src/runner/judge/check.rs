//! Correctness before speed: every trial of the crate on one contestant, listed shapes and others, each with a seed that
//! nobody knew. The first that fails ends it.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kopt_schema::bout::Forfeit;
use kopt_schema::manifest::Backend;
use kopt_schema::message::FailureKind;

use super::{Judge, watch};
use crate::package::Package;
use crate::runner::cases::{self, TrialSpec};
use crate::runner::contestant::Loss;
use crate::runner::correctness::{self, Attempt};
use crate::runner::room::{self, Room};

/// Trials at a time, at least: of one, either the judge or the contestant waits.
const FEWEST: usize = 2;

/// And at most. On a device each has its memory beside what is laid out there for launches.
const MOST: usize = 16;
const MOST_ON_A_DEVICE: usize = 4;

/// All trials of a contestant may take this long. The referee waits for half an hour, and takes a judge that has not
/// answered by then for a broken one.
const TIME: Duration = Duration::from_secs(25 * 60);

/// Runs every trial; their number, or the first loss.
pub(super) fn run(package: &'static Package, judge: &Judge, contestant: usize) -> Result<usize, Forfeit> {
    let forfeit = |trial: Option<String>, loss: Loss| super::forfeit(contestant, trial, loss);
    let specs =
        cases::trials(package, judge.kernel, &judge.manifest).map_err(|error| forfeit(None, Loss::of_judge(error)))?;
    let (next, lost) = (AtomicUsize::new(0), Mutex::new(None));
    let candidate = &judge.entrants[contestant].candidate;
    let groups = groups(&specs, |spec| correctness::together(candidate, spec));
    let most = if judge.manifest.backend == Backend::Cpu { MOST } else { MOST_ON_A_DEVICE };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).clamp(FEWEST, most);
    let room = Room::here();
    let trials = |specs: &[TrialSpec]| {
        let secret = |error: getrandom::Error| (0, Loss::of_judge(error.to_string()));
        let attempt = |spec| Ok(Attempt::new(judge.kernel, &judge.manifest, spec, getrandom::u64().map_err(secret)?));
        let attempts: Vec<Attempt<'_>> = specs.iter().map(attempt).collect::<Result<_, _>>()?;
        let needed = |attempt: &Attempt<'_>| room::needed(judge.kernel, attempt.spec.layout.symbol, &attempt.case);
        let _taken = room.take(attempts.iter().map(needed).sum());
        correctness::attempt(judge.kernel, &judge.manifest, candidate, &attempts).map_err(|(number, loss)| {
            let message = format!("seed {:016x}: {}", attempts[number].seed, loss.message);
            (number, Loss { message, ..loss })
        })
    };
    let begun = Instant::now();
    let late = || {
        let taken = begun.elapsed();
        let message = || {
            let (taken, most) = (taken.as_secs(), TIME.as_secs());
            format!("the trials so far took {taken} s, and all there are may take {most} s")
        };
        // Whether that is for the kernel, the references or whoever else has the device is not known.
        (taken > TIME).then(|| Loss::of_judge(message()))
    };
    let work = || {
        while let Some(specs) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Those of a slow one are made one by one: a group may take minutes, and the time is looked at before each.
            let at_once = if begun.elapsed() > TIME / 2 { 1 } else { specs.len().max(1) };
            for specs in specs.chunks(at_once) {
                let tried = late().map_or_else(|| trials(specs), |loss| Err((0, loss)));
                if let Err((number, loss)) = tried {
                    next.store(groups.len(), Ordering::Relaxed);
                    let found = forfeit(Some(specs[number].name.clone()), loss);
                    lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(found);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let left = watch::sweep(&[]).map(|_| {
        let loss = Loss::new(FailureKind::Stray, "it left a process behind that it had started");
        forfeit(None, loss)
    });
    match lost.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).or(left) {
        Some(forfeit) => Err(forfeit),
        None => Ok(specs.len()),
    }
}

/// Neighbouring trials of one entry that may share a process.
fn groups(specs: &[TrialSpec], together: impl Fn(&TrialSpec) -> usize) -> Vec<&[TrialSpec]> {
    let alike = |a: &TrialSpec, b: &TrialSpec| a.layout.symbol == b.layout.symbol && together(a) == together(b);
    let runs = specs.chunk_by(alike);
    runs.flat_map(|run| run.chunks(run.first().map_or(1, &together))).collect()
}
