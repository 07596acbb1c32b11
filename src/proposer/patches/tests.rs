//! Real patches on real repositories; what comes of them is compared with what `git apply` makes of them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use kopt_schema::campaign::event::Reason;
use kopt_schema::campaign::{Bucket, Category};
use kopt_schema::queue::Truth;

use super::*;
use crate::proposer::tests::World;

const HEADER: &str = "Title: A title\nHypothesis: Because\n\n";

/// Every file below `folder` by its path, with its bytes and whether it can be run.
fn files(folder: &Utf8Path) -> BTreeMap<Utf8PathBuf, (Vec<u8>, bool)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            if path.file_name() == Some(".git") || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let runs = path.metadata().unwrap().permissions().mode() & 0o100 != 0;
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), (fs::read(&path).unwrap(), runs));
            }
        }
    }
    found
}

fn lay_out(folder: &Utf8Path, files: &BTreeMap<Utf8PathBuf, (Vec<u8>, bool)>) {
    let _ = fs::remove_dir_all(folder);
    for (path, (bytes, _)) in files {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), bytes).unwrap();
    }
}

/// What `git apply` makes of a folder.
fn by_git(folder: &Utf8Path, patch: &Utf8Path) -> bool {
    let mut command = Command::new("git");
    command.args(["apply", "-p1", "--whitespace=nowarn"]).arg(patch).current_dir(folder);
    command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap().status.success()
}

/// A queue of these patches, each with a header.
fn queue(world: &World, patches: &[(&str, &str)]) -> Patches {
    let folder = world.root.join("queue");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (name, diff) in patches {
        fs::write(folder.join(name), format!("{HEADER}{diff}")).unwrap();
    }
    Patches::new(folder, "the queue".into()).unwrap()
}

fn refused(world: &World, diff: &str) -> (Reason, String) {
    let mut patches = queue(world, &[("p.patch", diff)]);
    let before = files(&world.root);
    let answer = world.ask(&mut patches).unwrap();
    assert_eq!(files(&world.root), before, "something was changed by:\n{diff}");
    match answer.outcome {
        Outcome::Failed { reason, message } => (reason, message),
        other => panic!("{other:?}"),
    }
}

/// Applies a patch to the crate, and to a copy with git; both must agree.
fn agreed(world: &World, diff: &str) {
    let mut patches = queue(world, &[("p.patch", diff)]);
    let copy = world.root.join("copy");
    lay_out(&copy, &files(&world.crate_folder()));
    assert!(by_git(&copy, &world.root.join("queue/p.patch")), "git refuses:\n{diff}");
    let answer = world.ask(&mut patches).unwrap();
    assert!(matches!(answer.outcome, Outcome::Change(_)), "{answer:?}");
    assert_eq!(files(&world.crate_folder()), files(&copy));
}

#[test]
fn every_queue_of_the_examples_applies_in_order_as_git_applies_it() {
    let examples = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("example-kernels");
    let mut applied = 0;
    let folders = examples.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
    for source in folders.filter(|folder| folder.join("Cargo.toml").exists()) {
        let mut world = World::new();
        let kernel = source.file_name().unwrap();
        let mut before: BTreeMap<_, _> = files(&source)
            .into_iter()
            .filter(|(path, _)| path.starts_with("kernels") || path.starts_with("src"))
            .collect();
        let mut patches = Patches::new(source.join("patches"), kernel.into()).unwrap();
        let oracle = world.root.join("oracle");
        loop {
            lay_out(&world.crate_folder(), &before);
            lay_out(&oracle, &before);
            let proposal = match world.ask(&mut patches).unwrap().outcome {
                Outcome::Change(proposal) => proposal,
                Outcome::Nothing => break,
                failed => panic!("{kernel}: {failed:?}"),
            };
            let name = proposal.source.unwrap();
            assert!(by_git(&oracle, &source.join("patches").join(&name)), "{name}");
            let after = files(&world.crate_folder());
            assert!(after != before && after == files(&oracle), "{kernel}: {name}");
            assert!(proposal.category.is_some() && proposal.bucket == Some(Bucket::K1), "{name}");
            let text = fs::read_to_string(source.join("patches").join(&name)).unwrap();
            if PatchHeader::parse(&text).unwrap().truth == Some(Truth::Helps) {
                before = after;
            }
            world.used.push(name);
            applied += 1;
        }
        assert!(world.used.is_sorted());
    }
    assert!(applied >= 40, "{applied}");
}

