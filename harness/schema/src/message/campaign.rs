//! What programs are told of a campaign.

use serde::{Deserialize, Serialize};

use crate::campaign::Entry;
use crate::campaign::event::Reason;
use crate::evidence::{Estimate, Ruling};

/// Something happened in a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CampaignEvent {
    /// The campaign's name.
    pub campaign: String,
    /// As `events.jsonl` has it. Not among the fields of this message: events have a `reason` of their own.
    pub entry: Entry,
}

/// Where a campaign stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CampaignStatus {
    /// The campaign's name.
    pub campaign: String,
    /// The package.
    pub kernel: String,
    /// What comes next: `prepare`, `read-tips`, `baseline`, `analyze`, `propose`, `validate`, `learn`, `report` or `over`.
    pub phase: String,
    /// Whether a process works on it.
    pub running: bool,
    /// The round that is open, or was last.
    pub round: u32,
    /// Rounds at most.
    pub max_rounds: u32,
    /// Rounds accepted.
    pub accepted: usize,
    /// Rounds rolled back.
    pub rolled_back: usize,
    /// The product of the accepted gains, with its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<[f64; 3]>,
    /// The commit of the version that stands.
    pub incumbent: String,
    /// Where accepted rounds are committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where edits are made, relative to the workspace.
    pub worktree: String,
    /// Seconds that it has run.
    pub elapsed_s: f64,
    /// What proposals say to have cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The probability that any accepted round has no gain.
    pub false_accept: f64,
}

/// What came of a change that was tried by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The campaign's name.
    pub campaign: String,
    /// The round.
    pub round: u32,
    /// The attempt in it.
    pub attempt: u32,
    /// `accepted`, `rolled-back`, or `refused`: put it right and try again.
    pub outcome: String,
    /// Why, where it was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Reason>,
    /// What the measurement came to, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruling>,
    /// What failed and where, or what was shown.
    pub message: String,
    /// Gain over the version that stood, with its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Estimate>,
    /// The commit, where it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What to try next.
    pub next: Vec<String>,
}
