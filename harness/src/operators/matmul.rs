//! `c = a b`, row major; backward: `da = dc bᵀ`, `db = aᵀ dc`.
//!
//! An infinity or a NaN spreads as the plain triple loop spreads it: inf · 0 and inf - inf are NaN, in any order of
//! summation. A sum of nothing (`k = 0`) is zero.

use std::convert::Infallible;

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::shape;
use crate::distribution::Distribution;
use crate::error_model::Rounding;
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::product::{Multiply, Product, Unmultiplied};
use crate::tensor::{Draw, Expected, Scales, Tensors, Values, round_to};

const BACKWARD: &str = "matmul_backward";

/// Product of two matrices.
#[derive(Debug, Clone, Copy)]
pub struct Matmul;

impl Kernel for Matmul {
    fn op(&self) -> &str {
        "matmul"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("matmul")
    }

    fn entries(&self) -> Vec<String> {
        super::entries("matmul")
    }

    fn buffers(&self, entry: &str, case: &Case) -> Vec<Buffer> {
        let (m, n, k) = sizes(case);
        let a = Buffer::input("a", Role::Activation, case.dtype, m, k);
        let b = Buffer::input("b", Role::Weight, case.dtype, k, n);
        if entry == BACKWARD {
            vec![
                a,
                b,
                Buffer::input("dc", Role::Gradient, case.dtype, m, n),
                Buffer::output("da", Role::Output, case.dtype, m, k),
                Buffer::output("db", Role::Output, case.dtype, k, n),
            ]
        } else {
            vec![a, b, Buffer::output("c", Role::Output, case.dtype, m, n)]
        }
    }

    fn distributions(&self) -> Vec<Distribution> {
        distributions()
    }

    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let struck = if entry == BACKWARD { "dc" } else { "a" };
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            tensors.insert(buffer.name, operand(buffer, distribution, buffer.name == struck, draw));
        }
        tensors
    }

    fn expect(&self, entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        let host = |left: &[f32], right: &[f32], sizes| Ok::<_, Infallible>(Product::new(left, right, sizes));
        let Ok(expected) = expect_by(entry, case, inputs, rounding, host);
        expected
    }

    fn expect_by(
        &self,
        entry: &str,
        case: &Case,
        inputs: &Tensors,
        rounding: Rounding,
        multiply: Multiply<'_>,
    ) -> Option<Result<Vec<Expected>, Unmultiplied>> {
        Some(expect_by(entry, case, inputs, rounding, multiply))
    }

    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let buffers = self.buffers(entry, case);
        let bytes = |written| {
            buffers.iter().filter(|buffer| buffer.written == written).map(|buffer| buffer.bytes() as f64).sum()
        };
        let (m, n, k) = sizes(case);
        let products = if entry == BACKWARD { 2.0 } else { 1.0 };
        Cost {
            bytes_read: bytes(false),
            bytes_written: bytes(true),
            flops: products * 2.0 * m as f64 * n as f64 * k as f64,
        }
    }

    fn symmetry(&self, entry: &str, case: &Case) -> Symmetry {
        let (m, n, k) = sizes(case);
        let (m, n, k) = (Axis::Turns("m", m), Axis::Turns("n", n), Axis::Turns("k", k));
        let (of_a, of_b, of_c) = (vec![m, k], vec![k, n], vec![m, n]);
        let mut tensors = vec![("a", of_a.clone()), ("b", of_b.clone()), ("c", of_c.clone())];
        tensors.extend([("da", of_a), ("db", of_b), ("dc", of_c)]);
        let scaled = if entry == BACKWARD {
            vec![("a", vec!["db"]), ("b", vec!["da"]), ("dc", vec!["da", "db"])]
        } else {
            vec![("a", vec!["c"]), ("b", vec!["c"])]
        };
        Symmetry { tensors, scaled }
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        [
            (1, 1, 1),
            (1, 7, 3),
            (5, 1, 13),
            (3, 5, 1),
            (15, 17, 16),
            (17, 15, 31),
            (31, 33, 17),
            (33, 31, 65),
            (63, 65, 33),
            (65, 63, 64),
            (1, 129, 127),
            (127, 1, 129),
            (129, 127, 7),
            (13, 257, 11),
            (2, 3, 1025),
            (47, 53, 59),
            (2, 3, 0),
            (0, 5, 7),
        ]
        .map(|(m, n, k)| shape(&[("m", m), ("n", n), ("k", k)]))
        .to_vec()
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        shape(&[("m", draw.between(1, 80)), ("n", draw.between(1, 80)), ("k", draw.between(1, 80))])
    }

    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        super::near(shape, &["m", "n", "k"], draw)
    }

    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        super::fewer(shape, "m", fits)
    }
}

