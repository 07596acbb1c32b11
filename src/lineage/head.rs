//! Where HEAD and the branch stand: claimed at the beginning, watched, and put back when somebody else has moved them.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use kopt_schema::campaign::target::ExecutionMode;
use kopt_schema::exit::Exit;

use super::references::{MADE, delete_at, failed, name, point, swap, target};
use super::survey::{Around, uncommitted, uncommitted_error};
use super::worktree::link_of;
use super::{Lineage, Place, below, compare};
use crate::error::{Error, Result};

/// Makes the branch at the base, which is marked, or takes one that stands there; and marks the base.
pub(super) fn claim(repository: &Repository, place: &Place<'_>, base: Oid) -> Result<()> {
    let mark = name(place.campaign, "base");
    match target(repository, &mark)? {
        Some(other) if other != base => {
            return Err(Error::setup(format!("there is a campaign `{}` that began from {other}", place.campaign))
                .hint("choose another name, or resume that one"));
        }
        _ => {}
    }
    if let Some(branch) = place.branch {
        claim_branch(repository, place, branch, base)?;
    }
    // Last: a campaign that was refused has left no mark.
    point(repository, &mark, base, "kopt: the campaign begins")
}

fn claim_branch(repository: &Repository, place: &Place<'_>, branch: &str, base: Oid) -> Result<()> {
    if let Some(folder) = checked_out(repository, place, branch) {
        return Err(Error::setup(format!("the branch `{branch}` is checked out in `{}`", folder.display()))
            .hint("name another branch, or check out another one there; `execution_mode = \"in-place\"` works on it"));
    }
    let full = format!("refs/heads/{branch}");
    match target(repository, &full)? {
        Some(tip) if tip == base => Ok(()),
        Some(tip) => Err(Error::setup(format!("the branch `{branch}` exists and stands at {tip}"))
            .cause(format!("the campaign begins from {base}"))
            .hint("name a branch that does not exist, or one that stands at that commit")),
        None => {
            // Before the branch is: wherever this ends, it is known whose it is.
            let made = name(place.campaign, MADE);
            point(repository, &made, base, "kopt: the campaign makes its branch")?;
            repository.reference(&full, base, false, "kopt: the campaign begins").map(drop).map_err(|error| {
                // A campaign that is refused leaves no mark.
                let _ = delete_at(repository, &made, base);
                failed(format!("cannot make the branch `{branch}`"))(error)
                    .hint("a branch whose name is the beginning of this one is in its way: name another one")
            })
        }
    }
}

/// The same for a campaign that goes on: what was deleted is made again, and told.
pub(super) fn reclaim(repository: &Repository, place: &Place<'_>, base: Oid, incumbent: Oid) -> Result<Vec<String>> {
    let mark = name(place.campaign, "base");
    if target(repository, &mark)?.is_none() {
        point(repository, &mark, base, "kopt: the campaign goes on")?;
    }
    let Some(branch) = place.branch else { return Ok(Vec::new()) };
    if let Some(folder) = checked_out(repository, place, branch) {
        // Moving it would change what that checkout compares its files with.
        return Err(Error::new(
            Exit::Locked,
            format!("the branch `{branch}` is checked out in `{}`", folder.display()),
        )
        .hint("check out another branch there, and resume"));
    }
    let full = format!("refs/heads/{branch}");
    if target(repository, &full)?.is_some() {
        return Ok(Vec::new());
    }
    let made = swap(repository, &full, incumbent, None, "kopt: the campaign goes on")
        .map_err(failed(format!("cannot make the branch `{branch}`")))?;
    Ok(if made {
        vec![format!("the branch `{branch}` was gone; it was made again at {incumbent}")]
    } else {
        Vec::new()
    })
}

