//! The campaign's folder: made, found in every state that a kill or a person can leave, and removed.

use super::*;

#[test]
fn a_campaign_begins_in_a_worktree_on_its_own_branch() {
    let ground = Ground::new();
    ground.write("src/lib.rs", "// an edit of the user's\n");
    let before = ground.users();
    let lineage = ground.begin();
    assert_eq!(ground.users(), before);
    assert_eq!(lineage.workspace(), ground.folder.canonicalize_utf8().unwrap());
    assert_eq!(read(&lineage.workspace().join("src/lib.rs")), "// lib\n");
    assert_eq!(lineage.tip().unwrap(), Some(ground.head()));
    assert_eq!(ground.target(&format!("refs/heads/{BRANCH}")), Some(ground.head()));
    assert_clean(&lineage, &ground.head());
    if let Some(said) = git(&ground.top(), &["worktree", "list", "--porcelain"]) {
        assert!(said.contains(&format!("branch refs/heads/{BRANCH}")), "{said}");
    }
    if let Some(said) = git(&ground.top(), &["status", "--porcelain"]) {
        assert_eq!(said, " M src/lib.rs\n", ".kopt must not show");
    }
}

#[test]
fn a_workspace_may_lie_deep_in_a_repository_that_is_a_worktree_itself() {
    let ground = Ground::with_workspace("deep/down");
    let other = Utf8Path::from_path(ground.scratch.path()).unwrap().join("linked one");
    ground.repository.worktree("linked", other.as_std_path(), None).unwrap();
    let workspace = other.join("deep/down");
    let head = ground.head();
    let place = Place { workspace: &workspace, folder: ".kopt/worktrees/x".into(), ..ground.place(&head) };
    let lineage = Lineage::begin(place).unwrap();
    assert!(lineage.workspace().ends_with(".kopt/worktrees/x/deep/down"), "{}", lineage.workspace());
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    assert_eq!(candidate.files, [SOURCE]);
    assert!(candidate.diff.contains("+++ b/deep/down/kernels/softmax.c\n"), "{}", candidate.diff);
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_clean(&lineage, &accepted);
    assert_eq!(lineage.file(&accepted, SOURCE.into()).unwrap().unwrap(), b"int faster;\n");
    assert_eq!(lineage.file(&accepted, "Cargo.lock".into()).unwrap(), None);
    lineage.remove_worktree().unwrap();
    assert!(other.join("Cargo.toml").exists() || workspace.join("Cargo.toml").exists());
}

#[test]
fn a_detached_head_stays_where_it_is() {
    let ground = Ground::new();
    let head = ground.head();
    ground.repository.set_head_detached(Oid::from_str(&head).unwrap()).unwrap();
    let before = ground.users();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_clean(&lineage, &accepted);
    assert_eq!(ground.users(), before);
}

#[test]
fn beginning_again_after_a_kill_is_harmless() {
    let ground = Ground::new();
    drop(ground.begin());
    let lock = ground.repository.path().join(format!("refs/kopt/{CAMPAIGN}/base.lock"));
    fs::write(&lock, "").unwrap();
    let lineage = ground.begin();
    assert!(!lock.exists());
    assert_clean(&lineage, &ground.head());
    assert!(!Utf8PathBuf::from(format!("{}.saved-1", ground.folder)).exists());
}

#[test]
fn a_beginning_that_went_no_further_is_taken_back_and_can_be_made_again() {
    let ground = Ground::new();
    let (head, before) = (ground.head(), ground.users());
    abandon(ground.place(&head)).unwrap();
    drop(ground.begin());
    let lock = ground.repository.path().join(format!("refs/kopt/{CAMPAIGN}/base.lock"));
    fs::write(&lock, "").unwrap();
    for _ in 0..2 {
        abandon(ground.place(&head)).unwrap();
        assert!(!ground.folder.exists() && !ground.registration().exists() && !lock.exists());
        assert_eq!(ground.target(&format!("refs/heads/{BRANCH}")), None);
        assert_eq!(ground.repository.references_glob("refs/kopt/*").unwrap().count(), 0);
        assert_eq!(ground.users(), before);
    }
    assert_clean(&ground.begin(), &head);
    // Killed before its folder was linked, and before its registration was whole.
    fs::remove_dir_all(&ground.folder).unwrap();
    fs::create_dir(&ground.folder).unwrap();
    fs::remove_file(ground.registration().join("gitdir")).unwrap();
    abandon(ground.place(&head)).unwrap();
    assert!(!ground.folder.exists() && !ground.registration().exists());
    assert_eq!(ground.target(&format!("refs/heads/{BRANCH}")), None);
}

