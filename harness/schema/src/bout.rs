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
    },
    /// Measure what the device can do at most.
    Ceilings,
}

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
        /// Fused multiply-adds at f32, two flops each.
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
