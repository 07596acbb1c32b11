//! `events.jsonl`: everything that happens in a campaign, one JSON object a line, never changed afterwards. A wrong entry
//! gets a correction after it.
//!
//! The order within a round is the order in which things become safe: what was proposed is stored in git before
//! [`Event::Proposed`] says so, evidence is on disk before [`Event::Measured`], and the branch has moved before
//! [`Event::Accepted`]. Whoever resumes a campaign knows from the last event what may have happened after it.

use serde::{Deserialize, Serialize};

use super::direction::Bucket;
use super::proposal::Proposal;
use super::trained::Trained;
use crate::evidence::{Estimate, Ruling};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Version of the format.
    pub format: u32,
    /// 0, 1, 2 and so on: a line that is missing shows.
    pub number: u64,
    /// `YYYY-MM-DD HH:MM:SS`, UTC.
    pub at: String,
    /// Seconds that the campaign has run, pauses left out.
    pub elapsed_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The target was confirmed; branch and folders exist.
    Began(Began),
    /// The judge is built and the device is there.
    Prepared(Prepared),
    /// What is known was read.
    TipsRead(TipsRead),
    /// Round 1: the version that the campaign starts from was checked and measured.
    Baseline(Baseline),
    /// A round begins: somebody is asked for a change.
    RoundBegan(RoundBegan),
    /// A change was handed in, and is stored under the campaign's references.
    Proposed(Proposed),
    /// An attempt failed before it could be measured. Another one may follow in the same round.
    Refused(Refused),
    /// A candidate met the last accepted version; the evidence is on disk.
    Measured(Measured),
    /// Two versions were run inside a training step, or could not be.
    Trained(Trained),
    /// The round was accepted, and the branch has moved where commits are wanted.
    Accepted(Accepted),
    /// The round was rolled back.
    RolledBack(RolledBack),
    /// What a round has taught.
    Learned(Learned),
    /// A proposer has nothing more to propose.
    Exhausted(Exhausted),
    /// The campaign went on after a pause.
    Resumed(Resumed),
    /// The user asked for the end.
    StopAsked(StopAsked),
    /// The campaign is over.
    Ended(Ended),
    /// The report was written.
    Reported(Reported),
    /// An earlier line is wrong.
    Correction(Correction),
}

/// The campaign exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Began {
    /// Its name.
    pub campaign: String,
    /// The package.
    pub kernel: String,
    /// The commit it starts from.
    pub base: String,
    /// SHA-256 of `manifest.toml`, so that a target that was edited later shows.
    pub target: String,
    /// Version of the tool.
    pub tool: String,
    /// SHA-256 of what the base's check made of wrong results: it refuses all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// The judge is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Prepared {
    /// SHA-256 of its executable.
    pub judge: String,
}

/// What is known was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TipsRead {
    /// Entries of the catalogue that apply.
    pub entries: Vec<String>,
    /// Tips of this repository's own.
    pub own: usize,
}

/// What one shape takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ShapeTime {
    /// Its name.
    pub shape: String,
    /// Seconds a call.
    pub seconds: f64,
    /// Share of the device's measured ceiling, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_share: Option<f64>,
}

/// The version that the campaign starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Baseline {
    /// SHA-256 of the evidence: the version against itself.
    pub evidence: String,
    /// Trials that it passed.
    pub trials: usize,
    /// What each shape takes.
    pub shapes: Vec<ShapeTime>,
    /// Standard deviation of the aggregate from launch to launch, in logarithms.
    pub launch_sigma: f64,
    /// Seconds that a launch of all shapes takes.
    pub launch_s: f64,
}

/// A round begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RoundBegan {
    /// Its number; the baseline is round 1.
    pub round: u32,
    /// The version that stands: a commit, or a tree where nothing is committed.
    pub incumbent: String,
    /// Who is asked.
    pub proposer: String,
    /// Rollbacks in a row before it: what the proposer must be given grows with it.
    pub rollbacks: u32,
}

/// A change was handed in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Proposed {
    /// The round.
    pub round: u32,
    /// 1 for the first; more after refusals.
    pub attempt: u32,
    /// Who proposes.
    pub proposer: String,
    /// What is said of it.
    pub proposal: Proposal,
    /// Commit of the candidate, under `refs/kopt/<campaign>/round-<N>`.
    pub candidate: String,
    /// Files that differ from the version that stands.
    pub files: Vec<String>,
    /// Lines added and removed.
    pub lines: [usize; 2],
    /// Seconds that the proposer took.
    pub seconds: f64,
    /// What it says to have cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What a proposer says to have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// Why something did not get as far as a verdict on speed, or did not pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The proposer failed: it hung, crashed, or handed in nothing that can be read.
    Proposer,
    /// Nothing changed, or the code that comes of it is the same.
    NoChange,
    /// A patch does not apply to the version that stands.
    DoesNotApply,
    /// It touches what it may not.
    Forbidden,
    /// Too like one that was rolled back, and nothing says what is different.
    Similar,
    /// It does not compile.
    Build,
    /// It is wrong, crashes or hangs.
    Incorrect,
    /// It broke the rules of measurement.
    Integrity,
    /// It is not faster, or a core shape is slower.
    Slower,
    /// The data cannot tell.
    Noise,
    /// The machine was disturbed, again and again.
    Contaminated,
    /// It remembers past calls, or only a benchmark is faster.
    Overfit,
    /// The campaign was stopped before it was judged.
    Stopped,
}

