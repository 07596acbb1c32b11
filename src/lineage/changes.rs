//! What a proposer changed, and what of it is not allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use git2::{Status, StatusOptions};
use kopt_schema::campaign::target::ExecutionMode;

use super::candidate::LARGEST;
use super::compare::What;
use super::references::failed;
use super::survey::is_sparse;
use super::{Lineage, below};
use crate::error::Result;

/// How the files differ from the incumbent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Declared sources with other contents, relative to the workspace.
    pub changed: Vec<Utf8PathBuf>,
    /// Everything else.
    pub forbidden: Vec<Forbidden>,
}

/// Something that a candidate may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// Relative to the repository; the branch, where that was moved.
    pub path: Utf8PathBuf,
    /// What was done to it.
    pub what: String,
}

impl Lineage {
    /// Compares the files with the incumbent's. `sources` are relative to the workspace. In place, files that git does not
    /// know are the user's own and not counted; they cannot get into a candidate.
    ///
    /// # Errors
    /// When files or objects cannot be read.
    pub fn changes(&self, incumbent: &str, sources: &[Utf8PathBuf]) -> Result<Changes> {
        let incumbent = self.commit(incumbent)?;
        let sources: Vec<Utf8PathBuf> = sources.iter().map(|source| below(&self.prefix, source)).collect();
        let declared: BTreeSet<&Path> = sources.iter().map(|source| source.as_std_path()).collect();
        let expected = self.expected(&incumbent)?;
        let mut found: Vec<(PathBuf, What)> =
            self.differences(&expected)?.into_iter().map(|difference| (difference.path, difference.what)).collect();
        if self.mode == ExecutionMode::InPlace {
            found.extend(self.beside(&declared)?);
        }
        // A source that the incumbent lacks is new, even if it is ignored.
        for source in &declared {
            let known = expected.contains_key(*source) || found.iter().any(|(path, _)| path == source);
            if !known && self.top.as_std_path().join(source).symlink_metadata().is_ok() {
                found.push((source.to_path_buf(), What::Added));
            }
        }
        let mut changes = Changes::default();
        if self.is_moved(incumbent.id())? {
            let path = self.branch.clone().unwrap_or_else(|| "HEAD".to_owned()).into();
            changes.forbidden.push(Forbidden { path, what: "the branch was moved".to_owned() });
        }
        for (path, what) in found {
            let shown = Utf8PathBuf::from(path.to_string_lossy().into_owned());
            let is_large = || self.top.join(&shown).metadata().is_ok_and(|found| found.len() > LARGEST);
            match (declared.contains(path.as_path()), what) {
                (true, What::Changed) if is_large() => {
                    let what = format!("larger than {} MiB", LARGEST >> 20);
                    changes.forbidden.push(Forbidden { path: shown, what });
                }
                (true, What::Changed) => {
                    let inside = shown.strip_prefix(&self.prefix).map(|path| path.to_owned());
                    changes.changed.push(inside.unwrap_or(shown));
                }
                _ => changes.forbidden.push(Forbidden { path: shown, what: what.name().to_owned() }),
            }
        }
        Ok(changes)
    }

    /// In place, what changed beside the sources, as git sees it: files of the user's checkout may have gone through
    /// filters, so that their bytes are not those of the commit.
    fn beside(&self, declared: &BTreeSet<&Path>) -> Result<Vec<(PathBuf, What)>> {
        let mut options = StatusOptions::new();
        options.include_untracked(false).exclude_submodules(true);
        let statuses = self.repository.statuses(Some(&mut options));
        let statuses = statuses.map_err(failed("cannot tell what has changed in the checkout"))?;
        let mut found = Vec::new();
        for entry in statuses.iter() {
            let path = PathBuf::from(std::ffi::OsStr::new(&*String::from_utf8_lossy(entry.path_bytes())));
            let status = entry.status();
            let is_as_it_was = status == Status::CURRENT || status == Status::IGNORED;
            if declared.contains(path.as_path()) || is_as_it_was || is_sparse(&self.repository, &entry) {
                continue;
            }
            let what = if status.intersects(Status::WT_DELETED | Status::INDEX_DELETED) {
                What::Deleted
            } else if status.intersects(Status::INDEX_NEW) {
                What::Added
            } else if status.intersects(Status::WT_TYPECHANGE | Status::INDEX_TYPECHANGE) {
                What::Link
            } else {
                What::Changed
            };
            found.push((path, what));
        }
        Ok(found)
    }
}
