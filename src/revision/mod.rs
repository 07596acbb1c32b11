//! Versions of the workspace as git has them: a revision is resolved to a commit, and the commit's tree exported into
//! a folder of its own under the target folder.
//!
//! No git worktree is registered, no index and no reference is touched: a run that is killed leaves no lock in the
//! user's repository, and nothing here can lose work. An export is named by its commit and holds exactly the bytes of
//! that commit (but for one line: see `tree`); it is checked before it is used again, and may be deleted at any time.

mod claimed;
mod export;
mod range;
mod tree;

use camino::{Utf8Path, Utf8PathBuf};
use git2::{BranchType, ErrorCode, Repository};
use kopt_build::scratch;

use crate::error::{Error, Result};

/// Branches and tags that are named where a revision is not found.
const NAMED: usize = 8;

/// What to do about a clone that has not all objects of its commits.
const NOT_PARTIAL: &str =
    "`git fetch --refetch --no-filter` gets the rest; in a workflow, leave `filter:` out of actions/checkout";

/// The repository around a workspace.
pub struct Revisions {
    repository: Repository,
    /// The repository's folder, by the name that leads to the workspace.
    top: Utf8PathBuf,
    /// The workspace's folder inside the repository; empty at its root.
    prefix: Utf8PathBuf,
    /// Where exports are kept.
    folder: Utf8PathBuf,
}

/// A commit that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// As it was named.
    pub name: String,
    /// The commit, in hexadecimal.
    pub commit: String,
}

impl Revision {
    /// `HEAD~1 (1a2b3c4d5e)`, or the commit alone where it was named by its number.
    #[must_use]
    pub fn shown(&self) -> String {
        let short = &self.commit[..self.commit.len().min(10)];
        match self.commit.starts_with(&self.name) {
            true => short.to_owned(),
            false => format!("{} ({short})", self.name),
        }
    }
}

/// A commit's files on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The folder with the whole tree.
    pub root: Utf8PathBuf,
    /// The workspace in it.
    pub workspace: Utf8PathBuf,
    /// What of the tree is not there, in words.
    pub left_out: Vec<String>,
}

impl Revisions {
    /// The repository that holds the workspace in `root`; exports go to `folder`.
    ///
    /// # Errors
    /// When there is none, or git refuses to open it.
    pub fn around(root: &Utf8Path, folder: &Utf8Path) -> Result<Self> {
        let repository = Repository::discover(root).map_err(|error| match error.code() {
            ErrorCode::NotFound => Error::setup(format!("`{root}` is not in a git repository"))
                .hint("versions are compared by their commits: `git init`, and commit what stands"),
            ErrorCode::Owner => {
                let top = root.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(root);
                Error::setup(format!("cannot open the git repository of `{root}`")).because(&error).hint(format!(
                    "it belongs to another user: `git config --global --add safe.directory '{top}'` trusts it"
                ))
            }
            _ => {
                let wrong = Error::setup(format!("cannot open the git repository of `{root}`")).because(&error);
                // As older versions of git mark a partial clone.
                match error.message().contains("partialclone") {
                    true => wrong.hint(NOT_PARTIAL),
                    false => wrong,
                }
            }
        })?;
        let top = repository.workdir().and_then(|top| top.canonicalize().ok());
        let inside = root.canonicalize_utf8().ok().and_then(|root| {
            let inside = root.as_std_path().strip_prefix(top.as_deref()?).ok()?.to_owned();
            Utf8PathBuf::from_path_buf(inside).ok()
        });
        let Some(prefix) = inside else {
            return Err(Error::setup(format!("`{root}` is not among the files of its git repository"))
                .hint("a bare repository has no files: clone it"));
        };
        let top = root.ancestors().nth(prefix.components().count()).unwrap_or(root).to_owned();
        Ok(Self { repository, top, prefix, folder: folder.to_owned() })
    }

    /// The commit that `name` means to git: a branch, a tag, `HEAD~2`, a number.
    ///
    /// # Errors
    /// When there is no such revision, or it is no commit.
    pub fn resolve(&self, name: &str) -> Result<Revision> {
        let found = self.repository.revparse_single(name).map_err(|error| self.unknown(name, &error))?;
        let commit = found.peel_to_commit().map_err(|error| {
            let kind = found.kind().map_or("no commit", |kind| kind.str());
            Error::setup(format!("`{name}` is a {kind}, not a commit")).because(&error)
        })?;
        Ok(Revision { name: name.to_owned(), commit: commit.id().to_string() })
    }

