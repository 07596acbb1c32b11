//! Means with intervals, and gains. A gain is `t_old / t_new - 1`; gains are averaged as logarithms, so that +25 % and
//! the -20 % that undoes it cancel.

use crate::effect::Effect;

/// An estimate and its two-sided interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The same interval through a monotone function.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self { estimate: function(self.estimate), low: function(self.low), high: function(self.high) }
    }
}

/// The mean of independent samples with its interval at `confidence`. One sample alone has no interval: it is infinite.
#[must_use]
pub fn mean_interval(samples: &[f64], confidence: f64) -> Interval {
    let effect = Effect::of(samples);
    let alpha = (1.0 - confidence) / 2.0;
    Interval { estimate: effect.mean, low: effect.lower(alpha), high: effect.upper(alpha) }
}

/// The gain whose logarithm is `ln(t_old / t_new)`.
#[must_use]
pub fn gain_of_log(log_ratio: f64) -> f64 {
    log_ratio.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_textbook_interval() {
        // Mean 5, deviation 1.5811, n = 5: 5 ± 2.7764 · 0.7071.
        let interval = mean_interval(&[3.0, 4.0, 5.0, 6.0, 7.0], 0.95);
        assert!((interval.low - 3.0368).abs() < 1e-4 && (interval.high - 6.9632).abs() < 1e-4);
    }

    #[test]
    fn one_sample_says_nothing() {
        assert_eq!(mean_interval(&[1.0], 0.95).low, f64::NEG_INFINITY);
    }

    #[test]
    fn a_gain_and_its_undoing_cancel() {
        let there = (1.25f64).ln();
        assert!((gain_of_log(there) - 0.25).abs() < 1e-12);
        assert!((gain_of_log(-there) + 0.2).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn more_confidence_is_wider(samples in prop::collection::vec(-1.0..1.0f64, 2..40)) {
            let (narrow, wide) = (mean_interval(&samples, 0.9), mean_interval(&samples, 0.99));
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
            prop_assert!(narrow.low <= narrow.estimate && narrow.estimate <= narrow.high);
        }
    }
}
