//! A peer's rule: how criterion, with its default settings, says whether a benchmark got faster. Here as a pure function,
//! so that the comparison of rules can run it on the same traces as the referee's; the referee itself does not use it.
//!
//! Criterion treats the samples of a run as independent. They are not (they share a process, its page placement and the
//! machine's mood), so its intervals are right about this run and wrong about the next one.

use crate::effect::Effect;
use crate::generator::Generator;
use crate::order::sorted;

/// Resamples of each bootstrap. Criterion takes 100,000; 4,000 place a 2.5 % tail to ± 0.25 %, and verdicts that
/// hang on less are as likely to fall either way there.
const RESAMPLES: usize = 4_000;

/// Criterion's `significance_level`.
const SIGNIFICANCE: f64 = 0.05;

/// Criterion's `confidence_level`.
const CONFIDENCE: f64 = 0.95;

/// Criterion's `noise_threshold`.
const NOISE: f64 = 0.01;

/// What criterion would print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerVerdict {
    /// "Performance has improved."
    Improved,
    /// "Performance has regressed."
    Regressed,
    /// "No change in performance detected." and "Change within noise threshold."
    NoChange,
}

/// Criterion's verdict on two runs, as times a call: a bootstrapped two-sample t test on the mean at 0.05, then the 95 %
/// bootstrap interval of the relative change of the mean, both ends of which must lie beyond 1 %.
///
/// Fewer than two values on a side give no verdict, which is [`PeerVerdict::NoChange`].
#[must_use]
pub fn criterion_verdict(baseline: &[f64], new: &[f64], seed: u64) -> PeerVerdict {
    if baseline.len() < 2 || new.len() < 2 {
        return PeerVerdict::NoChange;
    }
    let mut generator = Generator::new(seed);
    if t_test(baseline, new, &mut generator) >= SIGNIFICANCE {
        return PeerVerdict::NoChange;
    }
    let (low, high) = relative_change(baseline, new, &mut generator);
    if low < -NOISE && high < -NOISE {
        PeerVerdict::Improved
    } else if low > NOISE && high > NOISE {
        PeerVerdict::Regressed
    } else {
        PeerVerdict::NoChange
    }
}

/// The two-sided p of Welch's t among those of two samples drawn from both runs thrown together.
fn t_test(baseline: &[f64], new: &[f64], generator: &mut Generator) -> f64 {
    let pooled = [new, baseline].concat();
    let (mut drawn_new, mut drawn_baseline) = (vec![0.0; new.len()], vec![0.0; baseline.len()]);
    let seen = welch(new, baseline);
    let (mut below, mut count) = (0usize, 0usize);
    for _ in 0..RESAMPLES {
        draw(&pooled, &mut drawn_new, generator);
        draw(&pooled, &mut drawn_baseline, generator);
        let t = welch(&drawn_new, &drawn_baseline);
        // Tiny samples may come out without any spread; criterion drops those too.
        if t.is_finite() {
            count += 1;
            below += usize::from(t < seen);
        }
    }
    2.0 * below.min(count - below) as f64 / count as f64
}

fn welch(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (Effect::of(a), Effect::of(b));
    (a.mean - b.mean) / a.standard_error().hypot(b.standard_error())
}

/// The percentile interval of `mean(new) / mean(baseline) - 1`.
fn relative_change(baseline: &[f64], new: &[f64], generator: &mut Generator) -> (f64, f64) {
    let (mut drawn_new, mut drawn_baseline) = (vec![0.0; new.len()], vec![0.0; baseline.len()]);
    // Criterion nests the two resamplings (316 of one side, 316 of the other for each) to save time; drawn anew each
    // time, 4,000 pairs are better spread than those.
    let changes: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            draw(new, &mut drawn_new, generator);
            draw(baseline, &mut drawn_baseline, generator);
            mean(&drawn_new) / mean(&drawn_baseline) - 1.0
        })
        .collect();
    let changes = sorted(&changes);
    let at = |share: f64| changes[((changes.len() - 1) as f64 * share).round() as usize];
    (at((1.0 - CONFIDENCE) / 2.0), at(f64::midpoint(1.0, CONFIDENCE)))
}

fn draw(from: &[f64], into: &mut [f64], generator: &mut Generator) {
    into.fill_with(|| from[generator.below(from.len())]);
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mean: f64, deviation: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut generator = Generator::new(seed);
        (0..count).map(|_| mean * (1.0 + deviation * generator.normal())).collect()
    }

    #[test]
    fn clear_changes_have_their_direction_and_mirror() {
        let (old, new) = (run(1.0, 0.02, 50, 1), run(0.9, 0.02, 50, 2));
        assert_eq!(criterion_verdict(&old, &new, 7), PeerVerdict::Improved);
        assert_eq!(criterion_verdict(&new, &old, 7), PeerVerdict::Regressed);
    }

    #[test]
    fn a_change_within_the_threshold_is_none_however_significant() {
        let (old, new) = (run(1.0, 0.001, 50, 1), run(0.995, 0.001, 50, 2));
        assert!(t_test(&old, &new, &mut Generator::new(3)) < 0.001);
        assert_eq!(criterion_verdict(&old, &new, 7), PeerVerdict::NoChange);
    }

    #[test]
    fn the_test_holds_its_level_on_samples_that_really_are_independent() {
        // Binomial(150, 0.05): mean 7.5, deviation 2.7; between 1 and 16 in 99.8 % of runs.
        let significant = (0..150)
            .filter(|&seed| {
                let (old, new) = (run(1.0, 0.05, 12, 2 * seed), run(1.0, 0.05, 12, 2 * seed + 1));
                t_test(&old, &new, &mut Generator::new(seed)) < SIGNIFICANCE
            })
            .count();
        assert!((1..=16).contains(&significant), "{significant}");
    }

    #[test]
    fn the_interval_is_that_of_the_normal_approximation() {
        // Two means of 200 at 2 %: deviation of the ratio 0.2 %, interval ± 0.392 %.
        let (old, new) = (run(1.0, 0.02, 200, 1), run(1.0, 0.02, 200, 2));
        let (low, high) = relative_change(&old, &new, &mut Generator::new(3));
        assert!((high - low - 0.00784).abs() < 0.0008, "{low} {high}");
    }

    #[test]
    fn the_same_seed_gives_the_same_verdict_and_no_spread_is_no_failure() {
        let (old, new) = (run(1.0, 0.03, 20, 5), run(0.98, 0.03, 20, 6));
        assert_eq!(criterion_verdict(&old, &new, 9), criterion_verdict(&old, &new, 9));
        assert_eq!(criterion_verdict(&[1.0; 10], &[1.0; 10], 1), PeerVerdict::NoChange);
        assert_eq!(criterion_verdict(&[1.0; 10], &[0.5; 10], 1), PeerVerdict::Improved);
        assert_eq!(criterion_verdict(&[1.0], &[0.5; 10], 1), PeerVerdict::NoChange);
    }
}
