//! Several tests at once. With eight shapes at 5 % each, one of three no-ops has a shape that looks different; what is
//! named to the user must not be that.

/// Which of the hypotheses with these p values may be rejected so that the probability of rejecting any true one is at
/// most `alpha`, whatever the dependence between them (Holm's step-down procedure). In the order of `p`.
///
/// A p that is not a number is never rejected.
#[must_use]
pub fn holm(p: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    // Without its sign a not-a-number sorts last, where it ends the procedure and hides nothing.
    order.sort_by(|&a, &b| p[a].abs().total_cmp(&p[b].abs()));
    let mut rejected = vec![false; p.len()];
    for (rank, &index) in order.iter().enumerate() {
        // The smallest against alpha / m, the next against alpha / (m - 1); the first that fails ends it.
        if p[index].is_nan() || p[index] > alpha / (p.len() - rank) as f64 {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn textbook_examples() {
        // Limits 0.0125, 0.0167, 0.025, 0.05: 0.005 and 0.01 pass, 0.03 does not, and so 0.04 may not either.
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005], 0.05), [true, false, false, true]);
        // Bonferroni (limit 0.01) would reject only the first; Holm's limits are 0.01, 0.0125, 0.0167, 0.025, 0.05.
        assert_eq!(holm(&[0.001, 0.012, 0.016, 0.02, 0.3], 0.05), [true, true, true, true, false]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn not_a_number_is_no_evidence_and_costs_its_share() {
        assert_eq!(holm(&[f64::NAN, 0.03, -f64::NAN], 0.05), [false, false, false]);
        assert_eq!(holm(&[f64::NAN, 0.01, -f64::NAN], 0.05), [false, true, false]);
    }

    proptest! {
        #[test]
        fn between_bonferroni_and_unadjusted(p in prop::collection::vec(0.0..0.1f64, 0..12), alpha in 0.001..0.2f64) {
            let rejected = holm(&p, alpha);
            for (index, &rejected) in rejected.iter().enumerate() {
                prop_assert!(!rejected || p[index] <= alpha);
                prop_assert!(rejected || p[index] > alpha / p.len() as f64);
            }
        }

        #[test]
        fn smaller_p_values_and_larger_alpha_never_reject_less(p in prop::collection::vec(0.0..0.1f64, 1..12), alpha in 0.001..0.1f64) {
            let rejected = holm(&p, alpha);
            for (before, after) in rejected.iter().zip(holm(&p, 2.0 * alpha)) {
                prop_assert!(after || !before);
            }
            for (index, &one) in rejected.iter().enumerate() {
                prop_assert!(rejected.iter().enumerate().all(|(other, &two)| p[other] > p[index] || two || !one));
            }
        }
    }
}
