//! `forget`: a campaign that is over, removed with all that it left behind.

use std::fs;

use camino::Utf8Path;
use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;

use super::campaigns::Which;
use crate::campaign::folder::{Folder, Home};
use crate::campaign::{journal, lock};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::lineage::{self, Traces};
use crate::shell::{GOOD, Shell, TOLD, count};
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

/// Shows what would go, and removes it if that is wanted. The folder goes last: who is killed in between asks again.
///
/// # Errors
/// When no campaign, or more than one, is meant; when it is not over; when something cannot be removed.
pub fn forget(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, found) = request.which.all(context)?;
    let (folder, target) = only(&request.which, &workspace, found)?;
    let home = Home::of(&workspace.root);
    let _held = lock::take(&home, &target.kernel, &folder.name)?;
    if journal::look(&folder.events())?.phase() != Phase::Over || !home.is_tidy(&folder.name) {
        return Err(Error::new(Exit::Locked, format!("campaign {} is not over", folder.name))
            .hint(format!("`cargo kopt stop {}` brings it to its end", folder.name)));
    }
    let branch = target.git_branch.as_deref();
    let traces = lineage::traces(&workspace.root, &folder.name, branch)?;
    show(context, shell, &folder, &target, &traces, request.branch);
    if !request.yes && !shell.confirm("that", "Remove all of this?")? {
        shell.say("Nothing was removed.\n");
        return Ok(Exit::Ok);
    }
    lineage::forget(&workspace.root, &folder.name, branch.filter(|_| request.branch))?;
    remove(&workspace.target.join("kopt/campaigns").join(&folder.name))?;
    remove(&folder.path)?;
    shell.status("Forgotten", GOOD, &folder.name);
    Ok(Exit::Ok)
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

fn show(context: &Context, shell: &mut Shell, folder: &Folder, target: &Target, traces: &Traces, branch: bool) {
    shell.status("Campaign", TOLD, &format!("{} on {}", folder.name, target.kernel));
    shell.status("Folder", TOLD, &format!("{}: target, events, evidence, report", context.shown(&folder.path)));
    let edits = match traces.saved() {
        0 => String::new(),
        saved => format!(", {} among them", count(saved, "edit that was never judged")),
    };
    let references = count(traces.references.len(), "reference");
    shell.status(
        "In git",
        TOLD,
        &format!("{references} under refs/kopt/{}: candidates and evidence{edits}", folder.name),
    );
    if let (Some(name), Some(commits)) = (&target.git_branch, traces.only_there) {
        let commits = match commits {
            0 => "all of its commits are on other branches, too".to_owned(),
            commits => format!("{} nowhere else", count(commits, "commit")),
        };
        let fate = if branch { commits } else { format!("stays ({commits}); --branch removes it, too") };
        shell.status("Branch", TOLD, &format!("{name}: {fate}"));
    }
    shell.note("without its evidence no commit of it can be verified; what was learned, in `.kopt/experience`, stays");
}

fn remove(folder: &Utf8Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::new(Exit::Output, format!("cannot remove `{folder}`"))
            .because(&error)
            .hint("put the permissions right, and ask again")),
    }
}
