//! Whether a gain exists in training, from evidence alone. A benchmark repeats one call; in training activations and
//! gradients are new in every step, and weights change once. What needs the repetition is not a gain.
//!
//! | module | what |
//! |---|---|
//! | `memory` | what it is worth to a candidate when something of a call comes again |
//! | `prepare` | how often what it prepares is used, and what that can be worth at most |
//! | `skew` | whether the gain holds when rows are spread unevenly over groups |

mod memory;
mod prepare;
mod skew;

#[cfg(test)]
mod tests;

use kopt_schema::audit::Stateless;
use kopt_schema::bout::{STEPS, TraceRecord};
use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::{Estimate, Evidence, Ruling, StageKind};
use kopt_schema::message::FailureKind;
use kopt_stats::Effect;

pub use memory::Memory;
pub use prepare::Preparation;
pub use skew::{KindGain, Skew};

use super::series::{CANDIDATE, INCUMBENT};

/// Traces of a shape, if its step is short. A long one varies little from call to call, and is traced once; so is one between, and
/// any of a candidate that has nothing to remember with, unless its first trace leaves a doubt.
const TRACES: usize = 3;
const SHORT_NS: f64 = 2e6;
const LONG_NS: f64 = 20e6;

/// Error of a statement that accuses.
const ALPHA: f64 = 0.001;

/// Least part of the benchmark's gain that must be there with fresh tensors.
const TRANSFERS: f64 = 0.5;

/// What evidence shows of a candidate in training.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfer {
    /// Every shape was traced.
    pub traced: bool,
    /// Steps of a trace with fresh tensors.
    pub steps: usize,
    /// It remembers calls: what was seen of it.
    pub memory: Option<Memory>,
    /// Its object has memory that outlives a call, which the incumbent's does not have.
    pub keeps: bool,
    /// What it prepares, where it does.
    pub preparation: Option<Preparation>,
    /// The gain over the steps of the trace.
    pub gain: Option<Estimate>,
    /// How the gain holds under skew; none for ops without groups.
    pub skew: Option<Skew>,
}

impl Transfer {
    /// The bucket, as far as it is established: what remembers and what prepares show themselves; which of the K buckets a
    /// change belongs to is its author's word.
    #[must_use]
    pub fn bucket(&self, claimed: Option<Bucket>) -> Bucket {
        if let Some(memory) = &self.memory {
            return memory.bucket;
        }
        if self.keeps {
            return Bucket::W3;
        }
        match &self.preparation {
            Some(preparation) if preparation.is_new => Bucket::W1,
            _ => claimed.filter(|bucket| bucket.is_kernel()).unwrap_or(Bucket::K1),
        }
    }
}

/// What is known of a candidate in training.
#[must_use]
pub fn transfer(evidence: &Evidence) -> Transfer {
    let calls = evidence.trace.first().and_then(|record| record.sides.get(CANDIDATE)).map(|side| side.calls.as_slice());
    let steps = calls.unwrap_or_default().iter().map(|call| call.step + 1).max().unwrap_or(0);
    Transfer {
        traced: !evidence.trace.is_empty() && missing(evidence).is_none(),
        steps,
        memory: memory::memory(evidence),
        keeps: evidence
            .candidate
            .audit
            .as_ref()
            .is_some_and(|audit| audit.beyond(evidence.incumbent.audit.as_ref()).any(|finding| finding.keeps)),
        preparation: prepare::preparation(evidence),
        gain: trace_gain(evidence).map(|effect| super::estimate(&effect, 0.025)).filter(super::is_finite),
        skew: skew::skew(evidence),
    }
}

/// Whether a candidate leaves nothing for a later call: its audit proves it, or presumes it and the trace agrees.
#[must_use]
pub fn is_proven(evidence: &Evidence) -> bool {
    match evidence.candidate.audit.as_ref().map(|audit| audit.stateless) {
        Some(Stateless::Proven) => true,
        Some(Stateless::Presumed) => transfer(evidence).traced,
        Some(Stateless::Violated | Stateless::NotAudited) | None => false,
    }
}

/// The shape to trace next, if an accept is at stake, or wrong results that only later calls have.
#[must_use]
pub fn next_trace(evidence: &Evidence) -> Option<String> {
    if !evidence.terms.trace || evidence.identical || !evidence.injected.is_empty() {
        return None;
    }
    if let Some(forfeit) = &evidence.forfeit {
        let wrong = matches!(forfeit.kind, FailureKind::WrongValues | FailureKind::Unwritten);
        let case = forfeit.case.clone().filter(|case| names(evidence).contains(case))?;
        let of_case = evidence.trace.iter().any(|record| record.case == case);
        return (wrong && forfeit.contestant == CANDIDATE && !of_case).then_some(case);
    }
    let (ruling, _) = super::measured(evidence);
    // What is rolled back anyway needs no trace.
    let at_stake = matches!(ruling, Ruling::Accepted | Ruling::AcceptedTradeOff) && skew::refused(evidence).is_none();
    if at_stake { missing(evidence) } else { None }
}

