//! The value of a launch from its blocks. A block that an interrupt or a page fault fell into is off by tens of per
//! cent and says nothing about the code; winsorising takes its weight away and keeps that it was slow.
//!
//! Only for blocks within a launch. Launch means are never treated so: they are the independent evidence, few of them,
//! and pulling their outliers in makes the spread too small (at 6 launches a test at 0.0033 becomes one at 0.0074).

use crate::order::median;

/// From the median absolute deviation to the standard deviation of a normal distribution.
const NORMAL: f64 = 1.4826;

/// How many such deviations from the median a value may lie before it is pulled in. A third of normal values do, which costs
/// little; beside other work on the machine a limit of 3 left launches of 10 blocks with a spread of 1.4 % where this,
/// like the median, left 1.0 %.
const LIMIT: f64 = 1.0;

/// The mean after values beyond the median ± 1.4826 × MAD were pulled to that limit.
///
/// Where more than half of the values are equal the MAD is zero and says nothing about the others: the plain mean is
/// returned. No samples give not-a-number. Samples are assumed to be numbers; one that is not makes the result so.
#[must_use]
pub fn winsorized_mean(samples: &[f64]) -> f64 {
    let centre = median(samples);
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - centre).abs()).collect();
    let reach = LIMIT * NORMAL * median(&distances);
    let pulled = |sample: &f64| if reach > 0.0 { sample.clamp(centre - reach, centre + reach) } else { *sample };
    samples.iter().map(pulled).sum::<f64>() / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain_mean(samples: &[f64]) -> f64 {
        samples.iter().sum::<f64>() / samples.len() as f64
    }

    #[test]
    fn an_outlier_counts_as_the_limit() {
        // Median 3, MAD 1, limits 3 ± 1.4826.
        let mean = winsorized_mean(&[2.0, 2.0, 3.0, 4.0, 100.0]);
        assert!((mean - 15.4826 / 5.0).abs() < 1e-12);
    }

    #[test]
    fn without_outliers_and_without_spread_it_is_the_mean() {
        assert_eq!(winsorized_mean(&[1.0, 2.0, 3.0, 4.0]), 2.5);
        assert_eq!(winsorized_mean(&[1.0, 1.0, 1.0, 1.0, 6.0]), 2.0);
        assert_eq!(winsorized_mean(&[0.5]), 0.5);
    }

    #[test]
    fn nothing_and_not_a_number() {
        assert!(winsorized_mean(&[]).is_nan());
        assert!(winsorized_mean(&[1.0, f64::NAN, 2.0]).is_nan());
    }

    proptest! {
        #[test]
        fn lies_between_the_extremes_and_moves_with_shift_and_sign(
            samples in prop::collection::vec(-1.0..1.0f64, 1..40),
            shift in -5.0..5.0f64,
        ) {
            let mean = winsorized_mean(&samples);
            let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(low - 1e-12 <= mean && mean <= high + 1e-12);
            let shifted: Vec<f64> = samples.iter().map(|sample| sample + shift).collect();
            prop_assert!((winsorized_mean(&shifted) - mean - shift).abs() < 1e-9);
            let mirrored: Vec<f64> = samples.iter().map(|sample| -sample).collect();
            prop_assert!((winsorized_mean(&mirrored) + mean).abs() < 1e-12);
        }

        #[test]
        fn one_wild_block_moves_it_less_than_the_mean(
            samples in prop::collection::vec(-0.01..0.01f64, 9..30),
            wild in 1.0..100.0f64,
        ) {
            let mut disturbed = samples.clone();
            disturbed.push(wild);
            let moved = (winsorized_mean(&disturbed) - winsorized_mean(&samples)).abs();
            prop_assert!(moved < (plain_mean(&disturbed) - plain_mean(&samples)).abs());
        }
    }
}
