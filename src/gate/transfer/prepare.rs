//! What a candidate prepares once a step: how often it is used, and what keeping it can be worth at most.

use kopt_schema::bout::{Probe, STEPS};
use kopt_schema::evidence::Evidence;

use super::{memory, names, of_case};
use crate::gate::series::{CANDIDATE, INCUMBENT};

/// A weight's rate strictly below this is a rollback.
pub(super) const LEAST_HIT_RATE: f64 = 0.5;

/// A preparation that takes no longer than this many times the incumbent's keeps nothing more than that.
const AS_BEFORE: f64 = 1.05;

/// A cache of something derived from weights, through `prepare`.
#[derive(Debug, Clone, PartialEq)]
pub struct Preparation {
    /// Entries that use it, once each in a step.
    pub uses: Vec<String>,
    /// The candidate brings it, or more of it than the incumbent had.
    pub is_new: bool,
    /// What keeping it is worth at most, as a gain of the step: time that it saves over the step's time.
    pub bound: Option<f64>,
}

impl Preparation {
    /// Uses after the first, over all uses of a step.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        let uses = self.uses.len() as f64;
        if self.uses.is_empty() { 0.0 } else { (uses - 1.0) / uses }
    }

    /// The share of a step that prepares anew for every use which keeping it saves.
    #[must_use]
    pub fn saved_share(&self) -> Option<f64> {
        self.bound.map(|bound| bound / (1.0 + bound))
    }

    pub(super) fn refusal(&self) -> String {
        let rate = 100.0 * self.hit_rate();
        let uses = match self.uses.as_slice() {
            [] => "no entry uses".to_owned(),
            [one] => format!("only {one} uses"),
            more => format!("{} use", more.join(", ")),
        };
        format!(
            "{uses} what it prepares: a hit rate of {rate:.0} % in a step, and a weight that changes every step needs {:.0} %",
            100.0 * LEAST_HIT_RATE
        )
    }
}

pub(super) fn preparation(evidence: &Evidence) -> Option<Preparation> {
    if !evidence.candidate.prepares {
        return None;
    }
    let mut uses: Vec<String> = Vec::new();
    let told = evidence.trace.iter().filter_map(|record| record.sides.get(CANDIDATE)).flat_map(|side| &side.uses);
    for one in told {
        if !uses.contains(one) {
            uses.push(one.clone());
        }
    }
    let longer = mean_over_cases(evidence, |name| {
        let (new, _) = times(evidence, name, CANDIDATE)?;
        let (old, _) = times(evidence, name, INCUMBENT)?;
        Some((new / old).ln())
    });
    let is_new = !evidence.incumbent.prepares || longer.is_none_or(|longer| longer > AS_BEFORE.ln());
    let hits = uses.len().saturating_sub(1) as f64;
    let bound = mean_over_cases(evidence, |name| {
        let (prepare, step) = times(evidence, name, CANDIDATE)?;
        Some((hits * prepare / step).ln_1p())
    });
    Some(Preparation { uses, is_new, bound: bound.map(f64::exp_m1) })
}

/// The mean of a logarithm over the shapes; none where one has none.
fn mean_over_cases(evidence: &Evidence, of: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = names(evidence).iter().map(|name| of(name)).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

/// Nanoseconds of preparing and of the whole step, with fresh tensors: medians over the steps but the first.
fn times(evidence: &Evidence, name: &str, side: usize) -> Option<(f64, f64)> {
    let calls = of_case(evidence, name).flat_map(|record| {
        let prepares = record.sides.get(side).is_some_and(|side| side.entries.len() > 1);
        (1..STEPS).filter_map(move |step| memory::find(record, side, step, Probe::Fresh).filter(|_| prepares))
    });
    let pairs =
        calls.filter_map(|call| Some((*call.device_ns.first()? as f64, call.device_ns.iter().sum::<u64>() as f64)));
    let (prepare, step): (Vec<f64>, Vec<f64>) = pairs.unzip();
    (!step.is_empty()).then(|| (kopt_stats::median(&prepare), kopt_stats::median(&step)))
}
