//! Messages for machines: one JSON object a line, each with a `reason`. Test and bench binaries write them to the file
//! named by `KOPT_OUT`; the tool writes them, and its own, to stdout under `--message-format json`.

mod audit;
mod campaign;
mod comparison;
mod doctor;
mod gate;
mod latency;
mod trial;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::manifest::{Backend, Language};
use crate::training::TrainingStep;

pub use audit::{KernelAudit, KernelResources, RuleInfo};
pub use campaign::{CampaignEvent, CampaignStatus, Tried};
pub use comparison::{Decision, Launch, LaunchCase, Look};
pub use doctor::{Device, Diagnosis, Install, NoiseFloor, Resolution, SelfTest, Toolchain};
pub use gate::{GateAffected, GateKernel, GateOutcome, GateReason, GateResult, GateScope};
pub use latency::{Cache, Ceilings, Cost, Latency};
pub use trial::{CERTIFY_ARGUMENT, Certified, FailureKind, MutantTaken, Outcome, Trial, TrialPlan};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Message {
    /// The tool's first line.
    Started(Started),
    /// An operator that a kernel crate can be started from.
    Operator(OperatorInfo),
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

/// A standard operator with a kernel to start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct OperatorInfo {
    /// Its name, as `cargo kopt new --op` takes it.
    pub op: String,
    /// Where such a kernel runs.
    pub backends: Vec<Backend>,
    /// What it is written in.
    #[serde(default)]
    pub languages: Vec<Language>,
    /// What it computes.
    pub summary: String,
    /// What each of its shapes gives.
    pub parameters: Vec<String>,
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
