//! Values of buffers: drawn, rounded to their element type, and what is expected of outputs.

use std::collections::BTreeMap;

use half::{bf16, f16};
use kopt_schema::DType;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal};

use crate::distribution::Distribution;
use crate::kernel::Buffer;
use crate::parallel;

/// Places of a row that [`Distribution::Few`] leaves at most.
const FEW: usize = 8;

/// The values of one buffer.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Numbers of a floating-point type, already rounded to it.
    Float(Vec<f32>),
    /// Offsets and indices.
    Int(Vec<i32>),
}

/// The values of several buffers, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tensors(BTreeMap<&'static str, Values>);

impl Tensors {
    /// Adds a buffer's values.
    pub fn insert(&mut self, name: &'static str, values: Values) {
        self.0.insert(name, values);
    }

    /// The values of a buffer.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Values> {
        self.0.get(name)
    }

    /// The numbers of a floating-point buffer; empty if there is none of that name.
    #[must_use]
    pub fn floats(&self, name: &str) -> &[f32] {
        match self.0.get(name) {
            Some(Values::Float(values)) => values,
            _ => &[],
        }
    }

    /// The numbers of an integer buffer; empty if there is none of that name.
    #[must_use]
    pub fn ints(&self, name: &str) -> &[i32] {
        match self.0.get(name) {
            Some(Values::Int(values)) => values,
            _ => &[],
        }
    }
}

/// What an output must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The buffer.
    pub name: &'static str,
    /// The exact value of each element.
    pub values: Vec<f64>,
    /// How far an honest kernel may be from it.
    pub bounds: Vec<f64>,
}

/// The nearest number of the type.
#[must_use]
pub fn round_to(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F32 | DType::I32 => value,
        DType::Bf16 => round_to_bf16(value),
        DType::F16 => f16::from_f32(value).to_f32(),
    }
}

/// The nearest bf16, ties to even, without a branch: of random numbers no processor guesses half of the last bits, and what has
/// none is done for several numbers at once. A NaN stays one.
fn round_to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    f32::from_bits((if value.is_nan() { bits | 0x0040_0000 } else { rounded }) & 0xffff_0000)
}

/// The bytes of the nearest bf16.
fn bits_of_bf16(value: f32) -> [u8; 2] {
    ((round_to_bf16(value).to_bits() >> 16) as u16).to_le_bytes()
}

/// Makes each number the nearest of the type, by all processors.
fn round_all(values: &mut [f32], dtype: DType) {
    // Types are told apart once, and not for each number.
    let parts = values.chunks_mut(parallel::PART);
    match dtype {
        DType::F32 => {}
        DType::Bf16 => parallel::each(parts, |part| part.iter_mut().for_each(|value| *value = round_to_bf16(*value))),
        _ => parallel::each(parts, |part| part.iter_mut().for_each(|value| *value = round_to(*value, dtype))),
    }
}

/// Writes values as elements of `dtype`.
pub fn encode(values: &Values, dtype: DType, into: &mut [u8]) {
    match (values, dtype) {
        (Values::Float(values), DType::F32) => write(values, into, f32::to_le_bytes),
        (Values::Float(values), DType::Bf16) => write(values, into, bits_of_bf16),
        (Values::Float(values), DType::F16) => write(values, into, |value| f16::from_f32(value).to_le_bytes()),
        (Values::Int(values), _) => write(values, into, i32::to_le_bytes),
        (Values::Float(_), DType::I32) => unreachable!("an integer buffer holds integers"),
    }
}

/// Writes the bytes of each value, by all processors.
fn write<T: Copy + Sync, const N: usize>(values: &[T], into: &mut [u8], bytes: impl Fn(T) -> [u8; N] + Sync) {
    let parts = into.chunks_mut(N * parallel::PART).zip(values.chunks(parallel::PART));
    parallel::each(parts, |(into, values)| {
        into.chunks_exact_mut(N).zip(values).for_each(|(into, value)| into.copy_from_slice(&bytes(*value)));
    });
}

/// Reads element `index` of a buffer of `dtype`.
#[must_use]
pub fn decode(bytes: &[u8], index: usize, dtype: DType) -> f64 {
    let at = index * dtype.size();
    match dtype {
        DType::F32 => f64::from(f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])),
        DType::I32 => f64::from(i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])),
        DType::Bf16 => bf16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64(),
        DType::F16 => f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64(),
    }
}

/// Draws inputs from a seed.
#[derive(Debug)]
pub struct Draw {
    rng: ChaCha8Rng,
}

