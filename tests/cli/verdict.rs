//! `verdict` on evidence as it was written, and as somebody changed it.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::compare::{changed, evidence};
use crate::sandbox::{Ran, Sandbox};

/// A sandbox with `evidence.json` of an accepted comparison, and its contents.
fn accepted() -> (Sandbox, Value) {
    let sandbox = changed(&["share * 0.9", "noise 0.01"]);
    sandbox.kopt(&["compare", "HEAD", "--seed", "1"]).exits(0);
    let evidence = evidence(&sandbox);
    (sandbox, evidence)
}

fn judged(sandbox: &Sandbox, evidence: &Value) -> Ran {
    sandbox.write("evidence.json", &evidence.to_string());
    sandbox.kopt(&["verdict", "evidence.json"])
}

#[test]
fn evidence_is_judged_again_and_agrees_unless_it_was_changed() {
    let (sandbox, evidence) = accepted();
    judged(&sandbox, &evidence)
        .exits(0)
        .says("Judging bout: working tree against HEAD")
        .says("ACCEPTED")
        .says("Agrees");

    let schema = sandbox.kopt(&["schema", "messages"]).exits(0).stdout;
    let validator = jsonschema::validator_for(&serde_json::from_str::<Value>(&schema).unwrap()).unwrap();
    let ran = sandbox.kopt(&["verdict", "evidence.json", "--message-format", "json"]).exits(0);
    assert_eq!(ran.reasons(), ["started", "verdict", "finished"]);
    assert_eq!(ran.messages()[1]["differences"], json!([]));
    assert!(ran.messages().iter().all(|message| validator.is_valid(message)));

    let mut child = sandbox.command(&["verdict", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(evidence.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));

    sandbox.kopt(&["verdict", "evidence.json", "--html", "pages/one.html"]).exits(0).says("Page pages/one.html");
    let page = sandbox.read("pages/one.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && !page.contains("<script"));
    sandbox.kopt(&["verdict", "evidence.json", "--html", "pages"]).exits(110).says("it is a folder");

    type Change = fn(&mut Value);
    let changes: [(Change, &str); 8] = [
        (|it| it["verdict"]["ruling"] = "rolled-back".into(), "ruling: recorded `ROLLED BACK`, computed `ACCEPTED`"),
        (|it| it["verdict"]["direction"] = "same".into(), "direction: recorded `same`, computed `faster`"),
        (|it| it["verdict"]["aggregate"]["gain"] = 0.5.into(), "aggregate: gain: recorded 0.5, computed 0.1"),
        (|it| it["verdict"]["shapes"][2]["estimate"]["low"] = 0.1.into(), "tall: lower end: recorded 0.1"),
        (|it| it["verdict"]["reasons"] = json!(["trust me"]), "reasons: recorded `trust me`"),
        (|it| it["seed"] = "2".into(), "the seed of launch 0 does not follow from the master seed"),
        (|it| it["identical"] = true.into(), "called identical"),
        // Raw data: every number that follows from it is another.
        (
            |it| it["stages"][1]["launches"][0]["cases"][0]["blocks"][0]["device_ns"][1] = json!([1, 1]),
            "aggregate: gain: recorded 0.1",
        ),
    ];
    for (change, told) in changes {
        let mut other = evidence.clone();
        change(&mut other);
        judged(&sandbox, &other).exits(106).says("disagrees: ").says(told);
    }
    let mut other = evidence.clone();
    other["verdict"]["launches"] = 1.into();
    sandbox.write("evidence.json", &other.to_string());
    let ran = sandbox.kopt(&["verdict", "evidence.json", "--message-format", "json", "-q"]).exits(106);
    let launches = |stage: &Value| stage["launches"].as_array().map_or(0, Vec::len);
    let launches: usize = other["stages"].as_array().unwrap().iter().map(launches).sum();
    assert_eq!(ran.messages()[1]["differences"][0], format!("launches: recorded 1, computed {launches}"));
}

#[test]
fn what_is_no_evidence_is_refused_with_the_reason() {
    let (sandbox, evidence) = accepted();
    let text = evidence.to_string();
    let mut newer = evidence.clone();
    newer["format"] = 99.into();
    newer["verdict"] = "of a kind that is not known yet".into();
    let without = |pointer: &str, key: &str| {
        let mut other = evidence.clone();
        other.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
        other.to_string()
    };
    let with = |pointer: &str, value: Value| {
        let mut other = evidence.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        other.to_string()
    };
    let block = "/stages/0/launches/0/cases/0/blocks/0";
    for (text, told) in [
        (text[..text.len() / 2].to_owned(), "is cut off"),
        (String::new(), "is empty"),
        ("kopt".to_owned(), "is no evidence: it is not JSON"),
        ("{\"reason\": \"started\", \"format\": 1}".to_owned(), "is no evidence"),
        ("[]".to_owned(), "is no evidence"),
        (newer.to_string(), "has format 99; this version knows up to 1"),
        (without("", "terms"), "is damaged"),
        (without("/verdict", "ruling"), "is damaged"),
        (with(&format!("{block}/device_ns"), json!([[1, 1]])), "a block without a time of each contestant"),
        (with(&format!("{block}/order"), json!([0, 0, 7])), "`order` is [0, 0, 7]"),
        (with("/stages/0/launches/0/cases/0/calls", json!(0)), "batches of no call"),
        (with("/stages/0/launches/3/cases/0/case", json!("other")), "launch 3: shapes 64x1024, 8x64, other, tall"),
        (with("/terms/screen_alpha", json!(0.0)), "`screen_alpha` is 0"),
        (with("/terms/policy", json!("lenient")), "lenient"),
        (with(&format!("{block}/wall_ns/1"), json!([u64::MAX, u64::MAX])), "a batch that took days"),
        (with("/terms/looks", json!([9, 6])), "looks at [9, 6] launches"),
        (with("/stages/1/kind", json!("screen")), "the stages are not a screen and its confirmation"),
    ] {
        sandbox.write("bad.json", &text);
        sandbox.kopt(&["verdict", "bad.json"]).exits(96).says("`bad.json` ").says(told);
    }
    sandbox.kopt(&["verdict", "none.json"]).exits(96).says("cannot read `none.json`");
    sandbox.kopt(&["verdict"]).exits(2);
}