#[test]
fn each_patch_is_proposed_once_and_then_there_are_none() {
    let mut world = World::new();
    let change =
        |from: &str, to: &str| format!("--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -1,2 +1,2 @@\n-{from}\n+{to}\n two\n");
    let patches = [("2.patch", change("1", "2")), ("1.patch", change("one", "1")), ("0.patch", change("zero", "one"))];
    let patches = patches.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mut one = queue(&world, &patches);
    world.used = vec!["0.patch".into()];
    for wanted in ["1.patch", "2.patch"] {
        let Outcome::Change(proposal) = world.ask(&mut one).unwrap().outcome else { panic!("{wanted}") };
        assert_eq!((proposal.source.as_deref(), proposal.title.as_str()), (Some(wanted), "A title"));
        assert!(one.has_more(&world.used));
        world.used.push(wanted.into());
    }
    assert_eq!(world.read("kernels/k.c").lines().next(), Some("2"));
    assert!(!one.has_more(&world.used) && !one.can_retry());
    assert_eq!(world.ask(&mut one).unwrap().outcome, Outcome::Nothing);
    // One that fails says which it was, so that it can be used up, too.
    world.used.clear();
    world.write("kernels/k.c", "one\ntwo\n");
    let failed = world.ask(&mut queue(&world, &patches)).unwrap();
    assert!(matches!(failed.outcome, Outcome::Failed { reason: Reason::DoesNotApply, .. }));
    assert_eq!(failed.source.as_deref(), Some("0.patch"));
    assert_eq!(failed.said.map(|said| said.title).as_deref(), Some("A title"));
    world.write("kernels/k.c", "1\ntwo\n");
    let mut single = Patches::one(world.root.join("queue/2.patch"), "patch x".into()).unwrap();
    assert!(matches!(world.ask(&mut single).unwrap().outcome, Outcome::Change(_)));
    assert_eq!(single.name(), "patch x");
}

#[test]
fn what_does_not_fit_says_where_and_changes_nothing() {
    let world = World::new();
    world.write("kernels/other.c", "a\nb\nc\n");
    let fits = "--- a/kernels/other.c\n+++ b/kernels/other.c\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n";
    let first = "--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n";
    let (reason, message) = refused(&world, &format!("{fits}{first}@@ -5,3 +5,3 @@\n five\n-SIX\n+6\n seven\n"));
    assert_eq!(reason, Reason::DoesNotApply);
    assert_eq!(
        message,
        "p.patch: hunk 2 (line 16 of the patch) of `work/softmax/kernels/k.c`: its lines are not at 5 nor elsewhere"
    );
    let cases = [
        (
            "--- a/kernels/no.c\n+++ b/kernels/no.c\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n",
            "there is no file `work/softmax/kernels/no.c`",
        ),
        ("--- /dev/null\n+++ b/kernels/k.c\n@@ -0,0 +1 @@\n+a\n", "`work/softmax/kernels/k.c` is there already"),
        ("--- a/kernels/other.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", "do not end the file"),
        ("--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -3,0 +4 @@\n+a\n", "no lines to find its place by"),
        (
            "--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -2,2 +2,2 @@\n-two\n+2\n three\n\\ No newline at end of file\n",
            "not at 2",
        ),
        ("--- a/kernels\n+++ b/kernels\n@@ -1,2 +1,2 @@\n-two\n+2\n three\n", "is no plain file"),
    ];
    for (diff, part) in cases {
        let (reason, message) = refused(&world, diff);
        assert!(
            reason == Reason::DoesNotApply && message.starts_with("p.patch: ") && message.contains(part),
            "{message}"
        );
    }
    world.write("kernels/k.c", b"one\nt\xffo\nthree\n");
    assert!(refused(&world, first).1.ends_with("is not UTF-8"));
}

