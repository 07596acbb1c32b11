//! `bench` against an executable that does as it is told.

use serde_json::json;

use crate::check::{plan, puppet, trial};

fn latency(case: &str, cache: &str, median: f64) -> String {
    let message = json!({
        "reason": "latency", "kernel": "puppet", "entry": "softmax", "case": case, "cache": cache, "device": "cpu",
        "object": "d", "samples": [median], "calls": [1], "median_s": median, "low_s": median * 0.99,
        "high_s": median * 1.01, "cost": { "bytes_read": 1e6, "bytes_written": 1e6, "flops": 1e6 }, "roofline_share": 0.5,
    });
    format!("say {message}")
}

fn ceilings() -> String {
    let message = json!({
        "reason": "ceilings", "kernel": "puppet", "device": "Some CPU", "copy_bytes_per_s": 2e10, "fma_flops_per_s": 9.87e10,
    });
    format!("say {message}")
}

#[test]
fn times_rates_and_shares_are_in_one_table() {
    let script =
        [plan(2), latency("64x1024", "hot", 1e-5), latency("64x1024", "cold", 2e-4), ceilings(), "print noise".into()];
    let sandbox = puppet(&script);
    let ran = sandbox
        .kopt(&["bench"])
        .exits(0)
        .says("Measured puppet: 2 cases in ")
        .says("  64x1024  softmax  10.0 µs [9.90–10.1]  200 µs [198–202]  10.0 GB/s      50 %\n")
        .says("Ceilings Some CPU: copy 20.0 GB/s, arithmetic 98.7 GFLOP/s")
        .says("target/criterion");
    assert!(!ran.stderr.contains("noise"));
    assert_eq!(ran.stdout, "");
    sandbox.kopt(&["bench", "-v"]).exits(0).says("noise");
    let json = sandbox.kopt(&["bench", "--message-format", "json"]).exits(0);
    assert_eq!(json.reasons(), ["started", "plan", "latency", "latency", "ceilings", "summary", "finished"]);
    assert_eq!(json.messages()[2]["median_s"], 1e-5);
}

#[test]
fn a_missing_device_is_no_failure_of_the_kernel() {
    let script = [plan(1), trial("64x1024", "ignored", None, Some("no CUDA device"))];
    puppet(&script).kopt(&["bench"]).exits(97).says("Ignored puppet: no CUDA device").says("nothing measured");
}

#[test]
fn a_case_without_a_number_is_said() {
    puppet(&[plan(2), latency("a", "hot", 1e-5)]).kopt(&["bench"]).exits(96).says("measured 1 of 2 cases");
    puppet(&[plan(1), "print why".into(), "abort".into()])
        .kopt(&["bench"])
        .exits(96)
        .says("died of signal 6 after 0 of 1 cases")
        .says("why");
    // Criterion filters after the plan is made.
    puppet(&[plan(2), latency("a", "hot", 1e-5)]).kopt(&["bench", "a"]).exits(0);
    puppet(&[plan(2)]).kopt(&["bench", "nothing"]).exits(4).says("no case matches `nothing`");
}

#[test]
fn flags_reach_the_executable() {
    let script = ["arguments", "environment KOPT_BENCH", "environment CRITERION_HOME", "exit 9"];
    let sandbox = puppet(&script.map(str::to_owned));
    let home = sandbox.path("target/criterion").canonicalize().unwrap_or_else(|_| sandbox.path("target/criterion"));
    sandbox
        .kopt(&["bench", "64x1.5", "hot", "--quick"])
        .exits(96)
        .says(r#"arguments ["--bench", "64x1\\.5|hot"]"#)
        .says("KOPT_BENCH=quick")
        .says(&format!("CRITERION_HOME={}", home.display()));
}
