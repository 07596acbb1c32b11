//! Student's t distribution, which every interval and every p of the referee comes from: launches are few (6 to 48)
//! and their spread is estimated from the same few, so the normal distribution would promise too much.

use crate::beta::incomplete_beta;

/// The value that a t variable with `freedom` degrees stays below with `probability`.
#[must_use]
pub fn quantile(probability: f64, freedom: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if probability > 0.5 {
        return -quantile(1.0 - probability, freedom);
    }
    // Bisection on a monotone function: slow (ten microseconds or so) and cannot go wrong. The lower tail is searched,
    // because there a probability is a small number with all its digits, and not a number close to 1.
    let (mut low, mut high) = (-1.0, 0.0);
    while cumulative(low, freedom) > probability && low > -1e15 {
        low *= 2.0;
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if cumulative(middle, freedom) < probability { low = middle } else { high = middle }
    }
}

/// The probability that a t variable with `freedom` degrees is below `t`.
#[must_use]
pub fn cumulative(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    #[test]
    fn quantiles_agree_with_an_independent_implementation() {
        for freedom in [1.0, 2.0, 5.0, 7.5, 30.0, 200.0] {
            let other = StudentsT::new(0.0, 1.0, freedom).unwrap();
            for probability in [0.001, 0.01, 0.025, 0.2, 0.5, 0.9, 0.975, 0.99, 0.9995] {
                let (ours, theirs) = (quantile(probability, freedom), other.inverse_cdf(probability));
                let scale = theirs.abs().max(1.0);
                assert!((ours - theirs).abs() < 1e-6 * scale, "{probability} {freedom}: {ours} {theirs}");
                assert!((cumulative(ours, freedom) - probability).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn tabulated_values() {
        for (probability, freedom, value) in [(0.975, 5.0, 2.5706), (0.99, 10.0, 2.7638), (0.995, 59.0, 2.6618)] {
            assert!((quantile(probability, freedom) - value).abs() < 5e-5);
        }
        assert!(quantile(0.0, 5.0).is_nan() && quantile(0.5, 0.0).is_nan());
    }

    #[test]
    fn the_far_tail_keeps_its_digits_and_infinity_has_none() {
        for probability in [1e-30, 1e-12, 1e-5] {
            let t = quantile(probability, 20.0);
            assert!((cumulative(t, 20.0) / probability - 1.0).abs() < 1e-9);
        }
        assert_eq!((cumulative(f64::NEG_INFINITY, 5.0), cumulative(f64::INFINITY, 5.0)), (0.0, 1.0));
    }
}