impl Draw {
    /// A source of numbers that depends on the seed and a word, so that two uses of one seed are independent.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // FNV-1a of the purpose: only has to tell words apart.
        let word = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        key[8..16].copy_from_slice(&word.to_le_bytes());
        Self { rng: ChaCha8Rng::from_seed(key) }
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        self.rng.random_range(low..=high)
    }

    /// A number in (-1, 1).
    pub fn unit(&mut self) -> f32 {
        self.rng.random_range(-1.0..1.0f32)
    }

    /// A normal number.
    pub fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.rng)
    }

    /// Random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// The values of a buffer by `distribution`, with the usual scales.
    pub fn buffer(&mut self, buffer: &Buffer, distribution: Distribution) -> Values {
        self.scaled(buffer, distribution, Scales::default())
    }

    /// The values of a buffer by `distribution`; `scales` says what large and tiny mean for the operator.
    pub fn scaled(&mut self, buffer: &Buffer, distribution: Distribution, scales: Scales) -> Values {
        let (len, row) = (buffer.len, buffer.row.max(1));
        let mut values: Vec<f32> = match distribution {
            Distribution::Normal => self.normals(len, 1.0),
            Distribution::Large => self.normals(len, scales.large),
            Distribution::Tiny => self.normals(len, scales.tiny),
            Distribution::Negative => self.units(len, |unit| -unit.abs()),
            Distribution::ConstantRows => {
                let rows: Vec<f32> = (0..len.div_ceil(row)).map(|_| self.normal()).collect();
                let mut values = vec![0.0; len];
                let each = (parallel::PART / row).max(1);
                parallel::each(values.chunks_mut(each * row).zip(rows.chunks(each)), |(values, rows)| {
                    values.chunks_mut(row).zip(rows).for_each(|(values, row)| values.fill(*row));
                });
                values
            }
            Distribution::Denormal => {
                let smallest = buffer.dtype.smallest_normal() as f32;
                self.units(len, |unit| unit * smallest)
            }
            _ => self.units(len, |unit| unit),
        };
        round_all(&mut values, buffer.dtype);
        self.plant(&mut values, row, distribution, scales, buffer.dtype);
        Values::Float(values)
    }

    fn normals(&mut self, len: usize, scale: f32) -> Vec<f32> {
        self.many(len, |draw, values| values.iter_mut().for_each(|value| *value = draw.normal() * scale))
    }

    /// What is made of each number that [`unit`](Self::unit) gives.
    fn units(&mut self, len: usize, made: impl Fn(f32) -> f32 + Sync) -> Vec<f32> {
        self.many(len, |draw, values| {
            // The source's bits by whole blocks, and the same numbers as one by one: eight at a time.
            let mut block = [0; 4 * 1024];
            for values in values.chunks_mut(block.len() / 4) {
                let bytes = &mut block[..4 * values.len()];
                draw.rng.fill_bytes(bytes);
                for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                    let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    // 23 of them as the digits of a number from 1 to 2.
                    *value = made((f32::from_bits(bits >> 9 | 0x3f80_0000) - 1.0) * 2.0 - 1.0);
                }
            }
        })
    }

    /// Many numbers. Of very many each part has a source of its own, so that all processors can draw.
    fn many(&mut self, len: usize, fill: impl Fn(&mut Self, &mut [f32]) + Sync) -> Vec<f32> {
        let mut values = vec![0.0; len];
        if len <= parallel::PART {
            fill(self, &mut values);
            return values;
        }
        let seed = self.bits();
        parallel::each(values.chunks_mut(parallel::PART).enumerate(), |(part, values)| {
            let mut draw = Self::new(seed, "part");
            draw.rng.set_stream(part as u64);
            fill(&mut draw, values);
        });
        values
    }

    /// Masks part of a row: its end, as under a causal mask, its beginning, as where rows are padded on the left, a stretch in it,
    /// or both its ends. One element stays wherever it lies, so that where a mask begins is never where a row ends.
    fn mask(&mut self, row: &mut [f32]) {
        let stays = self.between(0, row.len() - 1);
        let (value, cuts) = (row[stays], [self.between(0, row.len()), self.between(0, row.len())]);
        let (from, to) = (cuts[0].min(cuts[1]), cuts[0].max(cuts[1]));
        match self.between(0, MASKS - 1) {
            0 => row[from..].fill(f32::NEG_INFINITY),
            1 => row[..to].fill(f32::NEG_INFINITY),
            2 => row[from..to].fill(f32::NEG_INFINITY),
            _ => {
                row[..from].fill(f32::NEG_INFINITY);
                row[to..].fill(f32::NEG_INFINITY);
            }
        }
        row[stays] = value;
    }

    /// Puts the special numbers of a distribution into rows.
    fn plant(&mut self, values: &mut [f32], row: usize, distribution: Distribution, scales: Scales, dtype: DType) {
        for chunk in values.chunks_mut(row) {
            let at = self.between(0, chunk.len() - 1);
            let some = self.bits().is_multiple_of(3);
            match distribution {
                Distribution::Outlier => chunk[at] = round_to(self.unit().signum() * scales.outlier, dtype),
                Distribution::Infinite if some => chunk[at] = self.unit().signum() * f32::INFINITY,
                Distribution::NotANumber if some => chunk[at] = f32::NAN,
                Distribution::Masked => self.mask(chunk),
                Distribution::Few => {
                    let kept: Vec<(usize, f32)> =
                        (0..FEW).map(|_| self.between(0, chunk.len() - 1)).map(|at| (at, chunk[at])).collect();
                    chunk.fill(f32::NEG_INFINITY);
                    kept.into_iter().for_each(|(at, value)| chunk[at] = value);
                }
                _ => {}
            }
        }
    }
}

