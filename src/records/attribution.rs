//! Which share of a campaign's gain is real, in logarithms over the accepted chain.
//!
//! Rounds that keep nothing between calls (K) count whole. A cache of weights (W1) counts up to what preparing them
//! saves of a step, and not at all where that was not measured. Anything else counts nothing. What the headline has
//! beyond their sum is inflation.

use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::Estimate;
use serde::{Deserialize, Serialize};

/// The normal distribution's value that leaves one twentieth above it.
const Z95: f64 = 1.644_853_626_951_472;

/// A lower bound above this is called inflated.
const INFLATED: f64 = 0.01;

/// An accepted round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contribution {
    /// Its number.
    pub round: u32,
    /// What it keeps between calls.
    pub bucket: Bucket,
    /// Its gain, as a logarithm.
    pub log_gain: f64,
    /// The standard error of that.
    pub standard_error: f64,
    /// W1: the share of a step's time that preparing saves, where it was measured.
    pub prepare_share: Option<f64>,
}

impl Contribution {
    /// A round with its confirmed gain.
    #[must_use]
    pub fn of(round: u32, bucket: Bucket, gain: &Estimate) -> Self {
        let (log_gain, standard_error) = logarithm(gain);
        Self { round, bucket, log_gain, standard_error, prepare_share: None }
    }

    /// What counts of it, and the standard error of that: a bound is not a sample.
    fn credited(&self) -> (f64, f64) {
        let whole = (self.log_gain, self.standard_error);
        match self.bucket {
            Bucket::K1 | Bucket::K2 | Bucket::K3 | Bucket::K4 => whole,
            Bucket::W1 => match self.prepare_share.filter(|share| (0.0..1.0).contains(share)) {
                Some(share) if -(-share).ln_1p() < self.log_gain => (-(-share).ln_1p(), 0.0),
                Some(_) => whole,
                None => (0.0, 0.0),
            },
            Bucket::W2 | Bucket::W3 => (0.0, 0.0),
        }
    }
}

/// A campaign's gain, attributed. Gains are ratios as everywhere, `t_old / t_new - 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attribution {
    /// Of rounds that keep nothing between calls.
    pub s_real: f64,
    /// Of caches of weights, bounded.
    pub w_real: f64,
    /// Of anything else: nothing.
    pub r_real: f64,
    /// What the headline has beyond these.
    pub inflation: f64,
    /// Lower 95 % bound of the inflation.
    pub inflation_low: f64,
    /// Upper 95 % bound.
    pub inflation_high: f64,
    /// The lower bound exceeds 1 %.
    pub inflated: bool,
    /// Rounds that do not count whole.
    pub rounds: Vec<u32>,
}

/// Attributes a headline, given as a logarithm with its standard error, to the rounds of the chain. Rounds and headline
/// were measured apart, so their errors add.
#[must_use]
pub fn attribute(rounds: &[Contribution], headline_log: f64, headline_error: f64) -> Attribution {
    let (mut kernel, mut weights, mut variance) = (0.0, 0.0, headline_error.powi(2));
    let mut doubtful = Vec::new();
    for round in rounds {
        let (credited, error) = round.credited();
        match round.bucket {
            Bucket::W1 => weights += credited,
            _ => kernel += credited,
        }
        variance += error.powi(2);
        if credited < round.log_gain {
            doubtful.push(round.round);
        }
    }
    let inflation = headline_log - kernel - weights;
    let reach = Z95 * variance.sqrt();
    let inflation_low = (inflation - reach).exp_m1();
    Attribution {
        s_real: kernel.exp_m1(),
        w_real: weights.exp_m1(),
        r_real: 0.0,
        inflation: inflation.exp_m1(),
        inflation_low,
        inflation_high: (inflation + reach).exp_m1(),
        inflated: inflation_low > INFLATED,
        rounds: doubtful,
    }
}

/// A gain's logarithm and the standard error of it.
pub(super) fn logarithm(gain: &Estimate) -> (f64, f64) {
    (gain.gain.ln_1p(), gain.launch_sigma / (gain.launches.max(1) as f64).sqrt())
}

impl Attribution {
    /// Attributes a headline as it was measured.
    #[must_use]
    pub fn of(rounds: &[Contribution], headline: &Estimate) -> Self {
        let (mean, error) = logarithm(headline);
        attribute(rounds, mean, error)
    }
}
