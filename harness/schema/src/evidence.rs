//! `evidence.json`: everything a verdict rests on, in one file, and the verdict. Who has the file can recompute the verdict
//! from the raw data (`cargo kopt verdict`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::Audit;
use crate::bout::{Arrangement, Forfeit, Handicap, LaunchRecord, TraceRecord};
use crate::exit::Exit;
use crate::manifest::{Backend, Class};
use crate::message::FailureKind;
use crate::sandbox::Defence;

/// Everything a verdict rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Version of this format.
    pub format: u32,
    /// Version of the tool.
    pub tool: String,
    /// The package's name.
    pub kernel: String,
    /// The operator.
    pub op: String,
    /// Where it ran.
    pub backend: Backend,
    /// What the candidate is made of: how much of it could misbehave.
    pub class: Class,
    /// When, `YYYY-MM-DD HH:MM`, UTC.
    pub started: String,
    /// Seconds it took, building left out.
    pub seconds: f64,
    /// The version that stands.
    pub incumbent: Side,
    /// The version that challenges it.
    pub candidate: Side,
    /// The machine, and its state.
    pub machine: Machine,
    /// What was agreed before the first launch.
    pub terms: Terms,
    /// All seeds follow from this one, which no contestant knew; hexadecimal.
    pub seed: String,
    /// Slowdowns injected on purpose: this is a self-test and no comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<Injection>,
    /// Defences that were turned off on purpose: this is a self-test and no comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Defence>,
    /// Equal code: nothing was timed.
    pub identical: bool,
    /// What was laid out; none where nothing was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<Arrangement>,
    /// Shapes that were not compared, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Trials that the candidate passed before any time was taken; 0 where none was run.
    #[serde(default)]
    pub trials: usize,
    /// What the device can do at most, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
    /// The raw data.
    pub stages: Vec<Stage>,
    /// The candidate in steps of training, beside the incumbent; empty where no accept was at stake.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<TraceRecord>,
    /// The contestant that lost by what it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forfeit: Option<Forfeit>,
    /// The match before this one, which its control called off: nothing of it counts, and nothing of it is kept back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_off: Option<Box<Evidence>>,
    /// The verdict on all this.
    pub verdict: Verdict,
}

/// One of the two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// A commit, or `working tree`.
    pub revision: String,
    /// As it was asked for.
    pub name: String,
    /// SHA-256 of the object.
    pub object: String,
    /// SHA-256 of its code and constants, debug data aside.
    pub code: String,
    /// The compiler, as it names itself.
    pub compiler: String,
    /// Every flag it was given.
    pub flags: Vec<String>,
    /// Chosen knob values.
    pub knobs: BTreeMap<String, i64>,
    /// It prepares its weights: the cost of it is part of every call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepares: bool,
    /// What the audit of the object found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// The machine, and its state before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The processor.
    pub processor: String,
    /// Its cores, as the system counts them.
    pub cores: usize,
    /// Kernel and release.
    pub system: String,
    /// Load average before.
    pub load_before: f64,
    /// And after.
    pub load_after: f64,
}

/// A slowdown injected into one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Injection {
    /// 0 the incumbent, 1 the candidate.
    pub contestant: usize,
    /// What.
    pub handicap: Handicap,
}

/// What was agreed before the first launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Terms {
    /// `default`, `tile`, `service` or `training`.
    pub policy: String,
    /// Least gain of an accept.
    pub min_gain: f64,
    /// A core shape may lose less than this.
    pub max_regression: f64,
    /// Numbers of launches after which the data is looked at.
    pub looks: Vec<usize>,
    /// Error of the screen over all its looks.
    pub screen_alpha: f64,
    /// Level at which each look gives up a gain; it accepts nothing.
    pub give_up_alpha: f64,
    /// Error of the confirmation over all its looks.
    pub confirmation_alpha: f64,
    /// How often the confirmation of a gain is looked at. Where it is not at all, there is none, and nothing is accepted.
    #[serde(default = "once")]
    pub confirmation_looks: usize,
    /// How many looks a stage gets beyond its own where a gain is shown and only single shapes hold it up.
    #[serde(default)]
    pub further_looks: usize,
    /// Whether a confirmation ends before its first look where the gain is ruled out by then.
    #[serde(default)]
    pub gives_up_early: bool,
    /// Whether a launch counts by how closely it measured a shape, and the incumbent by both of its processes.
    #[serde(default)]
    pub weighted: bool,
    /// Error of the bound of each core shape.
    pub shape_alpha: f64,
    /// Error of the control, two-sided.
    pub control_alpha: f64,
    /// Shapes that may not lose; all if empty.
    pub core: Vec<String>,
    /// Seconds that the whole may take.
    pub max_time_s: f64,
    /// An accept needs a trace with fresh tensors.
    #[serde(default)]
    pub trace: bool,
}

