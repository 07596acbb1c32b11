//! Where a candidate stands after the launches so far: accepted, rejected, or not decided yet. A function of the gains
//! and the rule alone, so that anyone can compute a recorded verdict again from its evidence.
//!
//! Bounds are compared as p values, which is the same statement ([`Effect`]): "the upper bound of the regression at
//! `alpha` is below 5 %" is `p_above(-ln 1.05) < alpha`.

use std::ops::RangeInclusive;

use crate::effect::{Effect, combine};
use crate::multiple::holm;
use crate::rule::Rule;

/// The level, over all shapes together, at which an accepted candidate's slower shapes are named.
pub const TRADE_OFF_ALPHA: f64 = 0.05;

/// One shape's evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Whether it may veto a candidate.
    pub core: bool,
    /// One `ln(t_old / t_new)` for each launch.
    pub gains: &'a [f64],
    /// How much each launch counts; none where all count the same.
    pub weights: &'a [f64],
}

impl Shape<'_> {
    /// What its launches say.
    #[must_use]
    pub fn effect(&self) -> Effect {
        if self.weights.is_empty() { Effect::of(self.gains) } else { Effect::weighted(self.gains, self.weights) }
    }
}

/// What the launches so far say of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It passes.
    Accept {
        /// The shapes that are credibly slower all the same, by index; none where the rule tolerates none.
        slower: Vec<usize>,
    },
    /// It does not, for this reason.
    Reject(Reason),
    /// Neither: launch again, or, where the budget has ended, roll back as noise.
    Undecided,
}

/// Why a candidate is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The upper bound of the aggregate gain is below the gain required.
    NoGain,
    /// The aggregate is credibly slower by the limit or more (where no gain is required, and so none can be missed).
    AggregateSlower,
    /// This core shape is credibly slower by the limit or more.
    ShapeSlower(usize),
    /// This shape is credibly slower, and the rule tolerates none.
    AnyRegression(usize),
}

/// One-sided levels of the aggregate's bounds at a look; those of the shapes are in the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// At which a gain is shown. This is what error control rests on.
    pub accept: f64,
    /// At which a gain is ruled out. Giving up never accepts anything, so that it may be quicker: at 0.1 instead of 0.02 a no-op
    /// costs a screen 13 launches instead of 23 (sigma 2 %), a version that is faster by half a per cent 23 instead of 35, and a
    /// true 2 % passes it in 98.9 instead of 99.8 % (sigma 1.5 %: 99.7 instead of 100 %).
    pub give_up: f64,
}

/// Where a candidate stands. The aggregate is the geometric mean over all shapes, core or not.
///
/// *Credibly* slower means that the one-sided bound, at a level that the shapes share, excludes zero and the estimate reaches
/// the figure named. Of several shapes that reject, the slowest is named. With fewer than two launches, or no shapes, nothing is
/// decided.
///
/// # Panics
/// When the shapes have different numbers of launches.
#[must_use]
pub fn standing(shapes: &[Shape], rule: &Rule, levels: Levels) -> Standing {
    let gains: Vec<&[f64]> = shapes.iter().map(|shape| shape.gains).collect();
    let aggregate = Effect::of(&combine(&gains));
    let effects: Vec<Effect> = gains.iter().map(|gains| Effect::of(gains)).collect();
    if let Some(reason) = rejection(shapes, &effects, &aggregate, rule, levels.give_up) {
        return Standing::Reject(reason);
    }
    if !passes(shapes, &effects, &aggregate, rule, levels.accept) {
        return Standing::Undecided;
    }
    let slower = slower(&effects);
    // A shape that would be named stands in the way of a rule that tolerates none, though its bound alone (at the level
    // of one shape, without the others) has not rejected: more launches settle it.
    if slower.is_empty() || rule.tolerate_regression { Standing::Accept { slower } } else { Standing::Undecided }
}

/// Fresh launches without which nothing is confirmed.
pub const LEAST_TO_CONFIRM: usize = 5;

/// How much wider launches may spread than those that were seen, and a confirmation must still pass. Few launches often look
/// closer together than they are: with 1.5 a true 2 % was confirmed in 79 instead of 97 % of runs, with 3 as often as before
/// (simulated, sigma 1.5 %).
const WIDER: f64 = 3.0;

