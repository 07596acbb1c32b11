//! Files on disk against a commit, by their bytes. The index is not asked: an agent may have staged what it likes, and
//! flags of the index hide changes. Nor are filters: what lies in the campaign's worktree is what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use git2::{FileMode, ObjectType, Oid, Repository, Tree, TreeEntry};

use super::references::failed;
use super::unusable;
use crate::error::Result;

/// The first line of a `CACHEDIR.TAG`: a folder with one may be deleted at any time, as cargo's target folder.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What a commit has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: Oid,
    pub(super) mode: i32,
}

impl Entry {
    pub(super) fn of(entry: &TreeEntry<'_>) -> Self {
        Self { id: entry.id(), mode: entry.filemode() }
    }

    pub(super) fn is_submodule(self) -> bool {
        self.mode == i32::from(FileMode::Commit)
    }

    pub(super) fn is_link(self) -> bool {
        self.mode == i32::from(FileMode::Link)
    }

    pub(super) fn is_executable(self) -> bool {
        self.mode == i32::from(FileMode::BlobExecutable)
    }
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Changed,
    Added,
    Deleted,
    Mode,
    Link,
    /// A pipe, a socket, a device.
    Special,
    /// A `.git` below the top: a repository inside the worktree.
    Repository,
    /// A file or folder that is not ours to read, and whose mode is not ours to change.
    Unreadable,
}

impl What {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Deleted => "deleted",
            Self::Mode => "mode changed",
            Self::Link => "now a link",
            Self::Special => "neither a file nor a link",
            Self::Repository => "a repository of its own",
            Self::Unreadable => "cannot be read",
        }
    }
}

/// One way in which one path differs; a file may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// Relative to the repository.
    pub(super) path: PathBuf,
    pub(super) what: What,
}

/// Every file, link and submodule of a tree.
pub(super) fn entries(repository: &Repository, tree: &Tree<'_>) -> Result<BTreeMap<PathBuf, Entry>, git2::Error> {
    let mut found = BTreeMap::new();
    // The library's own walk takes only names that are text.
    let mut pending = vec![(PathBuf::new(), tree.id())];
    while let Some((folder, id)) = pending.pop() {
        for entry in &repository.find_tree(id)? {
            let path = folder.join(OsStr::from_bytes(entry.name_bytes()));
            match entry.kind() {
                Some(ObjectType::Tree) => pending.push((path, entry.id())),
                _ => drop(found.insert(path, Entry::of(&entry))),
            }
        }
    }
    Ok(found)
}

