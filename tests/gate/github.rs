//! What GitHub Actions tells, and what it is told.

use serde_json::json;

use crate::history::somebody;
use crate::sandbox::Ran;
use crate::stage::{ALPHA, MARK, Stage};

/// The merge of a pull request into a base that has gone on, checked out as Actions does it.
fn merge(stage: &Stage) -> (String, String, String) {
    let request = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    stage.write("README.md", "words\n");
    let base = stage.commit("words, on main");
    let repository = stage.repository();
    let find = |id: &str| repository.find_commit(git2::Oid::from_str(id).unwrap()).unwrap();
    let mut index = repository.merge_commits(&find(&base), &find(&request), None).unwrap();
    let tree = repository.find_tree(index.write_tree_to(&repository).unwrap()).unwrap();
    let who = somebody();
    let merged = repository.commit(None, &who, &who, "Merge", &tree, &[&find(&base), &find(&request)]).unwrap();
    repository.set_head_detached(merged).unwrap();
    repository.checkout_head(Some(git2::build::CheckoutBuilder::new().force())).unwrap();
    (base, request, merged.to_string())
}

#[test]
fn the_event_says_what_the_base_is() {
    let stage = Stage::new();
    let first = stage.repository().head().unwrap().peel_to_commit().unwrap().id().to_string();
    let (base, request, merged) = merge(&stage);
    // Nothing but the event can tell: there is no branch to compare with.
    stage.repository().find_branch("main", git2::BranchType::Local).unwrap().rename("trunk", false).unwrap();
    let gate = |name: &str, event: serde_json::Value, more: &[(&str, &str)]| {
        stage.write("target/event.json", &event.to_string());
        let mut command = stage.command(&["gate", "--message-format", "json", "--seed", "5eed"]);
        command.env("GITHUB_EVENT_NAME", name).env("GITHUB_EVENT_PATH", stage.path("target/event.json"));
        let ran = Ran::of(command.envs(more.iter().copied()));
        let scope = ran.messages().into_iter().find(|message| message["reason"] == "gate-scope").expect(&ran.stderr);
        (scope["base"].as_str().unwrap().to_owned(), scope["head"].as_str().unwrap().to_owned(), ran.code)
    };
    let pull = json!({ "pull_request": { "base": { "sha": first }, "head": { "sha": request } } });
    assert_eq!(gate("pull_request", pull, &[]), (base.clone(), merged.clone(), 100), "the merge's own parent");
    let stale = json!({ "pull_request": { "base": { "sha": base }, "head": { "sha": "0123" } } });
    assert_eq!(gate("pull_request", stale, &[]).0, base);
    assert_eq!(gate("merge_group", json!({ "merge_group": { "base_sha": first } }), &[]).0, first);
    assert_eq!(gate("push", json!({ "before": base }), &[]).0, base);
    assert_eq!(gate("pull_request", json!({}), &[("GITHUB_BASE_REF", "trunk")]).0, base);
    // A branch that was not there before: the parent is all there is.
    assert_eq!(gate("push", json!({ "before": "0".repeat(40) }), &[]).0, base);
}

#[test]
fn a_base_that_is_checked_out_is_not_taken_for_the_pull_request() {
    let stage = Stage::new();
    let request = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    let repository = stage.repository();
    let base = repository.head().unwrap().target().unwrap().to_string();
    let gate_with = |name: &str, request: &str, arguments: &[&str]| {
        let event = json!({ "pull_request": { "base": { "sha": base }, "head": { "sha": request } } });
        stage.write("target/event.json", &event.to_string());
        let mut command = stage.command(&[&["gate", "--seed", "5eed"], arguments].concat());
        command.env("GITHUB_EVENT_NAME", name).env("GITHUB_EVENT_PATH", stage.path("target/event.json"));
        Ran::of(&mut command)
    };
    let gate = |name: &str, request: &str| gate_with(name, request, &[]);
    let (target, fork) = ("pull_request_target", "1".repeat(40));
    for (name, request) in [(target, &request), (target, &fork), ("pull_request", &request)] {
        let ran = gate(name, request).exits(96).says("what is checked out is the base, not the pull request");
        ran.says("github.event.pull_request.head.sha");
    }
    gate(target, &base).exits(0).says("base and head are the same commit");
    // A base that is named does not make it the pull request; a head that is named is what is wanted.
    gate_with(target, &request, &["main"]).exits(96).says("what is checked out is the base, not the pull request");
    gate_with(target, &request, &["main", "--head", "HEAD"]).exits(0).says("base and head are the same commit");
    gate_with(target, &request, &["main", "--head", &request]).exits(100).says("alpha REGRESSED");
    // The base has gone on, and what came since is not what was asked for.
    stage.write("README.md", "words\n");
    stage.commit("words, on main");
    gate(target, &request).exits(96).says("what is checked out is the base");
    repository.set_head_detached(git2::Oid::from_str(&request).unwrap()).unwrap();
    repository.checkout_head(Some(git2::build::CheckoutBuilder::new().force())).unwrap();
    gate(target, &request).exits(100).says("alpha REGRESSED");
}

