//! The branch moves once, from where it stood, or not at all.

use kopt_schema::exit::Exit;

use super::*;

#[test]
fn accepting_commits_the_candidate_and_the_worktree_follows() {
    let mut ground = Ground::new();
    ground.write("src/lib.rs", "// put away\n");
    let who = Signature::now("Somebody", "somebody@example.org").unwrap();
    ground.repository.stash_save(&who, "mine", None).unwrap();
    ground.write("src/lib.rs", "// an edit of the user's\n");
    let (head, before) = (ground.head(), ground.users());
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    lineage.reset(&head).unwrap();
    let accepted = lineage.accept(&candidate.commit, &head, "[optimize] faster\n\nKopt-Round: 2\n").unwrap();
    assert_ne!(accepted, candidate.commit);
    assert_eq!(lineage.tip().unwrap(), Some(accepted.clone()));
    assert_eq!(lineage.parent(&accepted).unwrap(), Some(head.clone()));
    assert_eq!(lineage.tree_of(&accepted).unwrap(), candidate.tree);
    assert_eq!(lineage.message(&accepted).unwrap(), "[optimize] faster\n\nKopt-Round: 2\n");
    assert_eq!(read(&lineage.workspace().join(SOURCE)), "int faster;\n");
    assert_clean(&lineage, &accepted);
    let second = ground.capture(&lineage, &accepted, 3, "int fastest;\n");
    let last = lineage.accept(&second.commit, &accepted, "round 3").unwrap();
    assert_clean(&lineage, &last);
    assert_eq!(ground.users(), before);
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")), None, "nothing of this was unfinished");
    let who = ground.repository.find_commit(Oid::from_str(&last).unwrap()).unwrap();
    assert_eq!(who.author().name().unwrap(), "Somebody");
}

#[test]
fn without_an_identity_the_tool_commits_unsigned() {
    let ground = Ground::new();
    let mut config = ground.repository.config().unwrap();
    config.set_str("user.name", "").unwrap();
    config.set_str("user.email", "").unwrap();
    config.set_str("commit.gpgsign", "true").unwrap();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &ground.head(), 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &ground.head(), "round 2").unwrap();
    let commit = ground.repository.find_commit(Oid::from_str(&accepted).unwrap()).unwrap();
    assert_eq!(commit.author().name().unwrap(), "cargo kopt");
    assert_eq!(commit.committer().email().unwrap(), "cargo-kopt@localhost");
    assert!(commit.header_field_bytes("gpgsig").is_err());
}

#[test]
fn accepting_again_changes_nothing() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_eq!(lineage.accept(&candidate.commit, &head, "round 2").unwrap(), accepted);
    // Killed after the branch moved and before the files and the events knew: as if never asked.
    write(&ground.folder.join(SOURCE), "int softmax;\n");
    let (lineage, repaired) = ground.open(&head);
    assert_eq!(repaired, Vec::<String>::new());
    assert_eq!(lineage.tip().unwrap(), Some(accepted.clone()), "what was accepted is not put back");
    lineage.reset(&head).unwrap();
    assert_eq!(lineage.tip().unwrap(), Some(accepted.clone()));
    assert_eq!(lineage.accept(&candidate.commit, &head, "round 2").unwrap(), accepted);
    assert_clean(&lineage, &accepted);
}

#[test]
fn a_commit_that_was_made_before_the_branch_moved_is_used() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    // Killed between the two references, some time ago.
    let find = |id: &str| ground.repository.find_commit(Oid::from_str(id).unwrap()).unwrap();
    let who = Signature::new("Somebody", "somebody@example.org", &git2::Time::new(1_000_000_000, 0)).unwrap();
    let tree = find(&candidate.commit).tree().unwrap();
    let made = ground.repository.commit(None, &who, &who, "round 2", &tree, &[&find(&head)]).unwrap();
    ground.repository.reference(&format!("refs/kopt/{CAMPAIGN}/accepted"), made, true, "killed").unwrap();
    let (lineage, _) = ground.open(&head);
    assert_eq!(lineage.tip().unwrap(), Some(head.clone()));
    assert_eq!(lineage.accept(&candidate.commit, &head, "round 2").unwrap(), made.to_string());
}

#[test]
fn a_reference_is_swapped_only_from_what_was_expected() {
    let ground = Ground::new();
    let one = Oid::from_str(&ground.head()).unwrap();
    ground.write("src/lib.rs", "// second\n");
    let two = Oid::from_str(&ground.commit()).unwrap();
    let swap = |id, expected| references::swap(&ground.repository, "refs/kopt/x/y", id, expected, "test").unwrap();
    assert!(!swap(one, Some(two)), "it is not there");
    assert!(swap(one, None));
    assert!(!swap(two, None), "it is there");
    assert!(!swap(two, Some(two)));
    assert_eq!(ground.target("refs/kopt/x/y"), Some(one.to_string()));
    assert!(swap(two, Some(one)));
    assert_eq!(ground.target("refs/kopt/x/y"), Some(two.to_string()));
}

#[test]
fn a_branch_that_somebody_moved_is_not_overwritten() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    ground.write("src/lib.rs", "// the user's\n");
    let foreign = ground.commit();
    let id = Oid::from_str(&foreign).unwrap();
    ground.repository.reference(&format!("refs/heads/{BRANCH}"), id, true, "moved").unwrap();
    let error = lineage.accept(&candidate.commit, &head, "round 2").unwrap_err();
    assert_eq!(error.exit(), Exit::Locked);
    let said = refusal(lineage.accept(&candidate.commit, &head, "round 2"));
    assert!(said.contains("was moved") && said.contains(&format!("it is at {foreign}; expected {head}")), "{said}");
    assert_eq!(lineage.tip().unwrap(), Some(foreign.clone()));
    let (lineage, repaired) = Lineage::open(ground.place(&head), &head).unwrap();
    assert!(repaired.iter().any(|words| words.contains("saved-")), "{repaired:?}");
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")), Some(foreign));
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    assert_clean(&lineage, &accepted);
}

