//! What is told of comparisons: launches, looks at their data, the verdict.

use serde::{Deserialize, Serialize};

use crate::evidence::{Estimate, StageKind, Verdict};

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