/// How the files below `root` differ from those of `expected`. Ignored files do not count, unless the commit has them.
pub(super) fn differences(
    repository: &Repository,
    root: &Path,
    expected: &BTreeMap<PathBuf, Entry>,
) -> Result<Vec<Difference>> {
    let mut known = BTreeSet::new();
    for path in expected.keys() {
        known.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut pending = vec![PathBuf::new()];
    while let Some(folder) = pending.pop() {
        let full = root.join(&folder);
        make_readable(&full);
        let entries = match fs::read_dir(&full) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !folder.as_os_str().is_empty() => {
                found.push(Difference { path: folder, what: What::Unreadable });
                continue;
            }
            entries => entries.map_err(|error| unusable("read", &full, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unusable("read", &full, &error))?;
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_ignored = || repository.is_path_ignored(&path).unwrap_or(false);
            if entry.file_name() == ".git" {
                if !folder.as_os_str().is_empty() {
                    found.push(Difference { path, what: What::Repository });
                }
            } else if let Some(entry) = expected.get(&path) {
                if entry.is_submodule() {
                    continue;
                }
                make_readable(&root.join(&path));
                let what = one(repository, root, &path, *entry)?;
                found.extend(what.into_iter().map(|what| Difference { path: path.clone(), what }));
                if is_folder {
                    pending.push(path.clone());
                }
                seen.insert(path);
            } else if is_folder {
                if known.contains(&path) || !(is_cache(&entry.path()) || is_ignored()) {
                    pending.push(path);
                }
            } else if !is_ignored() {
                let kind = entry.file_type().map_err(|error| unusable("look at", entry.path(), &error))?;
                make_readable(&entry.path());
                let what = match kind {
                    kind if kind.is_file() && is_denied(&entry.path()) => What::Unreadable,
                    kind if kind.is_file() || kind.is_symlink() => What::Added,
                    _ => What::Special,
                };
                found.push(Difference { path, what });
            }
        }
    }
    let missing = expected.iter().filter(|(path, entry)| !entry.is_submodule() && !seen.contains(*path));
    found.extend(missing.map(|(path, _)| Difference { path: path.clone(), what: What::Deleted }));
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// How one path differs from what a commit has there.
pub(super) fn one(repository: &Repository, root: &Path, path: &Path, expected: Entry) -> Result<Vec<What>> {
    let full = root.join(path);
    if !is_within(root, path) {
        return Ok(vec![What::Deleted]);
    }
    let found = match full.symlink_metadata() {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(vec![What::Deleted]);
        }
        Err(error) => return Err(unusable("look at", &full, &error)),
    };
    match (found.is_symlink(), expected.is_link()) {
        (true, true) => {
            let target = fs::read_link(&full).map_err(|error| unusable("read", &full, &error))?;
            let id = Oid::hash_object(ObjectType::Blob, target.as_os_str().as_bytes());
            let id = id.map_err(failed("cannot digest a link"))?;
            Ok(if id == expected.id { Vec::new() } else { vec![What::Changed] })
        }
        (true, false) => Ok(vec![What::Link]),
        // A folder where a file was: the file is gone, and what lies in the folder is found as new.
        _ if found.is_dir() => Ok(vec![What::Deleted]),
        _ if !found.is_file() => Ok(vec![What::Special]),
        (false, true) => Ok(vec![What::Changed]),
        (false, false) => contents(repository, &full, &found, expected),
    }
}

/// Gives the owner back a file that cannot be read, and a folder that cannot be read, entered or written: whoever took the
/// right away, such as an agent by `chmod`, must not be able to stop a campaign by it. What belongs to somebody else stays as
/// it is. No link is followed.
pub(super) fn make_readable(path: &Path) {
    let Ok(found) = path.symlink_metadata() else { return };
    let (needed, given) = match (found.is_dir(), found.is_file()) {
        (true, _) => (0o700, 0o700),
        (_, true) => (0o400, 0o600),
        _ => return,
    };
    let mode = found.permissions().mode() & 0o7777;
    if mode & needed != needed {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode | given));
    }
}

fn is_denied(file: &Path) -> bool {
    fs::File::open(file).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn contents(repository: &Repository, full: &Path, found: &Metadata, expected: Entry) -> Result<Vec<What>> {
    if is_denied(full) {
        return Ok(vec![What::Unreadable]);
    }
    let odb = repository.odb().map_err(failed("cannot open the repository's objects"))?;
    let (size, _) = odb.read_header(expected.id).map_err(failed(format!("cannot read `{}`", full.display())))?;
    let mut what = Vec::new();
    let is_same = size as u64 == found.len() && {
        let id = Oid::hash_file(ObjectType::Blob, full);
        id.map_err(failed(format!("cannot digest `{}`", full.display())))? == expected.id
    };
    if !is_same {
        what.push(What::Changed);
    }
    let is_executable = found.permissions().mode() & 0o100 != 0;
    if is_executable != expected.is_executable() && has_modes(repository) {
        what.push(What::Mode);
    }
    Ok(what)
}

/// Whether the file system keeps who may run a file.
fn has_modes(repository: &Repository) -> bool {
    repository.config().and_then(|config| config.get_bool("core.filemode")).unwrap_or(true)
}

/// Whether no folder on the way to `path` is a link, which might lead out of the worktree.
pub(super) fn is_within(root: &Path, path: &Path) -> bool {
    let mut folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    folders.all(|folder| !root.join(folder).symlink_metadata().is_ok_and(|found| found.is_symlink()))
}

fn is_cache(folder: &Path) -> bool {
    let mut start = Vec::new();
    let tag = fs::File::open(folder.join("CACHEDIR.TAG"));
    tag.is_ok_and(|tag| tag.take(CACHE_TAG.len() as u64).read_to_end(&mut start).is_ok()) && start == CACHE_TAG
}
