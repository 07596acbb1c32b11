//! Real programs as agents: shell scripts that help, hang, crash, chatter and run away.

use std::fs;
use std::path::Path;

use camino::Utf8Path;
use kopt_schema::campaign::Bucket;
use rustix::process::{Pid, Signal};

use super::*;
use crate::proposer::tests::World;

/// An agent that is this script.
fn scripted(world: &World, script: &str, limits: Limits) -> Agent {
    let path = world.root.join("agent.sh");
    fs::write(&path, script).unwrap();
    Agent::new(&format!("sh '{path}' {{crate}} {{round}}.{{attempt}}.{{time_s}}"), limits).unwrap()
}

fn asked(world: &World, script: &str) -> Answer {
    world.ask(&mut scripted(world, script, Limits::seconds(600.0))).unwrap()
}

fn failure(answer: &Answer) -> &str {
    match &answer.outcome {
        Outcome::Failed { reason: Reason::Proposer, message } => message,
        other => panic!("{other:?}"),
    }
}

fn number(path: &Utf8Path) -> i32 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Whether a process is over, which takes it a moment after the signal.
fn is_gone(number: i32) -> bool {
    for _ in 0..1000 {
        let state = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return true;
        }
        process::pause();
    }
    false
}

#[test]
fn a_helpful_agent_is_given_the_prompt_and_heard() {
    let mut world = World::new();
    world.context.withheld = vec!["HOME".into()];
    let answer = asked(
        &world,
        r#"
        env > "$KOPT_ROUND_DIR/env"; pwd > "$KOPT_ROUND_DIR/pwd"; echo "$@" > "$KOPT_ROUND_DIR/arguments"
        head -n 1 > "$KOPT_ROUND_DIR/first"
        echo faster > kernels/k.c
        printf 'title = "Wider"\nhypothesis = "less to load"\nbucket = "K1"\nexpected_gain = "much"\n' \
            > "$KOPT_ROUND_DIR/proposal.toml"
        echo working >&2
        echo '{"result": "other words", "total_cost_usd": 0.5, "usage": {"input_tokens": 3, "output_tokens": 4}}'
        "#,
    );
    let Outcome::Change(proposal) = &answer.outcome else { panic!("{answer:?}") };
    assert_eq!((proposal.title.as_str(), proposal.hypothesis.as_str()), ("Wider", "less to load"));
    assert_eq!((proposal.bucket, proposal.expected_gain.as_deref()), (Some(Bucket::K1), Some("much")));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.cost_usd, usage.input_tokens, usage.output_tokens), (Some(0.5), Some(3), Some(4)));
    assert_eq!(world.read("kernels/k.c"), "faster\n");
    let round = world.round_folder();
    let read = |name: &str| fs::read_to_string(round.join(name)).unwrap();
    assert_eq!(read("pwd").trim_end(), world.crate_folder());
    assert_eq!(read("arguments").trim_end(), format!("{} 2.1.600", world.crate_folder()));
    assert_eq!(read("first"), "# softmax on cpu, round 2, attempt 1\n");
    assert!(read("agent-1.stdout").contains("other words"));
    assert_eq!(read("agent-1.stderr"), "working\n");
    let env = read("env");
    let has = |start: &str| env.lines().any(|line| line.starts_with(start));
    assert!(has("PATH=") && has("TERM=dumb") && has("KOPT_CAMPAIGN=softmax_cpu_test") && has("KOPT_ROUND=2"), "{env}");
    assert!(has(&format!("KOPT_ROUND_DIR={round}")), "{env}");
    // Cargo sets the first for every test; the second is withheld by the context.
    assert!(!has("CARGO_") && !has("HOME="), "{env}");
    assert!(answer.notes.is_empty(), "{:?}", answer.notes);
}

