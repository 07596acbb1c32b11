//! `compare` on real repositories, with a judge whose times are known beforehand: what the tool makes of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use git2::Repository;
use serde_json::Value;

use crate::history;
use crate::sandbox::{Ran, Sandbox};

/// The same kernel, and yet other code.
const OTHER: (&str, &str) = ("* 2.0f", "* 3.0f");

/// A repository with the crate `bout`, whose judge follows these lines, and one commit.
pub fn bout(judge: &[&str]) -> Sandbox {
    let sandbox = Sandbox::of("bout");
    sandbox.write("judge", &judge.join("\n"));
    sandbox.write(".gitignore", "/target\n");
    Repository::init(sandbox.path("")).unwrap();
    commit(&sandbox);
    sandbox
}

/// The same, with other code in the working tree.
pub fn changed(judge: &[&str]) -> Sandbox {
    let sandbox = bout(judge);
    sandbox.edit("kernels/softmax.c", OTHER.0, OTHER.1);
    sandbox
}

pub fn commit(sandbox: &Sandbox) -> String {
    history::commit(&Repository::open(sandbox.path("")).unwrap(), "change")
}

/// Runs `compare` with a seed that is always the same: with secret ones, a control that fires once in 200 runs would
/// make tests fail as often.
pub fn compare(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    sandbox.kopt(&[&["compare", "--seed", "5eed"], arguments].concat())
}

/// The only file of evidence.
pub fn evidence(sandbox: &Sandbox) -> Value {
    let files: Vec<_> = fs::read_dir(sandbox.path("target/kopt/evidence")).unwrap().collect();
    assert_eq!(files.len(), 1);
    serde_json::from_slice(&fs::read(files[0].as_ref().unwrap().path()).unwrap()).unwrap()
}