#[test]
fn a_disk_that_is_full_is_not_charged_to_a_patch() {
    use rustix::io::Errno;
    for (error, is_the_machine) in [
        (Errno::NOSPC, true),
        (Errno::DQUOT, true),
        (Errno::IO, true),
        (Errno::ROFS, true),
        (Errno::FBIG, true),
        (Errno::ACCESS, false),
        (Errno::ISDIR, false),
        (Errno::NAMETOOLONG, false),
    ] {
        assert_eq!(apply::is_of_the_machine(&std::io::Error::from(error)), is_the_machine, "{error}");
    }
    assert!(!apply::is_of_the_machine(&std::io::Error::other("no space left")));
}

#[test]
fn a_hunk_that_has_moved_is_found_where_only_one_place_has_its_lines() {
    let world = World::new();
    let hunk = "--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n";
    world.write("kernels/k.c", "x\nx\nx\ntwo\nthree\nfour\nend\n");
    agreed(&world, hunk);
    world.write("kernels/k.c", "x\nx\nx\ntwo\nthree\nfour\nx\ntwo\nthree\nfour\nend\n");
    assert!(refused(&world, hunk).1.ends_with("its lines are not at 2, but at 4 and 8"));
    // The second of two is looked for as far off as the first was found.
    world.write("kernels/k.c", "x\ny\nz\na\nb\nc\nd\nx\ny\nz\n\nx\ny\nz\n");
    let two = format!(
        "{}@@ -6,3 +6,3 @@\n x\n-y\n+Y\n z\n",
        hunk.replace("two", "a").replace("three", "b").replace("four", "c")
    );
    let mut patches = queue(&world, &[("p.patch", &two)]);
    assert!(matches!(world.ask(&mut patches).unwrap().outcome, Outcome::Change(_)));
    assert_eq!(
        world.read("kernels/k.c"),
        "x\ny\nz\na\n3\nc\nd\nx\ny\nz\n\nx\ny\nz\n".replacen("d\nx\ny", "d\nx\nY", 1)
    );
    // At the line it names there is nothing to choose.
    world.write("kernels/k.c", "x\ntwo\nthree\nfour\nx\ntwo\nthree\nfour\nend\n");
    agreed(&world, hunk);
    assert_eq!(world.read("kernels/k.c"), "x\ntwo\n3\nfour\nx\ntwo\nthree\nfour\nend\n");
}

#[test]
fn files_are_made_removed_moved_and_copied_and_ends_of_lines_kept_as_git_does_it() {
    let cases = [
        "diff --git a/kernels/new/x.c b/kernels/new/x.c\nnew file mode 100644\n--- /dev/null\n+++ b/kernels/new/x.c\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n",
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+a\n",
        "diff --git a/a b.c b/a b.c\nnew file mode 100644\nindex 0000000..e69de29\n",
        "diff --git a/kernels/k.c b/kernels/k.c\nold mode 100644\nnew mode 100755\n",
        "diff --git a/kernels/short.c b/kernels/short.c\ndeleted file mode 100644\n--- a/kernels/short.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n",
        "diff --git a/kernels/short.c b/kernels/short.c\n--- a/kernels/short.c\n+++ b/kernels/short.c\n@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+b\n+c\n",
        "diff --git a/kernels/k.c b/moved.c\nsimilarity index 100%\nrename from kernels/k.c\nrename to moved.c\n",
        "diff --git a/kernels/k.c b/moved.c\nsimilarity index 80%\nrename from kernels/k.c\nrename to moved.c\n--- a/kernels/k.c\n+++ b/moved.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n",
        "diff --git a/kernels/k.c b/copied.c\nsimilarity index 80%\ncopy from kernels/k.c\ncopy to copied.c\n--- a/kernels/k.c\n+++ b/copied.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n",
        "diff --git a/kernels/dos.c b/kernels/dos.c\n--- a/kernels/dos.c\n+++ b/kernels/dos.c\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n",
        "diff --git a/Cargo.toml b/Cargo.toml\n--- a/Cargo.toml\n+++ b/Cargo.toml\n@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n-- \n2.40.0\n\n",
    ];
    for diff in cases {
        let world = World::new();
        world.write("kernels/short.c", "a\nb");
        world.write("kernels/dos.c", "a\r\nb\r\nc\r\nd\r\n");
        world.write("Cargo.toml", "a\n\nb\n");
        agreed(&world, diff);
    }
    let world = World::new();
    world.write("kernels/dos.c", "a\nb\nc\nd\n");
    assert!(refused(&world, cases[9]).1.contains("not at 1 nor elsewhere"));
}

