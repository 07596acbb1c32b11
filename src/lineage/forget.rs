//! A campaign that is over, taken out of git: its references and, where that is asked for, its branch. And one that never
//! began: what its beginning has made.

use camino::Utf8Path;
use git2::{BranchType, ErrorCode, Oid, Repository};
use kopt_schema::campaign::target::ExecutionMode;

use super::references::{self, MADE, ROOT, delete_at, failed};
use super::{Place, head, survey, worktree};
use crate::error::{Error, Result};

/// What git has of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces {
    /// Its references, by name: candidates, evidence, edits.
    pub references: Vec<String>,
    /// Whether its branch is there.
    pub branch: bool,
    /// Commits that no other branch than its own, local or remote, and no tag has. The campaign's references do not count: they go,
    /// too.
    pub only_there: usize,
    /// Those that it has accepted and that not even its own branch has.
    pub on_no_branch: usize,
}

impl Traces {
    /// Edits among them that nobody has judged.
    #[must_use]
    pub fn saved(&self) -> usize {
        self.references
            .iter()
            .filter(|name| name.rsplit('/').next().is_some_and(|last| last.starts_with("saved-")))
            .count()
    }
}

/// Looks for what a campaign has left.
///
/// # Errors
/// When the repository cannot be read.
pub fn traces(workspace: &Utf8Path, campaign: &str, branch: Option<&str>) -> Result<Traces> {
    let repository = survey::around(workspace)?.repository;
    let own = branch.map(|branch| format!("refs/heads/{branch}"));
    let there = match &own {
        Some(own) => references::target(&repository, own)?,
        None => None,
    };
    let accepted = references::target(&repository, &references::name(campaign, "accepted"))?;
    let tips: Vec<Oid> = there.into_iter().chain(accepted).collect();
    let base = references::target(&repository, &references::name(campaign, "base"))?;
    let bare: Vec<Oid> = accepted.into_iter().collect();
    let base: Vec<Oid> = base.into_iter().collect();
    let counted = only_there(&repository, &tips, own.as_deref(), &base)
        .and_then(|only_there| Ok((only_there, self::only_there(&repository, &bare, None, &base)?)));
    let (only_there, on_no_branch) = counted.map_err(failed(format!("cannot count the commits of `{campaign}`")))?;
    Ok(Traces { references: named(&repository, campaign)?, branch: there.is_some(), only_there, on_no_branch })
}

/// Deletes the references of a campaign, and `branch` before them: git refuses to while somebody has it checked out, and then
/// nothing is gone. What is gone already is no error.
///
/// # Errors
/// When one cannot be deleted, or the branch has commits that are not the campaign's.
pub fn forget(workspace: &Utf8Path, campaign: &str, branch: Option<&str>) -> Result<()> {
    let repository = survey::around(workspace)?.repository;
    if let Some(branch) = branch {
        delete_branch(&repository, campaign, branch)?;
    }
    for name in named(&repository, campaign)? {
        let deleted = repository.find_reference(&name).and_then(|mut reference| reference.delete());
        deleted.map_err(failed(format!("cannot delete the reference `{name}`")))?;
    }
    Ok(())
}

/// Takes back what a beginning that went no further has made: worktree, branch and marks. What is another campaign's of that
/// name, or was there before, stays; so does a branch that is checked out, or that somebody has moved.
///
/// # Errors
/// When something cannot be removed. The marks go last, so that it can be asked for again.
pub fn abandon(place: Place<'_>) -> Result<()> {
    // Of such a name nothing can have been made.
    if references::check_names(place.campaign, None).is_err() {
        return Ok(());
    }
    let repository = survey::around(place.workspace)?.repository;
    let base = Oid::from_str(place.base).map_err(failed(format!("cannot read the commit `{}`", place.base)))?;
    let [mark, made] = ["base", MADE].map(|what| references::name(place.campaign, what));
    let is_others = named(&repository, place.campaign)?.iter().any(|name| *name != mark && *name != made)
        || references::target(&repository, &mark)?.is_some_and(|marked| marked != base);
    if is_others || !worktree::abandon(&repository, &place)? {
        return Ok(());
    }
    // In place its own checkout is on it, too, and the user would be on no branch.
    let anywhere = Place { mode: ExecutionMode::Worktree, ..place };
    if let Some(branch) = place.branch
        && references::target(&repository, &made)? == Some(base)
        && head::checked_out(&repository, &anywhere, branch).is_none()
    {
        delete_at(&repository, &format!("refs/heads/{branch}"), base)?;
    }
    delete_at(&repository, &made, base)?;
    delete_at(&repository, &mark, base)
}

