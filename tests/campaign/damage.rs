//! Files of a campaign that somebody changed, cut off or locked: it goes on where nothing is lost by it, and says so;
//! otherwise it stops, names the damage, and changes nothing.

use std::fs;

use cargo_kopt::campaign::folder::digest;
use serde_json::Value;

use crate::history::somebody;
use crate::sandbox::Ran;
use crate::stage::{Campaign, Queue, Stage, header};

/// A campaign that is over after two accepted rounds: a queue of two patches, and one that slows down between them.
fn finished(stage: &Stage) -> Campaign<'_> {
    let mut queue = Queue::new(stage);
    queue
        .gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900")
        .tries(&header("Prefetch", "The second read misses."), "TIME=0.900", "TIME=0.990")
        .gains(&header("Fuse both passes", "Memory is read once."), "TIME=0.900", "TIME=0.800");
    stage.optimize(&["--patches", queue.folder()]).exits(0);
    stage.last()
}

/// The same campaign as if its process had ended after that event. Evidence, branch and all are as they were then; but
/// after the third measurement, whose accept has happened in git and is not written down.
fn cut(stage: &Stage, campaign: &Campaign<'_>, event: &str, number: usize) -> String {
    let text = campaign.read("events.jsonl");
    let is_it = |line: &&str| line.contains(&format!("\"event\":\"{event}\""));
    let last = text.lines().filter(is_it).nth(number - 1).unwrap();
    let end = text.find(last).unwrap() + last.len() + 1;
    let repository = stage.repository();
    let point = |name: &str, id| drop(repository.reference(name, id, true, "").unwrap());
    let commits = campaign.commits();
    let stands = commits[text[..end].matches("\"event\":\"accepted\"").count() - 1];
    let stored = format!("refs/kopt/{}/evidence", campaign.name);
    while !text.as_bytes()[..end].starts_with(&campaign.stored("events.jsonl").unwrap()) {
        let before = repository.find_reference(&stored).unwrap().peel_to_commit().unwrap().parent_id(0).unwrap();
        point(&stored, before);
    }
    if (event, number) != ("measured", 3) {
        point(&format!("refs/heads/kopt/{}", campaign.name), stands);
        point(&format!("refs/kopt/{}/accepted", campaign.name), stands);
    }
    fs::write(campaign.path("events.jsonl"), &text[..end]).unwrap();
    text[..end].to_owned()
}

#[test]
fn a_last_line_that_was_cut_off_is_put_aside_and_told() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    let whole = cut(&stage, &campaign, "measured", 2);
    fs::write(campaign.path("events.jsonl"), format!("{whole}{{\"format\":1,\"numb")).unwrap();
    stage.kopt(&["resume"]).exits(0).says("the last event was cut off while it was written");
    assert_eq!(campaign.read("events.cut-off"), "{\"format\":1,\"numb");
    assert_eq!(campaign.words(), ["accepted", "slower", "accepted"]);
    assert!(campaign.read("events.jsonl").starts_with(&whole));
    campaign.is_over();
}

#[test]
fn events_that_were_removed_or_edited_stop_everything_and_nothing_is_changed() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    let whole = cut(&stage, &campaign, "learned", 2);
    let lines: Vec<&str> = whole.lines().collect();
    let at = |event: &str| lines.iter().position(|line| line.contains(&format!("\"event\":\"{event}\""))).unwrap();
    let without = |index: usize| {
        let kept = lines.iter().enumerate().filter(|(other, _)| *other != index);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let with = |index: usize, line: &str| {
        let all = lines.iter().enumerate().map(|(other, old)| if other == index { line } else { old });
        all.map(|line| format!("{line}\n")).collect::<String>()
    };
    let accepted = at("accepted");
    let cases = [
        (without(accepted), format!("line {} has number", accepted + 1)),
        (with(accepted, "{}"), format!("line {} is no entry", accepted + 1)),
        (with(accepted, "not JSON"), format!("line {} is no JSON", accepted + 1)),
        (with(accepted, ""), format!("line {} is empty", accepted + 1)),
        (
            with(at("measured"), &lines[at("measured")].replace("\"accepted\"", "\"rolled-back\"")),
            "cannot follow".into(),
        ),
        (
            with(at("tips-read"), &lines[at("tips-read")].replacen("\"format\":1", "\"format\":99", 1)),
            "has format 99".into(),
        ),
        (format!("{whole}{}\n", lines[at("baseline")]), "has number".into()),
    ];
    for (text, told) in cases {
        assert_ne!(text, whole, "{told}");
        fs::write(campaign.path("events.jsonl"), &text).unwrap();
        for command in ["resume", "stop", "report"] {
            stage.kopt(&[command, &campaign.name]).exits(105).says("events.jsonl` is damaged").says(&told);
        }
        stage.kopt(&["status"]).exits(105).says(&told);
        assert_eq!(campaign.read("events.jsonl"), text, "nothing was changed");
    }
    // A line that could stand there, with another number in it, and an end without its last lines: git knows better.
    let more = with(at("baseline"), &lines[at("baseline")].replacen("\"trials\":12", "\"trials\":99", 1));
    for text in [more, lines[..lines.len() - 3].iter().map(|line| format!("{line}\n")).collect()] {
        assert_ne!(text, whole);
        fs::write(campaign.path("events.jsonl"), &text).unwrap();
        stage.kopt(&["resume"]).exits(105).says("is damaged").says("some were changed or removed");
        assert_eq!(campaign.read("events.jsonl"), text, "nothing was changed");
    }
    // What git keeps has it all: put back, the campaign goes on.
    let kept = String::from_utf8(campaign.stored("events.jsonl").unwrap()).unwrap();
    assert_eq!(kept, whole);
    fs::write(campaign.path("events.jsonl"), &whole).unwrap();
    stage.kopt(&["resume"]).exits(0);
    assert_eq!(campaign.words(), ["accepted", "slower", "accepted"]);
    campaign.is_over();
}

