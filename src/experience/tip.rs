//! A tip: what is concluded, and apart from it what was measured.

use kopt_knowledge::Kind;
use kopt_schema::campaign::Bucket;
use serde::{Deserialize, Serialize};

/// Something that can be used again, or should not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Tip {
    /// One line; two tips of the same title are one.
    pub title: String,
    /// Do, or do not.
    pub kind: Kind,
    /// What it keeps between calls, where that is known.
    pub bucket: Option<Bucket>,
    /// It gains only where rows are spread evenly.
    pub uniform_only: bool,
    /// It broke the rules of measurement, or only a benchmark is faster.
    pub do_not_retry: bool,
    /// In which situation it was found.
    pub context: String,
    /// What one sees before trying: a metric and its value.
    pub signal: String,
    /// The generalization.
    pub takeaway: String,
    /// Where it holds, and where it was seen not to.
    pub applicability: String,
    /// The measurements, in the order they were made.
    pub evidence: Vec<TipEvidence>,
    /// How it came to be what it is.
    pub history: Vec<String>,
}

impl Tip {
    /// How often it was seen.
    #[must_use]
    pub fn observations(&self) -> u32 {
        self.evidence.iter().map(|one| one.observations).fold(0, u32::saturating_add)
    }

    /// Whether nobody may be told to do it, however fast it is.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.do_not_retry || self.uniform_only || self.bucket.is_some_and(Bucket::is_overfit)
    }

    /// The gain over all measurements, as a geometric mean; none where nothing was measured.
    #[must_use]
    pub fn measured_gain(&self) -> Option<f64> {
        let gains: Vec<f64> = self.evidence.iter().filter_map(|one| one.gain).filter(|gain| *gain > -1.0).collect();
        let sum: f64 = gains.iter().map(|gain| gain.ln_1p()).sum();
        (!gains.is_empty()).then(|| (sum / gains.len() as f64).exp_m1())
    }

    /// What two titles must share to be the same: words, whatever stands between them.
    pub(super) fn key(title: &str) -> String {
        let lower = title.to_lowercase();
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// One measurement. It holds for its device, toolchain and shapes, and claims no more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TipEvidence {
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The device.
    pub device: String,
    /// The compiler.
    pub toolchain: String,
    /// The shapes that the gain is the geometric mean over.
    pub shapes: Vec<String>,
    /// `t_old / t_new - 1`; none where it never got as far as a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Lower end of its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// How often it was seen.
    #[serde(default = "once")]
    pub observations: u32,
    /// The campaign.
    pub campaign: String,
    /// The round.
    pub round: u32,
    /// The commit, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What was found, where it is more than a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
}

const fn once() -> u32 {
    1
}

impl TipEvidence {
    /// The interval lies above zero.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0)
    }

    /// The interval lies below zero.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.high.is_some_and(|high| high < 0.0)
    }
}