#[test]
fn a_clone_without_a_default_branch_wants_a_base() {
    let stage = Stage::new();
    stage.edit(ALPHA, MARK, "TIME=1.300;");
    stage.commit("slower");
    stage.write("README.md", "words\n");
    stage.commit("words");
    let repository = stage.repository();
    repository.find_branch("main", git2::BranchType::Local).unwrap().rename("mine", false).unwrap();
    let gate = |event: &str| {
        stage.write("target/event.json", event);
        let mut command = stage.command(&["gate", "--seed", "5eed"]);
        Ran::of(command.env("GITHUB_EVENT_PATH", stage.path("target/event.json")))
    };
    gate("{}").exits(0).says("no default branch is known here: compared with the parent commit");
    // As a clone of one branch has it: what came before the last commit would pass unseen.
    repository.remote("origin", "/nowhere").unwrap();
    gate("{}").exits(96).says("does not know a default branch").says("cargo kopt gate BRANCH");
    let first = repository.revparse_single("HEAD~2").unwrap().id();
    repository.reference("refs/remotes/origin/trunk", first, false, "fetched").unwrap();
    gate("{}").exits(96);
    gate(r#"{"repository": {"default_branch": "trunk"}}"#).exits(100).says("alpha REGRESSED");
    Ran::of(&mut stage.command(&["gate", "--seed", "5eed", "origin/trunk"])).exits(100).says("alpha REGRESSED");
}

#[test]
fn workflows_know_where_in_the_repository_the_workspace_is() {
    let stage = Stage::new();
    let inner = crate::sandbox::Sandbox::of("bout");
    for path in inner.files() {
        stage.write(&format!("more/my kernels/{path}"), &inner.read(&path));
    }
    let mut command = stage.command(&["gate", "--init", "github"]);
    Ran::of(command.current_dir(stage.path("more/my kernels"))).exits(0);
    let text = stage.sandbox.read(".github/workflows/kopt-gate.yml");
    assert!(
        text.contains("run: cargo kopt gate --manifest-path 'more/my kernels/Cargo.toml' --inconclusive warn "),
        "{text}"
    );
    for folder in ["judge", "judge.ended", "trusted", "evidence"] {
        assert!(text.contains(&format!("            more/my kernels/target/kopt/{folder}\n")), "{folder}: {text}");
    }
    assert!(!text.contains(" target/kopt"), "{text}");
}

#[test]
fn workflows_are_written_once_and_replaced_only_by_force() {
    let stage = Stage::new();
    let init = |arguments: &[&str]| {
        let mut command = stage.command(&[&["gate", "--init", "github"], arguments].concat());
        Ran::of(command.current_dir(stage.path("crates/alpha")))
    };
    init(&[]).exits(0).says("kopt-gate.yml").says("kopt-gate-comment.yml");
    init(&[]).exits(0);
    let gate = ".github/workflows/kopt-gate.yml";
    let text = stage.sandbox.read(gate);
    for needed in [
        "fetch-depth: 0",
        "contents: read",
        "cancel-in-progress: true",
        "cargo kopt gate ",
        "actions/cache/restore@",
        "upload-artifact@",
    ] {
        assert!(text.contains(needed), "{needed}");
    }
    let (before, saved) = text.split_once("actions/cache/save@").unwrap();
    assert!(!before.contains("actions/cache@") && saved.contains("if: github.event_name == 'push'"), "{text}");
    assert!(!text.contains(": write"), "the workflow that runs foreign code may write nothing: {text}");
    let comment = stage.sandbox.read(".github/workflows/kopt-gate-comment.yml");
    for needed in ["workflow_run:", "pull-requests: write", "actions: read", "workflows: [kopt gate]"] {
        assert!(comment.contains(needed), "{needed}");
    }
    assert!(!comment.contains("checkout"), "and the one that may write runs none of it");
    assert!(comment.contains(cargo_kopt::records::gate::markdown::MARK), "by which it finds its own comment");
    // Expressions of the event in a script would be code of whoever named a branch.
    for text in [&text, &comment] {
        let scripts = text.split("run: ").skip(1).map(|rest| rest.split("\n      - ").next().unwrap());
        scripts.for_each(|script| assert!(!script.contains("${{"), "{script}"));
    }
    stage.write(gate, "mine\n");
    init(&[]).exits(96).says("is there already").says("--force");
    assert_eq!(stage.sandbox.read(gate), "mine\n");
    init(&["--force"]).exits(0);
    assert_eq!(stage.sandbox.read(gate), text);
}
