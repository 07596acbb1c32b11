//! Who proposes changes: a queue of patches, or a command that edits files. Each stands behind [`Proposer`].
//!
//! A proposer changes files in the campaign's worktree and says what it did. The engine reads the difference itself,
//! refuses paths that may not change, stores what is left and measures it. No number that a proposer gives is ever used,
//! and a change that a proposer did not mention counts like any other.

pub mod agent;
mod answer;
pub mod brief;
pub mod patches;
mod prompt;

use camino::Utf8Path;
use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::{Reason, Usage};
use kopt_schema::campaign::target::Source;

use crate::context::Context;
use crate::error::Result;
use crate::process::Interrupts;

pub use agent::{Agent, Limits};
pub use brief::{Brief, Dossier};
pub use patches::Patches;

/// Somebody who can be asked for a change.
pub trait Proposer {
    /// As people and events call it.
    fn name(&self) -> String;

    /// Asks for one change of the files in `brief.workspace`.
    ///
    /// # Errors
    /// When the asking itself fails, or the user interrupts. A proposer that fails is an [`Outcome`], not an error.
    fn propose(&mut self, context: &Context, interrupts: &Interrupts, brief: &Brief<'_>) -> Result<Answer>;

    /// Whether there may be something left to propose, after those of its sources that were used.
    fn has_more(&self, _used: &[String]) -> bool {
        true
    }

    /// Whether asking again, with what went wrong, may bring something else.
    fn can_retry(&self) -> bool {
        true
    }
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The change, or why there is none.
    pub outcome: Outcome,
    /// What the proposer says to have used; told also where it failed.
    pub usage: Option<Usage>,
    /// How long it took.
    pub seconds: f64,
    /// The patch that it came from, also where that failed.
    pub source: Option<String>,
    /// What its author says of a change that failed.
    pub said: Option<Proposal>,
    /// What was overlooked in its answer, for people.
    pub notes: Vec<String>,
}

/// The change, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Files were changed, and this is said of it.
    Change(Proposal),
    /// There is nothing more to propose.
    Nothing,
    /// There is no change to judge.
    Failed {
        /// Why.
        reason: Reason,
        /// In words.
        message: String,
    },
}

/// The proposer that a target names; none where changes are made by hand. Everything that can be wrong with it is found
/// here, before anything slow: patches are read, programs looked up.
///
/// Files and folders of patches are relative to `workspace`, the user's own and not the campaign's copy.
///
/// # Errors
/// When patches cannot be read, or the command of an agent cannot be run.
pub fn of(
    context: &Context,
    source: &Source,
    workspace: &Utf8Path,
    limits: Limits,
) -> Result<Option<Box<dyn Proposer>>> {
    Ok(match source {
        Source::Patches { folder } => Some(Box::new(Patches::new(workspace.join(folder), source.name())?)),
        Source::Patch { file } => Some(Box::new(Patches::one(workspace.join(file), source.name())?)),
        Source::Agent { command } => {
            let agent = Agent::new(command, limits)?;
            agent.check(context)?;
            Some(Box::new(agent))
        }
        Source::Hand => None,
    })
}

#[cfg(test)]
mod tests;