#[test]
fn what_is_not_of_a_beginning_stays_where_one_is_taken_back() {
    let ground = Ground::new();
    let head = ground.head();
    let mark = format!("refs/kopt/{CAMPAIGN}/base");
    let all = |ground: &Ground| {
        let branch = ground.target(&format!("refs/heads/{BRANCH}"));
        (branch, ground.target(&mark), ground.folder.exists(), ground.registration().exists())
    };
    // A campaign of that name is at work elsewhere, or from another commit.
    let lineage = ground.begin();
    let whole = all(&ground);
    let elsewhere = ground.workspace.join(".kopt/worktrees/elsewhere");
    abandon(Place { folder: &elsewhere, ..ground.place(&head) }).unwrap();
    assert_eq!(all(&ground), whole);
    ground.write("src/lib.rs", "// second\n");
    let second = ground.commit();
    abandon(ground.place(&second)).unwrap();
    assert_eq!(all(&ground), whole);
    // Or it has begun.
    ground.capture(&lineage, &head, 2, "int faster;\n");
    drop(lineage);
    abandon(ground.place(&head)).unwrap();
    assert_eq!(all(&ground), whole);

    // Branches: that were there before, or that somebody has checked out or moved; and a folder that is nobody's worktree.
    let ground = Ground::new();
    let head = ground.head();
    let full = format!("refs/heads/{BRANCH}");
    let first = ground.repository.find_commit(Oid::from_str(&head).unwrap()).unwrap();
    for branch in ["mine", BRANCH] {
        let place = Place { branch: Some(branch), ..ground.place(&head) };
        for stands in [None, Some(head.clone())] {
            if stands.is_some() {
                ground.repository.branch(branch, &first, false).unwrap();
            }
            drop(Lineage::begin(place).unwrap());
            abandon(place).unwrap();
            assert_eq!(ground.target(&format!("refs/heads/{branch}")), stands, "{branch}");
        }
    }
    assert_eq!(all(&ground), (Some(head.clone()), None, false, false));
    let begin_anew = || {
        ground.repository.find_reference(&full).unwrap().delete().unwrap();
        drop(ground.begin());
    };
    begin_anew();
    fs::write(ground.repository.path().join("HEAD"), format!("ref: {full}\n")).unwrap();
    abandon(ground.place(&head)).unwrap();
    assert_eq!(all(&ground), (Some(head.clone()), None, false, false));
    ground.repository.set_head("refs/heads/main").unwrap();
    begin_anew();
    ground.write("src/lib.rs", "// on it\n");
    let moved = ground.commit();
    ground.repository.reference(&full, Oid::from_str(&moved).unwrap(), true, "moved").unwrap();
    fs::remove_dir_all(&ground.folder).unwrap();
    write(&ground.folder.join("mine.txt"), "a person's\n");
    abandon(ground.place(&head)).unwrap();
    assert_eq!(all(&ground), (Some(moved), None, true, false));
    assert_eq!(read(&ground.folder.join("mine.txt")), "a person's\n");
    assert_eq!(ground.repository.references_glob("refs/kopt/*").unwrap().count(), 0);
}

