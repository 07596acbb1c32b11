//! Work in the user's checkout, on request: only the sources, and only where it is clean.

use kopt_schema::exit::Exit;

use super::*;

impl Ground {
    fn in_place<'a>(&'a self, base: &'a str, branch: Option<&'a str>) -> Place<'a> {
        Place { mode: ExecutionMode::InPlace, branch, ..self.place(base) }
    }

    fn status(&self) -> Vec<String> {
        let statuses = self.repository.statuses(None).unwrap();
        let shown = statuses.iter().filter(|entry| entry.status() != git2::Status::IGNORED);
        shown.map(|entry| format!("{} {:?}", entry.path().unwrap(), entry.status())).collect()
    }
}

#[test]
fn a_checkout_that_is_not_clean_is_refused() {
    let ground = Ground::new();
    let head = ground.head();
    let begin = || refusal(Lineage::begin(ground.in_place(&head, Some(BRANCH))));
    ground.write("src/lib.rs", "// edited\n");
    assert!(begin().contains("`src/lib.rs`"));
    let mut index = ground.repository.index().unwrap();
    index.add_path(Path::new("src/lib.rs")).unwrap();
    index.write().unwrap();
    assert!(begin().contains("not committed"));
    let head = ground.commit();
    let begin = || refusal(Lineage::begin(ground.in_place(&head, Some(BRANCH))));
    let merge = ground.repository.path().join("MERGE_HEAD");
    fs::write(&merge, format!("{head}\n")).unwrap();
    assert!(begin().contains("not finished"));
    fs::remove_file(merge).unwrap();
    let mut entry = index.get_path(Path::new(SOURCE), 0).unwrap();
    entry.flags |= 0x8000;
    index.add(&entry).unwrap();
    index.write().unwrap();
    ground.write(SOURCE, "int hidden;\n");
    assert!(begin().contains("not on disk what it is in the commit"));
    ground.write(SOURCE, "int softmax;\n");
    let mut more = ground.sources.clone();
    more.push("kernels/new.c".into());
    ground.write("kernels/new.c", "");
    let place = Place { sources: &more, ..ground.in_place(&head, None) };
    assert!(refusal(Lineage::begin(place)).contains("`kernels/new.c` is not committed"));
    assert_eq!(ground.target(&format!("refs/heads/{BRANCH}")), None);
    assert_eq!(ground.repository.head().unwrap().shorthand().unwrap(), "main");
}

#[test]
fn a_base_that_is_not_checked_out_is_refused() {
    let ground = Ground::new();
    let first = ground.head();
    ground.write("src/lib.rs", "// second\n");
    ground.commit();
    assert!(refusal(Lineage::begin(ground.in_place(&first, None))).contains("the campaign begins from"));
}

#[test]
fn rounds_are_committed_on_the_branch_that_is_checked_out() {
    let ground = Ground::new();
    let head = ground.head();
    ground.write("notes.txt", "mine\n");
    let lineage = Lineage::begin(ground.in_place(&head, Some("main"))).unwrap();
    assert_eq!(lineage.workspace(), ground.workspace.canonicalize_utf8().unwrap());
    assert!(!ground.folder.exists());
    assert_eq!(lineage.changes(&head, &ground.sources).unwrap(), Changes::default());
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    assert_eq!(lineage.changes(&head, &ground.sources).unwrap().changed, [SOURCE]);
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_eq!(ground.head(), accepted);
    assert_eq!(ground.status(), ["notes.txt Status(WT_NEW)"]);
    assert_eq!(lineage.accept(&candidate.commit, &head, "round 2").unwrap(), accepted);
    ground.write(SOURCE, "int unfinished;\n");
    ground.write("notes.txt", "more\n");
    ground.write("src/lib.rs", "// the user's\n");
    let found = lineage.changes(&accepted, &ground.sources).unwrap().forbidden;
    assert_eq!(found, [Forbidden { path: "src/lib.rs".into(), what: "changed".to_owned() }]);
    let kept = lineage.reset(&accepted).unwrap().unwrap();
    assert_eq!(lineage.file(&ground.target(&kept).unwrap(), SOURCE.into()).unwrap().unwrap(), b"int unfinished;\n");
    assert_eq!(read(&ground.workspace.join(SOURCE)), "int faster;\n");
    assert_eq!(read(&ground.workspace.join("notes.txt")), "more\n", "only the sources are put back");
    assert_eq!(read(&ground.workspace.join("src/lib.rs")), "// the user's\n");
    lineage.remove_worktree().unwrap();
    assert!(ground.workspace.join("Cargo.toml").exists());
}