/// As it was before anybody wrote it down.
const fn once() -> usize {
    1
}

/// A shape that was not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Its name.
    pub shape: String,
    /// Why.
    pub why: String,
}

/// What a device can do at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// The device.
    pub device: String,
    /// When they were measured, `YYYY-MM-DD HH:MM`, UTC.
    pub measured: String,
    /// Bytes read and written a second by a copy.
    pub copy_bytes_per_s: f64,
    /// Bytes read a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
    /// Fused multiply-adds at f32, or of the matrix units, two flops each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fma_flops_per_s: Option<f64>,
}

/// Launches that are judged together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// Which.
    pub kind: StageKind,
    /// The launches.
    pub launches: Vec<LaunchRecord>,
}

/// The two stages of an accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    /// Finds what may be a gain.
    Screen,
    /// Fresh processes and seeds: the gain that is recorded.
    Confirmation,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// What follows from the terms.
    pub ruling: Ruling,
    /// What can be said of the two versions.
    pub direction: Direction,
    /// In words, the ruling's reason first.
    pub reasons: Vec<String>,
    /// Gain over all shapes, as a geometric mean; the confirmation's where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Estimate>,
    /// One line a shape.
    pub shapes: Vec<ShapeVerdict>,
    /// The incumbent against itself, in the same launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Estimate>,
    /// The smallest gain that this many launches show four times of five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// Launches in all.
    pub launches: usize,
    /// The probability that a version without a gain is accepted by these terms.
    pub false_accept: f64,
}

impl Verdict {
    /// Core shapes whose intervals reach a loss of `max_regression`, where the gain over all shapes is shown and the data cannot
    /// tell all the same: they are what stands in its way.
    #[must_use]
    pub fn in_the_way(&self, max_regression: f64) -> Vec<&ShapeVerdict> {
        let is_shown = self.aggregate.is_some_and(|aggregate| aggregate.low > 0.0);
        if self.ruling != Ruling::RolledBackNoise || !is_shown {
            return Vec::new();
        }
        let limit = 1.0 / (1.0 + max_regression) - 1.0;
        self.shapes.iter().filter(|shape| shape.core && shape.estimate.low <= limit).collect()
    }

    /// The shapes for which a candidate was rolled back: they are slower, by the limit or more. Whatever other shapes gain does
    /// not make up for them.
    #[must_use]
    pub fn losing(&self, max_regression: f64) -> Vec<&ShapeVerdict> {
        let limit = 1.0 / (1.0 + max_regression) - 1.0;
        let slower = |shape: &&ShapeVerdict| shape.core && shape.direction == Direction::Slower;
        let losing = self.shapes.iter().filter(slower).filter(|shape| shape.estimate.gain <= limit);
        losing.filter(|_| self.ruling == Ruling::RolledBack).collect()
    }
}

/// What follows from evidence under the terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// A gain, confirmed.
    Accepted,
    /// A gain, confirmed, and a shape that is slower by less than the limit.
    AcceptedTradeOff,
    /// No gain, or a core shape is slower.
    RolledBack,
    /// The data cannot tell.
    RolledBackNoise,
    /// No verdict is given: the control fired, as the machine was disturbed, the incumbent failed, or a device had no memory left.
    Contaminated,
    /// A gain that training does not have: it vanishes under skew or with fresh tensors, or rests on a cache that is used
    /// once.
    Overfit,
    /// A contestant gave wrong results or did not answer.
    Incorrect,
    /// A contestant broke the rules of measurement.
    IntegrityViolation,
}

impl Ruling {
    /// Whether the candidate stands from now on.
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Accepted | Self::AcceptedTradeOff)
    }

    /// The code that the tool exits with.
    #[must_use]
    pub const fn exit(self) -> Exit {
        match self {
            Self::Accepted | Self::AcceptedTradeOff => Exit::Ok,
            Self::RolledBack | Self::Overfit => Exit::Regressed,
            Self::RolledBackNoise | Self::Contaminated => Exit::Inconclusive,
            Self::Incorrect => Exit::Incorrect,
            Self::IntegrityViolation => Exit::Integrity,
        }
    }

    /// Whether both versions were measured to the end, on a machine that was not disturbed: only then is their difference one.
    #[must_use]
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Contaminated | Self::Incorrect | Self::IntegrityViolation)
    }

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::AcceptedTradeOff => "ACCEPTED (trade-off)",
            Self::RolledBack => "ROLLED BACK",
            Self::RolledBackNoise => "ROLLED BACK (noise)",
            Self::Contaminated => "NO VERDICT (contaminated)",
            Self::Overfit => "ROLLED BACK (over-fit)",
            Self::Incorrect => "REJECTED (incorrect)",
            Self::IntegrityViolation => "REJECTED (integrity)",
        }
    }

    /// What a forfeit comes to. A contestant that answers wrongly, crashes or hangs is incorrect; one that tampers with
    /// the measurement has no excuse; and one for whom the device has no memory left may owe that to somebody else.
    #[must_use]
    pub const fn of_forfeit(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Protocol | FailureKind::LateWrite | FailureKind::Stray | FailureKind::ForbiddenCall => {
                Self::IntegrityViolation
            }
            FailureKind::NoMemory => Self::Contaminated,
            FailureKind::TooSlow => Self::RolledBack,
            _ => Self::Incorrect,
        }
    }
}