fn launches(evidence: &Value) -> Vec<Value> {
    let stages = evidence["stages"].as_array().unwrap();
    stages.iter().flat_map(|stage| stage["launches"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_gain_is_accepted_and_everything_it_rests_on_is_kept() {
    let sandbox = changed(&["share * 0.9", "noise 0.01"]);
    let ran = compare(&sandbox, &["HEAD"]).exits(0);
    assert_eq!(ran.stdout, "");
    let ran = ran
        .says("Comparing bout: the working tree against HEAD (")
        .says("Measuring 4 shapes on Puppet (huge pages)")
        .says("Checked 12 trials of the candidate passed")
        .says("shape    incumbent  candidate")
        .says("  faster\n")
        .says("Aggregate +11.")
        .says("Control ")
        .says("Resolution a gain of ")
        .says("Error rates ")
        .says("ACCEPTED: ")
        .says("Evidence target/kopt/evidence/bout-");
    assert!(ran.stderr.find("tall").unwrap() < ran.stderr.find("Aggregate").unwrap());
    let evidence = evidence(&sandbox);
    assert_eq!(evidence["candidate"]["revision"], "working tree");
    assert_eq!(evidence["incumbent"]["name"], "HEAD");
    assert_eq!((evidence["identical"].clone(), evidence["trials"].clone()), (false.into(), 12.into()));
    assert_eq!(evidence["stages"][1]["kind"], "confirmation");
    assert!(evidence["machine"]["cores"].as_u64().unwrap() > 0);
    let text = evidence.to_string();
    assert!(!text.contains(sandbox.path("").to_str().unwrap()), "evidence names no folder of this machine");
    let bout: Value = serde_json::from_str(
        &sandbox.read(&format!("target/kopt/revisions/{}/opened", evidence["incumbent"]["revision"].as_str().unwrap())),
    )
    .unwrap();
    let contestants = bout["contestants"].as_array().unwrap();
    assert_eq!(contestants.len(), 3);
    assert!(contestants[0] == contestants[2] && contestants[0] != contestants[1]);
    assert_eq!(bout["timeout_s"], 20.0);
}

#[test]
fn programs_are_told_each_look_and_the_verdict() {
    let sandbox = changed(&["share * 0.9", "noise 0.01"]);
    let ran = compare(&sandbox, &["HEAD", ".", "-p", "bout", "--message-format", "json", "-q"]).exits(0);
    assert!(!ran.stderr.contains("Aggregate"), "{}", ran.stderr);
    let (messages, reasons) = (ran.messages(), ran.reasons());
    assert_eq!(reasons.first().unwrap(), "started");
    assert_eq!(&reasons[reasons.len() - 2..], ["verdict", "finished"]);
    let looks: Vec<&Value> = messages.iter().filter(|message| message["reason"] == "look").collect();
    assert!(looks.len() >= 2 && looks[0]["stage"] == "screen" && looks[0]["launches"] == 6, "{looks:?}");
    let verdict = &messages[messages.len() - 2];
    assert_eq!((verdict["ruling"].as_str(), verdict["direction"].as_str()), (Some("accepted"), Some("faster")));
    assert_eq!(verdict["shapes"].as_array().unwrap().len(), 4);
    assert!(sandbox.path(verdict["evidence"].as_str().unwrap()).exists());
    let schema = sandbox.kopt(&["schema", "messages"]).exits(0).stdout;
    let validator = jsonschema::validator_for(&serde_json::from_str::<Value>(&schema).unwrap()).unwrap();
    for message in messages {
        assert!(validator.is_valid(&message), "{message}");
    }
}

#[test]
fn what_comes_of_it_is_the_exit_code() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["share * 1.1"], 100, "ROLLED BACK: "),
        (&["share * 0.9", "share tall 1.08"], 100, "tall is slower by 5 % or more"),
        (&["share * 0.999"], 100, "ROLLED BACK: a gain of 1.0 % or more is ruled out"),
        (&["share * 0.9", "control 1.1"], 104, "NO VERDICT (contaminated): "),
        (&["wrong"], 103, "REJECTED (incorrect): the candidate, on tall: y[3] is 2"),
        (&["failed out of memory"], 96, "error: out of memory"),
        (&["absent no such device", "at 1"], 97, "error: no such device"),
        (
            &["exit 3"],
            70,
            "the judge exited with 3 instead of answering\nCaused by:\n    it printed:\n    last words\n",
        ),
    ];
    // One repository, a commit each: the judge's source stays as it is, and is built once.
    let sandbox = changed(&[]);
    for (judge, code, told) in cases {
        sandbox.edit("kernels/softmax.c", OTHER.1, OTHER.0);
        sandbox.write("judge", &[judge, &["noise 0.002"]].concat().join("\n"));
        commit(&sandbox);
        sandbox.edit("kernels/softmax.c", OTHER.0, OTHER.1);
        let ran = compare(&sandbox, &["HEAD"]).exits(code).says(told);
        assert!(!ran.stderr.contains("measuring once more"), "a seed is repeated as it is:\n{}", ran.stderr);
        let built = ran.stderr.contains("Compiling bout");
        assert_eq!(built, judge == ["share * 1.1"], "{}", ran.stderr);
    }
}

#[test]
fn what_its_control_has_called_off_is_held_once_more() {
    let sandbox = changed(&["share * 0.9", "control 1.1", "noise 0.002"]);
    let ran = sandbox.kopt(&["compare", "HEAD"]).exits(104).says("NO VERDICT (contaminated): ");
    assert_eq!(ran.stderr.matches("; measuring once more").count(), 1, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("Measuring 4 shapes").count(), 2, "{}", ran.stderr);
}

#[test]
fn a_comparison_can_be_repeated_cut_short_and_kept_elsewhere() {
    let sandbox = changed(&["share * 0.9", "noise 0.01"]);
    let arguments = ["compare", "HEAD", "--seed", "0x5EED", "--quick", "--evidence"];
    let mut seen = Vec::new();
    for file in ["kept/one.json", "kept/two.json"] {
        sandbox.kopt(&[&arguments[..], &[file]].concat()).exits(0).says(&format!("Evidence {file}"));
        seen.push(serde_json::from_str::<Value>(&sandbox.read(file)).unwrap());
    }
    assert_eq!(seen[0]["seed"], "5eed");
    assert_eq!(launches(&seen[0]), launches(&seen[1]));
    assert_eq!(seen[0]["terms"]["looks"], serde_json::json!([6, 9, 14]));
    let cases: Vec<&Value> =
        seen[0]["arrangement"]["cases"].as_array().unwrap().iter().map(|case| &case["name"]).collect();
    assert_eq!(cases, ["1x64", "tall", "64x1024"]);
    assert_eq!(seen[0]["left_out"][0]["why"], "left out by --quick");
    let ran = compare(&sandbox, &["HEAD", "--max-time", "0.001s", "--evidence", "kept/none.json"]);
    ran.exits(104).says("ROLLED BACK (noise)");
    sandbox.kopt(&["verdict", "kept/none.json"]).exits(104).says("Agrees");
    compare(&sandbox, &["HEAD", "--evidence", "kernels"]).exits(110).says("it is a folder");
}

