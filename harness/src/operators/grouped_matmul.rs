//! `y[r] = x[r] w[g]` for `offsets[g] <= r < offsets[g + 1]`: the rows are sorted by group and each group has a matrix of
//! its own, as in a mixture of experts.
//!
//! `offsets` has `groups + 1` entries, starts with 0, never decreases and ends with `rows`. Groups may be empty; no group
//! at all needs no row at all.

use std::convert::Infallible;

use kopt_schema::DType;
use kopt_schema::manifest::{Shape, ShapeValue};
use kopt_schema::message::Cost;
use kopt_schema::operator::{Parameter, ROUTINGS};

use super::matmul;
use crate::distribution::Distribution;
use crate::error_model::Rounding;
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::product::{Multiply, Product, Unmultiplied};
use crate::tensor::{Draw, Expected, Tensors, Values};

/// Product of each group of rows with the group's matrix.
#[derive(Debug, Clone, Copy)]
pub struct GroupedMatmul;

impl Kernel for GroupedMatmul {
    fn op(&self) -> &str {
        "grouped_matmul"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("grouped_matmul")
    }

    fn buffers(&self, _entry: &str, case: &Case) -> Vec<Buffer> {
        let [rows, groups, k, n] = sizes(case);
        vec![
            Buffer::input("x", Role::Activation, case.dtype, rows, k),
            Buffer::input("w", Role::Weight, case.dtype, groups * k, n),
            Buffer::input("offsets", Role::Activation, DType::I32, 1, groups + 1),
            Buffer::output("y", Role::Output, case.dtype, rows, n),
        ]
    }

    fn distributions(&self) -> Vec<Distribution> {
        matmul::distributions()
    }

    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let [rows, groups, ..] = sizes(case);
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            let values = match buffer.name {
                "offsets" => Values::Int(offsets(&group_sizes(case.shape.choice("routing"), rows, groups, draw))),
                name => matmul::operand(buffer, distribution, name == "x", draw),
            };
            tensors.insert(buffer.name, values);
        }
        tensors
    }

    fn expect(&self, _entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        let host = |left: &[f32], right: &[f32], sizes| Ok::<_, Infallible>(Product::new(left, right, sizes));
        let Ok(expected) = expect_by(case, inputs, rounding, host);
        expected
    }

    fn expect_by(
        &self,
        _entry: &str,
        case: &Case,
        inputs: &Tensors,
        rounding: Rounding,
        multiply: Multiply<'_>,
    ) -> Option<Result<Vec<Expected>, Unmultiplied>> {
        Some(expect_by(case, inputs, rounding, multiply))
    }

    /// The matrices of groups that have a row count as read. How many these are at most is known before the inputs are drawn.
    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let [rows, groups, ..] = sizes(case);
        self.reading(filled(case.shape.choice("routing"), rows, groups), entry, case)
    }

    /// And how many they are after it: an honest kernel must not be taken for one that reads less than it has to.
    fn cost_on(&self, entry: &str, case: &Case, inputs: &Tensors) -> Cost {
        self.reading(inputs.ints("offsets").windows(2).filter(|bounds| bounds[0] < bounds[1]).count(), entry, case)
    }

    /// Rows belong to groups and stay where they are.
    fn symmetry(&self, _entry: &str, case: &Case) -> Symmetry {
        let [rows, groups, k, n] = sizes(case);
        let (rows, groups, k, n) = (Axis::Stays(rows), Axis::Stays(groups), Axis::Turns("k", k), Axis::Turns("n", n));
        Symmetry {
            tensors: vec![("x", vec![rows, k]), ("w", vec![groups, k, n]), ("y", vec![rows, n])],
            scaled: vec![("x", vec!["y"]), ("w", vec!["y"])],
        }
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        [
            ([1, 1, 1, 1], "uniform"),
            ([1, 3, 5, 7], "ragged"),
            ([7, 2, 3, 1], "skewed"),
            ([13, 5, 1, 17], "empty"),
            ([17, 3, 15, 33], "top1-capacity-1.25"),
            ([31, 4, 33, 15], "top2-capacity-1.0"),
            ([33, 7, 17, 31], "ragged"),
            ([63, 8, 16, 65], "skewed"),
            ([65, 9, 31, 63], "empty"),
            ([127, 6, 33, 17], "top1-capacity-1.25"),
            ([129, 4, 15, 65], "top2-capacity-1.0"),
            ([131, 16, 29, 31], "uniform"),
            ([5, 11, 63, 129], "ragged"),
            ([257, 3, 7, 13], "skewed"),
            ([3, 2, 1025, 5], "empty"),
            ([5, 2, 0, 3], "ragged"),
            ([0, 3, 5, 7], "uniform"),
            ([0, 0, 4, 4], "uniform"),
        ]
        .map(|(sizes, routing)| routed(sizes, routing))
        .to_vec()
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        let sizes = [draw.between(1, 200), draw.between(1, 12), draw.between(1, 48), draw.between(1, 48)];
        routed(sizes, ROUTINGS[draw.between(0, ROUTINGS.len() - 1)])
    }

    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        super::near(shape, &["rows", "k", "n"], draw)
    }

    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        super::fewer(shape, "rows", fits)
    }
}

