//! The training step in campaigns: a trainer whose figures are known beforehand, the user's own script, and crates that have
//! neither.

use serde_json::Value;

use crate::begin::one_gain;
use crate::sandbox::Sandbox;
use crate::stage::{Campaign, Queue, Stage, header};

/// A repository whose kernel has a slot in the fixture's trainer.
fn with_slot() -> Stage {
    let stage = Stage::new();
    let trainer = Sandbox::of("trainer");
    for path in trainer.files() {
        stage.sandbox.write(&format!("trainer/{path}"), &trainer.read(&path));
    }
    let manifest = stage.sandbox.read("Cargo.toml").replace("[workspace]", "[workspace]\nmembers = [\"trainer\"]");
    let table = "\n[package.metadata.kopt.transfer]\nslot = \"softmax\"\n";
    stage.sandbox.write("Cargo.toml", &format!("{manifest}{table}"));
    stage.commit("a slot");
    stage
}

/// One whose manifest names this script, which every run of it is logged by.
fn with_script(script: &str) -> Stage {
    let stage = Stage::new();
    let manifest = stage.sandbox.read("Cargo.toml");
    let table = "[package.metadata.kopt.transfer]\ncommand = \"sh train.sh\"\ntimeout_s = 10.0\n";
    stage.sandbox.write("Cargo.toml", &format!("{manifest}\n{table}"));
    let log = stage.aside("runs").display().to_string();
    stage.sandbox.write("train.sh", &format!("echo run >> '{log}'\n{script}"));
    stage.commit("a script");
    stage
}

/// A step takes 10 ms with what the campaign starts from, and half of it is the kernel.
const SCRIPT: &str = "says() { grep -aq \"$1\" \"$KOPT_OBJECT\"; }
ms=10; says TIME=0.9 && ms=9.5; says TIME=0.8 && ms=9
says CRASHES && exit 7
says HANGS && sleep 600
whole=3; says OTHER-LOSS && whole=4
for step in 1 2 3 4 5; do
    loss=$whole.$step; says NO-NUMBER && loss=nan
    echo METRIC step_ms=$ms; echo METRIC loss=$loss
done
";

/// What was trained in which round; the report's is round 0.
fn trained(campaign: &Campaign<'_>) -> Vec<(u64, Value)> {
    let all = campaign.all("trained").into_iter();
    all.map(|one| (one["round"].as_u64().unwrap_or(0), one["training"].clone())).collect()
}

fn rounds_trained(campaign: &Campaign<'_>) -> Vec<u64> {
    trained(campaign).into_iter().map(|(round, _)| round).collect()
}

#[track_caller]
fn line(text: &str, label: &str) -> String {
    let found = text.lines().find_map(|line| line.trim_start_matches("- ").strip_prefix(label)?.strip_prefix(": "));
    found.unwrap_or_else(|| panic!("no `{label}` in:\n{text}")).to_owned()
}

const LABEL: &str = "Measured training-step gain";

#[track_caller]
fn is_near(value: &Value, wanted: f64) {
    let found = value.as_f64().unwrap();
    assert!((found - wanted).abs() < 1e-6, "{found}, not {wanted}");
}

/// Patches that get faster and do not train: what they say of themselves, and what is said of them.
fn untrainable(stage: &Stage, kinds: &[(&str, &str)]) -> String {
    let mut queue = Queue::new(stage);
    for (mark, told) in kinds {
        queue.tries(&header(mark, told), "TIME=1.000;", &format!("TIME=0.900;{mark};"));
    }
    queue.gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900");
    queue.folder().to_owned()
}

#[track_caller]
fn are_rolled_back(campaign: &Campaign<'_>, kinds: &[(&str, &str)]) {
    let outcomes = campaign.outcomes();
    assert_eq!(outcomes.len(), kinds.len() + 1, "{outcomes:#?}");
    for (outcome, (mark, told)) in outcomes.iter().zip(kinds) {
        assert_eq!(outcome.what, "incorrect", "{mark}: {}", outcome.message);
        assert!(outcome.message.starts_with("in a training step: ") && outcome.message.contains(told), "{outcome:?}");
    }
    assert_eq!(outcomes.last().unwrap().what, "accepted");
    campaign.is_over();
}

#[test]
fn a_slot_is_trained_at_the_baseline_each_accept_and_the_end_and_what_does_not_train_is_rolled_back() {
    let stage = with_slot();
    let kinds = [
        ("CRASHES", "exited with 7 instead of answering"),
        ("NO-NUMBER", "no number with the candidate"),
        ("OTHER-LOSS", "do not agree: at step 1 the loss is 4.0000000 with the incumbent and 4.0400000"),
    ];
    let patches = untrainable(&stage, &kinds);
    let ran = stage.optimize(&["--patches", &patches, "--policy", "training"]).exits(0);
    ran.says("Training +");
    let campaign = stage.last();
    are_rolled_back(&campaign, &kinds);
    assert_eq!(rounds_trained(&campaign), [1, 2, 3, 4, 5, 0]);
    let (_, accept) = &trained(&campaign)[4];
    // Half of a step is the op, and that takes a tenth less: 1 / 0.95 - 1.
    is_near(&accept["gain"]["gain"], 1.0 / 0.95 - 1.0);
    is_near(&accept["predicted"]["share"], 0.5);
    is_near(&accept["predicted"]["gain"]["gain"], 1.0 / 0.95 - 1.0);
    assert!(accept["steps"].as_u64().unwrap() >= 50, "{accept}");
    let message = stage.repository().find_commit(campaign.commits()[0]).unwrap().message().unwrap().to_owned();
    let flat = message.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("Measured training-step gain: +5.3 % [+5.3, +5.3] at 95 % confidence, predicted +5.3 %"),
        "{flat}"
    );
    let summary = campaign.read("rounds/round-5/summary.md");
    assert!(line(&summary, LABEL).ends_with("rounding alone may make it 1.0e-6"), "{summary}");
    assert!(line(&summary, "Estimated real-training gain").starts_with("+5."), "{summary}");
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    is_near(&report["training"]["baseline"]["incumbent_s"], 1e-3);
    is_near(&report["training"]["total"]["gain"]["gain"], 1.0 / 0.95 - 1.0);
    let text = campaign.read("report.md");
    assert!(line(&text, "A step at the baseline").contains("of which the op takes 50 %"), "{text}");
    // The baseline against itself is trained for half as long.
    for (file, least) in [("round-1/training.json", 24), ("round-5/training.json", 50), ("training-total.json", 50)] {
        let stored: Value = serde_json::from_slice(&campaign.stored(file).unwrap()).unwrap();
        assert!(stored["losses"]["incumbent"].as_array().unwrap().len() >= least, "{file}");
    }
}

