//! `prepare` and the trace with real kernels, a real judge and real processes: what is called and when, what it is given,
//! which entries use it, and who is wrong for what it did before. What takes how long is for the benchmark of the same
//! name (`cargo bench --bench transfer`): nothing is asserted about times here.

#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "shared with the benchmark")]
#[path = "support/traced.rs"]
mod traced;

use std::sync::LazyLock;

use kopt_schema::bout::{JudgeReply, JudgeRequest, Probe, STEPS, TraceRecord};

use traced::Ground;

static MATMUL: LazyLock<Ground> = LazyLock::new(|| Ground::of("matmul-cpu"));

const SHAPE: &str = "64x256x256";
const CANDIDATE: usize = 1;

fn trace(keeps: &str) -> JudgeReply {
    let (incumbent, candidate) = (MATMUL.baseline(), MATMUL.variant(keeps).unwrap());
    let bout = MATMUL.bout(&incumbent, &candidate, &[SHAPE]);
    let request = JudgeRequest::Trace { seed: "beef".to_owned(), case: SHAPE.to_owned() };
    MATMUL.ask(&bout, &[request]).pop().unwrap()
}

#[track_caller]
fn traced_record(keeps: &str) -> TraceRecord {
    match trace(keeps) {
        JudgeReply::Traced(record) => record,
        other => panic!("{keeps}: {other:?}"),
    }
}

#[test]
fn what_exports_both_functions_prepares_and_half_of_it_does_not_build() {
    assert!(!MATMUL.baseline().side.prepares);
    assert!(!MATMUL.variant("NOTHING").unwrap().side.prepares);
    assert!(MATMUL.variant("PREPARED").unwrap().side.prepares);
    let error = MATMUL.variant("HALF").unwrap_err();
    let failure = error.failure();
    let said = format!("{} {}", failure.message, failure.causes.join(" "));
    assert!(said.contains("exports `matmul_prepare_size` and not `matmul_prepare`"), "{said}");
}

#[test]
fn a_step_is_prepare_and_then_every_entry_and_eight_of_them_are_traced() {
    let record = traced_record("PREPARED");
    assert_eq!(record.sides[0].entries, ["matmul", "matmul_backward"]);
    assert_eq!(record.sides[CANDIDATE].entries, ["matmul_prepare", "matmul", "matmul_backward"]);
    for side in &record.sides {
        let fresh: Vec<usize> =
            side.calls.iter().filter(|call| call.probe == Probe::Fresh).map(|call| call.step).collect();
        assert_eq!(fresh, (0..STEPS).collect::<Vec<_>>());
        assert!(side.calls.iter().all(|call| call.device_ns.len() == side.entries.len() && call.stale.is_none()));
        for probe in [Probe::Refilled, Probe::Same, Probe::Weight] {
            assert!(side.calls.iter().filter(|call| call.probe == probe).count() >= 4, "{probe:?}");
        }
    }
    cargo_kopt::referee::record::trace(&record).unwrap();
}

#[test]
fn uses_are_entries_that_are_wrong_without_what_was_prepared() {
    assert_eq!(traced_record("PREPARED").sides[CANDIDATE].uses, ["matmul", "matmul_backward"]);
    assert_eq!(traced_record("FORWARD_ONLY").sides[CANDIDATE].uses, ["matmul"]);
    assert_eq!(traced_record("NOTHING").sides[CANDIDATE].uses, Vec::<String>::new());
}

#[test]
fn an_answer_about_a_weight_that_is_gone_is_found_out_and_told_from_a_plain_mistake() {
    for keeps in ["STATIC_POINTER", "STALE_PREPARED"] {
        let record = traced_record(keeps);
        let calls = &record.sides[CANDIDATE].calls;
        let stale = calls.iter().find(|call| call.stale.is_some()).unwrap();
        // The weight is the same memory in every step: the second is the first that can be wrong.
        assert_eq!((stale.step, stale.probe), (1, Probe::Fresh), "{keeps}");
        assert!(stale.stale.as_ref().unwrap().contains("wrong"), "{stale:?}");
        assert!(record.sides[0].calls.iter().all(|call| call.stale.is_none()), "the incumbent is honest");
    }
    // Who remembers and is right is none of this test's business.
    for keeps in ["STATIC_CONTENTS", "ACTIVATION", "OUTPUT", "NOTHING"] {
        let record = traced_record(keeps);
        assert!(record.sides.iter().flat_map(|side| &side.calls).all(|call| call.stale.is_none()), "{keeps}");
    }
}

#[test]
fn trials_prepare_first_and_change_the_weight_in_place() {
    let check = |keeps: &str| {
        let candidate = MATMUL.variant(keeps).unwrap();
        let mut command = std::process::Command::new(&MATMUL.judge);
        command.args(["33x31x65", "--test-threads=2"]).env("KOPT_CANDIDATE", &candidate.file);
        let output = command.current_dir(&MATMUL.kernel.member.folder).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (passes, said) = check("PREPARED");
    assert!(passes && said.contains("matmul_backward/odd-33x31x65/normal"), "{said}");
    let (passes, said) = check("STALE_PREPARED");
    assert!(!passes && said.contains("elements are wrong"), "{said}");
}

#[test]
fn a_preparation_that_asks_for_too_much_memory_loses() {
    let (incumbent, candidate) = (MATMUL.baseline(), MATMUL.variant("GREEDY").unwrap());
    let bout = MATMUL.bout(&incumbent, &candidate, &[SHAPE]);
    match MATMUL.ask(&bout, &[]).pop().unwrap() {
        JudgeReply::Lost(forfeit) => {
            assert_eq!(forfeit.contestant, CANDIDATE);
            assert!(forfeit.message.contains("may be asked for"), "{}", forfeit.message);
        }
        other => panic!("{other:?}"),
    }
}
