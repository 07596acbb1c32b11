//! Campaigns that are paused, stopped, or meet another one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::agents::agent;
use crate::begin::one_gain;
use crate::sandbox::Ran;
use crate::stage::{Queue, Stage, header};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A campaign of an agent that waits in each round until the file `go-<round>` is there.
fn slow(stage: &Stage) -> Child {
    let gate = stage.aside("go-").display().to_string();
    let script = format!(
        r#"touch "{gate}asked-$1"; while ! test -e "{gate}$1"; do sleep 0.05; done
        takes "0.$((10 - $1))00"; say "Step $1" "Number $1 of many.""#
    );
    let agent = agent(stage, &script);
    let mut command = stage.command(&["optimize", "--yes", "--agent", &agent, "--max-rounds", "4"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn is_asked(stage: &Stage, round: u32) {
    let path = stage.aside(&format!("go-asked-{round}"));
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "round {round} never began");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn let_go(stage: &Stage, round: u32) {
    fs::write(stage.aside(&format!("go-{round}")), "").unwrap();
}

fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().expect("it was killed"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_campaign_that_is_stopped_ends_after_its_round_with_a_report() {
    let stage = Stage::new();
    let child = slow(&stage);
    is_asked(&stage, 2);
    let name = stage.last().name;
    stage.kopt(&["status"]).exits(0).answers("propose").answers("running");
    stage.optimize(&["--by-hand"]).exits(105).says("is unfinished").says(&format!("cargo kopt resume {name}"));
    stage.optimize(&["--by-hand", "--new"]).exits(105).says("another campaign works on `bout`").says(&name);
    stage.kopt(&["resume"]).exits(105).says("another campaign works on `bout`");
    // The answer that is there is not its own to remove.
    fs::write(stage.last().path("try.json"), "{}").unwrap();
    stage.kopt(&["try", "--hypothesis", "Mine"]).exits(105).says("another campaign works on `bout`");
    assert!(stage.last().path("try.json").exists());
    stage.kopt(&["report"]).exits(105).says("has no report yet");
    stage.kopt(&["stop"]).exits(0).says("Stopping after its round");
    let_go(&stage, 2);
    ended(child).exits(0).says("T4: stopped by the user");
    let campaign = stage.last();
    assert_eq!((campaign.name.clone(), campaign.words()), (name, vec!["accepted".to_owned()]));
    assert_eq!(campaign.termination(), "stopped");
    campaign.is_over();
    stage.kopt(&["resume"]).exits(96).says("no campaign is unfinished");
    stage.kopt(&["resume", &campaign.name]).exits(96).says("is over");
    stage.kopt(&["stop", &campaign.name]).exits(0).says("Over");
}

#[test]
fn ctrl_c_pauses_and_resume_goes_on() {
    let stage = Stage::new();
    let child = slow(&stage);
    is_asked(&stage, 2);
    let_go(&stage, 2);
    is_asked(&stage, 3);
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    ended(child).exits(105).says("interrupted by signal 2").says("resume");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted"]);
    stage.kopt(&["status"]).exits(0).answers("not running: `cargo kopt resume` goes on");
    stage.optimize(&["--by-hand"]).exits(105).says("is unfinished");
    for round in [3, 4] {
        let_go(&stage, round);
    }
    stage.kopt(&["resume"]).exits(0).says("Resumed");
    assert_eq!(campaign.words(), ["accepted"; 3]);
    assert_eq!(campaign.all("resumed").len(), 1);
    campaign.is_over();
}

#[test]
fn a_paused_campaign_is_stopped_after_its_open_round() {
    let stage = Stage::new();
    let child = slow(&stage);
    is_asked(&stage, 2);
    let_go(&stage, 2);
    is_asked(&stage, 3);
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    ended(child).exits(105);
    let_go(&stage, 3);
    stage.kopt(&["stop"]).exits(0).says("T4: stopped by the user");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted"; 2], "the round that was open is finished first");
    assert_eq!(campaign.termination(), "stopped");
    campaign.is_over();
}

#[test]
fn who_says_stop_means_the_campaign_that_runs_and_is_told_where_another_one_does() {
    let stage = Stage::new();
    let child = slow(&stage);
    is_asked(&stage, 2);
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    ended(child).exits(105);
    let older = stage.last().name;
    stage.optimize(&["--by-hand", "--new"]).exits(0);
    let newer = stage.campaigns().into_iter().find(|name| *name != older).unwrap();
    fs::remove_file(stage.aside("go-asked-2")).unwrap();
    let mut command = stage.command(&["resume", &older]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    is_asked(&stage, 2);
    stage.kopt(&["stop", &newer]).exits(105).says(&format!("campaign {newer} is not running")).says(&older);
    stage.kopt(&["stop"]).exits(0).says("Stopping after its round").says(&older);
    let_go(&stage, 2);
    ended(child).exits(0).says("T4: stopped by the user");
    stage.campaign(&older).is_over();
    stage.kopt(&["stop"]).exits(0).says("T4: stopped by the user");
    stage.campaign(&newer).is_over();
}

#[test]
fn two_kernels_have_a_campaign_each_at_the_same_time() {
    let stage = Stage::new();
    another_kernel(&stage);
    let patches = one_gain(&stage);
    let start = |kernel: &str| {
        let mut command = stage.command(&["optimize", "--yes", "-p", kernel, "--patches", &patches]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("bout"), start("other")];
    for child in both {
        ended(child).exits(0);
    }
    let mut kernels = Vec::new();
    for name in stage.campaigns() {
        let campaign = stage.campaign(&name);
        assert_eq!(campaign.words(), ["accepted"], "{:?}", campaign.outcomes());
        assert_eq!(campaign.all("reported").len(), 1);
        kernels.push(campaign.all("began")[0]["kernel"].as_str().unwrap().to_owned());
    }
    kernels.sort();
    assert_eq!(kernels, ["bout", "other"]);
}

#[test]
fn a_campaign_whose_crate_is_not_checked_out_any_more_can_be_ended() {
    let stage = Stage::new();
    let root = stage.sandbox.read("Cargo.toml");
    another_kernel(&stage);
    stage.optimize(&["-p", "other", "--by-hand"]).exits(0);
    let campaign = stage.last();
    stage.sandbox.write("Cargo.toml", &root);
    fs::remove_dir_all(stage.sandbox.path("other")).unwrap();
    stage.kopt(&["stop", &campaign.name]).exits(0).says("T4: stopped by the user");
    campaign.is_over();
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn who_is_asked_after_three_rollbacks_and_a_pause_is_given_the_disassembly() {
    if std::process::Command::new("objdump").arg("--version").output().is_err() {
        eprintln!("skipped: there is no objdump");
        return;
    }
    let stage = Stage::new();
    let asked = stage.aside("asked");
    let script = format!(
        r#"case "$1" in
            2) takes 1.100; say "Prefetch rows" "The second read misses." ;;
            3) takes 1.200; say "Eight lanes" "Lanes work side by side." ;;
            4) takes 1.300; say "Wider tile" "Fewer loads come of it." ;;
            *) test -e "{0}" || {{ touch "{0}"; exec sleep 600; }}
               takes 0.900; say "Fuse both passes" "Memory is passed once." ;;
        esac"#,
        asked.display()
    );
    let agent = agent(&stage, &script);
    let mut command = stage.command(&["optimize", "--yes", "--agent", &agent, "--max-rounds", "5"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupted_at_work(child, &asked);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["slower"; 3], "{:#?}", campaign.outcomes());
    stage.kopt(&["resume"]).exits(0);
    assert!(campaign.read("rounds/round-5/prompt.md").contains("### Disassembly of the version that stands"));
    assert_eq!(campaign.words()[3..], ["accepted"], "{:#?}", campaign.outcomes());
    campaign.is_over();
}

/// Ends a campaign by Ctrl-C once its agent has made that file.
#[track_caller]
fn interrupted_at_work(child: Child, asked: &std::path::Path) {
    let deadline = Instant::now() + PATIENCE;
    while !asked.exists() {
        assert!(Instant::now() < deadline, "it was never asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    ended(child).exits(105);
}

#[test]
fn a_campaign_whose_queue_is_gone_can_be_stopped_and_forgotten() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches, "--by-hand"]).exits(0).says("Waiting");
    let campaign = stage.last();
    fs::remove_dir_all(&patches).unwrap();
    stage.kopt(&["resume"]).exits(96).says("cannot read the patches");
    let ran = stage.kopt(&["stop"]).exits(0).says("cannot read the patches").says("nobody is asked any more");
    ran.says("T4: stopped by the user");
    assert_eq!(campaign.words(), ["accepted"]);
    campaign.is_over();
    stage.kopt(&["forget", &campaign.name, "--yes"]).exits(0).says("Forgotten");
}

#[test]
fn a_round_whose_agent_is_gone_ends_with_the_campaign_that_is_stopped() {
    let stage = Stage::new();
    let asked = stage.aside("asked");
    let program = stage.aside("agent");
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'; exec sleep 600\n", asked.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = format!("'{}' {{prompt_file}}", program.display());
    let mut command = stage.command(&["optimize", "--yes", "--agent", &agent]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    interrupted_at_work(child, &asked);
    fs::remove_file(&program).unwrap();
    stage.kopt(&["resume"]).exits(96).says("there is no program");
    stage.kopt(&["stop"]).exits(0).says("nobody is asked any more").says("T4: stopped by the user");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["stopped"]);
    campaign.is_over();
}

/// A second kernel in the repository, `other`.
fn another_kernel(stage: &Stage) {
    stage.add_crate("other");
    let manifest = stage.sandbox.read("other/Cargo.toml").replace("name = \"bout\"", "name = \"other\"");
    stage.sandbox.write("other/Cargo.toml", &manifest.replace("[workspace]\n", ""));
    let root = stage.sandbox.read("Cargo.toml").replace("[workspace]\n", "[workspace]\nmembers = [\"other\"]\n");
    stage.sandbox.write("Cargo.toml", &root);
    stage.commit("another kernel");
}

#[test]
fn another_campaign_begins_beside_an_unfinished_one_if_asked_for() {
    let stage = Stage::new();
    stage.optimize(&["--by-hand"]).exits(0);
    let first = stage.last().name;
    let mut queue = Queue::new(&stage);
    queue.gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900");
    stage.optimize(&["--patches", queue.folder()]).exits(105).says("--new begins another one");
    stage.optimize(&["--patches", queue.folder(), "--new"]).exits(0);
    assert_eq!(stage.campaigns().len(), 2);
    let other = stage.campaigns().into_iter().find(|name| *name != first).unwrap();
    stage.campaign(&other).is_over();
    stage.kopt(&["status"]).exits(0).answers(&first).answers("not running");
    stage.kopt(&["stop", &first]).exits(0);
    stage.campaign(&first).is_over();
}
