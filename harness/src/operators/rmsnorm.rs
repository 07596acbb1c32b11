//! `y = x r weight` by rows, with `r = 1 / sqrt(mean(x²) + eps)` saved as `inv_rms`; backward:
//! `dx = r (weight dy) - x r³ / cols Σ(weight dy x)` over the row and `dweight = Σ dy x r` over the rows.
//!
//! Forward, a row with an infinity has `r` = 0: its finite elements give 0, the infinity gives inf · 0 = NaN. A row with a
//! NaN is all NaN. Backward is not tried on either: what it gives there depends on the order of the operations.

#[cfg(test)]
mod tests;

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::{odd_rows, shape};
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

    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let special = matches!(distribution, Distribution::Infinite | Distribution::NotANumber);
        let distribution = if special && entry == BACKWARD { Distribution::Uniform } else { distribution };
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
    let squares: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
    1.0 / (squares / row.len() as f64 + f64::from(EPS)).sqrt()
}

fn forward(case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
    let (x, weight) = (inputs.floats("x"), inputs.floats("weight"));
    // The root halves the relative error of the sum.
    let relative = U * (rounding.growth(case.size("cols")) / 2.0 + 8.0);
    let parts = by_parts(case, |from, part| {
        let len = part.size("rows") * part.size("cols");
        let (mut y, mut inv_rms) = (Expectation::new("y", case.dtype), Expectation::new("inv_rms", DType::F32));
        for row in rows(&x[from * case.size("cols")..][..len], part) {
            let r = inverse_rms(row);
            inv_rms.push(r, r * relative);
            for (x, weight) in row.iter().zip(weight) {
                let exact = f64::from(*x) * r * f64::from(*weight);
                // x · weight may be denormal before r lifts it.
                y.push(exact, exact.abs() * relative + r * DType::F32.smallest());
            }
        }
        (y, inv_rms)
    });
    let (mut y, mut inv_rms) = (Expectation::new("y", case.dtype), Expectation::new("inv_rms", DType::F32));
    for part in parts {
        y.append(part.0);
        inv_rms.append(part.1);
    }
    vec![y.expected, inv_rms.expected]
}

/// Does `work` on parts of the rows, by all processors: it gets the first row of a part, and the part as a case of its own.
fn by_parts<T: Send>(case: &Case, work: impl Fn(usize, &Case) -> T + Sync) -> Vec<T> {
    let (total, cols) = (case.size("rows"), case.size("cols"));
    let each = (parallel::PART / cols.max(1)).max(1);
    let mut results: Vec<Option<T>> = Vec::new();
    results.resize_with(total.div_ceil(each), || None);
    parallel::each(results.iter_mut().enumerate(), |(part, result)| {
        let from = part * each;
        let sizes = [("rows", each.min(total - from)), ("cols", cols)];
        *result = Some(work(from, &Case { shape: shape(&sizes), dtype: case.dtype }));
    });
    results.into_iter().flatten().collect()
}

fn backward(case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
    let (mut dx, mut dweight) = (Expectation::new("dx", case.dtype), Expectation::new("dweight", case.dtype));
    let mut sums = vec![Sum::default(); case.size("cols")];
    for (part, parts_sums) in by_parts(case, |from, part| backward_of(from, part, inputs, rounding)) {
        dx.append(part);
        sums.iter_mut().zip(parts_sums).for_each(|(sum, part)| sum.join(&part));
    }
    for sum in sums {
        dweight.push(sum.value, U * (rounding.growth(case.size("rows")) + 8.0) * sum.magnitude + sum.underflow);
    }
    vec![dx.expected, dweight.expected]
}

/// Some rows of dx from row `from` on, and their share of dweight.
fn backward_of(from: usize, case: &Case, inputs: &Tensors, rounding: Rounding) -> (Expectation, Vec<Sum>) {
    let cols = case.size("cols");
    let len = case.size("rows") * cols;
    let weight = inputs.floats("weight");
    let (x, dy) = (&inputs.floats("x")[from * cols..][..len], &inputs.floats("dy")[from * cols..][..len]);
    let mut dx = Expectation::new("dx", case.dtype);
    let mut sums = vec![Sum::default(); cols];
    let smallest = DType::F32.smallest();
    for ((x, dy), r) in rows(x, case).zip(rows(dy, case)).zip(&inputs.floats("inv_rms")[from..]) {
        let r = f64::from(*r);
        let scale = r.powi(3) / cols as f64;
        let mut dot = Sum::default();
        let mut magnitude_of_x = 0.0;
        for ((x, dy), weight) in x.iter().zip(dy).zip(weight) {
            dot.add(f64::from(*weight) * f64::from(*dy) * f64::from(*x), 0.0);
            magnitude_of_x += f64::from(x.abs()) / cols as f64;
        }
        for (((x, dy), weight), sum) in x.iter().zip(dy).zip(weight).zip(&mut sums) {
            let (x, dy) = (f64::from(*x), f64::from(*dy));
            let direct = r * f64::from(*weight) * dy;
            let through_rms = x.abs() * scale * dot.magnitude;
            // A product that underflows before a large factor lifts it costs the smallest number times that factor,
            // but never more than the term itself.
            let lifted = smallest * (x.abs() + r.powi(3) * (1.0 + x.abs()) * (1.0 + magnitude_of_x));
            let arithmetic = U * (8.0 * direct.abs() + (rounding.growth(cols) + 12.0) * through_rms)
                + smallest * r
                + lifted.min(through_rms);
            dx.push(direct - x * scale * dot.value, arithmetic);
            sum.add(dy * x * r, smallest * (1.0 + r + x.abs() + dy.abs()));
        }
    }
    (dx, sums)
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

/// The expected values of an output, as they are found.
struct Expectation {
    expected: Expected,
    dtype: DType,
}

impl Expectation {
    fn new(name: &'static str, dtype: DType) -> Self {
        Self { expected: Expected { name, values: Vec::new(), bounds: Vec::new() }, dtype }
    }

    /// An element and the error of the arithmetic behind it.
    fn push(&mut self, value: f64, arithmetic: f64) {
        self.expected.values.push(value);
        self.expected.bounds.push(rounded(value, arithmetic, self.dtype));
    }

    /// The elements after these.
    fn append(&mut self, mut other: Self) {
        self.expected.values.append(&mut other.expected.values);
        self.expected.bounds.append(&mut other.expected.bounds);
    }
}
