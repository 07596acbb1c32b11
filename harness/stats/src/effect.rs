//! What a set of launches says about one effect: a mean over launches, how well it is known, and what it excludes.
//!
//! Effects are logarithms of time ratios, `ln(t_old / t_new)`: positive is faster. The launches are the independent
//! evidence, so there is exactly one number for each; blocks within a launch share its page placement and are not
//! independent. Bounds and p values are plain Student t: `lower(alpha) > value` and `p_above(value) < alpha` are the same
//! statement, and the second is sixty times cheaper.

use crate::student;

/// The mean of one value a launch, with what its uncertainty is computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The estimate: the mean over launches; not a number for no launches.
    pub mean: f64,
    /// The standard deviation from launch to launch; infinite for fewer than two launches.
    pub deviation: f64,
    /// How many launches.
    pub launches: usize,
    /// As how many launches they count: fewer where some weigh more than others.
    pub effective: f64,
}

impl Effect {
    /// The effect seen in `launches`, one value each.
    #[must_use]
    pub fn of(launches: &[f64]) -> Self {
        let n = launches.len() as f64;
        let mean = launches.iter().sum::<f64>() / n;
        let squares = launches.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = if launches.len() < 2 { f64::INFINITY } else { (squares / (n - 1.0)).sqrt() };
        Self { mean, deviation, launches: launches.len(), effective: n }
    }

    /// The same where some launches were measured more closely than others: each counts by its weight, which must not
    /// depend on its value. The error is that of the values as they lie, whatever the weights were thought to say of
    /// their spread. Equal weights make no difference, and nor do weights that are none.
    ///
    /// # Panics
    /// When there are not as many weights as launches.
    #[must_use]
    pub fn weighted(launches: &[f64], weights: &[f64]) -> Self {
        assert!(launches.len() == weights.len(), "{} launches, {} weights", launches.len(), weights.len());
        let all = weights.iter().sum::<f64>();
        let sound = weights.iter().all(|weight| *weight > 0.0) && all.is_finite();
        if launches.len() < 2 || !sound {
            return Self::of(launches);
        }
        let shares = || launches.iter().zip(weights.iter().map(|weight| weight / all));
        let mean = shares().map(|(value, share)| share * value).sum::<f64>();
        // A launch draws the mean towards itself by its share: what it is off is that much too small.
        let squares = shares().map(|(value, share)| (share * (value - mean)).powi(2) / (1.0 - share)).sum::<f64>();
        let effective = 1.0 / shares().map(|(_, share)| share * share).sum::<f64>();
        Self { mean, deviation: (squares * effective).sqrt(), launches: launches.len(), effective }
    }

    /// The standard error of the mean; infinite for fewer than two launches.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        if self.launches < 2 { f64::INFINITY } else { self.deviation / self.effective.sqrt() }
    }

    /// The one-sided lower bound at level `1 - alpha`; minus infinity for fewer than two launches.
    #[must_use]
    pub fn lower(&self, alpha: f64) -> f64 {
        self.freedom()
            .map_or(f64::NEG_INFINITY, |freedom| self.mean + student::quantile(alpha, freedom) * self.standard_error())
    }

    /// The one-sided upper bound at level `1 - alpha`; infinity for fewer than two launches.
    #[must_use]
    pub fn upper(&self, alpha: f64) -> f64 {
        self.freedom()
            .map_or(f64::INFINITY, |freedom| self.mean - student::quantile(alpha, freedom) * self.standard_error())
    }

    /// The one-sided p for "the true effect is above `value`": how often launches like these would say so if it were
    /// exactly `value`. Fewer than two launches show nothing: 1.
    #[must_use]
    pub fn p_above(&self, value: f64) -> f64 {
        self.tail(value - self.mean)
    }

    /// The one-sided p for "the true effect is below `value`".
    #[must_use]
    pub fn p_below(&self, value: f64) -> f64 {
        self.tail(self.mean - value)
    }

    /// The two-sided p for "there is an effect".
    #[must_use]
    pub fn two_sided_p(&self) -> f64 {
        (2.0 * self.tail(-self.mean.abs())).min(1.0)
    }

    /// The smallest true effect that a one-sided test at `alpha` finds with probability `power` at this spread and number
    /// of launches: `(t[1 - alpha] + t[power]) × standard error`; infinite for fewer than two launches.
    #[must_use]
    pub fn detectable(&self, alpha: f64, power: f64) -> f64 {
        self.freedom().map_or(f64::INFINITY, |freedom| {
            (student::quantile(power, freedom) - student::quantile(alpha, freedom)) * self.standard_error()
        })
    }

    fn freedom(&self) -> Option<f64> {
        (self.launches >= 2).then_some(self.effective - 1.0)
    }

    /// The probability of a t below `distance / standard error`. Without any spread the distance's sign decides.
    fn tail(&self, distance: f64) -> f64 {
        let t = if distance == 0.0 { 0.0 } else { distance / self.standard_error() };
        self.freedom().map_or(1.0, |freedom| student::cumulative(t, freedom))
    }
}

