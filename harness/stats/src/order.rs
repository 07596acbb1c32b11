//! Medians, and how well they are known: the times of one contestant are skewed, and their mean is not what it usually
//! takes.

/// The median; not a number for no samples.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// A 95 % interval of the median from order statistics: no assumption on the shape of the distribution. With fewer than
/// six samples no such interval exists and the range is returned.
#[must_use]
pub fn median_interval(samples: &[f64]) -> (f64, f64) {
    let sorted = sorted(samples);
    let n = sorted.len();
    if n == 0 {
        return (f64::NAN, f64::NAN);
    }
    // The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %; the interval is from the k-th to the (n+1-k)-th sample.
    let mut below = 0.0;
    let mut probability = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut k = 0;
    while k < n / 2 && below + probability <= 0.025 {
        below += probability;
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let k = k.max(1);
    (sorted[k - 1], sorted[n - k])
}

/// The samples in ascending order; not-a-number comes last (first where its sign bit is set).
pub(crate) fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_even_and_empty() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_has_the_tabulated_ranks() {
        // Ranks for 95 % intervals of a median: n = 6: 1 and 6; n = 10: 2 and 9; n = 20: 6 and 15; n = 100: 40 and 61.
        for (n, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (20, 6.0, 15.0), (100, 40.0, 61.0)] {
            let samples: Vec<f64> = (1..=n).map(f64::from).collect();
            assert_eq!(median_interval(&samples), (low, high), "n = {n}");
        }
    }

    proptest! {
        #[test]
        fn the_median_lies_in_its_interval_and_order_does_not_matter(mut samples in prop::collection::vec(-1e3..1e3f64, 1..60)) {
            let (low, high) = median_interval(&samples);
            let middle = median(&samples);
            prop_assert!(low <= middle && middle <= high);
            samples.reverse();
            prop_assert_eq!(median(&samples), middle);
        }
    }
}