/// The folder of another checkout that has the branch.
pub(super) fn checked_out(repository: &Repository, place: &Place<'_>, branch: &str) -> Option<PathBuf> {
    let common = repository.commondir();
    let registrations = common.join("worktrees");
    let ours = match place.mode {
        ExecutionMode::Worktree => registrations.join(format!("kopt-{}", place.campaign)),
        ExecutionMode::InPlace => repository.path().to_owned(),
    };
    let ours = ours.canonicalize().ok();
    let wanted = format!("ref: refs/heads/{branch}");
    let has = |folder: &Path| fs::read_to_string(folder.join("HEAD")).is_ok_and(|head| head.trim_end() == wanted);
    let is_ours = |folder: &Path| ours.is_some() && folder.canonicalize().ok() == ours;
    let bare = repository.config().and_then(|config| config.get_bool("core.bare")).unwrap_or(false);
    if !bare && has(common) && !is_ours(common) {
        return Some(common.parent().unwrap_or(common).to_owned());
    }
    let linked = fs::read_dir(registrations).into_iter().flatten().flatten().map(|entry| entry.path());
    linked.filter(|folder| has(folder) && !is_ours(folder)).find_map(|folder| {
        // The registration of a folder that is gone holds no branch.
        let link = link_of(&folder).filter(|link| link.exists())?;
        let there = link.parent().unwrap_or(&link);
        Some(there.canonicalize().unwrap_or_else(|_| there.to_owned()))
    })
}

/// Refuses a checkout that a campaign cannot work in without mixing its work with the user's.
pub(super) fn check_in_place(around: &Around, place: &Place<'_>, base: Oid) -> Result<()> {
    let repository = &around.repository;
    let hint = "commit or stash it first, or let the campaign work in a worktree of its own";
    if repository.state() != git2::RepositoryState::Clean {
        return Err(Error::setup("a merge, rebase or the like is not finished in the checkout")
            .hint("finish or abort it first, or let the campaign work in a worktree of its own"));
    }
    let (dirty, _) = uncommitted(repository)?;
    if !dirty.is_empty() {
        return Err(uncommitted_error(&dirty).hint(hint));
    }
    let head = repository.head().and_then(|head| head.peel_to_commit()).map_err(failed("cannot read HEAD"))?;
    if head.id() != base {
        return Err(Error::setup(format!("the checkout is at {}, the campaign begins from {base}", head.id()))
            .hint("check out that commit, or let the campaign work in a worktree of its own"));
    }
    let tree = head.tree().map_err(failed("cannot read the files of HEAD"))?;
    for source in place.sources {
        let path = below(&around.prefix, source);
        let entry = tree.get_path(path.as_std_path()).map(|entry| compare::Entry::of(&entry));
        let entry = entry.map_err(|_| Error::setup(format!("`{path}` is not committed")).hint(hint))?;
        let found = compare::one(repository, around.top.as_std_path(), path.as_std_path(), entry)?;
        if !found.is_empty() {
            return Err(Error::setup(format!("`{path}` is not on disk what it is in the commit"))
                .cause("git converts it on checkout, or its changes are hidden from git")
                .hint("let the campaign work in a worktree of its own"));
        }
    }
    Ok(())
}

/// Checks the branch out, in place: it stands at the commit that is checked out, so no file changes.
pub(super) fn switch(repository: &Repository, branch: Option<&str>) -> Result<()> {
    let Some(branch) = branch else { return Ok(()) };
    if is_on(repository, branch)? {
        return Ok(());
    }
    repository.set_head(&format!("refs/heads/{branch}")).map_err(failed(format!("cannot check out `{branch}`")))
}

/// Refuses to go on in a checkout that is on another branch.
pub(super) fn check_still_on(repository: &Repository, branch: Option<&str>) -> Result<()> {
    match branch {
        Some(branch) if !is_on(repository, branch)? => {
            Err(Error::new(Exit::Locked, format!("the checkout is not on the campaign's branch `{branch}`"))
                .hint(format!("`git switch {branch}`, and resume")))
        }
        _ => Ok(()),
    }
}