/// Ways in which a row is masked.
const MASKS: usize = 4;

/// What large and tiny mean for an operator's inputs.
#[derive(Debug, Clone, Copy)]
pub struct Scales {
    /// Factor of [`Distribution::Large`].
    pub large: f32,
    /// Factor of [`Distribution::Tiny`].
    pub tiny: f32,
    /// Magnitude of the outlier.
    pub outlier: f32,
}

impl Default for Scales {
    fn default() -> Self {
        Self { large: 1e4, tiny: 1e-6, outlier: 1e3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Role;

    #[test]
    fn many_parts_are_drawn_rounded_and_written_as_one_by_one() {
        let row = 7;
        let rows = 2 * parallel::PART / row + 3;
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let buffer = Buffer::input("x", Role::Activation, dtype, rows, row);
            let drawn = Draw::new(9, "x").buffer(&buffer, Distribution::ConstantRows);
            let mut draw = Draw::new(9, "x");
            let one_by_one: Vec<f32> = (0..rows).map(|_| round_to(draw.normal(), dtype)).collect();
            let Values::Float(values) = &drawn else { panic!("no numbers") };
            assert_eq!(values.len(), buffer.len);
            assert!(values.iter().enumerate().all(|(index, value)| *value == one_by_one[index / row]), "{dtype:?}");
            let mut bytes = vec![0; buffer.bytes()];
            encode(&drawn, dtype, &mut bytes);
            assert!((0..buffer.len).all(|index| decode(&bytes, index, dtype) == f64::from(values[index])), "{dtype:?}");
        }
    }

    #[test]
    fn numbers_that_are_drawn_by_blocks_are_those_drawn_one_by_one() {
        for len in [0, 1, 5, 1023, 1025, 5000] {
            let (mut many, mut single) = (Draw::new(3, "x"), Draw::new(3, "x"));
            assert_eq!(many.units(len, |unit| unit), (0..len).map(|_| single.unit()).collect::<Vec<_>>());
            assert_eq!((many.bits(), many.unit()), (single.bits(), single.unit()), "and so are those after {len}");
        }
    }

    #[test]
    fn numbers_are_rounded_as_the_type_says() {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let (got, known) = (round_to(value, DType::Bf16), bf16::from_f32(value).to_f32());
                assert_eq!(got.to_bits(), known.to_bits(), "{value:e}");
            }
        }
    }

    #[test]
    fn a_mask_may_lie_anywhere_and_leaves_something_in_every_row() {
        let buffer = Buffer::input("x", Role::Activation, DType::F32, 500, 97);
        let Values::Float(values) = Draw::new(4, "x").buffer(&buffer, Distribution::Masked) else { panic!() };
        let rows: Vec<&[f32]> = values.chunks(97).collect();
        let is_masked = |value: &f32| *value == f32::NEG_INFINITY;
        assert!(rows.iter().all(|row| !row.iter().all(is_masked)));
        let count = |which: &dyn Fn(&[f32]) -> bool| rows.iter().filter(|row| which(row)).count();
        let begins = count(&|row| row[..16].iter().all(is_masked));
        let ends = count(&|row| row[81..].iter().all(is_masked));
        // Whoever takes the first masked stretch for the end of its row is wrong in these.
        let goes_on = count(&|row| {
            let stretch = row.windows(16).position(|stretch| stretch.iter().all(is_masked));
            stretch.is_some_and(|at| row[at + 16..].iter().any(|value| !is_masked(value)))
        });
        let plain = count(&|row| !row.iter().any(is_masked));
        assert!(begins > 100 && ends > 100 && goes_on > 200 && plain < 50, "{begins} {ends} {goes_on} {plain}");
    }

    #[test]
    fn a_seed_means_the_same_numbers_in_every_version() {
        let buffer = Buffer::input("x", Role::Activation, DType::Bf16, 2, parallel::PART);
        let Values::Float(values) = Draw::new(1, "x").buffer(&buffer, Distribution::Outlier) else { panic!() };
        let sum = values.iter().fold(0u64, |sum, value| sum.rotate_left(5) ^ u64::from(value.to_bits()));
        assert_eq!(sum, 1278341608285029826);
    }
}