impl GroupedMatmul {
    /// What a call costs that reads the matrices of so many groups.
    fn reading(self, used: usize, entry: &str, case: &Case) -> Cost {
        let buffers = self.buffers(entry, case);
        let [rows, groups, k, n] = sizes(case);
        let used = used as f64 / groups.max(1) as f64;
        let bytes = |written| {
            let of_it = buffers.iter().filter(|buffer| buffer.written == written);
            let share = |buffer: &Buffer| if buffer.name == "w" { used } else { 1.0 };
            of_it.map(|buffer| buffer.bytes() as f64 * share(buffer)).sum()
        };
        Cost { bytes_read: bytes(false), bytes_written: bytes(true), flops: 2.0 * rows as f64 * k as f64 * n as f64 }
    }
}

/// The reference, with its products by `multiply`.
fn expect_by<E>(
    case: &Case,
    inputs: &Tensors,
    rounding: Rounding,
    multiply: impl Fn(&[f32], &[f32], [usize; 3]) -> Result<Product, E>,
) -> Result<Vec<Expected>, E> {
    let [_, groups, k, n] = sizes(case);
    let (x, w) = (inputs.floats("x"), inputs.floats("w"));
    let mut y = Product::new(&[], &[], [0, k, n]);
    for (group, bounds) in inputs.ints("offsets").windows(2).take(groups).enumerate() {
        let (start, end) = (bounds[0] as usize, bounds[1] as usize);
        let matrix = &w[group * k * n..(group + 1) * k * n];
        y.append(multiply(&x[start * k..end * k], matrix, [end - start, k, n])?);
    }
    Ok(vec![y.expected("y", k, case.dtype, rounding)])
}

/// Rows, groups, k, n.
fn sizes(case: &Case) -> [usize; 4] {
    ["rows", "groups", "k", "n"].map(|name| case.size(name))
}

/// A shape of these sizes (rows, groups, k, n) and this routing.
fn routed([rows, groups, k, n]: [usize; 4], routing: &str) -> Shape {
    let mut parameters = super::shape(&[("rows", rows), ("groups", groups), ("k", k), ("n", n)]).parameters;
    parameters.push(("routing".to_owned(), ShapeValue::Choice(routing.to_owned())));
    Shape::unnamed(parameters)
}

/// Where each group starts, and where the last one ends.
fn offsets(sizes: &[usize]) -> Vec<i32> {
    let ends = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    std::iter::once(0).chain(ends).map(|offset| i32::try_from(offset).unwrap_or(i32::MAX)).collect()
}

/// How many of the `rows` each group gets, by one of [`ROUTINGS`].
fn group_sizes(routing: &str, rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    if groups == 0 {
        return Vec::new();
    }
    match routing {
        "top2-capacity-1.0" => top2(rows, groups, draw),
        "top1-capacity-1.25" => top1(rows, groups, draw),
        "skewed" => skewed(rows, groups, draw),
        "empty" => with_empty(rows, groups, draw),
        "ragged" => ragged(rows, groups, draw),
        _ => even(rows, groups),
    }
}

