//! `forget`: a campaign that is over, never began, or has lost its events, removed with all that it left behind.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;

use super::campaigns::Which;
use crate::campaign::folder::{Folder, Home};
use crate::campaign::{journal, lock};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::lineage::{self, Place, Traces};
use crate::shell::table::{Align, Table};
use crate::shell::{GOOD, Shell, count};
use crate::workspace::Workspace;

/// What the user said.
#[derive(Debug)]
pub struct Request {
    /// Which campaign.
    pub which: Which,
    /// Its branch, too.
    pub branch: bool,
    /// Without asking.
    pub yes: bool,
}

/// Shows what would go, and removes it if that is wanted. The folder goes last, and out of sight as a whole: who is killed
/// before that asks again, and after it there is nothing to ask for.
///
/// # Errors
/// When no campaign, or more than one, is meant; when it is not over; when something cannot be removed.
pub fn forget(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, found) = request.which.all_and_unbegun(context)?;
    let (folder, target) = only(&request.which, &workspace, found)?;
    if request.yes && request.which.name.as_ref() != Some(&folder.name) {
        return Err(Error::new(Exit::Usage, "with --yes nobody is asked, and nothing is guessed")
            .hint(format!("say the whole name: `cargo kopt forget {} --yes`", folder.name)));
    }
    let home = Home::of(&workspace.root);
    let _held = lock::take(&home, &target.kernel, &folder.name)?;
    // Not before the lock is held: until then its first event may be about to be written.
    if !folder.has_begun() || has_lost_its_events(&workspace, &folder)? {
        return forget_unbegun(shell, request, &workspace, &folder, &target);
    }
    let over = journal::look(&folder.events())?.phase() == Phase::Over;
    if !over || !home.is_tidy(&folder.name) {
        let command = if over { "resume" } else { "stop" };
        return Err(Error::new(Exit::Locked, format!("campaign {} is not over", folder.name))
            .hint(format!("`cargo kopt {command} {}` brings it to its end", folder.name)));
    }
    let branch = target.git_branch.as_deref();
    let traces = lineage::traces(&workspace.root, &folder.name, branch)?;
    let aside = set_aside(&home, &folder.name);
    shell.tell(&shown(context, &folder, &target, &traces, request.branch, aside.len()));
    if !request.branch && traces.on_no_branch > 0 {
        let commits = count(traces.on_no_branch, "accepted commit");
        return Err(Error::setup(format!("{commits} of the campaign would be lost: no branch and no tag has them"))
            .hint(format!(
                "`git branch NAME refs/kopt/{}/accepted` keeps them, --branch removes them, too",
                folder.name
            )));
    }
    if !request.yes && !shell.confirm("that", "Remove all of this?")? {
        shell.say("Nothing was removed.\n");
        return Ok(Exit::Ok);
    }
    lineage::forget(&workspace.root, &folder.name, branch.filter(|_| request.branch))?;
    remove(&workspace.target.join("kopt/campaigns").join(&folder.name))?;
    aside.iter().try_for_each(|folder| remove(folder))?;
    out_of_sight(&home, &folder)?;
    shell.status("Forgotten", GOOD, &folder.name);
    Ok(Exit::Ok)
}

/// Whether nothing says any more that a campaign began, neither its file of events nor git: nobody could bring it to its end.
fn has_lost_its_events(workspace: &Workspace, folder: &Folder) -> Result<bool> {
    let began = journal::look(&folder.events())?.began.is_some();
    Ok(!began && lineage::evidence_of(&workspace.root, &folder.name, "events.jsonl")?.is_none())
}

