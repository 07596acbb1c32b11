//! Which way an effect goes, for tables and for known truths: faster, slower, the same, or not to be told from these
//! launches. "Not significant" is not "the same", and the two are kept apart.

use crate::effect::Effect;
use crate::multiple::holm;
use crate::standing::Shape;

/// Which way an effect goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The interval lies above zero, and not all within the band.
    Faster,
    /// The interval lies below zero, and not all within the band.
    Slower,
    /// The whole interval lies within the band: no effect, or one too small to matter.
    Same,
    /// The interval holds zero and reaches beyond the band: more launches are needed.
    CannotTell,
}

/// The direction of one effect from its two-sided interval, `alpha / 2` on each side. `band` is the gain that is too
/// small to matter, 0.01 for 1 %; as logarithms the band is ± ln(1 + band).
#[must_use]
pub fn direction(effect: &Effect, alpha: f64, band: f64) -> Direction {
    let (low, high) = (effect.lower(alpha / 2.0), effect.upper(alpha / 2.0));
    let band = band.ln_1p();
    if -band <= low && high <= band {
        Direction::Same
    } else if low > 0.0 {
        Direction::Faster
    } else if high < 0.0 {
        Direction::Slower
    } else {
        Direction::CannotTell
    }
}

/// The direction of each shape. Faster and slower are claimed after Holm over the shapes, so that with probability
/// `1 - alpha` none of them is wrong; what that withdraws cannot be told. The same is claimed by each shape's own interval.
#[must_use]
pub fn directions(shapes: &[Shape], alpha: f64, band: f64) -> Vec<Direction> {
    let effects: Vec<Effect> = shapes.iter().map(Shape::effect).collect();
    let p: Vec<f64> = effects.iter().map(Effect::two_sided_p).collect();
    let claims = holm(&p, alpha);
    let judge = |(effect, claim): (&Effect, bool)| match direction(effect, alpha, band) {
        Direction::Faster | Direction::Slower if !claim => Direction::CannotTell,
        direction => direction,
    };
    effects.iter().zip(claims).map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Launches with exactly this mean and standard error.
    fn launches(mean: f64, error: f64) -> Vec<f64> {
        let half = error * 11f64.sqrt();
        (0..12).map(|launch| if launch % 2 == 0 { mean + half } else { mean - half }).collect()
    }

    fn judged(mean: f64, error: f64) -> Direction {
        direction(&Effect::of(&launches(mean, error)), 0.05, 0.01)
    }

    #[test]
    fn each_direction() {
        // t[0.975, 11] = 2.201: an error of 0.3 % makes an interval of ± 0.66 %; the band is ± 0.995 %.
        assert_eq!(judged(0.03, 0.003), Direction::Faster);
        assert_eq!(judged(-0.03, 0.003), Direction::Slower);
        assert_eq!(judged(0.001, 0.003), Direction::Same);
        assert_eq!(judged(0.005, 0.003), Direction::CannotTell);
        assert_eq!(judged(0.007, 0.003), Direction::Faster);
        assert_eq!(
            judged(0.007, 0.001),
            Direction::Same,
            "excludes zero and lies within the band: too small to matter"
        );
        assert_eq!(direction(&Effect::of(&[0.5]), 0.05, 0.01), Direction::CannotTell);
    }

    #[test]
    fn over_many_shapes_a_weak_claim_is_withdrawn_and_sameness_stays() {
        let (weak, strong, none) = (launches(0.02, 0.008), launches(-0.05, 0.003), launches(0.0, 0.003));
        let shape = |gains| Shape { name: "", core: true, gains, weights: &[] };
        assert_eq!(directions(&[shape(&weak)], 0.05, 0.01), [Direction::Faster]);
        let many = [shape(&weak), shape(&strong), shape(&none), shape(&none)];
        let expected = [Direction::CannotTell, Direction::Slower, Direction::Same, Direction::Same];
        assert_eq!(directions(&many, 0.05, 0.01), expected);
        assert!(directions(&[], 0.05, 0.01).is_empty());
    }

    proptest! {
        #[test]
        fn swapping_the_sides_swaps_the_direction(samples in prop::collection::vec(-0.05..0.06f64, 2..30)) {
            let there = direction(&Effect::of(&samples), 0.05, 0.01);
            let back = direction(&Effect::of(&samples.iter().map(|sample| -sample).collect::<Vec<_>>()), 0.05, 0.01);
            let expected = match there {
                Direction::Faster => Direction::Slower,
                Direction::Slower => Direction::Faster,
                other => other,
            };
            prop_assert_eq!(back, expected);
        }

        #[test]
        fn several_shapes_claim_no_more_than_each_alone(
            shapes in prop::collection::vec(prop::collection::vec(-0.03..0.05f64, 8), 1..6),
        ) {
            let shapes: Vec<Shape> = shapes.iter().map(|gains| Shape { name: "", core: true, gains, weights: &[] }).collect();
            for (shape, together) in shapes.iter().zip(directions(&shapes, 0.05, 0.01)) {
                let alone = direction(&Effect::of(shape.gains), 0.05, 0.01);
                prop_assert!(together == alone || together == Direction::CannotTell);
            }
        }
    }
}
