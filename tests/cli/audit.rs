//! `audit` on real objects of the real compiler, and the audit in `compare`.

use crate::compare::{self, bout, evidence};
use crate::sandbox::{Ran, Sandbox};
use crate::schema::validator;

/// A counter that outlives the call.
const COUNTER: (&str, &str) = ("#include \"softmax.h\"\n", "#include \"softmax.h\"\nstatic int calls;\n");
const COUNTS: (&str, &str) = ("* 2.0f", "* 3.0f + (float)calls++");

fn remembers(sandbox: &Sandbox) {
    let text = sandbox.read("kernels/softmax.c");
    sandbox.write("kernels/softmax.c", &text.replace(COUNTER.0, COUNTER.1).replace(COUNTS.0, COUNTS.1));
}

#[test]
fn a_kernel_that_remembers_is_refused_with_its_rule_and_place() {
    let sandbox = bout(&[]);
    sandbox.kopt(&["audit"]).exits(0).says("Audited bout: native, stateless (presumed)");
    remembers(&sandbox);
    sandbox
        .kopt(&["audit", "-q"])
        .exits(106)
        .says("Refused bout: native, not stateless")
        .says("writable-data  calls  calls+0x0 in .bss")
        .says("1 kernel refused");
    let json = sandbox.kopt(&["audit", "--message-format", "json"]).exits(106);
    assert_eq!(json.reasons(), ["started", "audit", "finished"]);
    let message = &json.messages()[1];
    assert_eq!(message["audit"]["findings"][0]["rule"], "writable-data");
    assert_eq!(message["refused"], true);
    assert!(validator("messages").is_valid(message), "{message}");
    assert!(validator("audit").is_valid(&message["audit"]), "{message}");
}

