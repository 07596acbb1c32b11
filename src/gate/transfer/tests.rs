//! Traces made by hand, and what must follow from them.

use kopt_schema::audit::{Audit, Finding, Severity};
use kopt_schema::bout::{Forfeit, Probe, Routing, STEPS, TraceRecord, TraceSide, TracedCall};
use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::{Evidence, Ruling};
use kopt_schema::manifest::Class;
use kopt_schema::message::FailureKind;
use kopt_schema::operator::ROUTINGS;

use super::*;
use crate::gate::tests::{MS, Times, empty, play};
use crate::gate::verdict;

/// What a side's calls take in nanoseconds, by what comes again.
type Pace = fn(Probe) -> f64;

/// Evidence of a gain of a ninth on both shapes, before any trace.
fn gained() -> Evidence {
    let mut evidence = empty();
    evidence.terms.trace = true;
    let times = Times::honest([MS, MS * 9 / 10, MS]);
    play(evidence, times, times)
}

fn side(pace: Pace, seed: usize) -> TraceSide {
    let mut calls = Vec::new();
    for step in 0..STEPS {
        for (number, probe) in
            [Probe::Fresh, Probe::Refilled, Probe::Same, Probe::Weight, Probe::Moved].into_iter().enumerate()
        {
            // A spread of two per cent that repeats nowhere in the same order.
            let jitter = 1.0 + 0.01 * (((seed + 7 * step + 3 * number) % 5) as f64 - 2.0) / 2.0;
            calls.push(TracedCall { step, probe, device_ns: vec![(pace(probe) * jitter) as u64], stale: None });
        }
    }
    TraceSide { entries: vec!["softmax".to_owned()], uses: Vec::new(), calls }
}

/// Traces as often as the gate asks, with sides that take what `paces` says.
fn traced(mut evidence: Evidence, [incumbent, candidate]: [Pace; 2]) -> Evidence {
    while let Some(case) = next_trace(&evidence) {
        let number = evidence.trace.len();
        assert!(number < 20, "traces without end");
        let sides = vec![side(incumbent, number), side(candidate, number + 2)];
        evidence.trace.push(TraceRecord { seed: String::new(), case, sides });
    }
    evidence.verdict = verdict(&evidence);
    evidence
}

fn even(_: Probe) -> f64 {
    1e6
}

fn faster(_: Probe) -> f64 {
    0.9e6
}

#[test]
fn an_accept_needs_a_trace_of_every_shape() {
    let evidence = gained();
    assert_eq!(evidence.verdict.ruling, Ruling::RolledBackNoise);
    assert!(evidence.verdict.reasons[0].contains("not traced"), "{:?}", evidence.verdict.reasons);
    let evidence = traced(evidence, [even, faster]);
    assert_eq!(evidence.trace.len(), 6, "three of each shape");
    assert_eq!(evidence.verdict.ruling, Ruling::Accepted, "{:?}", evidence.verdict.reasons);
    let found = transfer(&evidence);
    assert!(found.traced && found.memory.is_none() && found.steps == STEPS);
    assert!((found.gain.unwrap().gain - 0.111).abs() < 0.01);
    assert_eq!((found.bucket(None), found.bucket(Some(Bucket::K3))), (Bucket::K1, Bucket::K3));
    assert_eq!(found.bucket(Some(Bucket::W2)), Bucket::K1, "a claim establishes nothing");
    // Long steps are traced once.
    let slow = traced(gained(), [|_| 60e6, |_| 54e6]);
    assert_eq!((slow.trace.len(), slow.verdict.ruling), (2, Ruling::Accepted));
}

#[test]
fn code_that_has_nothing_to_remember_with_is_traced_once_unless_that_leaves_a_doubt() {
    let proven = || {
        let mut evidence = gained();
        evidence.candidate.audit = Some(audit(Stateless::Proven));
        evidence
    };
    let evidence = traced(proven(), [even, faster]);
    assert_eq!((evidence.trace.len(), evidence.verdict.ruling), (2, Ruling::Accepted), "each shape once");
    // What the proof overlooks is still seen.
    let remembers: Pace = |probe| if probe == Probe::Same { 0.6e6 } else { 0.9e6 };
    let evidence = traced(proven(), [even, remembers]);
    assert_eq!((evidence.trace.len(), evidence.verdict.ruling), (12, Ruling::IntegrityViolation));
    let mut presumed = gained();
    presumed.candidate.audit = Some(audit(Stateless::Presumed));
    assert_eq!(traced(presumed, [even, faster]).trace.len(), 6, "what is presumed is looked at three times");
}

