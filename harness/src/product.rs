//! Products of matrices in f64, the costly part of some references: on the host here, on a device where the runner has one.

use kopt_schema::DType;

use crate::error_model::{Rounding, U, rounded};
use crate::parallel;
use crate::tensor::Expected;

/// What computes a product: `left` is `rows × inner`, `right` is `inner × cols`, and the sizes come in that order.
pub type Multiply<'a> = &'a dyn Fn(&[f32], &[f32], [usize; 3]) -> Result<Product, Unmultiplied>;

/// Why there is no product.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmultiplied {
    /// The device could not: the host can.
    #[error("{0}")]
    Failed(String),
    /// The device gave something else than the host: nothing that it gives is worth anything.
    #[error("{0}")]
    Disagrees(String),
}

/// A product of two matrices.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The exact elements.
    pub values: Vec<f64>,
    /// The magnitude of what each is the sum of.
    pub magnitudes: Vec<f64>,
}

impl Product {
    /// `left` is `rows × inner`, `right` is `inner × cols`.
    #[must_use]
    pub fn new(left: &[f32], right: &[f32], [rows, inner, cols]: [usize; 3]) -> Self {
        let mut product = Self { values: vec![0.0; rows * cols], magnitudes: vec![0.0; rows * cols] };
        if inner == 0 || cols == 0 {
            return product;
        }
        let right: Vec<f64> = right.iter().copied().map(f64::from).collect();
        let rows = (parallel::PART / (inner * cols)).max(BLOCK_ROWS);
        let sums = product.values.chunks_mut(rows * cols).zip(product.magnitudes.chunks_mut(rows * cols));
        parallel::each(left.chunks(rows * inner).zip(sums), |(left, (values, magnitudes))| {
            let sums = values.chunks_mut(BLOCK_ROWS * cols).zip(magnitudes.chunks_mut(BLOCK_ROWS * cols));
            for (left, (values, magnitudes)) in left.chunks(BLOCK_ROWS * inner).zip(sums) {
                multiply(left, &right, [inner, cols], values, magnitudes);
            }
        });
        product
    }

    /// Adds the rows of another product below.
    pub fn append(&mut self, mut below: Self) {
        self.values.append(&mut below.values);
        self.magnitudes.append(&mut below.magnitudes);
    }

    /// The product as what a kernel must write, each element a sum of `terms` products.
    #[must_use]
    pub fn expected(self, name: &'static str, terms: usize, dtype: DType, rounding: Rounding) -> Expected {
        // The arithmetic is in f32 whatever the element type: a product that leaves its range is off by at most its
        // smallest number.
        let underflow = terms as f64 * DType::F32.smallest();
        let relative = U * rounding.growth(terms);
        // Each magnitude gives way to the bound that follows from it.
        let Self { values, magnitudes: mut bounds } = self;
        let parts = bounds.chunks_mut(parallel::PART).zip(values.chunks(parallel::PART));
        parallel::each(parts, |(bounds, values)| {
            for (bound, value) in bounds.iter_mut().zip(values) {
                // Infinity and NaN are met exactly or not at all.
                *bound = if value.is_finite() { rounded(*value, relative * *bound + underflow, dtype) } else { 0.0 };
            }
        });
        Expected { name, values, bounds }
    }
}

/// Rows and columns of sums that fit a first-level cache while a block of rows is multiplied.
pub(crate) const BLOCK_ROWS: usize = 16;
pub(crate) const BLOCK_COLS: usize = 128;

/// Adds a few rows of a product to their sums, some columns after the other. The terms of each sum come in order.
fn multiply(left: &[f32], right: &[f64], [inner, cols]: [usize; 2], values: &mut [f64], magnitudes: &mut [f64]) {
    for from in (0..cols).step_by(BLOCK_COLS) {
        let to = cols.min(from + BLOCK_COLS);
        for (at, right) in right.chunks_exact(cols).enumerate() {
            let sums = values.chunks_exact_mut(cols).zip(magnitudes.chunks_exact_mut(cols));
            for (left, (values, magnitudes)) in left.chunks_exact(inner).zip(sums) {
                let factor = f64::from(left[at]);
                let sums = values[from..to].iter_mut().zip(&mut magnitudes[from..to]);
                // Along a row of `right`, so that the compiler can do several columns at once.
                for ((value, magnitude), other) in sums.zip(&right[from..to]) {
                    let term = factor * other;
                    *value += term;
                    *magnitude += term.abs();
                }
            }
        }
    }
}
