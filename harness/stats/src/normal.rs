//! The upper tail of the normal distribution, for the one peer's rule that uses it. The referee's own rules use
//! Student's t throughout, so this is not part of the public surface.

use std::f64::consts::TAU;

/// The probability that a standard normal variable is above `z`.
pub(crate) fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / TAU.sqrt();
    if z < 3.0 {
        // The power series of the area between 0 and z; at 3 the difference from 1/2 still has thirteen good digits.
        let (mut term, mut sum, mut odd) = (z, 0.0, 1.0);
        while term > 1e-18 {
            sum += term;
            odd += 2.0;
            term *= z * z / odd;
        }
        return 0.5 - density * sum;
    }
    // The continued fraction, from its 80th level inwards: at z = 3, where it is slowest, all digits have settled.
    density / (1..=80).rev().fold(z, |rest, level| z + f64::from(level) / rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal};

    #[test]
    fn agrees_with_an_independent_implementation() {
        let other = Normal::new(0.0, 1.0).unwrap();
        for step in -60..=60 {
            let z = f64::from(step) / 8.0;
            let (ours, theirs) = (upper_tail(z), other.sf(z));
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{z}: {ours} {theirs}");
        }
    }

    #[test]
    fn the_two_methods_meet() {
        assert!((upper_tail(3.0 - 1e-12) / upper_tail(3.0) - 1.0).abs() < 1e-10);
        assert!((upper_tail(1.959_963_984_540_054) - 0.025).abs() < 1e-14);
    }
}
