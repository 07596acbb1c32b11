//! The six directions that a campaign chooses between, in the order in which they are worth trying.

use kopt_schema::campaign::Category;

use super::rules::{Momentum, after_accept, is_stagnant};
use super::state::State;

/// What became of a direction so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DirectionState {
    /// Which.
    pub category: Category,
    /// Decided rounds that went this way.
    pub tried: usize,
    /// Those that were accepted.
    pub accepted: usize,
    /// The largest gain among these.
    pub best_gain: Option<f64>,
    /// What the newest of these says; none where nothing was accepted.
    pub momentum: Option<Momentum>,
    /// Whether no round went this way.
    pub untried: bool,
}

/// All six directions, best first: those that go on before those whose priority falls, by their best gain; then those that
/// gave nothing yet, the least tried first; the exhausted ones last. Under stagnation the untried ones come before all.
#[must_use]
pub fn directions(state: &State) -> Vec<DirectionState> {
    let mut directions = Category::DIRECTIONS.map(|category| DirectionState {
        category,
        tried: 0,
        accepted: 0,
        best_gain: None,
        momentum: None,
        untried: true,
    });
    for round in state.rounds.iter().filter(|round| round.outcome.is_some()) {
        let category = round.proposal().and_then(|proposal| proposal.category);
        let Some(direction) = directions.iter_mut().find(|direction| Some(direction.category) == category) else {
            continue;
        };
        direction.tried += 1;
        direction.untried = false;
        if let Some(accepted) = round.accepted() {
            let gain = accepted.gain.gain;
            direction.accepted += 1;
            direction.best_gain = Some(direction.best_gain.map_or(gain, |best| best.max(gain)));
            direction.momentum = Some(after_accept(gain));
        }
    }
    let stagnant = is_stagnant(state);
    let rank = |direction: &DirectionState| match direction.momentum {
        _ if stagnant && direction.untried => 0,
        Some(Momentum::GoOn) => 1,
        Some(Momentum::FallingPriority) => 2,
        None => 3,
        Some(Momentum::Exhausted) => 4,
    };
    // Stable: what is equal stays in the order of the rules.
    directions.sort_by(|one, other| {
        let gains = other.best_gain.unwrap_or(0.0).total_cmp(&one.best_gain.unwrap_or(0.0));
        rank(one).cmp(&rank(other)).then(gains).then(one.tried.cmp(&other.tried))
    });
    directions.to_vec()
}
