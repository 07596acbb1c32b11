//! Real repositories in temporary folders.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use git2::{IndexAddOption, IndexEntry, IndexTime, Repository, Signature};
use kopt_build::scratch::Scratch;
use kopt_schema::exit::Exit;
use tempfile::TempDir;

use super::*;

struct Place {
    scratch: TempDir,
    repository: Repository,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let repository = Repository::init(scratch.path().join("repository")).unwrap();
        Self { scratch, repository }
    }

    fn top(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.scratch.path().join("repository")).unwrap()
    }

    fn exports(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.scratch.path().join("exports")).unwrap()
    }

    /// What is exported; the lock of those who export lies beside it.
    fn exported(&self) -> Vec<String> {
        let names = self.exports().read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned());
        names.filter(|name| name != "scratch.lock").collect()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.top().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits everything, and `also` as a submodule.
    fn commit(&self, submodule: Option<&str>) -> String {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        if let Some(path) = submodule {
            let id = git2::Oid::from_str("1234567890123456789012345678901234567890").unwrap();
            let time = IndexTime::new(0, 0);
            let entry = IndexEntry {
                ctime: time,
                mtime: time,
                dev: 0,
                ino: 0,
                mode: 0o160_000,
                uid: 0,
                gid: 0,
                file_size: 0,
                id,
                flags: 0,
                flags_extended: 0,
                path: path.into(),
            };
            index.add(&entry).unwrap();
        }
        index.write().unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Somebody", "somebody@example.org").unwrap();
        let parent = self.repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        self.repository.commit(Some("HEAD"), &who, &who, "change", &tree, &parents).unwrap().to_string()
    }

    fn revisions(&self, inside: &str) -> Revisions {
        Revisions::around(&self.top().join(inside), &self.exports()).unwrap()
    }

    fn export(&self, name: &str) -> Export {
        let revisions = self.revisions("");
        revisions.export(&revisions.resolve(name).unwrap()).unwrap()
    }
}

#[test]
fn a_revision_is_whatever_git_takes_for_one() {
    let place = Place::new();
    place.write("Cargo.toml", "1");
    let first = place.commit(None);
    place.write("Cargo.toml", "2");
    let second = place.commit(None);
    let commit = place.repository.find_commit(git2::Oid::from_str(&first).unwrap()).unwrap();
    place.repository.branch("feature", &commit, false).unwrap();
    place.repository.tag_lightweight("v1.0", commit.as_object(), false).unwrap();
    let revisions = place.revisions("");
    for (name, wanted) in
        [("HEAD", &second), ("HEAD~1", &first), ("feature", &first), ("v1.0", &first), (&first[..8], &first)]
    {
        assert_eq!(revisions.resolve(name).unwrap().commit, *wanted, "{name}");
    }
    assert_eq!(revisions.resolve("v1.0").unwrap().shown(), format!("v1.0 ({})", &first[..10]));
    assert_eq!(revisions.resolve(&first[..8]).unwrap().shown(), &first[..10]);
    let hint = |name: &str| revisions.resolve(name).unwrap_err().failure().hint.unwrap();
    assert_eq!(hint("featrue"), "did you mean `feature`?");
    assert!(hint("no-such-thing").contains("feature, ") && hint("no-such-thing").contains("v1.0"));
    assert!(revisions.resolve("HEAD~7").is_err() && revisions.resolve("").is_err());
    let tree = revisions.resolve("HEAD^{tree}").unwrap_err();
    assert_eq!(tree.to_string(), "`HEAD^{tree}` is a tree, not a commit");
}

