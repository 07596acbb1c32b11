//! Time for measuring, shared by need: each kernel first gets an equal share of what is left, so that what one does not use
//! is there for the others. What is left then goes to those that are not decided, first to the one whose next look is
//! nearest: time that does not reach a look decides nothing.

use kopt_schema::bout::{CaseRecord, LaunchRecord};
use kopt_schema::evidence::{Evidence, Ruling, Stage, StageKind};

use crate::gate::{self, Next};

/// Seconds below which going on is not worth the start of a judge.
const WORTH: f64 = 5.0;

/// What is left.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: f64,
}

impl Budget {
    /// All of it.
    pub const fn new(seconds: f64) -> Self {
        Self { left: seconds }
    }

    /// What one of `kernels` that are still to come may use.
    pub fn share(&self, kernels: usize) -> f64 {
        (self.left / kernels.max(1) as f64).max(0.0)
    }

    /// The same for one of `kernels` that were cut off: at least what takes it to its next look. None where that is more
    /// than is left.
    pub fn more(&self, kernels: usize, need: Need) -> Option<f64> {
        let share = self.share(kernels).max(need.seconds());
        (share >= WORTH && share <= self.left).then_some(share)
    }

    /// Some of it was used.
    pub fn spend(&mut self, seconds: f64) {
        self.left -= seconds;
    }
}

/// What a match that is not decided needs until it is looked at again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Launches.
    pub launches: usize,
    /// Seconds that each has taken so far.
    pub each_s: f64,
}

impl Need {
    /// None where no time could decide more.
    pub fn of(evidence: &Evidence) -> Option<Self> {
        let disturbed = evidence.verdict.ruling == Ruling::Contaminated;
        let next = gate::next(evidence);
        if evidence.forfeit.is_some() || (next == Next::Done && !disturbed) {
            return None;
        }
        let fresh = |kind| Stage { kind, launches: Vec::new() };
        let stage = match (disturbed, next, evidence.stages.last()) {
            (false, Next::Measure, Some(stage)) => stage.clone(),
            (false, Next::Confirm, _) => fresh(StageKind::Confirmation),
            // A disturbed one begins anew.
            _ => fresh(StageKind::Screen),
        };
        let so_far = stage.launches.len();
        let look = gate::looks(evidence, &stage).into_iter().find(|look| *look > so_far)?;
        Some(Self { launches: look - so_far, each_s: launch_s(evidence) })
    }

    /// Seconds that these take. One more than there are: a launch that might not end in time is not begun.
    pub fn seconds(self) -> f64 {
        (self.launches + 1) as f64 * self.each_s
    }
}

/// Seconds that a launch takes, from those there were. Each runs a ladder of calls on one of its shapes, by lot; where shapes
/// differ a hundredfold that may take longer than all the rest, so that it counts as what it takes on average.
fn launch_s(evidence: &Evidence) -> f64 {
    let launches: Vec<&LaunchRecord> = evidence.stages.iter().flat_map(|stage| &stage.launches).collect();
    let calls = |case: &CaseRecord| case.ladder.iter().map(|rung| rung.calls).sum::<u64>();
    let calls = launches.iter().flat_map(|launch| &launch.cases).map(calls).max().unwrap_or(0);
    let of_launch = |launch: &&LaunchRecord| {
        let ladder: u64 = launch.cases.iter().flat_map(|case| &case.ladder).flat_map(|rung| &rung.device_ns).sum();
        let usual = launch.cases.iter().map(call_s).sum::<f64>() / launch.cases.len().max(1) as f64;
        (launch.wall_s - ladder as f64 * 1e-9).max(0.0) + calls as f64 * usual
    };
    launches.iter().map(of_launch).sum::<f64>() / launches.len().max(1) as f64
}

/// Seconds of one call of every contestant.
fn call_s(case: &CaseRecord) -> f64 {
    let twice: u64 = case.blocks.first().map_or(0, |block| block.device_ns.iter().flatten().sum());
    twice as f64 * 0.5e-9 / case.calls.max(1) as f64
}

#[cfg(test)]
mod tests {
    use kopt_schema::bout::Rung;

    use super::*;
    use crate::page::tests::made;

    #[test]
    fn what_one_does_not_use_is_there_for_the_others() {
        let mut budget = Budget::new(100.0);
        assert_eq!(budget.share(4), 25.0);
        budget.spend(10.0);
        assert_eq!(budget.share(3), 30.0);
        budget.spend(100.0);
        assert_eq!(budget.share(1), 0.0);
    }

    #[test]
    fn a_match_needs_the_launches_to_its_next_look_and_a_decided_one_nothing() {
        let mut evidence = made::evidence(1.2, "");
        evidence.terms = gate::gate_terms(0.02).unwrap();
        let screen = evidence.stages[0].launches.clone();
        let need = |evidence: &mut Evidence, launches: usize| {
            let launches = screen.iter().cycle().take(launches).cloned().collect();
            evidence.stages = vec![Stage { kind: StageKind::Screen, launches }];
            evidence.verdict = gate::placeholder();
            Need::of(evidence).map(|need| (need.launches, need.each_s > 0.0))
        };
        assert_eq!(need(&mut evidence, 0), Some((6, false)));
        assert_eq!(need(&mut evidence, 4), Some((2, true)));
        // Slower at the first look: it is to be confirmed, by as many launches as the next look has.
        assert_eq!(need(&mut evidence, 6), Some((9, true)));
        evidence.verdict.ruling = Ruling::Contaminated;
        assert_eq!(Need::of(&evidence).map(|need| need.launches), Some(6), "a disturbed one begins anew");
        (evidence.identical, evidence.verdict) = (true, gate::placeholder());
        assert_eq!(Need::of(&evidence), None);
    }

    #[test]
    fn a_ladder_on_the_longest_shape_is_no_measure_of_a_launch() {
        let mut evidence = made::evidence(1.0, "");
        let launch = &mut evidence.stages[0].launches[0];
        let rung = |calls: u64| Rung { calls, device_ns: vec![calls * 1_000_000_000; 3] };
        launch.cases[0].ladder = [1, 2, 4, 8].map(rung).to_vec();
        launch.wall_s += 45.0;
        evidence.stages[0].launches.truncate(1);
        evidence.stages.truncate(1);
        let each = launch_s(&evidence);
        assert!((0.1..0.2).contains(&each), "{each} s");
    }

    #[test]
    fn one_that_was_cut_off_gets_what_takes_it_to_its_next_look_or_nothing() {
        let budget = Budget::new(40.0);
        let need = |launches, each_s| Need { launches, each_s };
        assert_eq!(budget.more(4, need(2, 1.0)), Some(10.0), "its share is more than it needs");
        assert_eq!(budget.more(4, need(5, 5.0)), Some(30.0), "and where it is less, the others wait");
        assert_eq!(budget.more(4, need(7, 5.0)), Some(40.0));
        assert_eq!(budget.more(1, need(8, 5.0)), None, "too little to learn anything from");
        assert_eq!(Budget::new(4.0).more(1, need(1, 0.1)), None, "not worth the start of a judge");
    }
}