#[test]
fn a_patch_may_leave_the_crate_and_never_the_repository() {
    let world = World::new();
    let make = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+a\n");
    // Whether it may is for the engine to say, by the path.
    assert!(matches!(
        world.ask(&mut queue(&world, &[("p.patch", &make("../../top.c"))])).unwrap().outcome,
        Outcome::Change(_)
    ));
    assert_eq!(fs::read_to_string(world.top().join("top.c")).unwrap(), "a\n");
    fs::create_dir_all(world.root.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.root.join("elsewhere"), world.crate_folder().join("link")).unwrap();
    for (path, part) in [
        ("../../../out.c", "outside of the repository"),
        ("kernels/../../../../out.c", "outside of the repository"),
        ("../../.git/hooks/pre-commit", "belongs to git"),
        ("link/out.c", "symbolic link"),
        ("../..", "is no file"),
    ] {
        let (reason, message) = refused(&world, &make(path));
        assert!(reason == Reason::Forbidden && message.contains(part), "{message}");
    }
    std::os::unix::fs::symlink(world.root.join("elsewhere/f"), world.crate_folder().join("f.c")).unwrap();
    assert!(refused(&world, &make("f.c")).1.contains("is no plain file"));
}

#[test]
fn all_that_is_wrong_with_a_queue_is_told_when_it_is_opened() {
    let world = World::new();
    let folder = world.root.join("queue");
    fs::create_dir_all(&folder).unwrap();
    let diff = "--- a/k.c\n+++ b/k.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";
    let head = |line: &str| format!("Title: t\nHypothesis: h\n{line}\n\n{diff}");
    let body = |diff: &str| format!("{HEADER}{diff}");
    let cases: Vec<(String, &str)> = vec![
        (head("Category: algoritm and fusion"), "did you mean `algorithm and fusion`?"),
        (head("Category: magic"), "known: tile and launch shape; "),
        (head("Category: over-fitting"), "no direction that a change may take"),
        (head("Bucket: K11"), "did you mean `K1`?"),
        (head("Buckte: K1"), "did you mean `Bucket`?"),
        (format!("Title: t\n\n{diff}"), "`Hypothesis` is missing"),
        (HEADER.to_owned(), "it has no diff"),
        (body(diff).replace('\n', "\r\n"), "end in CR LF"),
        (body("diff --git a/k b/k\nindex 1..2 100644\nGIT binary patch\nliteral 3\n"), "line 6: a binary change"),
        (body("diff --git a/k b/k\nBinary files a/k and b/k differ\n"), "line 5: a binary change"),
        (
            body("diff --git a/k b/k\nnew file mode 120000\n--- /dev/null\n+++ b/k\n@@ -0,0 +1 @@\n+x\n"),
            "line 5: a symbolic link",
        ),
        (body("--- /etc/passwd\n+++ /etc/passwd\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"), "`/etc/passwd` is absolute"),
        (body("--- k.c\n+++ k.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"), "does not start with `a/`"),
        (body("--- \"a/k\\303.c\"\n+++ b/k.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"), "not supported"),
        (body(&diff.replace("1,2 +1,2", "1,3 +1,3")), "ends before the hunk does"),
        (body(&format!("{diff} three\n")), "line 10: more lines than the hunk before it says"),
        (body(&diff.replace("@@ -1,2", "@@ 1,2")), "does not read `@@"),
        (body(&diff.replace("+1\n", "+one\n")), "a hunk that changes nothing"),
        (body("diff --git a/k b/k\nindex 1..2 100644\n"), "a file that does not change"),
        (body(diff).trim_end().to_owned(), "in the middle of a line"),
    ];
    for (index, (text, _)) in cases.iter().enumerate() {
        fs::write(folder.join(format!("{index:02}.patch")), text).unwrap();
    }
    fs::write(folder.join("99.patch"), b"Title: t\nHypothesis: \xff\n").unwrap();
    fs::write(folder.join("notes.txt"), "no patch").unwrap();
    let error = Patches::new(folder.clone(), "q".into()).unwrap_err().failure();
    assert_eq!(error.message, format!("{} patches cannot be used", cases.len() + 1));
    assert_eq!(error.causes.len(), cases.len() + 1);
    for (index, (cause, (_, part))) in error.causes.iter().zip(&cases).enumerate() {
        assert!(
            cause.starts_with(&format!("`{folder}/{index:02}.patch`: ")) && cause.contains(part),
            "{part}: {cause}"
        );
    }
    assert!(error.causes[cases.len()].ends_with("99.patch`: line 2 is not UTF-8"));
    let one = Patches::one(folder.join("06.patch"), "p".into()).unwrap_err();
    assert!(one.to_string().ends_with("06.patch`: it has no diff"), "{one}");
    let missing = Patches::one(folder.join("nowhere.patch"), "p".into()).unwrap_err();
    assert!(missing.to_string().contains("nowhere.patch"), "{missing}");
}

