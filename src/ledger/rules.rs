//! When a campaign ends, and what an accept and a rollback lead to.

use kopt_schema::campaign::Target;
use kopt_schema::campaign::event::{ShapeTime, Termination};
use kopt_schema::campaign::target::{Goal, Source};
use kopt_stats::Policy;

use super::state::{Phase, State};

/// Rounds that policy `tile` allows at most, the baseline included.
pub const TILE_ROUNDS: u32 = 25;
/// Rounds in a row without an improvement that end a campaign of policy `tile`.
const TILE_PATIENCE: u32 = 2;
/// Rollbacks in a row that are stagnation.
const STAGNATION: u32 = 2;
/// A direction that gives this much goes on.
const GO_ON: f64 = 0.05;
/// One that gives less than this is exhausted.
const EXHAUSTED: f64 = 0.02;

/// Why the campaign ends now, if it does. Asked between rounds only: while one is open, or has not taught what it can,
/// nothing ends. Where several hold, the user's wish comes first, then what was reached, then what was used up.
#[must_use]
pub fn termination(state: &State, target: &Target, elapsed_s: f64) -> Option<Termination> {
    if !matches!(state.phase(), Phase::Prepare | Phase::ReadTips | Phase::Baseline | Phase::Analyze) {
        return None;
    }
    let tile = target.policy.parse() == Ok(Policy::Tile);
    let max_rounds = if tile { target.max_rounds.min(TILE_ROUNDS) } else { target.max_rounds };
    let share = ceiling_share(state.latest_times());
    let checks = [
        (state.stop_asked, Termination::Stopped),
        (target.performance_target.is_some_and(|goal| is_reached(state, goal)), Termination::TargetReached),
        (share.is_some_and(|share| share >= target.roofline_share), Termination::AtTheCeiling),
        (state.rounds_begun() >= max_rounds as usize, Termination::MaxRounds),
        (is_time_used_up(target, elapsed_s), Termination::MaxTime),
        (is_money_used_up(state, target), Termination::MaxCost),
        (tile && state.rounds_without_improvement() >= TILE_PATIENCE, Termination::NoImprovement),
        (is_exhausted(state, &target.proposers), Termination::NothingProposed),
    ];
    checks.into_iter().find_map(|(holds, termination)| holds.then_some(termination))
}

/// What is used up, if something is: money or time. Asked before each further attempt of a round, within which the
/// campaign cannot end.
#[must_use]
pub fn used_up(state: &State, target: &Target, elapsed_s: f64) -> Option<&'static str> {
    let checks = [("money", is_money_used_up(state, target)), ("time", is_time_used_up(target, elapsed_s))];
    checks.into_iter().find_map(|(what, holds)| holds.then_some(what))
}

fn is_time_used_up(target: &Target, elapsed_s: f64) -> bool {
    elapsed_s >= target.max_time_s
}

/// Whether proposers said to have used as much money as there is, at least.
fn is_money_used_up(state: &State, target: &Target) -> bool {
    state.spent().cost_usd.zip(target.max_cost_usd).is_some_and(|(spent, most)| spent >= most)
}

fn is_reached(state: &State, goal: Goal) -> bool {
    match goal {
        Goal::Gain(least) => state.chain_gain().is_some_and(|(gain, _, _)| gain >= least),
        Goal::Latency(most) => {
            let seconds: Vec<f64> = state.latest_times().iter().map(|time| time.seconds).collect();
            geometric_mean(&seconds).is_some_and(|seconds| seconds <= most)
        }
        Goal::Peak(least) => ceiling_share(state.latest_times()).is_some_and(|share| share >= least),
    }
}

/// The share of the measured ceiling over all shapes; none where it is not known of every one.
fn ceiling_share(times: &[ShapeTime]) -> Option<f64> {
    let shares: Option<Vec<f64>> = times.iter().map(|time| time.ceiling_share).collect();
    geometric_mean(&shares?)
}

/// None of nothing, and of what no logarithm exists of.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// Whether nobody has anything more. A person always may.
fn is_exhausted(state: &State, proposers: &[Source]) -> bool {
    proposers.iter().all(|source| *source != Source::Hand && state.exhausted.contains(&source.name()))
}

/// What an accept says of its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Momentum {
    /// More of the same.
    GoOn,
    /// More of the same, after directions that give more.
    FallingPriority,
    /// It has given what it can.
    Exhausted,
}

impl Momentum {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GoOn => "go on",
            Self::FallingPriority => "falling priority",
            Self::Exhausted => "exhausted",
        }
    }
}

/// What an accept of that gain says of its direction.
#[must_use]
pub fn after_accept(gain: f64) -> Momentum {
    if gain >= GO_ON {
        Momentum::GoOn
    } else if gain >= EXHAUSTED {
        Momentum::FallingPriority
    } else {
        Momentum::Exhausted
    }
}

/// How much the next proposal must be given, by the rollbacks in a row before it. Each rung is given what those below it
/// are, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// What every proposal is given.
    Plain,
    /// The diff that failed.
    DiffAndNumbers,
    /// A fresh profile.
    FreshProfile,
    /// The version that stands, as instructions.
    Disassembly,
    /// What others do.
    BestKnown,
}

impl Rung {
    /// What the next proposal must be given.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Plain => "the version that stands and its numbers",
            Self::DiffAndNumbers => "the diff that was rolled back and its numbers",
            Self::FreshProfile => {
                "a fresh profile (what each shape moves and computes a second) and a new bottleneck class"
            }
            Self::Disassembly => "the disassembly of the version that stands",
            Self::BestKnown => "how far each shape is from the measured ceiling, and all of the above",
        }
    }
}

/// The rung after so many rollbacks in a row.
#[must_use]
pub const fn ladder(rollbacks: u32) -> Rung {
    match rollbacks {
        0 => Rung::Plain,
        1 => Rung::DiffAndNumbers,
        2 => Rung::FreshProfile,
        3 => Rung::Disassembly,
        _ => Rung::BestKnown,
    }
}

/// Whether the campaign has to change direction. It never ends by this.
#[must_use]
pub fn is_stagnant(state: &State) -> bool {
    state.rollbacks_in_a_row() >= STAGNATION
}
