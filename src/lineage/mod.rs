//! A campaign in git: its worktree, its branch, what was tried, what was accepted, and the evidence.
//!
//! The user's checkout, index, stash and HEAD are never touched, unless the campaign was asked to work in place. Nothing
//! that a person or an agent wrote is ever deleted, until somebody asks for it: it is kept under a reference first. A process may be killed at
//! any instruction: every step leaves a repository that works, and what [`Lineage::open`] finds half-done it makes whole.
//!
//! | module | what |
//! |---|---|
//! | `survey` | what must be true before a campaign begins |
//! | `worktree` | the campaign's own folder and its registration |
//! | `head` | where HEAD and the branch stand, and putting them back |
//! | `compare` | files against a commit, by content |
//! | `changes` | what a proposer changed, and what of it is not allowed |
//! | `restore` | files as a commit has them |
//! | `saved` | unfinished edits, kept |
//! | `candidate` | a change as a commit |
//! | `accept` | the branch moves |
//! | `evidence` | files beside the code, in a reference of their own |
//! | `forget` | a campaign that is over, or never began, taken out |
//! | `references` | names, identity, errors of git |
//!
//! # References
//!
//! | reference | what |
//! |---|---|
//! | `refs/heads/kopt/<campaign>`, or the user's choice | accepted rounds; moved by compare-and-swap only |
//! | `refs/kopt/<campaign>/base` | the commit that the campaign began from |
//! | `refs/kopt/<campaign>/branch` | the same, where the branch was made for the campaign and did not stand there before |
//! | `refs/kopt/<campaign>/round-<N>` | the newest candidate of a round |
//! | `refs/kopt/<campaign>/round-<N>-attempt-<A>` | each of its candidates |
//! | `refs/kopt/<campaign>/accepted` | the newest accepted commit, written before the branch moves |
//! | `refs/kopt/<campaign>/evidence` | evidence, summaries, tips: a history of their own |
//! | `refs/kopt/<campaign>/saved-<n>` | unfinished edits, and commits that somebody else put on the branch |

mod accept;
mod candidate;
mod changes;
mod compare;
mod evidence;
mod forget;
mod head;
mod references;
mod restore;
mod saved;
mod survey;
mod worktree;

#[cfg(test)]
mod tests;

use camino::{Utf8Path, Utf8PathBuf};
use git2::{Commit, Oid, Repository};
use kopt_schema::campaign::target::ExecutionMode;

pub use candidate::Candidate;
pub use changes::{Changes, Forbidden};
pub use evidence::{campaign_of, evidence_of};
pub use forget::{Traces, abandon, forget, traces};
pub use survey::{Survey, survey, uncommitted_error};
pub use worktree::own_folder;

use crate::error::{Error, Result};
use references::failed;

/// Where a campaign is at work.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The workspace in the user's checkout.
    pub workspace: &'a Utf8Path,
    /// The campaign's name.
    pub campaign: &'a str,
    /// The branch that accepted rounds go to; none if nothing is to be committed.
    pub branch: Option<&'a str>,
    /// The commit it began from.
    pub base: &'a str,
    /// In a worktree of its own, or in the user's checkout.
    pub mode: ExecutionMode,
    /// `.kopt/worktrees/<campaign>`, absolute or relative to the workspace.
    pub folder: &'a Utf8Path,
    /// What rounds may change, relative to the workspace. In place, nothing else is ever written.
    pub sources: &'a [Utf8PathBuf],
}

/// A campaign's hold on the repository.
pub struct Lineage {
    /// As seen from the place of work: its HEAD and index are those that move.
    repository: Repository,
    campaign: String,
    branch: Option<String>,
    base: Oid,
    mode: ExecutionMode,
    /// The worktree's own folder; also where things are moved that cannot be kept as objects.
    folder: Utf8PathBuf,
    /// Where the files of the repository lie.
    top: Utf8PathBuf,
    /// The workspace's folder inside the repository; empty at its root.
    prefix: Utf8PathBuf,
    workspace: Utf8PathBuf,
    /// Relative to the repository.
    sources: Vec<Utf8PathBuf>,
}

impl Lineage {
    /// Begins: the branch is made at the base and the worktree from it. Doing so again, after a kill, is harmless.
    ///
    /// # Errors
    /// When names are unusable, the branch stands elsewhere or is checked out elsewhere, the checkout is not clean (in
    /// place), or the repository cannot be written.
    pub fn begin(place: Place<'_>) -> Result<Self> {
        let around = survey::around(place.workspace)?;
        references::check_names(place.campaign, place.branch)?;
        let base = references::commit(&around.repository, place.base)?.id();
        if place.mode == ExecutionMode::InPlace {
            head::check_in_place(&around, &place, base)?;
        }
        worktree::release(&around.repository, &place)?;
        head::claim(&around.repository, &place, base)?;
        own_folder(place.workspace)?;
        match place.mode {
            ExecutionMode::InPlace => {
                head::switch(&around.repository, place.branch)?;
                Self::assemble(&place, around, base)
            }
            ExecutionMode::Worktree => {
                worktree::ensure(&around, &place, base)?;
                let lineage = Self::assemble(&place, around, base)?;
                lineage.reset(place.base)?;
                Ok(lineage)
            }
        }
    }

