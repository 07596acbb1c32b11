//! `y = x r weight` by rows, with `r = 1 / sqrt(mean(x²) + eps)` saved as `inv_rms`; backward:
//! `dx = r (weight dy) - x r³ / cols Σ(weight dy x)` over the row and `dweight = Σ dy x r` over the rows.
//!
//! Forward, a row with an infinity has `r` = 0: its finite elements give 0, the infinity gives inf · 0 = NaN. A row with a
//! NaN is all NaN. Backward is not tried on either: what it gives there depends on the order of the operations.

#[cfg(test)]
mod tests;

use std::ops::Range;

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::{odd_rows, shape, sum};
use crate::distribution::Distribution;
use crate::error_model::{Rounding, U, rounded};
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::parallel;
use crate::tensor::{Draw, Expected, Scales, Tensors, Values, round_to};

const BACKWARD: &str = "rmsnorm_backward";

/// Keeps the root away from zero.
const EPS: f32 = 1e-5;

/// Rows divided by their root mean square, times a weight for each column.
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm;

impl Kernel for RmsNorm {
    fn op(&self) -> &str {
        "rmsnorm"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("rmsnorm")
    }

    fn entries(&self) -> Vec<String> {
        super::entries("rmsnorm")
    }

    fn buffers(&self, entry: &str, case: &Case) -> Vec<Buffer> {
        let (rows, cols) = (case.size("rows"), case.size("cols"));
        let x = Buffer::input("x", Role::Activation, case.dtype, rows, cols);
        let weight = Buffer::input("weight", Role::Weight, case.dtype, 1, cols);
        // In f32 whatever the element type: what is saved for backward should cost it no precision.
        if entry == BACKWARD {
            vec![
                x,
                weight,
                Buffer::input("inv_rms", Role::Saved, DType::F32, rows, 1),
                Buffer::input("dy", Role::Gradient, case.dtype, rows, cols),
                Buffer::output("dx", Role::Output, case.dtype, rows, cols),
                Buffer::output("dweight", Role::Output, case.dtype, 1, cols),
            ]
        } else {
            vec![
                x,
                weight,
                Buffer::output("y", Role::Output, case.dtype, rows, cols),
                Buffer::output("inv_rms", Role::Saved, DType::F32, rows, 1),
            ]
        }
    }

    fn scalars(&self, entry: &str, _case: &Case) -> Vec<(&'static str, f32)> {
        // Backward finds eps in inv_rms.
        if entry == BACKWARD { Vec::new() } else { vec![("eps", EPS)] }
    }

    fn distributions(&self) -> Vec<Distribution> {
        [&Distribution::FINITE[..], &[Distribution::Infinite, Distribution::NotANumber]].concat()
    }

