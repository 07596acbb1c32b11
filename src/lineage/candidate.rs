//! A change as a commit: the incumbent's tree with the sources as they are on disk, and nothing else.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use git2::build::TreeUpdateBuilder;
use git2::{Commit, DiffFormat, DiffOptions, FileMode, Oid, Tree};
use kopt_schema::exit::Exit;
use rustix::fs::OFlags;

use super::compare::{Entry, is_within};
use super::references::{self, failed, point, target};
use super::{Lineage, below, unusable};
use crate::error::{Error, Result};

/// A source larger than this is no source.
pub(super) const LARGEST: u64 = 4 << 20;

/// A change that can be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its commit, a child of the incumbent.
    pub commit: String,
    /// The commit's tree.
    pub tree: String,
    /// Files that differ from the incumbent, relative to the workspace. None: nothing was changed.
    pub files: Vec<String>,
    /// Lines added and removed.
    pub lines: [usize; 2],
    /// The difference as text, with paths relative to the repository.
    pub diff: String,
}

impl Lineage {
    /// Takes the sources as they are on disk, each read once, and keeps them as a candidate of the round. Taking the same
    /// ones again gives the same commit. `sources` are relative to the workspace.
    ///
    /// # Errors
    /// When a source is not a plain file of moderate size, or the incumbent does not have it.
    pub fn capture(
        &self,
        incumbent: &str,
        round: u32,
        attempt: u32,
        sources: &[Utf8PathBuf],
        title: &str,
    ) -> Result<Candidate> {
        let incumbent = self.commit(incumbent)?;
        let broken = "cannot store the candidate";
        let before = incumbent.tree().map_err(failed(broken))?;
        let mut update = TreeUpdateBuilder::new();
        let mut files = Vec::new();
        for source in sources {
            let path = below(&self.prefix, source);
            let entry = before.get_path(path.as_std_path()).map(|entry| Entry::of(&entry));
            let entry = entry.map_err(|_| refused(&path, "the version that stands does not have it"))?;
            let id = self.repository.blob(&self.read_source(&path)?).map_err(failed(broken))?;
            if id != entry.id {
                let mode = if entry.is_executable() { FileMode::BlobExecutable } else { FileMode::Blob };
                update.upsert(path.as_str(), id, mode);
                files.push(source.to_string());
            }
        }
        let tree = match files.is_empty() {
            true => before.id(),
            false => update.create_updated(&self.repository, &before).map_err(failed(broken))?,
        };
        let tree = self.repository.find_tree(tree).map_err(failed(broken))?;
        let commit = self.keep_candidate(&incumbent, &tree, round, attempt, title)?;
        let (lines, diff) =
            self.difference(&before, &tree).map_err(failed("cannot tell what the candidate changes"))?;
        Ok(Candidate { commit: commit.to_string(), tree: tree.id().to_string(), files, lines, diff })
    }

    /// The sources as they are on disk, for [`Self::lay_out`]; those that are no plain files are left out. `sources` are
    /// relative to the workspace.
    #[must_use]
    pub fn edit(&self, sources: &[Utf8PathBuf]) -> Vec<(Utf8PathBuf, Vec<u8>)> {
        let read = |source: &Utf8PathBuf| Some((source.clone(), self.read_source(&below(&self.prefix, source)).ok()?));
        sources.iter().filter_map(read).collect()
    }

    /// Writes sources into the place of work.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn lay_out(&self, edit: &[(Utf8PathBuf, Vec<u8>)]) -> Result<()> {
        for (source, bytes) in edit {
            let path = self.workspace.join(source);
            std::fs::write(&path, bytes).map_err(|error| unusable("write", &path, &error))?;
        }
        Ok(())
    }

    fn keep_candidate(
        &self,
        incumbent: &Commit<'_>,
        tree: &Tree<'_>,
        round: u32,
        attempt: u32,
        title: &str,
    ) -> Result<Oid> {
        let message = format!("candidate of round {round}, attempt {attempt}: {title}");
        let newest = self.reference(&format!("round-{round}"));
        let own = self.reference(&format!("round-{round}-attempt-{attempt}"));
        let stored = target(&self.repository, &own)?;
        let commit = match stored.filter(|id| self.is_commit_of(*id, tree.id(), incumbent.id(), &message)) {
            Some(same) => same,
            None => {
                if let Some(other) = stored {
                    // A kill came between the first capture of this attempt and its event; both are kept.
                    self.keep_commit(other)?;
                }
                let who = references::tool()?;
                let made = self.repository.commit(None, &who, &who, &message, tree, &[incumbent]);
                made.map_err(failed("cannot store the candidate"))?
            }
        };
        point(&self.repository, &own, commit, "kopt: candidate")?;
        point(&self.repository, &newest, commit, "kopt: candidate")?;
        Ok(commit)
    }

    /// Whether a commit has this tree, this one parent and this message.
    pub(super) fn is_commit_of(&self, id: Oid, tree: Oid, parent: Oid, message: &str) -> bool {
        self.repository.find_commit(id).is_ok_and(|commit| {
            commit.tree_id() == tree
                && commit.parent_ids().eq([parent])
                && commit.message_raw_bytes() == message.as_bytes()
        })
    }

    fn read_source(&self, path: &Utf8Path) -> Result<Vec<u8>> {
        if !is_within(self.top.as_std_path(), path.as_std_path()) {
            return Err(refused(path, "it lies behind a link"));
        }
        let full = self.top.join(path);
        // Neither a link is followed nor a pipe waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&full);
        let file = file.map_err(|error| match full.symlink_metadata() {
            Ok(found) if found.is_symlink() => refused(path, "it is a link"),
            _ => refused(path, "it cannot be read").because(&error),
        })?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(refused(path, "it is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refused(path, "it cannot be read").because(&error))?;
        match bytes.len() as u64 > LARGEST {
            true => Err(refused(path, &format!("it is larger than {} MiB", LARGEST >> 20))),
            false => Ok(bytes),
        }
    }

    fn difference(&self, before: &Tree<'_>, after: &Tree<'_>) -> Result<([usize; 2], String), git2::Error> {
        // All that the user's configuration could change is said here: the same candidate has the same text everywhere.
        let mut options = DiffOptions::new();
        options.context_lines(3).interhunk_lines(0).old_prefix("a").new_prefix("b").force_text(true);
        let diff = self.repository.diff_tree_to_tree(Some(before), Some(after), Some(&mut options))?;
        let stats = diff.stats()?;
        let mut text = Vec::new();
        diff.print(DiffFormat::Patch, |_, _, line| {
            if matches!(line.origin(), '+' | '-' | ' ') {
                text.push(u8::try_from(line.origin()).unwrap_or(b' '));
            }
            text.extend_from_slice(line.content());
            true
        })?;
        Ok(([stats.insertions(), stats.deletions()], String::from_utf8_lossy(&text).into_owned()))
    }
}

fn refused(path: &Utf8Path, why: &str) -> Error {
    Error::new(Exit::Regressed, format!("`{path}` cannot be part of a candidate: {why}"))
        .hint("a candidate changes the contents of declared sources, and nothing else")
}
