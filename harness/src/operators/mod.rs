//! The standard operators, one file each: f64 reference, error model, cost, input distributions, buffer roles, odd shapes.
//! `op = "softmax"` in a manifest takes everything from here.

mod cross_entropy;
mod decode_attention;
mod grouped_matmul;
mod matmul;
mod rmsnorm;
mod softmax;

use kopt_schema::manifest::{Shape, ShapeValue};
use kopt_schema::operator::{self, Parameter};

pub use cross_entropy::CrossEntropy;
pub use decode_attention::DecodeAttention;
pub use grouped_matmul::GroupedMatmul;
pub use matmul::Matmul;
pub use rmsnorm::RmsNorm;
pub use softmax::Softmax;

use crate::kernel::Kernel;
use crate::tensor::Draw;

/// The standard operator of that name.
///
/// # Panics
/// When there is none: a crate with an operator of its own passes it to `kernel!`.
#[must_use]
pub fn standard(name: impl AsRef<str>) -> Box<dyn Kernel> {
    match name.as_ref() {
        "cross_entropy" => Box::new(CrossEntropy),
        "decode_attention" => Box::new(DecodeAttention),
        "grouped_matmul" => Box::new(GroupedMatmul),
        "matmul" => Box::new(Matmul),
        "rmsnorm" => Box::new(RmsNorm),
        "softmax" => Box::new(Softmax),
        other => {
            let known: Vec<&str> = operator::STANDARD.iter().map(|operator| operator.name).collect();
            panic!(
                "`{other}` is no standard operator ({}); pass your own: kopt_harness::kernel!(MyOp)",
                known.join(", ")
            )
        }
    }
}

/// Parameters of a standard operator, from the list that manifests are checked against.
fn parameters(name: &str) -> Vec<Parameter> {
    operator::standard(name).map(|operator| operator.parameters.to_vec()).unwrap_or_default()
}

/// Entries of a standard operator, from the same list.
fn entries(name: &str) -> Vec<String> {
    operator::standard(name)
        .map(|operator| operator.entries.iter().map(|entry| (*entry).to_owned()).collect())
        .unwrap_or_default()
}

/// Odd shapes of an operator that works by rows, and more of them: around powers of two, a single row, a single element, none.
fn odd_rows(more: &[(usize, usize)]) -> Vec<Shape> {
    let usual = [
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
        (0, 5),
    ];
    usual.iter().chain(more).map(|(rows, cols)| shape(&[("rows", *rows), ("cols", *cols)])).collect()
}

/// The largest number of a row, NaN if it holds one, which `f32::max` would drop. In lanes: one chain of comparisons takes as long
/// as an exponential of each number.
fn largest(row: &[f32]) -> f64 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    let max = |(lane, value): (&mut f32, &f32)| *lane = if *value > *lane { *value } else { *lane };
    chunks.for_each(|chunk| lanes.iter_mut().zip(chunk).for_each(max));
    lanes.iter_mut().zip(rest).for_each(max);
    let nan = row.iter().fold(false, |nan, value| nan | value.is_nan());
    if nan { f64::NAN } else { f64::from(lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)) }
}

/// A sum, in lanes for the same reason.
fn sum(terms: impl ExactSizeIterator<Item = f64>) -> f64 {
    let mut lanes = [0.0; LANES];
    terms.enumerate().for_each(|(index, term)| lanes[index % LANES] += term);
    lanes.into_iter().sum()
}

/// Numbers that are looked at side by side.
const LANES: usize = 16;

/// A shape of sizes.
pub(crate) fn shape(sizes: &[(&str, usize)]) -> Shape {
    let size = |size: usize| ShapeValue::Size(i64::try_from(size).unwrap_or(i64::MAX));
    Shape::unnamed(sizes.iter().map(|(name, value)| ((*name).to_owned(), size(*value))).collect())
}

/// How far from a listed size a near one may lie: past a vector and past what a tile's edge has of one.
const NEAR: usize = 17;

