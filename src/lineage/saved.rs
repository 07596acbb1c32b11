//! Unfinished edits and foreign commits, kept under references of the campaign before anything is put back.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use git2::{Commit, FileMode, Index, Oid};
use kopt_schema::campaign::target::ExecutionMode;

use super::compare::{Difference, Entry, What};
use super::references::{self, failed, swap};
use super::restore::index_entry;
use super::{Lineage, unusable};
use crate::error::{Error, Result};

/// Larger files are moved aside, not made objects of the user's repository.
const LARGEST: u64 = 64 << 20;

impl What {
    /// Whether what stands there can be an object.
    pub(super) fn can_be_kept(self, root: &Path, path: &Path) -> bool {
        let found = root.join(path).symlink_metadata();
        !matches!(self, Self::Repository | Self::Unreadable)
            && found.is_ok_and(|found| found.is_symlink() || (found.is_file() && found.len() <= LARGEST))
    }
}

impl Lineage {
    /// Keeps what differs from the incumbent, and returns the reference. Nothing is returned where nothing differs, or
    /// where it is a candidate, which is kept anyway.
    pub(super) fn keep_edit(&self, incumbent: &Commit<'_>) -> Result<Option<String>> {
        let found = self.differences(&self.expected(incumbent)?)?;
        if found.is_empty() || self.is_half_made(&found) {
            return Ok(None);
        }
        let tree = self.tree_with(incumbent, &found)?;
        if tree == incumbent.tree_id() {
            return Ok(None);
        }
        if let Some(name) = self.kept_as(tree)? {
            return Ok(name.contains("/saved-").then_some(name));
        }
        let tree = self.repository.find_tree(tree).map_err(failed("cannot read back an unfinished edit"))?;
        let who = references::tool()?;
        let commit = self.repository.commit(None, &who, &who, "unfinished edit", &tree, &[incumbent]);
        self.keep_commit(commit.map_err(failed("cannot keep an unfinished edit"))?).map(Some)
    }

    /// Whether these are the marks of a checkout that was killed before it was finished: no index, and files missing.
    pub(super) fn is_half_made(&self, found: &[Difference]) -> bool {
        self.mode == ExecutionMode::Worktree
            && found.iter().all(|difference| difference.what == What::Deleted)
            && !self.repository.path().join("index").exists()
    }

    /// Keeps a commit under the next free name.
    pub(super) fn keep_commit(&self, id: Oid) -> Result<String> {
        let mut number = 1;
        for (name, target) in self.references()? {
            let Some(taken) = name.rsplit_once("/saved-").and_then(|(_, number)| number.parse::<u32>().ok()) else {
                continue;
            };
            if target == id {
                return Ok(name);
            }
            number = number.max(taken.saturating_add(1));
        }
        let name = self.reference(&format!("saved-{number}"));
        match swap(&self.repository, &name, id, None, "kopt: kept") {
            Ok(true) => Ok(name),
            Ok(false) => Err(Error::new(kopt_schema::exit::Exit::Locked, format!("`{name}` appeared meanwhile"))
                .hint("another process works on this campaign")),
            Err(error) => Err(failed(format!("cannot write the reference `{name}`"))(error)),
        }
    }

    /// The campaign's references with what they point to.
    fn references(&self) -> Result<Vec<(String, Oid)>> {
        let pattern = self.reference("*");
        let found = self.repository.references_glob(&pattern).map_err(failed("cannot list the references"))?;
        let known = found.flatten().filter_map(|found| Some((found.name().ok()?.to_owned(), found.target()?)));
        Ok(known.collect())
    }

    fn kept_as(&self, tree: Oid) -> Result<Option<String>> {
        let is_it = |id: Oid| self.repository.find_commit(id).is_ok_and(|commit| commit.tree_id() == tree);
        Ok(self.references()?.into_iter().find(|(_, id)| is_it(*id)).map(|(name, _)| name))
    }

    /// The incumbent's tree with what lies on disk in place of what differs.
    fn tree_with(&self, incumbent: &Commit<'_>, found: &[Difference]) -> Result<Oid> {
        let broken = "cannot keep an unfinished edit";
        let mut index = Index::new().map_err(failed(broken))?;
        incumbent.tree().and_then(|tree| index.read_tree(&tree)).map_err(failed(broken))?;
        // What is gone first: a file may stand where a folder was.
        for Difference { path, .. } in found.iter().filter(|difference| difference.what == What::Deleted) {
            index.remove(path, 0).map_err(failed(broken))?;
        }
        for Difference { path, what } in found {
            if *what != What::Deleted && what.can_be_kept(self.top.as_std_path(), path) {
                index.add(&index_entry(path, self.entry_on_disk(path)?)).map_err(failed(broken))?;
            }
        }
        index.write_tree_to(&self.repository).map_err(failed(broken))
    }

    fn entry_on_disk(&self, path: &Path) -> Result<Entry> {
        let full = self.top.as_std_path().join(path);
        let read = || -> std::io::Result<(Vec<u8>, FileMode)> {
            let found = full.symlink_metadata()?;
            if found.is_symlink() {
                return Ok((fs::read_link(&full)?.as_os_str().as_bytes().to_vec(), FileMode::Link));
            }
            let is_executable = found.permissions().mode() & 0o100 != 0;
            Ok((fs::read(&full)?, if is_executable { FileMode::BlobExecutable } else { FileMode::Blob }))
        };
        let (bytes, mode) = read().map_err(|error| unusable("read", &full, &error))?;
        let id = self.repository.blob(&bytes).map_err(failed("cannot keep an unfinished edit"))?;
        Ok(Entry { id, mode: i32::from(mode) })
    }
}
