//! What must be true of a repository before a campaign begins in it, and what its user should be told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use camino::{Utf8Path, Utf8PathBuf};
use git2::{
    AttrCheckFlags, AttrValue, ErrorCode, FileMode, IndexEntryExtendedFlag, ObjectType, Repository, RepositoryState,
    StatusEntry, StatusOptions, Tree,
};

use super::references::failed;
use super::{below, compare};
use crate::error::{Error, Result};

/// Files that are named in an error, at most.
const NAMED: usize = 5;

/// Hooks that a commit by hand would run.
const HOOKS: [&str; 2] = ["pre-commit", "commit-msg"];

/// A repository that a campaign can begin in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The commit that is checked out.
    pub head: String,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// Known files with changes that are not committed, relative to the repository.
    pub dirty: Vec<Utf8PathBuf>,
    /// What is not as the user may think, in words.
    pub notes: Vec<String>,
    /// Whether no branch is checked out.
    pub detached: bool,
    /// Whether only a part of the history is here.
    pub shallow: bool,
    /// A merge, rebase or the like that was not finished, by its name. A campaign cannot work in place then.
    pub unfinished: Option<&'static str>,
    /// The workspace's folder inside the repository; empty at its root.
    pub prefix: Utf8PathBuf,
}

/// A repository and where the workspace lies in it.
pub(super) struct Around {
    pub(super) repository: Repository,
    pub(super) top: Utf8PathBuf,
    pub(super) prefix: Utf8PathBuf,
}

/// The repository around a workspace.
pub(super) fn around(workspace: &Utf8Path) -> Result<Around> {
    let repository = Repository::discover(workspace).map_err(|error| match error.code() {
        ErrorCode::NotFound => Error::setup(format!("`{workspace}` is not in a git repository"))
            .hint("a campaign's rounds are commits: `git init`, and commit what stands"),
        _ => failed(format!("cannot open the git repository of `{workspace}`"))(error),
    })?;
    let top = repository.workdir().and_then(|top| Utf8PathBuf::from_path_buf(top.canonicalize().ok()?).ok());
    let inside = |top: &Utf8PathBuf| Some(workspace.canonicalize_utf8().ok()?.strip_prefix(top).ok()?.to_owned());
    match top.and_then(|top| Some((inside(&top)?, top))) {
        Some((prefix, top)) => Ok(Around { repository, top, prefix }),
        None => Err(Error::setup(format!("`{workspace}` is not among the files of its git repository"))
            .hint("a bare repository has no files: clone it, and work in the clone")),
    }
}

/// Whether a campaign can begin from what is checked out. Writes nothing. `sources` are absolute.
///
/// # Errors
/// When there is no repository, no commit, or a source that could not be committed exactly as it was measured.
pub fn survey(workspace: &Utf8Path, sources: &[Utf8PathBuf]) -> Result<Survey> {
    let Around { repository, prefix, .. } = around(workspace)?;
    let head = repository.head().and_then(|head| head.peel_to_commit()).map_err(|error| match error.code() {
        ErrorCode::UnbornBranch | ErrorCode::NotFound => {
            Error::setup(format!("the git repository of `{workspace}` has no commit yet"))
                .hint("a campaign begins from a commit: `git add` the workspace and `git commit` it")
        }
        _ => failed("cannot read what is checked out")(error),
    })?;
    let tree = head.tree().map_err(|error| incomplete(&repository).because(&error))?;
    check_objects(&repository, &tree)?;
    if tree.get_path(below(&prefix, "Cargo.toml".into()).as_std_path()).is_err() {
        return Err(Error::setup(format!("the workspace `{workspace}` is not among the files that are committed"))
            .hint("a campaign begins from a commit that holds the workspace: `git add` it and `git commit`"));
    }
    check_sources(&repository, &tree, workspace, &prefix, sources)?;
    let detached = repository.head_detached().unwrap_or(false);
    let branch = repository.head().ok().filter(|_| !detached).and_then(|head| Some(head.shorthand().ok()?.to_owned()));
    let (dirty, unknown) = uncommitted(&repository)?;
    let survey = Survey {
        head: head.id().to_string(),
        branch,
        dirty,
        notes: Vec::new(),
        detached,
        shallow: repository.is_shallow(),
        unfinished: unfinished(&repository),
        prefix,
    };
    let notes = notes(&repository, &survey, unknown);
    Ok(Survey { notes, ..survey })
}