#[test]
fn another_branch_is_checked_out_where_one_was_asked_for() {
    let ground = Ground::new();
    let head = ground.head();
    drop(Lineage::begin(ground.in_place(&head, Some(BRANCH))).unwrap());
    let lineage = Lineage::begin(ground.in_place(&head, Some(BRANCH))).unwrap();
    assert_eq!(ground.repository.head().unwrap().shorthand().unwrap(), BRANCH);
    assert_eq!(ground.status(), Vec::<String>::new());
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_eq!(ground.target("refs/heads/main"), Some(head.clone()));
    let (_, repaired) = Lineage::open(ground.in_place(&head, Some(BRANCH)), &accepted).unwrap();
    assert_eq!(repaired, Vec::<String>::new());
    ground.repository.set_head("refs/heads/main").unwrap();
    let error = Lineage::open(ground.in_place(&head, Some(BRANCH)), &accepted).err().unwrap();
    assert_eq!(error.exit(), Exit::Locked);
    let next = lineage.capture(&accepted, 3, 1, &ground.sources, "x").unwrap();
    assert_eq!(lineage.accept(&next.commit, &accepted, "round 3").unwrap_err().exit(), Exit::Locked);
}

#[test]
fn a_beginning_in_place_that_went_no_further_leaves_the_user_on_a_branch() {
    let ground = Ground::new();
    let head = ground.head();
    drop(Lineage::begin(ground.in_place(&head, Some(BRANCH))).unwrap());
    abandon(ground.in_place(&head, Some(BRANCH))).unwrap();
    assert_eq!(ground.repository.head().unwrap().shorthand().unwrap(), BRANCH);
    assert_eq!(ground.head(), head);
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/base")), None);
    assert_eq!(ground.status(), Vec::<String>::new());
    // Where the user has gone elsewhere it is taken back; and one that was left before is no beginning's any more.
    for (branch, stands) in [("kopt/another", None), (BRANCH, Some(head.clone()))] {
        ground.repository.set_head("refs/heads/main").unwrap();
        drop(Lineage::begin(ground.in_place(&head, Some(branch))).unwrap());
        ground.repository.set_head("refs/heads/main").unwrap();
        abandon(ground.in_place(&head, Some(branch))).unwrap();
        assert_eq!(ground.target(&format!("refs/heads/{branch}")), stands);
    }
}

#[test]
fn a_commit_of_the_users_is_not_put_back() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = Lineage::begin(ground.in_place(&head, Some("main"))).unwrap();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    ground.write(SOURCE, "int softmax;\n");
    ground.write("src/lib.rs", "// the user's\n");
    let users = ground.commit();
    assert!(lineage.changes(&head, &ground.sources).unwrap().forbidden.iter().any(|found| found.path == "main"));
    assert_eq!(lineage.accept(&candidate.commit, &head, "round 2").unwrap_err().exit(), Exit::Locked);
    lineage.reset(&head).unwrap();
    assert_eq!(ground.head(), users);
    assert_eq!(read(&ground.workspace.join("src/lib.rs")), "// the user's\n");
}

#[test]
fn without_commits_the_branch_and_the_index_stay() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = Lineage::begin(ground.in_place(&head, None)).unwrap();
    let index = fs::read(ground.repository.path().join("index")).unwrap();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_eq!((ground.head(), lineage.tip().unwrap()), (head, Some(accepted.clone())));
    assert_eq!(fs::read(ground.repository.path().join("index")).unwrap(), index);
    assert_eq!(lineage.changes(&accepted, &ground.sources).unwrap(), Changes::default());
    assert_eq!(read(&ground.workspace.join(SOURCE)), "int faster;\n");
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_no_change() {
    let ground = Ground::new();
    let head = ground.head();
    let mut index = ground.repository.index().unwrap();
    let mut entry = index.get_path(Path::new("src/lib.rs"), 0).unwrap();
    // As `git sparse-checkout` leaves it: marked in the index, and not there.
    entry.flags |= 0x4000;
    entry.flags_extended |= git2::IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
    index.add(&entry).unwrap();
    index.write().unwrap();
    fs::remove_file(ground.workspace.join("src/lib.rs")).unwrap();
    assert!(survey(&ground.workspace, &[]).unwrap().dirty.is_empty());
    let lineage = Lineage::begin(ground.in_place(&head, Some("main"))).unwrap();
    assert_eq!(lineage.changes(&head, &ground.sources).unwrap(), Changes::default());
    // One that is missing without that mark is deleted.
    entry.flags_extended &= !git2::IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
    let mut index = ground.repository.index().unwrap();
    index.add(&entry).unwrap();
    index.write().unwrap();
    assert_eq!(survey(&ground.workspace, &[]).unwrap().dirty, ["src/lib.rs"]);
    assert_eq!(lineage.changes(&head, &ground.sources).unwrap().forbidden[0].path, "src/lib.rs");
}