    /// The commit's message.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn message(&self, revision: &Revision) -> Result<String> {
        let unreadable = |error: git2::Error| Error::setup(format!("cannot read {}", revision.shown())).because(&error);
        let commit = git2::Oid::from_str(&revision.commit).and_then(|id| self.repository.find_commit(id));
        Ok(String::from_utf8_lossy(commit.map_err(unreadable)?.message_bytes()).into_owned())
    }

    /// The commit's files, exported if they are not here yet.
    ///
    /// # Errors
    /// When the commit has no such workspace, objects are missing, or the files cannot be written.
    pub fn export(&self, revision: &Revision) -> Result<Export> {
        let mut files = tree::Files::of(&self.repository, revision)?;
        if !files.has(&self.prefix.join("Cargo.toml")) {
            let place =
                if self.prefix.as_str().is_empty() { "its root".to_owned() } else { format!("`{}`", self.prefix) };
            return Err(Error::setup(format!("{} has no Cargo.toml in {place}", revision.shown()))
                .hint("the workspace was somewhere else then, or not there yet; name a later revision"));
        }
        files.seal(&self.repository, &self.prefix);
        scratch::sweep(&self.folder, export::UNFINISHED);
        let root = export::ready(&self.repository, &files, revision, &self.folder)?;
        Ok(Export { workspace: root.join(&self.prefix), left_out: files.left_out(), root })
    }

    fn unknown(&self, name: &str, error: &git2::Error) -> Error {
        let wrong = match error.code() {
            ErrorCode::Ambiguous => Error::setup(format!("`{name}` may mean more than one commit")),
            _ => Error::setup(format!("there is no revision `{name}`")),
        };
        let wrong = wrong.cause(error.message());
        let names = self.names();
        if let Some(near) = kopt_schema::nearest(name, names.iter().map(String::as_str)) {
            return wrong.hint(format!("did you mean `{near}`?"));
        }
        if self.repository.is_shallow() {
            return wrong.hint("this clone has only the newest commits; `git fetch --unshallow` gets the others");
        }
        match names.is_empty() {
            true => wrong.hint("the repository has no commit yet"),
            false => wrong.hint(format!("branches and tags: {}", names[..names.len().min(NAMED)].join(", "))),
        }
    }

    /// Names of branches, those of remotes after one's own, then of tags.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for kind in [BranchType::Local, BranchType::Remote] {
            let branches = self.repository.branches(Some(kind)).into_iter().flatten().flatten();
            names.extend(branches.filter_map(|(branch, _)| Some(branch.name().ok()??.to_owned())));
        }
        if let Ok(tags) = self.repository.tag_names(None) {
            names.extend(tags.iter().flatten().flatten().map(str::to_owned));
        }
        names
    }
}

/// What is said where an object of a commit cannot be read. Git fetches what a partial clone has left out once somebody asks for
/// it; the library that reads here does not, and what it cannot read must not pass for what is not there.
fn unreadable(repository: &Repository, revision: &Revision, error: &git2::Error) -> Error {
    let shown = revision.shown();
    if is_partial(repository) {
        let wrong = Error::setup(format!("this is a partial clone: objects of {shown} are not here"));
        return wrong.because(error).hint(NOT_PARTIAL);
    }
    let wrong = Error::setup(format!("cannot read the files of {shown}")).because(error);
    match repository.is_shallow() {
        true => wrong.hint("this clone has only a part of the history; `git fetch --unshallow` gets the rest"),
        false => wrong.hint("`git fsck` says what is wrong with the repository"),
    }
}

/// Whether there is a remote that keeps what this clone leaves out.
fn is_partial(repository: &Repository) -> bool {
    let Ok(config) = repository.config() else { return false };
    config.entries(Some("^remote\\..*\\.promisor$")).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether git knows a file of a working tree: it is committed, or would be.
#[must_use]
pub fn is_tracked(file: &Utf8Path) -> bool {
    let found = || {
        let repository = Repository::discover(file.parent()?).ok()?;
        let top = repository.workdir()?.canonicalize().ok()?;
        let inside = file.parent()?.canonicalize_utf8().ok()?.join(file.file_name()?);
        let inside = inside.as_std_path().strip_prefix(top).ok()?.to_owned();
        let staged = repository.index().is_ok_and(|index| index.get_path(&inside, 0).is_some());
        let tree = repository.head().and_then(|head| head.peel_to_tree());
        Some(staged || tree.is_ok_and(|tree| tree.get_path(&inside).is_ok()))
    };
    found().unwrap_or(false)
}

#[cfg(test)]
mod tests;
