//! A peer's rule: the Mann-Whitney test, which several benchmark tools decide by. Here for the comparison of rules on
//! the same traces; the referee itself does not use it, since on samples that drift together it accepts a third of the no-ops.

use crate::normal;

/// The two-sided p of the Mann-Whitney test (Wilcoxon's rank sum) that two samples come from one distribution: normal
/// approximation with corrections for ties and for continuity. An empty sample, or all values equal, gives 1.
///
/// The approximation is good from about eight values on each side. Values are assumed to be numbers.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let n = n_a + n_b;
    let mut pooled: Vec<(f64, bool)> =
        a.iter().map(|&value| (value, true)).chain(b.iter().map(|&value| (value, false))).collect();
    pooled.sort_by(|left, right| left.0.total_cmp(&right.0));
    // Equal values share the mean of their ranks; `ties` is the sum of t³ - t over groups of t equal values.
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for group in pooled.chunk_by(|left, right| left.0 == right.0) {
        let t = group.len() as f64;
        rank_sum += group.iter().filter(|value| value.1).count() as f64 * (before + (t + 1.0) / 2.0);
        ties += t * t * t - t;
        before += t;
    }
    let u = rank_sum - n_a * (n_a + 1.0) / 2.0;
    let variance = n_a * n_b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    // With fewer than two values in all it is 0 / 0.
    if variance.is_nan() || variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n_a * n_b / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    (2.0 * normal::upper_tail(z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_example_without_ties() {
        // Ages at diagnosis of five men and four women: U = 17, z = 6.5 / 4.0825.
        let p = mann_whitney(&[19.0, 22.0, 16.0, 29.0, 24.0], &[20.0, 11.0, 17.0, 12.0]);
        assert!((p - 0.111_347).abs() < 1e-6, "{p}");
    }

    #[test]
    fn an_example_with_ties() {
        // Ozone in New York, May and August 1973 (`airquality` of R): W = 127.5, p = 0.0001208.
        let may = [41, 36, 12, 18, 28, 23, 19, 8, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32, 23, 45, 115, 37];
        let august =
            [39, 9, 16, 78, 35, 66, 122, 89, 110, 44, 28, 65, 22, 59, 23, 31, 44, 21, 9, 45, 168, 73, 76, 118, 84, 85];
        let p = mann_whitney(&may.map(f64::from), &august.map(f64::from));
        assert!((p - 0.000_120_8).abs() < 5e-8, "{p}");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(mann_whitney(&[], &[1.0, 2.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[]), 1.0);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 7]), 1.0);
    }

    proptest! {
        #[test]
        fn only_ranks_count_and_sides_may_be_swapped(
            a in prop::collection::vec(0..20i32, 1..30),
            b in prop::collection::vec(0..20i32, 1..30),
        ) {
            let values = |samples: &[i32], map: fn(f64) -> f64| samples.iter().map(|&v| map(f64::from(v))).collect::<Vec<_>>();
            let p = mann_whitney(&values(&a, |v| v), &values(&b, |v| v));
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - mann_whitney(&values(&b, |v| v), &values(&a, |v| v))).abs() < 1e-12);
            prop_assert!((p - mann_whitney(&values(&a, |v| v.exp()), &values(&b, |v| v.exp()))).abs() < 1e-12);
            prop_assert!((p - mann_whitney(&values(&a, |v| -v), &values(&b, |v| -v))).abs() < 1e-12);
        }
    }
}
