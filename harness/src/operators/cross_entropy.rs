//! `loss[r] = log(sum(exp(x[r]))) - x[r][targets[r]]`: cross entropy between the softmax of a row of logits and the class that
//! `targets` names.
//!
//! A row with a NaN or +inf, or of nothing but -inf, gives NaN; a target whose logit is -inf in any other row gives +inf.
//! The loss is in f32 whatever the element type of the logits.

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::{LANES, largest, odd_rows, shape};
use crate::distribution::Distribution;
use crate::error_model::{Rounding, U, rounded};
use crate::exponential;
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::parallel;
use crate::tensor::{Draw, Expected, Tensors, Values};

/// Cross entropy of each row.
#[derive(Debug, Clone, Copy)]
pub struct CrossEntropy;

impl Kernel for CrossEntropy {
    fn op(&self) -> &str {
        "cross_entropy"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("cross_entropy")
    }

    fn buffers(&self, _entry: &str, case: &Case) -> Vec<Buffer> {
        let (rows, cols) = (case.size("rows"), case.size("cols"));
        vec![
            Buffer::input("x", Role::Activation, case.dtype, rows, cols),
            Buffer::input("targets", Role::Activation, DType::I32, 1, rows),
            Buffer::output("loss", Role::Output, DType::F32, rows, 1),
        ]
    }

    fn distributions(&self) -> Vec<Distribution> {
        let special = [Distribution::Masked, Distribution::Infinite, Distribution::NotANumber];
        [&Distribution::FINITE[..], &special].concat()
    }

    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let last = case.size("cols").saturating_sub(1);
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            let values = match buffer.dtype {
                DType::I32 => Values::Int((0..buffer.len).map(|_| class(draw.between(0, last))).collect()),
                _ => draw.buffer(buffer, distribution),
            };
            tensors.insert(buffer.name, values);
        }
        tensors
    }

    fn expect(&self, _entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        let (rows, cols) = (case.size("rows"), case.size("cols").max(1));
        let (x, targets) = (inputs.floats("x"), inputs.ints("targets"));
        let (mut values, mut bounds) = (vec![0.0; rows], vec![0.0; rows]);
        let part = (parallel::PART / cols).max(1);
        let results = values.chunks_mut(part).zip(bounds.chunks_mut(part));
        parallel::each(x.chunks(part * cols).zip(targets.chunks(part)).zip(results), |((x, targets), results)| {
            let results = results.0.iter_mut().zip(results.1);
            for ((row, target), (value, bound)) in x.chunks_exact(cols).zip(targets).zip(results) {
                (*value, *bound) = expect_row(row, *target as usize, rounding);
            }
        });
        vec![Expected { name: "loss", values, bounds }]
    }

    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let buffers = self.buffers(entry, case);
        let bytes = |written| {
            buffers.iter().filter(|buffer| buffer.written == written).map(|buffer| buffer.bytes() as f64).sum()
        };
        // Maximum, subtraction, exponential, sum.
        let flops = 4.0 * case.size("rows") as f64 * case.size("cols") as f64;
        Cost { bytes_read: bytes(false), bytes_written: bytes(true), flops }
    }

    /// Columns stay: targets count them.
    fn symmetry(&self, _entry: &str, case: &Case) -> Symmetry {
        let rows = Axis::Turns("rows", case.size("rows"));
        let x = vec![rows, Axis::Stays(case.size("cols"))];
        Symmetry { tensors: vec![("x", x), ("targets", vec![rows]), ("loss", vec![rows])], scaled: Vec::new() }
    }

    fn neutral(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        odd_rows(&[(257, 1)])
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        // A single row, which has nowhere to turn, is among the odd shapes.
        shape(&[("rows", draw.between(2, 40)), ("cols", draw.between(1, 3000))])
    }

    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        super::near(shape, &["rows", "cols"], draw)
    }

    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        super::fewer(shape, "rows", fits)
    }
}

