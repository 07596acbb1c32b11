//! What a round teaches. A gain of two per cent that was confirmed is worth repeating; what was slower, wrong or
//! dishonest is worth not repeating. Noise, compiler errors and disturbed machines teach nothing about a kernel.

use kopt_knowledge::Kind;
use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::{Level, Reason};
use kopt_schema::evidence::Ruling;

use super::tip::{Tip, TipEvidence};
use crate::records::facts::{Decision, Grounds, RoundFacts};
use crate::records::{numbers, text};

/// Gains below this end a direction; they are no advice.
const WORTH_REPEATING: f64 = 0.02;

/// Shapes whose times a signal names.
const NAMED: usize = 4;

/// Characters of a hypothesis or message that a tip repeats.
const REPEATED: usize = 300;

/// The tip that a round gives, if it gives one. `commit` is that of an accepted round.
#[must_use]
pub fn tip_of_round(facts: &RoundFacts, commit: Option<&str>) -> Option<Tip> {
    let told = |proposal: &&Proposal| !proposal.is_untitled() && !Tip::key(&proposal.title).is_empty();
    let proposal = facts.proposal.as_ref().filter(told)?;
    let transfer = &facts.transfer;
    let hypothesis = text::cut(&text::line(&proposal.hypothesis), REPEATED);
    let (kind, takeaway, finding) = match &facts.decision {
        Decision::Accepted { gain, .. } if gain.gain >= WORTH_REPEATING => {
            (Kind::Technique, format!("It helped here. Its author's reason, not itself measured: {hypothesis}"), None)
        }
        Decision::RolledBack { reason, message } => {
            let said = format!("{}: {}", reason.name(), text::cut(&text::line(message), REPEATED));
            let verdict = facts.deciding().map(|measured| measured.verdict.ruling);
            let takeaway = match reason {
                // It found no memory on the device: that says nothing of what it computes.
                Reason::Incorrect if verdict == Some(Ruling::Contaminated) => return None,
                Reason::Slower => format!("Do not expect a gain from it. What was hoped for: {hypothesis}"),
                Reason::Incorrect => {
                    "As it was done it computes something else; check the case named first.".to_owned()
                }
                Reason::Integrity => "Do not retry: it broke the rules of measurement.".to_owned(),
                Reason::Overfit => "Do not retry: only the benchmark is faster.".to_owned(),
                _ => return None,
            };
            (Kind::AntiPattern, takeaway, Some(said))
        }
        Decision::Accepted { .. } | Decision::Baseline(_) => return None,
    };
    // A claim is no knowledge; but who claims a cache of activations is taken at their word.
    let known = |grounds, bucket: kopt_schema::campaign::Bucket| grounds != Grounds::Claimed || bucket.is_overfit();
    let bucket = transfer.bucket.filter(|found| known(found.grounds, found.bucket)).map(|found| found.bucket);
    let hopeless = [Reason::Integrity, Reason::Overfit];
    let do_not_retry = matches!(&facts.decision, Decision::RolledBack { reason, .. } if hopeless.contains(reason));
    let target = &facts.target;
    let direction = proposal.category.map_or(String::new(), |category| format!(", direction: {category}"));
    Some(Tip {
        title: text::line(&proposal.title),
        kind,
        bucket,
        uniform_only: transfer.grouped && transfer.robustness.as_ref().is_some_and(|found| !found.holds),
        do_not_retry,
        context: format!("{} on {}{direction}", target.target_op, target.target_backend.name()),
        signal: signal(facts),
        takeaway,
        applicability: format!(
            "{} on {}, as far as it was seen on the shapes below",
            target.target_op, target.target_device
        ),
        evidence: vec![evidence(facts, commit, finding)],
        history: Vec::new(),
    })
}

/// What each shape took before: what one would see before trying.
fn signal(facts: &RoundFacts) -> String {
    let shapes = facts.deciding().map_or(&[][..], |measured| &measured.verdict.shapes);
    let told: Vec<String> = shapes
        .iter()
        .take(NAMED)
        .map(|shape| format!("{} on {}", numbers::seconds(shape.incumbent_s), shape.shape))
        .collect();
    if told.is_empty() { "none was recorded".to_owned() } else { format!("latency before: {}", told.join(", ")) }
}

fn evidence(facts: &RoundFacts, commit: Option<&str>, finding: Option<String>) -> TipEvidence {
    let gain = facts.gain();
    let target = &facts.target;
    let shapes = match facts.deciding() {
        Some(measured) if !measured.verdict.shapes.is_empty() => {
            measured.verdict.shapes.iter().map(|shape| shape.shape.clone()).collect()
        }
        Some(measured) if measured.level == Level::Quick => target.representative_shapes.clone(),
        _ => target.target_shapes.clone(),
    };
    TipEvidence {
        date: facts.at.chars().take(10).collect(),
        device: target.target_device.clone(),
        toolchain: facts.toolchain.clone(),
        shapes,
        gain: gain.map(|gain| gain.gain),
        low: gain.map(|gain| gain.low),
        high: gain.map(|gain| gain.high),
        observations: 1,
        campaign: target.campaign.clone(),
        round: facts.round,
        commit: commit.map(str::to_owned),
        finding,
    }
}
