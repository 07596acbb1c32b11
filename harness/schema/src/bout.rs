//! What the referee says to the judge, and back: one JSON object a line over pipes, one request, one reply.
//!
//! The judge is the trusted base's bench binary. It owns the memory and the expected values, starts the contestants,
//! and measures one *launch* at a time: fresh processes, every shape, a few blocks each. The referee owns the seeds, the
//! clock of the whole and the decision. What a launch found is a [`LaunchRecord`]; evidence is made of them.

use serde::{Deserialize, Serialize};

use crate::message::{Cost, FailureKind};
use crate::sandbox::{Defence, Sandbox};

/// Version of this protocol.
pub const BOUT_VERSION: u32 = 2;

/// The only argument of a judge. Requests come on standard input.
pub const JUDGE_ARGUMENT: &str = "--kopt-judge";

/// With the path of a file after it: the same executable writes calls for the sanitizers there.
pub const EXERCISE_ARGUMENT: &str = "--kopt-exercise";

/// With the path of a `candidate.json` after it: the same executable makes these calls on the device itself; of those that
/// have at most so many operations, where a number follows.
pub const EXERCISE_DEVICE_ARGUMENT: &str = "--kopt-exercise-device";

/// What it says on standard output when all of them were made.
pub const EXERCISE_DONE: &str = "kopt: every call was made";

/// What it says first where the device stopped at one.
pub const EXERCISE_FAULT: &str = "kopt: the device stopped at";

/// Descriptor on which a judge answers.
pub const JUDGE_FD: i32 = 3;

/// To the judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum JudgeRequest {
    /// Load the candidates, lay out the memory, evaluate the reference.
    Open(Bout),
    /// Check a contestant on every trial of the crate, as `cargo test` does, with one secret seed each.
    Check {
        /// Its number.
        contestant: usize,
    },
    /// Measure one launch.
    Launch {
        /// Everything random in it follows from this, hexadecimal.
        seed: String,
        /// The shapes it goes through; all of them, where none is named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shapes: Vec<String>,
    },
    /// Trace incumbent and candidate on one shape, in fresh processes: [`STEPS`] steps of a training run, and what it is
    /// worth to each when something of a step comes again.
    Trace {
        /// Everything random in it follows from this, hexadecimal.
        seed: String,
        /// The shape.
        case: String,
    },
    /// Measure what the device can do at most.
    Ceilings,
}

/// Steps of a trace.
pub const STEPS: usize = 8;

/// Who meets, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bout {
    /// Version of the protocol.
    pub version: u32,
    /// The contestants: incumbent, candidate, and the incumbent again as control.
    pub contestants: Vec<Entrant>,
    /// Names of the shapes to run; all of the manifest's if empty.
    pub shapes: Vec<String>,
    /// Contents of the memory follow from this, hexadecimal.
    pub seed: String,
    /// Blocks a launch and shape.
    pub blocks: usize,
    /// Seconds that the calls of a batch fill.
    pub batch_s: f64,
    /// Seconds without an answer after which a contestant hangs.
    pub timeout_s: f64,
    /// Resident bytes that a contestant may have beyond the shared memory.
    pub memory: u64,
    /// Defences that contestants do without. For tests that show what each of them catches; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Defence>,
}

/// A contestant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// Its `candidate.json`.
    pub candidate: String,
    /// SHA-256 of its object, as evidence names it: what is loaded must have it. Empty where nobody asks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Known slowdowns, for self-tests: the worker waits this share of each call's time after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handicaps: Vec<Handicap>,
}

/// A slowdown that is injected into the timed region of one contestant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Handicap {
    /// The shape; every shape if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The share: 0.02 makes each call take 1.02 times as long.
    pub share: f64,
}

/// From the judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum JudgeReply {
    /// Ready.
    Opened(Arrangement),
    /// Every trial passed.
    Checked {
        /// How many there were.
        trials: usize,
    },
    /// The launch was measured.
    Launched(LaunchRecord),
    /// The shape was traced.
    Traced(TraceRecord),
    /// A contestant lost: nothing more is measured.
    Lost(Forfeit),
    /// The device's ceilings.
    Ceilings {
        /// The device's name.
        device: String,
        /// Bytes read and written a second by a copy.
        copy_bytes_per_s: f64,
        /// Bytes read a second.
        #[serde(default)]
        read_bytes_per_s: Option<f64>,
        /// Bytes written a second.
        #[serde(default)]
        write_bytes_per_s: Option<f64>,
        /// Fused multiply-adds at f32, or of the matrix units, two flops each.
        fma_flops_per_s: Option<f64>,
    },
    /// The request could not be carried out.
    Failed {
        /// Why.
        message: String,
        /// Because there is no such device here.
        no_device: bool,
    },
}

/// What the judge laid out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Arrangement {
    /// The device's name.
    pub device: String,
    /// Whether the memory got huge pages.
    pub huge_pages: bool,
    /// What confines the contestants.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// The shapes, in the manifest's order.
    pub cases: Vec<CaseInfo>,
}

/// A shape that is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CaseInfo {
    /// Its name.
    pub name: String,
    /// What one call, all entries together, must move and compute.
    pub cost: Cost,
    /// Places that a call's data can have.
    pub places: usize,
    /// Contents with known results that can be dealt.
    pub contents: u64,
    /// How its rows are spread over groups; none where the op has no groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
}

