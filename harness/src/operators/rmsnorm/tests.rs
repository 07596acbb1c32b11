//! Both entries against plain arithmetic in f32 in every order, against each other, and at the edges of the number types.

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
        for (entry, plain) in
            [("rmsnorm", plain_forward as fn(&Case, &Tensors, usize) -> _), (BACKWARD, plain_backward)]
        {
            for distribution in RmsNorm.distributions_of(entry) {
                let inputs = RmsNorm.inputs(entry, &case, distribution, &mut Draw::new(seed as u64, "honest"));
                let expected = RmsNorm.expect(entry, &case, &inputs, distribution.rounding());
                for order in 0..3 {
                    for (expected, got) in expected.iter().zip(plain(&case, &inputs, order)) {
                        assert_within(expected, &got, &format!("{} {distribution:?} order {order}", case.shape.name));
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
    for distribution in RmsNorm.distributions_of(BACKWARD) {
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
                        let largest = expected.values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
                        assert!(largest < dtype.largest(), "{} {dtype:?} {distribution:?} {largest}", expected.name);
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

#[test]
fn a_large_matrix_in_parts_is_what_its_rows_are() {
    let (rows, cols) = (1100, 1000);
    assert!(rows * cols > parallel::PART);
    let whole = case(rows, cols);
    for entry in ["rmsnorm", BACKWARD] {
        let inputs = RmsNorm.inputs(entry, &whole, Distribution::Normal, &mut Draw::new(2, "parts"));
        let expected = RmsNorm.expect(entry, &whole, &inputs, Rounding::Random);
        let mut sums = vec![0.0; cols];
        for row in [0, 1, 1047, 1048, 1049, 1099] {
            let mut one = Tensors::default();
            for buffer in RmsNorm.buffers(entry, &whole).iter().filter(|buffer| !buffer.written) {
                let of_rows = buffer.len / rows * usize::from(buffer.name != "weight");
                let values = inputs.floats(buffer.name);
                let own = if of_rows == 0 { values } else { &values[row * of_rows..(row + 1) * of_rows] };
                one.insert(buffer.name, Values::Float(own.to_vec()));
            }
            let alone = RmsNorm.expect(entry, &case(1, cols), &one, Rounding::Random);
            assert_eq!(expected[0].values[row * cols..(row + 1) * cols], alone[0].values, "{entry} row {row}");
            assert_eq!(expected[0].bounds[row * cols..(row + 1) * cols], alone[0].bounds, "{entry} row {row}");
        }
        if entry == BACKWARD {
            let (x, dy) = (inputs.floats("x").chunks(cols), inputs.floats("dy").chunks(cols));
            for ((x, dy), r) in x.zip(dy).zip(inputs.floats("inv_rms")) {
                let terms = x.iter().zip(dy).map(|(x, dy)| f64::from(*dy) * f64::from(*x) * f64::from(*r));
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
            for (value, sum) in expected[1].values.iter().zip(&sums) {
                assert!((value - sum).abs() < 1e-10, "{value} {sum}");
            }
        }
    }
}