#[test]
fn what_is_rolled_back_anyway_is_not_traced() {
    let mut evidence = empty();
    evidence.terms.trace = true;
    let evidence = play(evidence, Times::honest([MS; 3]), Times::honest([MS; 3]));
    assert_eq!((next_trace(&evidence), evidence.verdict.ruling), (None, Ruling::RolledBack));
}

#[test]
fn who_is_faster_when_calls_come_again_remembers() {
    let kinds: [(Pace, Bucket, &str); 3] = [
        (|probe| if probe == Probe::Same { 0.6e6 } else { 0.9e6 }, Bucket::W2, "comes again as it was"),
        (|probe| if probe == Probe::Moved { 0.6e6 } else { 0.9e6 }, Bucket::W2, "at other addresses"),
        (
            |probe| if matches!(probe, Probe::Weight | Probe::Same) { 0.8e6 } else { 0.9e6 },
            Bucket::W3,
            "the weights come again",
        ),
    ];
    for (pace, bucket, words) in kinds {
        let evidence = traced(gained(), [even, pace]);
        assert_eq!(evidence.verdict.ruling, Ruling::IntegrityViolation, "{:?}", evidence.verdict.reasons);
        let reason = &evidence.verdict.reasons[0];
        assert!(reason.starts_with("REJECT-as-overfit, bucket W") && reason.contains(words), "{reason}");
        assert_eq!(transfer(&evidence).bucket(Some(Bucket::K1)), bucket);
        assert_eq!(evidence.trace.len(), 12, "each shape was looked at twice");
    }
}

#[test]
fn what_looks_like_memory_once_and_not_again_accuses_nobody() {
    let lucky: Pace = |probe| if probe == Probe::Moved { 0.7e6 } else { 0.9e6 };
    let mut evidence = gained();
    for number in 0..TRACES {
        let sides = vec![side(even, number), side(lucky, number + 2)];
        let case = next_trace(&evidence).unwrap();
        evidence.trace.push(TraceRecord { seed: String::new(), case, sides });
    }
    let first = evidence.trace[0].case.clone();
    assert_eq!(next_trace(&evidence).as_ref(), Some(&first), "it is looked at again");
    let unlucky = traced(evidence.clone(), [even, lucky]);
    assert_eq!(unlucky.verdict.ruling, Ruling::IntegrityViolation, "{:?}", unlucky.verdict.reasons);
    let evidence = traced(evidence, [even, faster]);
    assert_eq!(
        (evidence.verdict.ruling, evidence.trace.len()),
        (Ruling::Accepted, 9),
        "{:?}",
        evidence.verdict.reasons
    );
    assert!(transfer(&evidence).memory.is_none());
}

#[test]
fn what_the_machine_does_to_repeated_calls_accuses_nobody() {
    let warm: Pace = |probe| if probe == Probe::Same { 0.7e6 } else { 1e6 };
    let also: Pace = |probe| if probe == Probe::Same { 0.63e6 } else { 0.9e6 };
    assert_eq!(traced(gained(), [warm, also]).verdict.ruling, Ruling::Accepted);
    // Nor does an incumbent that remembers, nor a difference that the noise covers.
    assert_eq!(traced(gained(), [warm, faster]).verdict.ruling, Ruling::Accepted);
    let slightly: Pace = |probe| if probe == Probe::Same { 0.89e6 } else { 0.9e6 };
    assert_eq!(traced(gained(), [even, slightly]).verdict.ruling, Ruling::Accepted);
}

