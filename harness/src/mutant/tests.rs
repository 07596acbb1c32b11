//! Every mutant of every standard operator changes what it should, and lies outside of the operator's own bounds.

use std::convert::Infallible;

use super::*;
use crate::operators::{shape, standard};
use kopt_schema::manifest::{Shape, ShapeValue};
use kopt_schema::operator::STANDARD;

fn within(expected: &Expected, values: &[f64]) -> bool {
    let close = |((value, exact), bound): ((&f64, &f64), &f64)| (f64::from(*value as f32) - exact).abs() <= *bound;
    values.iter().zip(&expected.values).zip(&expected.bounds).all(close)
}

/// Mutants that an output of the entry has on normal numbers, and whether its bounds take them.
fn mutants(op: &str, entry: &str, shape: Shape) -> Vec<(Mutant, &'static str, bool)> {
    let (kernel, case) = (standard(op), Case { shape, dtype: DType::F32 });
    let distribution = Distribution::Normal;
    let inputs = kernel.inputs(entry, &case, distribution, &mut Draw::new(7, "inputs"));
    let expected = kernel.expect(entry, &case, &inputs, distribution.rounding());
    let subject = Subject { kernel: &kernel, entry, case: &case, distribution, inputs: &inputs, expected: &expected };
    let one = |mutant: Mutant| {
        let reference = |inputs: &Tensors| Ok(kernel.expect(entry, &case, inputs, distribution.rounding()));
        let Ok::<_, Infallible>(outputs) = subject.mutated(mutant, 8, &reference);
        assert_eq!(outputs.len(), expected.len());
        let pairs = expected.iter().zip(outputs);
        pairs
            .filter_map(|(expected, values)| Some((mutant, expected.name, within(expected, &values?))))
            .collect::<Vec<_>>()
    };
    Mutant::ALL.into_iter().flat_map(one).collect()
}

#[test]
fn every_output_of_every_operator_has_all_mutants_and_its_bounds_take_none() {
    for operator in STANDARD {
        let kernel = standard(operator.name);
        // A shape with several rows, columns and terms.
        let odd = kernel.odd_shapes();
        let big = |shape: &&Shape| {
            shape.parameters.iter().all(|(_, value)| !matches!(value, ShapeValue::Size(size) if *size < 5))
        };
        let shape = odd.iter().find(big).unwrap_or_else(|| panic!("{}: no odd shape", operator.name));
        for entry in kernel.entries() {
            let found = mutants(operator.name, &entry, shape.clone());
            let outputs = kernel.buffers(&entry, &Case { shape: shape.clone(), dtype: DType::F32 });
            for output in outputs.iter().filter(|buffer| buffer.written) {
                for mutant in Mutant::ALL {
                    let one = found.iter().find(|(found, name, _)| *found == mutant && *name == output.name);
                    let told = format!("{entry} {} {} on {}", output.name, mutant.name(), shape.name);
                    let (_, _, passes) = one.unwrap_or_else(|| panic!("no {told}"));
                    assert!(!passes, "{told} is within the bounds");
                }
            }
        }
    }
}

#[test]
fn a_mutation_that_changes_nothing_is_none() {
    let one_by_one = standard("softmax").odd_shapes().into_iter().find(|shape| shape.size("cols") == 1).unwrap();
    let found = mutants("softmax", "softmax", one_by_one);
    let has = |mutant| found.iter().any(|(found, ..)| *found == mutant);
    // A row of one element is 1 whatever goes in.
    assert!(has(Mutant::Zeros));
    for mutant in [Mutant::Mean, Mutant::LastTermsDropped, Mutant::LowerPrecision, Mutant::StaleOutput] {
        assert!(!has(mutant), "{}", mutant.name());
    }
}

#[test]
fn a_lower_precision_keeps_the_leading_bits() {
    assert_eq!(lower(1.0 + 2f32.powi(-10), DType::F32), 1.0 + 2f32.powi(-10));
    assert_eq!(lower(1.0 + 2f32.powi(-12), DType::F32), 1.0);
    assert_eq!(lower(-(1.0 + 2f32.powi(-7)), DType::F16), -(1.0 + 2f32.powi(-7)));
    assert_eq!(lower(1.0 + 2f32.powi(-5), DType::Bf16), 1.0);
    assert_eq!(lower(f32::MAX, DType::F32), f32::INFINITY);
    assert!(lower(f32::NAN, DType::F32).is_nan());
}

/// Sixteen of so many terms would be within the bounds: an honest sum may be off by more.
#[test]
fn terms_dropped_from_a_very_long_sum_show() {
    let found = mutants("softmax", "softmax", shape(&[("rows", 8), ("cols", 131_072)]));
    let (.., passes) = found.iter().find(|(mutant, ..)| *mutant == Mutant::LastTermsDropped).unwrap();
    assert!(!passes);
}