/// How rows are spread over groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Routing {
    /// The kind, one of [`crate::operator::ROUTINGS`] for the standard ops.
    pub kind: String,
    /// All other parameters of the shape: two shapes with the same differ in the kind alone.
    pub sizes: String,
}

/// One trace of a shape: incumbent and candidate, each in a process of its own that has seen nothing before.
///
/// Every step has activations and gradients at addresses that are new to the process; weights stay where they are and have
/// new contents. All memory is flushed from the caches before a call, whichever it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TraceRecord {
    /// What everything random in it followed from.
    pub seed: String,
    /// The shape.
    pub case: String,
    /// Incumbent and candidate.
    pub sides: Vec<TraceSide>,
}

/// What one contestant did in a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TraceSide {
    /// What a step calls, in order: `prepare` first where there is one, then the entries.
    pub entries: Vec<String>,
    /// Entries whose results depend on what was prepared: without it they are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// The calls, in the order they were made.
    pub calls: Vec<TracedCall>,
}

/// One call of all entries of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TracedCall {
    /// Number of the step, from 0.
    pub step: usize,
    /// What was new about it.
    pub probe: Probe,
    /// Device time of each entry.
    pub device_ns: Vec<u64>,
    /// Its results were wrong here, and right in a process that had made no call before: what differs is what it remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

/// What is new about a traced call, and what comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A step of training: new contents everywhere, activations and gradients at new addresses.
    Fresh,
    /// The addresses come again, with new contents: what the following are compared with.
    Refilled,
    /// Everything comes again.
    Same,
    /// The weights come again, with new activations at the same addresses.
    Weight,
    /// The contents come again, at other addresses.
    Moved,
}

impl Probe {
    /// What comes again, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fresh => "in a step with new tensors",
            Self::Refilled => "when the same addresses come with new contents",
            Self::Same => "when a call comes again as it was",
            Self::Weight => "when the weights come again with new activations",
            Self::Moved => "when the same contents come at other addresses",
        }
    }
}

/// Why a contestant lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Forfeit {
    /// Number of the contestant: 0 the incumbent, 1 the candidate, 2 the control.
    pub contestant: usize,
    /// The shape it was on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// What happened.
    pub kind: FailureKind,
    /// In words.
    pub message: String,
}

/// One launch: fresh processes through every shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LaunchRecord {
    /// What everything random in it followed from.
    pub seed: String,
    /// Contestants in the order they were started.
    pub started: Vec<usize>,
    /// Contestants in the order they were ended.
    pub ended: Vec<usize>,
    /// Which output memory each contestant had.
    pub outputs: Vec<usize>,
    /// The processor that all of them were kept on, by its number. None on a GPU, and where the system would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<usize>,
    /// Seconds from the first start to the last end.
    pub wall_s: f64,
    /// Seconds of processor time that each contestant used while it was to wait.
    pub idle_s: Vec<f64>,
    /// The shapes, in the order they were run.
    pub cases: Vec<CaseRecord>,
}

/// A shape of a launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CaseRecord {
    /// Its name.
    pub case: String,
    /// Contestants in the order they were warmed up.
    pub warmed_up: Vec<usize>,
    /// Calls in each batch.
    pub calls: u64,
    /// Batches of 1, 2, 4, 8 calls, as far as there were places: nanoseconds of each contestant's.
    pub ladder: Vec<Rung>,
    /// The blocks.
    pub blocks: Vec<BlockRecord>,
    /// Blocks that do not count, because the device held its clocks back to protect itself.
    #[serde(default, skip_serializing_if = "crate::audit::is_zero")]
    pub throttled: usize,
    /// Blocks that were made again, because a contestant's clock stood still for a batch.
    #[serde(default, skip_serializing_if = "crate::audit::is_zero")]
    pub stood_still: usize,
    /// The clock of a device's multiprocessors after the blocks, in MHz, where it can be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megahertz: Option<u32>,
    /// Batches whose every output was compared.
    pub checked: usize,
}

/// Batches of one size, one a contestant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Rung {
    /// Calls in the batch.
    pub calls: u64,
    /// Device time of the batch, one number a contestant.
    pub device_ns: Vec<u64>,
}

/// A block: every contestant once in some order, and once more in the opposite order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BlockRecord {
    /// The order of the first half; the second is its mirror.
    pub order: Vec<usize>,
    /// Device time of each contestant's two batches, as the worker measured it.
    pub device_ns: Vec<[u64; 2]>,
    /// The same two batches on the judge's clock, flushing and the way there and back included.
    pub wall_ns: Vec<[u64; 2]>,
    /// Processor time of the process over the same two batches; zero where it means nothing.
    pub cpu_ns: Vec<[u64; 2]>,
}

impl BlockRecord {
    /// Logarithm of the time of contestant `old` over that of contestant `new`.
    #[must_use]
    pub fn log_gain(&self, old: usize, new: usize) -> f64 {
        let time = |contestant: usize| self.device_ns[contestant].iter().sum::<u64>().max(1) as f64;
        (time(old) / time(new)).ln()
    }
}