    fn distributions_of(&self, entry: &str) -> Vec<Distribution> {
        if entry == BACKWARD { Distribution::FINITE.to_vec() } else { self.distributions() }
    }

    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            let values = match buffer.name {
                // A weight is near 1 whatever comes in.
                "weight" => {
                    Values::Float((0..buffer.len).map(|_| round_to(1.0 + 0.5 * draw.unit(), buffer.dtype)).collect())
                }
                // What forward would have saved; x is drawn before it.
                "inv_rms" => {
                    Values::Float(rows(tensors.floats("x"), case).map(|row| inverse_rms(row) as f32).collect())
                }
                name => draw.scaled(buffer, distribution, scales(entry, name, buffer.dtype)),
            };
            tensors.insert(buffer.name, values);
        }
        tensors
    }

    fn expect(&self, entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        if entry == BACKWARD { backward(case, inputs, rounding) } else { forward(case, inputs, rounding) }
    }

    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let buffers = self.buffers(entry, case);
        let bytes = |written| {
            buffers.iter().filter(|buffer| buffer.written == written).map(|buffer| buffer.bytes() as f64).sum()
        };
        // Forward: square, sum, two products. Backward: three for the sum over weight dy x, four for dx (weight dy again,
        // as the row is passed over twice) and three for dweight.
        let per_element = if entry == BACKWARD { 10.0 } else { 4.0 };
        let flops = per_element * case.size("rows") as f64 * case.size("cols") as f64;
        Cost { bytes_read: bytes(false), bytes_written: bytes(true), flops }
    }

    fn symmetry(&self, entry: &str, case: &Case) -> Symmetry {
        let (rows, cols) = (Axis::Turns("rows", case.size("rows")), Axis::Turns("cols", case.size("cols")));
        let matrices = if entry == BACKWARD { ["x", "dy", "dx"] } else { ["x", "y", "y"] };
        let mut tensors: Vec<_> = matrices.into_iter().map(|name| (name, vec![rows, cols])).collect();
        tensors.extend([("inv_rms", vec![rows]), ("weight", vec![cols]), ("dweight", vec![cols])]);
        let scaled = if entry == BACKWARD {
            vec![("weight", vec!["dx"]), ("dy", vec!["dx", "dweight"])]
        } else {
            vec![("weight", vec!["y"])]
        };
        Symmetry { tensors, scaled }
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        odd_rows(&[(257, 1)])
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

/// Large and tiny such that the plain formula in f32 neither overflows nor loses digits to underflow.
fn scales(entry: &str, name: &str, dtype: DType) -> Scales {
    // Forward sums x²; backward needs r³ / cols, and r is the reciprocal of x.
    let large = match dtype {
        DType::F16 => 8e3,
        _ if entry == BACKWARD => 1e9,
        _ => 1e15,
    };
    match (name, dtype) {
        // dweight sums dy over the rows and has to fit an f16.
        ("dy", DType::F16) => Scales { large: 10.0, tiny: 3e-3, outlier: 30.0 },
        // Tiny: x² is about eps, so that both count. Denormal numbers show what happens far below.
        _ => Scales { large, tiny: 3e-3, outlier: 1e3 },
    }
}

/// The rows of a matrix, empty ones too.
fn rows<'a>(values: &'a [f32], case: &Case) -> impl Iterator<Item = &'a [f32]> {
    let cols = case.size("cols");
    (0..case.size("rows")).map(move |row| &values[row * cols..(row + 1) * cols])
}

/// `1 / sqrt(mean(x²) + eps)`.
fn inverse_rms(row: &[f32]) -> f64 {
    let squares = sum(row.iter().map(|value| f64::from(*value).powi(2)));
    1.0 / (squares / row.len() as f64 + f64::from(EPS)).sqrt()
}

fn forward(case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
    let cols = case.size("cols");
    let (x, weight) = (inputs.floats("x"), inputs.floats("weight"));
    // The root halves the relative error of the sum.
    let relative = U * (rounding.growth(cols) / 2.0 + 8.0);
    let (mut y, mut inv_rms) = (nothing("y", x.len()), nothing("inv_rms", case.size("rows")));
    let each = rows_of_part(cols);
    let parts = chunks_of(&mut y, each * cols, case).zip(chunks_of(&mut inv_rms, each, case)).enumerate();
    parallel::each(parts, |(part, (y, inv_rms))| {
        for (row, (r, r_bound)) in inv_rms.0.iter_mut().zip(inv_rms.1).enumerate() {
            let of_row = row * cols..(row + 1) * cols;
            let x = &x[part * each * cols..][of_row.clone()];
            *r = inverse_rms(x);
            *r_bound = rounded(*r, *r * relative, DType::F32);
            let out = y.0[of_row.clone()].iter_mut().zip(&mut y.1[of_row]);
            for ((x, weight), (value, bound)) in x.iter().zip(weight).zip(out) {
                let exact = f64::from(*x) * *r * f64::from(*weight);
                *value = exact;
                // x · weight may be denormal before r lifts it.
                *bound = rounded(exact, exact.abs() * relative + *r * DType::F32.smallest(), case.dtype);
            }
        }
    });
    vec![y, inv_rms]
}

/// An output of `len` elements of which nothing is known yet.
fn nothing(name: &'static str, len: usize) -> Expected {
    Expected { name, values: vec![0.0; len], bounds: vec![0.0; len] }
}

/// Rows that one processor takes at a time.
fn rows_of_part(cols: usize) -> usize {
    (parallel::PART / cols.max(1)).max(1)
}

/// The parts of an output, values and bounds, `len` elements each: as many as there are parts of rows, and none that is empty
/// because a row has no column.
fn chunks_of<'a>(
    expected: &'a mut Expected,
    len: usize,
    case: &Case,
) -> impl ExactSizeIterator<Item = (&'a mut [f64], &'a mut [f64])> + use<'a> {
    let parts = case.size("rows").div_ceil(rows_of_part(case.size("cols")));
    let (mut values, mut bounds) = (&mut expected.values[..], &mut expected.bounds[..]);
    (0..parts).map(move |_| {
        let at = len.min(values.len());
        let (value, rest) = std::mem::take(&mut values).split_at_mut(at);
        values = rest;
        let (bound, rest) = std::mem::take(&mut bounds).split_at_mut(at);
        bounds = rest;
        (value, bound)
    })
}