#[test]
fn names_and_branches_that_cannot_be_used_are_refused_and_leave_nothing() {
    let ground = Ground::new();
    let head = ground.head();
    for campaign in ["", "a/b", "a b", "..", ".hidden", "x.lock", "a*"] {
        let place = Place { campaign, ..ground.place(&head) };
        assert!(refusal(Lineage::begin(place)).contains("name of a campaign"), "{campaign}");
    }
    let place = Place { branch: Some("a..b"), ..ground.place(&head) };
    assert!(refusal(Lineage::begin(place)).contains("name of a branch"));
    let place = Place { branch: Some("main"), ..ground.place(&head) };
    assert!(refusal(Lineage::begin(place)).contains("is checked out in"));
    ground.write("src/lib.rs", "// second\n");
    let second = ground.commit();
    let first = ground.repository.find_commit(Oid::from_str(&head).unwrap()).unwrap();
    ground.repository.branch("old", &first, false).unwrap();
    let place = Place { branch: Some("old"), ..ground.place(&second) };
    assert!(refusal(Lineage::begin(place)).contains("exists and stands at"));
    ground.repository.branch("kopt", &first, false).unwrap();
    assert!(refusal(Lineage::begin(ground.place(&second))).contains("is in its way"));
    assert_eq!(ground.repository.references_glob("refs/kopt/*").unwrap().count(), 0);
    assert!(!ground.workspace.join(".kopt").exists());
    let place = Place { branch: Some("old"), ..ground.place(&head) };
    assert_eq!(Lineage::begin(place).unwrap().tip().unwrap(), Some(head.clone()));
}

#[test]
fn a_worktree_whose_link_is_relative_is_found_from_wherever_the_tool_is_called() {
    let ground = Ground::new();
    let head = ground.head();
    let first = ground.repository.find_commit(Oid::from_str(&head).unwrap()).unwrap();
    let branch = ground.repository.branch("taken", &first, false).unwrap().into_reference();
    let other = ground.scratch.path().join("another folder");
    let mut options = git2::WorktreeAddOptions::new();
    options.reference(Some(&branch));
    ground.repository.worktree("other", &other, Some(&options)).unwrap();
    let taken = Place { branch: Some("taken"), ..ground.place(&head) };
    assert!(refusal(Lineage::begin(taken)).contains("is checked out in"));
    // As git writes it with `worktree.useRelativePaths`: seen from `.git/worktrees/other`.
    let link = ground.repository.commondir().join("worktrees/other/gitdir");
    fs::write(&link, "../../../../another folder/.git\n").unwrap();
    let taken = Place { branch: Some("taken"), ..ground.place(&head) };
    let told = refusal(Lineage::begin(taken));
    assert!(told.contains("is checked out in") && told.contains("/another folder`"), "{told}");
}

#[test]
fn the_same_name_from_another_commit_is_another_campaign() {
    let ground = Ground::new();
    drop(ground.begin());
    ground.write("src/lib.rs", "// second\n");
    let second = ground.commit();
    let place = Place { branch: Some("new"), ..ground.place(&second) };
    assert!(refusal(Lineage::begin(place)).contains("there is a campaign"));
    let elsewhere = ground.workspace.join(".kopt/worktrees/elsewhere");
    let first = ground.target(&format!("refs/kopt/{CAMPAIGN}/base")).unwrap();
    let place = Place { folder: &elsewhere, ..ground.place(&first) };
    assert!(refusal(Lineage::begin(place)).contains("is at work elsewhere"));
}

#[test]
fn without_a_branch_the_worktree_is_detached() {
    let ground = Ground::new();
    let head = ground.head();
    let place = Place { branch: None, ..ground.place(&head) };
    let lineage = Lineage::begin(place).unwrap();
    assert!(Repository::open(&ground.folder).unwrap().head_detached().unwrap());
    assert_clean(&lineage, &head);
    assert_eq!(lineage.tip().unwrap(), None);
    assert_eq!(ground.repository.branches(None).unwrap().count(), 1);
}

#[test]
fn a_worktree_whose_folder_was_deleted_is_made_again() {
    let ground = Ground::new();
    drop(ground.begin());
    fs::remove_dir_all(&ground.folder).unwrap();
    let (lineage, repaired) = ground.open(&ground.head());
    assert_eq!(repaired.len(), 1, "{repaired:?}");
    assert!(repaired[0].contains("was made again"));
    assert_clean(&lineage, &ground.head());
}

#[test]
fn a_worktree_whose_registration_was_pruned_is_moved_aside_and_made_again() {
    let ground = Ground::new();
    let lineage = ground.begin();
    write(&lineage.workspace().join(SOURCE), "int unfinished;\n");
    drop(lineage);
    fs::remove_dir_all(ground.registration()).unwrap();
    let (lineage, repaired) = ground.open(&ground.head());
    let aside = Utf8PathBuf::from(format!("{}.saved-1", ground.folder));
    assert_eq!(read(&aside.join(SOURCE)), "int unfinished;\n");
    assert!(repaired.iter().any(|words| words.contains(".saved-1")), "{repaired:?}");
    assert_clean(&lineage, &ground.head());
}

