//! A campaign begun, or taken up again.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::event::{Began, Reason, Resumed};
use kopt_schema::campaign::{Entry, Event, Target};
use kopt_schema::exit::Exit;

use super::folder::{Folder, Home, digest};
use super::journal::{self, Journal};
use super::{Audience, Campaign, certificate, lock, round, stand};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::lineage::{self, Lineage, Place};
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::proposer;
use crate::revision::{Revision, Revisions};
use crate::workspace::Workspace;

/// Where a campaign works and who follows it.
pub struct Surroundings<'a> {
    /// The process's.
    pub context: &'a Context,
    /// Ctrl-C.
    pub interrupts: &'a Interrupts,
    /// Who is told.
    pub audience: &'a mut dyn Audience,
    /// The user's workspace.
    pub workspace: &'a Workspace,
}

/// Begins a campaign on `kernel`, a crate of the workspace: lock, folder, branch, worktree, first event.
///
/// # Errors
/// When another one works on the kernel or is unfinished, its check is too weak, or git refuses. Nothing is left behind then.
pub fn begin<'a>(mut around: Surroundings<'a>, kernel: Kernel, mut target: Target) -> Result<Campaign<'a>> {
    let home = Home::of(&around.workspace.root);
    home.make()?;
    let mut lock = lock::take(&home, &target.kernel, &target.campaign)?;
    // Whatever is wrong with a queue or an agent's command is told before anything is made.
    let proposers = proposers(around.context, &target, &around.workspace.root)?;
    let certificate = certificate::of_base(&mut around, &kernel, &target)?;
    let folder = free_folder(&home, &mut target)?;
    let worktree = home.worktree(&target.campaign);
    let sources = sources(&target, &kernel);
    let place = place(&around.workspace.root, &target, &worktree, &sources);
    // Its name may have a number now.
    let made = lock.name(&target.campaign).and_then(|()| make(place, &folder, &target, certificate));
    let (lineage, journal, entry) = match made {
        Ok(made) => made,
        Err(error) => {
            // The folder goes last: who finds it knows of the rest.
            if lineage::abandon(place).is_ok() {
                let _ = std::fs::remove_dir_all(&folder.path);
            }
            return Err(error);
        }
    };
    around.audience.event(&target, journal.state(), &entry)?;
    Ok(around.at_work(Parts { folder, target, kernel, journal, lineage, proposers, lock }))
}

/// Everything that a campaign is before its first round: the target, what it has in git, and then the first event.
fn make(place: Place<'_>, folder: &Folder, target: &Target, certificate: String) -> Result<(Lineage, Journal, Entry)> {
    let kept = folder.keep_target(target)?;
    let lineage = Lineage::begin(place)?;
    let mut journal = Journal::create(&folder.events())?;
    let began = Event::Began(Began {
        campaign: target.campaign.clone(),
        kernel: target.kernel.clone(),
        base: target.base.clone(),
        target: kept,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        certificate: Some(certificate),
    });
    let entry = journal.add(began)?;
    Ok((lineage, journal, entry))
}

/// What a campaign is made of, wherever it works.
struct Parts {
    folder: Folder,
    target: Target,
    kernel: Kernel,
    journal: Journal,
    lineage: Lineage,
    proposers: Vec<Box<dyn proposer::Proposer>>,
    lock: lock::Lock,
}

impl<'a> Surroundings<'a> {
    fn at_work(self, parts: Parts) -> Campaign<'a> {
        Campaign {
            context: self.context,
            interrupts: self.interrupts,
            audience: self.audience,
            folder: parts.folder,
            target: parts.target,
            journal: parts.journal,
            lineage: parts.lineage,
            root: self.workspace.root.clone(),
            own: self.workspace.target.join("kopt"),
            kernel: parts.kernel,
            tools: None,
            proposers: parts.proposers,
            unanswered: 0,
            warned_of_cost: false,
            _lock: parts.lock,
        }
    }
}

