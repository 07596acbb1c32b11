//! What it is worth to a candidate when something of a call comes again, beyond what it is worth to the incumbent.
//!
//! Calls that are compared touch the same memory, flushed before each, and differ in what is new about their contents
//! alone. For a kernel that computes everything from its arguments they take equally long; the incumbent, beside it in the
//! same moments, shows what the machine does to such calls.

use kopt_schema::bout::{Probe, STEPS, TraceRecord, TracedCall};
use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::Evidence;
use kopt_stats::{Effect, gain_of_log};

use super::{ALPHA, of_case};
use crate::gate::series::{CANDIDATE, INCUMBENT};

/// What may come again. The weights first: who gains by them gains by everything.
const PROBES: [Probe; 3] = [Probe::Weight, Probe::Same, Probe::Moved];

/// Steps without which nothing can be said.
const LEAST_STEPS: usize = 4;

/// Repetition must be worth this much, in logarithms, and more than this for certain.
const LEAST_WORTH: f64 = 0.03;
const CERTAIN_WORTH: f64 = 0.01;

/// And what the first traces of a shape show, others must show again, by themselves: calls of an honest kernel may differ by half
/// on a machine that is shared, and one of a thousand would be accused by chance.
const AGAIN_ALPHA: f64 = 0.01;

/// What seems to be worth this much in the only trace of a longer step is looked at again. Below `LEAST_WORTH`, so that what
/// is worth that much is seldom missed by noise; above `CERTAIN_WORTH`, which noise alone often reaches in four steps.
const DOUBTFUL_WORTH: f64 = 0.02;

/// That a candidate remembers, and how that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// W2, where what is derived from an activation or a gradient is kept; W3 for any other.
    pub bucket: Bucket,
    /// The shape.
    pub case: String,
    /// What came again.
    pub probe: Probe,
    /// How it shows.
    pub sign: Sign,
}

/// How memory shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Sign {
    /// A call is faster for what came before it.
    Faster {
        /// By so much, beyond what the incumbent gains by it.
        worth: f64,
        /// At least, at one in a thousand.
        low: f64,
        /// Calls of each that say so.
        calls: usize,
    },
    /// A call is wrong for what came before it.
    Wrong(String),
}

impl Memory {
    /// The reason of a ruling.
    #[must_use]
    pub fn words(&self) -> String {
        let (bucket, case, when) = (self.bucket.name(), &self.case, self.probe.words());
        let seen = match &self.sign {
            Sign::Faster { worth, low, calls } => format!(
                "it is {:.1} % faster {when} (at least {:.1} %, {calls} calls), beyond what the incumbent gains by that",
                100.0 * worth,
                100.0 * low
            ),
            Sign::Wrong(message) => {
                // What follows the first line is a map of the wrong elements.
                let message = message.lines().next().unwrap_or_default();
                format!("its results are wrong {when}, and right in a process that has made no call before: {message}")
            }
        };
        format!(
            "REJECT-as-overfit, bucket {bucket}: on {case} {seen}. It remembers past calls, which training does not repeat"
        )
    }

    /// What the cache is keyed by, as far as it shows.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self.probe {
            Probe::Weight => "the weights",
            Probe::Fresh => "the address of a weight, or nothing",
            Probe::Refilled => "addresses",
            Probe::Same => "addresses or contents of activations",
            Probe::Moved => "contents of activations",
        }
    }
}

/// What was seen of it, if anything.
pub(super) fn memory(evidence: &Evidence) -> Option<Memory> {
    stale(evidence).or_else(|| faster(evidence))
}

/// A candidate that was wrong in a trace and right in a process of its own.
pub(super) fn stale(evidence: &Evidence) -> Option<Memory> {
    evidence.trace.iter().find_map(|record| {
        let call = record.sides.get(CANDIDATE)?.calls.iter().find(|call| call.stale.is_some())?;
        // With new activations at new addresses, an answer of old can only be one about the weights, or about nothing.
        let bucket = if call.probe == Probe::Fresh { Bucket::W3 } else { Bucket::W2 };
        let sign = Sign::Wrong(call.stale.clone().unwrap_or_default());
        Some(Memory { bucket, case: record.case.clone(), probe: call.probe, sign })
    })
}

