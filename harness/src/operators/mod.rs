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

/// A shape of sizes.
pub(crate) fn shape(sizes: &[(&str, usize)]) -> Shape {
    let size = |size: usize| ShapeValue::Size(i64::try_from(size).unwrap_or(i64::MAX));
    Shape::unnamed(sizes.iter().map(|(name, value)| ((*name).to_owned(), size(*value))).collect())
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
}