/// The same for each group; what does not divide goes to the first ones.
fn even(rows: usize, groups: usize) -> Vec<usize> {
    (0..groups).map(|group| rows / groups + usize::from(group < rows % groups)).collect()
}

/// Random cuts anywhere.
fn ragged(rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..groups).map(|_| draw.between(0, rows)).collect();
    cuts.push(rows);
    cuts.sort_unstable();
    std::iter::once(0).chain(cuts.iter().copied()).zip(&cuts).map(|(start, end)| end - start).collect()
}

/// Each token asks for two groups, and a group takes no more than its share. The rows counted are those that found a
/// place, so what the full groups turned away comes back to the full groups: they are alike, and some others are short.
fn top2(rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    let share = rows.div_ceil(groups);
    let mut sizes = vec![0_usize; groups];
    let mut first = 0;
    for row in 0..rows {
        // Rows come in pairs, the two choices of a token, which differ.
        let group = if row % 2 == 1 && groups > 1 {
            (first + draw.between(1, groups - 1)) % groups
        } else {
            draw.between(0, groups - 1)
        };
        first = group;
        sizes[group] += 1;
    }
    let turned_away: usize = sizes.iter().map(|size| size.saturating_sub(share)).sum();
    let full: Vec<usize> = (0..groups).filter(|group| sizes[*group] > share).collect();
    for (group, extra) in full.iter().zip(even(turned_away, full.len().max(1))) {
        sizes[*group] = share + extra;
    }
    sizes
}

/// Each token asks for one group, some groups are liked more, and a group takes no more than 1.25 times its share. Those
/// turned away go to the next group that has room.
fn top1(rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    // At least the share rounded up, or the rows would have no place.
    let capacity = (5 * rows / (4 * groups)).max(rows.div_ceil(groups));
    let mut sizes = ragged(rows, groups, draw);
    let mut turned_away: usize = sizes.iter().map(|size| size.saturating_sub(capacity)).sum();
    let start = draw.between(0, groups - 1);
    for step in 0..groups {
        let size = &mut sizes[(start + step) % groups];
        let taken = turned_away.min(capacity.saturating_sub(*size));
        *size = capacity.min(*size) + taken;
        turned_away -= taken;
    }
    sizes
}

/// One group has at least half of the rows.
fn skewed(rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    if groups == 1 {
        return vec![rows];
    }
    let most = draw.between(rows.div_ceil(2), rows - rows / 10);
    let mut sizes = ragged(rows - most, groups - 1, draw);
    sizes.insert(draw.between(0, groups - 1), most);
    sizes
}

/// How many groups have a row, at most.
fn filled(routing: &str, rows: usize, groups: usize) -> usize {
    let left = if routing == "empty" { groups - emptied(groups) } else { groups };
    left.min(rows)
}

/// A third of the groups, rounded.
const fn emptied(groups: usize) -> usize {
    (groups + 1) / 3
}

