//! How campaigns begin: where they may, what they refuse, and what they leave alone.

use std::fs;

use git2::Repository;

use crate::stage::{Queue, SOURCE, Stage, header};

/// A queue of one patch that helps.
pub fn one_gain(stage: &Stage) -> String {
    let mut queue = Queue::new(stage);
    queue.gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900");
    queue.folder().to_owned()
}

#[test]
fn nobody_there_to_confirm_is_a_usage_error_and_nothing_is_made() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.kopt(&["optimize", "--patches", &patches]).exits(2).says("--yes takes it as it is shown");
    stage.kopt(&["optimize", "--patches", &patches, "--dry-run"]).exits(0).answers("core shapes");
    assert!(!stage.path(".kopt").exists());
    stage.optimize(&[]).exits(2).says("nobody proposes changes");
    stage.optimize(&["--agent", "no-such-agent"]).exits(96).says("there is no program `no-such-agent`");
    stage.optimize(&["--patches", "nowhere"]).exits(96).says("cannot read the patches");
    assert_eq!(stage.campaigns(), Vec::<String>::new());
    stage.kopt(&["resume"]).exits(96).says("there is no campaign").says("cargo kopt optimize");
    stage.kopt(&["status"]).exits(0).answers("No campaign");
    stage.kopt(&["status", "another"]).exits(96).says("there is no campaign `another`");
}

#[test]
fn a_target_file_is_taken_and_its_typos_are_found() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let file = stage.aside("target.toml");
    let target = |text: &str| {
        fs::write(&file, text).unwrap();
        stage.optimize(&["--patches", &patches, "--target", file.to_str().unwrap()])
    };
    target("max_round = 3\n").exits(96).says("unknown key `max_round`").says("did you mean `max_rounds`?");
    target("max_rounds = 300\n").exits(96).says("max_rounds");
    target("target_shapes = [\"tal\"]\n").exits(96).says("did you mean `tall`?");
    for own in ["campaign", "base", "target_device", "quick_command"] {
        target(&format!("{own} = \"mine\"\n")).exits(96).says(&format!("`{own}` cannot be chosen"));
    }
    target("max_rounds = \"three\"\n").exits(96);
    assert_eq!(stage.campaigns(), Vec::<String>::new());
    target("max_rounds = 3\nmin_gain = 0.2\n").exits(0);
    assert_eq!(stage.last().words(), ["slower"], "11 % is less than the 20 % that were asked for");
}

#[test]
fn whoever_could_never_have_a_turn_is_not_asked_for() {
    let stage = Stage::new();
    stage
        .optimize(&["--agent", "sh -c true", "--by-hand"])
        .exits(96)
        .says("would never have their turn")
        .says("cargo kopt try");
    assert_eq!(stage.campaigns(), Vec::<String>::new());
}

#[test]
fn a_base_that_the_sanitizers_refuse_begins_no_campaign() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    fs::write(stage.path(SOURCE), stage.source().replace(";\";\n", ";\";\n#define rows rows + 1\n")).unwrap();
    stage.commit("reads a row too many");
    let ran = stage.optimize(&["--patches", &patches]).exits(103).says("fails under the sanitizers");
    ran.says("heap-buffer-overflow").says("begin again with `--new`");
    assert!(stage.last().all("baseline").is_empty(), "nothing was proposed");
}

#[test]
fn patches_of_the_workspace_are_found_where_it_is_moved() {
    let stage = Stage::new();
    let ideas = stage.path("ideas");
    fs::rename(one_gain(&stage), &ideas).unwrap();
    stage.commit("ideas");
    stage.optimize(&["--patches", ideas.to_str().unwrap()]).exits(0).says("ACCEPTED");
    let campaign = stage.last();
    assert!(campaign.read("manifest.toml").contains("folder = \"ideas\"\n"), "{}", campaign.read("manifest.toml"));
    let here = stage.path("");
    assert!(!campaign.read("events.jsonl").contains(here.to_str().unwrap()));
    campaign.is_over();
}

#[test]
fn a_beginning_that_fails_leaves_nothing_behind() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let before = stage.checkout();
    // Where git keeps what it knows of worktrees nothing can be made.
    let registrations = stage.sandbox.path(".git/worktrees");
    fs::write(&registrations, "a file of somebody's").unwrap();
    stage.optimize(&["--patches", &patches]).exits(96).says("worktrees");
    let repository = stage.repository();
    let left = |pattern: &str| repository.references_glob(pattern).unwrap().count();
    assert_eq!((left("refs/heads/kopt/*"), left("refs/kopt/*")), (0, 0));
    // A branch that is named is one more thing that was made, unless it was there before.
    for stood in [0, 1] {
        stage.optimize(&["--patches", &patches, "--branch", "mine"]).exits(96).says("worktrees");
        assert_eq!((left("refs/heads/mine"), left("refs/kopt/*")), (stood, 0));
        let head = repository.head().unwrap().peel_to_commit().unwrap();
        repository.branch("mine", &head, true).unwrap();
    }
    let folders = |path: &str| {
        let entries = fs::read_dir(stage.path(path)).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    for path in [".kopt/campaigns", ".kopt/worktrees"] {
        assert_eq!(folders(path), Vec::<std::path::PathBuf>::new());
    }
    assert_eq!(stage.checkout(), before);
    assert_eq!(fs::read_to_string(&registrations).unwrap(), "a file of somebody's");
    fs::remove_file(&registrations).unwrap();
    stage.optimize(&["--patches", &patches]).exits(0).says("ACCEPTED");
    stage.last().is_over();
}