fn faster(evidence: &Evidence) -> Option<Memory> {
    let names = super::names(evidence);
    let alpha = alpha(evidence);
    let found = |name: &String, probe: Probe| {
        let (first, further) = looks(evidence, name);
        let again = worth(&further, probe).filter(|effect| effect.lower(AGAIN_ALPHA) > 0.0);
        if !shows(&first, probe, alpha) || again.is_none() {
            return None;
        }
        let effect = worth(&[first, further].concat(), probe)?;
        let (worth, low) = (gain_of_log(effect.mean), gain_of_log(effect.lower(alpha)));
        Some(Memory {
            bucket: if probe == Probe::Weight { Bucket::W3 } else { Bucket::W2 },
            case: name.clone(),
            probe,
            sign: Sign::Faster { worth, low, calls: effect.launches },
        })
    };
    PROBES.into_iter().find_map(|probe| names.iter().find_map(|name| found(name, probe)))
}

/// Whether the first traces of a shape show memory, and others are to say so again.
pub(super) fn is_suspect(evidence: &Evidence, name: &str) -> bool {
    let (first, alpha) = (looks(evidence, name).0, alpha(evidence));
    PROBES.into_iter().any(|probe| shows(&first, probe, alpha))
}

/// The traces of a shape that show something, and those that are to show it again.
fn looks<'a>(evidence: &'a Evidence, name: &'a str) -> (Vec<&'a TraceRecord>, Vec<&'a TraceRecord>) {
    let mut first: Vec<&TraceRecord> = of_case(evidence, name).collect();
    let further = first.split_off(super::traces(evidence, name).min(first.len()));
    (first, further)
}

fn shows(records: &[&TraceRecord], probe: Probe, alpha: f64) -> bool {
    worth(records, probe).is_some_and(|effect| effect.mean >= LEAST_WORTH && effect.lower(alpha) > CERTAIN_WORTH)
}

/// What one statement of many may err by.
fn alpha(evidence: &Evidence) -> f64 {
    ALPHA / (super::names(evidence).len().max(1) * PROBES.len()) as f64
}

/// What it is worth to the candidate that `probe` repeats something, in logarithms, beyond what the incumbent has of it.
fn worth(records: &[&TraceRecord], probe: Probe) -> Option<Effect> {
    let gain = |record: &TraceRecord, side: usize, step: usize| {
        Some((total_ns(record, side, step, Probe::Refilled)? / total_ns(record, side, step, probe)?).ln())
    };
    let excess =
        |record: &TraceRecord, step: usize| Some(gain(record, CANDIDATE, step)? - gain(record, INCUMBENT, step)?);
    let steps = records.iter().flat_map(|record| (0..STEPS).filter_map(move |step| excess(record, step)));
    let steps: Vec<f64> = steps.collect();
    (steps.len() >= LEAST_STEPS).then(|| Effect::of(&steps))
}

/// Whether repetition seems to be worth something in a trace, certain or not.
pub(super) fn is_doubtful(record: &TraceRecord) -> bool {
    PROBES.into_iter().any(|probe| worth(&[record], probe).is_some_and(|effect| effect.mean > DOUBTFUL_WORTH))
}

/// Nanoseconds of a fresh step.
pub(super) fn fresh_ns(record: &TraceRecord, side: usize, step: usize) -> Option<f64> {
    total_ns(record, side, step, Probe::Fresh)
}

fn total_ns(record: &TraceRecord, side: usize, step: usize, probe: Probe) -> Option<f64> {
    find(record, side, step, probe).map(|call| call.device_ns.iter().sum::<u64>() as f64).filter(|ns| *ns > 0.0)
}

pub(super) fn find(record: &TraceRecord, side: usize, step: usize, probe: Probe) -> Option<&TracedCall> {
    record.sides.get(side)?.calls.iter().find(|call| call.step == step && call.probe == probe)
}