/// A folder of the campaign's own. Another one on the same operator, on another kernel, may have begun in the same
/// second: then the name gets a number.
fn free_folder(home: &Home, target: &mut Target) -> Result<Folder> {
    let wanted = target.campaign.clone();
    let automatic = target.git_branch.as_ref().is_some_and(|branch| *branch == format!("kopt/{wanted}"));
    for number in 2_u32.. {
        let folder = home.campaign(&target.campaign);
        match std::fs::create_dir(&folder.path) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                target.campaign = format!("{wanted}-{number}");
                if automatic {
                    target.git_branch = Some(format!("kopt/{}", target.campaign));
                }
            }
            Err(error) => {
                return Err(Error::new(Exit::Output, format!("cannot make `{}`", folder.path)).because(&error));
            }
        }
    }
    Err(Error::new(Exit::Internal, "no name is free"))
}

/// Takes up a campaign that was begun. What a killed process left is put in order first.
///
/// # Errors
/// When another process works on it, its files were changed, or git refuses.
pub fn resume<'a>(mut around: Surroundings<'a>, folder: Folder) -> Result<Campaign<'a>> {
    let home = Home::of(&around.workspace.root);
    let target = folder.target()?;
    let lock = lock::take(&home, &target.kernel, &target.campaign)?;
    let (journal, mut repaired) = Journal::open(&folder.events())?;
    // Before the target is looked at: where all events are gone, git may have them.
    if let Some(stored) = lineage::evidence_of(&around.workspace.root, &target.campaign, "events.jsonl")? {
        journal::agrees(&folder.events(), &stored)?;
    }
    unchanged(&folder, &journal)?;
    let ends = folder.stop().exists() || journal.state().ended.is_some();
    let proposers = match proposers(around.context, &target, &around.workspace.root) {
        Err(error) if ends => {
            // A queue that was deleted, or an agent that is gone, must not keep a campaign from its end.
            around.audience.shell().warn(&format!("{error}; the campaign ends, and nobody is asked any more"));
            Vec::new()
        }
        made => made?,
    };
    let worktree = home.worktree(&target.campaign);
    let incumbent = journal.state().incumbent().to_owned();
    let kernel = of_base(&mut around, &target)?;
    let sources = sources(&target, &kernel);
    let (lineage, more) = Lineage::open(place(&around.workspace.root, &target, &worktree, &sources), &incumbent)?;
    repaired.extend(more);
    let mut campaign = around.at_work(Parts { folder, target, kernel, journal, lineage, proposers, lock });
    if campaign.state().reported.is_none() {
        campaign.add(Event::Resumed(Resumed { tool: env!("CARGO_PKG_VERSION").to_owned(), repaired }))?;
    }
    Ok(campaign)
}

/// The crate as it is in the commit that the campaign starts from: what is checked out may have another one, or none.
fn of_base(around: &mut Surroundings<'_>, target: &Target) -> Result<Kernel> {
    let base = Revision { name: "the campaign's base".to_owned(), commit: target.base.clone() };
    let exports = around.workspace.target.join("kopt").join("revisions");
    let export = Revisions::around(&around.workspace.root, &exports)?.export(&base)?;
    stand::kernel_in(around.context, around.audience.shell(), &export.workspace, &target.kernel)
}

/// The target is the one that was confirmed.
fn unchanged(folder: &Folder, journal: &Journal) -> Result<()> {
    let path = folder.manifest();
    let bytes = std::fs::read(&path).map_err(|error| Error::setup(format!("cannot read `{path}`")).because(&error))?;
    match &journal.state().began {
        Some(began) if began.target != digest(&bytes) => {
            Err(Error::new(Exit::Locked, format!("the target was changed after the campaign began: `{path}`")).hint(
                "put it back, or begin another campaign with the new target: every verdict rests on what was agreed",
            ))
        }
        Some(_) => Ok(()),
        None => Err(Error::new(Exit::Locked, format!("`{}` holds no event", folder.events()))
            .hint(format!("nor does git: `cargo kopt forget {}` removes it", folder.name))),
    }
}

fn proposers(context: &Context, target: &Target, root: &Utf8Path) -> Result<Vec<Box<dyn proposer::Proposer>>> {
    let limits = proposer::Limits::seconds(target.round_time_s);
    let made: Result<Vec<_>> =
        target.proposers.iter().map(|source| proposer::of(context, source, root, limits)).collect();
    Ok(made?.into_iter().flatten().collect())
}

/// The declared sources, relative to the workspace.
fn sources(target: &Target, kernel: &Kernel) -> Vec<Utf8PathBuf> {
    target.kernel_sources.iter().map(|source| round::relative(&kernel.path, source)).collect()
}