#[test]
fn outside_of_git_there_is_no_campaign() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    fs::rename(stage.sandbox.path(".git"), stage.aside("git")).unwrap();
    stage.optimize(&["--patches", &patches]).exits(96).says("git");
    assert!(stage.campaigns().is_empty());
}

#[test]
fn a_dirty_checkout_stays_as_it_is_and_the_campaign_begins_from_the_commit() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let dirty = stage.source().replace("* 2.0f", "* 5.0f");
    fs::write(stage.path(SOURCE), &dirty).unwrap();
    fs::write(stage.path("notes"), "mine").unwrap();
    let before = stage.checkout();
    stage
        .optimize(&["--patches", &patches, "--in-place"])
        .exits(96)
        .says("changes that are not committed")
        .says(SOURCE);
    assert!(stage.campaigns().is_empty());
    stage.optimize(&["--patches", &patches]).exits(0).says("1 file has changes that are not committed");
    assert_eq!(stage.checkout(), before);
    let campaign = stage.last();
    campaign.is_over();
    let repository = stage.repository();
    let tree = repository.find_commit(campaign.commits()[0]).unwrap().tree().unwrap();
    let blob = repository.find_blob(tree.get_path(SOURCE.as_ref()).unwrap().id()).unwrap();
    let text = String::from_utf8(blob.content().to_owned()).unwrap();
    assert!(text.contains("TIME=0.900") && text.contains("* 2.0f"), "{text}");
}

#[test]
fn in_place_the_checkout_follows_what_is_accepted() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    queue.gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900").tries(
        &header("Prefetch", "The second read misses."),
        "TIME=0.900",
        "TIME=0.990",
    );
    stage.optimize(&["--patches", queue.folder(), "--in-place"]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted", "slower"]);
    assert!(stage.source().contains("TIME=0.900"), "{}", stage.source());
    let head = stage.repository().head().unwrap().name().unwrap().to_owned();
    assert_eq!(head, format!("refs/heads/kopt/{}", campaign.name));
    campaign.is_over();
}

#[test]
fn without_commits_accepted_rounds_are_only_recorded() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let before = stage.checkout();
    stage.optimize(&["--patches", &patches, "--no-commit"]).exits(0).says("no commits");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted"]);
    assert_eq!(stage.checkout(), before);
    let repository = stage.repository();
    let branches: Vec<_> = repository.branches(None).unwrap().flatten().collect();
    assert_eq!(branches.len(), 1, "the user's own");
    let accepted = campaign.commits_of(&format!("refs/kopt/{}/accepted", campaign.name));
    assert_eq!(
        accepted.iter().map(git2::Oid::to_string).collect::<Vec<_>>(),
        [campaign.all("accepted")[0]["commit"].as_str().unwrap()]
    );
}

#[test]
fn a_branch_that_stands_elsewhere_is_not_taken() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let repository = stage.repository();
    let first = repository.head().unwrap().peel_to_commit().unwrap();
    repository.branch("mine", &first, false).unwrap();
    repository.branch("free", &first, false).unwrap();
    fs::write(stage.path("notes"), "more").unwrap();
    let second = stage.commit("second");
    stage.optimize(&["--patches", &patches, "--branch", "mine"]).exits(96).says("the branch `mine` exists");
    assert_eq!(repository.refname_to_id("refs/heads/mine").unwrap(), first.id());
    let own = repository.head().unwrap().shorthand().unwrap().to_owned();
    stage.optimize(&["--patches", &patches, "--branch", &own]).exits(96).says("is checked out");
    assert_eq!(repository.head().unwrap().target().unwrap().to_string(), second);
    assert!(stage.campaigns().is_empty());
    stage.optimize(&["--patches", &patches, "--branch", "fresh"]).exits(0);
    assert_eq!(stage.last().commits_of("refs/heads/fresh").len(), 1);
}

#[test]
fn a_detached_head_and_a_crate_in_a_folder_are_no_hindrance() {
    let stage = Stage::below("kernels/of mine");
    let patches = one_gain(&stage);
    let repository = stage.repository();
    repository.set_head_detached(repository.head().unwrap().target().unwrap()).unwrap();
    let before = stage.checkout();
    stage.optimize(&["--patches", &patches]).exits(0).says("no branch is checked out");
    assert_eq!(stage.checkout(), before);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted"]);
    campaign.is_over();
    stage.kopt(&["verify", &campaign.commits()[0].to_string()]).exits(0);
}

#[test]
fn a_repository_without_a_commit_is_named() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    fs::remove_dir_all(stage.sandbox.path(".git")).unwrap();
    Repository::init(stage.sandbox.path("")).unwrap();
    let ran = stage.optimize(&["--patches", &patches]).exits(96);
    assert!(ran.stderr.contains("commit"), "{}", ran.stderr);
}