fn class(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// Numbers whose exponentials are computed before they are added up.
const CHUNK: usize = 512;

/// The loss of a row, and how far an honest kernel may be from it.
fn expect_row(row: &[f32], target: usize, rounding: Rounding) -> (f64, f64) {
    let largest = largest(row);
    // Rounding x - max and scaling it for exp2 costs |x - max| units each; the sum inherits its terms' errors.
    let (mut sums, mut inherited, mut smallest) = ([0.0; LANES], [0.0; LANES], [1.0f64; LANES]);
    let mut exponentials = [0.0; CHUNK];
    for numbers in row.chunks(CHUNK) {
        exponential::relative_to(largest, numbers, &mut exponentials[..numbers.len()]);
        for (numbers, exponentials) in numbers.chunks(LANES).zip(exponentials.as_chunks::<LANES>().0) {
            for (lane, (number, exponential)) in numbers.iter().zip(exponentials).enumerate() {
                let reach = largest - f64::from(*number);
                sums[lane] += exponential;
                inherited[lane] += if *exponential > 0.0 { exponential * 3.0 * reach } else { 0.0 };
                smallest[lane] = if *exponential < smallest[lane] { *exponential } else { smallest[lane] };
            }
        }
    }
    let (sum, inherited) = (sums.into_iter().sum::<f64>(), inherited.into_iter().sum::<f64>());
    let smallest = smallest.into_iter().fold(1.0, f64::min);
    let (log, own) = (sum.ln(), f64::from(row[target]));
    let value = largest - own + log;
    if !value.is_finite() {
        return (value, 0.0);
    }
    // A relative error of the sum is an absolute one of its logarithm; then three sums in any order.
    let growth = rounding.of_positive(row.len(), smallest, 1.0).growth(row.len());
    let of_sum = inherited / sum + growth + 10.0;
    let of_terms = 4.0 * (largest.abs() + log.abs() + own.abs() + value.abs());
    (value, rounded(value, U * (of_sum + of_terms), DType::F32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::round_to;

    fn case(rows: usize, cols: usize, dtype: DType) -> Case {
        Case { shape: shape(&[("rows", rows), ("cols", cols)]), dtype }
    }

    fn expect(x: &[f32], targets: &[i32]) -> Expected {
        let mut inputs = Tensors::default();
        inputs.insert("x", Values::Float(x.to_vec()));
        inputs.insert("targets", Values::Int(targets.to_vec()));
        let case = case(targets.len(), x.len() / targets.len(), DType::F32);
        CrossEntropy.expect("cross_entropy", &case, &inputs, Rounding::Random).remove(0)
    }

    /// Loss of every row in f32, with `kept` applied to each intermediate number.
    fn losses(case: &Case, inputs: &Tensors, online: bool, kept: impl Fn(f32) -> f32) -> Vec<f32> {
        let rows = inputs.floats("x").chunks(case.size("cols")).zip(inputs.ints("targets"));
        let one = |(row, target): (&[f32], &i32)| {
            let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
            if online {
                for x in row {
                    let before = largest;
                    largest = largest.max(*x);
                    // Nothing is left of a sum that began with -inf.
                    let scale = if before == largest { 1.0 } else { kept((before - largest).exp()) };
                    let term = match *x {
                        // Before anything is finite there is nothing to be relative to.
                        f32::NEG_INFINITY => 0.0,
                        x if x == largest => 1.0,
                        x => kept((x - largest).exp()),
                    };
                    sum = kept(sum * scale + term);
                }
            } else {
                largest = row.iter().fold(largest, |largest, x| largest.max(*x));
                sum = row.iter().fold(0.0, |sum, x| kept(sum + kept((x - largest).exp())));
            }
            kept(largest + sum.ln()) - row[*target as usize]
        };
        rows.map(one).collect()
    }

    fn outside(expected: &Expected, got: &[f32]) -> Option<String> {
        assert_eq!(expected.values.len(), got.len());
        expected.values.iter().zip(&expected.bounds).zip(got).find_map(|((value, bound), got)| {
            let got = f64::from(*got);
            let right = (value.is_nan() && got.is_nan()) || *value == got || (value - got).abs() <= *bound;
            (!right).then(|| format!("{value} {got} {bound}"))
        })
    }

    #[test]
    fn known_values() {
        let expected = expect(&[0.0, 0.0, 1.0f32.ln(), 3.0f32.ln()], &[1, 1]);
        for (value, known) in expected.values.iter().zip([2.0f64.ln(), (4.0f64 / 3.0).ln()]) {
            assert!((value - known).abs() < 1e-7, "{value} {known}");
        }
        assert!(expected.bounds.iter().all(|bound| *bound > 0.0 && *bound < 3e-6));
    }

    #[test]
    fn special_values_follow_the_contract() {
        let inf = f32::INFINITY;
        let x = [1.0, -inf, 1.0, -inf, inf, 0.0, f32::NAN, 0.0, -inf, -inf];
        let expected = expect(&x, &[0, 1, 1, 1, 0]);
        assert_eq!(expected.values[..2], [0.0, f64::INFINITY]);
        assert!(expected.values[2..].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn honest_kernels_are_within_the_bounds() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            for (seed, shape) in CrossEntropy.odd_shapes().into_iter().enumerate() {
                let case = Case { shape, dtype };
                for distribution in CrossEntropy.distributions() {
                    let mut draw = Draw::new(seed as u64, "honest");
                    let inputs = CrossEntropy.inputs("cross_entropy", &case, distribution, &mut draw);
                    let expected = CrossEntropy.expect("cross_entropy", &case, &inputs, distribution.rounding());
                    let special = matches!(distribution, Distribution::Infinite | Distribution::NotANumber);
                    // A running maximum drops a NaN: only the plain kernel is written for those.
                    for online in [false, true].into_iter().take(if special { 1 } else { 2 }) {
                        let wrong = outside(&expected[0], &losses(&case, &inputs, online, |value| value));
                        assert_eq!(wrong, None, "{} {dtype:?} {distribution:?} {online}", case.shape.name);
                    }
                }
            }
        }
    }

    #[test]
    fn arithmetic_in_a_lower_precision_is_outside() {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let case = case(64, 1000, dtype);
            let mut draw = Draw::new(3, "dishonest");
            let inputs = CrossEntropy.inputs("cross_entropy", &case, Distribution::Normal, &mut draw);
            let expected = CrossEntropy.expect("cross_entropy", &case, &inputs, Rounding::Random).remove(0);
            for lower in [DType::Bf16, DType::F16] {
                let got = losses(&case, &inputs, false, |value| round_to(value, lower));
                assert!(outside(&expected, &got).is_some(), "{dtype:?} in {lower:?}");
            }
        }
    }

    #[test]
    fn a_target_is_a_column() {
        let case = case(500, 3, DType::F32);
        let inputs = CrossEntropy.inputs("cross_entropy", &case, Distribution::Normal, &mut Draw::new(1, "targets"));
        for class in 0..3 {
            assert!(inputs.ints("targets").contains(&class), "{class}");
        }
        assert!(inputs.ints("targets").iter().all(|target| (0..3).contains(target)));
    }

    #[test]
    fn cost_counts_each_buffer_once() {
        let cost = CrossEntropy.cost("cross_entropy", &case(2, 3, DType::Bf16));
        assert_eq!(cost, Cost { bytes_read: 2.0 * 6.0 + 8.0, bytes_written: 8.0, flops: 24.0 });
    }
}