#[test]
fn a_prompt_that_is_named_is_no_input() {
    let world = World::new();
    let script = world.root.join("agent.sh");
    fs::write(&script, "cmp \"$1\" \"$2/prompt.md\" && [ -z \"$(cat)\" ] && [ \"$#\" = 2 ]").unwrap();
    let mut agent =
        Agent::new(&format!("sh '{script}' {{prompt_file}} {{round_dir}}"), Limits::seconds(600.0)).unwrap();
    let answer = world.ask(&mut agent).unwrap();
    let Outcome::Change(proposal) = &answer.outcome else { panic!("{answer:?}") };
    assert_eq!(proposal.title, "change by agent");
    assert_eq!(answer.usage, None);
}

#[test]
fn one_that_hangs_is_ended_with_its_children_whatever_signals_it_ignores() {
    let world = World::new();
    let script = r#"
        trap '' TERM INT HUP
        (trap '' TERM INT HUP; while :; do sleep 600; done) &
        echo $! > "$KOPT_ROUND_DIR/child"; echo $$ > "$KOPT_ROUND_DIR/own"
        echo '{"cost_usd": 0.25}'
        while :; do sleep 600; done
    "#;
    let answer = world.ask(&mut scripted(&world, script, Limits::seconds(3.0))).unwrap();
    assert!(failure(&answer).starts_with("no answer within 3 s"), "{answer:?}");
    assert_eq!(answer.usage.unwrap().cost_usd, Some(0.25));
    for name in ["child", "own"] {
        assert!(is_gone(number(&world.round_folder().join(name))), "{name}");
    }
}

#[test]
fn a_campaign_that_has_less_time_gives_less() {
    let mut world = World::new();
    world.dossier.time_left_s = 0.5;
    let answer = world.ask(&mut scripted(&world, "sleep 600", Limits::seconds(600.0))).unwrap();
    assert_eq!(failure(&answer), "no answer within 0.5 s");
}

#[test]
fn one_that_fails_is_believed_though_it_changed_files() {
    let world = World::new();
    let answer = asked(&world, "echo x > kernels/k.c; for i in $(seq 40); do echo line $i >&2; done; exit 3");
    let message = failure(&answer);
    assert!(message.starts_with("`sh` exited with 3\nline 21\n") && message.ends_with("\nline 40"), "{message}");
    let silent = asked(&world, "echo '{\"error\": \"no credit\"}'; exit 1");
    assert!(failure(&silent).ends_with("no credit\"}"), "{silent:?}");
    assert_eq!(failure(&asked(&world, "kill -9 $$")), "`sh` died of signal 9");
}

#[test]
fn fifty_megabytes_of_chatter_are_read_and_a_part_is_kept() {
    let world = World::new();
    let script = "head -c 52428800 /dev/zero | tr '\\0' x; echo; echo '{\"cost_usd\": 1}'; head -c 1000 /dev/zero >&2";
    let answer = asked(&world, script);
    assert!(matches!(answer.outcome, Outcome::Change(_)), "{:?}", answer.outcome);
    let kept = |name: &str| fs::metadata(world.round_folder().join(name)).unwrap().len();
    assert_eq!((kept("agent-1.stdout"), kept("agent-1.stderr")), (16 << 20, 1000));
    let dropped = 52_428_800 + "\n{\"cost_usd\": 1}\n".len() - (16 << 20);
    assert_eq!(answer.notes, [format!("agent-1.stdout has the first {} bytes; {dropped} more were dropped", 16 << 20)]);
    assert_eq!(answer.usage.and_then(|usage| usage.cost_usd), Some(1.0), "its last line is heard");
}

#[test]
fn a_line_that_is_kept_in_part_is_heard_whole() {
    let world = World::new();
    let limits = Limits { output: 10, ..Limits::seconds(600.0) };
    let script = r#"echo '{"total_cost_usd": 0.75, "result": "Eight lanes"}'"#;
    let answer = world.ask(&mut scripted(&world, script, limits)).unwrap();
    assert_eq!(answer.usage.and_then(|usage| usage.cost_usd), Some(0.75));
    assert_eq!(fs::metadata(world.round_folder().join("agent-1.stdout")).unwrap().len(), 10);
}