/// The reference, with its products by `multiply`.
fn expect_by<E>(
    entry: &str,
    case: &Case,
    inputs: &Tensors,
    rounding: Rounding,
    multiply: impl Fn(&[f32], &[f32], [usize; 3]) -> Result<Product, E>,
) -> Result<Vec<Expected>, E> {
    let (m, n, k) = sizes(case);
    let (a, b) = (inputs.floats("a"), inputs.floats("b"));
    if entry == BACKWARD {
        let dc = inputs.floats("dc");
        // Transposing first costs one pass and lets both products run along contiguous rows.
        let da = multiply(dc, &transposed(b, n), [m, n, k])?;
        let db = multiply(&transposed(a, k), dc, [k, m, n])?;
        Ok(vec![da.expected("da", n, case.dtype, rounding), db.expected("db", m, case.dtype, rounding)])
    } else {
        Ok(vec![multiply(a, b, [m, k, n])?.expected("c", k, case.dtype, rounding)])
    }
}

fn sizes(case: &Case) -> (usize, usize, usize) {
    (case.size("m"), case.size("n"), case.size("k"))
}

/// What sums of products are tried on.
pub(super) fn distributions() -> Vec<Distribution> {
    [&Distribution::FINITE[..], &[Distribution::Infinite, Distribution::NotANumber]].concat()
}

/// Draws a factor. Infinity and NaN strike one factor only: two would leave almost nothing but NaN.
pub(super) fn operand(buffer: &Buffer, distribution: Distribution, struck: bool, draw: &mut Draw) -> Values {
    let special = matches!(distribution, Distribution::Infinite | Distribution::NotANumber);
    let distribution = if special && !struck { Distribution::Uniform } else { distribution };
    let values = draw.scaled(buffer, distribution, scales(buffer.dtype));
    match values {
        // Constant factors add up in step, and the sum of some thousand such products would overflow an f16.
        Values::Float(values) if buffer.dtype == DType::F16 && distribution == Distribution::ConstantRows => {
            Values::Float(values.iter().map(|value| round_to(value / 16.0, DType::F16)).collect())
        }
        values => values,
    }
}

/// Large and tiny such that sums of thousands of products of two of them neither overflow nor vanish.
fn scales(dtype: DType) -> Scales {
    match dtype {
        // The product has to fit an f16 too.
        DType::F16 => Scales { large: 8.0, tiny: 1e-3, outlier: 30.0 },
        _ => Scales { large: 1e16, tiny: 1e-12, outlier: 1e3 },
    }
}