/// A shape with some of the sizes `names`, one at least, a little smaller or larger than in `shape`; none where it has none of
/// them. What ends at the largest listed size ends too early.
fn near(shape: &Shape, names: &[&str], draw: &mut Draw) -> Option<Shape> {
    let mut parameters = shape.parameters.clone();
    let sizes = parameters.iter_mut().filter_map(|(name, value)| match value {
        ShapeValue::Size(size) if *size > 0 && names.contains(&name.as_str()) => Some(size),
        _ => None,
    });
    let sizes: Vec<&mut i64> = sizes.collect();
    let surely = draw.between(0, sizes.len().checked_sub(1)?);
    for (number, size) in sizes.into_iter().enumerate() {
        if number == surely || draw.bits().is_multiple_of(2) {
            // At most twice as large: what is small may stand for much work.
            let [less, more] = [*size / 2, *size].map(|most| usize::try_from(most).unwrap_or(0).min(NEAR));
            let by = |amount: usize| i64::try_from(amount).unwrap_or(1);
            *size += match draw.bits().is_multiple_of(2) && less > 0 {
                true => -by(draw.between(1, less)),
                false => by(draw.between(1, more)),
            };
        }
    }
    Some(Shape::unnamed(parameters))
}

/// The shape with its size `name` halved until it `fits`.
fn fewer(shape: &Shape, name: &str, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
    let mut shape = shape.clone();
    while !fits(&shape) {
        let (_, value) = shape.parameters.iter_mut().find(|(known, _)| known == name)?;
        let ShapeValue::Size(size @ 2..) = value else { return None };
        *size /= 2;
        shape = Shape::unnamed(shape.parameters);
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_operator_exists_under_its_name() {
        for listed in operator::STANDARD {
            let kernel = standard(listed.name);
            assert_eq!(kernel.op(), listed.name);
            assert_eq!(kernel.entries(), listed.entries);
            assert_eq!(kernel.parameters(), listed.parameters);
        }
    }

    #[test]
    fn near_shapes_differ_a_little_in_something_and_by_much_in_nothing() {
        let listed = shape(&[("rows", 2048), ("cols", 3), ("groups", 5)]);
        let mut draw = Draw::new(1, "near");
        let mut alone = [[0; 2]; 2];
        for _ in 0..400 {
            let near = near(&listed, &["rows", "cols"], &mut draw).unwrap();
            let by = ["rows", "cols", "groups"].map(|name| near.size(name) as i64 - listed.size(name) as i64);
            assert!(by[0].abs() <= 17 && (-1..=3).contains(&by[1]) && by[2] == 0 && by != [0; 3], "{}", near.name);
            for (changed, other) in [(0, 1), (1, 0)] {
                alone[changed][0] += usize::from(by[changed] < 0 && by[other] == 0);
                alone[changed][1] += usize::from(by[changed] > 0 && by[other] == 0);
            }
        }
        assert!(alone.iter().flatten().all(|times| *times > 10), "{alone:?}: each alone, and both ways");
        assert_eq!(near(&shape(&[("rows", 1)]), &["rows"], &mut draw).map(|near| near.size("rows") > 1), Some(true));
        assert!(near(&shape(&[("rows", 0)]), &["rows"], &mut draw).is_none());
    }

    #[test]
    fn fewer_rows_are_as_many_as_fit() {
        let listed = shape(&[("rows", 2048), ("cols", 100)]);
        let fits = |most: usize| move |shape: &Shape| shape.size("rows") * shape.size("cols") <= most;
        assert_eq!(fewer(&listed, "rows", &fits(1 << 20)).unwrap(), listed);
        let smaller = fewer(&listed, "rows", &fits(60_000)).unwrap();
        assert_eq!((smaller.size("rows"), smaller.size("cols"), smaller.name.as_str()), (512, 100, "512x100"));
        assert_eq!(fewer(&listed, "rows", &fits(100)).unwrap().size("rows"), 1);
        assert!(fewer(&listed, "rows", &fits(99)).is_none());
    }

    #[test]
    fn near_shapes_of_attention_have_a_key_for_every_position() {
        let sizes = |t| shape(&[("b", 1), ("h", 2), ("h_kv", 1), ("s", 5), ("t", t), ("d", 8)]);
        let mut draw = Draw::new(2, "near");
        for near in (5..40).filter_map(|t| DecodeAttention.near(&sizes(t), &mut draw)) {
            assert!(near.size("t") >= near.size("s") && near.size("s") > 0, "{}", near.name);
        }
    }
}
