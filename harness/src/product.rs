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
        let panels = panels(right, inner, cols);
        let rows = (parallel::PART / (inner * cols)).max(BLOCK_ROWS).next_multiple_of(SIDE_ROWS);
        let sums = product.values.chunks_mut(rows * cols).zip(product.magnitudes.chunks_mut(rows * cols));
        parallel::each(left.chunks(rows * inner).zip(sums), |(left, (values, magnitudes))| {
            let sums = values.chunks_mut(BLOCK_ROWS * cols).zip(magnitudes.chunks_mut(BLOCK_ROWS * cols));
            for (left, (values, magnitudes)) in left.chunks(BLOCK_ROWS * inner).zip(sums) {
                multiply(left, &panels, [inner, cols], values, magnitudes);
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

/// Rows that share a panel while it is in the first-level cache.
pub(crate) const BLOCK_ROWS: usize = 16;

/// Rows and columns of the sums that stay in registers, of which every processor has as many.
const SIDE_ROWS: usize = 2;
pub(crate) const SIDE_COLS: usize = 4;

/// A matrix in panels of a few columns each, one below the other; the last is filled up with zeros.
fn panels(matrix: &[f32], inner: usize, cols: usize) -> Vec<f64> {
    let mut panels = vec![0.0; inner * cols.next_multiple_of(SIDE_COLS)];
    parallel::each(panels.chunks_exact_mut(inner * SIDE_COLS).enumerate(), |(panel, into)| {
        let from = panel * SIDE_COLS;
        let to = cols.min(from + SIDE_COLS);
        for (row, into) in matrix.chunks_exact(cols).zip(into.chunks_exact_mut(SIDE_COLS)) {
            into.iter_mut().zip(&row[from..to]).for_each(|(into, value)| *into = f64::from(*value));
        }
    });
    panels
}

/// A few rows of a product.
fn multiply(left: &[f32], panels: &[f64], [inner, cols]: [usize; 2], values: &mut [f64], magnitudes: &mut [f64]) {
    // Past the last row it is taken again, and what comes of it is not kept.
    let rows = left.len() / inner;
    let mut pairs = vec![[0.0; SIDE_ROWS]; inner * rows.div_ceil(SIDE_ROWS)];
    for (place, pairs) in pairs.chunks_exact_mut(inner).enumerate() {
        for side in 0..SIDE_ROWS {
            let row = (place * SIDE_ROWS + side).min(rows - 1);
            let numbers = &left[row * inner..(row + 1) * inner];
            pairs.iter_mut().zip(numbers).for_each(|(pair, number)| pair[side] = f64::from(*number));
        }
    }
    for (panel, right) in panels.chunks_exact(inner * SIDE_COLS).enumerate() {
        let from = panel * SIDE_COLS;
        let width = SIDE_COLS.min(cols - from);
        for (place, pairs) in pairs.chunks_exact(inner).enumerate() {
            let sums = sums(pairs, right);
            for (row, (found, of_magnitudes)) in (place * SIDE_ROWS..rows).zip(sums) {
                let at = row * cols + from;
                values[at..at + width].copy_from_slice(&found[..width]);
                magnitudes[at..at + width].copy_from_slice(&of_magnitudes[..width]);
            }
        }
    }
}

/// The sums of two rows and four columns, and those of their terms' magnitudes. The terms of each come in order.
fn sums(left: &[[f64; SIDE_ROWS]], right: &[f64]) -> [([f64; SIDE_COLS], [f64; SIDE_COLS]); SIDE_ROWS] {
    let mut sums = [([0.0; SIDE_COLS], [0.0; SIDE_COLS]); SIDE_ROWS];
    for (factors, others) in left.iter().zip(right.as_chunks::<SIDE_COLS>().0) {
        for ((values, magnitudes), factor) in sums.iter_mut().zip(factors) {
            for ((value, magnitude), other) in values.iter_mut().zip(magnitudes).zip(others) {
                let term = factor * other;
                *value += term;
                *magnitude += term.abs();
            }
        }
    }
    sums
}
