//! One call of an entry: what goes in, what comes out, and the same again with tensors of its own.

use kopt_harness::slot::{Argument, Slot};

use super::processor_s;
use crate::tensor::Tensor;

/// A call of an entry. Sizes are in the order of the operator's parameters.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) entry: &'static str,
    pub(super) sizes: Vec<(&'static str, usize)>,
    pub(super) reads: Vec<(&'static str, &'a [f32])>,
    /// Which of them the op before has just written.
    pub(super) fresh: &'static str,
    pub(super) indices: Option<(&'static str, &'a [i32])>,
    pub(super) scalar: Option<(&'static str, f32)>,
    pub(super) writes: Vec<Written<'a>>,
}

/// An output: rows of `row`, each element a sum of `terms`.
#[derive(Debug)]
pub(super) struct Written<'a> {
    pub(super) name: &'static str,
    pub(super) values: &'a mut [f32],
    pub(super) row: usize,
    pub(super) terms: usize,
}

impl Call<'_> {
    pub(super) fn shape(&self) -> String {
        self.sizes.iter().map(|(_, size)| size.to_string()).collect::<Vec<_>>().join("x")
    }

    pub(super) fn run(&mut self, slot: &Slot) -> Result<f64, String> {
        let mut arguments: Vec<(&str, Argument<'_>)> = Vec::with_capacity(10);
        arguments.extend(self.sizes.iter().map(|(name, size)| (*name, Argument::Size(*size))));
        arguments.extend(self.reads.iter().map(|(name, values)| (*name, Argument::Read(values))));
        arguments.extend(self.indices.iter().map(|(name, values)| (*name, Argument::Indices(values))));
        arguments.extend(self.scalar.iter().map(|(name, value)| (*name, Argument::Scalar(*value))));
        arguments.extend(self.writes.iter_mut().map(|written| (written.name, Argument::Write(written.values))));
        let start = processor_s();
        let outcome = slot.call(self.entry, &mut arguments);
        let seconds = processor_s() - start;
        outcome.map(|()| seconds).map_err(|error| error.to_string())
    }

    pub(super) fn kept(&self) -> Kept {
        let copy = |values: &[f32]| {
            let mut tensor = Tensor::zeros(values.len());
            tensor.copy_from_slice(values);
            tensor
        };
        let indices = self.indices.map(|(name, values)| {
            let mut tensor = Tensor::zeros(values.len());
            tensor.copy_from_slice(values);
            (name, tensor)
        });
        Kept {
            entry: self.entry,
            sizes: self.sizes.clone(),
            reads: self.reads.iter().map(|(name, values)| (*name, copy(values))).collect(),
            fresh: self.fresh,
            indices,
            scalar: self.scalar,
            writes: self.writes.iter().map(|written| (written.name, Tensor::zeros(written.values.len()))).collect(),
        }
    }
}

/// A call with tensors of its own, to be repeated.
#[derive(Debug)]
pub(super) struct Kept {
    entry: &'static str,
    sizes: Vec<(&'static str, usize)>,
    reads: Vec<(&'static str, Tensor<f32>)>,
    fresh: &'static str,
    indices: Option<(&'static str, Tensor<i32>)>,
    scalar: Option<(&'static str, f32)>,
    writes: Vec<(&'static str, Tensor<f32>)>,
}

impl Kept {
    pub(super) fn call(&mut self) -> Call<'_> {
        Call {
            entry: self.entry,
            sizes: self.sizes.clone(),
            reads: self.reads.iter().map(|(name, values)| (*name, &**values)).collect(),
            fresh: self.fresh,
            indices: self.indices.as_ref().map(|(name, values)| (*name, &**values)),
            scalar: self.scalar,
            writes: self.writes.iter_mut().map(|(name, values)| Written { name, values, row: 1, terms: 1 }).collect(),
        }
    }

    /// Entry and shape.
    pub(super) fn key(&mut self) -> (&'static str, String) {
        (self.entry, self.call().shape())
    }

    /// Writes what the op before would have, as it is.
    pub(super) fn write_fresh(&mut self) {
        for (_, values) in self.reads.iter_mut().filter(|(name, _)| *name == self.fresh) {
            values.iter_mut().for_each(|value| *value = std::hint::black_box(*value));
        }
    }

    /// Seconds that reading the results takes.
    pub(super) fn read(&self) -> f64 {
        let start = processor_s();
        for (_, values) in &self.writes {
            std::hint::black_box(values.iter().fold(0, |all, value| all ^ value.to_bits()));
        }
        processor_s() - start
    }
}
