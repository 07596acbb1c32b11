//! What a kernel's gain is worth in training: two versions of a kernel inside a real training step.
//!
//! The step is that of `kopt-train`, a small language model one op of which is given to the kernel, or the user's own
//! script (`transfer.command` of the manifest). Incumbent, candidate and the incumbent again run in fresh processes, in
//! lock step: one step each, in random order, on the same text and from the same weights. From the launches come the gain
//! of the step with its interval, the op's share of the step, the gain that this share and a benchmark of the same
//! calls predict, and whether both versions learn the same.
//!
//! | module | what |
//! |---|---|
//! | [`trainer`] | `kopt-train`, found and built |
//! | `contestant` | one running trainer |
//! | `course` | launches: who steps when |
//! | [`figures`] | from launches to figures: pure functions |
//! | `command` | the user's own script |

mod command;
mod contestant;
mod course;
pub mod figures;
pub mod trainer;

use camino::Utf8Path;
use kopt_schema::DType;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Script, TransferSettings};
use kopt_schema::training::{Filling, LEAST_STEPS, SLOTS, TrainingStep};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::referee::seeds::Master;
use crate::shell::Manner;
use crate::workspace::Workspace;
use trainer::Trainer;

/// Two versions of a kernel, and how long they may take.
#[derive(Debug, Clone)]
pub struct Contest<'a> {
    /// The crate as the candidate's version has it.
    pub kernel: &'a Kernel,
    /// `candidate.json` of the version that stands.
    pub incumbent: &'a Utf8Path,
    /// `candidate.json` of the version that challenges it.
    pub candidate: &'a Utf8Path,
    /// What everything random follows from.
    pub seed: Master,
    /// How much is measured.
    pub terms: Terms,
}

/// How much is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Sizes of the model, by name; those made for the op if none are named.
    pub preset: Option<String>,
    /// Steps in which loss curves are compared.
    pub steps: usize,
    /// At least and at most so many launches.
    pub launches: (usize, usize),
    /// Enough is known when half the interval of the gain is no wider than this.
    pub half_width: f64,
    /// Seconds after which no further launch is begun.
    pub max_time_s: f64,
    /// Seconds after which a trainer that has not answered counts as hanging; a step takes some 50 ms.
    pub patience_s: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            preset: None,
            steps: LEAST_STEPS,
            launches: (4, 24),
            half_width: 0.008,
            max_time_s: 50.0,
            patience_s: 60.0,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Figures.
    Taken(Box<TrainingStep>),
    /// The candidate did not get through: it crashed, hung or failed; why, in words.
    Lost(String),
}

/// What is told while it goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A launch is over.
    Launch {
        /// Launches so far.
        number: usize,
        /// Logarithm of the gain that it saw.
        gain: f64,
    },
}

/// Runs both versions inside a training step: the user's, where the manifest names a command, or the harness's.
///
/// # Errors
/// When there is nothing to train with, or the incumbent itself does not get through.
pub fn training_step(
    context: &Context,
    manner: Manner,
    interrupts: &Interrupts,
    workspace: &Workspace,
    contest: &Contest<'_>,
    hear: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    if let Some(TransferSettings::Script(script)) = &contest.kernel.manifest.transfer {
        return with_script(context, interrupts, script, contest, hear);
    }
    slot(contest.kernel)?;
    let trainer = Trainer::build(context, manner, workspace)?;
    with_trainer(context, interrupts, &trainer, contest, hear)
}

/// The same, by the user's own script.
///
/// # Errors
/// When the script does not get through with the incumbent.
pub fn with_script(
    context: &Context,
    interrupts: &Interrupts,
    script: &Script,
    contest: &Contest<'_>,
    hear: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    command::train(context, interrupts, contest, script, hear)
}

/// The same, in a trainer that is there already.
///
/// # Errors
/// As [`training_step`].
pub fn with_trainer(
    context: &Context,
    interrupts: &Interrupts,
    trainer: &Trainer,
    contest: &Contest<'_>,
    hear: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    slot(contest.kernel)?;
    course::train(context, interrupts, trainer, contest, hear)
}

/// Why versions of this kernel cannot be run in a training step, in words; none where they can.
#[must_use]
pub fn why_not(kernel: &Kernel) -> Option<String> {
    let manifest = &kernel.manifest;
    match &manifest.transfer {
        None => Some(NO_SLOT.to_owned()),
        Some(TransferSettings::Script(_)) => None,
        Some(TransferSettings::Slot(_)) if manifest.backend != Backend::Cpu => {
            Some(format!("the model runs on the CPU so far, and the kernel on {}", manifest.backend.name()))
        }
        Some(TransferSettings::Slot(_)) if manifest.dtype != DType::F32 => {
            Some(format!("the model computes in f32, and the kernel in {}", manifest.dtype.name()))
        }
        Some(TransferSettings::Slot(_)) => None,
    }
}

/// A crate that says nothing of training.
const NO_SLOT: &str = "the crate declares no slot";

/// The op of the model that the kernel takes over.
fn slot(kernel: &Kernel) -> Result<&str> {
    let found = match &kernel.manifest.transfer {
        Some(TransferSettings::Slot(slot)) => Some(slot.as_str()),
        _ => None,
    };
    let why = match (why_not(kernel), found) {
        (None, Some(slot)) => return Ok(slot),
        (why, _) => why.unwrap_or_else(|| NO_SLOT.to_owned()),
    };
    let op = SLOTS.into_iter().find(|slot| *slot == kernel.manifest.op).unwrap_or("…");
    Err(Error::new(Exit::Setup, format!("{} cannot be run in a training step", kernel.member.name)).cause(why).hint(
        format!(
            "[package.metadata.kopt.transfer] slot = \"{op}\" gives it that op of the harness's model ({}, on the CPU in f32); \
             command = \"…\" runs a training script of your own, which prints METRIC lines",
            SLOTS.join(", ")
        ),
    ))
}

/// A kernel for its slot.
fn filling(kernel: &Kernel, slot: &str, candidate: &Utf8Path) -> Result<Filling> {
    let unreadable =
        |text: String| Error::setup(format!("{}: cannot read the interface", kernel.member.name)).cause(text);
    let bindings = kopt_build::bindings::load(&kernel.member.folder, &kernel.manifest, false)
        .map_err(|error| unreadable(error.to_string()))?;
    let entries = bindings.layouts().map_err(unreadable)?;
    if !entries.iter().any(|entry| entry.symbol == slot) {
        return Err(Error::setup(format!("{} does not fit into the slot `{slot}`", kernel.member.name))
            .cause(format!("its header declares no entry `{slot}`, which is what the model calls")));
    }
    let (backend, candidate) = (kernel.manifest.backend, candidate.to_string());
    Ok(Filling { op: slot.to_owned(), backend, candidate, entries })
}
