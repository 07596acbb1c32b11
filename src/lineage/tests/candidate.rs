//! Candidates: exactly the sources, kept for good.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn a_candidate_holds_the_sources_and_nothing_else() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    write(&lineage.workspace().join("src/lib.rs"), "// not a source\n");
    write(&lineage.workspace().join("new.txt"), "");
    let candidate = ground.capture(&lineage, &head, 3, "int softmax;\nint faster;\n");
    assert_eq!(candidate.files, [SOURCE]);
    assert_eq!(candidate.lines, [1, 0]);
    let text = "--- a/kernels/softmax.c\n+++ b/kernels/softmax.c\n@@ -1 +1,2 @@\n int softmax;\n+int faster;\n";
    assert!(candidate.diff.ends_with(text), "{}", candidate.diff);
    assert_eq!(lineage.tree_of(&candidate.commit).unwrap(), candidate.tree);
    assert_eq!(lineage.parent(&candidate.commit).unwrap(), Some(head.clone()));
    assert_eq!(lineage.message(&candidate.commit).unwrap(), "candidate of round 3, attempt 1: a change");
    assert_eq!(lineage.file(&candidate.commit, "src/lib.rs".into()).unwrap().unwrap(), b"// lib\n");
    assert_eq!(lineage.file(&candidate.commit, "new.txt".into()).unwrap(), None);
    let commit = ground.repository.find_commit(Oid::from_str(&candidate.commit).unwrap()).unwrap();
    assert_eq!(commit.author().email().unwrap(), "cargo-kopt@localhost");
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/round-3")), Some(candidate.commit));
    assert_eq!(lineage.tip().unwrap(), Some(head));
}

#[test]
fn the_text_of_a_difference_does_not_depend_on_configuration() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let plain = ground.capture(&lineage, &ground.head(), 1, "int faster;\n").diff;
    let mut config = ground.repository.config().unwrap();
    for (key, value) in [("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("diff.context", "0")] {
        config.set_str(key, value).unwrap();
    }
    let (lineage, _) = ground.open(&ground.head());
    assert_eq!(ground.capture(&lineage, &ground.head(), 1, "int faster;\n").diff, plain);
}

#[test]
fn every_attempt_of_a_round_stays_reachable() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let capture = |attempt: u32, text: &str| {
        write(&lineage.workspace().join(SOURCE), text);
        lineage.capture(&head, 2, attempt, &ground.sources, "a change").unwrap().commit
    };
    let (one, two) = (capture(1, "int one;\n"), capture(2, "int two;\n"));
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/round-2")), Some(two.clone()));
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/round-2-attempt-1")), Some(one));
    assert_eq!(capture(2, "int two;\n"), two, "the same again is the same commit");
    let other = capture(2, "int other;\n");
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/round-2-attempt-2")), Some(other));
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")), Some(two));
}

#[test]
fn a_candidate_without_a_change_says_so() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = lineage.capture(&head, 2, 1, &ground.sources, "nothing").unwrap();
    assert_eq!((candidate.files.len(), candidate.lines, candidate.diff.as_str()), (0, [0, 0], ""));
    assert_eq!(candidate.tree, lineage.tree_of(&head).unwrap());
}

#[test]
fn the_mode_of_a_source_is_that_of_the_version_that_stands() {
    let ground = Ground::new();
    let script = ground.workspace.join(SOURCE);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let head = ground.commit();
    let lineage = ground.begin();
    fs::set_permissions(lineage.workspace().join(SOURCE), fs::Permissions::from_mode(0o644)).unwrap();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let commit = ground.repository.find_commit(Oid::from_str(&candidate.commit).unwrap()).unwrap();
    let entry = commit.tree().unwrap().get_path(Path::new(SOURCE)).unwrap();
    assert_eq!(entry.filemode(), 0o100_755);
}

#[test]
fn what_is_no_plain_file_cannot_be_captured() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let source = lineage.workspace().join(SOURCE);
    let capture = || refusal(lineage.capture(&head, 2, 1, &ground.sources, "x"));
    fs::write(&source, vec![b' '; (4 << 20) + 1]).unwrap();
    assert!(capture().contains("larger than 4 MiB"));
    fs::remove_file(&source).unwrap();
    assert!(capture().contains("cannot be read"));
    symlink("softmax.h", &source).unwrap();
    assert!(capture().contains("it is a link"));
    fs::remove_file(&source).unwrap();
    fs::create_dir(&source).unwrap();
    assert!(capture().contains("not a file"));
    assert!(refusal(lineage.capture(&head, 2, 1, &["src/no.c".into()], "x")).contains("does not have it"));
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/round-2")), None);
}