#[test]
fn a_target_that_was_edited_stops_the_campaign() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    let events = cut(&stage, &campaign, "learned", 2);
    let manifest = campaign.read("manifest.toml");
    fs::write(campaign.path("manifest.toml"), manifest.replace("min_gain = 0.01", "min_gain = 0.0")).unwrap();
    assert_ne!(campaign.read("manifest.toml"), manifest);
    stage.kopt(&["resume"]).exits(105).says("the target was changed after the campaign began");
    assert_eq!(campaign.read("events.jsonl"), events);
    fs::write(campaign.path("manifest.toml"), manifest.replace("format = 1", "format = 99")).unwrap();
    stage.kopt(&["resume", &campaign.name]).exits(96).says("has format 99").says("update this one");
    fs::write(campaign.path("manifest.toml"), manifest).unwrap();
    stage.kopt(&["resume"]).exits(0);
    campaign.is_over();
}

#[test]
fn evidence_that_was_changed_on_disk_accepts_nothing() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    cut(&stage, &campaign, "measured", 3);
    let path = campaign.path("rounds/round-4/evidence.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("1.", "2.", 1)).unwrap();
    stage.kopt(&["resume"]).exits(105).says("the evidence of round 4 was changed");
    assert_eq!(campaign.all("accepted").len(), 1);
    fs::write(&path, text).unwrap();
    stage.kopt(&["resume"]).exits(0);
    assert_eq!(campaign.words(), ["accepted", "slower", "accepted"]);
    campaign.is_over();
}

#[test]
fn a_branch_that_the_user_moved_is_put_back_and_what_stood_there_is_kept() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    let subjects = campaign.subjects();
    cut(&stage, &campaign, "learned", 2);
    let repository = stage.repository();
    let first = repository.find_commit(campaign.commits()[0]).unwrap();
    let who = somebody();
    let mine = repository.commit(None, &who, &who, "mine", &first.tree().unwrap(), &[&first]).unwrap();
    repository.reference(&format!("refs/heads/kopt/{}", campaign.name), mine, true, "").unwrap();
    stage.kopt(&["resume"]).exits(0).says("somebody has moved the branch").says("was put back");
    assert_eq!(campaign.subjects(), subjects);
    let saved = repository.references_glob(&format!("refs/kopt/{}/saved-*", campaign.name)).unwrap();
    assert!(saved.flatten().any(|one| one.target() == Some(mine)), "what stood there is kept");
    campaign.is_over();
}

#[test]
fn locks_that_dead_processes_left_are_no_hindrance() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    cut(&stage, &campaign, "measured", 3);
    fs::write(stage.path(".kopt/campaigns/bout.lock"), "campaign of old, process 1\n").unwrap();
    let git = stage.repository().path().to_owned();
    let lock = git.join(format!("refs/kopt/{}/evidence.lock", campaign.name));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    stage.kopt(&["resume"]).exits(0).says("was left by a process that is gone");
    campaign.is_over();
}

