//! `report.json`: what came of a campaign, as data. The text for people is made from the same.

use kopt_schema::campaign::event::{Reason, Termination};
use kopt_schema::campaign::{Bucket, Training};
use kopt_schema::evidence::{Direction, Estimate, Ruling};
use kopt_schema::manifest::{Backend, Language};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attribution::Attribution;
use super::facts::Grounds;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// What came of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub format: u32,
    /// What the campaign was after.
    pub target: TargetSummary,
    /// Last accepted version against the baseline, measured; none where nothing was accepted or it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Why it was not measured, where that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<String>,
    /// Product of the accepted rounds' gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Estimate>,
    /// Accepted rounds, in order.
    pub applied: Vec<AppliedRound>,
    /// Rounds that were rolled back, in order.
    pub rolled_back: Vec<RolledBackRound>,
    /// Which share of the gain is real; none where that was not established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// What it is worth in a training step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingSummary>,
    /// Bound on the probability that any accept of the campaign is of a version without a gain.
    pub false_accept: f64,
    /// What was not tried.
    pub remaining: Remaining,
    /// What it cost.
    pub cost: Cost,
    /// Why it ended.
    pub termination: Termination,
}

/// What a campaign was after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetSummary {
    /// The campaign's name.
    pub campaign: String,
    /// The package.
    pub kernel: String,
    /// The operator.
    pub op: String,
    /// Where it runs.
    pub backend: Backend,
    /// What it is written in.
    pub language: Language,
    /// The device.
    pub device: String,
    /// The policy of its verdicts.
    pub policy: String,
    /// Least gain of an accept.
    pub min_gain: f64,
    /// The commit it started from.
    pub base: String,
    /// The commit of the last accepted round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// When it began, `YYYY-MM-DD HH:MM`, UTC.
    pub began: String,
    /// When the report was made.
    pub reported: String,
}

/// What training steps said at both ends of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingSummary {
    /// The baseline against itself: what a step takes, the op's share of it, and how well steps can be told apart.
    pub baseline: Training,
    /// The last accepted version against the baseline; none where nothing was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Training>,
}

/// A gain of the whole campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// Over all shapes.
    pub gain: Estimate,
    /// One line a shape.
    pub shapes: Vec<ShapeTotal>,
    /// SHA-256 of the evidence.
    pub evidence: String,
    /// The file with it, relative to the campaign's folder.
    pub evidence_file: String,
}

/// A shape, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeTotal {
    /// Its name.
    pub shape: String,
    /// Seconds a call at the baseline.
    pub before_s: f64,
    /// Seconds a call in the end.
    pub after_s: f64,
    /// Its gain.
    pub gain: Estimate,
    /// What can be said of it.
    pub direction: Direction,
    /// Share of the measured ceiling at the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_before: Option<f64>,
    /// And in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_after: Option<f64>,
}

/// An accepted round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedRound {
    /// Its number.
    pub round: u32,
    /// The change.
    pub title: String,
    /// Who proposed it.
    pub proposer: String,
    /// Its commit.
    pub commit: String,
    /// `accepted` or `accepted-trade-off`.
    pub ruling: Ruling,
    /// The confirmed gain over the version before it.
    pub gain: Estimate,
    /// What it keeps between calls; none where nothing was even claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// How that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grounds: Option<Grounds>,
    /// SHA-256 of its evidence.
    pub evidence: String,
}

/// A round that was rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolledBackRound {
    /// Its number.
    pub round: u32,
    /// The change.
    pub title: String,
    /// Who proposed it.
    pub proposer: String,
    /// Why.
    pub reason: Reason,
    /// In words.
    pub message: String,
    /// What was measured, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Estimate>,
}

/// What was not tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remaining {
    /// Directions without a round.
    pub directions: Vec<String>,
    /// Tips that apply and that no round took up.
    pub tips: Vec<String>,
}

/// What a campaign cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Seconds it ran, pauses left out.
    pub seconds: f64,
    /// Seconds of these that proposers took.
    pub proposing_s: f64,
    /// Tokens read, where proposers say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// US dollars, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
}

impl Report {
    /// Share of the ceiling before and after, as geometric means over the shapes that have both.
    #[must_use]
    pub fn ceiling_shares(&self) -> Option<(f64, f64)> {
        let shapes = self.total.as_ref().map_or(&[][..], |total| &total.shapes);
        let both: Vec<(f64, f64)> = shapes
            .iter()
            .filter_map(|shape| Some((shape.ceiling_before?, shape.ceiling_after?)))
            .filter(|(before, after)| *before > 0.0 && *after > 0.0)
            .collect();
        let mean =
            |of: fn(&(f64, f64)) -> f64| (both.iter().map(|pair| of(pair).ln()).sum::<f64>() / both.len() as f64).exp();
        (!both.is_empty()).then(|| (mean(|pair| pair.0), mean(|pair| pair.1)))
    }
}
