//! What a proposer may not do, and that it cannot hide it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn forbidden(lineage: &Lineage, ground: &Ground) -> Vec<(String, String)> {
    let found = lineage.changes(&ground.head(), &ground.sources).unwrap();
    found.forbidden.into_iter().map(|found| (found.path.into_string(), found.what)).collect()
}

fn pair(path: &str, what: &str) -> (String, String) {
    (path.to_owned(), what.to_owned())
}

#[test]
fn sources_may_change_and_nothing_else() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let at = |path: &str| lineage.workspace().join(path);
    write(&at(SOURCE), "int faster;\n");
    write(&at("src/lib.rs"), "// cheat\n");
    write(&at("tests/new.rs"), "");
    write(&at("target/cache"), "");
    write(&at("build/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n# and so on");
    write(&at("build/object"), "");
    fs::remove_file(at(".gitignore")).unwrap();
    fs::set_permissions(at("Cargo.toml"), fs::Permissions::from_mode(0o755)).unwrap();
    let found = lineage.changes(&ground.head(), &ground.sources).unwrap();
    assert_eq!(found.changed, [SOURCE]);
    assert_eq!(
        forbidden(&lineage, &ground),
        [
            pair(".gitignore", "deleted"),
            pair("Cargo.toml", "mode changed"),
            pair("src/lib.rs", "changed"),
            // Without the rule that ignores it, it is a file like any other.
            pair("target/cache", "added"),
            pair("tests/new.rs", "added"),
        ]
    );
}

#[test]
fn a_source_must_stay_a_plain_file() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let source = lineage.workspace().join(SOURCE);
    fs::remove_file(&source).unwrap();
    assert_eq!(forbidden(&lineage, &ground), [pair(SOURCE, "deleted")]);
    symlink("softmax.h", &source).unwrap();
    assert_eq!(forbidden(&lineage, &ground), [pair(SOURCE, "now a link")]);
    fs::remove_file(&source).unwrap();
    write(&source, "int softmax;\n");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(forbidden(&lineage, &ground), [pair(SOURCE, "mode changed")]);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&source, vec![b' '; (4 << 20) + 1]).unwrap();
    assert_eq!(forbidden(&lineage, &ground), [pair(SOURCE, "larger than 4 MiB")]);
}

#[test]
fn the_index_hides_nothing() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let opened = Repository::open(&ground.folder).unwrap();
    let mut index = opened.index().unwrap();
    write(&ground.folder.join("src/lib.rs"), "// staged\n");
    index.add_path(Path::new("src/lib.rs")).unwrap();
    write(&ground.folder.join("staged.txt"), "");
    index.add_path(Path::new("staged.txt")).unwrap();
    let mut entry = index.get_path(Path::new("Cargo.toml"), 0).unwrap();
    entry.flags |= 0x8000;
    index.add(&entry).unwrap();
    index.write().unwrap();
    write(&ground.folder.join("Cargo.toml"), "[workspace]\n# hidden by a flag\n");
    assert_eq!(
        forbidden(&lineage, &ground),
        [pair("Cargo.toml", "changed"), pair("src/lib.rs", "changed"), pair("staged.txt", "added")]
    );
    let (lineage, _) = ground.open(&ground.head());
    lineage.reset(&ground.head()).unwrap();
    assert_clean(&lineage, &ground.head());
    let mut index = Repository::open(&ground.folder).unwrap().index().unwrap();
    index.read(true).unwrap();
    assert_eq!(index.get_path(Path::new("Cargo.toml"), 0).unwrap().flags & 0x8000, 0);
}

#[test]
fn an_index_that_cannot_be_read_is_written_again() {
    let ground = Ground::new();
    drop(ground.begin());
    fs::write(ground.registration().join("index"), "garbage").unwrap();
    let (lineage, _) = ground.open(&ground.head());
    lineage.reset(&ground.head()).unwrap();
    assert_clean(&lineage, &ground.head());
}

#[test]
fn a_commit_by_the_agent_is_seen_kept_and_put_back() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let opened = Repository::open(&ground.folder).unwrap();
    write(&ground.folder.join(SOURCE), "int faster;\n");
    let mut index = opened.index().unwrap();
    index.add_path(Path::new(SOURCE)).unwrap();
    index.write().unwrap();
    let foreign = commit_index(&opened, &mut index);
    assert_eq!(forbidden(&lineage, &ground), [pair(BRANCH, "the branch was moved")]);
    lineage.reset(&head).unwrap();
    assert_clean(&lineage, &head);
    assert_eq!(lineage.tip().unwrap(), Some(head.clone()));
    let kept: Vec<_> = (1..=2).filter_map(|n| ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-{n}"))).collect();
    assert!(kept.contains(&foreign), "{kept:?}");
}

#[test]
fn a_worktree_that_was_led_elsewhere_comes_back() {
    let ground = Ground::new();
    let head = ground.head();
    let lineage = ground.begin();
    let opened = Repository::open(&ground.folder).unwrap();
    opened.set_head_detached(Oid::from_str(&head).unwrap()).unwrap();
    assert_eq!(forbidden(&lineage, &ground), [pair(BRANCH, "the branch was moved")]);
    let foreign = commit_index(&opened, &mut opened.index().unwrap());
    fs::write(opened.path().join("MERGE_HEAD"), format!("{head}\n")).unwrap();
    let (lineage, repaired) = ground.open(&head);
    assert_eq!(repaired.len(), 2, "{repaired:?}");
    assert_eq!(ground.target(&format!("refs/kopt/{CAMPAIGN}/saved-1")), Some(foreign));
    lineage.reset(&head).unwrap();
    assert_eq!(Repository::open(&ground.folder).unwrap().state(), git2::RepositoryState::Clean);
    assert_clean(&lineage, &head);
}

#[test]
fn a_source_that_is_new_and_ignored_is_seen() {
    let mut ground = Ground::new();
    let lineage = ground.begin();
    ground.sources.push("target/made.c".into());
    assert_eq!(forbidden(&lineage, &ground), []);
    write(&lineage.workspace().join("target/made.c"), "");
    assert_eq!(forbidden(&lineage, &ground), [pair("target/made.c", "added")]);
}

#[test]
fn what_an_agent_made_unreadable_is_readable_again() {
    let ground = Ground::new();
    let lineage = ground.begin();
    let at = |path: &str| lineage.workspace().join(path);
    let mode = |path: &str| at(path).metadata().unwrap().permissions().mode() & 0o777;
    let set = |path: &str, mode: u32| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    write(&at(SOURCE), "int faster;\n");
    write(&at("mine/new"), "");
    for path in [SOURCE, "src/lib.rs", "mine/new", "kernels", "src", "mine"] {
        set(path, 0);
    }
    let found = lineage.changes(&ground.head(), &ground.sources).unwrap();
    assert_eq!(found.changed, [SOURCE]);
    assert_eq!(forbidden(&lineage, &ground), [pair("mine/new", "added")]);
    for (path, wanted) in [(SOURCE, 0o600), ("src/lib.rs", 0o600), ("mine/new", 0o600), ("kernels", 0o700)] {
        assert_eq!(mode(path), wanted, "{path}");
    }
    // A file that may be read stays as it is; a folder in which nothing can be written does not.
    set("src/lib.rs", 0o440);
    set("src", 0o555);
    lineage.reset(&ground.head()).unwrap();
    assert_eq!((mode("src/lib.rs"), mode("src")), (0o440, 0o755));
    assert_clean(&lineage, &ground.head());
}
