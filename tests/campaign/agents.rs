//! Agents: a script that edits files, does well, does badly, hangs, crashes, and tells what it costs.

use std::fs;

use crate::stage::Stage;

/// An agent that runs `script` in the crate's folder, with the round in `$1` and the attempt in `$2`.
pub fn agent(stage: &Stage, script: &str) -> String {
    let path = stage.aside("agent.sh");
    let head = r#"
say() { printf 'title = "%s"\nhypothesis = "%s"\n' "$1" "$2" > "$KOPT_ROUND_DIR/proposal.toml"; }
takes() { sed -i "s/TIME=[^\"]*/TIME=$1;/" kernels/softmax.c; }
"#;
    fs::write(&path, format!("{head}\n{script}\n")).unwrap();
    format!("sh {} {{round}} {{attempt}}", path.display())
}

#[test]
fn an_agent_whose_script_lies_in_the_workspace_is_asked_by_its_whole_path() {
    let stage = Stage::new();
    let elsewhere = agent(&stage, "takes 0.800; say \"Eight lanes\" \"Lanes work side by side.\"");
    let here = stage.path("agent.sh");
    fs::copy(stage.aside("agent.sh"), &here).unwrap();
    let command = elsewhere.replace(stage.aside("agent.sh").to_str().unwrap(), here.to_str().unwrap());
    assert_ne!(command, elsewhere);
    stage.optimize(&["--agent", &command, "--max-rounds", "2"]).exits(0);
    assert_eq!(stage.last().all("accepted").len(), 1);
}

#[test]
fn ten_rounds_of_an_agent_that_does_everything_an_agent_can_do() {
    let stage = Stage::new();
    let before = stage.checkout();
    let script = r#"
case "$1.$2" in
    2.*) takes 0.900; say "Eight lanes" "Lanes work side by side." ;;
    3.*) takes 0.990; say "Prefetch rows" "The second read misses."; echo '{"total_cost_usd": 0.25}' ;;
    4.1) takes "0.800;WRONG"; say "Skip a column" "Columns are many." ;;
    4.2) cat > "$KOPT_ROUND_DIR/artifacts/prompt"; grep -q 'y\[3\] is 2' "$KOPT_ROUND_DIR/artifacts/prompt" || exit 9
         takes 0.800; say "Skip no column" "It was one too many." ;;
    5.*) sed -i "s/return .*;/return zero$2;/" kernels/softmax.c; say "Return early" "Late returns cost." ;;
    6.*) echo '# mine' >> Cargo.toml; takes 0.100; say "Other flags" "Compilers know better." ;;
    7.1) takes 0.100; sleep 600 ;;
    7.2) takes 0.100; echo "no idea" >&2; exit 3 ;;
    7.3) kill -9 $$ ;;
    7.4) takes 0.100; say "Prefetch rows" "The second read misses." ;;
    8.*) echo '{"total_cost_usd": 0.5, "usage": {"input_tokens": 1000, "output_tokens": 20}}' ;;
    9.*) takes 0.700; printf 'title = 3\n' > "$KOPT_ROUND_DIR/proposal.toml" ;;
    10.*) takes 0.700; echo '{"type": "result", "result": "Fuse both passes", "total_cost_usd": 1.0}' ;;
esac
"#;
    let agent = agent(&stage, script);
    let ran = stage.optimize(&["--agent", &agent, "--max-rounds", "10", "--round-time", "10s"]).exits(0);
    assert_eq!(stage.checkout(), before);
    let campaign = stage.last();
    let words =
        ["accepted", "slower", "accepted", "build", "forbidden", "similar", "no-change", "proposer", "accepted"];
    assert_eq!(campaign.words(), words, "{:#?}\n{}", campaign.outcomes(), ran.stderr);
    campaign.is_over();
    assert_eq!(campaign.termination(), "max-rounds");
    let titles = ["round-2: Eight lanes", "round-4: Skip no column", "round-10: Fuse both passes"];
    assert_eq!(campaign.subjects(), titles.map(|title| format!("[optimize] softmax cpu {title}")));
    assert_eq!(campaign.refusals(4), ["incorrect"], "the error was given back, and the same round went on");
    assert_eq!(campaign.refusals(5), ["build"; 4], "the first attempt and three more");
    assert_eq!(campaign.refusals(6), ["forbidden"; 4]);
    assert_eq!(campaign.refusals(7), ["proposer", "proposer", "proposer", "similar"]);
    let refused = campaign.all("refused");
    let message = |round: u64, attempt: u64| {
        let one = refused.iter().find(|one| one["round"] == round && one["attempt"] == attempt).unwrap();
        one["message"].as_str().unwrap().to_owned()
    };
    assert!(message(5, 1).contains("zero1"), "the compiler's words: {}", message(5, 1));
    assert!(message(6, 1).contains("Cargo.toml"), "{}", message(6, 1));
    assert!(message(7, 1).contains("no answer within 10 s"), "{}", message(7, 1));
    assert!(message(7, 2).contains("exited with 3\nno idea"), "{}", message(7, 2));
    assert!(message(7, 3).contains("died of signal 9"), "{}", message(7, 3));
    assert!(message(7, 4).contains("too like round 3"), "{}", message(7, 4));
    assert!(message(9, 1).contains("`title` is a number"), "{}", message(9, 1));
    let report: serde_json::Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    // Round 3 once, round 8 in each of its four attempts, round 10 once.
    assert_eq!(report["cost"]["dollars"], 0.25 + 4.0 * 0.5 + 1.0);
    assert_eq!(report["cost"]["input_tokens"], 4000);
    stage.kopt(&["status"]).exits(0).answers("3.25 USD");
}

