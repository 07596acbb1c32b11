//! Edits that nobody has finished: never destroyed, and never in the way.

use super::*;

#[test]
fn an_unfinished_edit_survives_opening_and_is_kept_by_a_reset() {
    let ground = Ground::new();
    let head = ground.head();
    drop(ground.begin());
    write(&ground.folder.join(SOURCE), "int unfinished;\n");
    write(&ground.folder.join("new/notes.txt"), "an idea\n");
    fs::remove_file(ground.folder.join("src/lib.rs")).unwrap();
    write(&ground.folder.join("target/cache"), "ignored\n");
    let (lineage, repaired) = ground.open(&head);
    assert!(repaired[0].contains("saved-1"), "{repaired:?}");
    assert_eq!(read(&ground.folder.join(SOURCE)), "int unfinished;\n", "opening changes no file");
    let kept = lineage.reset(&head).unwrap();
    assert_eq!(kept.as_deref(), Some(&*format!("refs/kopt/{CAMPAIGN}/saved-1")), "the same edit is kept once");
    assert_clean(&lineage, &head);
    assert!(!ground.folder.join("new").exists());
    assert!(ground.folder.join("target/cache").exists(), "ignored files are left");
    let saved = ground.target(&kept.unwrap()).unwrap();
    assert_eq!(lineage.file(&saved, SOURCE.into()).unwrap().unwrap(), b"int unfinished;\n");
    assert_eq!(lineage.file(&saved, "new/notes.txt".into()).unwrap().unwrap(), b"an idea\n");
    assert_eq!(lineage.file(&saved, "src/lib.rs".into()).unwrap(), None);
    assert_eq!(lineage.parent(&saved).unwrap(), Some(head.clone()));
    write(&ground.folder.join(SOURCE), "int another;\n");
    assert!(lineage.reset(&head).unwrap().unwrap().ends_with("saved-2"));
    assert_eq!(lineage.reset(&head).unwrap(), None);
}

#[test]
fn what_git_cannot_keep_is_moved_aside() {
    let ground = Ground::new();
    let lineage = ground.begin();
    Repository::init(lineage.workspace().join("kernels")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        lineage.workspace().join("pipe").as_std_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let forbidden = lineage.changes(&ground.head(), &ground.sources).unwrap().forbidden;
    assert_eq!(forbidden.len(), 2, "{forbidden:?}");
    lineage.reset(&ground.head()).unwrap();
    assert_clean(&lineage, &ground.head());
    let aside = Utf8PathBuf::from(format!("{}.saved-1", ground.folder));
    assert!(aside.join("kernels/.git/HEAD").exists() && aside.join("pipe").symlink_metadata().is_ok());
}

#[test]
fn nothing_is_written_through_a_link() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let outside = Utf8Path::from_path(ground.scratch.path()).unwrap().join("outside");
    write(&outside.join("softmax.c"), "not yours\n");
    write(&outside.join("softmax.h"), "nor this\n");
    fs::remove_dir_all(lineage.workspace().join("kernels")).unwrap();
    std::os::unix::fs::symlink(&outside, lineage.workspace().join("kernels")).unwrap();
    let said = refusal(lineage.capture(&ground.head(), 1, 1, &ground.sources, "x"));
    assert!(said.contains("behind a link"), "{said}");
    lineage.reset(&ground.head()).unwrap();
    assert_eq!(read(&outside.join("softmax.c")), "not yours\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_clean(&lineage, &ground.head());
    // A file where a folder was, a folder where a file was, and a hard link to a file of somebody else's.
    fs::remove_dir_all(lineage.workspace().join("kernels")).unwrap();
    write(&lineage.workspace().join("kernels"), "a file\n");
    fs::remove_file(lineage.workspace().join("src/lib.rs")).unwrap();
    write(&lineage.workspace().join("src/lib.rs/inner.log"), "ignored\n");
    fs::remove_file(lineage.workspace().join("Cargo.toml")).unwrap();
    fs::hard_link(outside.join("softmax.c"), lineage.workspace().join("Cargo.toml")).unwrap();
    lineage.reset(&ground.head()).unwrap();
    assert_eq!(read(&outside.join("softmax.c")), "not yours\n");
    assert_clean(&lineage, &ground.head());
}