/// What of an accept does not stand, and why.
pub(super) fn overruled(evidence: &Evidence) -> Option<(Ruling, Vec<String>)> {
    if let Some(reason) = skew::refused(evidence) {
        return Some((Ruling::Overfit, vec![reason]));
    }
    let found = transfer(evidence);
    if let Some(memory) = &found.memory {
        return Some((Ruling::IntegrityViolation, vec![memory.words()]));
    }
    if let Some(preparation) = found.preparation.as_ref().filter(|one| one.hit_rate() < prepare::LEAST_HIT_RATE) {
        return Some((Ruling::Overfit, vec![preparation.refusal()]));
    }
    let missing = evidence.terms.trace && evidence.injected.is_empty() && !found.traced;
    if missing {
        let reason = "it was not traced on every shape: a gain that may rest on repetition is no accept";
        return Some((Ruling::RolledBackNoise, vec![reason.to_owned()]));
    }
    fades(evidence).map(|reason| (Ruling::Overfit, vec![reason]))
}

/// What a wrong result comes to that is right in a process of its own.
pub(super) fn remembers(evidence: &Evidence) -> Option<String> {
    memory::stale(evidence).map(|memory| memory.words())
}

fn names(evidence: &Evidence) -> Vec<String> {
    evidence.arrangement.iter().flat_map(|arrangement| arrangement.cases.iter().map(|case| case.name.clone())).collect()
}

/// The first shape that has too few traces.
fn missing(evidence: &Evidence) -> Option<String> {
    let lacks = |name: &String| {
        let times = if memory::is_suspect(evidence, name) { 2 } else { 1 };
        of_case(evidence, name).count() < times * traces(evidence, name)
    };
    // One shape after the other: the judge keeps the memory of the last.
    names(evidence).into_iter().find(lacks)
}

/// Traces that a shape has, told by its first.
fn traces(evidence: &Evidence, name: &str) -> usize {
    let proven = evidence.candidate.audit.as_ref().is_some_and(|audit| audit.stateless == Stateless::Proven);
    let once = of_case(evidence, name).next().is_some_and(|record| {
        let taken = longest_ns(record);
        taken > LONG_NS || ((proven || taken > SHORT_NS) && !memory::is_doubtful(record))
    });
    if once { 1 } else { TRACES }
}

fn of_case<'a>(evidence: &'a Evidence, name: &'a str) -> impl Iterator<Item = &'a TraceRecord> {
    evidence.trace.iter().filter(move |record| record.case == name)
}

/// The longest fresh step but the first, whichever side's.
fn longest_ns(record: &TraceRecord) -> f64 {
    let sides = [INCUMBENT, CANDIDATE].into_iter();
    sides.flat_map(|side| (1..STEPS).filter_map(move |step| memory::fresh_ns(record, side, step))).fold(0.0, f64::max)
}

/// The gain over the fresh steps of the first traces, all shapes together; a process's first step is left out.
fn trace_gain(evidence: &Evidence) -> Option<Effect> {
    let names = names(evidence);
    let records: Vec<&TraceRecord> = names.iter().filter_map(|name| of_case(evidence, name).next()).collect();
    let gain = |record: &&TraceRecord, step: usize| {
        let (old, new) = (memory::fresh_ns(record, INCUMBENT, step)?, memory::fresh_ns(record, CANDIDATE, step)?);
        Some((old / new).ln())
    };
    let step = |step: usize| {
        let gains: Option<Vec<f64>> = records.iter().map(|record| gain(record, step)).collect();
        gains.filter(|gains| !gains.is_empty()).map(|gains| gains.iter().sum::<f64>() / gains.len() as f64)
    };
    let gains: Vec<f64> = (1..STEPS).filter_map(step).collect();
    (gains.len() > 2).then(|| Effect::of(&gains))
}

/// A gain of which less than half is left in steps with fresh tensors, beyond doubt.
fn fades(evidence: &Evidence) -> Option<String> {
    let stage = evidence.stages.iter().find(|stage| stage.kind == StageKind::Confirmation)?;
    let series = super::Series::of(evidence, stage, INCUMBENT, CANDIDATE);
    let benchmark = Effect::of(&series.aggregate());
    let trace = trace_gain(evidence)?;
    let least = TRANSFERS * benchmark.lower(super::alpha_of(evidence, stage));
    (least > 0.0 && trace.upper(ALPHA) < least).then(|| {
        let percent = |log: f64| 100.0 * kopt_stats::gain_of_log(log);
        format!(
            "the benchmark shows {:+.1} %, steps with fresh tensors {:+.1} %: the difference is what repetition was worth",
            percent(benchmark.mean),
            percent(trace.mean)
        )
    })
}
