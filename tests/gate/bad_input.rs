//! What cannot be gated, and what is said of it.

use std::process::Command;

use crate::history::somebody;
use crate::sandbox::{Ran, Sandbox};
use crate::stage::{ALPHA, MARK, Stage};

#[test]
fn no_repository_and_no_such_revision_are_named() {
    let bare = Sandbox::of("bout");
    bare.kopt(&["gate"]).exits(96).says("is not in a git repository").says("git init");
    let stage = Stage::new();
    let ran = Ran::of(&mut stage.command(&["gate", "--base", "mian"])).exits(96);
    ran.says("there is no revision `mian`").says("did you mean `main`?");
    // The same without the flag, and not both.
    Ran::of(&mut stage.command(&["gate", "mian"])).exits(96).says("there is no revision `mian`");
    Ran::of(&mut stage.command(&["gate", "main", "--base", "main"])).exits(2).says("cannot be used with");
    Ran::of(&mut stage.command(&["gate", "--head", "nowhere"])).exits(96).says("there is no revision `nowhere`");
    Ran::of(&mut stage.command(&["gate", "--markdown", "crates"])).exits(110).says("it is a folder");
}

#[test]
fn without_a_base_the_fork_from_the_default_branch_is_taken_or_the_parent() {
    let stage = Stage::new();
    Ran::of(&mut stage.command(&["gate"])).exits(0).says("to compare with: this is the first commit");
    stage.edit(ALPHA, MARK, "TIME=1.300;");
    let slower = stage.commit("slower, on main");
    let ran = Ran::of(&mut stage.command(&["gate", "--seed", "5eed"])).exits(100);
    ran.says("the head is main: compared with its parent commit");
    // A branch that leaves main here answers for its own commits only, though main has gone on.
    let repository = stage.repository();
    let at = repository.find_commit(git2::Oid::from_str(&slower).unwrap()).unwrap();
    repository.branch("change", &at, false).unwrap();
    stage.edit(ALPHA, "TIME=1.300;", "TIME=1.000;");
    stage.commit("fast again, on main");
    repository.set_head("refs/heads/change").unwrap();
    repository.checkout_head(Some(git2::build::CheckoutBuilder::new().force())).unwrap();
    stage.write("README.md", "words\n");
    stage.commit("words");
    Ran::of(&mut stage.command(&["gate"])).exits(0).says("is no ancestor of HEAD").says("1 file differs");
    // A head that has nothing the base has not.
    let ran = Ran::of(&mut stage.command(&["gate", "--base", "main", "--head", &slower])).exits(0);
    ran.says("0 files differ").says("the change reaches no kernel");
}

#[test]
fn histories_without_a_common_commit_are_refused() {
    let stage = Stage::new();
    let repository = stage.repository();
    let tree = repository.head().unwrap().peel_to_tree().unwrap();
    let who = somebody();
    let other = repository.commit(None, &who, &who, "another beginning", &tree, &[]).unwrap().to_string();
    stage.gate(&other, &[]).exits(96).says("have no commit in common");
}

#[test]
fn a_shallow_clone_is_told_how_to_get_the_rest() {
    let stage = Stage::new();
    stage.edit(ALPHA, MARK, "TIME=1.300;");
    stage.commit("second");
    let clone = Sandbox::empty();
    let url = format!("file://{}", stage.path("").display());
    let made = Command::new("git").args(["clone", "--quiet", "--depth", "1", &url]).arg(clone.path("clone")).status();
    assert!(made.unwrap().success());
    let gate = |arguments: &[&str]| {
        let mut command = stage.command(&[&["gate"], arguments].concat());
        Ran::of(command.current_dir(clone.path("clone")))
    };
    for arguments in [&[][..], &["--base", "HEAD~1"], &["--base", "0123456789abcdef0123456789abcdef01234567"]] {
        gate(arguments).exits(96).says("shallow").says("fetch-depth: 0");
    }
}

#[test]
fn what_a_partial_clone_has_not_is_not_taken_for_what_is_not_there() {
    let stage = Stage::new();
    let head = stage.request("slower", |stage| stage.edit(ALPHA, MARK, "TIME=1.300;"));
    let repository = stage.repository();
    repository.config().unwrap().set_bool("remote.origin.promisor", true).unwrap();
    let base = repository.head().unwrap().peel_to_tree().unwrap();
    // The manifest of the base's workspace, without which every kernel would be new, and a file of its export.
    for path in ["Cargo.toml", ALPHA] {
        let id = base.get_path(std::path::Path::new(path)).unwrap().id().to_string();
        let file = stage.path(&format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        let kept = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let ran = stage.gate(&head, &[]).exits(96).says("this is a partial clone: objects of main (");
        ran.says("git fetch --refetch --no-filter");
        std::fs::write(&file, kept).unwrap();
    }
}

#[test]
fn what_is_not_committed_is_not_gated_and_that_is_said() {
    let stage = Stage::new();
    stage.write("README.md", "words\n");
    stage.commit("words");
    stage.edit(ALPHA, MARK, "TIME=1.300;");
    let ran = Ran::of(&mut stage.command(&["gate"])).exits(0).says("1 file with changes that are not committed");
    ran.says("the change reaches no kernel");
}

#[test]
fn a_workspace_without_kernels_is_named() {
    let stage = Stage::new();
    std::fs::remove_dir_all(stage.path("crates/alpha")).unwrap();
    std::fs::remove_dir_all(stage.path("crates/beta")).unwrap();
    stage.write("crates/plain/Cargo.toml", "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    stage.write("crates/plain/src/lib.rs", "");
    stage.commit("no kernels");
    stage.write("crates/plain/src/lib.rs", "//! Nothing.\n");
    stage.commit("more");
    Ran::of(&mut stage.command(&["gate", "--base", "HEAD~1"])).exits(4).says("there is no kernel crate");
}