#[test]
fn other_policies_train_at_both_ends_only() {
    let stage = with_slot();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches]).exits(0);
    let campaign = stage.last();
    assert_eq!(rounds_trained(&campaign), [1, 0]);
    assert_eq!(line(&campaign.read("rounds/round-2/summary.md"), LABEL), "not run");
    let of_total = format!("{LABEL}, last accepted version against the baseline");
    assert!(line(&campaign.read("report.md"), &of_total).starts_with("+5.3 %"));
    stage.kopt(&["report", "--html"]).exits(0);
    assert!(campaign.read("report.html").contains("+5.3 %"), "the page says it, too");
}

#[test]
fn without_a_slot_nothing_is_trained_and_that_is_said() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches, "--policy", "training"]).exits(0);
    let campaign = stage.last();
    campaign.is_over();
    assert_eq!(campaign.words(), ["accepted"]);
    let message = stage.repository().find_commit(campaign.commits()[0]).unwrap().message().unwrap().to_owned();
    for text in [campaign.read("rounds/round-1/summary.md"), campaign.read("rounds/round-2/summary.md")] {
        assert_eq!(line(&text, LABEL), "not measured: the crate declares no slot");
    }
    let flat = message.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Measured training-step gain: not measured: the crate declares no slot Decision"), "{flat}");
    assert!(campaign.read("report.md").contains("not measured: the crate declares no slot"));
}

#[test]
fn a_script_is_run_instead_and_a_candidate_that_crashes_hangs_or_learns_something_else_is_rolled_back() {
    let stage = with_script(SCRIPT);
    let kinds = [
        ("CRASHES", "with the candidate: it exited with 7"),
        ("HANGS", "did not end in time (10 s)"),
        ("NO-NUMBER", "no number with the candidate"),
        ("OTHER-LOSS", "the losses of both versions do not agree: at step 1"),
    ];
    let patches = untrainable(&stage, &kinds);
    stage.optimize(&["--patches", &patches, "--policy", "training"]).exits(0);
    let campaign = stage.last();
    are_rolled_back(&campaign, &kinds);
    let (_, accept) = &trained(&campaign)[5];
    is_near(&accept["gain"]["gain"], 10.0 / 9.5 - 1.0);
    assert!(accept.get("predicted").is_none(), "a script does not tell the op's share: {accept}");
    assert!(line(&campaign.read("rounds/round-6/summary.md"), LABEL).contains("50 steps would say more"));
}

#[test]
fn what_was_trained_is_not_trained_again_by_who_resumes() {
    let stage = with_script(SCRIPT);
    let campaigns = stage.path(".kopt/campaigns").display().to_string();
    // While the end is trained with, the place of the report is taken: the campaign stops after it.
    let script = stage.sandbox.read("train.sh");
    let taken = format!(
        "for folder in '{campaigns}'/*; do test -e $folder/evidence-total.json && mkdir -p $folder/report.json/x; done\n"
    );
    stage.sandbox.write("train.sh", &format!("{script}{taken}true\n"));
    stage.commit("takes the place of the report");
    let patches = one_gain(&stage);
    let runs = || std::fs::read_to_string(stage.aside("runs")).unwrap().lines().count();
    stage.optimize(&["--patches", &patches]).exits(110).says("report.json");
    let campaign = stage.last();
    assert_eq!((rounds_trained(&campaign), campaign.all("reported").len()), (vec![1, 0], 0));
    let before = runs();
    std::fs::remove_dir_all(campaign.path("report.json")).unwrap();
    stage.kopt(&["resume"]).exits(0);
    assert_eq!((runs(), rounds_trained(&campaign)), (before, vec![1, 0]));
    campaign.is_over();
    assert!(campaign.read("report.md").contains("+5.3 %"));
}

#[test]
fn a_script_that_fails_with_the_baseline_is_told_at_once_and_ends_only_campaigns_that_need_it() {
    let stage = with_script("echo METRIC step_ms=1\nexit 3\n");
    let patches = one_gain(&stage);
    let ran = stage.optimize(&["--patches", &patches, "--policy", "training"]).exits(96);
    ran.says("does not get through with the incumbent").says("it exited with 3").says("cargo kopt train-step");
    assert_eq!(stage.last().all("baseline").len(), 0);
    stage.optimize(&["--patches", &patches, "--new"]).exits(0).says("no training step: the training script does not");
    let campaign = stage.last();
    assert_eq!((rounds_trained(&campaign), campaign.words()), (vec![1, 0], vec!["accepted".to_owned()]));
    let told = line(&campaign.read("rounds/round-2/summary.md"), LABEL);
    assert_eq!(told, "not measured: the training script does not get through with the incumbent");
    campaign.is_over();
}