/// How many fresh launches confirm what these show: the fewest of `numbers` after which gains like these, even if they spread
/// wider, would pass at `accept`; the most of them where none does.
///
/// The number is fixed before the first of those launches, by other launches: their estimate is not biased by it, and one look
/// has the whole error to itself.
///
/// # Panics
/// When the shapes have different numbers of launches.
#[must_use]
pub fn launches_to_confirm(shapes: &[Shape], rule: &Rule, accept: f64, numbers: RangeInclusive<usize>) -> usize {
    let most = *numbers.end();
    numbers.into_iter().find(|launches| passes_after(shapes, rule, accept, *launches, WIDER)).unwrap_or(most)
}

/// Whether gains like these, spread as they are, would pass at `accept` if there were this many launches of them.
///
/// # Panics
/// When the shapes have different numbers of launches.
#[must_use]
pub fn would_pass(shapes: &[Shape], rule: &Rule, accept: f64, launches: usize) -> bool {
    passes_after(shapes, rule, accept, launches, 1.0)
}

fn passes_after(shapes: &[Shape], rule: &Rule, accept: f64, launches: usize, wider: f64) -> bool {
    let gains: Vec<&[f64]> = shapes.iter().map(|shape| shape.gains).collect();
    let after = |gains: &[f64]| {
        let seen = Effect::of(gains);
        Effect { deviation: wider * seen.deviation, launches, effective: launches as f64, ..seen }
    };
    let effects: Vec<Effect> = gains.iter().map(|gains| after(gains)).collect();
    passes(shapes, &effects, &after(&combine(&gains)), rule, accept)
}

fn rejection(shapes: &[Shape], effects: &[Effect], aggregate: &Effect, rule: &Rule, alpha: f64) -> Option<Reason> {
    let limit = log_limit(rule);
    let worst = |rejects: &dyn Fn(usize) -> bool| {
        (0..effects.len()).filter(|&index| rejects(index)).min_by(|&a, &b| effects[a].mean.total_cmp(&effects[b].mean))
    };
    // Shared by the shapes, each of which is asked at every look: else one true gain in ten is rejected where eight shapes vary
    // by a tenth, instead of one in fifty (simulated).
    let level = rule.shape_alpha / effects.len() as f64;
    let excludes_zero = |index: usize| effects[index].p_below(0.0) < level;
    // Shapes before the aggregate: of two true reasons, the one that says where to look is the more useful.
    if let Some(index) = worst(&|i| shapes[i].core && effects[i].mean <= limit && excludes_zero(i)) {
        return Some(Reason::ShapeSlower(index));
    }
    if !rule.tolerate_regression
        && let Some(index) = worst(&|i| effects[i].mean < 0.0 && excludes_zero(i))
    {
        return Some(Reason::AnyRegression(index));
    }
    if rule.require_gain {
        let bar = rule.min_gain.ln_1p();
        return (aggregate.mean < bar && aggregate.p_below(bar) < alpha).then_some(Reason::NoGain);
    }
    (aggregate.mean <= limit && aggregate.p_below(0.0) < alpha).then_some(Reason::AggregateSlower)
}

fn passes(shapes: &[Shape], effects: &[Effect], aggregate: &Effect, rule: &Rule, alpha: f64) -> bool {
    let limit = log_limit(rule);
    let aggregate_passes = if rule.require_gain {
        aggregate.mean >= rule.min_gain.ln_1p() && aggregate.p_above(0.0) < alpha
    } else {
        aggregate.p_above(limit) < alpha
    };
    aggregate_passes
        && shapes.iter().zip(effects).all(|(shape, effect)| !shape.core || effect.p_above(limit) < rule.shape_alpha)
}

/// The shapes credibly slower after Holm. A core shape's bound has passed, so it is slower by less than the limit; others
/// may be slower by more, and need naming all the more.
fn slower(effects: &[Effect]) -> Vec<usize> {
    let p: Vec<f64> = effects.iter().map(|effect| effect.p_below(0.0)).collect();
    let named = holm(&p, TRADE_OFF_ALPHA);
    (0..effects.len()).filter(|&index| named[index]).collect()
}

/// The limit of a regression as a gain's logarithm: `t_new / t_old = 1.05` is `-ln 1.05`.
fn log_limit(rule: &Rule) -> f64 {
    -rule.max_regression.ln_1p()
}
