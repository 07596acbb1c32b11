//! Files made those of a commit. What is in the way was kept before, or is moved aside; nothing is written through a link.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use git2::{Commit, Index, IndexEntry, IndexTime, Repository};
use kopt_schema::campaign::target::ExecutionMode;

use super::compare::{Difference, Entry, What, differences, entries, make_readable, one};
use super::references::failed;
use super::{Lineage, unusable, worktree};
use crate::error::Result;

impl Lineage {
    /// Makes files and index those of the commit; in place, the declared sources only.
    pub(super) fn restore(&self, commit: &Commit<'_>) -> Result<()> {
        let expected = self.expected(commit)?;
        let found = self.differences(&expected)?;
        let mut aside = Aside::new(self);
        for Difference { path, what } in &found {
            match what {
                What::Deleted => {}
                _ if !what.can_be_kept(self.top.as_std_path(), path) => aside.take(path)?,
                What::Added => self.remove(path)?,
                _ => {}
            }
        }
        let mut paths: Vec<&PathBuf> = found.iter().map(|difference| &difference.path).collect();
        paths.dedup();
        for path in paths {
            if let Some(entry) = expected.get(path) {
                self.put(path, *entry, &mut aside)?;
            }
        }
        match self.mode {
            ExecutionMode::Worktree => {
                // Git takes a submodule without a folder for a deleted one.
                for (path, _) in expected.iter().filter(|(_, entry)| entry.is_submodule()) {
                    let full = self.top.as_std_path().join(path);
                    fs::create_dir_all(&full).map_err(|error| unusable("make the folder", &full, &error))?;
                }
                self.repository.cleanup_state().map_err(failed("cannot end what was begun in the worktree"))?;
                self.rewrite_index(commit)
            }
            ExecutionMode::InPlace if self.branch.is_some() => self.update_index(&expected),
            ExecutionMode::InPlace => Ok(()),
        }
    }

    /// What the commit has: everything, or the sources in place.
    pub(super) fn expected(&self, commit: &Commit<'_>) -> Result<BTreeMap<PathBuf, Entry>> {
        let broken = format!("cannot read the files of {}", commit.id());
        let tree = commit.tree().map_err(failed(broken.clone()))?;
        let mut expected = entries(&self.repository, &tree).map_err(failed(broken))?;
        if self.mode == ExecutionMode::InPlace {
            expected.retain(|path, _| self.sources.iter().any(|source| source.as_std_path() == path));
        }
        Ok(expected)
    }

    /// How the files differ from it.
    pub(super) fn differences(&self, expected: &BTreeMap<PathBuf, Entry>) -> Result<Vec<Difference>> {
        let root = self.top.as_std_path();
        if self.mode == ExecutionMode::Worktree {
            return differences(&self.repository, root, expected);
        }
        let mut found = Vec::new();
        for (path, entry) in expected {
            let mut places: Vec<&Path> = path.ancestors().filter(|place| !place.as_os_str().is_empty()).collect();
            places.reverse();
            places.iter().for_each(|place| make_readable(&root.join(place)));
            let what = one(&self.repository, root, path, *entry)?;
            found.extend(what.into_iter().map(|what| Difference { path: path.clone(), what }));
        }
        Ok(found)
    }

    /// Moves out of a worktree that will be removed what no reference can hold.
    pub(super) fn set_aside_what_git_cannot_keep(&self, commit: &Commit<'_>) -> Result<()> {
        let mut aside = Aside::new(self);
        for Difference { path, what } in self.differences(&self.expected(commit)?)? {
            if what != What::Deleted && !what.can_be_kept(self.top.as_std_path(), &path) {
                aside.take(&path)?;
            }
        }
        Ok(())
    }