/// Some groups have no row; the others share evenly.
fn with_empty(rows: usize, groups: usize, draw: &mut Draw) -> Vec<usize> {
    let empty = emptied(groups);
    let mut sizes = even(rows, groups - empty);
    for _ in 0..empty {
        sizes.insert(draw.between(0, sizes.len()), 0);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(sizes: [usize; 4], routing: &str) -> Case {
        Case { shape: routed(sizes, routing), dtype: DType::F32 }
    }

    /// An honest kernel: one f32 sum per element, in order.
    fn plain(case: &Case, inputs: &Tensors) -> Vec<f32> {
        let [rows, groups, k, n] = sizes(case);
        let (x, w, offsets) = (inputs.floats("x"), inputs.floats("w"), inputs.ints("offsets"));
        let mut y = vec![f32::NAN; rows * n];
        for group in 0..groups {
            for row in offsets[group] as usize..offsets[group + 1] as usize {
                for col in 0..n {
                    y[row * n + col] =
                        (0..k).fold(0.0, |sum, at| sum + x[row * k + at] * w[(group * k + at) * n + col]);
                }
            }
        }
        y
    }

    #[test]
    fn known_values() {
        let case = case([3, 3, 2, 2], "ragged");
        let mut inputs = Tensors::default();
        inputs.insert("x", Values::Float(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        inputs.insert("w", Values::Float(vec![1.0, 0.0, 0.0, 1.0, 9.0, 9.0, 9.0, 9.0, 0.0, 1.0, 2.0, 0.0]));
        inputs.insert("offsets", Values::Int(vec![0, 1, 1, 3]));
        let y = GroupedMatmul.expect("grouped_matmul", &case, &inputs, Rounding::Random).remove(0);
        assert_eq!(y.values, [1.0, 2.0, 8.0, 3.0, 12.0, 5.0]);
        assert!(y.bounds.iter().all(|bound| *bound > 0.0 && *bound < 1e-5));
    }

    #[test]
    fn special_values_stay_in_their_row() {
        let case = case([2, 1, 2, 2], "uniform");
        let mut inputs = Tensors::default();
        inputs.insert("x", Values::Float(vec![f32::INFINITY, 1.0, 1.0, 1.0]));
        inputs.insert("w", Values::Float(vec![1.0, 0.0, 1.0, 1.0]));
        inputs.insert("offsets", Values::Int(vec![0, 2]));
        let y = GroupedMatmul.expect("grouped_matmul", &case, &inputs, Rounding::Random).remove(0);
        assert_eq!(y.values[0], f64::INFINITY);
        assert!(y.values[1].is_nan());
        assert_eq!(y.values[2..], [2.0, 1.0]);
    }

    #[test]
    fn an_honest_kernel_is_within_the_bounds() {
        for (seed, shape) in GroupedMatmul.odd_shapes().into_iter().enumerate() {
            let case = Case { shape, dtype: DType::F32 };
            let [rows, _, k, n] = sizes(&case);
            assert!(rows * k * n < 300_000);
            for distribution in GroupedMatmul.distributions() {
                let inputs =
                    GroupedMatmul.inputs("grouped_matmul", &case, distribution, &mut Draw::new(seed as u64, "honest"));
                assert!(inputs.floats("w").iter().all(|value| value.is_finite()));
                let y = GroupedMatmul.expect("grouped_matmul", &case, &inputs, distribution.rounding()).remove(0);
                let got = plain(&case, &inputs);
                assert_eq!((y.values.len(), y.bounds.len()), (got.len(), got.len()));
                for ((value, bound), got) in y.values.iter().zip(&y.bounds).zip(got) {
                    let got = f64::from(got);
                    let right = (value.is_nan() && got.is_nan()) || *value == got || (value - got).abs() <= *bound;
                    assert!(right, "{} {distribution:?}: {value} {got} {bound}", case.shape.name);
                }
            }
        }
    }

    #[test]
    fn offsets_start_at_zero_never_decrease_and_end_with_the_rows() {
        for routing in ROUTINGS {
            for seed in 0..500 {
                let mut draw = Draw::new(seed, "offsets");
                let (rows, groups) = (draw.between(0, 300), draw.between(1, 40));
                let offsets = offsets(&group_sizes(routing, rows, groups, &mut draw));
                assert_eq!(offsets.len(), groups + 1, "{routing} {rows} {groups}");
                assert_eq!((offsets[0], offsets[groups]), (0, rows as i32), "{routing} {rows} {groups}");
                assert!(offsets.is_sorted(), "{routing} {rows} {groups}");
            }
            assert_eq!(offsets(&group_sizes(routing, 0, 0, &mut Draw::new(0, "none"))), [0]);
        }
    }

    #[test]
    fn routings_keep_their_word() {
        let (mut short, mut capped) = (0, 0);
        for seed in 0..300 {
            let mut draw = Draw::new(seed, "routings");
            let (rows, groups) = (draw.between(200, 2000), draw.between(2, 16));
            let mut sizes = |routing| group_sizes(routing, rows, groups, &mut draw);

            let uniform = sizes("uniform");
            assert!(uniform.iter().all(|size| *size == rows / groups || *size == rows / groups + 1));

            // All that are not short have the same, up to the row that does not divide.
            let share = rows.div_ceil(groups);
            let top2 = sizes("top2-capacity-1.0");
            let full: Vec<usize> = top2.iter().copied().filter(|size| *size > share).collect();
            assert!(full.iter().all(|size| size.abs_diff(full[0]) <= 1), "{top2:?}");
            short += usize::from(top2.iter().any(|size| *size < share));

            let capacity = (1.25 * rows as f64 / groups as f64) as usize;
            let top1 = sizes("top1-capacity-1.25");
            assert!(top1.iter().all(|size| *size <= capacity.max(share)), "{top1:?} {capacity}");
            capped += usize::from(top1.contains(&capacity));

            assert!(sizes("skewed").iter().any(|size| 2 * size >= rows));

            let empty = sizes("empty").iter().filter(|size| **size == 0).count();
            assert!(empty.abs_diff(groups / 3) <= 1, "{empty} {groups}");
        }
        assert!(short > 250 && capped > 250, "{short} {capped}");
    }

    #[test]
    fn the_same_seed_draws_the_same_inputs() {
        let case = case([97, 5, 3, 2], "ragged");
        let inputs =
            |seed| GroupedMatmul.inputs("grouped_matmul", &case, Distribution::Normal, &mut Draw::new(seed, "same"));
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1).ints("offsets"), inputs(2).ints("offsets"));
    }

    #[test]
    fn random_shapes_take_every_routing() {
        let mut draw = Draw::new(0, "shapes");
        let drawn: Vec<Shape> = (0..200).map(|_| GroupedMatmul.random_shape(&mut draw)).collect();
        for routing in ROUTINGS {
            assert!(drawn.iter().any(|shape| shape.choice("routing") == *routing), "{routing}");
        }
    }

    #[test]
    fn cost_counts_the_matrices_that_a_row_needs() {
        let read = |sizes, routing: &str| GroupedMatmul.cost("grouped_matmul", &case(sizes, routing)).bytes_read;
        let cost = GroupedMatmul.cost("grouped_matmul", &case([4, 3, 5, 2], "skewed"));
        assert_eq!(cost, Cost { bytes_read: 4.0 * (20.0 + 30.0 + 4.0), bytes_written: 4.0 * 8.0, flops: 80.0 });
        // Two of three groups have rows; two rows are in two groups at most; where there is nothing, nothing is read.
        assert_eq!(read([4, 3, 5, 2], "empty"), 4.0 * (20.0 + 20.0 + 4.0));
        assert_eq!(read([2, 8, 5, 2], "uniform"), 4.0 * (10.0 + 20.0 + 9.0));
        assert_eq!(read([0, 0, 4, 4], "uniform"), 4.0);
        let mut draw = Draw::new(5, "filled");
        for routing in ROUTINGS {
            for (rows, groups) in [(64, 8), (3, 8), (31, 4), (0, 2), (1, 1)] {
                let sizes = group_sizes(routing, rows, groups, &mut draw);
                let used = sizes.iter().filter(|size| **size > 0).count();
                let most = filled(routing, rows, groups);
                let exact = ["uniform", "empty"].contains(routing);
                assert!(used <= most && (!exact || used == most), "{routing} {rows} {groups}: {used} of {most}");
                // On inputs that are there exactly those that are used count.
                let mut inputs = Tensors::default();
                inputs.insert("offsets", Values::Int(offsets(&sizes)));
                let on = GroupedMatmul.cost_on("grouped_matmul", &case([rows, groups, 5, 2], routing), &inputs);
                let matrices = 4.0 * (10 * used) as f64;
                assert_eq!(on.bytes_read, 4.0 * (rows * 5 + groups + 1) as f64 + matrices, "{routing} {rows} {groups}");
            }
        }
    }
}
