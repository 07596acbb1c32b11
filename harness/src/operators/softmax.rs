//! `y = exp(x - max) / sum(exp(x - max))` over each row.
//!
//! A row with a NaN or +inf, or of nothing but -inf, is all NaN; -inf elsewhere gives 0. Results below the smallest
//! normal number may be flushed to zero: nobody's probability of 1e-38 matters.

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::{largest, odd_rows, shape, sum};
use crate::distribution::Distribution;
use crate::error_model::{Rounding, U, rounded};
use crate::exponential;
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::parallel;
use crate::tensor::{Draw, Expected, Tensors};

/// Softmax over each row.
#[derive(Debug, Clone, Copy)]
pub struct Softmax;

impl Kernel for Softmax {
    fn op(&self) -> &str {
        "softmax"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("softmax")
    }

    fn buffers(&self, _entry: &str, case: &Case) -> Vec<Buffer> {
        let (rows, cols) = (case.size("rows"), case.size("cols"));
        vec![
            Buffer::input("x", Role::Activation, case.dtype, rows, cols),
            Buffer::output("y", Role::Output, case.dtype, rows, cols),
        ]
    }

    fn distributions(&self) -> Vec<Distribution> {
        let special = [Distribution::Masked, Distribution::Few, Distribution::Infinite, Distribution::NotANumber];
        [&Distribution::FINITE[..], &special].concat()
    }

    fn expect(&self, _entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        let cols = case.size("cols").max(1);
        let x = inputs.floats("x");
        let (mut values, mut bounds) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let part = (parallel::PART / cols).max(1) * cols;
        let parts = x.chunks(part).zip(values.chunks_mut(part).zip(bounds.chunks_mut(part)));
        parallel::each(parts, |(x, (values, bounds))| {
            let rows = x.chunks_exact(cols).zip(values.chunks_exact_mut(cols).zip(bounds.chunks_exact_mut(cols)));
            rows.for_each(|(row, (values, bounds))| expect_row(row, case.dtype, rounding, values, bounds));
        });
        vec![Expected { name: "y", values, bounds }]
    }

    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let bytes: Vec<f64> = self.buffers(entry, case).iter().map(|buffer| buffer.bytes() as f64).collect();
        // Maximum, subtraction, exponential, sum, division.
        let flops = 5.0 * (case.size("rows") * case.size("cols")) as f64;
        Cost { bytes_read: bytes[0], bytes_written: bytes[1], flops }
    }

    fn symmetry(&self, _entry: &str, case: &Case) -> Symmetry {
        let matrix = vec![Axis::Turns("rows", case.size("rows")), Axis::Turns("cols", case.size("cols"))];
        Symmetry { tensors: vec![("x", matrix.clone()), ("y", matrix)], scaled: Vec::new() }
    }

    fn neutral(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        odd_rows(&[])
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        shape(&[("rows", draw.between(1, 40)), ("cols", draw.between(1, 3000))])
    }

    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        super::near(shape, &["rows", "cols"], draw)
    }

    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        super::fewer(shape, "rows", fits)
    }
}

fn expect_row(row: &[f32], dtype: DType, rounding: Rounding, values: &mut [f64], bounds: &mut [f64]) {
    let largest = largest(row);
    // The exponentials stand where the results will.
    exponential::relative_to(largest, row, values);
    let total = sum(values.iter().copied());
    // Rounding x - max and scaling it for exp2 costs |x - max| units each; the sum inherits its terms' errors.
    let reach = |value: f32| {
        let reach = largest - f64::from(value);
        if reach.is_finite() { 3.0 * reach } else { 0.0 }
    };
    let inherited = sum(row.iter().zip(&*values).map(|(value, e)| e * reach(*value))) / total;
    let common = inherited + rounding.of_terms(values, total) + 10.0;
    for (x, (value, bound)) in row.iter().zip(values.iter_mut().zip(bounds)) {
        *value /= total;
        // What is below the smallest normal number of the arithmetic, which is f32's, may be flushed.
        let arithmetic = *value * U * (reach(*x) + common) + DType::F32.smallest_normal();
        *bound = rounded(*value, arithmetic, dtype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn expect(rows: usize, x: &[f32]) -> Expected {
        let case = Case { shape: shape(&[("rows", rows), ("cols", x.len() / rows)]), dtype: DType::F32 };
        let mut inputs = Tensors::default();
        inputs.insert("x", Values::Float(x.to_vec()));
        Softmax.expect("softmax", &case, &inputs, Rounding::Random).remove(0)
    }

    #[test]
    fn known_values() {
        let expected = expect(2, &[0.0, 0.0, 1.0f32.ln(), 3.0f32.ln()]);
        for (value, known) in expected.values.iter().zip([0.5, 0.5, 0.25, 0.75]) {
            assert!((value - known).abs() < 1e-7, "{value} {known}");
        }
        assert!(expected.bounds.iter().all(|bound| *bound > 0.0 && *bound < 1e-5));
    }

    #[test]
    fn what_a_mask_leaves_of_a_long_row_is_held_to_the_bound_of_a_short_one() {
        let mut long = vec![f32::NEG_INFINITY; 100_000];
        long[..3].copy_from_slice(&[0.5, -0.25, 0.0]);
        let (short, long) = (expect(1, &long[..3]), expect(1, &long));
        for index in 0..3 {
            assert!((short.bounds[index] - long.bounds[index]).abs() < 1e-12, "{index}");
        }
        // Many small terms may all be lost in a sum, and cost what they are.
        let mut long = vec![-17.0; 100_000];
        long[0] = 0.0;
        let expected = expect(1, &long);
        assert!(expected.bounds[0] > expected.values[0].powi(2) * 99_999.0 * (-17.0f64).exp());
    }

    #[test]
    fn special_values_follow_the_contract() {
        let inf = f32::INFINITY;
        let expected = expect(4, &[1.0, -inf, inf, 0.0, f32::NAN, 0.0, -inf, -inf]);
        assert_eq!(expected.values[..2], [1.0, 0.0]);
        assert!(expected.values[2..].iter().all(|value| value.is_nan()));
    }
}
