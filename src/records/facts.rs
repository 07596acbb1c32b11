//! What the records of a round are made of. The engine fills these from events, evidence and target; nothing here is
//! computed from what a proposer claims.

use kopt_schema::campaign::event::{Baseline, Level, Reason, Refused};
use kopt_schema::campaign::{Bucket, Proposal, Target, Training};
use kopt_schema::evidence::{Estimate, Evidence, LeftOut, Ruling, Verdict};

/// One round.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundFacts {
    /// What the campaign is after.
    pub target: Target,
    /// The round's number; the baseline is 1.
    pub round: u32,
    /// When it was decided, `YYYY-MM-DD HH:MM`, UTC.
    pub at: String,
    /// The compiler, as it names itself; empty where nothing was compiled.
    pub toolchain: String,
    /// Who was asked.
    pub proposer: String,
    /// What was said of the change; none for the baseline and where nothing was handed in.
    pub proposal: Option<Proposal>,
    /// Files that differ from the version that stood.
    pub files: Vec<String>,
    /// Lines added and removed.
    pub lines: [usize; 2],
    /// Attempts of this round that failed before they could be measured, in order.
    pub refused: Vec<Refused>,
    /// What was measured, in order: the last one decides.
    pub measurements: Vec<Measurement>,
    /// The gain over the baseline with this round's change in.
    pub versus_baseline: Option<VersusBaseline>,
    /// What became of it.
    pub decision: Decision,
    /// Whether the gain exists outside of a benchmark.
    pub transfer: TransferFacts,
    /// Why it was slower or wrong, where a profile or a person has found out.
    pub root_cause: Option<String>,
    /// Rollbacks in a row, this round included.
    pub rollbacks: u32,
    /// Directions that are open, the best first.
    pub directions: Vec<String>,
}

impl RoundFacts {
    /// The measurement that decides.
    #[must_use]
    pub fn deciding(&self) -> Option<&Measurement> {
        self.measurements.last()
    }

    /// The gain that is recorded: of an accepted round the confirmed one, otherwise what was measured last.
    #[must_use]
    pub fn gain(&self) -> Option<&Estimate> {
        match &self.decision {
            Decision::Accepted { gain, .. } => Some(gain),
            Decision::Baseline(_) => None,
            Decision::RolledBack { .. } => self.deciding().and_then(|measured| measured.verdict.aggregate.as_ref()),
        }
    }

    /// The change in a few words, as its author wrote them.
    #[must_use]
    pub fn title(&self) -> &str {
        let said = self.proposal.as_ref().map(|proposal| proposal.title.trim()).filter(|title| !title.is_empty());
        match (&self.decision, said) {
            (Decision::Baseline(_), _) => "baseline",
            (_, Some(title)) => title,
            (_, None) => "a change without a title",
        }
    }
}

/// One comparison of a candidate with the version that stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// How much was measured.
    pub level: Level,
    /// What came of it.
    pub verdict: Verdict,
    /// Shapes without a time, and why.
    pub failed: Vec<FailedShape>,
    /// Shapes that nobody asked for, and why not.
    pub left_out: Vec<LeftOut>,
    /// SHA-256 of the evidence.
    pub evidence: String,
    /// Seconds it took.
    pub seconds: f64,
}

impl Measurement {
    /// What `evidence`, whose SHA-256 is `digest`, holds.
    #[must_use]
    pub fn of(level: Level, evidence: &Evidence, digest: &str) -> Self {
        let failed = evidence.forfeit.iter().map(|forfeit| FailedShape {
            shape: forfeit.case.clone().unwrap_or_else(|| "all".to_owned()),
            why: forfeit.message.clone(),
        });
        Self {
            level,
            verdict: evidence.verdict.clone(),
            failed: failed.collect(),
            left_out: evidence.left_out.clone(),
            evidence: digest.to_owned(),
            seconds: evidence.seconds,
        }
    }
}

/// A shape without a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedShape {
    /// Its name.
    pub shape: String,
    /// What happened.
    pub why: String,
}

/// A gain over the version that the campaign started from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VersusBaseline {
    /// The gain.
    pub gain: Estimate,
    /// Both versions met; otherwise it is the product of the accepted rounds' gains.
    pub measured: bool,
}

/// What became of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Round 1: nothing is decided, the version that stands is measured.
    Baseline(Baseline),
    /// It is the version that stands now.
    Accepted {
        /// `accepted` or `accepted-trade-off`.
        ruling: Ruling,
        /// The confirmed gain.
        gain: Estimate,
    },
    /// It is not.
    RolledBack {
        /// Why.
        reason: Reason,
        /// In words, with what a compiler or a check said.
        message: String,
    },
}

