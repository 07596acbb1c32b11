//! `manifest.toml` of a campaign: the target, every parameter filled in and shown before anything runs.

use serde::{Deserialize, Serialize};

use crate::manifest::{Backend, Language};

/// What a campaign is after, and within what limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Version of this format.
    pub format: u32,
    /// The campaign's name: `softmax_cpu_xeon_20261115-0501`.
    pub campaign: String,
    /// When it was made, `YYYY-MM-DD HH:MM`, UTC.
    pub created: String,
    /// The package.
    pub kernel: String,
    /// The operator.
    pub target_op: String,
    /// Where it runs.
    pub target_backend: Backend,
    /// What it is written in.
    pub target_lang: Language,
    /// The device, as it names itself.
    pub target_device: String,
    /// Every shape of full validation.
    pub target_shapes: Vec<String>,
    /// Those of quick validation.
    pub representative_shapes: Vec<String>,
    /// Those that may not lose; all if empty.
    pub core_shapes: Vec<String>,
    /// What times are told as.
    pub primary_metric: Metric,
    /// Where to stop, if there is such a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_target: Option<Goal>,
    /// What rounds may change, relative to the package.
    pub kernel_sources: Vec<String>,
    /// Correctness, as a person would ask for it.
    pub test_command: String,
    /// Latency, likewise.
    pub benchmark_command: String,
    /// Latency of the representative shapes.
    pub quick_command: String,
    /// Where candidates are made.
    pub execution_mode: ExecutionMode,
    /// Whether accepted rounds become commits.
    pub git_commit: bool,
    /// The branch they go to; none with `git_commit = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The commit it starts from.
    pub base: String,
    /// Rounds at most, the baseline included.
    pub max_rounds: u32,
    /// Seconds at most.
    pub max_time_s: f64,
    /// Seconds that a proposer has for a round.
    pub round_time_s: f64,
    /// What may be spent on proposals, in US dollars, where proposers tell what they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Least gain of an accept.
    pub min_gain: f64,
    /// `default`, `tile`, `service` or `training`.
    pub policy: String,
    /// The campaign ends within this share of the measured ceiling.
    pub roofline_share: f64,
    /// What the user wants to have done, for proposers that can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Who proposes, in turn.
    pub proposers: Vec<Source>,
}

/// What times are told as. Verdicts are always on latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Seconds a call.
    Latency,
    /// Floating-point operations a second, from the cost model.
    #[serde(rename = "tflops")]
    TeraFlops,
    /// Bytes a second, from the cost model.
    #[serde(rename = "gbps")]
    GigaBytes,
}

/// Where a campaign stops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// A gain over the baseline, over all shapes.
    Gain(f64),
    /// Seconds a call, as a geometric mean over all shapes.
    Latency(f64),
    /// A share of the measured ceiling, as a geometric mean over all shapes.
    Peak(f64),
}

/// Where candidates are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionMode {
    /// In a git worktree of the campaign's own.
    Worktree,
    /// In the user's checkout, which must be clean.
    InPlace,
}

/// Who proposes changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// A folder of patches, in the order of their names.
    Patches {
        /// Relative to the workspace, or absolute where it lies outside.
        folder: String,
    },
    /// A command that changes files: a preset's name or a template.
    Agent {
        /// As given.
        command: String,
    },
    /// One patch that the user named.
    Patch {
        /// The file.
        file: String,
    },
    /// A person, or an agent at work by itself, through `try`.
    Hand,
}

impl Source {
    /// As people and events call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Patches { folder } => format!("patches of {folder}"),
            Self::Agent { command } => format!("agent {}", command.split_whitespace().collect::<Vec<_>>().join(" ")),
            Self::Patch { file } => format!("patch {file}"),
            Self::Hand => "by hand".to_owned(),
        }
    }
}