#[test]
fn a_folder_that_belongs_to_another_registration_is_not_ours() {
    let ground = Ground::new();
    let head = ground.head();
    let place = Place { branch: None, ..ground.place(&head) };
    drop(Lineage::begin(place).unwrap());
    let other = ground.registration().with_file_name("other");
    fs::rename(ground.registration(), &other).unwrap();
    fs::write(ground.folder.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();
    let (lineage, repaired) = Lineage::open(place, &head).unwrap();
    assert_eq!(repaired.len(), 2, "{repaired:?}");
    assert!(Utf8PathBuf::from(format!("{}.saved-1", ground.folder)).join(SOURCE).exists());
    assert_clean(&lineage, &head);
}

#[test]
fn half_made_registrations_and_strange_folders_do_not_stop_a_campaign() {
    let ground = Ground::new();
    drop(ground.begin());
    for file in ["HEAD", "commondir", "gitdir"] {
        fs::remove_file(ground.registration().join(file)).unwrap();
        let (lineage, _) = ground.open(&ground.head());
        assert_clean(&lineage, &ground.head());
    }
    fs::remove_dir_all(&ground.folder).unwrap();
    write(&ground.folder.join("mine.txt"), "a person's\n");
    let (lineage, _) = ground.open(&ground.head());
    assert_clean(&lineage, &ground.head());
    assert_eq!(read(&Utf8PathBuf::from(format!("{}.saved-4", ground.folder)).join("mine.txt")), "a person's\n");
}

#[test]
fn a_checkout_that_was_killed_half_way_is_finished_and_no_edit() {
    let ground = Ground::new();
    drop(ground.begin());
    fs::remove_file(ground.registration().join("index")).unwrap();
    fs::remove_file(ground.folder.join("src/lib.rs")).unwrap();
    let (lineage, repaired) = ground.open(&ground.head());
    assert_eq!(repaired, Vec::<String>::new());
    assert_clean(&lineage, &ground.head());
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")), None);
}

#[test]
fn locks_of_the_dead_are_removed_where_they_are_ours_and_only_there() {
    let ground = Ground::new();
    drop(ground.begin());
    let git = ground.repository.path();
    let ours = [
        ground.registration().join("index.lock"),
        ground.registration().join("HEAD.lock"),
        git.join(format!("refs/kopt/{CAMPAIGN}/round-1.lock")),
        git.join(format!("refs/heads/{BRANCH}.lock")),
    ];
    let theirs = [git.join("index.lock"), git.join("packed-refs.lock"), git.join("refs/heads/main.lock")];
    for lock in ours.iter().chain(&theirs) {
        fs::write(lock, "").unwrap();
    }
    let (lineage, repaired) = ground.open(&ground.head());
    assert_eq!(repaired.len(), ours.len(), "{repaired:?}");
    assert!(ours.iter().all(|lock| !lock.exists()));
    assert!(theirs.iter().all(|lock| lock.exists()));
    // An agent that is ended in the middle of its work leaves one, too.
    fs::write(&ours[0], "").unwrap();
    lineage.reset(&ground.head()).unwrap();
    assert_clean(&lineage, &ground.head());
    let candidate = ground.capture(&lineage, &ground.head(), 1, "int faster;\n");
    lineage.accept(&candidate.commit, &ground.head(), "round 1").unwrap();
}

#[test]
fn a_lock_that_is_let_go_and_taken_again_is_not_removed_while_it_is_young() {
    let ground = Ground::new();
    drop(ground.begin());
    let (old, live) = (ground.registration().join("index.lock"), ground.registration().join("HEAD.lock"));
    // From the future, by another clock: it is watched, and no reason to wait until then.
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    fs::write(&old, "").unwrap();
    fs::File::open(&old).unwrap().set_modified(future).unwrap();
    fs::write(&live, "").unwrap();
    let work = std::thread::spawn(move || {
        // Held for a moment each, by one process after the other; the last one lets go before it is old.
        let mut was_there = true;
        for _ in 0..12 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            was_there &= live.exists();
            let _ = fs::remove_file(&live);
            fs::write(&live, "").unwrap();
        }
        let _ = fs::remove_file(&live);
        was_there
    });
    let (_, repaired) = ground.open(&ground.head());
    assert!(work.join().unwrap(), "a living process lost its lock");
    assert_eq!(repaired.len(), 1, "{repaired:?}");
    assert!(!old.exists());
}