fn backward(case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
    let cols = case.size("cols");
    let mut dx = nothing("dx", case.size("rows") * cols);
    let mut dweight = nothing("dweight", cols);
    let each = rows_of_part(cols);
    let mut shares: Vec<Vec<Sum>> = vec![Vec::new(); case.size("rows").div_ceil(each)];
    let parts = chunks_of(&mut dx, each * cols, case).zip(&mut shares).enumerate();
    parallel::each(parts, |(part, (dx, share))| {
        let rows = each.min(case.size("rows") - part * each);
        *share = backward_of(part * each..part * each + rows, case, inputs, rounding, dx);
    });
    let mut sums = vec![Sum::default(); cols];
    for share in shares {
        sums.iter_mut().zip(share).for_each(|(sum, part)| sum.join(&part));
    }
    for (sum, (value, bound)) in sums.iter().zip(dweight.values.iter_mut().zip(&mut dweight.bounds)) {
        let arithmetic = U * (rounding.growth(case.size("rows")) + 8.0) * sum.magnitude + sum.underflow;
        *value = sum.value;
        *bound = rounded(sum.value, arithmetic, case.dtype);
    }
    vec![dx, dweight]
}

/// Some rows of dx, values and bounds, and their share of dweight.
fn backward_of(
    rows: Range<usize>,
    case: &Case,
    inputs: &Tensors,
    rounding: Rounding,
    (values, bounds): (&mut [f64], &mut [f64]),
) -> Vec<Sum> {
    let cols = case.size("cols");
    let weight = inputs.floats("weight");
    let mut sums = vec![Sum::default(); cols];
    let smallest = DType::F32.smallest();
    let growth = rounding.growth(cols);
    for (index, row) in rows.enumerate() {
        let (x, dy) = (&inputs.floats("x")[row * cols..][..cols], &inputs.floats("dy")[row * cols..][..cols]);
        let r = f64::from(inputs.floats("inv_rms")[row]);
        let scale = r.powi(3) / cols as f64;
        let mut dot = Sum::default();
        let mut magnitude_of_x = 0.0;
        for ((x, dy), weight) in x.iter().zip(dy).zip(weight) {
            dot.add(f64::from(*weight) * f64::from(*dy) * f64::from(*x), 0.0);
            magnitude_of_x += f64::from(x.abs());
        }
        magnitude_of_x /= cols as f64;
        let out = values[index * cols..][..cols].iter_mut().zip(&mut bounds[index * cols..][..cols]);
        for ((((x, dy), weight), sum), (value, bound)) in x.iter().zip(dy).zip(weight).zip(&mut sums).zip(out) {
            let (x, dy) = (f64::from(*x), f64::from(*dy));
            let direct = r * f64::from(*weight) * dy;
            let through_rms = x.abs() * scale * dot.magnitude;
            // A product that underflows before a large factor lifts it costs the smallest number times that factor,
            // but never more than the term itself.
            let lifted = smallest * (x.abs() + r.powi(3) * (1.0 + x.abs()) * (1.0 + magnitude_of_x));
            let arithmetic =
                U * (8.0 * direct.abs() + (growth + 12.0) * through_rms) + smallest * r + lifted.min(through_rms);
            *value = direct - x * scale * dot.value;
            *bound = rounded(*value, arithmetic, case.dtype);
            sum.add(dy * x * r, smallest * (1.0 + r + x.abs() + dy.abs()));
        }
    }
    sums
}

/// A sum, the sum of its terms' magnitudes, and what underflow may cost.
#[derive(Debug, Clone, Default)]
struct Sum {
    value: f64,
    magnitude: f64,
    underflow: f64,
}

impl Sum {
    /// `underflow` never costs more than the term itself.
    fn add(&mut self, term: f64, underflow: f64) {
        self.value += term;
        self.magnitude += term.abs();
        self.underflow += underflow.min(term.abs());
    }

    fn join(&mut self, other: &Self) {
        self.value += other.value;
        self.magnitude += other.magnitude;
        self.underflow += other.underflow;
    }
}
