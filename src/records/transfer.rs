//! The real-training transfer check of a round, as the section that summary and commit carry. What was not established
//! is said to be so: no line is left out and none is made up.

use super::facts::{BucketFinding, Grounds, HitRate, TransferFacts};
use super::{numbers, text, training};

/// Labels of the lines, in their order. The one about distributions stands for grouped ops only.
pub(super) const LABELS: [&str; 9] = [
    "Bucket",
    "Cache key",
    "State audit",
    "Hit rate over 8 steps",
    ROBUSTNESS,
    "Benchmark gain",
    "Estimated real-training gain",
    "Measured training-step gain",
    "Decision",
];

pub(super) const ROBUSTNESS: &str = "Workload distribution robustness";

const NOT_ESTABLISHED: &str = "not established";
const NOT_RUN: &str = "not run";

/// The section's lines, as a Markdown list.
#[must_use]
pub fn transfer(facts: &TransferFacts) -> String {
    lines(facts).into_iter().map(|(label, said)| format!("- {label}: {}\n", text::inline(&said))).collect()
}

/// Each label with what there is to say.
pub(super) fn lines(facts: &TransferFacts) -> Vec<(&'static str, String)> {
    let said = |text: &Option<String>, otherwise: &str| text.clone().unwrap_or_else(|| otherwise.to_owned());
    let robustness = facts.robustness.as_ref().map_or_else(
        || NOT_RUN.to_owned(),
        |found| format!("{}: {}", if found.holds { "holds" } else { "does not hold" }, found.detail),
    );
    let estimated = facts.estimated.as_ref().map_or_else(
        || NOT_ESTABLISHED.to_owned(),
        |found| format!("{}; {}", numbers::gain(found.gain), found.derivation),
    );
    let values = [
        bucket(facts.bucket),
        said(&facts.cache_key, NOT_ESTABLISHED),
        said(&facts.state_audit, NOT_RUN),
        facts.hit_rate.as_ref().map_or_else(|| NOT_RUN.to_owned(), hit_rate),
        robustness,
        facts.benchmark.as_ref().map_or_else(|| "not measured".to_owned(), numbers::with_confidence),
        estimated,
        facts.training_step.as_ref().map_or_else(|| NOT_RUN.to_owned(), training::words),
        facts.decision.map_or(NOT_ESTABLISHED, |decision| decision.name()).to_owned(),
    ];
    LABELS.into_iter().zip(values).filter(|(label, _)| *label != ROBUSTNESS || facts.grouped).collect()
}

/// `K1`, `K1 (presumed)`, `not established (claimed: K1)`.
pub(super) fn bucket(finding: Option<BucketFinding>) -> String {
    let Some(BucketFinding { bucket, grounds }) = finding else {
        return format!("{NOT_ESTABLISHED} (nothing claimed)");
    };
    match grounds {
        Grounds::Established => bucket.name().to_owned(),
        Grounds::Presumed => format!("{} (presumed)", bucket.name()),
        Grounds::Claimed => format!("{NOT_ESTABLISHED} (claimed: {})", bucket.name()),
    }
}

fn hit_rate(rate: &HitRate) -> String {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let weights =
        rate.weights.map_or("nothing of a weight kept".to_owned(), |share| format!("weights {}", percent(share)));
    // The label says eight; a trace that was cut short must not pass for a whole one.
    let steps = if rate.steps == 8 { String::new() } else { format!(" (only {} steps ran)", rate.steps) };
    format!("activations and gradients {}, {weights}{steps}", percent(rate.activations))
}
