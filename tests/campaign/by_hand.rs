//! `try`: a person, or an agent in an editor, hands in edits one by one.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::Ran;
use crate::stage::{SOURCE, Stage};

/// A campaign that waits for edits.
fn waiting(stage: &Stage) -> String {
    stage.optimize(&["--by-hand"]).exits(0).says("Waiting").says("cargo kopt try");
    stage.last().name
}

/// Edits the source in the worktree.
fn edit(stage: &Stage, campaign: &str, from: &str, to: &str) {
    let path = stage.path(&format!(".kopt/worktrees/{campaign}/{SOURCE}"));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "no `{from}` in\n{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn attempt(stage: &Stage, hypothesis: &str) -> Ran {
    stage.kopt(&["try", "--hypothesis", hypothesis, "--message-format", "json"])
}

/// The answer, which must be as the schema says, as every other line.
fn answer(stage: &Stage, ran: &Ran) -> Value {
    let schema = stage.kopt(&["schema", "messages"]).exits(0).stdout;
    let validator = jsonschema::validator_for(&serde_json::from_str::<Value>(&schema).unwrap()).unwrap();
    for message in ran.messages() {
        assert!(validator.is_valid(&message), "{message}");
    }
    let answers: Vec<Value> = ran.messages().into_iter().filter(|message| message["reason"] == "tried").collect();
    assert_eq!(answers.len(), 1, "{}", ran.stdout);
    answers[0].clone()
}

#[test]
fn edits_are_accepted_rolled_back_or_put_right() {
    let stage = Stage::new();
    let before = stage.checkout();
    let name = waiting(&stage);

    edit(&stage, &name, "TIME=1.000", "TIME=0.900");
    let said = answer(&stage, &attempt(&stage, "Eight lanes work side by side. And more.").exits(0));
    assert_eq!((said["outcome"].as_str(), said["round"].as_u64()), (Some("accepted"), Some(2)), "{said}");
    let campaign = stage.campaign(&name);
    assert_eq!(said["commit"], campaign.commits()[0].to_string());
    assert_eq!(campaign.subjects(), ["[optimize] softmax cpu round-2: Eight lanes work side by side"]);

    edit(&stage, &name, "TIME=0.900", "TIME=0.950");
    let said = answer(&stage, &attempt(&stage, "Prefetch the next row").exits(100));
    assert_eq!((said["outcome"].as_str(), said["why"].as_str()), (Some("rolled-back"), Some("slower")), "{said}");
    assert!(!said["next"].as_array().unwrap().is_empty());

    // A build failure leaves the edit where it is, and the round open.
    edit(&stage, &name, "TIME=0.900;\";", "TIME=0.800;\"");
    let said = answer(&stage, &attempt(&stage, "Fuse both passes").exits(101));
    assert_eq!((said["outcome"].as_str(), said["why"].as_str()), (Some("refused"), Some("build")), "{said}");
    edit(&stage, &name, "TIME=0.800;\"", "TIME=0.800;WRONG;\";");
    let said = answer(&stage, &attempt(&stage, "Fuse both passes").exits(103));
    assert_eq!((said["why"].as_str(), said["attempt"].as_u64()), (Some("incorrect"), Some(2)), "{said}");
    edit(&stage, &name, "WRONG;", "");
    let said = answer(&stage, &attempt(&stage, "Fuse both passes").exits(0));
    assert_eq!((said["round"].as_u64(), said["attempt"].as_u64()), (Some(4), Some(3)), "{said}");

    // Nothing that is not an edit of the sources is taken.
    let said = answer(&stage, &attempt(&stage, "Nothing at all").exits(100));
    assert_eq!(said["why"], "no-change");
    let manifest = stage.path(&format!(".kopt/worktrees/{name}/Cargo.toml"));
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + "# mine\n").unwrap();
    let said = answer(&stage, &attempt(&stage, "Other flags").exits(100));
    assert!(said["why"] == "forbidden" && said["message"].as_str().unwrap().contains("Cargo.toml"), "{said}");

    // What remembers calls is a violation, and told as such.
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap().replace("# mine\n", "")).unwrap();
    edit(&stage, &name, "TIME=0.800;\";", "TIME=0.300;\";\n__attribute__((used)) static int calls;");
    let said = answer(&stage, &attempt(&stage, "A counter").exits(106));
    assert_eq!(
        (said["why"].as_str(), said["ruling"].as_str()),
        (Some("overfit"), Some("integrity-violation")),
        "{said}"
    );

    stage.kopt(&["stop"]).exits(0).says("T4: stopped by the user");
    let campaign = stage.campaign(&name);
    assert_eq!(campaign.termination(), "stopped");
    assert_eq!(campaign.commits().len(), 2);
    assert_eq!(stage.checkout(), before);
    attempt(&stage, "Too late").exits(96);
    stage.kopt(&["try", &name, "--hypothesis", "Too late"]).exits(105).says("is over");
}

