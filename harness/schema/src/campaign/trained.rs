//! What the training step said in a campaign: the figures that events keep. Curves and calls are in `training.json`.

use serde::{Deserialize, Serialize};

use crate::evidence::Estimate;
use crate::training::TrainingStep;

/// Two versions were run inside a training step, or could not be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Trained {
    /// 1: the baseline against itself. Another: that round's candidate against the version that stands. None: the end against the
    /// beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// What came of it.
    pub training: Training,
}

/// What came of a training step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Training {
    /// Both versions trained.
    Taken(TrainingFigures),
    /// The candidate did not get through.
    Lost {
        /// Why, in words.
        why: String,
    },
    /// There was nothing to train with.
    NotMeasured {
        /// Why, in words.
        why: String,
    },
}

/// The figures of a training step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrainingFigures {
    /// SHA-256 of `training.json`.
    pub evidence: String,
    /// Seconds of a step with the version that stands.
    pub incumbent_s: f64,
    /// Seconds of a step with the version that challenges it.
    pub candidate_s: f64,
    /// The step's gain.
    pub gain: Estimate,
    /// The op's share of the step, and what it predicts; none where a script does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictedGain>,
    /// Whether both versions learn the same.
    pub losses_agree: bool,
    /// Why, in words.
    pub losses: String,
    /// Steps over which losses were compared.
    pub steps: usize,
    /// Seconds that all of it took.
    pub seconds: f64,
}

/// What the op's share of a step predicts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PredictedGain {
    /// The op's share of the step with the version that stands.
    pub share: f64,
    /// The step's gain that follows from it.
    pub gain: Estimate,
    /// Whether the interval of the measured gain holds it.
    pub covered: bool,
}

impl Training {
    /// What `step`, whose SHA-256 is `evidence`, says.
    #[must_use]
    pub fn of(step: &TrainingStep, evidence: String) -> Self {
        let predicted = step.prediction.as_ref().map(|prediction| PredictedGain {
            share: prediction.share,
            gain: prediction.predicted,
            covered: prediction.covered,
        });
        let estimates = [Some(step.gain), predicted.map(|predicted| predicted.gain)];
        let numbers =
            estimates.into_iter().flatten().flat_map(|gain| [gain.gain, gain.low, gain.high, gain.launch_sigma]);
        let all = numbers.chain([step.incumbent_s, step.candidate_s]).chain(predicted.map(|predicted| predicted.share));
        // JSON has no infinity, and neither has a time.
        if all.into_iter().any(|number| !number.is_finite()) {
            return Self::NotMeasured { why: "the times that were told make no sense".to_owned() };
        }
        Self::Taken(TrainingFigures {
            evidence,
            incumbent_s: step.incumbent_s,
            candidate_s: step.candidate_s,
            gain: step.gain,
            predicted,
            losses_agree: step.losses.agree,
            losses: step.losses.why.clone(),
            steps: step.losses.incumbent.len(),
            seconds: step.seconds,
        })
    }

    /// The figures, where there are any.
    #[must_use]
    pub const fn figures(&self) -> Option<&TrainingFigures> {
        match self {
            Self::Taken(figures) => Some(figures),
            Self::Lost { .. } | Self::NotMeasured { .. } => None,
        }
    }

    /// Why the candidate may not stand, if it may not: it does not train, or not to the same losses.
    #[must_use]
    pub fn objection(&self) -> Option<String> {
        match self {
            Self::Taken(figures) if figures.losses_agree => None,
            Self::Taken(figures) => Some(format!("the losses of both versions do not agree: {}", figures.losses)),
            Self::Lost { why } => Some(format!("it does not get through: {why}")),
            Self::NotMeasured { .. } => None,
        }
    }
}