fn is_on(repository: &Repository, branch: &str) -> Result<bool> {
    let head = repository.find_reference("HEAD").map_err(failed("cannot read HEAD"))?;
    Ok(head.symbolic_target_bytes() == Some(format!("refs/heads/{branch}").as_bytes()))
}

impl Lineage {
    /// Whether somebody else has committed, or checked out something else.
    pub(super) fn is_moved(&self, incumbent: Oid) -> Result<bool> {
        let head = target(&self.repository, "HEAD")?;
        match (&self.branch, self.mode) {
            (Some(branch), _) => Ok(head != Some(incumbent) || !is_on(&self.repository, branch)?),
            (None, ExecutionMode::Worktree) => Ok(head != Some(incumbent)),
            // Nothing is committed, and the user's branch stays where it was.
            (None, ExecutionMode::InPlace) => Ok(head != Some(self.base)),
        }
    }

    /// Puts the worktree's HEAD and the branch back to the incumbent, and says so. What stood there is kept. A commit that
    /// [`Self::accept`] made stays: after a kill it is there before the campaign's events know of it.
    pub(super) fn put_back(&self, incumbent: Oid) -> Result<Vec<String>> {
        let accepted = target(&self.repository, &self.reference("accepted"))?;
        let is_known = |id: Oid| id == incumbent || Some(id) == accepted;
        let is_behind = |id: Oid| self.repository.graph_descendant_of(incumbent, id).unwrap_or(false);
        let mut words = Vec::new();
        let head = target(&self.repository, "HEAD")?;
        let detached = self.repository.head_detached().unwrap_or(false);
        if let Some(id) = head.filter(|id| detached && !is_known(*id) && !is_behind(*id)) {
            let kept = self.keep_commit(id)?;
            words.push(format!("somebody has committed in the worktree; that is kept as `{kept}`"));
        }
        let Some(branch) = &self.branch else {
            if head != Some(incumbent) || !detached {
                self.repository.set_head_detached(incumbent).map_err(failed("cannot put HEAD back"))?;
            }
            return Ok(words);
        };
        let full = self.standing_reference();
        let tip = target(&self.repository, &full)?;
        if let Some(tip) = tip.filter(|tip| !is_known(*tip)) {
            let kept = self.keep_commit(tip)?;
            let back = swap(&self.repository, &full, incumbent, Some(tip), "kopt: put back");
            if !back.map_err(failed(format!("cannot put the branch `{branch}` back")))? {
                return Err(self.moved_error(incumbent)?);
            }
            words.push(format!("somebody has moved the branch `{branch}` to {tip}; that is kept as `{kept}`"));
            words.push(format!("the branch `{branch}` was put back to {incumbent}"));
        } else if tip.is_none() {
            point(&self.repository, &full, incumbent, "kopt: made again")?;
        }
        if !is_on(&self.repository, branch)? {
            self.repository.set_head(&full).map_err(failed(format!("cannot check out `{branch}`")))?;
            words.push(format!("the worktree was not on its branch `{branch}`; it was put back"));
        }
        Ok(words)
    }

    /// The branch is not where it was left.
    pub(super) fn moved_error(&self, incumbent: Oid) -> Result<Error> {
        let what = match &self.branch {
            Some(branch) => format!("the branch `{branch}`"),
            None => format!("`{}`", self.standing_reference()),
        };
        let now = self.tip_id()?.map_or("it is gone".to_owned(), |tip| format!("it is at {tip}"));
        Ok(Error::new(Exit::Locked, format!("{what} was moved by somebody else"))
            .cause(format!("{now}; expected {incumbent}"))
            .hint(match self.mode {
                ExecutionMode::Worktree => {
                    "let nobody else commit to it while a campaign runs; resuming keeps what stands there and goes on"
                }
                ExecutionMode::InPlace => "keep what stands there under another name, and put the branch back",
            }))
    }
}
