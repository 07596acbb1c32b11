//! Kinds of input. A kernel that is right on small well-behaved numbers only is not right.

use crate::error_model::Rounding;

/// A kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Uniform in (-1, 1).
    Uniform,
    /// Normal, mean 0 and deviation 1.
    Normal,
    /// Normal times a large number, the largest that the operator's formula stands in f32.
    Large,
    /// Normal times a tiny number.
    Tiny,
    /// Uniform in (-1, 0).
    Negative,
    /// Every row one number.
    ConstantRows,
    /// Uniform, and one element of each row a thousand times larger than the others can be.
    Outlier,
    /// Below the smallest normal number.
    Denormal,
    /// Uniform, some elements minus infinity: what a mask leaves.
    Masked,
    /// Uniform in a few places of each row, minus infinity in all others.
    Few,
    /// Uniform, some rows with an infinity.
    Infinite,
    /// Uniform, some rows with a NaN.
    NotANumber,
}

impl Distribution {
    /// All whose numbers are finite.
    pub const FINITE: [Self; 8] = [
        Self::Uniform,
        Self::Normal,
        Self::Large,
        Self::Tiny,
        Self::Negative,
        Self::ConstantRows,
        Self::Outlier,
        Self::Denormal,
    ];

    /// The name in a trial's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Large => "large",
            Self::Tiny => "tiny",
            Self::Negative => "negative",
            Self::ConstantRows => "constant-rows",
            Self::Outlier => "outlier",
            Self::Denormal => "denormal",
            Self::Masked => "masked",
            Self::Few => "few",
            Self::Infinite => "infinite",
            Self::NotANumber => "nan",
        }
    }

    /// How rounding errors add up on such inputs.
    #[must_use]
    pub const fn rounding(self) -> Rounding {
        match self {
            Self::ConstantRows => Rounding::Systematic,
            _ => Rounding::Random,
        }
    }
}