fn delete_branch(repository: &Repository, campaign: &str, branch: &str) -> Result<()> {
    let mut found = match repository.find_branch(branch, BranchType::Local) {
        Ok(found) => found,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(()),
        Err(error) => return Err(failed(format!("cannot find the branch `{branch}`"))(error)),
    };
    let tip = found.get().target();
    // Where it left the branch: at what it accepted last or, if that is nothing, at its base.
    let mut left = None;
    for what in ["accepted", "base"] {
        left = left.or(references::target(repository, &references::name(campaign, what))?);
    }
    let by_hand = format!("`git branch -D {branch}` deletes it all the same; without --branch it stays");
    let (Some(tip), true) = (tip, tip == left) else {
        return Err(Error::setup(format!("the branch `{branch}` is not where the campaign left it"))
            .hint(format!("somebody has worked on it since: {by_hand}")));
    };
    // It may have been there before the campaign.
    let base = references::target(repository, &references::name(campaign, "base"))?;
    let own = format!("refs/heads/{branch}");
    // Where no branch is checked out, what is checked out keeps its commits.
    let head = repository.head().ok().and_then(|head| head.peel_to_commit().ok()).map(|commit| commit.id());
    let head: Vec<Oid> = head.filter(|_| repository.head_detached().unwrap_or(false)).into_iter().collect();
    let but_its_own: Vec<Oid> = head.iter().copied().chain(base).collect();
    let count = |hidden: &[Oid]| only_there(repository, &[tip], Some(&own), hidden);
    let before = count(&head).and_then(|all| Ok(all.saturating_sub(count(&but_its_own)?)));
    if before.map_err(failed(format!("cannot read the branch `{branch}`")))? > 0 {
        return Err(Error::setup(format!(
            "the branch `{branch}` has commits of before the campaign that are nowhere else"
        ))
        .hint(by_hand));
    }
    found.delete().map_err(|error| {
        Error::setup(format!("cannot delete the branch `{branch}`"))
            .because(&error)
            .hint("check another one out, or leave it where it is: without --branch it stays")
    })
}

fn named(repository: &Repository, campaign: &str) -> Result<Vec<String>> {
    references::check_names(campaign, None)?;
    let read = || -> std::result::Result<Vec<String>, git2::Error> {
        let mut names = Vec::new();
        let mut found = repository.references_glob(&format!("{ROOT}{campaign}/*"))?;
        for name in found.names() {
            names.push(name?.to_owned());
        }
        Ok(names)
    };
    read().map_err(failed(format!("cannot list the references of `{campaign}`")))
}

/// How many commits below `tips` no branch but `own` and no tag has, and that are not below one of `hidden`.
fn only_there(
    repository: &Repository,
    tips: &[Oid],
    own: Option<&str>,
    hidden: &[Oid],
) -> std::result::Result<usize, git2::Error> {
    let mut walk = repository.revwalk()?;
    tips.iter().try_for_each(|tip| walk.push(*tip))?;
    hidden.iter().try_for_each(|hidden| walk.hide(*hidden))?;
    for reference in repository.references()? {
        let reference = reference?;
        let Ok(name) = reference.name() else { continue };
        let others = ["refs/heads/", "refs/remotes/", "refs/tags/"].iter().any(|kind| name.starts_with(kind));
        if others
            && Some(name) != own
            && let Ok(commit) = reference.peel_to_commit()
        {
            walk.hide(commit.id())?;
        }
    }
    let commits: Vec<Oid> = walk.collect::<std::result::Result<_, _>>()?;
    Ok(commits.len())
}
