//! `check` against an executable that does as it is told, and what the tool makes of it.

use serde_json::json;

use crate::sandbox::Sandbox;

/// A crate whose executables follow these lines.
pub fn puppet(script: &[String]) -> Sandbox {
    let sandbox = Sandbox::of("puppet");
    sandbox.write("script", &script.join("\n"));
    sandbox
}

pub fn plan(trials: usize) -> String {
    format!("say {}", json!({ "reason": "plan", "kernel": "puppet", "trials": trials }))
}

pub fn trial(name: &str, outcome: &str, failure: Option<&str>, detail: Option<&str>) -> String {
    let mut trial = json!({
        "reason": "trial", "kernel": "puppet", "name": name, "outcome": outcome, "seconds": 0.25, "seeds": ["0x1", "0xbeef"],
    });
    for (key, value) in [("failure", failure), ("detail", detail)] {
        if let Some(value) = value {
            trial[key] = value.into();
        }
    }
    format!("say {trial}")
}

fn passed(name: &str) -> String {
    trial(name, "passed", None, None)
}

#[test]
fn trials_that_pass_are_counted_and_handed_on() {
    let sandbox = puppet(&[plan(2), passed("a"), passed("b")]);
    let ran = sandbox.kopt(&["check"]).exits(0).says("Checked puppet: 2 passed in ").says("(flags: -fno-such-thing)");
    assert!(ran.stderr.ends_with("correct: 2 trials of 1 kernel\n"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    let json = sandbox.kopt(&["check", "--message-format", "json", "-q"]).exits(0);
    assert_eq!(json.reasons(), ["started", "plan", "trial", "trial", "summary", "finished"]);
    assert_eq!(json.messages()[4]["passed"], 2);
    assert_eq!(json.stderr, "");
}

#[test]
fn a_failure_is_shown_with_the_command_that_repeats_it() {
    let detail = "y[3]: expected 1\n  got 2";
    let sandbox =
        puppet(&[plan(2), passed("a"), trial("b c", "failed", Some("wrong-values"), Some(detail)), "exit 101".into()]);
    sandbox
        .kopt(&["check", "-q"])
        .exits(103)
        .says("Failed puppet: 1 passed, 1 failed in ")
        .says("failure: puppet b c: wrong values\n    y[3]: expected 1\n      got 2\n")
        .says("repeat: cargo kopt check -p puppet 'b c' --exact --seed 0xbeef\n");
}

#[test]
fn many_failures_are_grouped_unless_all_are_wanted() {
    let mut script = vec![plan(8)];
    script.extend((0..8).map(|number| trial(&format!("t{number}"), "failed", Some("crashed"), None)));
    let sandbox = puppet(&script);
    let ran = sandbox.kopt(&["check"]).exits(103).says("3 failures more: 3 × crashed (-v shows all)");
    assert!(!ran.stderr.contains("puppet t5"));
    sandbox.kopt(&["check", "-v"]).exits(103).says("puppet t7: crashed");
}

#[test]
fn an_executable_that_dies_or_falls_silent_has_failed() {
    let dies = puppet(&[plan(3), passed("a"), "print last words".into(), "abort".into()]);
    dies.kopt(&["check"])
        .exits(103)
        .says("1 passed, 2 not reported")
        .says("the test executable reported 1 of 3 trials; it died of signal 6")
        .says("last words");
    let json = dies.kopt(&["check", "--message-format", "json"]).exits(103);
    assert_eq!(json.reasons(), ["started", "plan", "trial", "summary", "error", "finished"]);
    assert_eq!(json.messages()[3]["failed"], 2);

    puppet(&["exit 0".into()]).kopt(&["check"]).exits(103).says("reported no trial");
    puppet(&[plan(2), passed("a")]).kopt(&["check"]).exits(103).says("reported 1 of 2 trials");
    puppet(&[plan(1), passed("a"), "exit 3".into()])
        .kopt(&["check"])
        .exits(103)
        .says("failed no trial, but exited with 3");
    let garbled = puppet(&[plan(1), passed("a"), "say nonsense".into()]);
    garbled.kopt(&["check"]).exits(103).says("no message").says("nonsense");
}

#[test]
fn what_is_printed_is_never_taken_for_a_report() {
    let forged = passed("a").replacen("say", "print", 1);
    puppet(&[plan(1), forged]).kopt(&["check"]).exits(103).says("reported 0 of 1 trials");
}

#[test]
fn ignored_trials_are_grouped_by_reason_and_alone_mean_no_device() {
    let ignored = |name: &str| trial(name, "ignored", None, Some("no CUDA device"));
    let sandbox = puppet(&[plan(2), ignored("a"), ignored("b")]);
    sandbox
        .kopt(&["check"])
        .exits(97)
        .says("Ignored puppet: 2 ignored")
        .says("2 ignored: no CUDA device")
        .says("nothing checked: all 2 trials");
    let some = puppet(&[plan(2), passed("a"), ignored("b")]);
    some.kopt(&["check"]).exits(0).says("1 passed, 1 ignored").says("1 of them ignored");
}

#[test]
fn flags_reach_the_executable() {
    let script =
        ["arguments", "environment KOPT_SEED", "environment KOPT_SEEDS", "environment CARGO_PKG_NAME", "exit 9"];
    let sandbox = puppet(&script.map(str::to_owned));
    sandbox
        .kopt(&["check", "one", "--exact", "--seed", "0xbeef", "--test-threads", "3"])
        .exits(103)
        .says(r#"arguments ["one", "--exact", "--test-threads=3"]"#)
        .says("KOPT_SEED=0xbeef")
        .says("CARGO_PKG_NAME=puppet");
    sandbox.kopt(&["check", "one", "two"]).exits(2).says("unexpected argument");
    sandbox.kopt(&["check", "--seeds", "200"]).exits(103).says("KOPT_SEEDS=200").says("arguments []");
}

#[test]
fn a_filter_that_matches_nothing_is_said() {
    puppet(&[plan(0)]).kopt(&["check", "nothing"]).exits(4).says("no trial matches `nothing`");
    puppet(&[plan(0)]).kopt(&["check"]).exits(103).says("has no trial");
}

#[test]
fn a_build_that_fails_shows_what_cargo_says() {
    let sandbox = puppet(&[plan(1), passed("a")]);
    sandbox.write("tests/correctness.rs", "fn main() { no_such_function() }");
    let ran = sandbox.kopt(&["check", "--message-format", "json"]).exits(101).says("no_such_function");
    assert_eq!(ran.reasons(), ["started", "error", "finished"]);
}

#[test]
fn a_crate_without_the_test_target_is_named() {
    let sandbox = Sandbox::of("kernels");
    sandbox
        .kopt(&["check", "-p", "softmax"])
        .exits(96)
        .says("softmax/Cargo.toml: no [[test]] named `correctness`")
        .says("harness = false");
}
