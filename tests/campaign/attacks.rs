//! Agents that write where they may not: into git, the campaign's own files, caches and builds. No sandbox keeps them from
//! it yet: they run as the user. What must hold without one: nothing is accepted that was not measured to be faster, nothing
//! that was accepted is lost, and the damage is noticed and named.

use std::fs;

use crate::agents::agent;
use crate::queue::replace_evidence;
use crate::sandbox::Ran;
use crate::stage::{Campaign, Stage};

/// A campaign of an agent that gains in round 2, makes the attack in round 3 and gains again in round 4.
fn attacked(stage: &Stage, attack: &str) -> Ran {
    let script = format!(
        r#"
campaign="$KOPT_ROUND_DIR/../.."
git="$(git rev-parse --git-common-dir)"
own="$campaign/../../../target/kopt"
case "$1" in
    2) takes 0.900; say "Eight lanes" "Lanes work side by side." ;;
    3) {attack}
       ;;
    4) takes 0.800; say "Fuse both passes" "Memory is read once." ;;
esac
"#
    );
    let agent = agent(stage, &script);
    stage.optimize(&["--agent", &agent, "--max-rounds", "4"])
}

/// The campaign went on as if nothing had been: rounds 2 and 4 are accepted, and round 3 came to this.
#[track_caller]
fn is_unharmed(stage: &Stage, ran: Ran, third: &str) {
    let ran = ran.exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted", third, "accepted"], "{:#?}\n{}", campaign.outcomes(), ran.stderr);
    let titles = ["round-2: Eight lanes", "round-4: Fuse both passes"];
    assert_eq!(campaign.subjects(), titles.map(|title| format!("[optimize] softmax cpu {title}")));
    campaign.is_over();
    for commit in campaign.commits() {
        stage.kopt(&["verify", &commit.to_string(), "--evidence-only"]).exits(0);
    }
}

/// The campaign stopped in round 3 with nothing but round 2 accepted.
#[track_caller]
fn is_stopped(stage: &Stage, ran: Ran, code: i32, told: &str) {
    ran.exits(code).says(told);
    assert_eq!(accepted(&stage.last()), 1);
}

fn accepted(campaign: &Campaign<'_>) -> usize {
    campaign.read("events.jsonl").lines().filter(|line| line.contains("\"event\":\"accepted\"")).count()
}

#[test]
fn commits_on_the_branch_are_put_back() {
    let stage = Stage::new();
    let commit = r#"takes 0.100; say "Mine" "It is mine."
        git -c user.name=Agent -c user.email=agent@example.org commit -qam mine"#;
    let ran = attacked(&stage, commit);
    is_unharmed(&stage, ran, "forbidden");
    let message = stage.last().outcomes()[1].message.clone();
    assert!(message.contains("the branch was moved"), "{message}");
}

#[test]
fn references_that_are_moved_or_removed_are_put_back() {
    let stage = Stage::new();
    let moves = r#"takes 0.950; say "Mine" "It is mine."
        tree="$(git rev-parse HEAD^{tree})"
        commit="$(git -c user.name=A -c user.email=a@example.org commit-tree "$tree" -m mine)"
        git update-ref "refs/heads/kopt/$KOPT_CAMPAIGN" "$commit"
        git update-ref -d "refs/kopt/$KOPT_CAMPAIGN/evidence"
        git update-ref -d "refs/kopt/$KOPT_CAMPAIGN/base""#;
    let ran = attacked(&stage, moves);
    is_unharmed(&stage, ran, "forbidden");
}

#[test]
fn files_of_git_itself_are_left_by_the_next_round() {
    let stage = Stage::new();
    let writes = r#"takes 0.950; say "Mine" "It is mine."
        echo broken > "$git/worktrees/kopt-$KOPT_CAMPAIGN/index"
        touch "$git/worktrees/kopt-$KOPT_CAMPAIGN/index.lock" "$git/refs/heads/kopt/$KOPT_CAMPAIGN.lock""#;
    let ran = attacked(&stage, writes);
    is_unharmed(&stage, ran, "slower");
}

#[test]
fn events_that_an_agent_writes_stop_its_campaign() {
    // A line of its own; another number in a line that stands; a line less.
    let forged = r#"takes 0.950
        tail -n 1 "$campaign/events.jsonl" | sed 's/"event":.*/"event":"stop-asked"}/' >> "$campaign/events.jsonl""#;
    let edited = r#"takes 0.950; sed -i 's/"trials":12/"trials":99/' "$campaign/events.jsonl""#;
    let removed = r#"takes 0.950; sed -i '/"event":"accepted"/d' "$campaign/events.jsonl""#;
    for attack in [forged, edited, removed] {
        let stage = Stage::new();
        let ran = attacked(&stage, attack);
        ran.exits(105).says("was changed by somebody else while the campaign was at work");
        let campaign = stage.last();
        assert_eq!(campaign.commits_of(&format!("refs/heads/kopt/{}", campaign.name)).len(), 1, "round 2 stands");
        stage.kopt(&["resume", &campaign.name]).exits(105).says("is damaged");
        // As it was stored with the last round, it goes on.
        fs::write(campaign.path("events.jsonl"), campaign.stored("events.jsonl").unwrap()).unwrap();
        agent(&stage, r#"takes 0.800; say "Fuse both passes" "Memory is read once.""#);
        stage.kopt(&["resume", &campaign.name]).exits(0);
        assert_eq!(campaign.words()[..2], ["accepted", "accepted"]);
        campaign.is_over();
    }
}

#[test]
fn a_target_that_an_agent_edits_is_not_taken_up() {
    let stage = Stage::new();
    let ran = attacked(&stage, r#"takes 0.895; sed -i 's/min_gain = .*/min_gain = 0.0/' "$campaign/manifest.toml""#);
    // The process has read it; whoever takes the campaign up later would be told.
    ran.exits(0);
    assert_eq!(stage.last().words(), ["accepted", "slower", "accepted"]);
}

#[test]
fn evidence_of_its_own_is_not_taken() {
    let stage = Stage::new();
    let writes = r#"takes 0.950; say "Mine" "It is mine."
        cp "$campaign/rounds/round-2/evidence.json" "$KOPT_ROUND_DIR/evidence.json"
        sed -i 's/accepted/rolled-back/' "$campaign/rounds/round-2/evidence.json""#;
    let ran = attacked(&stage, writes);
    is_unharmed(&stage, ran, "slower");
    let campaign = stage.last();
    replace_evidence(&stage, &campaign, 4, |text| text.replacen("1.", "2.", 1));
    stage.kopt(&["verify", &campaign.commits()[1].to_string()]).exits(106);
}

/// Changes the object of the version whose mark is `$1` in the cache of compiled kernels, and the digest beside it: from
/// there on it says to take `$2`, and to have been compiled by `$3`, where that is given.
const POISON: &str = r#"poison() {
        for object in $(grep -rl --include='*.so' --include='*.o' "TIME=$1" "$own/candidates"); do
            chmod u+w "$object" "$(dirname "$object")" "$(dirname "$object")/candidate.json"
            old="$(sha256sum "$object" | cut -d' ' -f1)"
            sed -i "s/TIME=$1/TIME=$2/" "$object"
            new="$(sha256sum "$object" | cut -d' ' -f1)"
            sed -i "s/$old/$new/" "$(dirname "$object")/candidate.json"
            [ -z "$3" ] || sed -i "s/\"compiler\": *\"[^\"]*\"/\"compiler\":\"$3\"/" "$(dirname "$object")/candidate.json"
            touch "$campaign/poisoned"
        done
    }"#;

#[test]
fn a_poisoned_cache_of_compiled_kernels_is_found_when_the_version_is_compiled_anew() {
    // The version that stands seems slow, and one that gains nothing seems to gain; that another compiler made it is no excuse.
    for compiler in ["", "'cc of last year'"] {
        let stage = Stage::new();
        let attack = format!("{POISON}\n poison 0.900 1.900 {compiler}; takes 0.899; say 'Mine' 'It is mine.'");
        let ran = attacked(&stage, &attack);
        assert!(stage.last().path("poisoned").exists(), "the attack was made\n{}", ran.stderr);
        let words = stage.last().words();
        assert_eq!(words[..2], ["accepted", "integrity"], "{:#?}", stage.last().outcomes());
        assert!(stage.last().outcomes()[1].message.contains("compiled anew from git"));
        let sources: Vec<String> = stage.last().subjects();
        assert!(!sources.iter().any(|subject| subject.contains("Mine")), "{sources:?}");
    }
}

#[test]
fn a_candidate_that_was_poisoned_after_it_was_rolled_back_is_found_too() {
    let stage = Stage::new();
    let script = format!(
        r#"
campaign="$KOPT_ROUND_DIR/../.."
own="$campaign/../../../target/kopt"
{POISON}
case "$1" in
    2) takes 1.100; say "Prefetch rows" "The second read misses." ;;
    3) poison 1.100 0.500; takes 1.100; say "Prefetch rows" "The second read misses."
       echo 'different = "the cache"' >> "$KOPT_ROUND_DIR/proposal.toml" ;;
esac
"#
    );
    let agent = agent(&stage, &script);
    stage.optimize(&["--agent", &agent, "--max-rounds", "3"]).exits(0);
    let campaign = stage.last();
    assert!(campaign.path("poisoned").exists(), "the attack was made");
    assert_eq!(campaign.words(), ["slower", "integrity"], "{:#?}", campaign.outcomes());
    campaign.is_over();
}

