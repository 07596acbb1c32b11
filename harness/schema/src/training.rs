//! The training step: what `cargo kopt` says to `kopt-train` and back, one JSON object a line, each a
//! [`Turn`](crate::wire::Turn); and what came of it, [`TrainingStep`].
//!
//! Requests come on standard input. Replies go to what was standard output when the process started: it keeps that for
//! itself before it loads a kernel, and whatever a kernel prints is never read.

use serde::{Deserialize, Serialize};

use crate::evidence::Estimate;
use crate::manifest::Backend;

/// Version of this protocol.
pub const TRAINING_VERSION: u32 = 1;

/// Losses are compared over at least this many steps.
pub const LEAST_STEPS: usize = 50;

/// Ops of the model that a kernel can take over.
pub const SLOTS: [&str; 4] = ["grouped_matmul", "matmul", "rmsnorm", "softmax"];

/// An op below this share of the step is not seen in it.
pub const LEAST_SHARE: f64 = 0.1;

/// To the trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum TrainingRequest {
    /// Make the model and load kernels into its slots.
    Load {
        /// Version of the protocol.
        version: u32,
        /// Sizes of the model, by name.
        preset: String,
        /// Weights and the order of the text follow from it.
        seed: u64,
        /// Ops that kernels take over; all others are plain Rust.
        slots: Vec<Filling>,
        /// Move each result of a slot's op by about its rounding error, at random from this seed: a kernel that computes the
        /// same in another order. How far losses drift apart by that alone is what others are held against.
        noise: Option<u64>,
    },
    /// Train.
    Step {
        /// How many steps.
        steps: u32,
    },
    /// Repeat the calls of the slots' ops in one step again and again on the same tensors, as a benchmark would.
    Benchmark {
        /// Seconds for all of them together.
        seconds: f64,
    },
}

/// A kernel for an op of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Filling {
    /// The op.
    pub op: String,
    /// Where it runs.
    pub backend: Backend,
    /// Its `candidate.json`.
    pub candidate: String,
    /// Its entries, with the layout of their args structs.
    pub entries: Vec<EntryArgs>,
}

/// The args struct of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryArgs {
    /// The entry's symbol.
    pub symbol: String,
    /// Size of the struct.
    pub size: usize,
    /// Its fields.
    pub fields: Vec<FieldArgs>,
}

/// A field of an args struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldArgs {
    /// Its name.
    pub name: String,
    /// Its offset.
    pub offset: usize,
    /// What it holds.
    pub kind: FieldArgsKind,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldArgsKind {
    /// A buffer that is read.
    Read,
    /// A buffer that is written.
    Write,
    /// An `int64_t`.
    Size,
    /// A `float`.
    Scalar,
}

impl FieldArgsKind {
    /// Bytes in the struct.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Read | Self::Write | Self::Size => 8,
            Self::Scalar => 4,
        }
    }
}

impl EntryArgs {
    /// A struct with these fields, laid out as C does.
    #[must_use]
    pub fn laid_out(symbol: &str, fields: &[(&str, FieldArgsKind)]) -> Self {
        let mut end = 0usize;
        let mut widest = 1;
        let mut laid = Vec::new();
        for (name, kind) in fields {
            let offset = end.next_multiple_of(kind.size());
            end = offset + kind.size();
            widest = widest.max(kind.size());
            laid.push(FieldArgs { name: (*name).to_owned(), offset, kind: *kind });
        }
        Self { symbol: symbol.to_owned(), size: end.next_multiple_of(widest), fields: laid }
    }
}

/// From the trainer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum TrainingReply {
    /// The model stands and its slots are filled.
    Loaded {
        /// Numbers that are learned.
        parameters: usize,
        /// Characters in a step.
        tokens: usize,
        /// Entries that kernels have taken over.
        filled: Vec<String>,
    },
    /// Steps were taken.
    Stepped {
        /// Each of them.
        steps: Vec<StepTaken>,
    },
    /// Calls were repeated.
    Benchmarked {
        /// Each kind.
        calls: Vec<CallTime>,
    },
    /// The request could not be carried out.
    Failed {
        /// Why.
        message: String,
    },
}

/// A step of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTaken {
    /// The loss before the weights were moved; none where it is no number.
    pub loss: Option<f64>,
    /// Processor time of the step.
    pub seconds: f64,
    /// Of that, inside filled entries.
    pub calls: Vec<CallTime>,
}

