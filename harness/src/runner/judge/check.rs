//! Correctness before speed: every trial of the crate on one contestant, listed shapes and others, each with a seed that
//! nobody knew. The first that fails ends it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopt_schema::bout::Forfeit;
use kopt_schema::message::FailureKind;

use super::{Judge, watch};
use crate::package::Package;
use crate::runner::contestant::Loss;
use crate::runner::{cases, correctness};

/// Trials at a time. They only wait for processes; more would need more memory.
const THREADS: usize = 2;

/// Runs every trial; their number, or the first loss.
pub(super) fn run(package: &'static Package, judge: &Judge, contestant: usize) -> Result<usize, Forfeit> {
    let forfeit = |trial: Option<String>, loss: Loss| super::forfeit(contestant, trial, loss);
    let specs = cases::trials(package, judge.kernel, &judge.manifest)
        .map_err(|error| forfeit(None, Loss::new(FailureKind::Setup, error)))?;
    let (next, lost) = (AtomicUsize::new(0), Mutex::new(None));
    let candidate = &judge.entrants[contestant].candidate;
    let work = || {
        while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let trial = || {
                let seed = getrandom::u64().map_err(|error| Loss::new(FailureKind::Setup, error.to_string()))?;
                let case = spec.case(judge.kernel, &judge.manifest, seed);
                let told = |loss: Loss| Loss { message: format!("seed {seed:016x}: {}", loss.message), ..loss };
                correctness::once(judge.kernel, &judge.manifest, spec, candidate, &case, seed).map_err(told)
            };
            if let Err(loss) = trial() {
                next.store(specs.len(), Ordering::Relaxed);
                let found = forfeit(Some(spec.name.clone()), loss);
                lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(found);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
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
