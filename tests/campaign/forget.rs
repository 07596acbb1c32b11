//! Campaigns that are over, removed.

use std::fs;

use crate::begin::one_gain;
use crate::stage::Stage;

/// References of the repository under a name.
fn references(stage: &Stage, under: &str) -> Vec<String> {
    let repository = stage.repository();
    let found = repository.references_glob(&format!("{under}*")).unwrap();
    let mut names: Vec<String> = found.map(|reference| reference.unwrap().name().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_campaign_that_is_over_is_removed_whole_and_its_branch_stays_unless_it_is_named() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches]).exits(0);
    let (name, checkout) = (stage.last().name, stage.checkout());
    let commits = stage.last().commits();
    assert_eq!(commits.len(), 1);
    let (own, branch) = (format!("refs/kopt/{name}/"), format!("refs/heads/kopt/{name}"));
    let before = references(&stage, &own);
    assert!(before.contains(&format!("{own}evidence")), "{before:?}");

    // Nobody is there to say yes, and nothing is gone.
    let asked = stage.kopt(&["forget", &name]).exits(2).says("nobody is there to confirm that");
    asked.says("1 commit nowhere else").says("--branch removes it, too");
    assert_eq!(references(&stage, &own), before);
    assert!(stage.last().path("events.jsonl").exists());

    stage.kopt(&["forget", &name, "--yes"]).exits(0).says("Forgotten").says(&name);
    assert_eq!(references(&stage, &own), Vec::<String>::new());
    assert_eq!(references(&stage, &branch), [branch.as_str()]);
    assert_eq!(stage.campaigns(), Vec::<String>::new());
    assert!(!stage.path(&format!("target/kopt/campaigns/{name}")).exists());
    assert_eq!(stage.checkout(), checkout);
    stage.kopt(&["verify", &commits[0].to_string(), "--evidence-only"]).exits(96);
    stage.kopt(&["forget", &name, "--yes"]).exits(96).says("there is no campaign");
}

#[test]
fn what_is_meant_by_a_beginning_is_not_guessed_and_a_branch_in_use_keeps_everything() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    for _ in 0..2 {
        stage.optimize(&["--patches", &patches, "--new"]).exits(0);
    }
    let names = stage.campaigns();
    stage.kopt(&["forget", "softmax", "--yes"]).exits(2).says("more than one").says(&names[0]).says(&names[1]);
    assert_eq!(stage.campaigns(), names);

    let (own, branch) = (format!("refs/kopt/{}/", names[0]), format!("kopt/{}", names[0]));
    let repository = stage.repository();
    let reference = repository.find_reference(&format!("refs/heads/{branch}")).unwrap();
    let mut options = git2::WorktreeAddOptions::new();
    options.reference(Some(&reference));
    let elsewhere = stage.aside("elsewhere");
    repository.worktree("elsewhere", &elsewhere, Some(&options)).unwrap();
    let held = references(&stage, &own);
    stage.kopt(&["forget", &names[0], "--branch", "--yes"]).exits(96).says("cannot delete the branch").says(&branch);
    assert_eq!(references(&stage, &own), held);
    assert_eq!(stage.campaigns(), names);

    fs::remove_dir_all(&elsewhere).unwrap();
    repository.find_worktree("elsewhere").unwrap().prune(None).unwrap();
    // Somebody has gone on with it.
    let full = format!("refs/heads/{branch}");
    let left = repository.refname_to_id(&full).unwrap();
    let tip = repository.find_commit(left).unwrap();
    let who = git2::Signature::now("A", "a@example.org").unwrap();
    repository.commit(Some(&full), &who, &who, "more", &tip.tree().unwrap(), &[&tip]).unwrap();
    stage.kopt(&["forget", &names[0], "--branch", "--yes"]).exits(96).says("is not where the campaign left it");
    assert_eq!(references(&stage, &own), held);
    repository.reference(&full, left, true, "back").unwrap();
    stage.kopt(&["forget", &names[0], "--branch", "--yes"]).exits(0);
    assert_eq!(references(&stage, &own), Vec::<String>::new());
    assert_eq!(references(&stage, &format!("refs/heads/{branch}")), Vec::<String>::new());
    assert_eq!(stage.campaigns(), names[1..]);
    assert!(!stage.path(".kopt/forgotten").exists());
    stage.campaign(&names[1]).is_over();
}

#[test]
fn a_campaign_that_is_not_over_is_not_removed() {
    let stage = Stage::new();
    stage.optimize(&["--by-hand"]).exits(0);
    let name = stage.last().name;
    stage.kopt(&["forget", &name, "--yes"]).exits(105).says("is not over").says(&format!("cargo kopt stop {name}"));
    assert_eq!(stage.campaigns(), [name.as_str()]);
    stage.kopt(&["stop"]).exits(0);
    stage.kopt(&["forget", &name, "--yes"]).exits(0);
    assert_eq!(stage.campaigns(), Vec::<String>::new());
}