/// Every object of the tree must be here: git would fetch one that is missing, we cannot.
fn check_objects(repository: &Repository, tree: &Tree<'_>) -> Result<()> {
    let entries = compare::entries(repository, tree).map_err(|error| incomplete(repository).because(&error))?;
    let odb = repository.odb().map_err(failed("cannot open the repository's objects"))?;
    let is_missing = |entry: &compare::Entry| !entry.is_submodule() && !odb.exists(entry.id);
    match entries.iter().find(|(_, entry)| is_missing(entry)) {
        Some((path, _)) => Err(incomplete(repository).cause(format!("the contents of `{}`", path.display()))),
        None => Ok(()),
    }
}

fn incomplete(repository: &Repository) -> Error {
    let partial = repository.config().is_ok_and(|config| {
        config.entries(Some(r"remote\..*\.(promisor|partialclonefilter)")).is_ok_and(|mut found| found.next().is_some())
    });
    let error = Error::setup("objects of the commit that is checked out are missing");
    match partial {
        true => error.hint("this is a partial clone: clone it again without `--filter`"),
        false => error.hint("`git fsck` says what is wrong with the repository"),
    }
}

fn check_sources(
    repository: &Repository,
    tree: &Tree<'_>,
    workspace: &Utf8Path,
    prefix: &Utf8Path,
    sources: &[Utf8PathBuf],
) -> Result<()> {
    let mut wrong = Vec::new();
    for source in sources {
        let inside = source.strip_prefix(workspace).map(Utf8Path::to_owned).or_else(|_| {
            let folder = workspace.canonicalize_utf8().unwrap_or_else(|_| workspace.to_owned());
            source.strip_prefix(folder).map(Utf8Path::to_owned)
        });
        let why = match &inside {
            Ok(inside) => reason_against(repository, tree, source, &below(prefix, inside)),
            Err(_) => Some("lies outside of the workspace".to_owned()),
        };
        if let Some(why) = why {
            wrong.push(format!("`{}` {why}", inside.as_ref().unwrap_or(source)));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let error = Error::setup(match wrong.len() {
        1 => "a kernel source cannot be committed exactly".to_owned(),
        count => format!("{count} kernel sources cannot be committed exactly"),
    });
    let error = wrong.into_iter().fold(error, Error::cause);
    Err(error.hint(
        "what is measured must be what is committed: each source has to be a plain file that git knows and keeps as it \
         is; commit it, or leave it out of `sources`",
    ))
}

/// Why a source cannot be used, if so. `path` is relative to the repository.
fn reason_against(repository: &Repository, tree: &Tree<'_>, source: &Utf8Path, path: &Utf8Path) -> Option<String> {
    for part in path.ancestors().filter(|part| !part.as_str().is_empty()) {
        let Ok(entry) = tree.get_path(part.as_std_path()) else { continue };
        match entry.kind() {
            Some(ObjectType::Commit) => return Some(format!("lies in the submodule `{part}`")),
            _ if entry.filemode() == i32::from(FileMode::Link) => {
                return Some(if part == path {
                    "is a link".to_owned()
                } else {
                    format!("lies behind the link `{part}`")
                });
            }
            Some(ObjectType::Tree) if part == path => return Some("is a folder".to_owned()),
            _ => {}
        }
    }
    if source.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
        return Some("is a link in the checkout".to_owned());
    }
    if tree.get_path(path.as_std_path()).is_err() {
        let staged = repository.index().is_ok_and(|index| index.get_path(path.as_std_path(), 0).is_some());
        let why = match (staged, repository.is_path_ignored(path.as_std_path()).unwrap_or(false)) {
            (true, _) => "is staged but not committed",
            (_, true) => "is ignored by git",
            _ if !source.exists() => "does not exist",
            _ => "is not known to git",
        };
        return Some(why.to_owned());
    }
    let filter = repository.get_attr(path.as_std_path(), "filter", AttrCheckFlags::FILE_THEN_INDEX).ok()?;
    match AttrValue::from_string(filter) {
        AttrValue::String("lfs") => Some("is kept by git LFS".to_owned()),
        AttrValue::String(name) => Some(format!("goes through the filter `{name}`")),
        _ => None,
    }
}

/// Known files with changes, and the number of files that git does not know.
pub(super) fn uncommitted(repository: &Repository) -> Result<(Vec<Utf8PathBuf>, usize)> {
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(false).exclude_submodules(true);
    let statuses = repository.statuses(Some(&mut options)).map_err(failed("cannot tell what is not committed"))?;
    let (mut dirty, mut unknown) = (Vec::new(), 0);
    for entry in statuses.iter() {
        let path = Utf8PathBuf::from(String::from_utf8_lossy(entry.path_bytes()).into_owned());
        match entry.status() {
            _ if is_sparse(repository, &entry) => {}
            git2::Status::WT_NEW if path.components().any(|part| part.as_str() == ".kopt") => {}
            git2::Status::WT_NEW => unknown += 1,
            git2::Status::CURRENT | git2::Status::IGNORED => {}
            _ => dirty.push(path),
        }
    }
    Ok((dirty, unknown))
}

/// That a checkout is not clean, and which files make it so.
#[must_use]
pub fn uncommitted_error(dirty: &[Utf8PathBuf]) -> Error {
    let error = Error::setup("the checkout has changes that are not committed");
    let shown = dirty.iter().take(NAMED).map(|path| format!("`{path}`"));
    let more = (dirty.len() > NAMED).then(|| format!("and {} more", dirty.len() - NAMED));
    shown.chain(more).fold(error, Error::cause)
}

/// Whether a file is missing because a sparse checkout leaves it out: the library takes such a one for deleted.
pub(super) fn is_sparse(repository: &Repository, entry: &StatusEntry<'_>) -> bool {
    let known = || repository.index().ok()?.get_path(Path::new(OsStr::from_bytes(entry.path_bytes())), 0);
    let flags = |known: git2::IndexEntry| IndexEntryExtendedFlag::from_bits_truncate(known.flags_extended);
    entry.status() == git2::Status::WT_DELETED && known().is_some_and(|known| flags(known).is_skip_worktree())
}

/// What was begun and not finished in the checkout.
fn unfinished(repository: &Repository) -> Option<&'static str> {
    match repository.state() {
        RepositoryState::Clean => None,
        RepositoryState::Merge => Some("merge"),
        RepositoryState::Revert | RepositoryState::RevertSequence => Some("revert"),
        RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Some("cherry-pick"),
        RepositoryState::Bisect => Some("bisect"),
        RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => Some("rebase"),
        RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => Some("git am"),
    }
}

