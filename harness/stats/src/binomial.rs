//! How well a rate is known from counts: what the benchmarks of the referee print. None of 300 no-ops accepted is not
//! "never": it still allows 1.2 %.

use crate::beta::incomplete_beta;

/// The exact (Clopper-Pearson) two-sided interval of a probability after `successes` in `trials`. No trials: 0 to 1.
///
/// Exact means at least: the interval covers the truth with probability `confidence` or more, for every truth.
///
/// # Panics
/// When there are more successes than trials.
#[must_use]
pub fn clopper_pearson(successes: u64, trials: u64, confidence: f64) -> (f64, f64) {
    assert!(successes <= trials, "{successes} successes in {trials} trials");
    let alpha = (1.0 - confidence) / 2.0;
    (lower(successes, trials, alpha), 1.0 - lower(trials - successes, trials, alpha))
}

/// The probability at which `successes` or more are seen just `alpha` of the time. The other end of the interval is this
/// one for the failures, so one function serves both and they mirror exactly.
fn lower(successes: u64, trials: u64, alpha: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    // P(at least k of n) = I_p(k, n - k + 1), growing in p.
    let (a, b) = (successes as f64, (trials - successes) as f64 + 1.0);
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high || high - low < 1e-15 {
            return middle;
        }
        if incomplete_beta(middle, a, b) < alpha { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{Binomial, Discrete, DiscreteCDF};

    #[test]
    fn tabulated_values() {
        let close = |(low, high): (f64, f64), (a, b): (f64, f64)| (low - a).abs() < 1e-6 && (high - b).abs() < 1e-6;
        assert!(close(clopper_pearson(10, 100, 0.95), (0.049_005, 0.176_223)));
        assert!(close(clopper_pearson(5, 10, 0.95), (0.187_086, 0.812_914)));
        // With no success the upper end solves (1 - p)^n = 0.025.
        assert!(close(clopper_pearson(0, 300, 0.95), (0.0, 1.0 - 0.025f64.powf(1.0 / 300.0))));
        assert_eq!(clopper_pearson(0, 0, 0.95), (0.0, 1.0));
    }

    #[test]
    fn covers_the_truth_at_least_as_often_as_it_says() {
        for trials in [1u64, 5, 20, 50] {
            let intervals: Vec<_> = (0..=trials).map(|k| clopper_pearson(k, trials, 0.9)).collect();
            for step in 1..40 {
                let truth = f64::from(step) / 40.0;
                let counts = Binomial::new(truth, trials).unwrap();
                let covered = |k: &u64| intervals[*k as usize].0 <= truth && truth <= intervals[*k as usize].1;
                let coverage: f64 = (0..=trials).filter(covered).map(|k| counts.pmf(k)).sum();
                assert!(coverage >= 0.9 - 1e-9, "{truth} {trials}: {coverage}");
            }
        }
    }

    proptest! {
        #[test]
        fn each_end_leaves_half_of_the_error(trials in 1..2000u64, share in 0.0..1.0f64, confidence in 0.5..0.999f64) {
            let successes = (share * trials as f64) as u64;
            let (low, high) = clopper_pearson(successes, trials, confidence);
            let alpha = (1.0 - confidence) / 2.0;
            if successes > 0 {
                let seen = Binomial::new(low, trials).unwrap().sf(successes - 1);
                prop_assert!((seen - alpha).abs() < 1e-7, "{seen} {alpha}");
            }
            let seen = Binomial::new(high, trials).unwrap().cdf(successes);
            prop_assert!(successes == trials || (seen - alpha).abs() < 1e-7, "{seen} {alpha}");
        }

        #[test]
        fn holds_the_rate_and_mirrors(trials in 1..5000u64, share in 0.0..1.0f64) {
            let successes = (share * trials as f64) as u64;
            let rate = successes as f64 / trials as f64;
            let ((low, high), mirror) = (clopper_pearson(successes, trials, 0.95), clopper_pearson(trials - successes, trials, 0.95));
            prop_assert!(low <= rate && rate <= high);
            prop_assert!((low + mirror.1 - 1.0).abs() < 1e-12 && (high + mirror.0 - 1.0).abs() < 1e-12);
        }
    }
}