#[test]
fn a_check_that_lets_zeros_pass_starts_no_campaign_until_it_is_put_right() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let script = stage.sandbox.read("judge");
    stage.sandbox.write("judge", &format!("{script}weak\n"));
    stage.commit("a weak check");
    let ran = stage.optimize(&["--patches", &patches]).exits(96).says("the check of `bout` is too weak for a campaign");
    ran.says("zeros of `y` in softmax/tall")
        .says("bounds of 0.050 of what they are")
        .says("cargo kopt certify -p bout");
    assert_eq!(stage.campaigns(), Vec::<String>::new());
    stage.sandbox.write("judge", &script);
    stage.commit("a strong check");
    stage.optimize(&["--patches", &patches]).exits(0);
    let certificate = stage.last().all("began")[0]["certificate"].as_str().unwrap().to_owned();
    assert_eq!(certificate.len(), 64, "{certificate}");
}

#[test]
fn what_was_certified_once_is_not_tried_again() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    stage.optimize(&["--patches", &patches]).exits(0);
    let kept: Vec<_> = fs::read_dir(stage.path("target/kopt/certificates")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    // The judge reads its script when it is asked, so that it would say something else now.
    let exported = stage.path("target/kopt/trusted/judge");
    fs::write(&exported, fs::read_to_string(&exported).unwrap_or_default() + "weak\n").unwrap();
    stage.optimize(&["--patches", &patches]).exits(0);
    let certificates: Vec<_> =
        stage.campaigns().iter().map(|name| stage.campaign(name).all("began")[0]["certificate"].clone()).collect();
    assert_eq!(certificates[0], certificates[1]);
}

#[test]
fn a_version_that_does_not_pass_the_audit_is_no_start_unless_the_policy_allows_it() {
    let stage = Stage::new();
    let source = stage.source();
    let counts = source.replacen("int softmax(", "__attribute__((used)) static int calls;\n\nint softmax(", 1);
    fs::write(stage.path("kernels/softmax.c"), counts).unwrap();
    stage.commit("counts");
    let mut queue = Queue::new(&stage);
    let folder = queue.gains(&header("Vectorise", "Eight lanes."), "TIME=1.000", "TIME=0.900").folder().to_owned();
    stage
        .optimize(&["--patches", &folder])
        .exits(106)
        .says("does not pass the state audit")
        .says("writable-data: calls")
        .says("allow = [\"writable-data\"]");
    // It would fail again each time that it is taken up; it can be ended all the same, and another begins.
    let campaign = stage.last();
    stage.kopt(&["resume", &campaign.name]).exits(106);
    stage.kopt(&["stop", &campaign.name]).exits(0);
    assert_eq!(stage.last().termination(), "stopped");
    fs::write(stage.path("kernels/softmax.c"), source).unwrap();
    stage.commit("does not count");
    stage.optimize(&["--patches", &folder]).exits(0).says("Baseline 12 trials passed");
}

#[test]
fn what_may_change_is_a_source_of_the_commit_that_a_campaign_starts_from() {
    let stage = Stage::new();
    fs::write(stage.path("kernels/tile.h"), "#define TILE 8\n").unwrap();
    let source =
        stage.source().replacen("#include \"softmax.h\"\n", "#include \"softmax.h\"\n#include \"tile.h\"\n", 1);
    fs::write(stage.path("kernels/softmax.c"), &source).unwrap();
    stage.commit("a header");
    let table = "[package.metadata.kopt]\n";
    let manifest = fs::read_to_string(stage.path("Cargo.toml")).unwrap();
    let sources = format!("{table}sources = [\"kernels/softmax.c\", \"kernels/tile.h\"]\n");
    fs::write(stage.path("Cargo.toml"), manifest.replacen(table, &sources, 1)).unwrap();
    let folder = one_gain(&stage);
    let ran = stage.optimize(&["--patches", &folder]).exits(96).says("`kernels/tile.h` may change, and is no source");
    ran.says("commit the manifest that names it");
    stage.commit("declared");
    stage.optimize(&["--patches", &folder]).exits(0).says("ACCEPTED");
}

#[test]
fn what_is_measured_is_a_shape_of_the_commit_that_a_campaign_starts_from() {
    let stage = Stage::new();
    let folder = one_gain(&stage);
    let manifest = fs::read_to_string(stage.path("Cargo.toml")).unwrap();
    let written = |from: &str, to: &str| {
        assert!(manifest.contains(from));
        fs::write(stage.path("Cargo.toml"), manifest.replacen(from, to, 1)).unwrap();
        stage.optimize(&["--patches", &folder])
    };
    let ran = written("{ rows = 1, cols = 64 },", "{ rows = 1, cols = 64 }, { rows = 2, cols = 64 },").exits(96);
    ran.says("`bout` has no such shape `2x64` in the commit").says("commit the manifest that lists it");
    written("rows = 512, cols = 8", "rows = 256, cols = 8").exits(96).says("`bout` has no such shape `tall`");
    assert_eq!(stage.campaigns(), Vec::<String>::new());
}