#[test]
fn equal_code_is_the_same_at_once_and_needs_no_judge() {
    let sandbox = bout(&[]);
    sandbox.edit("kernels/softmax.c", "/* Never run", "/* A comment that\n   moves the lines.\n   Never run");
    compare(&sandbox, &["HEAD"]).exits(100).says("ROLLED BACK: both compile to the same code");
    assert!(!sandbox.path("target/kopt/judge").exists());
    assert_eq!(evidence(&sandbox)["identical"], true);
    compare(&sandbox, &["HEAD", "HEAD", "--policy", "service"]).exits(0).says("the same code");
}

#[test]
fn a_revision_that_is_not_there_is_named_with_the_nearest() {
    let sandbox = bout(&[]);
    let repository = Repository::open(sandbox.path("")).unwrap();
    let head = repository.head().unwrap().peel_to_commit().unwrap();
    repository.branch("stable", &head, false).unwrap();
    compare(&sandbox, &["stabel"]).exits(96).says("there is no revision `stabel`").says("did you mean `stable`?");
    compare(&sandbox, &["stable", "HEAD~1"]).exits(96).says("there is no revision `HEAD~1`");
    assert!(!sandbox.path("target/kopt/revisions").exists());
    let bare = Sandbox::of("bout");
    bare.kopt(&["compare", "HEAD"]).exits(96).says("is not in a git repository").says("git init");
}