/// What can be said of the candidate against the incumbent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The interval lies above zero.
    Faster,
    /// The interval lies below zero.
    Slower,
    /// The interval lies within the least gain of zero.
    Same,
    /// None of these.
    CannotTell,
}

impl Direction {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A gain with its interval: `t_old / t_new - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The estimate.
    pub gain: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The interval's confidence, two-sided.
    pub confidence: f64,
    /// Standard deviation of a launch, in logarithms.
    pub launch_sigma: f64,
    /// Launches it rests on.
    pub launches: usize,
}

/// The verdict on one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ShapeVerdict {
    /// Its name.
    pub shape: String,
    /// Whether it may not lose.
    pub core: bool,
    /// What can be said of it.
    pub direction: Direction,
    /// Its gain.
    pub estimate: Estimate,
    /// Median seconds a call of the incumbent.
    pub incumbent_s: f64,
    /// Median seconds a call of the candidate.
    pub candidate_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, high: f64) -> Estimate {
        Estimate { gain: f64::midpoint(low, high), low, high, confidence: 0.98, launch_sigma: 0.05, launches: 48 }
    }

    fn shape(name: &str, core: bool, low: f64, high: f64) -> ShapeVerdict {
        let direction = Direction::CannotTell;
        let estimate = estimate(low, high);
        ShapeVerdict { shape: name.to_owned(), core, direction, estimate, incumbent_s: 1.0, candidate_s: 1.0 }
    }

    fn names(verdict: &Verdict) -> Vec<&str> {
        verdict.in_the_way(0.05).iter().map(|shape| shape.shape.as_str()).collect()
    }

    #[test]
    fn a_gain_that_is_shown_is_held_up_by_core_shapes_that_may_have_lost_too_much() {
        let verdict = Verdict {
            ruling: Ruling::RolledBackNoise,
            direction: Direction::Faster,
            reasons: Vec::new(),
            aggregate: Some(estimate(0.05, 0.07)),
            shapes: vec![
                shape("may-have-lost", true, -0.049, 0.0),
                shape("has-not", true, -0.047, 0.0),
                shape("may-lose", false, -0.2, -0.1),
            ],
            control: None,
            detectable: None,
            launches: 48,
            false_accept: 0.0004,
        };
        assert_eq!(names(&verdict), ["may-have-lost"]);
        let unshown = Verdict { aggregate: Some(estimate(-0.01, 0.07)), ..verdict.clone() };
        assert!(names(&unshown).is_empty());
        let accepted = Verdict { ruling: Ruling::Accepted, ..verdict };
        assert!(names(&accepted).is_empty());
    }

    #[test]
    fn a_candidate_loses_by_core_shapes_that_are_slower_by_the_limit_and_by_no_other() {
        let slower = |name: &str, core: bool, low: f64, high: f64| ShapeVerdict {
            direction: Direction::Slower,
            ..shape(name, core, low, high)
        };
        let verdict = Verdict {
            ruling: Ruling::RolledBack,
            direction: Direction::Slower,
            reasons: Vec::new(),
            aggregate: Some(estimate(-0.03, 0.001)),
            shapes: vec![
                slower("loses", true, -0.07, -0.04),
                slower("a-little", true, -0.04, -0.02),
                slower("may-lose", false, -0.2, -0.1),
                shape("cannot-tell", true, -0.2, 0.01),
            ],
            control: None,
            detectable: None,
            launches: 6,
            false_accept: 0.0004,
        };
        let losing = |verdict: &Verdict| -> Vec<String> {
            verdict.losing(0.05).iter().map(|shape| shape.shape.clone()).collect()
        };
        assert_eq!(losing(&verdict), ["loses"]);
        let no_gain = Verdict { shapes: verdict.shapes[1..].to_vec(), ..verdict.clone() };
        assert!(losing(&no_gain).is_empty());
        let undecided = Verdict { ruling: Ruling::RolledBackNoise, ..verdict };
        assert!(losing(&undecided).is_empty());
    }
}
