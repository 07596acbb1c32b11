//! Mutants of an operator's reference: results that a kernel could give far more cheaply than the right ones. A check that
//! lets one of them pass cannot tell an optimisation from a cheat.
//!
//! They are made from the reference itself, on the host, so that no mutant has to be written for an operator: only what
//! leaves a sum unchanged is the operator's to say ([`Kernel::neutral`]). Each output is mutated alone, the others stay
//! right: a bound that is too wide on one output must not hide behind the others. A lower precision is that of a whole
//! kernel, and is judged by all outputs together: an average of many numbers hardly shows it, and need not.

use kopt_schema::DType;

use crate::distribution::Distribution;
use crate::kernel::{Buffer, Case, Kernel};
use crate::tensor::{Draw, Expected, Tensors, Values, round_to};

/// Elements that a dropped tile has.
const TILE: usize = 16;

/// At least one term in so many is left out of a sum. Of 131072 terms, sixteen are less than an honest serial sum in f32 is
/// off: whether a check refuses that would be up to the seed.
const NOTICEABLE: usize = 1024;

/// What a mutant gives for each output, in the reference's order.
pub type Mutated = Vec<Option<Vec<f64>>>;

/// From an output's right values to a mutant's.
type Change<'a> = &'a dyn Fn(&Buffer, &[f64]) -> Option<Vec<f64>>;

/// A way to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Zeros.
    Zeros,
    /// The mean of each row of the result.
    Mean,
    /// An input as it is.
    CopiedInput,
    /// The last tile of each row is left at zero.
    LastTileDropped,
    /// Sums leave out their last terms.
    LastTermsDropped,
    /// Operands rounded to the next lower precision.
    LowerPrecision,
    /// The result of another call.
    StaleOutput,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Zeros,
        Self::Mean,
        Self::CopiedInput,
        Self::LastTileDropped,
        Self::LastTermsDropped,
        Self::LowerPrecision,
        Self::StaleOutput,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Mean => "mean",
            Self::CopiedInput => "copied-input",
            Self::LastTileDropped => "last-tile-dropped",
            Self::LastTermsDropped => "last-terms-dropped",
            Self::LowerPrecision => "lower-precision",
            Self::StaleOutput => "stale-output",
        }
    }
}

/// A call whose reference is mutated.
#[derive(Debug)]
pub struct Subject<'a, K: Kernel + ?Sized> {
    /// The operator.
    pub kernel: &'a K,
    /// The entry.
    pub entry: &'a str,
    /// Sizes.
    pub case: &'a Case,
    /// Kind of input.
    pub distribution: Distribution,
    /// What the call is given.
    pub inputs: &'a Tensors,
    /// What it must give.
    pub expected: &'a [Expected],
}