/// As distributions put it first on PATH: a compiler under whose name there is a cache of its own, in folders that the walls keep shut.
#[test]
fn a_compiler_that_keeps_a_cache_compiles_without_it() {
    let sandbox = bout(&[]);
    let script = "#!/bin/sh\n\
        case \"$*\" in\n\
        *-shared*) [ -n \"$CCACHE_DISABLE\" ] || { echo 'ccache: error: Failed to create temporary file' >&2; exit 1; } ;;\n\
        esac\n\
        exec cc \"$@\"\n";
    sandbox.write("bin/cc", script);
    std::fs::set_permissions(sandbox.path("bin/cc"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = sandbox.command(&["audit"]);
    Ran::of(command.env("CC", sandbox.path("bin/cc"))).exits(0).says("Audited bout");
}

/// The same crate for a device: where its compiler is installed its registers are told of, elsewhere what is missing.
#[test]
fn what_device_functions_take_is_shown_and_told() {
    let kernel = "#include \"kopt_device.h\"\n#include \"softmax.h\"\n\
        extern \"C\" __global__ void softmax_rows(softmax_args args) { args.y[threadIdx.x] = 1.0f; }\n";
    let lacking =
        [("cuda", "cu", kopt_build::toolchain::nvcc().err()), ("hip", "hip", kopt_build::toolchain::hipcc().err())];
    for (backend, extension, lacking) in lacking {
        let sandbox = bout(&[]);
        let manifest = sandbox.read("Cargo.toml").replace("backend = \"cpu\"", &format!("backend = {backend:?}"));
        sandbox.write("Cargo.toml", &manifest);
        sandbox.write(&format!("kernels/softmax.{extension}"), kernel);
        let plan = "[[launch]]\nkernel = \"softmax_rows\"\ngrid = [\"rows\"]\nblock = [64]\n";
        sandbox.write("kernels/softmax.launch.toml", plan);
        if lacking.is_some() {
            sandbox.kopt(&["audit"]).exits(96).says("cannot be compiled here").says("was not found, looked at: ");
            continue;
        }
        let ran = sandbox.kopt(&["audit", "--message-format", "json"]).exits(0).says("softmax_rows");
        assert_eq!(ran.reasons(), ["started", "audit", "resources", "finished"], "{backend}");
        let message = &ran.messages()[2];
        assert_eq!(
            (&message["kernel"], &message["functions"][0]["function"]),
            (&"bout".into(), &"softmax_rows".into())
        );
        assert!(message["functions"][0]["registers"].as_u64().is_some_and(|count| count > 0), "{message}");
        assert!(validator("messages").is_valid(message), "{message}");
    }
}

#[test]
fn against_a_base_only_what_is_new_counts() {
    let sandbox = bout(&[]);
    sandbox.kopt(&["audit", "--base", "HEAD"]).exits(0).says("Unchanged bout");
    remembers(&sandbox);
    sandbox.kopt(&["audit", "--base", "HEAD"]).exits(106).says("writable-data");
    compare::commit(&sandbox);
    sandbox.write("kernels/softmax.c", &sandbox.read("kernels/softmax.c").replace("* 3.0f", "* 4.0f"));
    sandbox.kopt(&["audit", "--base", "HEAD"]).exits(0).says("in the base, too");
    sandbox.kopt(&["audit"]).exits(106);
    sandbox.kopt(&["audit", "--base", "no-such-thing"]).exits(96);
}

/// What was compiled before is taken as it is: a commit must not bring it along.
#[test]
fn what_is_committed_where_the_tool_keeps_its_own_is_not_believed() {
    let sandbox = bout(&[]);
    sandbox.write(".gitignore", "opened\n");
    sandbox.write("target/kopt/candidates/0/candidate.json", "{}");
    compare::commit(&sandbox);
    for arguments in [&["audit"][..], &["audit", "--base", "HEAD~1"]] {
        sandbox.kopt(arguments).exits(106).says("has `target/kopt` in git").says("git rm -r --cached target/kopt");
    }
    // Without a repository nobody commits anything.
    std::fs::remove_dir_all(sandbox.path(".git")).unwrap();
    std::fs::remove_dir_all(sandbox.path("target")).unwrap();
    sandbox.kopt(&["audit"]).exits(0).says("Audited bout");
}

#[test]
fn a_policy_is_the_base_s_and_is_shown() {
    let sandbox = bout(&["share * 0.5"]);
    remembers(&sandbox);
    let manifest = sandbox.read("Cargo.toml");
    let allows = |rule: &str| {
        let policy = format!("[package.metadata.kopt.policy]\nallow = [\"{rule}\"]\n\n[lib]\n");
        sandbox.write("Cargo.toml", &manifest.replace("[lib]\n", &policy));
    };
    allows("writable-date");
    sandbox.kopt(&["audit"]).exits(96).says("no rule of the audit").says("did you mean `writable-data`?");
    allows("writable-data");
    sandbox.kopt(&["audit"]).exits(0).says("allowed: calls (writable-data): the policy of the manifest allows it");
    // Nobody allows himself anything.
    sandbox.kopt(&["audit", "--base", "HEAD"]).exits(106);
}

#[test]
fn a_comparison_refuses_it_before_any_clock() {
    let sandbox = bout(&[]);
    remembers(&sandbox);
    compare::compare(&sandbox, &["HEAD"])
        .exits(106)
        .says("REJECTED (integrity): state audit, writable-data: calls at calls+0x0 in .bss")
        .says("State audit not stateless");
    let evidence = evidence(&sandbox);
    assert_eq!(evidence["stages"].as_array().unwrap().len(), 0);
    assert_eq!(evidence["incumbent"]["audit"]["stateless"], "presumed");
    assert_eq!(evidence["candidate"]["audit"]["findings"][0]["rule"], "writable-data");
    assert!(validator("evidence").is_valid(&evidence));
}

#[test]
fn rules_are_listed_and_explained() {
    let sandbox = Sandbox::empty();
    sandbox.kopt(&["audit", "--list"]).exits(0).answers("system-call").answers("device-global");
    sandbox
        .kopt(&["audit", "--explain", "writable-data"])
        .exits(0)
        .answers("Instead: Declare tables const")
        .answers("allow = [\"writable-data\"]");
    sandbox.kopt(&["audit", "--explain", "writeable-data"]).exits(2).says("did you mean `writable-data`?");
    let json = sandbox.kopt(&["audit", "--list", "--message-format", "json", "-q"]).exits(0);
    assert!(json.reasons().iter().filter(|reason| *reason == "rule").count() > 40);
}