#[test]
fn an_export_holds_the_bytes_of_its_commit_and_leaves_the_repository_alone() {
    let place = Place::new();
    place.write("Cargo.toml", "[workspace]\r\n");
    place.write("a/b/run.sh", "old");
    place.write(".gitattributes", "* text=auto eol=crlf\n");
    fs::set_permissions(place.top().join("a/b/run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    symlink("b/run.sh", place.top().join("a/link")).unwrap();
    place.commit(None);
    place.write("a/b/run.sh", "new");
    place.write("untracked", "x");
    let before = fs::read(place.top().join(".git/index")).unwrap();
    let export = place.export("HEAD");
    let read = |path: &str| fs::read_to_string(export.root.join(path)).unwrap();
    assert_eq!([read("a/b/run.sh"), read("a/link")], ["old", "old"]);
    assert!(!export.root.join("untracked").exists() && !export.root.join(".git").exists());
    assert!(fs::metadata(export.root.join("a/b/run.sh")).unwrap().mode() & 0o100 != 0);
    assert_eq!(fs::read(place.top().join(".git/index")).unwrap(), before);
    assert_eq!(fs::read_to_string(place.top().join("a/b/run.sh")).unwrap(), "new");
    assert!(export.left_out.is_empty());
    assert_eq!(place.exported(), [place.revisions("").resolve("HEAD").unwrap().commit]);
}

#[test]
fn an_export_is_used_again_untouched_unless_it_was_damaged() {
    let place = Place::new();
    place.write("Cargo.toml", "1");
    place.write("src/lib.rs", "2");
    place.commit(None);
    let export = place.export("HEAD");
    let file = export.root.join("src/lib.rs");
    let facts =
        |path: &Utf8Path| fs::metadata(path).map(|facts| (facts.ino(), facts.mtime(), facts.mtime_nsec())).unwrap();
    let first = facts(&file);
    assert_eq!(place.export("HEAD"), export);
    assert_eq!(facts(&file), first);
    let damage: [&dyn Fn(); 4] = [
        &|| fs::write(&file, "3").unwrap(),
        &|| fs::remove_file(&file).unwrap(),
        &|| fs::write(export.root.join("build.rs"), "fn main() {}").unwrap(),
        &|| fs::remove_dir_all(&export.root).unwrap(),
    ];
    for damage in damage {
        damage();
        assert_eq!(place.export("HEAD"), export);
        assert_eq!(fs::read_to_string(&file).unwrap(), "2");
        assert!(!export.root.join("build.rs").exists());
    }
    assert_eq!(place.exported().len(), 1);
}

#[test]
fn a_workspace_may_lie_in_a_folder_of_the_repository() {
    let place = Place::new();
    place.write("README", "");
    place.commit(None);
    place.write("kernels/Cargo.toml", "1");
    place.commit(None);
    let revisions = place.revisions("kernels");
    let export = revisions.export(&revisions.resolve("HEAD").unwrap()).unwrap();
    assert_eq!(export.workspace, export.root.join("kernels"));
    assert_eq!(fs::read_to_string(export.workspace.join("Cargo.toml")).unwrap(), "1");
    let before = revisions.export(&revisions.resolve("HEAD~1").unwrap()).unwrap_err();
    assert!(before.to_string().ends_with("has no Cargo.toml in `kernels`"), "{before}");
}

#[test]
fn a_lone_package_is_kept_apart_from_the_workspace_around_its_export() {
    let place = Place::new();
    place.write("Cargo.toml", "[package]\nname = \"a\"\n");
    place.commit(None);
    let text = |export: &Export| fs::read_to_string(export.workspace.join("Cargo.toml")).unwrap();
    let lone = place.export("HEAD");
    assert_eq!(text(&lone), "[package]\nname = \"a\"\n\n[workspace]\n");
    assert_eq!(place.export("HEAD"), lone);
    // A member of a workspace of the repository is left as it is.
    place.write("Cargo.toml", "[workspace]\nmembers = [\"b\"]\n");
    place.write("b/Cargo.toml", "[package]\nname = \"b\"\n");
    place.commit(None);
    let revisions = place.revisions("b");
    let member = revisions.export(&revisions.resolve("HEAD").unwrap()).unwrap();
    assert_eq!(text(&member), "[package]\nname = \"b\"\n");
    assert_eq!(text(&place.export("HEAD")), "[workspace]\nmembers = [\"b\"]\n");
}

#[test]
fn what_lies_outside_of_the_tree_is_left_out_and_told() {
    let place = Place::new();
    place.write("Cargo.toml", "1");
    place.write("../secret", "s");
    symlink("/etc/hostname", place.top().join("absolute")).unwrap();
    symlink("../secret", place.top().join("climbs")).unwrap();
    // By its words it stays inside: `here` is a folder of the tree, and `..` of it the root.
    symlink(".", place.top().join("here")).unwrap();
    symlink("here/../secret", place.top().join("sly")).unwrap();
    place.commit(Some("vendored"));
    let export = place.export("HEAD");
    for link in ["absolute", "climbs"] {
        assert!(fs::symlink_metadata(export.root.join(link)).is_err(), "{link}");
    }
    assert!(fs::read(export.root.join("sly")).is_err());
    let told = export.left_out.join("\n");
    assert!(told.contains("`vendored` is a submodule: not supported"), "{told}");
    assert!(told.contains("`climbs` is a link out of the repository, to `../secret`: not followed"), "{told}");
    assert_eq!(place.export("HEAD"), export);
}

#[test]
fn what_a_killed_run_left_is_swept_and_what_a_running_one_makes_is_not() {
    let place = Place::new();
    place.write("Cargo.toml", "1");
    place.commit(None);
    let exports = place.exports();
    fs::create_dir_all(exports.join(".exporting-left/tree")).unwrap();
    let own = Scratch::new(&exports, ".exporting-").unwrap();
    place.export("HEAD");
    assert!(!exports.join(".exporting-left").exists() && own.path().exists());
}

#[test]
fn a_folder_without_a_repository_is_told_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(scratch.path()).unwrap();
    let error = Revisions::around(root, &root.join("exports")).err().unwrap();
    assert!(error.to_string().ends_with("is not in a git repository"), "{error}");
    let empty = Repository::init(root.join("empty")).unwrap();
    let revisions = Revisions::around(&root.join("empty"), &root.join("exports")).unwrap();
    assert_eq!(
        revisions.resolve("HEAD").unwrap_err().failure().hint.as_deref(),
        Some("the repository has no commit yet")
    );
    assert!(empty.is_empty().unwrap() && !Path::new(&root.join("exports")).exists());
}

#[test]
fn names_that_are_no_text_are_exported_as_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    place.write("Cargo.toml", "[workspace]\n");
    let inside = Path::new(OsStr::from_bytes(b"fold\xffer")).join(OsStr::from_bytes(b"fil\xfee"));
    let full = place.top().into_std_path_buf().join(&inside);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(&full, "contents").unwrap();
    place.commit(None);
    let export = place.export("HEAD");
    assert_eq!(fs::read_to_string(export.root.into_std_path_buf().join(inside)).unwrap(), "contents");
}

