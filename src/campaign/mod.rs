//! The engine: DEFINE_TARGET → PREPARE → READ_TIPS → BASELINE → [ANALYZE → PROPOSE → VALIDATE → LEARN]* → REPORT.
//!
//! Its state is the ledger's fold over `events.jsonl`, and nothing else: [`Campaign::run`] looks at the phase that follows
//! from the last event and does what comes next, whether this process has written that event or one that was killed.
//!
//! | module | what |
//! |---|---|
//! | [`folder`] | where campaigns are kept |
//! | [`lock`] | one campaign at a time on a kernel |
//! | [`journal`] | `events.jsonl` |
//! | [`target`] | DEFINE_TARGET |
//! | [`opening`] | a campaign begun, or taken up again |
//! | `stand` | versions, compiled |
//! | `bouts` | the matches before the judge |
//! | `certificate` | whether the check can be trusted at all |
//! | `start` | PREPARE, READ_TIPS, BASELINE |
//! | `places` | what events tell of this workspace |
//! | `round` | ANALYZE, PROPOSE |
//! | `validate` | VALIDATE: compile, compare, accept or roll back |
//! | `drift` | losses that add up over the accepted rounds: policy `tile` |
//! | `anew` | both sides compiled from git once more, and run under the sanitizers, before an accept |
//! | `training` | the training step: BASELINE, accepts of policy `training`, REPORT |
//! | `close` | LEARN, REPORT |
//! | `writing` | the records of rounds, on disk and in git |
//! | `told` | what records and proposers are told, from the ledger |

mod anew;
mod bouts;
mod certificate;
mod close;
mod drift;
pub mod folder;
pub mod journal;
pub mod lock;
pub mod opening;
mod places;
mod round;
mod stand;
mod start;
pub mod target;
mod told;
mod training;
mod validate;
mod writing;

use camino::Utf8PathBuf;
use kopt_schema::campaign::event::{Ended, Reason, StopAsked};
use kopt_schema::campaign::{Entry, Event, Target};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::{self, Phase, State};
use crate::lineage::Lineage;
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::proposer::Proposer;
use crate::referee;
use crate::shell::Shell;
use bouts::Bouts;
use folder::Folder;
use journal::Journal;
use lock::Lock;
use stand::Stand;

/// Who follows a campaign.
pub trait Audience {
    /// Where builds and waits are told.
    fn shell(&mut self) -> &mut Shell;

    /// Something was written down.
    ///
    /// # Errors
    /// When output cannot be written.
    fn event(&mut self, target: &Target, state: &State, entry: &Entry) -> Result<()>;

    /// Something happens in a match.
    ///
    /// # Errors
    /// When output cannot be written.
    fn bout(&mut self, event: &referee::Event<'_>) -> Result<()>;

    /// What is being done now, in a few words.
    fn doing(&mut self, words: &str);
}

/// A campaign at work.
pub struct Campaign<'a> {
    context: &'a Context,
    interrupts: &'a Interrupts,
    audience: &'a mut dyn Audience,
    /// Its folder.
    pub folder: Folder,
    /// What it is after.
    pub target: Target,
    journal: Journal,
    lineage: Lineage,
    /// The user's workspace.
    root: Utf8PathBuf,
    /// Where the tool keeps what may be deleted.
    own: Utf8PathBuf,
    /// The crate that it is about; its folder is not the campaign's.
    kernel: Kernel,
    tools: Option<Tools>,
    proposers: Vec<Box<dyn Proposer>>,
    /// Rounds in a row, since this process began, in which a proposer brought nothing.
    unanswered: u32,
    /// The user was told that a limit of money does not hold.
    warned_of_cost: bool,
    _lock: Lock,
}

/// What measuring needs.
struct Tools {
    bouts: Bouts,
    stand: Stand,
    /// Built when it is needed first.
    trainer: Option<training::KeptTrainer>,
}

/// How far a campaign got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The report is written.
    Over,
    /// The next change comes by hand.
    WaitsForHand,
}

/// What is said of a round that was let go.
fn undecided(why: &str) -> String {
    format!("the campaign was stopped, and the round cannot be decided here: {why}")
}

