//! `doctor` with a judge whose times are known beforehand. How quiet the machine is that runs the tests is not asked.

use serde_json::{Value, json};

use crate::compare::{bout, changed, compare, evidence};
use crate::sandbox::{Ran, Sandbox};
use crate::schema::validator;

/// A judge that finds the 5 % that the tool has injected.
const FINDS: [&str; 2] = ["share * 0.95", "noise 0.002"];

fn quick(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    sandbox.kopt(&[&["doctor", "--quick"], arguments].concat())
}

fn of_reason<'a>(messages: &'a [Value], reason: &str) -> Vec<&'a Value> {
    messages.iter().filter(|message| message["reason"] == reason).collect()
}

#[test]
fn outside_of_a_workspace_it_says_what_it_can() {
    let ran = Sandbox::empty().kopt(&["doctor"]).exits(0);
    for text in ["toolchain", "not needed here", "Processor", "not measured: there is no kernel here", "cargo kopt new"]
    {
        assert!(ran.stderr.contains(text), "no `{text}` in:\n{}", ran.stderr);
    }
    // A workspace without kernels is no better; a name that nobody has is a mistake.
    let plain = Sandbox::empty();
    plain.write("Cargo.toml", "[workspace]\n");
    plain.kopt(&["doctor"]).exits(0).says("there is no kernel here");
    plain.kopt(&["doctor", "-p", "softmax"]).exits(4);
}

#[test]
fn a_compiler_that_a_kernel_needs_is_named_with_the_way_to_get_it() {
    if kopt_build::toolchain::nvcc().is_ok() {
        return;
    }
    let sandbox = Sandbox::of("bout");
    let manifest = sandbox.read("Cargo.toml").replace("backend = \"cpu\"", "backend = \"cuda\"");
    sandbox.write("Cargo.toml", &manifest);
    sandbox.write("kernels/softmax.cu", "");
    sandbox.write("kernels/softmax.launch.toml", "[[launch]]\nkernel = \"softmax\"\ngrid = [\"rows\"]\nblock = [32]\n");
    let ran = sandbox
        .kopt(&["doctor"])
        .exits(96)
        .says("missing: nvcc, needed by bout: nvcc was not found")
        .says("hint: pip install 'nvidia-cuda-nvcc==13.0.*'")
        .says("Device cuda: not looked for: nvcc is missing")
        .says("incomplete: nvcc missing, and needed by kernels here; nothing was timed");
    assert!(!ran.stderr.contains("Compiling"), "{}", ran.stderr);
}

#[test]
fn what_programs_are_told_fits_the_schema_and_is_kept() {
    let sandbox = bout(&FINDS);
    let ran = quick(&sandbox, &["--message-format", "json"]).exits(0);
    let (messages, validator) = (ran.messages(), validator("messages"));
    for message in &messages {
        assert!(validator.is_valid(message), "{message}");
    }
    let reasons = ["toolchain", "device", "ceilings", "noise", "self-test", "diagnosis"];
    assert_eq!(reasons.map(|reason| of_reason(&messages, reason).len()), [6, 1, 1, 1, 1, 1]);
    let test = of_reason(&messages, "self-test")[0];
    assert_eq!((&test["right"], &test["injected"], &test["ruling"]), (&true.into(), &0.05.into(), &"accepted".into()));
    let (noise, ceilings) = (of_reason(&messages, "noise")[0], of_reason(&messages, "ceilings")[0]);
    assert_eq!((&noise["launches"], &noise["quiet"]), (&6.into(), &true.into()));
    let kept: Value = serde_json::from_str(&sandbox.read("target/kopt/machine.json")).unwrap();
    assert_eq!(kept["noise"][0]["launch_sigma"], noise["launch_sigma"]);
    assert_eq!((&kept["ceilings"][0]["device"], &ceilings["device"]), (&"Puppet".into(), &"Puppet".into()));
    // What was injected reached the incumbent and its twin, the control.
    let opened: Value = serde_json::from_str(&sandbox.read("opened")).unwrap();
    let handicaps = |contestant: usize| opened["contestants"][contestant]["handicaps"][0]["share"].clone();
    assert_eq!([0, 1, 2].map(handicaps), [0.05.into(), Value::Null, 0.05.into()]);
}

#[test]
fn a_machine_on_which_a_large_gain_is_not_found_is_not_trusted() {
    let sandbox = bout(&["noise 0.002"]);
    quick(&sandbox, &[]).exits(104).says("not trusted: a gain of 5 % was not found by this quick look");
    sandbox
        .kopt(&["doctor"])
        .exits(104)
        .says("5 % injected")
        .says("not trusted: a gain of 5 % was not found: the machine is too noisy to judge");
}

#[test]
fn figures_that_do_not_fit_are_told_of_and_measured_again() {
    let sandbox = bout(&FINDS);
    let file = "target/kopt/machine.json";
    sandbox.write(file, "{ \"format\": 1, \"proc");
    quick(&sandbox, &[]).exits(0).says("machine.json` is damaged").says("Kept in target/kopt/machine.json");
    let good = sandbox.read(file);
    assert!(!quick(&sandbox, &[]).exits(0).stderr.contains("note:"));
    let mut other: Value = serde_json::from_str(&good).unwrap();
    other["cores"] = 4096.into();
    sandbox.write(file, &other.to_string());
    quick(&sandbox, &[]).exits(0).says("machine.json` is of another machine");
    assert_eq!(
        serde_json::from_str::<Value>(&sandbox.read(file)).unwrap()["cores"],
        serde_json::from_str::<Value>(&good).unwrap()["cores"]
    );
    let newer = "{ \"format\": 999 }";
    sandbox.write(file, newer);
    let ran = quick(&sandbox, &[]).exits(0).says("was written by a newer cargo kopt");
    assert!(!ran.stderr.contains("Kept"));
    assert_eq!(sandbox.read(file), newer);
}

#[test]
fn a_comparison_uses_what_is_known_of_the_machine_and_keeps_what_it_finds() {
    let sandbox = changed(&FINDS);
    let file = "target/kopt/machine.json";
    compare(&sandbox, &["HEAD"]).exits(0).says("Ceilings Puppet: copy 20.0 GB/s, FMA 98.7 GFLOP/s");
    assert_eq!(evidence(&sandbox)["ceilings"]["copy_bytes_per_s"], 2e10);
    let mut kept: Value = serde_json::from_str(&sandbox.read(file)).unwrap();
    let told = "cannot be told from noise here";
    let ran = compare(&sandbox, &["HEAD"]).exits(0);
    assert!(!ran.stderr.contains("Ceilings") && !ran.stderr.contains(told), "{}", ran.stderr);
    kept["noise"] = json!([{
        "kernel": "bout", "backend": "cpu", "device": "Puppet", "measured": "2026-11-15 05:01", "launch_sigma": 0.05,
        "launches": 14, "load": 0.1,
    }]);
    sandbox.write(file, &kept.to_string());
    let ran = compare(&sandbox, &["HEAD"]).exits(0);
    assert!(ran.stderr.contains("this machine resolves about 2.7 % in 48 launches"), "{}", ran.stderr);
    assert!(ran.stderr.contains(told));
    assert!(!compare(&sandbox, &["HEAD", "--min-gain", "3%"]).exits(0).stderr.contains(told));
}
