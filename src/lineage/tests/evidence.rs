//! Evidence: a history of its own, found again from a commit.

use super::*;

fn file(path: &str, text: &str) -> (String, Vec<u8>) {
    (path.to_owned(), text.as_bytes().to_vec())
}

#[test]
fn files_are_added_replaced_and_committed_once() {
    let ground = Ground::new();
    let before = ground.users();
    let lineage = ground.begin();
    assert_eq!(lineage.stored("manifest.toml").unwrap(), None);
    let one = lineage.store(&[file("manifest.toml", "a"), file("rounds/round-2/summary.md", "b")], "begins").unwrap();
    let two = lineage.store(&[file("rounds/round-2/evidence.json", "{}")], "round 2").unwrap();
    assert_eq!(lineage.parent(&two).unwrap(), Some(one.clone()));
    assert_eq!(lineage.parent(&one).unwrap(), None, "no part of the code's history");
    assert_eq!(lineage.store(&[file("rounds/round-2/evidence.json", "{}")], "again").unwrap(), two);
    assert_eq!(lineage.store(&[], "nothing").unwrap(), two);
    lineage.store(&[file("manifest.toml", "c")], "corrected").unwrap();
    assert_eq!(lineage.stored("manifest.toml").unwrap().unwrap(), b"c");
    assert_eq!(lineage.stored("rounds/round-2/summary.md").unwrap().unwrap(), b"b");
    assert_eq!(lineage.stored("rounds").unwrap(), None);
    assert_eq!(evidence_of(&ground.workspace, CAMPAIGN, "manifest.toml").unwrap().unwrap(), b"c");
    assert_eq!(evidence_of(&ground.workspace, "other", "manifest.toml").unwrap(), None);
    assert_eq!(ground.users(), before);
}

#[test]
fn a_path_that_leads_elsewhere_is_not_stored() {
    let ground = Ground::new();
    let lineage = ground.begin();
    for path in ["", "/etc/passwd", "../x", "a/../b", ".git/config", "a/.git/b"] {
        assert!(lineage.store(&[file(path, "x")], "no").is_err(), "{path}");
    }
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/evidence")), None);
}

#[test]
fn a_commit_tells_its_campaign() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let first = ground.capture(&lineage, &head, 2, "int faster;\n");
    let one = lineage.accept(&first.commit, &head, "round 2").unwrap();
    let second = ground.capture(&lineage, &one, 3, "int fastest;\n");
    let two = lineage.accept(&second.commit, &one, "round 3").unwrap();
    lineage.remove_worktree().unwrap();
    for commit in [&first.commit, &second.commit, &one, &two] {
        assert_eq!(campaign_of(&ground.workspace, commit).unwrap().as_deref(), Some(CAMPAIGN), "{commit}");
    }
    assert_eq!(campaign_of(&ground.workspace, BRANCH).unwrap().as_deref(), Some(CAMPAIGN));
    assert_eq!(campaign_of(&ground.workspace, &head).unwrap(), None, "the base belongs to nobody");
    assert!(refusal(campaign_of(&ground.workspace, "no-such")).contains("there is no commit"));
    // The next campaign begins where this one ended, and each keeps its own.
    let folder = ground.workspace.join(".kopt/worktrees/second");
    let place = Place { campaign: "second", branch: Some("kopt/second"), folder: &folder, ..ground.place(&two) };
    let next = Lineage::begin(place).unwrap();
    let third = ground.capture(&next, &two, 2, "int last;\n");
    let three = next.accept(&third.commit, &two, "round 2").unwrap();
    assert_eq!(campaign_of(&ground.workspace, &three).unwrap().as_deref(), Some("second"));
    assert_eq!(campaign_of(&ground.workspace, &two).unwrap().as_deref(), Some(CAMPAIGN));
}
