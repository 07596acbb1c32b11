//! Two commits and what lies between them: merge bases, files that differ, messages, the default branch.

use camino::{Utf8Path, Utf8PathBuf};
use git2::{Commit, Diff, DiffFindOptions, DiffOptions, ObjectType, Oid, Sort, StatusOptions};

use super::{Revision, Revisions, unreadable};
use crate::error::{Error, Result};
use crate::reach::Changed;

/// Where a default branch is looked for, in this order.
const DEFAULTS: [&str; 5] = ["origin/HEAD", "origin/main", "origin/master", "main", "master"];

impl Revisions {
    /// The workspace's folder inside the repository; empty at its root.
    #[must_use]
    pub fn prefix(&self) -> &Utf8Path {
        &self.prefix
    }

    /// Whether only a part of the history is here.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        self.repository.is_shallow()
    }

    /// Whether there is more of the repository than this clone may know.
    #[must_use]
    pub fn is_clone(&self) -> bool {
        self.is_shallow() || self.repository.remotes().is_ok_and(|remotes| !remotes.is_empty())
    }

    /// The newest commit that both descend from; none where they have nothing in common.
    ///
    /// # Errors
    /// When the history that would tell is not here.
    pub fn merge_base(&self, one: &Revision, other: &Revision) -> Result<Option<Revision>> {
        let ids = Oid::from_str(&one.commit).and_then(|one| Ok((one, Oid::from_str(&other.commit)?)));
        let found = ids.and_then(|(one, other)| self.repository.merge_base(one, other));
        match found {
            Ok(id) => Ok(Some(Revision { name: id.to_string(), commit: id.to_string() })),
            Err(_) if self.is_shallow() => Err(self.cut_off(&one.shown(), &other.shown())),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(Error::setup("cannot read the history").because(&error)),
        }
    }

    fn cut_off(&self, one: &str, other: &str) -> Error {
        Error::setup(format!("this clone is shallow: the history between {one} and {other} is not here"))
            .hint("`fetch-depth: 0` of actions/checkout gets it, or `git fetch --unshallow`")
    }

    /// The parents of a commit, whether they are here or not.
    ///
    /// # Errors
    /// When the commit cannot be read.
    pub fn parents(&self, revision: &Revision) -> Result<Vec<String>> {
        Ok(self.commit(revision)?.parent_ids().map(|id| id.to_string()).collect())
    }

    /// The tip of the default branch, as far as this clone knows one: the one of that name, where somebody told it.
    #[must_use]
    pub fn default_branch(&self, told: Option<&str>) -> Option<Revision> {
        let told = told.into_iter().flat_map(|name| [format!("origin/{name}"), name.to_owned()]);
        told.chain(DEFAULTS.map(str::to_owned)).find_map(|name| self.known(&name))
    }

    /// A name that may mean nothing here.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<Revision> {
        let commit = self.repository.revparse_single(name).ok()?.peel_to_commit().ok()?;
        Some(Revision { name: name.to_owned(), commit: commit.id().to_string() })
    }

    /// Whether two commits have the same files, by the number of their trees.
    ///
    /// # Errors
    /// When a commit cannot be read.
    pub fn is_same_tree(&self, one: &Revision, other: &Revision) -> Result<bool> {
        Ok(self.commit(one)?.tree_id() == self.commit(other)?.tree_id())
    }

    /// Files that differ, moved ones as one.
    ///
    /// # Errors
    /// When a commit cannot be read.
    pub fn changes(&self, base: &Revision, head: &Revision) -> Result<Vec<Changed>> {
        let mut diff = self.diff(base, head, None)?;
        // Without it a moved file reads as one that is gone and one that is new.
        let _ = diff.find_similar(Some(DiffFindOptions::new().renames(true)));
        let name = |path: Option<&std::path::Path>| path.map(|path| Utf8PathBuf::from(path.to_string_lossy().as_ref()));
        let changed = diff.deltas().map(|delta| Changed {
            before: name(delta.old_file().path()).filter(|_| !delta.old_file().id().is_zero()),
            after: name(delta.new_file().path()).filter(|_| !delta.new_file().id().is_zero()),
        });
        Ok(changed.collect())
    }

    /// The first line of `path` that the change touches, counted from 1 as the head has it.
    #[must_use]
    pub fn first_line(&self, base: &Revision, head: &Revision, path: &Utf8Path) -> Option<u32> {
        let diff = self.diff(base, head, Some(path)).ok()?;
        let patch = git2::Patch::from_diff(&diff, 0).ok()??;
        let lines = patch.num_lines_in_hunk(0).ok()?;
        let touched = (0..lines).filter_map(|line| patch.line_in_hunk(0, line).ok());
        let added = touched.filter(|line| line.origin() == '+').find_map(|line| line.new_lineno());
        added.or_else(|| patch.hunk(0).ok().map(|(hunk, _)| hunk.new_start().max(1)))
    }

    /// Messages of the commits that the head has and the base has not, the newest first, with the commits.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn messages_between(&self, base: &Revision, head: &Revision) -> Result<Vec<(String, String)>> {
        let unreadable = |error: git2::Error| match self.is_shallow() {
            true => self.cut_off(&base.shown(), &head.shown()),
            false => Error::setup("cannot read the history").because(&error),
        };
        let mut walk = self.repository.revwalk().map_err(unreadable)?;
        let ids = Oid::from_str(&head.commit).and_then(|head| Ok((head, Oid::from_str(&base.commit)?)));
        let ready = ids.and_then(|(head, base)| {
            walk.set_sorting(Sort::TOPOLOGICAL)?;
            walk.push(head)?;
            walk.hide(base)
        });
        ready.map_err(unreadable)?;
        let message = |id: Result<Oid, git2::Error>| {
            let commit = id.and_then(|id| self.repository.find_commit(id)).map_err(unreadable)?;
            Ok((commit.id().to_string(), String::from_utf8_lossy(commit.message_bytes()).into_owned()))
        };
        walk.map(message).collect()
    }

    /// The text of a file as a commit has it; none if it is not there or no text.
    ///
    /// # Errors
    /// When the commit has the file, and this clone has not what is in it.
    pub fn text(&self, revision: &Revision, path: &Utf8Path) -> Result<Option<String>> {
        match self.entry(revision, path)? {
            Some((ObjectType::Blob, id)) => self.contents(revision, id),
            _ => Ok(None),
        }
    }

    /// The text of every `Cargo.toml` of a commit, with its folder.
    ///
    /// # Errors
    /// When this clone has not all of them.
    pub fn manifests(&self, revision: &Revision) -> Result<Vec<(Utf8PathBuf, String)>> {
        let mut found = Vec::new();
        for (path, kind, id) in self.entries(revision)? {
            if kind == ObjectType::Blob
                && path.file_name() == Some("Cargo.toml")
                && let Some(text) = self.contents(revision, id)?
            {
                found.push((path.parent().map(Utf8Path::to_owned).unwrap_or_default(), text));
            }
        }
        Ok(found)
    }

    /// Where a commit has other repositories, whose files it does not have.
    ///
    /// # Errors
    /// When its folders cannot be read.
    pub fn submodules(&self, revision: &Revision) -> Result<Vec<Utf8PathBuf>> {
        let entries = self.entries(revision)?.into_iter();
        Ok(entries.filter(|(_, kind, _)| *kind == ObjectType::Commit).map(|(path, ..)| path).collect())
    }

    /// What a commit has at a path, and its number.
    ///
    /// # Errors
    /// When a folder on the way cannot be read.
    pub(super) fn entry(&self, revision: &Revision, path: &Utf8Path) -> Result<Option<(ObjectType, Oid)>> {
        // Folder by folder: asked for a path, the library does not tell one that is not there from one that it cannot read.
        let mut found = (ObjectType::Tree, self.commit(revision)?.tree_id());
        for part in path.components() {
            if found.0 != ObjectType::Tree {
                return Ok(None);
            }
            let tree = self.repository.find_tree(found.1);
            let tree = tree.map_err(|error| unreadable(&self.repository, revision, &error))?;
            let next = tree.get_name(part.as_str()).and_then(|entry| Some((entry.kind()?, entry.id())));
            let Some(next) = next else { return Ok(None) };
            found = next;
        }
        Ok(Some(found))
    }

    /// Everything that a commit has, folders aside, by path. What has a name that is no text cargo knows nothing of.
    fn entries(&self, revision: &Revision) -> Result<Vec<(Utf8PathBuf, ObjectType, Oid)>> {
        let mut found = Vec::new();
        let mut pending = vec![(Utf8PathBuf::new(), self.commit(revision)?.tree_id())];
        while let Some((folder, id)) = pending.pop() {
            let tree = self.repository.find_tree(id);
            let tree = tree.map_err(|error| unreadable(&self.repository, revision, &error))?;
            for entry in &tree {
                let (Ok(name), Some(kind)) = (entry.name(), entry.kind()) else { continue };
                match kind {
                    ObjectType::Tree => pending.push((folder.join(name), entry.id())),
                    kind => found.push((folder.join(name), kind, entry.id())),
                }
            }
        }
        found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        Ok(found)
    }

    /// What is in a file, if it is text.
    fn contents(&self, revision: &Revision, id: Oid) -> Result<Option<String>> {
        let blob = self.repository.find_blob(id);
        let blob = blob.map_err(|error| unreadable(&self.repository, revision, &error))?;
        Ok(String::from_utf8(blob.content().to_vec()).ok())
    }

    /// Names of what a commit has in the folders around a path.
    #[must_use]
    pub fn names_around(&self, revision: &Revision, path: &Utf8Path) -> Vec<String> {
        let Some(root) = self.commit(revision).ok().and_then(|commit| commit.tree().ok()) else { return Vec::new() };
        let folders = path.ancestors().skip(1).filter_map(|folder| match folder.as_str() {
            "" => Some(root.clone()),
            _ => self.repository.find_tree(root.get_path(folder.as_std_path()).ok()?.id()).ok(),
        });
        folders
            .flat_map(|tree| tree.iter().filter_map(|entry| Some(entry.name().ok()?.to_owned())).collect::<Vec<_>>())
            .collect()
    }

    /// Number of files that git knows and that differ from what is committed.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        let mut options = StatusOptions::new();
        options.include_untracked(false).exclude_submodules(true);
        self.repository.statuses(Some(&mut options)).map_or(0, |found| found.iter().count())
    }

    fn commit(&self, revision: &Revision) -> Result<Commit<'_>> {
        let found = Oid::from_str(&revision.commit).and_then(|id| self.repository.find_commit(id));
        found.map_err(|error| Error::setup(format!("cannot read {}", revision.shown())).because(&error))
    }

    fn diff(&self, base: &Revision, head: &Revision, path: Option<&Utf8Path>) -> Result<Diff<'_>> {
        let mut options = DiffOptions::new();
        options.context_lines(0);
        if let Some(path) = path {
            options.disable_pathspec_match(true).pathspec(path.as_str());
        }
        let trees = (self.commit(base)?.tree(), self.commit(head)?.tree());
        let trees = trees.0.and_then(|base| Ok((base, trees.1?)));
        let found = trees
            .and_then(|(base, head)| self.repository.diff_tree_to_tree(Some(&base), Some(&head), Some(&mut options)));
        found.map_err(|error| {
            let wrong = Error::setup(format!("cannot compare {} with {}", base.shown(), head.shown()));
            wrong.because(&error)
        })
    }
}