#[test]
fn a_lock_on_a_branch_of_the_users_is_told_and_left() {
    let ground = Ground::new();
    let head = ground.head();
    let place = Place { branch: Some("mine"), ..ground.place(&head) };
    let lineage = Lineage::begin(place).unwrap();
    let lock = ground.repository.path().join("refs/heads/mine.lock");
    fs::write(&lock, "").unwrap();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let error = lineage.accept(&candidate.commit, &head, "round 2").unwrap_err();
    assert_eq!(error.exit(), kopt_schema::exit::Exit::Locked);
    assert!(error.failure().causes.join(" ").contains("mine.lock"));
    assert!(lock.exists());
    fs::remove_file(lock).unwrap();
    assert_clean(&lineage, &lineage.accept(&candidate.commit, &head, "round 2").unwrap());
}

#[test]
fn a_removed_worktree_leaves_branch_references_and_edits() {
    let ground = Ground::new();
    let before = ground.users();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &ground.head(), 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &ground.head(), "round 2").unwrap();
    write(&lineage.workspace().join(SOURCE), "int unfinished;\n");
    lineage.remove_worktree().unwrap();
    lineage.remove_worktree().unwrap();
    assert!(!ground.folder.exists() && !ground.registration().exists());
    assert_eq!(ground.target(&format!("refs/heads/{BRANCH}")), Some(accepted.clone()));
    assert!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")).is_some());
    assert_eq!(ground.users(), before);
    let (lineage, _) = ground.open(&accepted);
    assert_clean(&lineage, &accepted);
    fs::write(ground.registration().join("locked"), "").unwrap();
    assert!(refusal(lineage.remove_worktree()).contains("unlock"));
}

#[test]
fn two_campaigns_do_not_disturb_each_other() {
    let ground = Ground::new();
    let head = ground.head();
    let one = ground.begin();
    let folder = ground.workspace.join(".kopt/worktrees/second");
    let place = Place { campaign: "second", branch: Some("kopt/second"), folder: &folder, ..ground.place(&head) };
    let two = Lineage::begin(place).unwrap();
    let of_one = ground.capture(&one, &head, 2, "int one;\n");
    let of_two = ground.capture(&two, &head, 2, "int two;\n");
    let accepted = one.accept(&of_one.commit, &head, "round 2").unwrap();
    assert_eq!(two.tip().unwrap(), Some(head.clone()));
    let other = two.accept(&of_two.commit, &head, "round 2").unwrap();
    one.store(&[("a".to_owned(), b"1".to_vec())], "one").unwrap();
    assert_eq!(two.stored("a").unwrap(), None);
    one.remove_worktree().unwrap();
    assert_clean(&two, &other);
    assert_eq!(one.tip().unwrap(), Some(accepted));
}

#[test]
fn line_ends_are_neither_converted_nor_taken_for_changes() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.h text eol=crlf\n");
    ground.commit();
    let lineage = ground.begin();
    assert_eq!(read(&lineage.workspace().join("kernels/softmax.h")), "struct softmax_args;\n");
    assert_clean(&lineage, &ground.head());
}

#[test]
fn a_submodule_is_an_empty_folder() {
    let ground = Ground::new();
    let mut index = ground.repository.index().unwrap();
    let id = Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let entry = compare::Entry { id, mode: 0o160_000 };
    index.add(&restore::index_entry(Path::new("sub"), entry)).unwrap();
    index.write().unwrap();
    let head = commit_index(&ground.repository, &mut index);
    let lineage = ground.begin();
    assert!(lineage.workspace().join("sub").is_dir());
    assert_eq!(lineage.changes(&head, &ground.sources).unwrap(), Changes::default());
}
