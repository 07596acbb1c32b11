//! Everything that is written of a gate is one story: messages, Markdown, annotations, the step's summary, JUnit.

use quick_junit::{Report, TestCaseStatus};
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};
use crate::stage::{ALPHA, BETA, MARK, Stage};

/// A slower kernel and a faster one.
fn gated(stage: &Stage, arguments: &[&str]) -> Ran {
    let head = stage.request("two", |stage| {
        stage.edit(ALPHA, MARK, "TIME=1.300;");
        stage.edit(BETA, MARK, "TIME=0.900;");
    });
    let fixed = ["gate", "--base", "main", "--head", &head, "--seed", "5eed"];
    let files =
        ["--markdown", "target/out/gate.md", "--junit", "target/out/junit.xml", "--html", "target/out/gate.html"];
    let mut command = stage.command(&[&fixed, &files[..], arguments].concat());
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", stage.path("target/summary.md"));
    stage.write("target/summary.md", "what was there\n");
    Ran::of(&mut command)
}

#[test]
fn people_programs_and_github_are_told_the_same() {
    let stage = Stage::new();
    let ran = gated(&stage, &[]).exits(100);
    assert_eq!(
        ran.stdout.lines().count(),
        1,
        "one annotation for the one that failed, and nothing else on stdout: {}",
        ran.stdout
    );
    assert!(ran.stdout.starts_with("::error file=crates/alpha/kernels/softmax.c,line=4,title=cargo kopt gate%3A alpha REGRESSED::slower by more than 2 %25"), "{}", ran.stdout);
    let text = stage.sandbox.read("target/out/gate.md");
    assert!(text.starts_with("<!-- kopt-gate -->\n❌ **cargo kopt gate**: alpha REGRESSED; beta faster\n"), "{text}");
    assert!(text.contains("| `alpha` | **REGRESSED** | +") && text.contains("| `beta` | **faster** | -"), "{text}");
    assert_eq!(text.matches("<details>").count(), 1);
    assert!(text.contains("| tall | "), "{text}");
    assert!(!text.contains(stage.path("").to_str().unwrap()), "no folder of this machine: {text}");
    let page = stage.sandbox.read("target/out/gate.html");
    for told in [
        "Gate: failed",
        "alpha REGRESSED; beta faster",
        "REGRESSED</span>",
        "crates/alpha/kernels/softmax.c is its source",
    ] {
        assert!(page.contains(told), "{told}");
    }
    assert!(page.matches("<svg").count() >= 4 && !page.contains(stage.path("").to_str().unwrap()));
    let summary = stage.sandbox.read("target/summary.md");
    assert_eq!(summary, format!("what was there\n{text}\n"), "appended");
    let junit = stage.sandbox.read("target/out/junit.xml");
    let report = Report::deserialize_from_str(&junit).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (2, 1, 0));
    let cases = &report.test_suites[0].test_cases;
    assert!(matches!(cases[0].status, TestCaseStatus::NonSuccess { .. }));
    assert!(matches!(cases[1].status, TestCaseStatus::Success { .. }));
    let quiet = gated(&stage, &["-q"]).exits(100);
    assert!(
        quiet.stderr.contains("FAILED: alpha REGRESSED") && !quiet.stderr.contains("Comparing"),
        "{}",
        quiet.stderr
    );
}

#[test]
fn messages_fit_their_schema_and_annotations_stay_out_of_their_way() {
    let stage = Stage::new();
    let ran = gated(&stage, &["--message-format", "json"]).exits(100);
    let schema: Value = serde_json::from_str(&Sandbox::empty().kopt(&["schema", "messages"]).exits(0).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for message in ran.messages() {
        assert!(validator.is_valid(&message), "{message}");
    }
    let reasons: Vec<String> = ran.reasons().into_iter().filter(|reason| reason != "look").collect();
    assert_eq!(reasons, ["started", "gate-scope", "gate-kernel", "gate-kernel", "gate-result", "finished"]);
    let messages = ran.messages();
    let scope = messages.iter().find(|message| message["reason"] == "gate-scope").unwrap();
    assert_eq!(scope["affected"][0]["reasons"][0]["aspect"], "kernel");
    let result = messages.iter().find(|message| message["reason"] == "gate-result").unwrap();
    assert_eq!((result["exit_code"].as_u64(), result["tolerance"].as_f64()), (Some(100), Some(0.02)));
    assert!(ran.stderr.contains("::error file="), "{}", ran.stderr);
    let (alpha, beta) = (&messages[messages.len() - 4], &messages[messages.len() - 3]);
    assert_eq!((alpha["outcome"].as_str(), beta["outcome"].as_str()), (Some("regressed"), Some("faster")));
    assert_eq!(alpha["trials"], 12);
}