fn notes(repository: &Repository, survey: &Survey, unknown: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.detached {
        notes.push("no branch is checked out; the campaign begins from the commit".to_owned());
    }
    if survey.shallow {
        notes.push("this clone has only a part of the history; that is enough for a campaign".to_owned());
    }
    if let Some(what) = survey.unfinished {
        notes.push(format!("a {what} is not finished in the checkout; the campaign begins from the last commit"));
    }
    let config = repository.config().ok();
    if config.as_ref().is_some_and(|config| config.get_bool("commit.gpgsign").unwrap_or(false)) {
        notes.push("`commit.gpgsign` is set; the campaign's commits are not signed".to_owned());
    }
    let hooks = hooks(repository, config.as_ref());
    if !hooks.is_empty() {
        notes.push(format!("hooks are not run on the campaign's commits: {}", hooks.join(", ")));
    }
    if !survey.dirty.is_empty() {
        let files = if survey.dirty.len() == 1 { "file has" } else { "files have" };
        let what = format!("{} {files} changes that are not committed", survey.dirty.len());
        notes.push(format!("{what}; the campaign begins from the commit, without them"));
    }
    if unknown > 0 {
        notes.push("the checkout has files that git does not know; they are no part of the campaign".to_owned());
    }
    notes
}

fn hooks(repository: &Repository, config: Option<&git2::Config>) -> Vec<&'static str> {
    let folder = config.and_then(|config| config.get_path("core.hooksPath").ok());
    // A relative path is meant from the top of the checkout.
    let folder = match (folder, repository.workdir()) {
        (Some(folder), Some(top)) => top.join(folder),
        _ => repository.commondir().join("hooks"),
    };
    let runs = |hook: &&str| {
        folder.join(hook).metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    HOOKS.into_iter().filter(runs).collect()
}