    /// Removes a file, and the folders that are empty without it.
    fn remove(&self, path: &Path) -> Result<()> {
        let full = self.top.as_std_path().join(path);
        match fs::remove_file(&full) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable("remove", &full, &error)),
            _ => {}
        }
        for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            if fs::remove_dir(self.top.as_std_path().join(folder)).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn put(&self, path: &Path, entry: Entry, aside: &mut Aside<'_>) -> Result<()> {
        let root = self.top.as_std_path();
        let mut folders: Vec<&Path> =
            path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
        folders.reverse();
        for folder in folders {
            let full = root.join(folder);
            if full.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                aside.take(folder)?;
            }
            match fs::create_dir(&full) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(unusable("make the folder", &full, &error));
                }
                _ => {}
            }
        }
        let full = root.join(path);
        match full.symlink_metadata() {
            // An empty folder is nothing; one with something ignored in it is somebody's.
            Ok(found) if found.is_dir() && fs::remove_dir(&full).is_err() => aside.take(path)?,
            Ok(found) if !found.is_dir() => {
                fs::remove_file(&full).map_err(|error| unusable("remove", &full, &error))?
            }
            _ => {}
        }
        let blob = self.repository.find_blob(entry.id);
        let blob = blob.map_err(failed(format!("cannot read the contents of `{}`", path.display())))?;
        let written = match entry.is_link() {
            true => symlink(OsStr::from_bytes(blob.content()), &full),
            false => {
                let mode = if entry.is_executable() { 0o777 } else { 0o666 };
                // A new file, always: the old one may be a hard link to something of somebody else's.
                let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&full);
                file.and_then(|mut file| file.write_all(blob.content()))
            }
        };
        written.map_err(|error| unusable("write", &full, &error))
    }

    /// The worktree's index, from nothing: no flag that somebody set in it survives.
    fn rewrite_index(&self, commit: &Commit<'_>) -> Result<()> {
        let write = |mut index: Index| {
            index.clear()?;
            index.read_tree(&commit.tree()?)?;
            index.write()
        };
        let index = self.repository.index().or_else(|_| {
            // It cannot be read; nothing is lost with it, since only files count.
            let _ = fs::remove_file(self.repository.path().join("index"));
            self.repository.index()
        });
        index.and_then(write).map_err(failed("cannot write the index of the worktree"))
    }

    /// In the user's index, the entries of the sources and no others.
    fn update_index(&self, expected: &BTreeMap<PathBuf, Entry>) -> Result<()> {
        let update = |repository: &Repository| {
            let mut index = repository.index()?;
            index.read(true)?;
            let mut changed = false;
            for (path, entry) in expected {
                if index.get_path(path, 0).is_none_or(|found| found.id != entry.id) {
                    index.add(&index_entry(path, *entry))?;
                    changed = true;
                }
            }
            if changed { index.write() } else { Ok(()) }
        };
        update(&self.repository).map_err(failed("cannot write the index of the checkout"))
    }
}

/// An entry without the times of a file: git looks into the file when it meets one.
pub(super) fn index_entry(path: &Path, entry: Entry) -> IndexEntry {
    let none = IndexTime::new(0, 0);
    IndexEntry {
        ctime: none,
        mtime: none,
        dev: 0,
        ino: 0,
        mode: entry.mode.unsigned_abs(),
        uid: 0,
        gid: 0,
        file_size: 0,
        id: entry.id,
        flags: 0,
        flags_extended: 0,
        path: path.as_os_str().as_bytes().to_vec(),
    }
}

/// A folder beside the worktree for what is in the way and cannot be kept as an object; made when it is first needed.
struct Aside<'a> {
    lineage: &'a Lineage,
    folder: Option<Utf8PathBuf>,
}

impl<'a> Aside<'a> {
    fn new(lineage: &'a Lineage) -> Self {
        Self { lineage, folder: None }
    }

    fn take(&mut self, path: &Path) -> Result<()> {
        let folder = self.folder.get_or_insert_with(|| worktree::free_name(&self.lineage.folder));
        let to = folder.as_std_path().join(path);
        let from = self.lineage.top.as_std_path().join(path);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        match made.and_then(|()| fs::rename(&from, &to)) {
            // A path that differs in two ways comes twice.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(|error| unusable("move aside", &from, &error)),
        }
    }
}
