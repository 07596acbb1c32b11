//! What another order of the same sums would do to a result.

use super::call::Written;

/// Rounding errors of another order of sums, at random.
#[derive(Debug)]
pub(super) struct Noise(pub(super) u64);

impl Noise {
    /// Moves each element by up to four roundings for each root of its terms, relative to its row's size: what sums of
    /// numbers of either sign are off by when they are taken in another order. What is zero stays so: nothing was rounded.
    pub(super) fn disturb(&mut self, written: &mut Written<'_>) {
        const ROUNDING: f32 = f32::EPSILON / 2.0;
        let reach = 4.0 * ROUNDING * (written.terms.max(1) as f32).sqrt();
        for row in written.values.chunks_mut(written.row.max(1)) {
            let square = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / row.len() as f64;
            let size = reach * square.sqrt() as f32;
            for value in row.iter_mut().filter(|value| **value != 0.0) {
                *value += size * self.unit();
            }
        }
    }

    /// Between -1 and 1; a multiplicative congruence is random enough to round by.
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
