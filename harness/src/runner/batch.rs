//! Trials that share a process. Of class `device` a process is worth nothing but its context, and making one takes
//! longer than a small trial: a suite of hundreds would spend its time there.
//!
//! What passes together has passed. Where one loses, it has lost, and the others are tried again, each by itself and with
//! the seeds it had: nothing that was found is lost, and nobody fails for a process that another has broken.

use std::sync::OnceLock;

use super::cases::TrialSpec;
use super::contestant::Loss;

/// Neighbouring trials of one entry, and what came of trying them together.
pub(crate) struct Batch {
    pub specs: Vec<TrialSpec>,
    tried: OnceLock<Option<Tried>>,
}

impl Batch {
    fn new(specs: Vec<TrialSpec>) -> Self {
        Self { specs, tried: OnceLock::new() }
    }

    /// What came of trying them together: by the first who asks, while the others wait. Nothing for one alone.
    pub(crate) fn tried(&self, together: impl FnOnce(&[TrialSpec]) -> Option<Tried>) -> Option<&Tried> {
        if self.specs.len() == 1 {
            return None;
        }
        self.tried.get_or_init(|| together(&self.specs)).as_ref()
    }
}

/// What came of trying a batch in one process.
#[derive(Debug)]
pub(crate) struct Tried {
    /// The seeds of each trial.
    pub seeds: Vec<Vec<u64>>,
    /// A trial's share of the time.
    pub seconds: f64,
    /// The first that lost.
    pub lost: Option<Lost>,
}

/// A trial that lost in its batch.
#[derive(Debug)]
pub(crate) struct Lost {
    pub number: usize,
    pub seed: u64,
    pub loss: Loss,
}

impl Tried {
    /// What is known of a trial; nothing where another one lost.
    pub(crate) fn of(&self, number: usize) -> Option<Result<(), &Lost>> {
        match &self.lost {
            None => Some(Ok(())),
            Some(lost) if lost.number == number => Some(Err(lost)),
            Some(_) => None,
        }
    }
}

/// Batches of neighbours; `together` says how many like one may share a process.
pub(crate) fn of(specs: Vec<TrialSpec>, together: impl Fn(&TrialSpec) -> usize) -> Vec<Batch> {
    let mut batches: Vec<Vec<TrialSpec>> = Vec::new();
    let mut room = 0;
    let mut last = 0;
    for spec in specs {
        let most = together(&spec);
        let symbol = |batch: &Vec<TrialSpec>| batch.first().map(|first| first.layout.symbol);
        match batches.last_mut() {
            Some(batch) if room > 0 && most == last && symbol(batch) == Some(spec.layout.symbol) => {
                batch.push(spec);
                room -= 1;
            }
            _ => {
                batches.push(vec![spec]);
                room = most.saturating_sub(1);
            }
        }
        last = most;
    }
    batches.into_iter().map(Batch::new).collect()
}

/// Files that an attempt takes at most: two of memory, each open once more while a process is started, and as many
/// descriptors that the process inherits.
const FILES: u64 = 8;

/// How many attempts each of so many threads may have at a time. This process is let have as many files as the system
/// allows, and what it has must do for all.
pub(crate) fn most_attempts(threads: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // No limit is none.
    let files = if raised { maximum } else { current }.unwrap_or(u64::MAX);
    usize::try_from(files / FILES).unwrap_or(usize::MAX) / threads.max(1)
}

#[cfg(test)]
mod tests {
    use kopt_schema::message::FailureKind;

    use super::super::cases::Sizes;
    use super::*;
    use crate::distribution::Distribution;
    use crate::package::EntryLayout;

    static FORWARD: EntryLayout = EntryLayout { symbol: "forward", size: 0, fields: &[] };
    static BACKWARD: EntryLayout = EntryLayout { symbol: "backward", size: 0, fields: &[] };

    fn spec(layout: &'static EntryLayout, name: &str, heavy: bool) -> TrialSpec {
        let distribution = Distribution::Uniform;
        TrialSpec {
            name: name.to_owned(),
            layout,
            forward: &FORWARD,
            sizes: Sizes::Random,
            distribution,
            bytes: 0,
            heavy,
        }
    }

    fn names(batches: &[Batch]) -> Vec<String> {
        batches.iter().map(|batch| batch.specs.iter().map(|spec| spec.name.as_str()).collect()).collect()
    }

    #[test]
    fn neighbours_of_one_entry_share_until_there_is_no_room() {
        let specs = || {
            let forward = ["a", "b", "C", "d", "e", "f", "g"].map(|name| spec(&FORWARD, name, name == "C"));
            forward.into_iter().chain(["h", "i"].map(|name| spec(&BACKWARD, name, false))).collect::<Vec<_>>()
        };
        let batches = of(specs(), |spec| if spec.heavy { 1 } else { 3 });
        assert_eq!(names(&batches), ["ab", "C", "def", "g", "hi"]);
        assert_eq!(names(&of(specs(), |_| 1)).len(), 9);
    }

    #[test]
    fn what_one_loses_says_nothing_of_the_others() {
        let tried = |lost| Tried { seeds: vec![vec![1], vec![2]], seconds: 0.1, lost };
        assert!((0..2).all(|number| tried(None).of(number).is_some_and(|known| known.is_ok())));
        let loss = Loss::new(FailureKind::Crashed, "died");
        let tried = tried(Some(Lost { number: 1, seed: 2, loss }));
        assert!(tried.of(0).is_none());
        assert_eq!(tried.of(1).and_then(Result::err).map(|lost| lost.seed), Some(2));
    }

    #[test]
    fn a_batch_is_tried_once_and_a_single_trial_never() {
        let batches = of(["a", "b", "c"].map(|name| spec(&FORWARD, name, false)).to_vec(), |_| 2);
        let none = || Tried { seeds: Vec::new(), seconds: 0.0, lost: None };
        assert!(
            batches[0]
                .tried(|specs| {
                    assert_eq!(specs.len(), 2);
                    Some(none())
                })
                .is_some()
        );
        assert!(batches[0].tried(|_| panic!("again")).is_some());
        assert!(batches[1].tried(|_| panic!("alone")).is_none());
    }
}
