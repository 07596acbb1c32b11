//! Random numbers from a seed: the same seed gives the same verdict on every machine and with every version of every
//! dependency. For resampling and simulation only, nothing that a contestant must not predict.

/// `SplitMix64`: 64 bits of state, passes the usual batteries of tests, five lines.
pub(crate) struct Generator(u64);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..bound`. The bias of the multiplication is below `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A standard normal number (Box and Muller).
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        // 53 bits, never zero, so that the logarithm is finite.
        let mut unit = || ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (radius, angle) = ((-2.0 * unit().ln()).sqrt(), std::f64::consts::TAU * unit());
        radius * angle.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut generator = Generator::new(1_234_567);
        assert_eq!(generator.next(), 6_457_827_717_110_365_317);
        assert_eq!(generator.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_index_is_drawn_and_none_beyond() {
        let mut generator = Generator::new(1);
        let mut counts = [0u32; 7];
        for _ in 0..7_000 {
            counts[generator.below(7)] += 1;
        }
        // Binomial(7000, 1/7) has deviation 29.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut generator = Generator::new(2);
        let samples: Vec<f64> = (0..20_000).map(|_| generator.normal()).collect();
        let effect = crate::Effect::of(&samples);
        assert!(effect.mean.abs() < 0.03 && (effect.deviation - 1.0).abs() < 0.02, "{effect:?}");
    }
}
