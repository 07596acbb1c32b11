//! The floating-point type of a model: f32 to train, f64 to check gradients.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// f32 or f64.
pub trait Real:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Sum
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Minus infinity.
    const LOWEST: Self;
    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The same number, wide.
    fn wide(self) -> f64;
    /// e to this power.
    fn exp(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$type>::NEG_INFINITY;
            fn of(value: f64) -> Self {
                value as Self
            }
            fn wide(self) -> f64 {
                self as f64
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
        }
    };
}

real!(f32);
real!(f64);
