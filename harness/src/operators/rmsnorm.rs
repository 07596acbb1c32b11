//! `y = x r weight` by rows, with `r = 1 / sqrt(mean(x²) + eps)` saved as `inv_rms`; backward:
//! `dx = r (weight dy) - x r³ / cols Σ(weight dy x)` over the row and `dweight = Σ dy x r` over the rows.
//!
//! Forward, a row with an infinity has `r` = 0: its finite elements give 0, the infinity gives inf · 0 = NaN. A row with a
//! NaN is all NaN. Backward is not tried on either: what it gives there depends on the order of the operations.

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::shape;
use crate::distribution::Distribution;
use crate::error_model::{Rounding, U, rounded};
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
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
        [
            (1, 1),
            (1, 2),
            (3, 7),
            (2, 15),
            (5, 17),
            (1, 31),
            (7, 33),
            (2, 63),
            (3, 65),
            (2, 127),
            (3, 129),
            (1, 257),
            (2, 1023),
            (2, 1025),
            (1, 4099),
            (131, 13),
            (257, 1),
            (0, 5),
        ]
        .map(|(rows, cols)| shape(&[("rows", rows), ("cols", cols)]))
        .to_vec()
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        shape(&[("rows", draw.between(1, 40)), ("cols", draw.between(1, 3000))])
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
    let (mut y, mut inv_rms) = (Expectation::new("y", case.dtype), Expectation::new("inv_rms", DType::F32));
    // The root halves the relative error of the sum.
    let relative = U * (rounding.growth(case.size("cols")) / 2.0 + 8.0);
    for row in rows(x, case) {
        let r = inverse_rms(row);
        inv_rms.push(r, r * relative);
        for (x, weight) in row.iter().zip(weight) {
            let exact = f64::from(*x) * r * f64::from(*weight);
            // x · weight may be denormal before r lifts it.
            y.push(exact, exact.abs() * relative + r * DType::F32.smallest());
        }
    }
    vec![y.expected, inv_rms.expected]
}