impl Decision {
    /// As tables and headings name it.
    #[must_use]
    pub fn status(&self) -> String {
        match self {
            Self::Baseline(_) => "BASELINE".to_owned(),
            Self::Accepted { ruling, .. } => ruling.name().to_owned(),
            Self::RolledBack { reason: Reason::Slower, .. } => Ruling::RolledBack.name().to_owned(),
            Self::RolledBack { reason: Reason::Noise, .. } => Ruling::RolledBackNoise.name().to_owned(),
            Self::RolledBack { reason, .. } => format!("ROLLED BACK ({})", reason.name()),
        }
    }

    /// Whether the change is not kept.
    #[must_use]
    pub const fn is_rollback(&self) -> bool {
        matches!(self, Self::RolledBack { .. })
    }
}

/// What is known of whether a gain exists in training. What was not established stays `None`, and is said to be so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransferFacts {
    /// What the change keeps between calls, and how that is known.
    pub bucket: Option<BucketFinding>,
    /// What a cache is keyed by; `none` where there is no cache.
    pub cache_key: Option<String>,
    /// What the audit of the candidate's state found.
    pub state_audit: Option<String>,
    /// Hits over the steps of the trace with fresh tensors.
    pub hit_rate: Option<HitRate>,
    /// The op's rows come in groups.
    pub grouped: bool,
    /// Whether the gain holds under skew. Grouped ops only.
    pub robustness: Option<Robustness>,
    /// The gain of the benchmark.
    pub benchmark: Option<Estimate>,
    /// What it should be worth in training.
    pub estimated: Option<EstimatedGain>,
    /// What it was worth in a real training step.
    pub training_step: Option<Training>,
    /// What follows.
    pub decision: Option<TransferDecision>,
    /// W1: the share of a step's time that preparing once saves.
    pub prepare_share: Option<f64>,
}

/// A bucket, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketFinding {
    /// The bucket.
    pub bucket: Bucket,
    /// How it is known.
    pub grounds: Grounds,
}

/// How a bucket is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grounds {
    /// The audit proves it, or it presumes it and the trace agrees; or the trace shows it.
    Established,
    /// The audit found nothing against it, and no trace has run.
    Presumed,
    /// The proposer says so.
    Claimed,
}

/// How often something cached was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HitRate {
    /// Steps that were traced.
    pub steps: u32,
    /// Share of the uses of activations and gradients that were hits: anything but zero is an over-fit.
    pub activations: f64,
    /// Share of the uses of weights; none where nothing of a weight is kept.
    pub weights: Option<f64>,
}

/// Whether a gain holds when rows are spread unevenly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Robustness {
    /// It does.
    pub holds: bool,
    /// On which distributions, with figures.
    pub detail: String,
}

/// A gain in training that was computed, not measured.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimatedGain {
    /// The gain of a step.
    pub gain: f64,
    /// How it was computed.
    pub derivation: String,
}

impl EstimatedGain {
    /// From the op's share of a step's time: only that part of the step gets faster.
    #[must_use]
    pub fn from_share(share_of_step: f64, gain: f64) -> Self {
        let after = 1.0 - share_of_step + share_of_step / (1.0 + gain);
        let (percent, factor) = (100.0 * share_of_step, 1.0 + gain);
        let derivation = format!(
            "the op is {percent:.1} % of a step: 1 / (1 - {share_of_step:.3} + {share_of_step:.3} / {factor:.3}) - 1"
        );
        Self { gain: 1.0 / after - 1.0, derivation }
    }
}

/// What follows from the transfer check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferDecision {
    /// The gain exists in training as in the benchmark.
    AsReal,
    /// It exists, and is bounded by what preparing the weight saves.
    WithAsterisk,
    /// It exists in the benchmark only.
    AsOverfit,
}

impl TransferDecision {
    /// What a bucket leads to, if nothing else speaks against it.
    #[must_use]
    pub const fn of(bucket: Bucket) -> Self {
        match bucket {
            Bucket::K1 | Bucket::K2 | Bucket::K3 | Bucket::K4 => Self::AsReal,
            Bucket::W1 => Self::WithAsterisk,
            Bucket::W2 | Bucket::W3 => Self::AsOverfit,
        }
    }

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AsReal => "ACCEPT-as-real",
            Self::WithAsterisk => "ACCEPT-with-asterisk, bounded",
            Self::AsOverfit => "REJECT-as-overfit",
        }
    }
}