#[test]
fn money_that_is_used_up_ends_a_campaign_after_its_round() {
    let stage = Stage::new();
    let script = r#"takes "0.9$1"; say "Step $1" "Number $1 of many."; echo '{"total_cost_usd": 0.6}'"#;
    let agent = agent(&stage, script);
    stage.optimize(&["--agent", &agent, "--max-cost", "1"]).exits(0).says("T3: the money is used up");
    let campaign = stage.last();
    assert_eq!(campaign.termination(), "max-cost");
    assert_eq!(campaign.outcomes().len(), 2, "{:?}", campaign.outcomes());
    campaign.is_over();
}

#[test]
fn a_goal_that_is_reached_ends_a_campaign() {
    let stage = Stage::new();
    let agent = agent(&stage, r#"takes "0.$((9 - $1))00"; say "Step $1" "Number $1 of many.""#);
    stage.optimize(&["--agent", &agent, "--goal", "+50%"]).exits(0).says("T1: the target is reached");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted", "accepted"], "1.0 to 0.7 to 0.6");
    campaign.is_over();
}

#[test]
fn money_that_is_used_up_ends_a_round_after_its_attempt() {
    let stage = Stage::new();
    let script = r#"sed -i "s/return .*;/return zero$2;/" kernels/softmax.c; say "Return early" "Late returns cost."
        echo '{"total_cost_usd": 0.6}'"#;
    let agent = agent(&stage, script);
    stage.optimize(&["--agent", &agent, "--max-cost", "1"]).exits(0).says("T3: the money is used up");
    let campaign = stage.last();
    assert_eq!(campaign.refusals(2), ["build"; 2], "a third attempt would have gone on spending");
    assert_eq!(campaign.words(), ["build"]);
    assert!(campaign.outcomes()[0].message.contains("no money is left"), "{:?}", campaign.outcomes());
    campaign.is_over();
}

#[test]
fn a_limit_of_money_that_does_not_hold_is_told_once() {
    let stage = Stage::new();
    let agent = agent(&stage, r#"takes "0.$((9 - $1))00"; say "Step $1" "Number $1 of many.""#);
    let ran = stage.optimize(&["--agent", &agent, "--max-cost", "1", "--max-rounds", "3"]).exits(0);
    assert_eq!(ran.stderr.matches("does not say what it costs").count(), 1, "{}", ran.stderr);
    assert_eq!(stage.last().words(), ["accepted"; 2]);
}

#[test]
fn what_is_told_of_the_device_outlasts_a_round_that_was_not_timed() {
    let stage = Stage::new();
    let script = r#"
case "$1" in
    2) sed -i 's/#include "softmax.h"/&\nstatic int calls;/; s/\* 2.0f/* 2.0f + 0.0f * (float)calls++/' kernels/softmax.c
       takes 0.900; say "Count the calls" "Calls are counted." ;;
    *) takes 0.900; say "Eight lanes" "Lanes work side by side." ;;
esac
"#;
    let agent = agent(&stage, script);
    stage.optimize(&["--agent", &agent, "--max-rounds", "3"]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["overfit", "accepted"], "{:#?}", campaign.outcomes());
    for round in 2..=3 {
        let prompt = campaign.read(&format!("rounds/round-{round}/prompt.md"));
        assert!(prompt.contains("Ceilings of the device, measured"), "round {round}: {prompt}");
        assert!(prompt.contains("% of the ceiling"), "round {round}: {prompt}");
    }
    campaign.is_over();
}
