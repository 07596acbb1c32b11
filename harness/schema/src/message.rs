//! Messages for machines: one JSON object a line, each with a `reason`. Test and bench binaries write them to the file
//! named by `KOPT_OUT`; the tool writes them, and its own, to stdout under `--message-format json`.

mod audit;
mod campaign;
mod gate;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::evidence::{Estimate, Ruling, StageKind, Verdict};
use crate::machine::Noise;
use crate::training::TrainingStep;

pub use audit::{KernelAudit, KernelResources, RuleInfo};
pub use campaign::{CampaignEvent, CampaignStatus, Tried};
pub use gate::{GateAffected, GateKernel, GateOutcome, GateReason, GateResult, GateScope};

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
    /// Wrong results were handed to a crate's own check.
    Certified(Certified),
    /// What the functions of a kernel's object take of the device.
    Resources(KernelResources),
    /// The object of a kernel was audited.
    Audit(KernelAudit),
    /// A rule of the audit.
    Rule(RuleInfo),
    /// What the device can do at most, measured by the binary that reports it.
    Ceilings(Ceilings),
    /// A latency case was measured.
    Latency(Latency),
    /// One pair of fresh processes of an interleaved comparison.
    Launch(Launch),
    /// The data of a comparison was looked at.
    Look(Look),
    /// Something happened in a campaign.
    Campaign(CampaignEvent),
    /// Where a campaign stands.
    Status(CampaignStatus),
    /// What came of a change that was tried by hand.
    Tried(Tried),
    /// A comparison was decided, or its evidence judged again.
    Verdict(Decision),
    /// Which kernels a change can reach.
    GateScope(GateScope),
    /// A kernel of a change was gated.
    GateKernel(GateKernel),
    /// What follows for the change.
    GateResult(GateResult),
    /// Two versions were run inside a training step.
    TrainingStep(Box<TrainingStep>),
    /// A program that kernels need was looked for.
    Toolchain(Toolchain),
    /// A compiler is to be fetched.
    Install(Install),
    /// A device was looked for.
    Device(Device),
    /// Equal code was measured against itself.
    Noise(NoiseFloor),
    /// A decision whose answer is known was made.
    SelfTest(SelfTest),
    /// What can be trusted on this machine.
    Diagnosis(Diagnosis),
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
    /// It made a system call that a kernel may not.
    ForbiddenCall,
    /// It returned with the processor in another state than a function may leave it in.
    CallingConvention,
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

/// The only argument of a test or bench binary that hands wrong results to its own check.
pub const CERTIFY_ARGUMENT: &str = "--kopt-certify";

/// Mutants of one entry's reference on one shape, as the crate's own check took them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Certified {
    /// The package's name.
    pub kernel: String,
    /// The entry's symbol.
    pub entry: String,
    /// The shape's name.
    pub case: String,
    /// How far the crate's own kernel is from the exact result, in shares of the bound; missing where it cannot be run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub honest: Option<f64>,
    /// Why it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The mutants.
    pub mutants: Vec<MutantTaken>,
}

/// How a check took a mutant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MutantTaken {
    /// Its name, such as `zeros`.
    pub mutant: String,
    /// The output that was mutated; `all` for a mutant that gives all of them, in a lower precision.
    pub output: String,
    /// Whether the check refused it under one of the operator's distributions at least.
    pub caught: bool,
    /// The distribution that caught it; of one that was not, that which came nearest.
    pub distribution: String,
    /// How far its worst element is from the exact result, in multiples of the bound, under that distribution.
    pub excess: f64,
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
    /// Bytes read a second, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written a second, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
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

/// A program that kernels need: a compiler, libclang, git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Toolchain {
    /// Its name.
    pub name: String,
    /// Where it is; nothing if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Packages of the workspace that cannot be built without it.
    pub needed_by: Vec<String>,
    /// Why it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// How to get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Why what it makes may not run here: it is newer than the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<String>,
}

/// What fetches a compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Install {
    /// The compiler.
    pub name: String,
    /// The commands, as a shell takes them; none where it is here already.
    pub commands: Vec<String>,
    /// They were run.
    pub ran: bool,
}

/// A device: the processor, or one that a backend of the workspace uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// `cpu`, `cuda` or `hip`.
    pub backend: String,
    /// Its name; nothing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Cores of a processor, as the system counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Caches of a processor, such as `L2 1 MiB`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// How much equal code differs from itself, and what that allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// The figure.
    #[serde(flatten)]
    pub noise: Noise,
    /// Shapes that were measured.
    pub shapes: Vec<String>,
    /// Whether that is quiet.
    pub quiet: bool,
    /// The smallest gains that are shown four times of five.
    pub resolves: Vec<Resolution>,
}

/// What a number of launches can show.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Resolution {
    /// Launches.
    pub launches: usize,
    /// The smallest gain that they show four times of five.
    pub gain: f64,
}

/// A decision whose answer is known: a slowdown of the incumbent was injected, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SelfTest {
    /// The package's name.
    pub kernel: String,
    /// The gain that there is: 0.02 is 2 %.
    pub injected: f64,
    /// What was decided.
    pub ruling: Ruling,
    /// Whether that is right.
    pub right: bool,
    /// The gain that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Estimate>,
    /// Launches that it took.
    pub launches: usize,
    /// Seconds that it took.
    pub seconds: f64,
}

/// What can be trusted on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Programs that kernels of the workspace need and that are missing.
    pub missing: Vec<String>,
    /// The smallest gain that counts and that the longest comparison shows four times of five, where noise was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolves: Option<f64>,
    /// In words.
    pub text: String,
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
