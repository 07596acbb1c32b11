//! Bases: contents that were drawn and evaluated in f64, from which everything that is dealt follows.

use std::sync::{Arc, OnceLock};

use kopt_schema::DType;
use kopt_schema::manifest::Backend;
use kopt_schema::message::Cost;

use crate::distribution::Distribution;
use crate::kernel::{Axis, Buffer, Case, Kernel, Symmetry};
use crate::package::EntryLayout;
use crate::runner::blueprint::{Blueprint, is_weight};
use crate::runner::contestant::Loss;
use crate::runner::judge::deal::{Factor, Within};
use crate::runner::reference;
use crate::tensor::{Draw, Expected, Tensors, Values, encode};

/// Bases are at most this many, and take at most so long in all, if that is more than one.
const MOST: u64 = 64;
const REFERENCE_S: f64 = 1.0;

/// There are two where the bases of a shape take so many bytes.
const HELD: usize = 4 << 30;

/// Bases are at least this many, or two where the reference takes long: turns of one tensor have all in common that does not turn,
/// and a kernel that keeps it would have it right each time.
const LEAST: u64 = 4;

/// What bases are drawn from, in turn, where the operator has it: a kernel that is quick, or right, on normal numbers only is
/// neither. Not those that leave the range when they are scaled.
const DEALT: [Distribution; 5] =
    [Distribution::Normal, Distribution::Negative, Distribution::Outlier, Distribution::Masked, Distribution::Uniform];

/// A bout can deal at least this many contents before one returns, if the reference leaves the time.
const CONTENTS: u64 = 512;

/// An entry's share of the buffers.
#[derive(Clone)]
pub(super) struct Entry {
    pub layout: &'static EntryLayout,
    pub first: usize,
    pub symmetry: Symmetry,
    pub bases: Vec<Arc<Base>>,
    /// What a call on any of them needs at least.
    pub cost: Cost,
}

/// A content that was drawn and evaluated.
pub(super) struct Base {
    pub inputs: Vec<Input>,
    pub outputs: Vec<Known>,
}

/// An input of a base. Inputs are numbered over the whole deck, and so are outputs.
pub(super) struct Input {
    pub number: usize,
    pub buffer: usize,
    pub bytes: Vec<u8>,
}

/// What is expected of an output of a base.
pub(super) struct Known {
    pub number: usize,
    pub expected: Expected,
    /// What is within its bounds, once somebody has asked.
    pub within: OnceLock<Within>,
}

/// Draws and evaluates bases, of which each gives so many `variants`; how many there are now. What is large is evaluated where
/// the kernels run.
pub(super) fn draw(
    entries: &mut [Entry],
    kernel: &dyn Kernel,
    backend: Backend,
    case: &Case,
    variants: u64,
    source: &mut Draw,
) -> Result<usize, Loss> {
    let begun = std::time::Instant::now();
    let known: Vec<_> = entries.iter().map(|entry| kernel.distributions_of(entry.layout.symbol)).collect();
    let scaled = entries.iter().any(|entry| !entry.symmetry.scaled.is_empty());
    // What is masked turns into its opposite where it is scaled.
    let is_dealt =
        |one: &Distribution| known.iter().all(|known| known.contains(one)) && !(scaled && *one == Distribution::Masked);
    let dealt: Vec<Distribution> = DEALT.into_iter().filter(is_dealt).collect();
    let first = source.between(0, dealt.len().max(1) - 1);
    let (mut bases, mut held, mut inputs, mut outputs) = (0, 0, 0.., 0..);
    for number in 0..CONTENTS.div_ceil(variants).clamp(LEAST, MOST) {
        let turn = first + usize::try_from(number).unwrap_or(0);
        let distribution = dealt.get(turn % dealt.len().max(1)).copied().unwrap_or(Distribution::Normal);
        let elapsed = begun.elapsed().as_secs_f64();
        if number > 1 && (elapsed > REFERENCE_S || held > HELD) {
            break;
        }
        // Entries that read the same weight get the same one.
        let mut weights = Tensors::default();
        for entry in entries.iter_mut() {
            let symbol = entry.layout.symbol;
            let mut tensors = kernel.inputs(symbol, case, distribution, source);
            let buffers = kernel.buffers(symbol, case);
            for buffer in buffers.iter().filter(|buffer| is_weight(buffer)) {
                match (weights.get(buffer.name), tensors.get(buffer.name)) {
                    (Some(values), _) => tensors.insert(buffer.name, values.clone()),
                    (None, Some(values)) => weights.insert(buffer.name, values.clone()),
                    (None, None) => {}
                }
            }
            entry.cost = entry.cost.least(kernel.cost_on(symbol, case, &tensors));
            let expected = reference::expect(kernel, backend, symbol, case, &tensors, distribution)?;
            let read = buffers.iter().enumerate().filter(|(_, buffer)| !buffer.written);
            let input = |((index, buffer), number): ((usize, &Buffer), usize)| {
                let mut bytes = vec![0; buffer.bytes()];
                if let Some(values) = tensors.get(buffer.name) {
                    debug_assert!(matches!(values, Values::Float(_)) == (buffer.dtype != DType::I32));
                    encode(values, buffer.dtype, &mut bytes);
                }
                Input { number, buffer: entry.first + index, bytes }
            };
            let known = |(expected, number)| Known { number, expected, within: OnceLock::new() };
            let outputs = expected.into_iter().zip(outputs.by_ref()).map(known).collect();
            entry.bases.push(Arc::new(Base { inputs: read.zip(inputs.by_ref()).map(input).collect(), outputs }));
        }
        bases += 1;
        // A value and a bound in f64 for each element of an output.
        let of = |entry: &Entry| {
            entry.bases.last().map_or(0, |base| {
                let inputs: usize = base.inputs.iter().map(|input| input.bytes.len()).sum();
                inputs + 16 * base.outputs.iter().map(|output| output.expected.values.len()).sum::<usize>()
            })
        };
        held += entries.iter().map(of).sum::<usize>();
    }
    Ok(bases)
}

/// Contents that one base gives.
pub(super) fn variants(blueprint: &Blueprint, axes: &[(&'static str, usize)], entries: &[Entry]) -> u64 {
    let factors: usize = entries.iter().map(|entry| entry.symmetry.scaled.len()).sum();
    let turns = axes.iter().map(|(_, extent)| *extent as u64).max().unwrap_or(1);
    let each = 2 * (u64::from(largest_exponent(blueprint)) + 1);
    turns.saturating_mul(each.saturating_pow(u32::try_from(factors).unwrap_or(u32::MAX)))
}

/// Sums of products of two scaled inputs must stay in the type's range.
pub(super) fn largest_exponent(blueprint: &Blueprint) -> u8 {
    let narrow = blueprint.buffers.iter().any(|buffer| buffer.dtype == DType::F16);
    if narrow { 1 } else { 15 }
}

/// The axes of all entries' buffers that may be turned.
pub(super) fn axes(entries: &[Entry]) -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    for (_, axes) in entries.iter().flat_map(|entry| &entry.symmetry.tensors) {
        for axis in axes {
            if let Axis::Turns(name, extent) = *axis
                && extent > 1
                && !found.contains(&(name, extent))
            {
                found.push((name, extent));
            }
        }
    }
    found
}

impl Entry {
    /// What an output is multiplied by.
    pub(super) fn factor(&self, output: &str, factors: &[Factor]) -> f64 {
        let scaled = self.symmetry.scaled.iter().zip(factors);
        scaled.filter(|((_, outputs), _)| outputs.contains(&output)).map(|(_, factor)| factor.value()).product()
    }
}