/// Removes one that never began: what its beginning has made, before that was killed. Nothing of it was ever judged.
fn forget_unbegun(
    shell: &mut Shell,
    request: &Request,
    workspace: &Workspace,
    folder: &Folder,
    target: &Target,
) -> Result<Exit> {
    let what = "its folder, and a worktree and a branch without a commit of its own, where they are made";
    let why = if folder.has_begun() { "has lost its events" } else { "never began" };
    shell.tell(&format!("Campaign {} {why}: {what}.\n", folder.name));
    if !request.yes && !shell.confirm("that", "Remove it?")? {
        shell.say("Nothing was removed.\n");
        return Ok(Exit::Ok);
    }
    let home = Home::of(&workspace.root);
    lineage::abandon(Place {
        workspace: &workspace.root,
        campaign: &folder.name,
        branch: target.git_branch.as_deref(),
        base: &target.base,
        mode: target.execution_mode,
        folder: &home.worktree(&folder.name),
        sources: &[],
    })?;
    out_of_sight(&home, folder)?;
    shell.status("Forgotten", GOOD, &folder.name);
    Ok(Exit::Ok)
}

/// The folder goes as a whole.
fn out_of_sight(home: &Home, folder: &Folder) -> Result<()> {
    let forgotten = home.path.join("forgotten");
    let moved = fs::create_dir_all(&forgotten)
        .and_then(|()| remove_if_there(&forgotten.join(&folder.name)))
        .and_then(|()| fs::rename(&folder.path, forgotten.join(&folder.name)));
    moved.map_err(|error| cannot_remove(&folder.path, &error))?;
    // Also what somebody who was killed here has left.
    remove(&forgotten)
}

/// The one that is meant: what cannot be had back is not guessed.
fn only(which: &Which, workspace: &Workspace, mut found: Vec<(Folder, Target)>) -> Result<(Folder, Target)> {
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some((folder, _)), false) => {
            let mut names: Vec<String> = found.into_iter().map(|(folder, _)| folder.name).collect();
            names.push(folder.name);
            Err(Error::new(Exit::Usage, "more than one campaign has such a name").hint(names.join(", ")))
        }
        (None, _) => Err(which.none(workspace)),
    }
}

/// Folders with what its worktree had and git cannot keep.
fn set_aside(home: &Home, campaign: &str) -> Vec<Utf8PathBuf> {
    let worktree = home.worktree(campaign);
    let (Some(parent), Some(name)) = (worktree.parent(), worktree.file_name()) else { return Vec::new() };
    let start = format!("{name}.saved");
    let entries = parent.read_dir_utf8().into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().starts_with(&start)).map(|entry| entry.into_path()).collect()
}

fn shown(context: &Context, folder: &Folder, target: &Target, traces: &Traces, branch: bool, aside: usize) -> String {
    let mut table = Table::new(&[("campaign", Align::Left), (&folder.name, Align::Left)]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("kernel", target.kernel.clone());
    row("folder", format!("{}: target, events, evidence, report", context.shown(&folder.path)));
    if aside > 0 {
        row("set aside", format!("{} of its worktree that git cannot keep", count(aside, "folder")));
    }
    let edits = match traces.saved() {
        0 => String::new(),
        saved => format!(", {} among them that nobody judged", count(saved, "edit")),
    };
    let references = count(traces.references.len(), "reference");
    row("in git", format!("{references} under refs/kopt/{}: candidates and evidence{edits}", folder.name));
    let commits = match traces.only_there {
        0 => "all of its commits are on other branches, too".to_owned(),
        commits => format!("{} nowhere else", count(commits, "commit")),
    };
    match &target.git_branch {
        Some(name) if traces.branch => {
            let fate = if branch { commits } else { format!("stays ({commits}); --branch removes it, too") };
            row("branch", format!("{name}: {fate}"));
        }
        _ if traces.on_no_branch > 0 => row("accepted", format!("on no branch: {commits}")),
        _ => {}
    }
    row("stays", "what was learned, in .kopt/experience; but no commit of it can be verified any more".to_owned());
    table.render()
}

fn remove(folder: &Utf8Path) -> Result<()> {
    remove_if_there(folder).map_err(|error| cannot_remove(folder, &error))
}

fn remove_if_there(folder: &Utf8Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cannot_remove(folder: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot remove `{folder}`"))
        .because(error)
        .hint("put the permissions right, and ask again, or remove it by hand")
}