#[test]
fn a_branch_that_was_deleted_is_made_again() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    ground.repository.find_reference(&format!("refs/heads/{BRANCH}")).unwrap().delete().unwrap();
    let next = lineage.capture(&accepted, 3, 1, &ground.sources, "x").unwrap();
    assert_eq!(lineage.accept(&next.commit, &accepted, "round 3").unwrap_err().exit(), Exit::Locked);
    let (lineage, repaired) = ground.open(&accepted);
    assert!(repaired[0].contains("was gone"), "{repaired:?}");
    assert_clean(&lineage, &accepted);
}

#[test]
fn a_branch_that_the_user_has_checked_out_meanwhile_stops_the_campaign() {
    let ground = Ground::new();
    let head = ground.head();
    ground.begin().remove_worktree().unwrap();
    ground.repository.set_head(&format!("refs/heads/{BRANCH}")).unwrap();
    let error = Lineage::open(ground.place(&head), &head).err().unwrap();
    assert_eq!(error.exit(), Exit::Locked);
    assert!(!ground.folder.exists());
    ground.repository.set_head("refs/heads/main").unwrap();
    assert_clean(&ground.open(&head).0, &head);
}

#[test]
fn only_a_candidate_against_the_incumbent_is_accepted() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let first = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&first.commit, &head, "round 2").unwrap();
    assert_eq!(lineage.accept(&first.commit, &accepted, "round 3").unwrap_err().exit(), Exit::Internal);
    assert_eq!(lineage.tip().unwrap(), Some(accepted));
}

#[test]
fn without_a_branch_accepted_commits_are_kept_aside() {
    let ground = Ground::new();
    let head = ground.head();
    let place = Place { branch: None, ..ground.place(&head) };
    let lineage = Lineage::begin(place).unwrap();
    let first = ground.capture(&lineage, &head, 2, "int faster;\n");
    let one = lineage.accept(&first.commit, &head, "round 2").unwrap();
    assert_clean(&lineage, &one);
    assert_eq!(lineage.accept(&first.commit, &head, "round 2").unwrap(), one);
    let second = ground.capture(&lineage, &one, 3, "int fastest;\n");
    let two = lineage.accept(&second.commit, &one, "round 3").unwrap();
    assert_eq!(lineage.tip().unwrap(), Some(two.clone()));
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/accepted")), Some(two.clone()));
    assert_eq!(ground.repository.branches(None).unwrap().count(), 1, "no branch but main");
    let stale = lineage.capture(&head, 4, 1, &ground.sources, "x").unwrap();
    assert_eq!(lineage.accept(&stale.commit, &head, "round 4").unwrap_err().exit(), Exit::Locked);
    let (lineage, repaired) = Lineage::open(place, &two).unwrap();
    assert_eq!(repaired, Vec::<String>::new());
    assert_clean(&lineage, &two);
}

#[test]
fn an_accept_that_was_begun_is_finished_whatever_its_message_or_withdrawn() {
    for branch in [Some(BRANCH), None] {
        let ground = Ground::new();
        let head = ground.head();
        let place = Place { branch, ..ground.place(&head) };
        let lineage = Lineage::begin(place).unwrap();
        let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
        assert_eq!(lineage.take_up(&candidate.commit, &head).unwrap(), None, "nothing was begun");
        let accepted = lineage.accept(&candidate.commit, &head, "as another version would say it").unwrap();
        // Killed before it could be written down.
        let (lineage, _) = Lineage::open(place, &head).unwrap();
        assert_eq!(lineage.take_up(&candidate.commit, &head).unwrap(), Some(accepted.clone()));
        assert_clean(&lineage, &accepted);
        let other = lineage.capture(&head, 3, 1, &[], "x").unwrap();
        assert_eq!(lineage.take_up(&other.commit, &head).unwrap(), None, "another candidate");
        // It is rolled back all the same: the incumbent stands, and the next round can be accepted.
        lineage.withdraw(&head).unwrap();
        assert_eq!(lineage.tip().unwrap(), Some(head.clone()));
        lineage.reset(&head).unwrap();
        assert_clean(&lineage, &head);
        let saved = ground.repository.references_glob(&format!("refs/kopt/{CAMPAIGN}/saved-*")).unwrap();
        assert!(saved.flatten().any(|one| one.target().unwrap().to_string() == accepted), "it is kept");
        assert_eq!(lineage.take_up(&candidate.commit, &head).unwrap(), None);
        let next = ground.capture(&lineage, &head, 3, "int fastest;\n");
        let next = lineage.accept(&next.commit, &head, "round 3").unwrap();
        lineage.withdraw(&next).unwrap();
        assert_eq!(lineage.tip().unwrap(), Some(next.clone()), "what is written down is not withdrawn");
        assert_clean(&lineage, &next);
    }
}

#[test]
fn an_accept_is_finished_from_between_its_two_references() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let candidate = ground.capture(&lineage, &head, 2, "int faster;\n");
    let accepted = lineage.accept(&candidate.commit, &head, "round 2").unwrap();
    let id = Oid::from_str(&head).unwrap();
    ground.repository.reference(&format!("refs/heads/{BRANCH}"), id, true, "killed").unwrap();
    let (lineage, _) = ground.open(&head);
    assert_eq!(lineage.tip().unwrap(), Some(head.clone()));
    assert_eq!(lineage.take_up(&candidate.commit, &head).unwrap(), Some(accepted.clone()));
    assert_clean(&lineage, &accepted);
}
