//! What `doctor` tells of a machine: what it has, how noisy it is, and what can be trusted on it.

use serde::{Deserialize, Serialize};

use crate::evidence::{Estimate, Ruling};
use crate::machine::Noise;

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