#[test]
fn a_campaign_that_was_killed_before_its_first_event_is_told_and_removed() {
    let stage = Stage::new();
    let checkout = stage.checkout();
    stage.optimize(&["--by-hand"]).exits(0);
    let campaign = stage.last();
    let name = campaign.name.clone();
    // As its process left it that was killed while it wrote the first event.
    let began = campaign.read("events.jsonl");
    for folder in ["rounds", "logs"] {
        fs::remove_dir_all(campaign.path(folder)).unwrap();
    }
    fs::write(campaign.path("events.jsonl"), &began[..20]).unwrap();
    let own = format!("refs/kopt/{name}/");
    stage.repository().find_reference(&format!("{own}evidence")).unwrap().delete().unwrap();
    let marks = [format!("{own}base"), format!("{own}branch")];
    assert_eq!(references(&stage, &own), marks);

    stage.kopt(&["status"]).exits(0).answers(&format!("never began: `cargo kopt forget {name}` removes it"));
    stage.kopt(&["resume"]).exits(96).says("there is no campaign");
    stage.kopt(&["forget", &name]).exits(2).says("never began").says("nobody is there to confirm that");
    assert_eq!(references(&stage, &own), marks);
    stage.kopt(&["forget", &name, "--yes"]).exits(0).says("Forgotten");
    assert_eq!(references(&stage, &own), Vec::<String>::new());
    assert_eq!(references(&stage, "refs/heads/kopt/"), Vec::<String>::new());
    assert!(!stage.path(&format!(".kopt/campaigns/{name}")).exists());
    assert!(!stage.path(&format!(".kopt/worktrees/{name}")).exists());
    assert!(!stage.repository().path().join("worktrees").join(format!("kopt-{name}")).exists());
    assert_eq!(stage.checkout(), checkout);
    stage.kopt(&["status"]).exits(0).answers("No campaign");
}

#[test]
fn events_that_are_gone_are_in_git_and_where_they_are_not_the_campaign_can_be_removed() {
    let stage = Stage::new();
    let checkout = stage.checkout();
    stage.optimize(&["--by-hand"]).exits(0);
    let campaign = stage.last();
    let name = campaign.name.clone();
    fs::write(campaign.path("events.jsonl"), "").unwrap();
    for command in ["resume", "stop"] {
        stage.kopt(&[command, &name]).exits(105).says("some were changed or removed").says("git show refs/kopt/");
    }
    stage.kopt(&["forget", &name, "--yes"]).exits(105).says("is not over");

    let own = format!("refs/kopt/{name}/");
    stage.repository().find_reference(&format!("{own}evidence")).unwrap().delete().unwrap();
    let ran = stage.kopt(&["resume", &name]).exits(105).says("holds no event");
    ran.says(&format!("`cargo kopt forget {name}` removes it"));
    stage.kopt(&["forget", &name]).exits(2).says("has lost its events");
    stage.kopt(&["forget", &name, "--yes"]).exits(0).says("Forgotten");
    assert_eq!(references(&stage, &own), Vec::<String>::new());
    assert_eq!(references(&stage, "refs/heads/kopt/"), Vec::<String>::new());
    assert!(!stage.path(&format!(".kopt/campaigns/{name}")).exists());
    assert!(!stage.path(&format!(".kopt/worktrees/{name}")).exists());
    assert_eq!(stage.checkout(), checkout);
}

#[test]
fn accepted_commits_that_no_branch_has_are_not_lost_unasked() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches, "--no-commit"]).exits(0);
    let name = stage.last().name;
    let own = format!("refs/kopt/{name}/");
    let before = references(&stage, &own);
    stage
        .kopt(&["forget", &name, "--yes"])
        .exits(96)
        .says("1 accepted commit")
        .says("would be lost")
        .says("git branch NAME");
    assert_eq!(references(&stage, &own), before);
    let repository = stage.repository();
    let accepted = repository.refname_to_id(&format!("{own}accepted")).unwrap();
    repository.reference("refs/heads/kept", accepted, false, "kept").unwrap();
    stage.kopt(&["forget", &name, "--yes"]).exits(0).says("Forgotten");
    assert_eq!(references(&stage, &own), Vec::<String>::new());
    assert_eq!(repository.refname_to_id("refs/heads/kept").unwrap(), accepted);
}

#[test]
fn a_branch_of_before_the_campaign_is_not_removed_with_it() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let repository = stage.repository();
    let head = repository.head().unwrap();
    let (user, first) = (head.name().unwrap().to_owned(), head.peel_to_commit().unwrap());
    // The work of before stands on a branch of the user's that the campaign goes on with.
    let who = git2::Signature::now("A", "a@example.org").unwrap();
    let mine = repository.commit(None, &who, &who, "mine", &first.tree().unwrap(), &[&first]).unwrap();
    repository.reference("refs/heads/feature", mine, false, "mine").unwrap();
    repository.set_head("refs/heads/feature").unwrap();
    stage.optimize(&["--patches", &patches, "--in-place", "--branch", "feature"]).exits(0);
    let name = stage.last().name;
    repository.set_head(&user).unwrap();
    repository.checkout_head(Some(git2::build::CheckoutBuilder::new().force())).unwrap();
    stage
        .kopt(&["forget", &name, "--branch", "--yes"])
        .exits(96)
        .says("of before the campaign")
        .says("git branch -D feature");
    assert!(repository.find_reference("refs/heads/feature").is_ok());
    stage.kopt(&["forget", &name, "--yes"]).exits(0);
    assert!(repository.find_reference("refs/heads/feature").is_ok());
}

#[test]
fn the_beginning_of_a_name_is_not_enough_where_nobody_is_asked() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches]).exits(0);
    let name = stage.last().name;
    stage
        .kopt(&["forget", "softmax", "--yes"])
        .exits(2)
        .says("nothing is guessed")
        .says(&format!("forget {name} --yes"));
    assert_eq!(stage.campaigns(), [name]);
}