/// The geometric mean over shapes, launch by launch: the mean of the logarithms, every shape with the same weight.
///
/// # Panics
/// When the shapes have different numbers of launches: they were not measured together, and have no common aggregate.
#[must_use]
pub fn combine(shapes: &[&[f64]]) -> Vec<f64> {
    let launches = shapes.first().map_or(0, |shape| shape.len());
    for (index, shape) in shapes.iter().enumerate() {
        assert!(shape.len() == launches, "shape {index} has {} launches, shape 0 has {launches}", shape.len());
    }
    let weight = 1.0 / shapes.len() as f64;
    (0..launches).map(|launch| shapes.iter().map(|shape| shape[launch]).sum::<f64>() * weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-0.1..0.1f64, 2..50)
    }

    #[test]
    fn a_textbook_effect() {
        // Mean 5, deviation 1.5811, standard error 0.7071; t[0.95, 4] = 2.1318, t[0.8, 4] = 0.9410.
        let effect = Effect::of(&[3.0, 4.0, 5.0, 6.0, 7.0]);
        assert!((effect.standard_error() - 0.5f64.sqrt()).abs() < 1e-12);
        assert!((effect.lower(0.05) - 3.4926).abs() < 1e-4 && (effect.upper(0.05) - 6.5074).abs() < 1e-4);
        assert!((effect.detectable(0.05, 0.8) - (2.131_85 + 0.940_96) * 0.5f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn p_values_agree_with_an_independent_implementation() {
        let effect = Effect::of(&[0.01, 0.03, 0.02, -0.01, 0.015, 0.04]);
        let other = StudentsT::new(0.0, 1.0, 5.0).unwrap();
        let t = effect.mean / effect.standard_error();
        assert!((effect.p_above(0.0) - other.sf(t)).abs() < 1e-10);
        assert!((effect.p_below(0.0) - other.cdf(t)).abs() < 1e-10);
        assert!((effect.two_sided_p() - 2.0 * other.sf(t)).abs() < 1e-10);
    }

    #[test]
    fn a_weighted_mean_as_in_a_textbook() {
        // Shares 1/4, 1/4, 1/2, so that the launches are off by 2.25, 1.25 and 1.75.
        let effect = Effect::weighted(&[1.0, 2.0, 5.0], &[1.0, 1.0, 2.0]);
        assert!((effect.mean - 3.25).abs() < 1e-12);
        let squares = (0.25f64 * 2.25).powi(2) / 0.75 + (0.25f64 * 1.25).powi(2) / 0.75 + (0.5f64 * 1.75).powi(2) / 0.5;
        assert!((effect.standard_error() - squares.sqrt()).abs() < 1e-12);
        assert!((effect.effective - 16.0 / 6.0).abs() < 1e-12);
        assert_eq!(effect.launches, 3);
    }

    #[test]
    fn weights_that_are_none_count_for_nothing() {
        let plain = Effect::of(&[1.0, 2.0, 5.0]);
        assert_eq!(Effect::weighted(&[1.0, 2.0, 5.0], &[0.0, 1.0, 1.0]), plain);
        assert_eq!(Effect::weighted(&[1.0, 2.0, 5.0], &[f64::NAN, 1.0, 1.0]), plain);
        assert_eq!(Effect::weighted(&[0.5], &[3.0]), Effect::of(&[0.5]));
    }

    /// Nine launches that vary by 8 % and then some by 2 %, which were measured more closely: a bound at 2 % is passed as
    /// often as it says, and lies much closer than that of equal weights.
    #[test]
    fn bounds_of_weighted_launches_hold_where_some_are_four_times_as_noisy() {
        let mut generator = crate::generator::Generator::new(11);
        for close in [5usize, 12, 39] {
            let weights: Vec<f64> = std::iter::repeat_n(2.0, 9).chain(std::iter::repeat_n(16.0, close)).collect();
            let (mut passed, mut narrower) = (0, 0);
            for _ in 0..4_000 {
                let launches: Vec<f64> =
                    weights.iter().map(|weight| generator.normal() * if *weight > 2.0 { 0.02 } else { 0.08 }).collect();
                let effect = Effect::weighted(&launches, &weights);
                passed += i32::from(effect.lower(0.02) > 0.0);
                narrower += i32::from(effect.standard_error() < Effect::of(&launches).standard_error());
            }
            assert!(passed < 110, "{passed} of 4000 with {close} close launches: more than 2.75 %");
            assert!(narrower > 3_900, "{narrower} of 4000 are narrower with {close}");
        }
    }

    #[test]
    fn one_launch_or_none_says_nothing() {
        for launches in [&[0.5][..], &[]] {
            let effect = Effect::of(launches);
            assert_eq!((effect.lower(0.01), effect.upper(0.01)), (f64::NEG_INFINITY, f64::INFINITY));
            assert_eq!((effect.p_above(0.0), effect.p_below(0.0), effect.two_sided_p()), (1.0, 1.0, 1.0));
            assert_eq!(effect.detectable(0.01, 0.8), f64::INFINITY);
        }
    }

    #[test]
    fn without_spread_the_mean_is_known() {
        let effect = Effect::of(&[0.5, 0.5, 0.5]);
        assert_eq!((effect.lower(0.01), effect.upper(0.01)), (0.5, 0.5));
        assert_eq!((effect.p_above(0.4), effect.p_above(0.6), effect.p_above(0.5)), (0.0, 1.0, 0.5));
    }

    #[test]
    fn the_aggregate_is_a_geometric_mean() {
        let launches = combine(&[&[2f64.ln(), 0.0], &[8f64.ln(), 1.0]]);
        assert!((launches[0].exp() - 4.0).abs() < 1e-12 && (launches[1] - 0.5).abs() < 1e-12);
        assert!(combine(&[]).is_empty());
    }

    #[test]
    #[should_panic(expected = "shape 1 has 1 launches, shape 0 has 2")]
    fn shapes_measured_apart_have_no_aggregate() {
        let _ = combine(&[&[0.1, 0.2], &[0.1]]);
    }

    proptest! {
        #[test]
        fn equal_weights_make_no_difference(samples in samples(), weight in 0.1..10.0f64) {
            let weighted = Effect::weighted(&samples, &vec![weight; samples.len()]);
            let plain = Effect::of(&samples);
            prop_assert!((weighted.mean - plain.mean).abs() < 1e-12);
            prop_assert!((weighted.standard_error() - plain.standard_error()).abs() < 1e-12);
            prop_assert!((weighted.effective - plain.effective).abs() < 1e-9);
        }

        #[test]
        fn bounds_and_p_values_are_one_statement(samples in samples(), alpha in 0.001..0.4f64, value in -0.1..0.1f64) {
            let effect = Effect::of(&samples);
            prop_assume!((effect.lower(alpha) - value).abs() > 1e-9 && (effect.upper(alpha) - value).abs() > 1e-9);
            prop_assert_eq!(effect.lower(alpha) > value, effect.p_above(value) < alpha);
            prop_assert_eq!(effect.upper(alpha) < value, effect.p_below(value) < alpha);
            prop_assert!((effect.p_above(value) + effect.p_below(value) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn more_certainty_is_wider_and_needs_a_larger_effect(samples in samples()) {
            let effect = Effect::of(&samples);
            prop_assert!(effect.lower(0.001) <= effect.lower(0.01) && effect.lower(0.01) <= effect.mean);
            prop_assert!(effect.upper(0.001) >= effect.upper(0.01) && effect.upper(0.01) >= effect.mean);
            prop_assert!(effect.detectable(0.001, 0.8) >= effect.detectable(0.01, 0.8));
            prop_assert!(effect.detectable(0.01, 0.9) >= effect.detectable(0.01, 0.8));
        }

        #[test]
        fn swapping_the_sides_mirrors_and_a_shift_moves(samples in samples(), shift in -1.0..1.0f64) {
            let effect = Effect::of(&samples);
            let mirror = Effect::of(&samples.iter().map(|sample| -sample).collect::<Vec<_>>());
            prop_assert!((effect.lower(0.01) + mirror.upper(0.01)).abs() < 1e-12);
            prop_assert!((effect.p_above(0.02) - mirror.p_below(-0.02)).abs() < 1e-12);
            let moved = Effect::of(&samples.iter().map(|sample| sample + shift).collect::<Vec<_>>());
            prop_assert!((moved.lower(0.01) - effect.lower(0.01) - shift).abs() < 1e-9);
        }
    }
}
