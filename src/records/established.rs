//! The transfer check of a round from its evidence: what the gate found, as the facts that summary, commit and report are
//! made of. A claim is used for one thing only: which of the K buckets a change is called.

use kopt_schema::audit::Stateless;
use kopt_schema::bout::STEPS;
use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::{Estimate, Evidence, Ruling};

use super::facts::{BucketFinding, EstimatedGain, Grounds, HitRate, Robustness, TransferDecision, TransferFacts};
use super::numbers;
use crate::gate::transfer::{self, Preparation, Skew, Transfer};

/// What `evidence` establishes; `claimed` is the proposer's word.
#[must_use]
pub fn established(evidence: &Evidence, claimed: Option<Bucket>) -> TransferFacts {
    let found = transfer::transfer(evidence);
    let bucket = found.bucket(claimed);
    let accepted = evidence.verdict.ruling.is_accepted();
    let benchmark = evidence.verdict.aggregate.filter(|_| accepted);
    let keeps = !bucket.is_kernel();
    let audit = evidence.candidate.audit.as_ref();
    let is_clean = audit.is_some_and(|audit| audit.stateless == Stateless::Presumed);
    let grounds = match (keeps, transfer::is_proven(evidence), found.traced) {
        (true, ..) | (false, true, _) => Some(Grounds::Established),
        (false, false, true) => Some(Grounds::Presumed),
        (false, false, false) if is_clean => {
            accepted.then_some(Grounds::Presumed).or(claimed.map(|_| Grounds::Claimed))
        }
        (false, false, false) => claimed.map(|_| Grounds::Claimed),
    };
    let overfit = found.memory.is_some() || found.keeps || evidence.verdict.ruling == Ruling::Overfit;
    let decision = match (overfit, accepted) {
        (true, _) => Some(TransferDecision::AsOverfit),
        (false, true) => Some(TransferDecision::of(bucket)),
        (false, false) => None,
    };
    TransferFacts {
        bucket: grounds.map(|grounds| BucketFinding { bucket, grounds }),
        cache_key: cache_key(&found),
        state_audit: audit.map(crate::audit::words::line),
        hit_rate: hit_rate(evidence, &found),
        grouped: found.skew.is_some(),
        robustness: found.skew.as_ref().map(robustness),
        benchmark,
        estimated: estimated(&found, bucket, benchmark.as_ref()),
        training_step: None,
        decision,
        prepare_share: found.preparation.as_ref().and_then(Preparation::saved_share),
    }
}

fn cache_key(found: &Transfer) -> Option<String> {
    match (&found.memory, &found.preparation) {
        (Some(memory), _) => Some(memory.key().to_owned()),
        _ if found.keeps => Some("unknown: memory of its own, by the audit".to_owned()),
        (None, Some(_)) => Some("the weights of a step, through prepare".to_owned()),
        (None, None) => found.traced.then(|| "none".to_owned()),
    }
}

/// Over the steps with fresh tensors: an answer about tensors that are gone is a hit, and the worse for it.
fn hit_rate(evidence: &Evidence, found: &Transfer) -> Option<HitRate> {
    let sides = evidence.trace.iter().filter_map(|record| record.sides.get(1));
    let calls: Vec<_> = sides.flat_map(|side| &side.calls).collect();
    let stale = calls.iter().filter(|call| call.stale.is_some()).count();
    let weights = found.preparation.as_ref().map(Preparation::hit_rate);
    (!calls.is_empty()).then(|| HitRate {
        steps: u32::try_from(found.steps.min(STEPS)).unwrap_or(0),
        activations: stale as f64 / calls.len() as f64,
        weights,
    })
}

fn robustness(skew: &Skew) -> Robustness {
    let holds = skew.missing.is_empty() && skew.vanishes.is_none();
    let kinds = skew.kinds.iter().map(|one| format!("{} {}", one.kind, numbers::gain(one.gain.gain)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let detail = match (&skew.vanishes, skew.missing.as_slice()) {
        (Some(vanishes), _) => vanishes.clone(),
        (None, []) => kinds,
        (None, missing) => format!("{kinds}; no shape is {}", missing.join(", ")),
    };
    Robustness { holds, detail }
}

/// What the gain should be worth to the op in training. Its share of a whole step is not known here.
fn estimated(found: &Transfer, bucket: Bucket, benchmark: Option<&Estimate>) -> Option<EstimatedGain> {
    if found.memory.is_some() || found.keeps {
        let derivation = "what needs calls to come again is worth nothing in training".to_owned();
        return Some(EstimatedGain { gain: 0.0, derivation });
    }
    let benchmark = benchmark?;
    if bucket == Bucket::W1 {
        let preparation = found.preparation.as_ref()?;
        let bound = preparation.bound?;
        let derivation = format!(
            "at most prepare time saved / step time = {}, used by {} in each step; the charged step gains {}",
            numbers::gain(bound),
            preparation.uses.join(" and "),
            numbers::gain(benchmark.gain)
        );
        return Some(EstimatedGain { gain: bound.min(benchmark.gain), derivation });
    }
    let trace = found.gain.as_ref().filter(|_| found.traced)?;
    let interval = numbers::interval(trace.low, trace.high);
    let derivation = format!(
        "of the op, 1:1: {STEPS} steps with fresh tensors show {} {interval}, the benchmark {}",
        numbers::gain(trace.gain),
        numbers::gain(benchmark.gain)
    );
    Some(EstimatedGain { gain: benchmark.gain, derivation })
}