/// Something that cannot be, and so is a bug here.
fn bug(what: &str) -> Error {
    Error::new(Exit::Internal, format!("internal error: {what}"))
        .hint("this is a bug of cargo kopt; what was decided is not lost, `cargo kopt resume` goes on")
}

impl Campaign<'_> {
    /// The state so far.
    #[must_use]
    pub const fn state(&self) -> &State {
        self.journal.state()
    }

    /// Where edits are made.
    #[must_use]
    pub fn crate_folder(&self) -> Utf8PathBuf {
        self.lineage.workspace().join(&self.kernel.path)
    }

    /// Goes on until the campaign is over or waits for a person.
    ///
    /// # Errors
    /// When something cannot be done. What was written down stands, and the campaign can be taken up again.
    pub fn run(&mut self) -> Result<Progress> {
        loop {
            self.go_on()?;
            // One whose beginning fails again and again can be ended, too.
            let begins = matches!(self.state().phase(), Phase::Prepare | Phase::ReadTips | Phase::Baseline);
            if begins && self.folder.stop().exists() && self.ends()? {
                continue;
            }
            match self.state().phase() {
                Phase::DefineTarget | Phase::Prepare => self.prepare()?,
                Phase::ReadTips => self.read_tips()?,
                Phase::Baseline => self.baseline()?,
                Phase::Analyze => {
                    if self.ends()? {
                        continue;
                    }
                    if !self.begin_round()? {
                        return Ok(Progress::WaitsForHand);
                    }
                }
                Phase::Propose { round, attempt } => {
                    if !self.propose(round, attempt)? {
                        return Ok(Progress::WaitsForHand);
                    }
                }
                Phase::Validate { round, attempt } => {
                    if let Err(error) = self.validate(round, attempt) {
                        let why = self.let_go(error)?;
                        self.roll_back(round, Reason::Stopped, &undecided(&why))?;
                    }
                }
                Phase::Learn { round } => self.learn(round)?,
                Phase::Report => self.report()?,
                Phase::Over => {
                    self.tidy()?;
                    return Ok(Progress::Over);
                }
            }
        }
    }

    /// An error once the user has interrupted. Ctrl-C also reaches compilers and `cargo test`: what they say of the
    /// candidate after it is no finding.
    fn go_on(&self) -> Result<()> {
        match self.interrupts.signal() {
            None => Ok(()),
            Some(signal) => Err(Error::new(Exit::Locked, format!("interrupted by signal {signal}"))
                .hint("the campaign is paused, nothing that was decided is lost: `cargo kopt resume` goes on")),
        }
    }

    /// What cannot be done here, in words, once the user has asked for the end: it is let go, and said. A campaign whose
    /// compiler is gone, or is another one now, could be ended by nothing else. A full disk, another process and a breach of
    /// trust stay errors.
    fn let_go(&mut self, error: Error) -> Result<String> {
        // Ctrl-C ends compilers, too, and gives nothing up.
        self.go_on()?;
        let cannot_be_done = matches!(error.exit(), Exit::Setup | Exit::NoDevice | Exit::BuildFailed);
        if !cannot_be_done || !self.folder.stop().exists() {
            return Err(error);
        }
        let failure = error.failure();
        let why = std::iter::once(failure.message).chain(failure.causes).collect::<Vec<_>>().join(": ");
        self.audience.shell().warn(&format!("{why}; the campaign ends without it"));
        Ok(why)
    }

    /// Writes an event down, and tells.
    fn add(&mut self, event: Event) -> Result<()> {
        let entry = self.journal.add(places::from_root(event, &self.root, &self.own))?;
        self.audience.event(&self.target, self.journal.state(), &entry)
    }

    /// Whether the campaign ends here; looked at between rounds only.
    fn ends(&mut self) -> Result<bool> {
        if self.folder.stop().exists() && !self.state().stop_asked {
            self.add(Event::StopAsked(StopAsked {}))?;
        }
        let termination = ledger::termination(self.state(), &self.target, self.journal.elapsed_s());
        if let Some(termination) = termination {
            self.add(Event::Ended(Ended { termination }))?;
        }
        Ok(termination.is_some())
    }
}