#[test]
fn what_a_commit_has_is_found_by_its_path_and_what_this_clone_lacks_is_no_file_that_is_not_there() {
    let place = Place::new();
    place.write("Cargo.toml", "1");
    place.write("a/b/Cargo.toml", "2");
    place.commit(Some("vendored"));
    let revisions = place.revisions("");
    let head = revisions.resolve("HEAD").unwrap();
    let text = |path: &str| revisions.text(&head, Utf8Path::new(path));
    assert_eq!(text("a/b/Cargo.toml").unwrap().as_deref(), Some("2"));
    for path in ["a/b", "a/c/Cargo.toml", "Cargo.toml/a", "vendored", "none"] {
        assert_eq!(text(path).unwrap(), None, "{path}");
    }
    let manifests = revisions.manifests(&head).unwrap();
    assert_eq!(manifests, [(Utf8PathBuf::new(), "1".to_owned()), (Utf8PathBuf::from("a/b"), "2".to_owned())]);
    assert_eq!(revisions.submodules(&head).unwrap(), ["vendored"]);
    let id = git2::Oid::hash_object(git2::ObjectType::Blob, b"2").unwrap().to_string();
    fs::remove_file(place.top().join(".git/objects").join(&id[..2]).join(&id[2..])).unwrap();
    // Another one: the library remembers what it has read.
    let revisions = place.revisions("");
    assert_eq!(revisions.text(&head, Utf8Path::new("Cargo.toml")).unwrap().as_deref(), Some("1"));
    for wrong in [revisions.text(&head, Utf8Path::new("a/b/Cargo.toml")).err(), revisions.export(&head).err()] {
        let wrong = wrong.unwrap();
        assert_eq!(wrong.exit(), Exit::Setup, "{wrong}");
        assert!(wrong.to_string().starts_with("cannot read the files of HEAD ("), "{wrong}");
    }
    place.repository.config().unwrap().set_bool("remote.origin.promisor", true).unwrap();
    let wrong = place.revisions("").manifests(&head).unwrap_err();
    assert!(wrong.to_string().starts_with("this is a partial clone: objects of HEAD ("), "{wrong}");
}
