//! The gain over all accepted rounds, from each round's own. Gains combine as logarithms; the rounds were measured apart,
//! so their variances add.

use kopt_schema::evidence::Estimate;
use kopt_stats::{gain_of_log, student};

/// The sums that the gain of a chain and its interval follow from: kept up to date, so that a long chain costs nothing to
/// ask.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Chain {
    rounds: usize,
    /// Sum of the logarithms of the gains.
    log: f64,
    /// Sum of the variances of these.
    variance: f64,
    /// Sum of each variance squared over its degrees of freedom: what Welch and Satterthwaite need.
    squares: f64,
}

impl Chain {
    /// Adds a round. What is wanted of `gain` is [`makes_sense`].
    pub(super) fn push(&mut self, gain: &Estimate) {
        // Launches are few and their spread comes from the same few: the interval was made with Student's t.
        let freedom = gain.launches.saturating_sub(1).max(1) as f64;
        let half_width = f64::midpoint(gain.high.ln_1p(), -gain.low.ln_1p());
        let variance = (half_width / student::quantile(f64::midpoint(1.0, gain.confidence), freedom)).powi(2);
        self.rounds += 1;
        self.log += gain.gain.ln_1p();
        self.variance += variance;
        self.squares += variance * variance / freedom;
    }

    /// The gain, and the ends of its 95 % interval; none for no rounds.
    pub(super) fn gain(&self) -> Option<(f64, f64, f64)> {
        if self.rounds == 0 {
            return None;
        }
        let half_width = match self.variance * self.variance / self.squares {
            freedom if freedom > 0.0 => student::quantile(0.975, freedom.min(1e6)) * self.variance.sqrt(),
            // No spread at all.
            _ => 0.0,
        };
        Some((gain_of_log(self.log), gain_of_log(self.log - half_width), gain_of_log(self.log + half_width)))
    }
}

/// The gain that follows from rounds with these gains, and the ends of its 95 % interval; none for no rounds.
#[must_use]
pub fn chain<'a>(gains: impl IntoIterator<Item = &'a Estimate>) -> Option<(f64, f64, f64)> {
    let mut chain = Chain::default();
    gains.into_iter().for_each(|gain| chain.push(gain));
    chain.gain()
}

/// Whether an estimate can be what it says: a gain inside its interval, at a confidence.
pub(super) fn makes_sense(estimate: &Estimate) -> bool {
    let Estimate { gain, low, high, confidence, .. } = *estimate;
    low > -1.0 && low <= gain && gain <= high && confidence > 0.0 && confidence < 1.0
}