/// The transpose of a matrix with rows of `cols` elements.
fn transposed(matrix: &[f32], cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|col| matrix.iter().skip(col).step_by(cols)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel;
    use crate::product::{BLOCK_ROWS, SIDE_COLS};

    fn case(m: usize, n: usize, k: usize) -> Case {
        Case { shape: shape(&[("m", m), ("n", n), ("k", k)]), dtype: DType::F32 }
    }

    fn tensors(values: &[(&'static str, &[f32])]) -> Tensors {
        let mut tensors = Tensors::default();
        for (name, values) in values {
            tensors.insert(name, Values::Float(values.to_vec()));
        }
        tensors
    }

    /// An honest kernel: one f32 sum per element, in order.
    fn plain(left: &[f32], right: &[f32], [rows, inner, cols]: [usize; 3]) -> Vec<f32> {
        let mut out = vec![0.0f32; rows * cols];
        for row in 0..rows {
            for col in 0..cols {
                for at in 0..inner {
                    out[row * cols + col] += left[row * inner + at] * right[at * cols + col];
                }
            }
        }
        out
    }

    fn within(expected: &Expected, got: &[f32]) -> bool {
        assert_eq!(expected.values.len(), got.len());
        assert_eq!(expected.bounds.len(), got.len());
        expected.values.iter().zip(&expected.bounds).zip(got).all(|((value, bound), got)| {
            let got = f64::from(*got);
            (value.is_nan() && got.is_nan()) || *value == got || (value - got).abs() <= *bound
        })
    }

    #[test]
    fn known_values() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        let forward = Matmul.expect("matmul", &case(2, 2, 3), &tensors(&[("a", &a), ("b", &b)]), Rounding::Random);
        assert_eq!(forward.len(), 1);
        assert_eq!(forward[0].values, [58.0, 64.0, 139.0, 154.0]);
        assert!(forward[0].bounds.iter().all(|bound| *bound > 0.0 && *bound < 2e-4));

        let dc = [1.0, 0.0, 0.0, 2.0];
        let inputs = tensors(&[("a", &a), ("b", &b), ("dc", &dc)]);
        let backward = Matmul.expect(BACKWARD, &case(2, 2, 3), &inputs, Rounding::Random);
        assert_eq!((backward[0].name, backward[1].name), ("da", "db"));
        assert_eq!(backward[0].values, [7.0, 9.0, 11.0, 16.0, 20.0, 24.0]);
        assert_eq!(backward[1].values, [1.0, 8.0, 2.0, 10.0, 3.0, 12.0]);
    }

    #[test]
    fn a_sum_of_nothing_is_zero() {
        let forward = Matmul.expect("matmul", &case(2, 3, 0), &Tensors::default(), Rounding::Random);
        assert_eq!(forward[0].values, [0.0; 6]);
        assert!(forward[0].bounds.iter().all(|bound| *bound < 1e-40));

        let b = tensors(&[("b", &[1.0; 6])]);
        assert!(Matmul.expect("matmul", &case(0, 2, 3), &b, Rounding::Random)[0].values.is_empty());
        let backward = Matmul.expect(BACKWARD, &case(0, 2, 3), &b, Rounding::Random);
        assert!(backward[0].values.is_empty());
        assert_eq!(backward[1].values, [0.0; 6]);
    }

    #[test]
    fn special_values_spread_as_in_the_plain_loop() {
        let inf = f32::INFINITY;
        let a = [inf, 1.0, inf, -inf, 1.0, f32::NAN, 1.0, 1.0];
        let b = [1.0, 0.0, 1.0, 1.0];
        let inputs = tensors(&[("a", &a), ("b", &b)]);
        let c = Matmul.expect("matmul", &case(4, 2, 2), &inputs, Rounding::Random).remove(0);
        assert_eq!(c.values[0], f64::INFINITY);
        assert!(c.values[1..6].iter().all(|value| value.is_nan()), "{:?}", c.values);
        assert_eq!(c.values[6..], [2.0, 1.0]);
        assert!(within(&c, &plain(&a, &b, [4, 2, 2])));
        assert!(!within(&c, &[0.0; 8]));
    }

    #[test]
    fn backward_is_the_gradient_of_forward() {
        let case = case(3, 4, 5);
        let inputs = Matmul.inputs(BACKWARD, &case, Distribution::Normal, &mut Draw::new(7, "gradient"));
        let wide = |name| inputs.floats(name).iter().copied().map(f64::from).collect::<Vec<_>>();
        let loss = |a: &[f64], b: &[f64]| {
            let term =
                |i: usize, j: usize, l: usize| f64::from(inputs.floats("dc")[i * 4 + j]) * a[i * 5 + l] * b[l * 4 + j];
            (0..3)
                .flat_map(|i| (0..4).flat_map(move |j| (0..5).map(move |l| (i, j, l))))
                .map(|(i, j, l)| term(i, j, l))
                .sum::<f64>()
        };
        let backward = Matmul.expect(BACKWARD, &case, &inputs, Rounding::Random);
        let step = 1e-3;
        let numeric = |name: &str, at: usize, step: f64| {
            let (mut a, mut b) = (wide("a"), wide("b"));
            if name == "a" {
                a[at] += step
            } else {
                b[at] += step
            }
            loss(&a, &b)
        };
        for (name, gradient) in [("a", &backward[0]), ("b", &backward[1])] {
            for (at, exact) in gradient.values.iter().enumerate() {
                let difference = (numeric(name, at, step) - numeric(name, at, -step)) / (2.0 * step);
                assert!((difference - exact).abs() < 1e-9, "d{name}[{at}]: {exact} {difference}");
            }
        }
    }

    #[test]
    fn an_honest_kernel_is_within_the_bounds() {
        for (seed, shape) in Matmul.odd_shapes().into_iter().enumerate() {
            let case = Case { shape, dtype: DType::F32 };
            let (m, n, k) = sizes(&case);
            assert!(m * n * k < 300_000);
            for distribution in Matmul.distributions() {
                let inputs = Matmul.inputs(BACKWARD, &case, distribution, &mut Draw::new(seed as u64, "honest"));
                let (a, b, dc) = (inputs.floats("a"), inputs.floats("b"), inputs.floats("dc"));
                let got = [plain(dc, &transposed(b, n), [m, n, k]), plain(&transposed(a, k), dc, [k, m, n])];
                for (expected, got) in Matmul.expect(BACKWARD, &case, &inputs, distribution.rounding()).iter().zip(&got)
                {
                    assert!(within(expected, got), "{} {} {distribution:?}", expected.name, case.shape.name);
                }

                let inputs = Matmul.inputs("matmul", &case, distribution, &mut Draw::new(seed as u64, "honest"));
                let (a, b) = (inputs.floats("a"), inputs.floats("b"));
                let expected = Matmul.expect("matmul", &case, &inputs, distribution.rounding()).remove(0);
                assert!(within(&expected, &plain(a, b, [m, k, n])), "c {} {distribution:?}", case.shape.name);
            }
        }
    }

    #[test]
    fn lower_precision_inside_is_not_within_the_bounds() {
        let case = case(33, 31, 65);
        for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Large, Distribution::Tiny] {
            let inputs = Matmul.inputs("matmul", &case, distribution, &mut Draw::new(1, "precision"));
            // tf32 keeps ten bits of the fraction.
            let tf32 = |name| {
                inputs.floats(name).iter().map(|value| f32::from_bits(value.to_bits() & !0x1fff)).collect::<Vec<_>>()
            };
            let expected = Matmul.expect("matmul", &case, &inputs, distribution.rounding()).remove(0);
            assert!(!within(&expected, &plain(&tf32("a"), &tf32("b"), [33, 65, 31])), "{distribution:?}");
        }
    }

    #[test]
    fn a_large_product_in_parts_is_the_plain_loop() {
        let (m, n, k) = (3 * BLOCK_ROWS + 5, 64 * SIDE_COLS + 3, 300);
        assert!(BLOCK_ROWS * n * k > parallel::PART);
        let case = case(m, n, k);
        let inputs = Matmul.inputs("matmul", &case, Distribution::Normal, &mut Draw::new(4, "parts"));
        let (a, b) = (inputs.floats("a"), inputs.floats("b"));
        let c = Matmul.expect("matmul", &case, &inputs, Rounding::Random).remove(0);
        for (at, value) in c.values.iter().enumerate() {
            let (row, col) = (at / n, at % n);
            let term = |i: usize| f64::from(a[row * k + i]) * f64::from(b[i * n + col]);
            assert_eq!(*value, (0..k).fold(0.0, |sum, i| sum + term(i)), "{row} {col}");
        }
    }

    #[test]
    fn infinity_and_nan_strike_one_factor() {
        let case = case(40, 5, 5);
        let odd = |inputs: &Tensors, name| inputs.floats(name).iter().any(|value| !value.is_finite());
        for distribution in [Distribution::Infinite, Distribution::NotANumber] {
            let forward = Matmul.inputs("matmul", &case, distribution, &mut Draw::new(3, "special"));
            assert!(odd(&forward, "a") && !odd(&forward, "b"));
            let backward = Matmul.inputs(BACKWARD, &case, distribution, &mut Draw::new(3, "special"));
            assert!(odd(&backward, "dc") && !odd(&backward, "a") && !odd(&backward, "b"));
        }
    }

    #[test]
    fn finite_inputs_give_results_that_fit_the_element_type() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            for (m, n, k) in [(64, 64, 256), (8, 8, 4096), (8, 4096, 8), (131, 1, 1)] {
                let case = Case { dtype, ..case(m, n, k) };
                for distribution in Distribution::FINITE {
                    let inputs = Matmul.inputs(BACKWARD, &case, distribution, &mut Draw::new(5, "range"));
                    let forward = Matmul.expect("matmul", &case, &inputs, Rounding::Random);
                    for expected in Matmul.expect(BACKWARD, &case, &inputs, Rounding::Random).iter().chain(&forward) {
                        let largest = expected.values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
                        assert!(largest < dtype.largest(), "{} {dtype:?} {distribution:?} {largest}", expected.name);
                    }
                }
            }
        }
    }

    #[test]
    fn cost_counts_each_buffer_once() {
        let forward = Matmul.cost("matmul", &case(2, 3, 5));
        assert_eq!(forward, Cost { bytes_read: 4.0 * 25.0, bytes_written: 4.0 * 6.0, flops: 60.0 });
        let backward = Matmul.cost(BACKWARD, &case(2, 3, 5));
        assert_eq!(backward, Cost { bytes_read: 4.0 * 31.0, bytes_written: 4.0 * 25.0, flops: 120.0 });
    }
}