#[test]
fn a_round_whose_branch_moved_before_it_was_written_down_stays_accepted() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    cut(&stage, &campaign, "measured", 3);
    // As another version of the tool would word it, which was killed after it had vetted the candidate and moved the branch.
    let repository = stage.repository();
    let made = repository.find_commit(campaign.commits()[1]).unwrap();
    let message = made.message().unwrap().replace("round-4: ", "round-4: in other words: ");
    let (who, parent) = (made.author(), made.parent(0).unwrap());
    let other = repository.commit(None, &who, &who, &message, &made.tree().unwrap(), &[&parent]).unwrap();
    for name in [format!("refs/heads/kopt/{}", campaign.name), format!("refs/kopt/{}/accepted", campaign.name)] {
        repository.reference(&name, other, true, "").unwrap();
    }
    stage.kopt(&["resume"]).exits(0);
    assert_eq!(campaign.words(), ["accepted", "slower", "accepted"]);
    assert_eq!(campaign.commits()[1], other);
    campaign.is_over();
}

/// The same campaign as if its process had ended after the third measurement, before anything was done about an accept.
fn measured(stage: &Stage, campaign: &Campaign<'_>) -> String {
    let first = campaign.commits()[0];
    let events = cut(stage, campaign, "measured", 3);
    let repository = stage.repository();
    for name in [format!("refs/heads/kopt/{}", campaign.name), format!("refs/kopt/{}/accepted", campaign.name)] {
        repository.reference(&name, first, true, "").unwrap();
    }
    events
}

/// That the campaign was stopped with its last round undecided, for this reason.
#[track_caller]
fn was_let_go(campaign: &Campaign<'_>, why: &str) {
    assert_eq!(campaign.words(), ["accepted", "slower", "stopped"], "{:#?}", campaign.outcomes());
    assert_eq!(campaign.termination(), "stopped");
    assert_eq!(campaign.commits().len(), 1);
    let said = &campaign.outcomes()[2].message;
    assert!(said.contains("the round cannot be decided here") && said.contains(why), "{said}");
    let summary = campaign.read("rounds/round-4/summary.md");
    assert!(summary.contains("- Root cause: the campaign was stopped, and the round cannot be"), "{summary}");
    campaign.is_over();
}

#[test]
fn a_campaign_whose_compiler_is_another_one_now_is_paused_and_can_be_stopped() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    let events = measured(&stage, &campaign);
    // As if the candidate had been measured as another compiler makes it.
    let path = campaign.path("rounds/round-4/evidence.json");
    let before = fs::read(&path).unwrap();
    let mut evidence: Value = serde_json::from_slice(&before).unwrap();
    for side in ["incumbent", "candidate"] {
        evidence[side]["compiler"] = Value::from("cc of last year");
        evidence[side]["code"] = Value::from("00".repeat(32));
    }
    let after = serde_json::to_vec_pretty(&evidence).unwrap();
    fs::write(&path, &after).unwrap();
    let named = events.replace(&digest(&before), &digest(&after));
    assert_ne!(named, events);
    fs::write(campaign.path("events.jsonl"), named).unwrap();
    let ran = stage.kopt(&["resume"]).exits(96).says("is compiled by another compiler now");
    ran.says("then cc of last year").says("`cargo kopt stop` ends it without this round");
    assert_eq!(campaign.words(), ["accepted", "slower"], "nothing is decided");
    stage.kopt(&["stop"]).exits(0).says("the campaign ends without it").says("T4: stopped by the user");
    was_let_go(&campaign, "by another compiler");
    // What stands compiles here, and is held against the beginning.
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    assert!(report["total"].is_object() && report["unmeasured"].is_null(), "{report}");
}

#[test]
fn a_campaign_whose_compiler_is_gone_is_paused_and_can_be_stopped() {
    let stage = Stage::new();
    let campaign = finished(&stage);
    measured(&stage, &campaign);
    let without = |command: &str| Ran::of(stage.command(&[command]).env("CC", "/no/such/compiler"));
    without("resume").exits(97).says("cannot be compiled here");
    assert_eq!(campaign.words(), ["accepted", "slower"], "nothing is decided");
    without("stop").exits(0).says("the campaign ends without it").says("T4: stopped by the user");
    was_let_go(&campaign, "cannot be compiled here");
    // Nor can the end be held against the beginning, and what was measured the first time is not told for it.
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    assert!(report["unmeasured"].as_str().unwrap().contains("cannot be compiled here"), "{report}");
    assert!(report["total"].is_null(), "{report}");
    assert!(campaign.read("report.md").contains("the total was not measured**"));
    assert!(!campaign.path("evidence-total.json").exists());
}