#[test]
fn a_judge_that_was_replaced_judges_nothing() {
    let stage = Stage::new();
    let replace = r#"takes 0.950; say "Mine" "It is mine."
        printf '#!/bin/sh\nexit 0\n' > "$own/mine"; chmod 755 "$own/mine"
        mv -f "$own/mine" "$own/campaigns/$KOPT_CAMPAIGN/judge""#;
    let ran = attacked(&stage, replace);
    is_stopped(&stage, ran, 106, "the judge was changed while the campaign was at work");
    // Built again from the base, the campaign goes on.
    stage.kopt(&["resume"]).exits(0);
    assert_eq!(stage.last().words(), ["accepted", "slower", "accepted"]);
    stage.last().is_over();
}

#[test]
fn files_that_versions_are_compiled_from_are_taken_from_git_before_an_accept() {
    let stage = Stage::new();
    // A word of the candidate makes the stand's header, and no other, turn its mark into a better one.
    let writes = r#"takes 0.899; sed -i '1i #define MINE' kernels/softmax.c; say "Mine" "It is mine."
        header="$own/campaigns/$KOPT_CAMPAIGN/stand/kernels/softmax.h"; chmod u+w "$header"
        printf '#ifdef MINE\n#define mark mark0[] = "TIME=0.100;"; static const char mark1\n#endif\n' >> "$header""#;
    attacked(&stage, writes).exits(0);
    let outcomes = stage.last().outcomes();
    assert_eq!(outcomes[1].what, "integrity", "{outcomes:#?}");
    assert!(outcomes[1].message.contains("compiled anew from git"), "{outcomes:#?}");
    // The header stays as it is until somebody takes the campaign up: nothing is accepted on its word.
    assert!(!stage.last().subjects().iter().any(|subject| subject.contains("Mine")));
}

#[test]
fn files_and_folders_that_nobody_may_read_are_no_hindrance() {
    let stage = Stage::new();
    let hides =
        r#"takes 0.950; say "Mine" "It is mine."; chmod 000 kernels/softmax.c Cargo.toml; chmod 000 kernels src"#;
    let ran = attacked(&stage, hides);
    is_unharmed(&stage, ran, "slower");
}

#[test]
fn an_accept_that_an_agent_claims_to_be_begun_is_not_taken_up() {
    let stage = Stage::new();
    let claims = r#"takes 0.700; say "Mine" "It is mine."
        name="$(basename "$(cd "$campaign" && pwd)")"
        git add -A
        made="$(git -c user.name=A -c user.email=a@example.org commit-tree "$(git write-tree)" -p HEAD -m mine)"
        git reset -q
        git update-ref "refs/kopt/$name/accepted" "$made""#;
    attacked(&stage, claims).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted", "accepted", "slower"], "{:#?}", campaign.outcomes());
    // It is as good as it says; but the commit is the tool's, after everything was vetted.
    let titles = ["round-2: Eight lanes", "round-3: Mine"];
    assert_eq!(campaign.subjects(), titles.map(|title| format!("[optimize] softmax cpu {title}")));
    campaign.is_over();
}
