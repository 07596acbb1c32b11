//! Messages for machines: one JSON object a line, each with a `reason`. Test and bench binaries write them to the file
//! named by `KOPT_OUT`; the tool writes them, and its own, to stdout under `--message-format json`.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::evidence::{Estimate, StageKind, Verdict};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Message {
    /// The tool's first line.
    Started(Started),
    /// A kernel crate of the workspace.
    Kernel(KernelInfo),
    /// A test binary is about to run this many trials.
    Plan(TrialPlan),
    /// A correctness trial ended.
    Trial(Trial),
    /// What the device can do at most, measured by the binary that reports it.
    Ceilings(Ceilings),
    /// A latency case was measured.
    Latency(Latency),
    /// One pair of fresh processes of an interleaved comparison.
    Launch(Launch),
    /// The data of a comparison was looked at.
    Look(Look),
    /// A comparison was decided, or its evidence judged again.
    Verdict(Decision),
    /// A kernel's checks or benches are complete.
    Summary(Summary),
    /// Something could not be done.
    Error(Failure),
    /// The tool's last line.
    Finished(Finished),
}

/// The tool's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Started {
    /// Version of these messages.
    pub format: u32,
    /// The command, such as `check`.
    pub command: String,
    /// Version of the tool.
    pub version: String,
}

/// A kernel crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct KernelInfo {
    /// The package's name.
    pub kernel: String,
    /// The operator.
    pub op: String,
    /// `cpu`, `cuda` or `hip`.
    pub backend: String,
    /// `native`, `device` or `launcher`.
    pub class: String,
    /// Element type of the main buffers.
    pub dtype: DType,
    /// Sources that rounds may change, relative to the package.
    pub sources: Vec<String>,
    /// Names of the shapes.
    pub shapes: Vec<String>,
    /// Flags the manifest adds to the harness's own.
    pub flags: Vec<String>,
    /// The package's folder, relative to the workspace.
    pub path: String,
}

/// How many trials a test binary is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrialPlan {
    /// The package's name.
    pub kernel: String,
    /// Trials after filters.
    pub trials: usize,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every element of every output is within its bound.
    Passed,
    /// The kernel is wrong, or did not answer.
    Failed,
    /// It could not be run here; the detail says why.
    Ignored,
}

/// What was wrong in a failed trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Elements differ from the reference by more than their bound.
    WrongValues,
    /// Elements were never written.
    Unwritten,
    /// Memory outside the buffers was written.
    OutOfBounds,
    /// An input was changed.
    InputModified,
    /// The process died of a signal.
    Crashed,
    /// The process ended without an answer.
    Exited,
    /// No answer in time.
    TimedOut,
    /// The entry returned an error.
    ReturnedError,
    /// The process answered out of turn or with something else.
    Protocol,
    /// The process took more memory than it may.
    MemoryLimit,
    /// Outputs changed after the call had returned.
    LateWrite,
    /// The process started threads or processes, or ran while it was to wait.
    Stray,
    /// The harness could not run the kernel.
    Setup,
}

/// A correctness trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// The package's name.
    pub kernel: String,
    /// The trial's name, as `cargo test` lists it.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Seeds used, as `KOPT_SEED` takes them.
    pub seeds: Vec<String>,
    /// What was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// The text for people: which element, expected, got, map; or why it was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Measured ceilings of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// The package whose bench measured them.
    pub kernel: String,
    /// The device's name.
    pub device: String,
    /// Copy bandwidth out of memory, bytes read and written, in bytes a second.
    pub copy_bytes_per_s: f64,
    /// Fused multiply-add rate at f32, in flops a second. Unknown on devices where it is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fma_flops_per_s: Option<f64>,
}

/// Whether the data of a timed call was in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// The same buffers again.
    Hot,
    /// Flushed before each call.
    Cold,
}

impl Cache {
    /// The name as it is written in messages and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
        }
    }
}

/// What one call moves and computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Bytes that must be read.
    pub bytes_read: f64,
    /// Bytes that must be written.
    pub bytes_written: f64,
    /// Floating-point operations, a fused multiply-add counted as two.
    pub flops: f64,
}

impl Cost {
    /// Bytes that must cross the memory bus.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }
}

impl std::ops::Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            flops: self.flops + other.flops,
        }
    }
}

/// A latency case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The package's name.
    pub kernel: String,
    /// The entry's symbol, or `step` for forward and backward together.
    pub entry: String,
    /// The shape's name.
    pub case: String,
    /// Hot or cold: never compared with each other.
    pub cache: Cache,
    /// The device's name.
    pub device: String,
    /// Digest of the object that was timed.
    pub object: String,
    /// Seconds a call, one number a sample.
    pub samples: Vec<f64>,
    /// Calls in each sample.
    pub calls: Vec<u64>,
    /// Median of the samples, in seconds.
    pub median_s: f64,
    /// 95 % interval of the median, within this process only.
    pub low_s: f64,
    /// Its upper end.
    pub high_s: f64,
    /// What a call moves and computes.
    pub cost: Cost,
    /// Share of what the measured ceilings allow, from 0 to 1, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline_share: Option<f64>,
}

/// One pair of fresh processes of an interleaved comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Launch {
    /// The package's name.
    pub kernel: String,
    /// The device's name.
    pub device: String,
    /// Number of the launch, from 0.
    pub launch: usize,
    /// Which side was started first: `a` or `b`.
    pub first: String,
    /// One row a shape.
    pub cases: Vec<LaunchCase>,
}

/// One shape of a [`Launch`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LaunchCase {
    /// The shape's name.
    pub case: String,
    /// Logarithm of time of A over time of B, one number a block.
    pub log_ratios: Vec<f64>,
    /// Median seconds a call of A.
    pub a_s: f64,
    /// Median seconds a call of B.
    pub b_s: f64,
}

/// A look at the data of a comparison that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// The package's name.
    pub kernel: String,
    /// The stage that is under way.
    pub stage: StageKind,
    /// Launches of that stage so far.
    pub launches: usize,
    /// Launches at the next look, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_look: Option<usize>,
    /// Gain over all shapes in this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Estimate>,
    /// The incumbent against itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Estimate>,
    /// Seconds since the comparison began.
    pub seconds: f64,
}

/// The verdict of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Decision {
    /// The package's name.
    pub kernel: String,
    /// The version that stands: a commit.
    pub incumbent: String,
    /// The version that challenges it: a commit, or `working tree`.
    pub candidate: String,
    /// Ruling, direction, reasons, estimates.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The file with the evidence; `-` for standard input.
    pub evidence: String,
    /// For evidence that was judged again: what of it differs from what was recorded. Empty where all agrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<Vec<String>>,
}

/// A kernel's checks or benches are complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The package's name.
    pub kernel: String,
    /// Trials passed, or cases measured.
    pub passed: usize,
    /// Trials failed.
    pub failed: usize,
    /// Trials ignored.
    pub ignored: usize,
    /// Trials left out by filters.
    pub filtered: usize,
}

/// Something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// What.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The tool's last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Finished {
    /// The exit code.
    pub exit_code: u8,
    /// Its meaning.
    pub meaning: String,
}