fn place<'a>(root: &'a Utf8Path, target: &'a Target, worktree: &'a Utf8Path, sources: &'a [Utf8PathBuf]) -> Place<'a> {
    Place {
        workspace: root,
        campaign: &target.campaign,
        branch: target.git_branch.as_deref(),
        base: &target.base,
        mode: target.execution_mode,
        folder: worktree,
        sources,
    }
}

impl Campaign<'_> {
    /// Takes the edit that lies in the worktree as the candidate of a round, and decides on it. The state tells what came
    /// of it. A round that a killed process left is finished first, and the edit laid out again after it; where the edit is
    /// still that round's, what came of the round is the answer.
    ///
    /// # Errors
    /// When the campaign is over or in another's hands, or something cannot be done.
    pub fn take_by_hand(&mut self, proposal: kopt_schema::campaign::Proposal) -> Result<()> {
        use crate::ledger::Phase;
        let edit = self.lineage.edit(&self.sources());
        let answered = self.is_unfinished(&edit)?;
        loop {
            match self.state().phase() {
                Phase::Analyze if answered => break,
                Phase::Analyze => {
                    if self.ends()? {
                        continue;
                    }
                    self.open_round(round::BY_HAND)?;
                }
                // A killed process left it refused for the last time: what is tried now is another round.
                Phase::Propose { round, .. } if self.is_spent(round)? => {}
                // The round that was finished may be tried again with what was found wrong with it.
                Phase::Propose { .. } if answered => break,
                Phase::Propose { round, attempt } => {
                    self.take(round, attempt, round::BY_HAND, proposal, round::Spent::default(), true)?;
                    break;
                }
                Phase::Report | Phase::Over => {
                    return Err(Error::new(Exit::Locked, "the campaign is over")
                        .hint("`cargo kopt resume` writes what is missing of its report; `cargo kopt optimize --by-hand` begins another one"));
                }
                Phase::DefineTarget | Phase::Prepare => self.prepare()?,
                Phase::ReadTips => self.read_tips()?,
                Phase::Baseline => self.baseline()?,
                // A round that a killed process left is finished first.
                Phase::Validate { round, attempt } => self.validate(round, attempt)?,
                Phase::Learn { round } => {
                    self.learn(round)?;
                    if !answered {
                        self.lineage.lay_out(&edit)?;
                    }
                }
            }
        }
        loop {
            match self.state().phase() {
                Phase::Validate { round, attempt } => self.validate(round, attempt)?,
                Phase::Learn { round } => self.learn(round)?,
                // Where this was the last one, the campaign ends with it, and whoever tried is told.
                Phase::Analyze if self.ends()? => {}
                Phase::Propose { round, .. } if self.folder.stop().exists() => {
                    // There will be no other attempt, and no campaign ends with its round open.
                    let last = self.state().open_round().and_then(|open| open.attempts.last());
                    let refused = last.and_then(|attempt| attempt.refused.as_ref());
                    let why = refused.map(|refused| format!(": {}", refused.message)).unwrap_or_default();
                    let message = format!("the campaign was stopped while the round was open{why}");
                    self.roll_back(round, Reason::Stopped, &message)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Whether a round that a killed process left is about this very edit, whose candidate is stored already.
    fn is_unfinished(&self, edit: &[(Utf8PathBuf, Vec<u8>)]) -> Result<bool> {
        use crate::ledger::Phase;
        let (Phase::Validate { round, .. } | Phase::Learn { round }) = self.state().phase() else { return Ok(false) };
        let Some(stored) = self.state().round(round).and_then(|round| round.stored()) else { return Ok(false) };
        for (source, bytes) in edit {
            if self.lineage.file(&stored.candidate, source)?.as_ref() != Some(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the report, where what was taken by hand was the last.
    ///
    /// # Errors
    /// When something cannot be done; taken up again, the campaign goes on from there.
    pub fn end_by_hand(&mut self) -> Result<()> {
        use crate::ledger::Phase;
        loop {
            match self.state().phase() {
                Phase::Report => self.report()?,
                Phase::Over => return self.tidy(),
                _ => return Ok(()),
            }
        }
    }
}