#[test]
fn who_is_wrong_for_what_came_before_remembers_and_who_is_just_wrong_does_not() {
    for (probe, bucket) in [(Probe::Fresh, Bucket::W3), (Probe::Refilled, Bucket::W2)] {
        let mut evidence = gained();
        evidence.forfeit = Some(Forfeit {
            contestant: CANDIDATE,
            case: Some("large".to_owned()),
            kind: FailureKind::WrongValues,
            message: "y[3] is 2".to_owned(),
        });
        assert_eq!(next_trace(&evidence).as_deref(), Some("large"));
        let plain = traced(evidence.clone(), [even, faster]);
        assert_eq!((plain.trace.len(), plain.verdict.ruling), (1, Ruling::Incorrect));
        let mut stale = plain;
        let calls = &mut stale.trace[0].sides[CANDIDATE].calls;
        let call = calls.iter_mut().find(|call| call.step == 1 && call.probe == probe).unwrap();
        call.stale = Some("y[3] is 2".to_owned());
        let found = verdict(&stale);
        assert_eq!(found.ruling, Ruling::IntegrityViolation);
        assert!(found.reasons[0].contains("right in a process that has made no call before"), "{:?}", found.reasons);
        assert_eq!(transfer(&stale).bucket(None), bucket);
    }
    // A trial that fails says nothing of memory: it has a process of its own.
    let mut evidence = gained();
    let case = Some("softmax/large/uniform".to_owned());
    let (kind, message) = (FailureKind::WrongValues, String::new());
    evidence.forfeit = Some(Forfeit { contestant: CANDIDATE, case, kind, message });
    assert_eq!(next_trace(&evidence), None);
}

/// A candidate that spends a tenth of its step on preparing, for these entries; so does the incumbent, if it is to.
fn preparing(uses: &[&str], incumbent: Option<f64>) -> Evidence {
    let mut evidence = traced(gained(), [even, faster]);
    evidence.candidate.prepares = true;
    evidence.incumbent.prepares = incumbent.is_some();
    for record in &mut evidence.trace {
        for (number, share) in [(INCUMBENT, incumbent), (CANDIDATE, Some(0.1))] {
            let Some(share) = share else { continue };
            let side = &mut record.sides[number];
            side.entries = ["matmul_prepare", "matmul", "matmul_backward"].map(str::to_owned).to_vec();
            side.uses = uses.iter().map(|one| (*one).to_owned()).collect();
            for call in &mut side.calls {
                let whole = call.device_ns[0] as f64;
                call.device_ns = [share, 0.4, 0.6 - share].map(|share| (share * whole) as u64).to_vec();
            }
        }
    }
    evidence.verdict = verdict(&evidence);
    evidence
}

#[test]
fn a_preparation_that_is_used_twice_is_bounded_and_one_that_is_used_once_is_rolled_back() {
    let evidence = preparing(&["matmul", "matmul_backward"], None);
    assert_eq!(evidence.verdict.ruling, Ruling::Accepted, "{:?}", evidence.verdict.reasons);
    let found = transfer(&evidence);
    let preparation = found.preparation.as_ref().unwrap();
    assert!((preparation.hit_rate() - 0.5).abs() < 1e-12);
    assert!((preparation.bound.unwrap() - 0.1).abs() < 1e-3, "{preparation:?}");
    // A step that prepares for each use takes 1.1 as long: a saving of a tenth of that is an eleventh.
    assert!((preparation.saved_share().unwrap() - 0.1 / 1.1).abs() < 1e-3);
    assert_eq!(found.bucket(Some(Bucket::K2)), Bucket::W1, "shown, whatever is claimed");
    for uses in [&["matmul"][..], &[]] {
        let evidence = preparing(uses, None);
        assert_eq!(evidence.verdict.ruling, Ruling::Overfit);
        assert!(evidence.verdict.reasons[0].contains("a hit rate of 0 %"), "{:?}", evidence.verdict.reasons);
    }
}

#[test]
fn a_kernel_that_prepares_as_its_incumbent_did_adds_no_cache() {
    let uses = ["matmul", "matmul_backward"];
    let as_before = transfer(&preparing(&uses, Some(0.1)));
    assert_eq!(as_before.bucket(Some(Bucket::K1)), Bucket::K1);
    let more = transfer(&preparing(&uses, Some(0.02)));
    assert_eq!(more.bucket(Some(Bucket::K1)), Bucket::W1);
}

#[test]
fn a_gain_that_fresh_tensors_do_not_have_is_an_overfit() {
    let evidence = traced(gained(), [even, |_| 0.99e6]);
    assert_eq!(evidence.verdict.ruling, Ruling::Overfit);
    assert!(evidence.verdict.reasons[0].contains("what repetition was worth"), "{:?}", evidence.verdict.reasons);
}

