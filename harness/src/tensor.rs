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
        DType::Bf16 => bf16::from_f32(value).to_f32(),
        DType::F16 => f16::from_f32(value).to_f32(),
    }
}

/// Writes values as elements of `dtype`.
pub fn encode(values: &Values, dtype: DType, into: &mut [u8]) {
    match (values, dtype) {
        (Values::Float(values), DType::F32) => {
            into.chunks_exact_mut(4).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_le_bytes()));
        }
        (Values::Float(values), DType::Bf16) => {
            into.chunks_exact_mut(2)
                .zip(values)
                .for_each(|(bytes, value)| bytes.copy_from_slice(&bf16::from_f32(*value).to_le_bytes()));
        }
        (Values::Float(values), DType::F16) => {
            into.chunks_exact_mut(2)
                .zip(values)
                .for_each(|(bytes, value)| bytes.copy_from_slice(&f16::from_f32(*value).to_le_bytes()));
        }
        (Values::Int(values), _) => {
            into.chunks_exact_mut(4).zip(values).for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_le_bytes()));
        }
        (Values::Float(_), DType::I32) => unreachable!("an integer buffer holds integers"),
    }
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
            Distribution::Normal => self.many(len, Self::normal),
            Distribution::Large => self.many(len, |draw| draw.normal() * scales.large),
            Distribution::Tiny => self.many(len, |draw| draw.normal() * scales.tiny),
            Distribution::Negative => self.many(len, |draw| -draw.unit().abs()),
            Distribution::ConstantRows => {
                let rows: Vec<f32> = (0..len.div_ceil(row)).map(|_| self.normal()).collect();
                (0..len).map(|index| rows[index / row]).collect()
            }
            Distribution::Denormal => {
                let smallest = buffer.dtype.smallest_normal() as f32;
                self.many(len, |draw| draw.unit() * smallest)
            }
            _ => self.many(len, Self::unit),
        };
        for value in &mut values {
            *value = round_to(*value, buffer.dtype);
        }
        self.plant(&mut values, row, distribution, scales, buffer.dtype);
        Values::Float(values)
    }

    /// Many numbers. Of very many each part has a source of its own, so that all processors can draw.
    fn many(&mut self, len: usize, one: impl Fn(&mut Self) -> f32 + Sync) -> Vec<f32> {
        if len <= parallel::PART {
            return (0..len).map(|_| one(self)).collect();
        }
        let seed = self.bits();
        let mut values = vec![0.0; len];
        parallel::each(values.chunks_mut(parallel::PART).enumerate(), |(part, values)| {
            let mut draw = Self::new(seed, "part");
            draw.rng.set_stream(part as u64);
            values.iter_mut().for_each(|value| *value = one(&mut draw));
        });
        values
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
                Distribution::Masked => {
                    // Causal-like: a tail is masked, at least one element stays.
                    let keep = self.between(1, chunk.len());
                    chunk[keep..].fill(f32::NEG_INFINITY);
                }
                _ => {}
            }
        }
    }
}

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