    /// Goes on after a pause or a kill, and says what had to be repaired. An unfinished edit stays where it is; a copy is
    /// kept under a reference. The branch may be one accepted commit ahead of `incumbent`: see [`Self::tip`].
    ///
    /// # Errors
    /// When the repository is gone or broken, or the checkout is on another branch (in place).
    pub fn open(place: Place<'_>, incumbent: &str) -> Result<(Self, Vec<String>)> {
        let around = survey::around(place.workspace)?;
        references::check_names(place.campaign, place.branch)?;
        let base = references::commit(&around.repository, place.base)?.id();
        let incumbent = references::commit(&around.repository, incumbent)?.id();
        let mut repaired = worktree::release(&around.repository, &place)?;
        repaired.extend(head::reclaim(&around.repository, &place, base, incumbent)?);
        own_folder(place.workspace)?;
        let remade = match place.mode {
            ExecutionMode::InPlace => Vec::new(),
            ExecutionMode::Worktree => worktree::ensure(&around, &place, incumbent)?,
        };
        let lineage = Self::assemble(&place, around, base)?;
        let woken = lineage.wake(&incumbent.to_string(), !remade.is_empty())?;
        repaired.extend(remade.into_iter().chain(woken));
        Ok((lineage, repaired))
    }

    /// Finds what happened while nobody was at work. `empty` says that the worktree has no files yet.
    fn wake(&self, incumbent: &str, empty: bool) -> Result<Vec<String>> {
        let incumbent = self.commit(incumbent)?;
        let found = self.differences(&self.expected(&incumbent)?)?;
        if empty || self.is_half_made(&found) {
            self.restore(&incumbent)?;
        }
        let mut words = match self.mode {
            ExecutionMode::InPlace => {
                head::check_still_on(&self.repository, self.branch.as_deref())?;
                Vec::new()
            }
            ExecutionMode::Worktree => self.put_back(incumbent.id())?,
        };
        if let Some(reference) = self.keep_edit(&incumbent)? {
            words.push(format!("an unfinished edit was found; a copy is kept as `{reference}`"));
        }
        Ok(words)
    }

    fn assemble(place: &Place<'_>, around: survey::Around, base: Oid) -> Result<Self> {
        let folder = worktree::folder_of(place);
        let (top, repository) = match place.mode {
            ExecutionMode::InPlace => (around.top, around.repository),
            ExecutionMode::Worktree => {
                let opened = Repository::open(&folder)
                    .map_err(failed(format!("cannot open the campaign's worktree `{folder}`")))?;
                (folder.clone(), opened)
            }
        };
        Ok(Self {
            repository,
            campaign: place.campaign.to_owned(),
            branch: place.branch.map(str::to_owned),
            base,
            mode: place.mode,
            folder,
            workspace: below(&top, &around.prefix),
            top,
            sources: place.sources.iter().map(|source| below(&around.prefix, source)).collect(),
            prefix: around.prefix,
        })
    }

    /// The workspace where the campaign is at work.
    #[must_use]
    pub fn workspace(&self) -> &Utf8Path {
        &self.workspace
    }

    /// Makes the files those of `incumbent`; in place, the declared sources only. What differs is kept first, and the
    /// reference it is kept under is returned, unless it is a candidate that is kept anyway.
    ///
    /// # Errors
    /// When something cannot be kept or written; then nothing was destroyed.
    pub fn reset(&self, incumbent: &str) -> Result<Option<String>> {
        let incumbent = self.commit(incumbent)?;
        if self.mode == ExecutionMode::Worktree {
            worktree::release_own(&self.repository, &self.campaign, self.branch.as_deref())?;
        }
        let kept = self.keep_edit(&incumbent)?;
        if self.mode == ExecutionMode::Worktree {
            self.put_back(incumbent.id())?;
        }
        self.restore(&incumbent)?;
        Ok(kept)
    }

    /// Where accepted rounds stand: the tip of the branch or, where nothing is committed, the newest accepted commit.
    ///
    /// # Errors
    /// When the reference cannot be read.
    pub fn tip(&self) -> Result<Option<String>> {
        Ok(self.tip_id()?.map(|id| id.to_string()))
    }

    /// The bytes of a file of a commit, if it has it. The path is relative to the workspace.
    ///
    /// # Errors
    /// When the commit or its objects are missing.
    pub fn file(&self, commit: &str, path: &Utf8Path) -> Result<Option<Vec<u8>>> {
        let tree = self.commit(commit)?.tree().map_err(failed(format!("cannot read the files of {commit}")))?;
        references::blob(&self.repository, &tree, &below(&self.prefix, path))
    }

    /// The message of a commit.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn message(&self, commit: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(self.commit(commit)?.message_raw_bytes()).into_owned())
    }

    /// The first parent of a commit.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn parent(&self, commit: &str) -> Result<Option<String>> {
        Ok(self.commit(commit)?.parent_ids().next().map(|id| id.to_string()))
    }

    /// The tree of a commit: two commits with the same files have the same.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn tree_of(&self, commit: &str) -> Result<String> {
        Ok(self.commit(commit)?.tree_id().to_string())
    }

    fn commit(&self, id: &str) -> Result<Commit<'_>> {
        references::commit(&self.repository, id)
    }

    fn reference(&self, what: &str) -> String {
        references::name(&self.campaign, what)
    }

    fn tip_id(&self) -> Result<Option<Oid>> {
        references::target(&self.repository, &self.standing_reference())
    }

    /// The reference that accepting a round moves.
    fn standing_reference(&self) -> String {
        match &self.branch {
            Some(branch) => format!("refs/heads/{branch}"),
            None => self.reference("accepted"),
        }
    }
}

/// `path` below `folder`, which may be empty: joining to nothing would leave a slash at the end.
fn below(folder: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    match (folder.as_str().is_empty(), path.as_str().is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => folder.to_owned(),
        _ => folder.join(path),
    }
}

/// An error of the file system, about `path`.
fn unusable(doing: &str, path: impl AsRef<std::path::Path>, error: &std::io::Error) -> Error {
    Error::setup(format!("cannot {doing} `{}`", path.as_ref().display())).because(error)
}