fn backward(case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
    let cols = case.size("cols");
    let (x, weight, inv_rms, dy) =
        (inputs.floats("x"), inputs.floats("weight"), inputs.floats("inv_rms"), inputs.floats("dy"));
    let mut dx = Expectation::new("dx", case.dtype);
    let mut sums = vec![Sum::default(); cols];
    let smallest = DType::F32.smallest();
    for ((x, dy), r) in rows(x, case).zip(rows(dy, case)).zip(inv_rms) {
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
    let mut dweight = Expectation::new("dweight", case.dtype);
    for sum in sums {
        dweight.push(sum.value, U * (rounding.growth(case.size("rows")) + 8.0) * sum.magnitude + sum.underflow);
    }
    vec![dx.expected, dweight.expected]
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(rows: usize, cols: usize) -> Case {
        Case { shape: shape(&[("rows", rows), ("cols", cols)]), dtype: DType::F32 }
    }

    fn tensors(values: &[(&'static str, &[f32])]) -> Tensors {
        let mut tensors = Tensors::default();
        for (name, values) in values {
            tensors.insert(name, Values::Float(values.to_vec()));
        }
        tensors
    }

    fn assert_within(expected: &Expected, got: &[f32], what: &str) {
        assert_eq!((expected.values.len(), expected.bounds.len()), (got.len(), got.len()), "{} {what}", expected.name);
        for ((value, bound), got) in expected.values.iter().zip(&expected.bounds).zip(got) {
            let got = f64::from(*got);
            let right = (value.is_nan() && got.is_nan()) || (value - got).abs() <= *bound;
            assert!(right, "{} {what}: {value} {got} {bound}", expected.name);
        }
    }

    /// Honest forward kernels in f32 with the sum in order; the product is formed in each of the possible orders.
    fn plain_forward(case: &Case, inputs: &Tensors, order: usize) -> [Vec<f32>; 2] {
        let (mut y, mut inv_rms) = (Vec::new(), Vec::new());
        for row in rows(inputs.floats("x"), case) {
            let squares = row.iter().fold(0.0f32, |sum, x| sum + x * x);
            let r = 1.0 / (squares / row.len() as f32 + EPS).sqrt();
            inv_rms.push(r);
            y.extend(row.iter().zip(inputs.floats("weight")).map(|(x, weight)| match order {
                0 => x * r * weight,
                1 => x * weight * r,
                _ => r * weight * x,
            }));
        }
        [y, inv_rms]
    }

    /// Honest backward kernels in f32, with sums in order.
    fn plain_backward(case: &Case, inputs: &Tensors, order: usize) -> [Vec<f32>; 2] {
        let cols = case.size("cols");
        let weight = inputs.floats("weight");
        let (mut dx, mut dweight) = (Vec::new(), vec![0.0f32; cols]);
        let inputs_of_rows =
            rows(inputs.floats("x"), case).zip(rows(inputs.floats("dy"), case)).zip(inputs.floats("inv_rms"));
        for ((x, dy), r) in inputs_of_rows {
            let dot = (0..cols).fold(0.0f32, |sum, at| match order {
                0 => sum + weight[at] * dy[at] * x[at],
                _ => sum + dy[at] * x[at] * weight[at],
            });
            for at in 0..cols {
                dx.push(match order {
                    0 => r * (weight[at] * dy[at]) - x[at] * (r * r * r / cols as f32 * dot),
                    1 => r * (weight[at] * dy[at] - x[at] * r * (r * dot / cols as f32)),
                    _ => r * weight[at] * dy[at] - x[at] * dot * (r * r * r) / cols as f32,
                });
                dweight[at] += match order {
                    0 => dy[at] * (x[at] * r),
                    1 => dy[at] * x[at] * r,
                    _ => dy[at] * r * x[at],
                };
            }
        }
        [dx, dweight]
    }

    #[test]
    fn known_values() {
        // mean(x²) = 25 / 2 of the first row; the second is nothing but eps.
        let inputs = tensors(&[("x", &[3.0, 4.0, 0.0, 0.0]), ("weight", &[1.0, 2.0])]);
        let forward = RmsNorm.expect("rmsnorm", &case(2, 2), &inputs, Rounding::Random);
        let r = 1.0 / 12.5001f64.sqrt();
        let known = [3.0 * r, 8.0 * r, 0.0, 0.0];
        assert_eq!((forward[0].name, forward[1].name), ("y", "inv_rms"));
        assert!(forward[0].values.iter().zip(known).all(|(value, known)| (value - known).abs() < 1e-4));
        assert!((forward[1].values[0] - r).abs() < 1e-4);
        assert!((forward[1].values[1] - 1e5f64.sqrt()).abs() < 1e-4);
        assert!(forward[0].bounds[..2].iter().all(|bound| *bound > 0.0 && *bound < 1e-5));

        // r = 1/2: dx = 1/2 (1, 4) - (3, 4) / 8 / 2 · (1·1·3 + 2·2·4), dweight = (1·3, 2·4) / 2.
        let inputs = tensors(&[("x", &[3.0, 4.0]), ("weight", &[1.0, 2.0]), ("inv_rms", &[0.5]), ("dy", &[1.0, 2.0])]);
        let backward = RmsNorm.expect(BACKWARD, &case(1, 2), &inputs, Rounding::Random);
        assert_eq!((backward[0].name, backward[1].name), ("dx", "dweight"));
        assert_eq!(backward[0].values, [0.5 - 3.0 * 19.0 / 16.0, 2.0 - 4.0 * 19.0 / 16.0]);
        assert_eq!(backward[1].values, [1.5, 4.0]);
    }

    #[test]
    fn special_values_follow_the_contract() {
        let inf = f32::INFINITY;
        let x = [1.0, -inf, 2.0, f32::NAN, inf, inf];
        let inputs = tensors(&[("x", &x), ("weight", &[1.0, 2.0])]);
        let forward = RmsNorm.expect("rmsnorm", &case(3, 2), &inputs, Rounding::Random);
        assert_eq!(forward[0].values[0], 0.0);
        assert!(forward[0].bounds[0] < 1e-40);
        assert!(forward[0].values[1..].iter().all(|value| value.is_nan()));
        assert_eq!((forward[1].values[0], forward[1].values[2]), (0.0, 0.0));
        assert!(forward[1].values[1].is_nan());
    }

    #[test]
    fn no_rows_leave_a_weight_gradient_of_zero() {
        let inputs = RmsNorm.inputs(BACKWARD, &case(0, 5), Distribution::Normal, &mut Draw::new(1, "none"));
        let backward = RmsNorm.expect(BACKWARD, &case(0, 5), &inputs, Rounding::Random);
        assert!(backward[0].values.is_empty());
        assert_eq!(backward[1].values, [0.0; 5]);
    }

    #[test]
    fn backward_is_the_gradient_of_forward() {
        let case = case(3, 7);
        let inputs = RmsNorm.inputs(BACKWARD, &case, Distribution::Normal, &mut Draw::new(7, "gradient"));
        let wide = |name| inputs.floats(name).iter().copied().map(f64::from).collect::<Vec<_>>();
        let loss = |x: &[f64], weight: &[f64]| {
            let row = |(x, dy): (&[f64], &[f64])| {
                let r = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / 7.0 + f64::from(EPS)).sqrt();
                x.iter().zip(dy).zip(weight).map(|((x, dy), weight)| dy * x * r * weight).sum::<f64>()
            };
            x.chunks(7).zip(wide("dy").chunks(7)).map(row).sum::<f64>()
        };
        let step = 1e-5;
        let moved = |name: &str, at: usize, step: f64| {
            let (mut x, mut weight) = (wide("x"), wide("weight"));
            if name == "x" {
                x[at] += step
            } else {
                weight[at] += step
            }
            loss(&x, &weight)
        };
        let backward = RmsNorm.expect(BACKWARD, &case, &inputs, Rounding::Random);
        for (name, gradient) in [("x", &backward[0]), ("weight", &backward[1])] {
            for (at, exact) in gradient.values.iter().enumerate() {
                let difference = (moved(name, at, step) - moved(name, at, -step)) / (2.0 * step);
                // inv_rms is rounded to f32, which the numeric difference knows nothing of.
                assert!((difference - exact).abs() < 1e-6, "d{name}[{at}]: {exact} {difference}");
            }
        }
    }

    #[test]
    fn honest_kernels_are_within_the_bounds() {
        for (seed, shape) in RmsNorm.odd_shapes().into_iter().enumerate() {
            let case = Case { shape, dtype: DType::F32 };
            for distribution in RmsNorm.distributions() {
                for (entry, plain) in
                    [("rmsnorm", plain_forward as fn(&Case, &Tensors, usize) -> _), (BACKWARD, plain_backward)]
                {
                    let inputs = RmsNorm.inputs(entry, &case, distribution, &mut Draw::new(seed as u64, "honest"));
                    let expected = RmsNorm.expect(entry, &case, &inputs, distribution.rounding());
                    for order in 0..3 {
                        for (expected, got) in expected.iter().zip(plain(&case, &inputs, order)) {
                            assert_within(
                                expected,
                                &got,
                                &format!("{} {distribution:?} order {order}", case.shape.name),
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn flushing_denormals_is_not_within_the_bounds() {
        let case = case(2, 15);
        for (entry, at, input) in [("rmsnorm", 0, "x"), (BACKWARD, 0, "dy")] {
            let inputs = RmsNorm.inputs(entry, &case, Distribution::Denormal, &mut Draw::new(1, "flush"));
            assert!(inputs.floats(input).iter().all(|value| value.is_subnormal()));
            let expected = &RmsNorm.expect(entry, &case, &inputs, Rounding::Random)[at];
            assert!(expected.values.iter().zip(&expected.bounds).all(|(value, bound)| value.abs() > *bound), "{entry}");
        }
    }

    #[test]
    fn backward_gets_what_forward_saves() {
        let case = case(9, 33);
        for distribution in RmsNorm.distributions() {
            let inputs = RmsNorm.inputs(BACKWARD, &case, distribution, &mut Draw::new(4, "saved"));
            let saved = &RmsNorm.expect("rmsnorm", &case, &inputs, distribution.rounding())[1];
            assert_within(saved, inputs.floats("inv_rms"), distribution.name());
            for name in ["x", "weight", "inv_rms", "dy"] {
                assert!(inputs.floats(name).iter().all(|value| value.is_finite()), "{name} {distribution:?}");
            }
            assert!(inputs.floats("weight").iter().all(|weight| (0.5..=1.5).contains(weight)));
            // The plain formula must not lose r³ to underflow.
            assert!(inputs.floats("inv_rms").iter().all(|r| (r * r * r / 4099.0).is_normal()), "{distribution:?}");
        }
    }

    #[test]
    fn finite_inputs_give_results_that_fit_the_element_type() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            for (rows, cols) in [(3, 4099), (1024, 33), (257, 1)] {
                let case = Case { dtype, ..case(rows, cols) };
                for distribution in Distribution::FINITE {
                    for entry in ["rmsnorm", BACKWARD] {
                        let inputs = RmsNorm.inputs(entry, &case, distribution, &mut Draw::new(5, "range"));
                        for expected in RmsNorm.expect(entry, &case, &inputs, Rounding::Random) {
                            let largest =
                                expected.values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
                            assert!(
                                largest < dtype.largest(),
                                "{} {dtype:?} {distribution:?} {largest}",
                                expected.name
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn eps_is_a_scalar_of_forward_only() {
        assert_eq!(RmsNorm.scalars("rmsnorm", &case(1, 1)), [("eps", 1e-5)]);
        assert!(RmsNorm.scalars(BACKWARD, &case(1, 1)).is_empty());
    }

    #[test]
    fn cost_counts_each_buffer_once() {
        let forward = RmsNorm.cost("rmsnorm", &case(2, 3));
        assert_eq!(forward, Cost { bytes_read: 4.0 * 9.0, bytes_written: 4.0 * 8.0, flops: 24.0 });
        let backward = RmsNorm.cost(BACKWARD, &case(2, 3));
        assert_eq!(backward, Cost { bytes_read: 4.0 * 17.0, bytes_written: 4.0 * 9.0, flops: 60.0 });
    }
}