#[test]
fn a_try_in_the_background_answers_to_wait() {
    let stage = Stage::new();
    let name = waiting(&stage);
    stage.kopt(&["wait"]).exits(96).says("nothing is being tried");
    edit(&stage, &name, "TIME=1.000", "TIME=0.900");
    stage.kopt(&["try", "--hypothesis", "Eight lanes", "--detach"]).exits(0).says("in the background");
    let ran = stage.kopt(&["wait", "--time", "60s", "--message-format", "json"]).exits(0);
    let said = answer(&stage, &ran);
    assert_eq!(said["outcome"], "accepted", "{said}");
    edit(&stage, &name, "TIME=0.900", "TIME=0.990");
    stage.kopt(&["try", "--hypothesis", "Prefetch the next row", "--detach"]).exits(0);
    let said = answer(&stage, &stage.kopt(&["wait", "--message-format", "json"]).exits(100));
    assert_eq!((said["outcome"].as_str(), said["round"].as_u64()), (Some("rolled-back"), Some(3)), "{said}");
    assert_eq!(stage.campaign(&name).commits().len(), 1);
}

/// A try that is killed once its candidate is stored.
fn killed(stage: &Stage, hypothesis: &str) {
    let campaign = stage.last();
    let before = campaign.all("proposed").len();
    let mut command = stage.command(&["try", "--hypothesis", hypothesis]);
    let mut tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while campaign.read("events.jsonl").matches("\"event\":\"proposed\"").count() == before {
        assert!(tool.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    tool.kill().unwrap();
    tool.wait().unwrap();
    assert_eq!(campaign.all("proposed").len(), before + 1);
}

#[test]
fn an_edit_after_a_try_that_was_killed_is_tried_after_it() {
    let stage = Stage::new();
    let name = waiting(&stage);
    edit(&stage, &name, "TIME=1.000", "TIME=0.900");
    killed(&stage, "Eight lanes");
    // Whoever tries the same again is told what came of it.
    let said = answer(&stage, &attempt(&stage, "Eight lanes").exits(0));
    assert_eq!((said["outcome"].as_str(), said["round"].as_u64()), (Some("accepted"), Some(2)), "{said}");
    edit(&stage, &name, "TIME=0.900", "TIME=0.950");
    killed(&stage, "Prefetch the next row");
    edit(&stage, &name, "TIME=0.950", "TIME=0.800");
    let said = answer(&stage, &attempt(&stage, "Fuse both passes").exits(0));
    assert_eq!((said["outcome"].as_str(), said["round"].as_u64()), (Some("accepted"), Some(4)), "{said}");
    let campaign = stage.campaign(&name);
    assert_eq!(campaign.words(), ["accepted", "slower", "accepted"]);
    stage.kopt(&["stop"]).exits(0);
    campaign.is_over();
}

#[test]
fn a_try_that_is_refused_while_the_campaign_is_stopped_ends_both() {
    let stage = Stage::new();
    let name = waiting(&stage);
    edit(&stage, &name, "TIME=1.000;\";", "TIME=0.900;\"");
    attempt(&stage, "Eight lanes").exits(101);
    let campaign = stage.campaign(&name);
    // As `stop` leaves it for the try that is at work.
    fs::write(campaign.path("stop"), "stop\n").unwrap();
    let said = answer(&stage, &attempt(&stage, "Eight lanes").exits(100));
    assert_eq!((said["outcome"].as_str(), said["why"].as_str()), (Some("rolled-back"), Some("stopped")), "{said}");
    assert!(said["message"].as_str().unwrap().contains("does not compile"), "{said}");
    assert_eq!(campaign.refusals(2), ["build"; 2]);
    assert_eq!((campaign.words(), campaign.termination()), (vec!["stopped".to_owned()], "stopped".to_owned()));
    campaign.is_over();
}

#[test]
fn where_edits_are_made_the_campaign_is_known() {
    let stage = Stage::new();
    let name = waiting(&stage);
    let inside = |arguments: &[&str]| {
        Ran::of(stage.command(arguments).current_dir(stage.path(&format!(".kopt/worktrees/{name}"))))
    };
    inside(&["status"]).exits(0).answers(&name);
    edit(&stage, &name, "TIME=1.000", "TIME=0.900");
    inside(&["try", "--hypothesis", "Eight lanes work side by side."]).exits(0);
    assert_eq!(stage.campaign(&name).words(), ["accepted"]);
    inside(&["optimize", "--yes", "--by-hand"])
        .exits(96)
        .says("this is the worktree of the campaign")
        .says("cargo kopt try");
    assert_eq!(stage.campaigns(), [name.as_str()]);
    inside(&["stop"]).exits(0);
    stage.campaign(&name).is_over();
}

#[test]
fn an_edit_between_the_rounds_of_an_agent_does_not_keep_it_from_going_on() {
    let stage = Stage::new();
    let mended = stage.aside("mended");
    let script =
        format!("[ -e '{}' ] || exit 1\ntakes 0.900; say 'Eight lanes' 'Lanes work side by side.'", mended.display());
    let agent = crate::agents::agent(&stage, &script);
    stage.optimize(&["--agent", &agent, "--max-rounds", "5"]).exits(105).says("no proposal came in 2 rounds in a row");
    attempt(&stage, "An edit that is none").exits(100);
    fs::write(mended, "").unwrap();
    stage.kopt(&["resume"]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["proposer", "proposer", "no-change", "accepted"], "{:#?}", campaign.outcomes());
    campaign.is_over();
}