/// Calls of one entry at one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTime {
    /// The entry's symbol.
    pub entry: String,
    /// The sizes, as a shape's name would have them.
    pub shape: String,
    /// How many calls.
    pub calls: u64,
    /// Processor time of all of them.
    pub seconds: f64,
    /// Processor time of reading what they wrote, right after each; of those of a benchmark only.
    #[serde(default)]
    pub reading: f64,
}

/// What the training step said of two versions of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrainingStep {
    /// The package's name.
    pub kernel: String,
    /// The operator.
    pub op: String,
    /// What was trained.
    pub trainer: Trainer,
    /// All orders, weights and texts follow from this seed; hexadecimal.
    pub seed: String,
    /// Fresh sets of processes, or runs of the user's command for each version.
    pub launches: usize,
    /// Steps of each process.
    pub steps: usize,
    /// Seconds of a step with the version that stands.
    pub incumbent_s: f64,
    /// Seconds of a step with the version that challenges it.
    pub candidate_s: f64,
    /// The step's gain.
    pub gain: Estimate,
    /// The version that stands against itself; must be about zero. The user's command is not run a third time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Estimate>,
    /// What the op's gain predicts. A command of the user's does not tell the op's share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Whether both versions learn the same.
    pub losses: Losses,
    /// Seconds that all of it took, building left out.
    pub seconds: f64,
}

/// What was trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Trainer {
    /// The model that comes with the harness.
    Model {
        /// Its sizes, by name.
        preset: String,
        /// Numbers that are learned.
        parameters: usize,
        /// Characters in a step.
        tokens: usize,
    },
    /// `transfer.command` of the manifest.
    Command {
        /// As it is written there.
        command: String,
    },
}

/// A step's gain, predicted from the op's share of the step and its gain in a benchmark of the same calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The op's share of the incumbent's step.
    pub share: f64,
    /// The op's gain when its calls of one step are repeated on the same tensors.
    pub benchmark_gain: f64,
    /// The op's gain inside the step.
    pub step_op_gain: f64,
    /// The step's gain that follows. The interval reaches from where those who read the results wait for all of what they
    /// read slower to where they wait for none of it.
    pub predicted: Estimate,
    /// Whether the intervals of the measured gain and of the predicted one meet.
    pub covered: bool,
    /// The calls of a step, one row for each entry and shape.
    pub calls: Vec<CallShare>,
}

/// Calls of one entry at one shape, in both versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CallShare {
    /// The entry's symbol.
    pub entry: String,
    /// The shape's name.
    pub shape: String,
    /// Calls in a step.
    pub calls: u64,
    /// Their share of the incumbent's step.
    pub share: f64,
    /// Gain when repeated on the same tensors.
    pub benchmark_gain: f64,
    /// The share of the step that this saves, if it is so in the step.
    #[serde(default)]
    pub saved: f64,
    /// The share of the step that reading the results takes longer after the candidate, if nothing hides it.
    #[serde(default)]
    pub read_later: f64,
    /// Gain inside the step.
    pub step_gain: f64,
}

/// Two loss curves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Losses {
    /// Whether they agree.
    pub agree: bool,
    /// Why, in words.
    pub why: String,
    /// Of the version that stands; none where it is no number.
    pub incumbent: Vec<Option<f64>>,
    /// Of the version that challenges it.
    pub candidate: Vec<Option<f64>>,
    /// How far they may be apart at each step, relative to the incumbent's.
    pub allowed: Vec<f64>,
    /// Whether the incumbent, run again, gave the same losses to the last bit.
    pub repeatable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_laid_out_as_c_does() {
        use FieldArgsKind::{Read, Scalar, Size};
        let laid = EntryArgs::laid_out("f", &[("eps", Scalar), ("x", Read), ("rows", Size), ("scale", Scalar)]);
        let offsets: Vec<usize> = laid.fields.iter().map(|field| field.offset).collect();
        assert_eq!((offsets, laid.size), (vec![0, 8, 16, 24], 32));
        let two = EntryArgs::laid_out("f", &[("x", Read), ("eps", Scalar), ("scale", Scalar)]);
        assert_eq!((two.fields[2].offset, two.size), (12, 16));
    }
}
