//! The real harness: an example crate of this workspace, and new crates. Slow where nothing is built yet, because the
//! harness is compiled; they share this workspace's target folder, so that it happens once.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where this test's own executable was built.
fn target() -> PathBuf {
    Path::new(crate::sandbox::TOOL).ancestors().nth(2).unwrap().to_owned()
}

/// The same dependencies in the same profile as the workspace's own, so that they are not built again.
#[allow(clippy::disallowed_methods, reason = "what whoever runs the test asks for")]
fn shared(mut command: Command) -> Command {
    command.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    // Whoever runs these tests with another has built everything with that.
    if std::env::var_os("CARGO_PROFILE_DEV_DEBUG").is_none() {
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    }
    command
}

fn example(arguments: &[&str]) -> Ran {
    let manifest = format!("{ROOT}/Cargo.toml");
    let arguments = [arguments, &["--manifest-path", &manifest]].concat();
    Ran::of(shared(Sandbox::empty().command(&arguments)).current_dir(ROOT))
}

/// What this workspace has its dependencies compiled with, as a setting of cargo.
fn profile() -> String {
    let manifest: toml::Table = std::fs::read_to_string(format!("{ROOT}/Cargo.toml")).unwrap().parse().unwrap();
    let packages = manifest["profile"]["dev"]["package"].clone();
    let inside = |name: &str, value: toml::Value| toml::Value::Table([(name.to_owned(), value)].into_iter().collect());
    toml::to_string(&inside("profile", inside("dev", inside("package", packages)))).unwrap()
}

/// A new crate outside of any workspace, with this workspace's lock file and profile. Names differ from test to test: in a shared
/// target folder cargo tells crates outside of a workspace apart by name alone.
fn new_crate(name: &str, arguments: &[&str]) -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.write(".cargo/config.toml", &profile());
    let harness = format!("{ROOT}/harness");
    sandbox.kopt(&[&["new", name, "--path", "demo", "--harness", &harness], arguments].concat()).exits(0);
    std::fs::copy(format!("{ROOT}/Cargo.lock"), sandbox.path("demo/Cargo.lock")).unwrap();
    sandbox
}

fn check(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    Ran::of(shared(sandbox.command(&[&["check"], arguments].concat())).current_dir(sandbox.path("demo")))
}

#[test]
fn an_example_is_right_and_says_so_to_people_and_programs() {
    example(&["check", "-p", "softmax-cpu", "odd"]).exits(0).says("Checked softmax-cpu: ").says("correct: ");
    let schema = Sandbox::empty().kopt(&["schema", "messages"]).exits(0).stdout;
    let validator = jsonschema::validator_for(&serde_json::from_str::<Value>(&schema).unwrap()).unwrap();
    let ran = example(&["check", "-p", "softmax-cpu", "odd", "--message-format", "json", "--seeds", "1"]).exits(0);
    for message in ran.messages() {
        assert!(validator.is_valid(&message), "{message}");
    }
    let trials = ran.reasons().iter().filter(|reason| *reason == "trial").count();
    assert!(trials > 10, "{}", ran.stdout);
}

#[test]
fn a_new_crate_is_right_at_once_and_its_wrong_kernel_is_caught() {
    let sandbox = new_crate("demo-softmax", &["--op", "softmax"]);
    check(&sandbox, &["odd", "--seeds", "1"]).exits(0).says("correct: ");
    let kernel = sandbox.read("demo/kernels/softmax.c");
    let wrong = "#include \"softmax.h\"\nint softmax(const softmax_args *args) {\n    for (int64_t i = 0; i < args->rows * args->cols; i++) {\n        args->y[i] = 0;\n    }\n    return 0;\n}\n";
    sandbox.write("demo/kernels/softmax.c", wrong);
    let ran = check(&sandbox, &["normal", "--seeds", "1"]).exits(103).says("wrong values");
    // The command that is offered fails again.
    let repeat = ran.stderr.lines().find_map(|line| line.trim().strip_prefix("repeat: cargo kopt check ")).unwrap();
    let repeat: Vec<String> = repeat.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
    let repeat: Vec<&str> = repeat.iter().map(String::as_str).collect();
    check(&sandbox, &repeat).exits(103).says("1 failed");
    sandbox.write("demo/kernels/softmax.c", &kernel);
    check(&sandbox, &repeat).exits(0);
}

#[test]
fn a_new_crate_with_an_operator_of_its_own_is_right_at_once() {
    check(&new_crate("demo-scale", &["--op", "scale", "--own"]), &["odd", "--seeds", "1"]).exits(0).says("correct: ");
}

fn certify(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    Ran::of(shared(sandbox.command(&[&["certify"], arguments].concat())).current_dir(sandbox.path("demo")))
}

#[test]
fn the_check_of_an_example_refuses_every_mutant() {
    let ran = example(&["certify", "-p", "softmax-cpu", "-p", "rmsnorm-cpu", "--message-format", "json"]).exits(0);
    let ran = ran.says("Certified softmax-cpu: ").says("Certified rmsnorm-cpu: ").says("all refused");
    let certified: Vec<Value> = ran.messages().into_iter().filter(|one| one["reason"] == "certified").collect();
    // Two entries of rmsnorm and one of softmax on six shapes each.
    assert_eq!(certified.len(), 18, "{}", ran.stdout);
    for row in &certified {
        let mutants = row["mutants"].as_array().unwrap();
        let names: std::collections::BTreeSet<&str> =
            mutants.iter().map(|one| one["mutant"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 7, "{row}");
        assert!(mutants.iter().all(|one| one["caught"] == true && one["excess"].as_f64().unwrap() > 1.0), "{row}");
        assert!(row["honest"].as_f64().unwrap() < 1.0, "{row}");
    }
}

#[test]
fn bounds_that_are_thousands_of_times_too_wide_are_found_and_better_ones_named() {
    let sandbox = new_crate("demo-loose", &["--op", "softmax"]);
    sandbox.write("demo/src/lib.rs", &Sandbox::of("loose").read("lib.rs"));
    check(&sandbox, &["64x1024", "--seeds", "1"]).exits(0);
    let ran = certify(&sandbox, &[]).exits(96).says("Too weak demo-loose: ").says("would refuse it, with a factor of");
    let weak: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("lower-precision")).collect();
    assert!(!weak.is_empty(), "{}", ran.stderr);
    assert!(!ran.stderr.contains("zeros"), "zeros are refused all the same:\n{}", ran.stderr);
}

#[test]
#[ignore = "compiles the harness in the bench profile, which takes minutes"]
fn an_example_is_measured() {
    let ran = example(&["bench", "-p", "softmax-cpu", "--quick", "64x1024", "--message-format", "json"]).exits(0);
    ran.says("64x1024  softmax").says("Ceilings");
}
