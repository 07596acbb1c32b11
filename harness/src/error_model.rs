//! How far an honest kernel may be from the exact result. Operators build their bounds from these parts, per element
//! and per element type; there is no tolerance that fits everything.
//!
//! The contract is arithmetic in f32 whatever the element type, then one rounding to the output's type. The bounds are
//! tight enough that a lower precision inside (bf16, tf32) does not fit, and wide enough for any order of summation.

use kopt_schema::DType;

/// Unit roundoff of the arithmetic.
pub const U: f64 = 1.0 / (1 << 24) as f64;

/// How rounding errors of a long sum add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Terms differ: errors are as good as random and grow with the square root of the length.
    Random,
    /// Terms repeat (constant rows): the same error is made at every step, and grows with the length.
    Systematic,
}

impl Rounding {
    /// Error of a sum of `terms` numbers in units of [`U`] times the sum of their magnitudes.
    ///
    /// Random: a serial f32 sum of same-sign terms is off by √n / 3 (one standard deviation); 3 √n leaves nine. Beyond
    /// some ten thousand terms of one sign the last bits of every addend are lost in the same direction, and a serial
    /// sum drifts by about n / 60 (measured on squares of normal numbers): n / 32 covers it.
    #[must_use]
    pub fn growth(self, terms: usize) -> f64 {
        let n = terms as f64;
        match self {
            Self::Random => 3.0 * n.sqrt() + n / 32.0 + 2.0,
            Self::Systematic => n + 2.0,
        }
    }

    /// The same, for a sum of these terms, none of which is negative. One that is below the last place of the sum can be lost,
    /// and costs no more than itself: rows of which a mask leaves little have short sums, however long they are.
    #[must_use]
    pub fn of_terms(self, terms: &[f64], sum: f64) -> f64 {
        let last_place = U * sum;
        let (mut counted, mut lost) = (0, 0.0);
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
        for term in terms {
            let is_lost = *term < last_place;
            counted += usize::from(!is_lost);
            lost += if is_lost { *term } else { 0.0 };
            smallest = if !is_lost && *term < smallest { *term } else { smallest };
            largest = if *term > largest { *term } else { largest };
        }
        let lost = if lost > 0.0 { lost / last_place } else { 0.0 };
        self.of_positive(counted, smallest, largest).growth(counted) + lost
    }

    /// The same, for a sum of that many positive terms from `smallest` to `largest`. Terms that differ by less than the last
    /// place of their sum repeat in effect: exponentials of tiny numbers do.
    #[must_use]
    pub fn of_positive(self, terms: usize, smallest: f64, largest: f64) -> Self {
        if largest - smallest <= 4.0 * U * terms as f64 * largest { Self::Systematic } else { self }
    }
}

/// The bound of an output: the arithmetic's error, and the one rounding to the element type.
#[must_use]
pub fn rounded(value: f64, arithmetic: f64, dtype: DType) -> f64 {
    // 1 % over half a unit in the last place, because the value that is rounded is itself off by `arithmetic`.
    arithmetic + value.abs() * dtype.roundoff() * 1.01 + dtype.smallest()
}