fn audit(stateless: Stateless) -> Audit {
    Audit { class: Class::Native, stateless, scope: String::new(), findings: Vec::new(), allowed: Vec::new() }
}

#[test]
fn an_object_with_memory_of_its_own_is_an_overfit_whatever_was_measured() {
    let mut evidence = traced(gained(), [even, faster]);
    let mut found = audit(Stateless::Violated);
    found.findings.push(Finding {
        rule: "writable-data".to_owned(),
        severity: Severity::Violation,
        keeps: true,
        what: "cache".to_owned(),
        symbol: None,
        section: None,
        offset: None,
        instruction: None,
        source: None,
        more: 0,
    });
    evidence.candidate.audit = Some(found.clone());
    assert_eq!(transfer(&evidence).bucket(Some(Bucket::K1)), Bucket::W3);
    evidence.incumbent.audit = Some(found.clone());
    assert_eq!(transfer(&evidence).bucket(Some(Bucket::K1)), Bucket::K1, "the incumbent has it too");
    found.findings[0].keeps = false;
    (evidence.candidate.audit, evidence.incumbent.audit) = (Some(found), None);
    assert!(!transfer(&evidence).keeps, "a violation that is no memory");
}

#[test]
fn a_bucket_is_proven_by_audit_and_trace_together() {
    let mut evidence = traced(gained(), [even, faster]);
    assert!(!is_proven(&evidence), "no audit");
    evidence.candidate.audit = Some(audit(Stateless::Presumed));
    assert!(is_proven(&evidence));
    evidence.trace.clear();
    assert!(!is_proven(&evidence), "a native object is presumed until it is traced");
    evidence.candidate.audit = Some(audit(Stateless::Proven));
    assert!(is_proven(&evidence), "device code without memory needs no trace");
}

/// `small` is uniform; `large` stands for one skewed kind after the other, and the rest are other sizes of `small`.
fn routed(small: u64, large: u64, kind: &str) -> Evidence {
    let mut evidence = empty();
    evidence.terms.trace = true;
    let cases = &mut evidence.arrangement.as_mut().unwrap().cases;
    let routing = |kind: &str| Some(Routing { kind: kind.to_owned(), sizes: "64x8".to_owned() });
    cases[0].routing = routing("uniform");
    cases[1].routing = routing(kind);
    play(evidence, Times::honest([MS, small, MS]), Times::honest([MS, large, MS]))
}

#[test]
fn a_gain_on_equal_groups_that_vanishes_under_skew_is_an_overfit() {
    for (large, vanishes) in [(MS * 8 / 10, false), (MS * 95 / 100, true), (MS, true)] {
        let evidence = routed(MS * 8 / 10, large, "skewed");
        let found = transfer(&evidence).skew.unwrap();
        assert_eq!(found.vanishes.is_some(), vanishes, "{large} {found:?}");
        assert_eq!(found.kinds.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>(), ["uniform", "skewed"]);
        assert_eq!(found.missing, ["top2-capacity-1.0", "top1-capacity-1.25", "empty", "ragged"]);
        assert_eq!(evidence.verdict.ruling, Ruling::Overfit, "kinds are missing anyway");
        assert_eq!(next_trace(&evidence), None, "which needs no trace");
    }
    // The other way round is no over-fit, and shapes of other sizes are no comparison.
    assert_eq!(transfer(&routed(MS * 95 / 100, MS * 7 / 10, "skewed")).skew.unwrap().vanishes, None);
    let mut other = routed(MS * 8 / 10, MS, "skewed");
    other.arrangement.as_mut().unwrap().cases[1].routing.as_mut().unwrap().sizes = "9x9".to_owned();
    assert_eq!(transfer(&other).skew.unwrap().vanishes, None);
    assert_eq!(transfer(&gained()).skew, None, "no groups, no skew");
}

#[test]
fn every_kind_of_routing_is_asked_for() {
    assert_eq!(kopt_schema::operator::missing_routings(ROUTINGS.iter().copied()), Vec::<&str>::new());
    let reason = routed(MS * 8 / 10, MS * 8 / 10, "ragged").verdict.reasons.remove(0);
    assert!(reason.starts_with("the shapes lack top2-capacity-1.0, top1-capacity-1.25, skewed, empty:"), "{reason}");
}