impl Reason {
    /// Whether what an attempt left in the worktree is put back before the next one: nobody knows what it is, or it may
    /// not be there. Otherwise the edit stays, to be put right.
    #[must_use]
    pub const fn is_put_back(self) -> bool {
        matches!(self, Self::Proposer | Self::Forbidden | Self::DoesNotApply)
    }

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposer => "the proposer failed",
            Self::NoChange => "no change",
            Self::DoesNotApply => "does not apply",
            Self::Forbidden => "touches what it may not",
            Self::Similar => "tried before",
            Self::Build => "does not compile",
            Self::Incorrect => "incorrect",
            Self::Integrity => "integrity violation",
            Self::Slower => "not faster",
            Self::Noise => "cannot tell",
            Self::Contaminated => "disturbed",
            Self::Overfit => "over-fit",
            Self::Stopped => "stopped",
        }
    }
}

/// An attempt failed before it could be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The round.
    pub round: u32,
    /// The attempt.
    pub attempt: u32,
    /// Why.
    pub reason: Reason,
    /// In words, with what a compiler or a check said.
    pub message: String,
    /// Seconds that the proposer took, where nothing was proposed.
    pub seconds: f64,
    /// What it says to have cost, where nothing was proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The patch's file name, where nothing was proposed: a queue that offers it again would never get past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What its author said of it, where it was refused before it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
}

/// How much was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The representative shapes: finds what is hopeless, accepts nothing.
    Quick,
    /// Every shape.
    Full,
}

/// A candidate met the last accepted version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The round.
    pub round: u32,
    /// The attempt.
    pub attempt: u32,
    /// How much was measured.
    pub level: Level,
    /// SHA-256 of the evidence.
    pub evidence: String,
    /// What follows.
    pub ruling: Ruling,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// Gain over all shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Estimate>,
    /// What each shape takes with the candidate.
    pub shapes: Vec<ShapeTime>,
    /// The probability that a version without a gain passes.
    pub false_accept: f64,
    /// Seconds it took.
    pub seconds: f64,
}

/// The round was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Accepted {
    /// The round.
    pub round: u32,
    /// The commit on the branch; the candidate's where nothing is committed.
    pub commit: String,
    /// `accepted` or `accepted-trade-off`.
    pub ruling: Ruling,
    /// The confirmed gain over the last accepted version.
    pub gain: Estimate,
    /// The bucket that was established, or is presumed.
    pub bucket: Bucket,
}

/// The round was rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RolledBack {
    /// The round.
    pub round: u32,
    /// Why.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

/// What a round has taught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Learned {
    /// The round.
    pub round: u32,
    /// The tip's heading; none where the round taught nothing that can be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
}

/// A proposer has nothing more to propose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Exhausted {
    /// Who.
    pub proposer: String,
}

/// The campaign went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Resumed {
    /// Version of the tool.
    pub tool: String,
    /// What was put in order first, in words.
    pub repaired: Vec<String>,
}

/// The user asked for the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct StopAsked {}

/// Why a campaign ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Termination {
    /// T1.
    TargetReached,
    /// T2.
    AtTheCeiling,
    /// T3: rounds.
    MaxRounds,
    /// T3: time.
    MaxTime,
    /// T3: money.
    MaxCost,
    /// T3 of policy `tile`: rounds in a row without an improvement.
    NoImprovement,
    /// T4.
    Stopped,
    /// Nobody has anything more to propose.
    NothingProposed,
}

impl Termination {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TargetReached => "T1: the target is reached",
            Self::AtTheCeiling => "T2: within the stated share of the measured ceiling",
            Self::MaxRounds => "T3: the rounds are used up",
            Self::MaxTime => "T3: the time is used up",
            Self::MaxCost => "T3: the money is used up",
            Self::NoImprovement => "T3: as many rounds without an improvement as the policy allows",
            Self::Stopped => "T4: stopped by the user",
            Self::NothingProposed => "nobody has anything more to propose",
        }
    }
}

/// The campaign is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Ended {
    /// Why.
    pub termination: Termination,
}

/// The report was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Reported {
    /// SHA-256 of the evidence of the last accepted version against the baseline; none where nothing was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The gain of the whole campaign, measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Estimate>,
    /// What each shape takes in the end.
    pub shapes: Vec<ShapeTime>,
}

/// An earlier line is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Correction {
    /// Its number.
    pub of: u64,
    /// What is right.
    pub text: String,
}