impl<K: Kernel + ?Sized> Subject<'_, K> {
    /// What the mutant gives; nothing for an output that it leaves as it is (a row of one element has no tail, a constant row
    /// is its own mean).
    ///
    /// # Errors
    /// Those of `reference`, which gives what is expected for inputs of this call's sizes.
    pub fn mutated<E>(
        &self,
        mutant: Mutant,
        seed: u64,
        reference: &dyn Fn(&Tensors) -> Result<Vec<Expected>, E>,
    ) -> Result<Mutated, E> {
        let buffers = self.kernel.buffers(self.entry, self.case);
        let by_output = |change: Change<'_>| {
            let one = |expected: &Expected| {
                let buffer = buffers.iter().find(|buffer| buffer.name == expected.name)?;
                change(buffer, &expected.values).filter(|values| differs(values, &expected.values, buffer.dtype))
            };
            Ok(self.expected.iter().map(one).collect())
        };
        match mutant {
            Mutant::Zeros => by_output(&|buffer, _| Some(vec![0.0; buffer.len])),
            Mutant::Mean => by_output(&|buffer, values| Some(means(values, row_of(buffer)))),
            Mutant::CopiedInput => by_output(&|buffer, _| self.copied(&buffers, buffer)),
            Mutant::LastTileDropped => by_output(&|buffer, values| Some(without_last_tile(values, row_of(buffer)))),
            Mutant::LastTermsDropped => self.without_last_terms(&buffers, reference),
            Mutant::LowerPrecision => Ok(self.others(reference(&self.rounded(&buffers))?, &buffers)),
            Mutant::StaleOutput => {
                let mut draw = Draw::new(seed, "another call");
                let inputs = self.kernel.inputs(self.entry, self.case, self.distribution, &mut draw);
                Ok(self.others(reference(&inputs)?, &buffers))
            }
        }
    }

    /// What the reference makes of other inputs, where that is not what it makes of these.
    fn others(&self, found: Vec<Expected>, buffers: &[Buffer]) -> Mutated {
        let one = |(expected, other): (&Expected, Expected)| {
            let buffer = buffers.iter().find(|buffer| buffer.name == expected.name)?;
            Some(other.values).filter(|values| differs(values, &expected.values, buffer.dtype))
        };
        self.expected.iter().zip(found).map(one).collect()
    }

    /// An input of the same size, or the first one over and over.
    fn copied(&self, buffers: &[Buffer], output: &Buffer) -> Option<Vec<f64>> {
        let inputs = || floats(buffers).map(|buffer| self.inputs.floats(buffer.name)).filter(|one| !one.is_empty());
        let input = inputs().find(|values| values.len() == output.len).or_else(|| inputs().next())?;
        Some(input.iter().cycle().take(output.len).map(|value| f64::from(*value)).collect())
    }

    fn rounded(&self, buffers: &[Buffer]) -> Tensors {
        let mut inputs = self.inputs.clone();
        for buffer in floats(buffers) {
            let values = self.inputs.floats(buffer.name).iter().map(|value| lower(*value, buffer.dtype)).collect();
            inputs.insert(buffer.name, Values::Float(values));
        }
        inputs
    }

    /// For each output, the reference on inputs whose last columns, or else rows, add nothing to a sum: the first input for
    /// which that shows. Where the output has the same rows, its own last elements stay right, as those of a kernel would
    /// that forgets them in the sum only.
    fn without_last_terms<E>(
        &self,
        buffers: &[Buffer],
        reference: &dyn Fn(&Tensors) -> Result<Vec<Expected>, E>,
    ) -> Result<Mutated, E> {
        let mut found = vec![None; self.expected.len()];
        for by_row in [false, true] {
            for input in floats(buffers) {
                if found.iter().all(Option::is_some) {
                    return Ok(found);
                }
                let Some(cut) = Cut::of(input, by_row) else { continue };
                let mut inputs = self.inputs.clone();
                let mut values = self.inputs.floats(input.name).to_vec();
                (0..values.len()).filter(|at| cut.drops(*at)).for_each(|at| values[at] = self.kernel.neutral());
                inputs.insert(input.name, Values::Float(values));
                let here = reference(&inputs)?;
                for ((place, expected), other) in found.iter_mut().zip(self.expected).zip(here) {
                    let Some(buffer) = buffers.iter().find(|buffer| buffer.name == expected.name) else { continue };
                    let mut values = other.values;
                    if buffer.row == input.row {
                        let own = (0..values.len()).filter(|at| cut.drops(*at));
                        own.for_each(|at| values[at] = expected.values[at]);
                    }
                    if place.is_none() && differs(&values, &expected.values, buffer.dtype) {
                        *place = Some(values);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The end of a buffer's rows, or its last rows.
struct Cut {
    row: usize,
    /// Where the end begins: an index inside a row, or of a row.
    from: usize,
    by_row: bool,
}

impl Cut {
    /// Nothing where there is only one term.
    fn of(buffer: &Buffer, by_row: bool) -> Option<Self> {
        let row = buffer.row.max(1);
        let terms = if by_row { buffer.len / row } else { row };
        let dropped = TILE.max(terms / NOTICEABLE);
        (terms > 1).then(|| Self { row, from: terms - dropped.min(terms - 1), by_row })
    }

    const fn drops(&self, at: usize) -> bool {
        let index = if self.by_row { at / self.row } else { at % self.row };
        index >= self.from
    }
}

fn floats(buffers: &[Buffer]) -> impl Iterator<Item = &Buffer> {
    buffers.iter().filter(|buffer| !buffer.written && buffer.dtype != DType::I32)
}

/// A buffer of single numbers is one row.
fn row_of(buffer: &Buffer) -> usize {
    if buffer.row > 1 { buffer.row } else { buffer.len.max(1) }
}

/// Whether anything is left of the difference when both are rounded to the output's type.
fn differs(values: &[f64], exact: &[f64], dtype: DType) -> bool {
    let stored = |value: f64| round_to(value as f32, dtype);
    values.iter().zip(exact).any(|(value, exact)| {
        let (value, exact) = (stored(*value), stored(*exact));
        value != exact && !(value.is_nan() && exact.is_nan())
    })
}

fn means(values: &[f64], row: usize) -> Vec<f64> {
    let mean = |row: &[f64]| vec![row.iter().sum::<f64>() / row.len() as f64; row.len()];
    values.chunks(row).flat_map(mean).collect()
}

fn without_last_tile(values: &[f64], row: usize) -> Vec<f64> {
    let kept = |row: &[f64]| row.len() - TILE.min(row.len());
    values
        .chunks(row)
        .flat_map(|row| row[..kept(row)].iter().copied().chain(vec![0.0; row.len() - kept(row)]))
        .collect()
}

/// The nearest number of the next lower precision: tf32 below f32, bf16 below f16, and three bits of fraction, those of an
/// eight-bit float, below bf16. Exponents keep their range.
fn lower(value: f32, dtype: DType) -> f32 {
    let dropped = match dtype {
        DType::F32 => 13,
        DType::F16 => 16,
        DType::Bf16 => 20,
        DType::I32 => return value,
    };
    if !value.is_finite() {
        return value;
    }
    let bits = value.to_bits();
    let nearest = u64::from(bits) + (1 << (dropped - 1)) - 1 + u64::from(bits >> dropped & 1);
    // A carry past the largest number gives infinity, as rounding does.
    f32::from_bits((nearest >> dropped << dropped) as u32)
}

#[cfg(test)]
mod tests;
