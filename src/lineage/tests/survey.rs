//! What a campaign is refused for, and what its user is told.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::super::restore::index_entry;
use super::*;

impl Ground {
    fn survey(&self) -> Result<Survey> {
        let sources: Vec<_> = self.sources.iter().map(|source| self.workspace.join(source)).collect();
        survey(&self.workspace, &sources)
    }
}

#[test]
fn a_plain_repository_is_fit() {
    let ground = Ground::new();
    let found = ground.survey().unwrap();
    assert_eq!(found.head, ground.head());
    assert_eq!(found.branch.as_deref(), Some("main"));
    assert_eq!((found.detached, found.shallow, found.unfinished), (false, false, None));
    assert_eq!(found.notes, Vec::<String>::new());
    assert_eq!(found.prefix, "");
    assert_eq!(Ground::with_workspace("some/where").survey().unwrap().prefix, "some/where");
}

#[test]
fn a_survey_changes_nothing() {
    let ground = Ground::new();
    ground.write("src/lib.rs", "// edited\n");
    let before = ground.users();
    ground.survey().unwrap();
    assert_eq!(ground.users(), before);
    assert!(!ground.workspace.join(".kopt").exists());
}

#[test]
fn without_files_or_commits_there_is_no_campaign() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    assert!(refusal(survey(folder, &[])).contains("is not in a git repository"));
    let bare = folder.join("bare");
    Repository::init_bare(&bare).unwrap();
    assert!(refusal(survey(&bare, &[])).contains("is not among the files"));
    let fresh = folder.join("fresh");
    Repository::init(&fresh).unwrap();
    assert!(refusal(survey(&fresh, &[])).contains("has no commit yet"));
}

#[test]
fn a_workspace_that_is_not_committed_is_refused() {
    let ground = Ground::new();
    let ignored = ground.workspace.join("target/inner");
    write(&ignored.join("Cargo.toml"), "[workspace]\n");
    assert!(refusal(survey(&ignored, &[])).contains("not among the files that are committed"));
}

#[test]
fn sources_that_git_does_not_have_are_named() {
    let mut ground = Ground::new();
    ground.write("kernels/new.c", "");
    ground.write("kernels/noise.log", "");
    ground.write("kernels/staged.c", "");
    let mut index = ground.repository.index().unwrap();
    index.add_path(Path::new("kernels/staged.c")).unwrap();
    index.write().unwrap();
    ground.sources.extend(["kernels/new.c", "kernels/noise.log", "kernels/staged.c", "kernels/no.c"].map(Into::into));
    let said = refusal(ground.survey());
    assert!(said.starts_with("4 kernel sources cannot be committed exactly"), "{said}");
    for part in [
        "`kernels/new.c` is not known to git",
        "`kernels/noise.log` is ignored by git",
        "`kernels/staged.c` is staged but not committed",
        "`kernels/no.c` does not exist",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains(SOURCE), "{said}");
}

#[test]
fn sources_behind_links_filters_and_submodules_are_refused() {
    let mut ground = Ground::new();
    ground.write(".gitattributes", "kernels/big.c filter=lfs\nkernels/secret.c filter=crypt\n");
    ground.write("kernels/big.c", "");
    ground.write("kernels/secret.c", "");
    symlink("softmax.c", ground.workspace.join("kernels/link.c")).unwrap();
    symlink("kernels", ground.workspace.join("other")).unwrap();
    ground.commit();
    let mut index = ground.repository.index().unwrap();
    let id = Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    index.add(&index_entry(Path::new("sub"), compare::Entry { id, mode: 0o160_000 })).unwrap();
    commit_index(&ground.repository, &mut index);
    ground.sources =
        ["kernels/big.c", "kernels/secret.c", "kernels/link.c", "other/softmax.c", "sub/x.c"].map(Into::into).to_vec();
    let said = refusal(ground.survey());
    for part in [
        "`kernels/big.c` is kept by git LFS",
        "`kernels/secret.c` goes through the filter `crypt`",
        "`kernels/link.c` is a link",
        "`other/softmax.c` lies behind the link `other`",
        "`sub/x.c` lies in the submodule `sub`",
    ] {
        assert!(said.contains(part), "{said}");
    }
    ground.sources = vec![SOURCE.into()];
    ground.survey().unwrap();
}

#[test]
fn missing_objects_are_told_by_the_file_they_belong_to() {
    let ground = Ground::new();
    let tree = ground.repository.head().unwrap().peel_to_tree().unwrap();
    let id = tree.get_path(Path::new("src/lib.rs")).unwrap().id().to_string();
    let object = ground.repository.path().join("objects").join(&id[..2]).join(&id[2..]);
    fs::remove_file(object).unwrap();
    let said = refusal(ground.survey());
    assert!(said.contains("are missing") && said.contains("src/lib.rs") && said.contains("git fsck"), "{said}");
    ground.repository.config().unwrap().set_str("remote.origin.promisor", "true").unwrap();
    assert!(refusal(ground.survey()).contains("without `--filter`"));
}

#[test]
fn what_is_not_as_the_user_may_think_is_noted() {
    let ground = Ground::new();
    ground.write("src/lib.rs", "// edited\n");
    ground.write("notes.txt", "mine\n");
    ground.repository.config().unwrap().set_str("commit.gpgsign", "true").unwrap();
    let hook = ground.repository.path().join("hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(ground.repository.path().join("MERGE_HEAD"), format!("{}\n", ground.head())).unwrap();
    ground.repository.set_head_detached(ground.repository.head().unwrap().target().unwrap()).unwrap();
    let found = ground.survey().unwrap();
    assert!(found.detached);
    assert_eq!(found.branch, None);
    assert_eq!(found.dirty, ["src/lib.rs"]);
    assert_eq!(found.unfinished, Some("merge"));
    let said = found.notes.join("\n");
    for part in ["no branch", "merge", "not signed", "pre-commit", "1 file has changes", "does not know"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(found.notes.len(), 6, "{said}");
}

#[test]
fn a_shallow_clone_is_enough() {
    let ground = Ground::new();
    ground.write("src/lib.rs", "// second\n");
    ground.commit();
    let scratch = Utf8Path::from_path(ground.scratch.path()).unwrap();
    let url = format!("file://{}", ground.top());
    if git(scratch, &["clone", "-q", "--depth", "1", &url, "shallow"]).is_none() {
        return;
    }
    let workspace = scratch.join("shallow");
    plain(&Repository::open(&workspace).unwrap());
    let found = survey(&workspace, &[workspace.join(SOURCE)]).unwrap();
    assert!(found.shallow);
    assert!(found.notes.join("\n").contains("a part of the history"));
    let place = Place { workspace: &workspace, folder: ".kopt/worktrees/x".into(), ..ground.place(&found.head) };
    let lineage = Lineage::begin(place).unwrap();
    let candidate = ground.capture(&lineage, &found.head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &found.head, "round 2").unwrap();
    assert_clean(&lineage, &accepted);
    lineage.reset(&accepted).unwrap();
}