#[test]
fn an_answer_that_cannot_be_read_fails_and_an_old_one_is_not_taken_for_it() {
    let mut world = World::new();
    let bad = asked(&world, "echo 'title = [1]' > \"$KOPT_ROUND_DIR/proposal.toml\"");
    assert_eq!(failure(&bad), "proposal.toml: `title` is a list, not a string");
    world.attempt = 2;
    let next = asked(&world, "printf '%s' '{\"result\": \"Unroll\\nby four\"}'");
    let Outcome::Change(proposal) = &next.outcome else { panic!("{next:?}") };
    assert_eq!((proposal.title.as_str(), proposal.hypothesis.as_str()), ("Unroll", "Unroll by four"));
    assert!(
        world.round_folder().join("agent-1.stdout").exists() && world.round_folder().join("agent-2.stdout").exists()
    );
    let odd = asked(&world, "echo 'tilte = \"a\"' > \"$KOPT_ROUND_DIR/proposal.toml\"");
    assert_eq!(odd.notes, ["proposal.toml: `tilte` is unknown and was ignored; did it mean `title`?"]);
}

#[test]
fn a_process_that_left_the_group_is_found_and_ended() {
    let world = World::new();
    // It keeps the output open too, which must hold nobody up.
    let script = r#"
        setsid sh -c 'echo $$ > "$KOPT_ROUND_DIR/stray.new"; mv "$KOPT_ROUND_DIR/stray.new" "$KOPT_ROUND_DIR/stray"
                      trap "" TERM; while :; do sleep 600; done' &
        while [ ! -e "$KOPT_ROUND_DIR/stray" ]; do sleep 0.01; done
        echo done
    "#;
    let answer = asked(&world, script);
    assert!(matches!(answer.outcome, Outcome::Change(_)), "{answer:?}");
    assert!(is_gone(number(&world.round_folder().join("stray"))));
    assert!(answer.notes.iter().any(|note| note.contains("of its own running")), "{:?}", answer.notes);
    assert_eq!(fs::read_to_string(world.round_folder().join("agent-1.stdout")).unwrap(), "done\n");
}

#[test]
fn a_log_is_not_written_through_a_link() {
    let world = World::new();
    let precious = world.root.join("precious");
    fs::write(&precious, "kept").unwrap();
    for name in ["agent-1.stdout", "prompt.md", "context.json", "proposal.toml"] {
        std::os::unix::fs::symlink(&precious, world.round_folder().join(name)).unwrap();
    }
    asked(&world, "echo overwritten");
    assert_eq!(fs::read_to_string(precious).unwrap(), "kept");
}

#[test]
fn presets_are_templates_that_can_be_read() {
    for preset in presets::PRESETS {
        let agent = Agent::new(preset.name, Limits::seconds(1.0)).unwrap();
        assert_eq!((agent.template.program(), agent.name()), (preset.name, format!("agent {}", preset.name)));
        assert!(!agent.template.names_prompt());
    }
}

/// The file that says that the test below is running this one.
const ASKED_FOR: &str = "interrupt-me";

#[test]
#[ignore = "half of the test below, which starts it in a process of its own"]
fn an_agent_at_work_until_the_user_interrupts() {
    if !Path::new(ASKED_FOR).exists() {
        return;
    }
    let here = std::env::current_dir().unwrap();
    let world = World::new();
    let script = format!("echo $$ > '{0}/new'; mv '{0}/new' '{0}/agent'; exec sleep 600", here.display());
    let error = world.ask(&mut scripted(&world, &script, Limits::seconds(600.0))).unwrap_err();
    fs::write(here.join("told"), format!("{error}\n{}", error.exit().code())).unwrap();
}

/// In another process: the signal is for all of it, and other tests listen too.
#[test]
fn an_interrupt_ends_the_agent_and_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    fs::write(folder.join(ASKED_FOR), "").unwrap();
    let name = "proposer::agent::tests::an_agent_at_work_until_the_user_interrupts";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !folder.join("agent").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        process::pause();
    }
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(is_gone(number(&folder.join("agent"))));
    let told = fs::read_to_string(folder.join("told")).unwrap();
    assert_eq!(told, "interrupted by signal 2 while the agent was at work\n105");
}
