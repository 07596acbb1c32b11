use std::os::unix::fs::PermissionsExt as _;

use crate::sandbox::{Ran, Sandbox};

#[test]
fn kernels_are_listed_and_other_crates_are_not() {
    let ran = Sandbox::of("kernels").kopt(&["list"]).exits(0);
    assert_eq!(ran.stderr, "");
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["kernel", "op", "backend", "class", "dtype", "shapes", "sources", "flags"]);
    assert_eq!(
        lines[1],
        [
            "gpu",
            "softmax",
            "cuda",
            "device",
            "f32",
            "1",
            "kernels/softmax.cu",
            "kernels/softmax.launch.toml",
            "--use_fast_math"
        ]
    );
    assert_eq!(lines[2], ["softmax", "softmax", "cpu", "native", "f32", "2", "kernels/softmax.c", "-funroll-loops"]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn called_by_cargo_it_does_the_same() {
    let sandbox = Sandbox::of("kernels");
    assert_eq!(sandbox.kopt(&["kopt", "list"]).stdout, sandbox.kopt(&["list"]).stdout);
}

#[test]
fn whatever_is_started_sees_one_device_and_several_are_a_mistake() {
    let sandbox = Sandbox::of("kernels");
    let plain = sandbox.kopt(&["list"]).stdout;
    let (spy, seen) = (sandbox.path("cargo-that-tells"), sandbox.path("seen"));
    let told = "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES";
    sandbox.write(
        "cargo-that-tells",
        &format!("#!/bin/sh\necho \"{told}\" > {}\nexec {} \"$@\"\n", seen.display(), env!("CARGO")),
    );
    std::fs::set_permissions(&spy, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (device, arguments) in [("3", ["list", "--device", "3"]), ("GPU-1b2c", ["--device", "GPU-1b2c", "list"])] {
        let ran = Ran::of(sandbox.command(&arguments).env("CARGO", &spy)).exits(0);
        assert_eq!(ran.stdout, plain);
        assert_eq!(sandbox.read("seen"), format!("PCI_BUS_ID {device} {device}\n"));
    }
    sandbox.kopt(&["list", "--device", "0,1"]).exits(2).says("nvidia-smi");
    let given = Ran::of(sandbox.command(&["list", "--device", "1"]).env("CUDA_VISIBLE_DEVICES", "3"));
    given.exits(96).says("CUDA_VISIBLE_DEVICES is set");
}

#[test]
fn machines_get_one_message_a_kernel_between_the_first_and_the_last() {
    let ran = Sandbox::of("kernels").kopt(&["list", "--message-format", "json", "-p", "s*"]).exits(0);
    assert_eq!(ran.reasons(), ["started", "kernel", "finished"]);
    let messages = ran.messages();
    assert_eq!(messages[0]["command"], "list");
    assert_eq!(messages[1]["kernel"], "softmax");
    assert_eq!(messages[1]["shapes"], serde_json::json!(["64x1024", "decode"]));
    assert_eq!(messages[1]["path"], "softmax");
    assert_eq!(messages[2]["exit_code"], 0);
}

#[test]
fn every_mistake_is_shown_and_the_other_kernels_are_still_listed() {
    let sandbox = Sandbox::of("mistakes");
    sandbox
        .kopt(&["list"])
        .exits(96)
        .answers("  good ")
        .says("error: typo/Cargo.toml:9:1: `package.metadata.kopt.shpaes`: unknown key `shpaes`")
        .says("hint: did you mean `shapes`?")
        .says("error: missing/Cargo.toml")
        .says("did you mean `kernels/sofmtax.c`?")
        .says("error: twice/Cargo.toml:9:")
        .says("3 mistakes in kernel manifests");
    let json = sandbox.kopt(&["list", "--message-format", "json"]).exits(96);
    assert_eq!(json.reasons(), ["started", "kernel", "error", "error", "error", "error", "finished"]);
    assert_eq!(json.messages()[6]["exit_code"], 96);
}

#[test]
fn a_wrong_manifest_stops_a_check_before_anything_is_built() {
    let sandbox = Sandbox::of("mistakes");
    sandbox.kopt(&["check"]).exits(96).says("unknown key `shpaes`");
    assert!(!sandbox.path("target").exists());
}

#[test]
fn without_a_kernel_there_is_a_hint() {
    let sandbox = Sandbox::of("kernels");
    sandbox.kopt(&["list", "-p", "sofmtax"]).exits(4).says("hint: did you mean `softmax`?");
    sandbox.kopt(&["list", "-p", "plain"]).exits(4).says("package `plain` is not a kernel crate");
    sandbox.write("Cargo.toml", "[workspace]\nmembers = [\"plain\"]\nresolver = \"3\"\n");
    sandbox.kopt(&["list"]).exits(4).says("no kernel crate in").says("hint: ").says("cargo kopt new");
}

#[test]
fn outside_of_any_package_cargo_is_quoted() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["list"]).exits(102).says("could not find `Cargo.toml`").says("--manifest-path");
    let ran = sandbox.kopt(&["list", "--message-format=json"]).exits(102);
    assert_eq!(ran.reasons(), ["started", "error", "finished"]);
}

#[test]
fn another_workspace_is_named_by_its_manifest() {
    let sandbox = Sandbox::of("kernels");
    let elsewhere = Sandbox::empty();
    let manifest = sandbox.path("Cargo.toml");
    elsewhere.kopt(&["list", "--manifest-path", manifest.to_str().unwrap()]).exits(0).answers("softmax");
    sandbox.kopt_in("softmax", &["list", "--manifest-path", "../Cargo.toml"]).exits(0).answers("gpu");
}