#[test]
fn a_version_without_the_kernel_is_named() {
    let sandbox = Sandbox::empty();
    Repository::init(sandbox.path("")).unwrap();
    sandbox.write("README", "nothing yet");
    // What the tool keeps there is not to be committed with the rest.
    sandbox.write(".gitignore", "/target\n");
    let empty = commit(&sandbox);
    sandbox.write("Cargo.toml", "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    sandbox.write("src/lib.rs", "");
    let plain = commit(&sandbox);
    for (path, text) in Sandbox::of("bout").files().iter().map(|path| (path.clone(), Sandbox::of("bout").read(path))) {
        sandbox.write(&path, &text);
    }
    compare(&sandbox, &[&empty]).exits(96).says("has no Cargo.toml in its root");
    compare(&sandbox, &[&plain]).exits(4).says("BASE, ").says("no kernel crate matches `bout`");
    commit(&sandbox);
    compare(&sandbox, &["HEAD", "-p", "botu"]).exits(4).says("did you mean `bout`?");
    compare(&sandbox, &["HEAD", &plain]).exits(4).says("HEAD, ");
    sandbox.edit("Cargo.toml", "backend = \"cpu\"", "backend = \"tpu\"");
    compare(&sandbox, &["HEAD"]).exits(96).says("HEAD, the working tree: the manifest of `bout` is wrong");
}

#[test]
fn a_version_that_does_not_compile_is_named_with_what_the_compiler_says() {
    let sandbox = bout(&[]);
    sandbox.edit("kernels/softmax.c", "return 0;", "return nothing;");
    compare(&sandbox, &["HEAD"])
        .exits(101)
        .says("error: HEAD, the working tree, does not compile")
        .says("kernels/softmax.c does not compile")
        .says("nothing");
    commit(&sandbox);
    sandbox.edit("kernels/softmax.c", "return nothing;", "return 0;");
    compare(&sandbox, &["HEAD"]).exits(101).says("error: BASE, HEAD (");
    let no_compiler = Ran::of(sandbox.command(&["compare", "HEAD~1"]).env("CC", "/no/such/compiler"));
    no_compiler.exits(97).says("cannot be compiled here").says("hint: ");
}

#[test]
fn a_judge_that_does_not_build_is_a_failed_build() {
    let sandbox = bout(&[]);
    sandbox.write("benches/latency.rs", "fn main() { no_such_function() }");
    commit(&sandbox);
    sandbox.edit("kernels/softmax.c", OTHER.0, OTHER.1);
    compare(&sandbox, &["HEAD"]).exits(101).says("no_such_function");
}

#[test]
fn versions_of_different_interfaces_are_not_compared() {
    let sandbox = bout(&[]);
    sandbox.edit("kernels/softmax.h", "int64_t cols;", "int64_t cols;\n    float scale;");
    // As `cargo kopt bindings` would make them, which needs libclang.
    let digest = kopt_build::digest_of_bytes(sandbox.read("kernels/softmax.h").as_bytes());
    let bindings = sandbox.read("kernels/softmax.bindings.rs").replace("cols: i64,", "cols: i64,\n    pub scale: f32,");
    let lines = bindings.lines().map(|line| match line.starts_with("// header digest: ") {
        true => format!("// header digest: {digest}\n"),
        false => format!("{line}\n"),
    });
    sandbox.write("kernels/softmax.bindings.rs", &lines.collect::<String>());
    compare(&sandbox, &["HEAD"]).exits(96).says("`softmax_args`: only HEAD has field `scale`");
    let sandbox = bout(&[]);
    sandbox.edit("Cargo.toml", "backend = \"cpu\"\n", "backend = \"cpu\"\ndtype = \"f16\"\n");
    compare(&sandbox, &["HEAD"]).exits(96).says("`dtype` is f32 in BASE and f16 in HEAD");
}

#[test]
fn only_shapes_of_both_are_compared_and_the_others_are_named() {
    let sandbox = changed(&["share * 0.9", "noise 0.002"]);
    sandbox.edit("Cargo.toml", "{ rows = 8, cols = 64 }", "{ rows = 9, cols = 64 }");
    sandbox.edit("Cargo.toml", "rows = 512, cols = 8", "rows = 511, cols = 8");
    compare(&sandbox, &["HEAD", "--shapes", "1x65"]).exits(96).says("did you mean `1x64`?");
    compare(&sandbox, &["HEAD", "--shapes", "64x1024,tall"]).exits(96).says("`tall` cannot be compared: sizes differ");
    compare(&sandbox, &["HEAD", "--shapes", "64x1024"])
        .exits(0)
        .says("Left out 1x64 (not asked for); 8x64 (only in BASE); 9x64 (only in HEAD); tall (sizes differ)");
    sandbox.edit("Cargo.toml", "{ rows = 1, cols = 64 }", "{ rows = 2, cols = 64 }");
    sandbox.edit("Cargo.toml", "{ rows = 64, cols = 1024 }", "{ rows = 65, cols = 1024 }");
    compare(&sandbox, &["HEAD"]).exits(96).says("no shape of bout in common").says("tall: sizes differ");
}

#[test]
fn numbers_and_names_on_the_command_line_are_checked_first() {
    let sandbox = Sandbox::empty();
    for (arguments, told) in [
        (&["--policy", "defualt"][..], "policy"),
        (&["--min-gain", "5"], "did you mean `5%`?"),
        (&["--min-gain", "much"], "write it as 1% or 0.01"),
        (&["--min-gain=-1%"], "write it as 1% or 0.01"),
        (&["--max-time", "90"], "write it as 90s, 2m or 1m30s"),
        (&["--max-time", "0s"], "no time at all"),
        (&["--seed", "xyz"], "hexadecimal"),
    ] {
        sandbox.kopt(&[&["compare", "HEAD"], arguments].concat()).exits(2).says(told);
    }
    bout(&[]).kopt(&["compare", "HEAD", "--min-gain", "150%"]).exits(2).says("150.0 %");
}

#[test]
fn a_workspace_in_a_folder_of_the_repository_is_compared_from_anywhere() {
    let sandbox = Sandbox::empty();
    Repository::init(sandbox.path("")).unwrap();
    let fixture = Sandbox::of("bout");
    for path in fixture.files() {
        sandbox.write(&format!("deep/er/{path}"), &fixture.read(&path));
    }
    sandbox.write(".gitignore", "target\n");
    sandbox.write("deep/er/judge", "share * 0.9\nnoise 0.002\n");
    commit(&sandbox);
    sandbox.edit("deep/er/kernels/softmax.c", OTHER.0, OTHER.1);
    compare(&sandbox, &["HEAD", "--manifest-path", "deep/er/Cargo.toml"]).exits(0).says("ACCEPTED");
    sandbox.kopt_in("deep/er/kernels", &["compare", "HEAD", "--quick", "--seed", "5eed"]).exits(0).says("ACCEPTED");
}

#[test]
fn what_is_committed_where_the_tool_keeps_its_own_ends_it() {
    let sandbox = changed(&[]);
    sandbox.write(".gitignore", "");
    sandbox.write("target/kopt/candidates/0/candidate.json", "{}");
    commit(&sandbox);
    compare(&sandbox, &["HEAD"]).exits(106).says("has `target/kopt` in git");
}

/// Cargo takes two exports of one workspace for the same packages, and the older one's files for built.
#[test]
fn the_judge_is_always_that_of_the_base() {
    let sandbox = bout(&["share * 0.9", "noise 0.002"]);
    let first = commit(&sandbox);
    sandbox.edit("benches/latency.rs", "Puppet", "Marionette");
    let second = commit(&sandbox);
    sandbox.edit("kernels/softmax.c", OTHER.0, OTHER.1);
    for (base, device) in [(&first, "Puppet"), (&second, "Marionette"), (&first, "Puppet"), (&second, "Marionette")] {
        compare(&sandbox, &[base, "--quick"]).exits(0).says(&format!("on {device} ("));
    }
}

#[test]
fn an_interrupt_leaves_no_judge_behind() {
    use std::os::unix::process::ExitStatusExt as _;
    let sandbox = changed(&["hang"]);
    let mut command = sandbox.command(&["compare", "HEAD"]);
    let mut tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let exports = sandbox.path("target/kopt/revisions");
    let hanging = || {
        let kept = fs::read_dir(&exports).ok()?.flatten();
        let mut said = kept.filter_map(|entry| fs::read_to_string(entry.path().join("hanging")).ok());
        said.find(|text| !text.is_empty())
    };
    let judge = wait_for(hanging);
    let pid = rustix::process::Pid::from_raw(i32::try_from(tool.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(tool.wait().unwrap().signal(), Some(2));
    wait_for(|| {
        let state = fs::read_to_string(format!("/proc/{judge}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
    // Nothing holds the lock any more, and nothing was left half done.
    let names = fs::read_dir(&exports).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0);
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain");
}

#[test]
#[ignore = "compiles the harness in the bench profile and measures for a minute"]
fn a_real_kernel_that_does_half_the_work_is_accepted_and_the_reverse_is_not() {
    let root = env!("CARGO_MANIFEST_DIR");
    let target = Path::new(crate::sandbox::TOOL).ancestors().nth(2).unwrap();
    let sandbox = Sandbox::empty();
    let harness = format!("{root}/harness");
    sandbox.kopt(&["new", "halved", "--op", "softmax", "--path", "halved", "--harness", &harness]).exits(0);
    // The lock file of this workspace, made to fit: nothing is fetched, and the judge is built with --locked.
    fs::copy(format!("{root}/Cargo.lock"), sandbox.path("halved/Cargo.lock")).unwrap();
    let mut fit = Command::new("cargo");
    fit.args(["metadata", "--offline", "--format-version", "1"]).current_dir(sandbox.path("halved"));
    assert!(fit.stdout(Stdio::null()).status().unwrap().success());
    Repository::init(sandbox.path("")).unwrap();
    let once = "r < args->rows; r++";
    let twice = "r < 2 * args->rows; r++";
    let kernel = sandbox.read("halved/kernels/softmax.c");
    assert!(kernel.contains(once), "{kernel}");
    let doubled = kernel.replacen(once, twice, 1).replace("r * cols", "r % args->rows * cols");
    sandbox.write("halved/kernels/softmax.c", &doubled);
    commit(&sandbox);
    sandbox.write("halved/kernels/softmax.c", &kernel);
    let compare = |arguments: &[&str]| {
        let mut command: Command = sandbox.command(&[&["compare"], arguments].concat());
        command.current_dir(sandbox.path("halved")).env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
        Ran::of(&mut command)
    };
    let file = sandbox.path("evidence.json");
    compare(&["HEAD", "--evidence", file.to_str().unwrap()]).exits(0).says("ACCEPTED: ");
    sandbox.kopt(&["verdict", "evidence.json"]).exits(0).says("Agrees");
    commit(&sandbox);
    compare(&["HEAD", "HEAD~1", "--quick"]).exits(100).says("ROLLED BACK: ");
}
