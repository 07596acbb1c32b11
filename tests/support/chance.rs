//! Kills at random moments: how many, and from which seed, as whoever runs the test asks for.

#![allow(clippy::disallowed_methods, reason = "no part of the tool")]

/// Kills, if `KOPT_KILLS` does not ask for another number.
pub fn kills(otherwise: u64) -> u64 {
    std::env::var("KOPT_KILLS").map_or(otherwise, |number| number.parse().unwrap())
}

/// The seed of the moments: secret, unless `KOPT_KILL_SEED` gives it.
pub fn seed() -> u64 {
    let given = std::env::var("KOPT_KILL_SEED").ok();
    given.map_or_else(|| getrandom::u64().unwrap(), |seed| u64::from_str_radix(&seed, 16).unwrap())
}

/// Random moments from a seed (SplitMix64).
pub struct Chance(pub u64);

impl Chance {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below a number; 0 if that is 0.
    #[allow(dead_code, reason = "shared with tests that choose a moment only")]
    pub fn below(&mut self, number: usize) -> usize {
        usize::try_from(self.bits() % number.max(1) as u64).unwrap()
    }
}
