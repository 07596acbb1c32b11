//! Kernels that could cheat, and what reading their code says of each: it does not take a clock, nor that they are caught.

use crate::sandbox::Ran;
use crate::stage::{ALPHA, MARK, Stage};

const RETURN: &str = "    return 0;";

/// Makes it count its calls.
fn remembers(stage: &Stage, path: &str) {
    stage.edit(path, RETURN, "    static volatile int calls;\n    calls++;\n    return 0;");
}

#[test]
fn a_kernel_that_can_remember_fails_before_any_clock_and_no_trailer_excuses_it() {
    let stage = Stage::new();
    let message = "Faster\n\nKopt-Allow: alpha it is meant\n";
    let head = stage.request(message, |stage| {
        remembers(stage, ALPHA);
        stage.edit(ALPHA, MARK, "TIME=0.500;");
    });
    let ran = stage.gate(&head, &["--html", "target/gate.html"]).exits(106);
    let ran = ran.says("FAILED: alpha INTEGRITY").says("alpha INTEGRITY: state audit").says("--explain");
    ran.says("excuses no other failure");
    assert!(!stage.path("target/kopt/judge").exists(), "nothing was run");
    // What it rests on is kept, and says the same.
    let evidence = std::fs::read_dir(stage.path("target/kopt/evidence")).unwrap().next().unwrap().unwrap().path();
    stage.sandbox.kopt(&["verdict", evidence.to_str().unwrap()]).exits(106).says("Agrees").says("state audit");
    assert!(stage.sandbox.read("target/gate.html").contains("State audit"));
}

#[test]
fn what_the_base_has_already_is_told_and_only_what_is_new_fails() {
    let stage = Stage::new();
    remembers(&stage, ALPHA);
    stage.commit("it remembers, and nobody minded");
    let faster = stage.request("faster", |stage| stage.edit(ALPHA, MARK, "TIME=0.900;"));
    stage.gate(&faster, &[]).exits(0).says("PASSED: alpha faster").says("the base has this too: state audit");
    let more = stage.request("and more", |stage| {
        stage.edit(ALPHA, "calls++;", "calls++;\n    __asm__ volatile (\"rdtsc\" ::: \"eax\", \"edx\");");
    });
    let ran = stage.gate(&more, &[]).exits(106).says("alpha INTEGRITY: state audit");
    ran.says("rdtsc").says("the base has this too: state audit");
    let gone = stage.request("no longer", |stage| {
        stage.edit(ALPHA, "    static volatile int calls;\n    calls++;\n", "");
        stage.edit(ALPHA, MARK, "TIME=0.900;");
    });
    let ran = stage.gate(&gone, &[]).exits(0);
    assert!(!ran.stderr.contains("state audit"), "{}", ran.stderr);
}

#[test]
fn no_change_allows_itself_anything() {
    let stage = Stage::new();
    let manifest = "crates/alpha/Cargo.toml";
    let allow = |stage: &Stage, path: &str| {
        stage.edit(path, "backend = \"cpu\"\n", "backend = \"cpu\"\npolicy = { allow = [\"writable-data\"] }\n");
    };
    let both = stage.request("allows itself", |stage| {
        allow(stage, manifest);
        remembers(stage, ALPHA);
    });
    stage.gate(&both, &[]).exits(106).says("changes `policy` of the kernel").says("the change edits what judges it");
    // With another interface there is nothing to be timed against, and the audit reads it all the same.
    let other = stage.request("another interface", |stage| {
        stage.edit("crates/alpha/kernels/softmax.h", "int64_t rows;", "int64_t lines;");
        stage.edit(ALPHA, "args->rows", "args->lines");
        stage.edit("crates/alpha/kernels/softmax.bindings.rs", "rows", "lines");
        remembers(stage, ALPHA);
    });
    stage.gate(&other, &[]).exits(106).says("alpha INTEGRITY: state audit");
    let typo = stage.request("no rule", |stage| {
        allow(stage, manifest);
        stage.edit(manifest, "writable-data", "writable-dat");
    });
    stage.gate(&typo, &[]).exits(101).says("`writable-dat`, which is no rule of the audit");
    let new = stage.request("new", |stage| {
        stage.add("gamma");
        remembers(stage, "crates/gamma/kernels/softmax.c");
    });
    stage.gate(&new, &[]).exits(106).says("gamma INTEGRITY: state audit");
    // Only a kernel that is new is judged by its own policy, and that is told.
    let new = stage.request("new, and says so", |stage| {
        stage.add("gamma");
        remembers(stage, "crates/gamma/kernels/softmax.c");
        allow(stage, "crates/gamma/Cargo.toml");
    });
    stage.gate(&new, &[]).exits(0).says("gamma new").says("not held against it: ");
    // Where the policy stands in the base, it holds.
    allow(&stage, manifest);
    stage.commit("a policy");
    let head = stage.request("it remembers", |stage| {
        remembers(stage, ALPHA);
        stage.edit(ALPHA, MARK, "TIME=0.900;");
    });
    stage.gate(&head, &[]).exits(0).says("PASSED: alpha faster");
}

/// A version that was compiled once is not compiled again: whoever could bring the result along would be what it says.
#[test]
fn what_is_committed_where_the_tool_keeps_its_own_is_not_believed() {
    let stage = Stage::new();
    let shown = |stage: &Stage| stage.write(".gitignore", "opened\n");
    let compiled = stage.request("compiled", |stage| {
        shown(stage);
        stage.edit(ALPHA, MARK, "TIME=1.300;");
        stage.write("target/kopt/candidates/0/candidate.json", "{}");
    });
    let ran = stage.gate(&compiled, &[]).exits(106).says("has `target/kopt` in git");
    ran.says("git rm -r --cached target/kopt");
    let _ = std::fs::remove_dir_all(stage.path("target"));
    let linked = stage.request("a link", |stage| {
        shown(stage);
        stage.write("shipped/kopt/candidates/0/candidate.json", "{}");
        std::os::unix::fs::symlink("shipped", stage.path("target")).unwrap();
    });
    stage.gate(&linked, &[]).exits(106).says("has `target` in git");
    let _ = std::fs::remove_file(stage.path("target"));
    // Other files of the target folder are nobody's.
    let other = stage.request("another", |stage| {
        shown(stage);
        stage.write("target/tables/sines.bin", "0");
    });
    stage.gate(&other, &[]).exits(0).says("the change reaches no kernel");
    // A folder that cargo's configuration names.
    stage.write(".cargo/config.toml", "[build]\ntarget-dir = \"shipped\"\n");
    stage.write("shipped/kopt/candidates/0/candidate.json", "{}");
    stage.commit("built elsewhere");
    Ran::of(&mut stage.command(&["gate", "--base", "HEAD~1"])).exits(106).says("has `shipped/kopt` in git");
    std::fs::remove_dir_all(stage.path("shipped")).unwrap();
    stage.commit("which is taken away again");
    let ran = Ran::of(&mut stage.command(&["gate", "--base", "HEAD~1"])).exits(0);
    ran.says("the change reaches no kernel");
}
