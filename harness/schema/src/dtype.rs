//! Element types of buffers.

use serde::{Deserialize, Serialize};

/// The element type of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// bfloat16: the upper half of a binary32.
    Bf16,
    /// IEEE binary16.
    F16,
    /// 32-bit signed integer: offsets and indices, never arithmetic.
    I32,
}

/// An exact power of two, of an exponent that a normal f64 has. Asked for each element that is compared.
#[inline]
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

impl DType {
    /// Bytes of one element.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Unit roundoff: half the distance from 1 to the next number. Zero for integers, which are compared exactly.
    #[must_use]
    #[inline]
    pub const fn roundoff(self) -> f64 {
        match self {
            Self::F32 => power_of_two(-24),
            Self::Bf16 => power_of_two(-8),
            Self::F16 => power_of_two(-11),
            Self::I32 => 0.0,
        }
    }

    /// The distance between neighbouring numbers around zero: what rounding may cost where relative precision ends.
    #[must_use]
    #[inline]
    pub const fn smallest(self) -> f64 {
        match self {
            Self::F32 => power_of_two(-149),
            Self::Bf16 => power_of_two(-133),
            Self::F16 => power_of_two(-24),
            Self::I32 => 0.0,
        }
    }

    /// The smallest number with full relative precision.
    #[must_use]
    #[inline]
    pub const fn smallest_normal(self) -> f64 {
        match self {
            Self::F32 | Self::Bf16 => power_of_two(-126),
            Self::F16 => power_of_two(-14),
            Self::I32 => 0.0,
        }
    }

    /// The largest finite number.
    #[must_use]
    #[inline]
    pub fn largest(self) -> f64 {
        match self {
            Self::F32 => f64::from(f32::MAX),
            Self::Bf16 => f64::from(f32::from_bits(0x7f7f_0000)),
            Self::F16 => 65504.0,
            Self::I32 => f64::from(i32::MAX),
        }
    }

    /// The name as it is written in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::I32 => "i32",
        }
    }
}