#[test]
fn the_header_becomes_the_proposal() {
    let world = World::new();
    let text = "Title: Tile\nHypothesis: two\n  lines\nExpected-Gain: 12%\nCategory: tile and launch shape\nBucket: K2\n\n\
                --- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";
    fs::write(world.root.join("p.patch"), text).unwrap();
    let mut patches = Patches::one(world.root.join("p.patch"), "p".into()).unwrap();
    let Outcome::Change(proposal) = world.ask(&mut patches).unwrap().outcome else { panic!("no change") };
    let wanted = Proposal {
        title: "Tile".into(),
        hypothesis: "two lines".into(),
        category: Some(Category::Shape),
        bucket: Some(Bucket::K2),
        expected_gain: Some("12%".into()),
        different: None,
        next: None,
        source: Some("p.patch".into()),
    };
    assert_eq!(proposal, wanted);
}

/// A small generator: the same edits on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn what_git_says_has_changed_can_be_changed_again() {
    let mut dice = Dice(7);
    let mut changed = 0;
    for _ in 0..300 {
        // Few different lines: most hunks would fit at several places.
        let line = |dice: &mut Dice| ["{\n", "}\n", "x\r\n", "\n", "- y\n", "z\n"][dice.roll(6)];
        let old: Vec<&str> = (0..dice.roll(60)).map(|_| line(&mut dice)).collect();
        let mut new = old.clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(new.len() + 1);
            match dice.roll(2) {
                0 => new.insert(at, line(&mut dice)),
                _ => drop((at < new.len()).then(|| new.remove(at))),
            }
        }
        let (mut old, mut new) = (old.concat(), new.concat());
        for text in [&mut old, &mut new] {
            if dice.roll(4) == 0 {
                text.truncate(text.trim_end_matches('\n').len());
            }
        }
        let path = Some(std::path::Path::new("k.c"));
        let mut patch = git2::Patch::from_buffers(old.as_bytes(), path, new.as_bytes(), path, None).unwrap();
        let Ok(text) = String::from_utf8(patch.to_buf().unwrap().to_vec()) else { panic!("not text") };
        if old == new || old.is_empty() || new.is_empty() {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(scratch.path()).unwrap();
        fs::write(top.join("k.c"), &old).unwrap();
        let changes = diff::parse(&text).unwrap_or_else(|error| panic!("{error} in:\n{text}"));
        apply::apply(&changes, top, Utf8Path::new("")).unwrap_or_else(|refusal| panic!("{refusal:?} of:\n{text}"));
        assert_eq!(fs::read_to_string(top.join("k.c")).unwrap(), new, "by:\n{text}");
        changed += 1;
    }
    assert!(changed > 200, "{changed}");
}
