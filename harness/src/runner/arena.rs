//! The memory of one case on the host: inputs encoded, outputs poisoned, everything else patterned, and what it looks like
//! after a call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kopt_schema::{DType, wire};

use super::blueprint::{Blueprint, mix};
use super::memory::{Given, Layout, Shared};
use crate::kernel::Buffer;
use crate::parallel;
use crate::tensor::{Tensors, encode};

/// The memory of one case.
#[derive(Debug)]
pub(crate) struct Arena {
    pub blueprint: Blueprint,
    pub inputs: Shared,
    pub outputs: Shared,
}

impl Arena {
    /// Lays out `windows` copies of the buffers. `noise` seeds poison and pattern; `turn` chooses the kinds of poison.
    pub(crate) fn new(
        buffers: Vec<Buffer>,
        windows: usize,
        layout: Layout,
        noise: u64,
        turn: u64,
    ) -> std::io::Result<Self> {
        let mut arena = Self::of(Blueprint::new(buffers, windows, layout, noise, turn))?;
        if layout == Layout::Fenced {
            arena.blueprint.pattern(arena.inputs.bytes_mut());
            arena.blueprint.pattern(arena.outputs.bytes_mut());
        }
        Ok(arena)
    }

    /// Memory for a layout, as the system gives it.
    pub(crate) fn of(blueprint: Blueprint) -> std::io::Result<Self> {
        let (inputs, outputs) = (Shared::new(blueprint.lens[0])?, Shared::new(blueprint.lens[1])?);
        inputs.seal()?;
        outputs.settle()?;
        Ok(Self { blueprint, inputs, outputs })
    }

    /// The two files, as a worker gets them.
    pub(crate) fn files(&self) -> (&dyn Given, &dyn Given) {
        (&self.inputs, &self.outputs)
    }

    /// Writes the inputs of a window; `first` is where the entry's buffers start.
    pub(crate) fn fill(&mut self, window: usize, first: usize, tensors: &Tensors) {
        let mut seen = std::collections::BTreeSet::new();
        let read = self.blueprint.buffers.iter().enumerate().skip(first).filter(|(_, buffer)| !buffer.written);
        for (index, buffer) in read {
            // The next entry's buffers may have the same names.
            if !seen.insert(buffer.name) {
                break;
            }
            if let Some(values) = tensors.get(buffer.name) {
                encode(values, buffer.dtype, &mut self.inputs.bytes_mut()[self.blueprint.span(index, window)]);
            }
        }
    }

    /// Poisons the outputs of a window.
    pub(crate) fn poison(&mut self, window: usize) {
        for index in self.blueprint.written() {
            let span = self.blueprint.span(index, window);
            let dtype = self.blueprint.buffers[index].dtype;
            let (layout, bytes) = (&self.blueprint, &mut self.outputs.bytes_mut()[span]);
            match dtype.size() {
                _ if bytes.len() <= parallel::PART => layout.poison(dtype, bytes),
                2 => poison::<2>(layout, dtype, bytes),
                _ => poison::<4>(layout, dtype, bytes),
            }
        }
    }

    /// What the file of outputs looks like before any call: every window poisoned, a pattern elsewhere.
    pub(crate) fn poisoned_image(&mut self) -> Vec<u8> {
        self.blueprint.pattern(self.outputs.bytes_mut());
        self.poison(0);
        let mut image = self.outputs.bytes().to_vec();
        // The poison of an element is the same in every window.
        for index in self.blueprint.written() {
            for window in 1..self.blueprint.windows {
                image.copy_within(self.blueprint.span(index, 0), self.blueprint.span(index, window).start);
            }
        }
        parallel::copy(&image, self.outputs.bytes_mut());
        image
    }

    /// A checksum of the inputs, to see that they are the same after a call.
    pub(crate) fn input_sum(&self) -> u64 {
        let total = AtomicU64::new(0);
        let parts = self.inputs.bytes().chunks(8 * parallel::PART).enumerate();
        parallel::each(parts, |(part, bytes)| {
            let sum = bytes.chunks_exact(8).enumerate().fold(0, |sum: u64, (index, chunk)| {
                let mut word = [0; 8];
                word.copy_from_slice(chunk);
                sum.wrapping_add(mix(u64::from_le_bytes(word), part * parallel::PART + index))
            });
            // Wraps, and so does not depend on who comes first.
            total.fetch_add(sum, Relaxed);
        });
        total.into_inner()
    }

    /// The bytes of an output after a call.
    pub(crate) fn output(&self, name: &str, window: usize) -> &[u8] {
        self.blueprint.find(name).map_or(&[], |index| &self.outputs.bytes()[self.blueprint.span(index, window)])
    }

    /// The first byte outside every buffer that no longer holds the pattern, told as a place near a buffer. Fenced
    /// layouts only.
    pub(crate) fn trespass(&self) -> Option<String> {
        let bytes = self.outputs.bytes();
        let mut at = 0;
        for span in self.blueprint.outputs().into_iter().chain(std::iter::once(bytes.len()..bytes.len())) {
            if let Some(changed) = (at..span.start).find(|index| bytes[*index] != self.blueprint.pattern_byte(*index)) {
                return Some(self.blueprint.near(changed));
            }
            at = span.end;
        }
        None
    }

    /// What a worker needs to map it.
    pub(crate) fn wire(&self, entries: Vec<wire::EntryCall>) -> wire::Arena {
        self.blueprint.wire(false, [self.inputs.len(), self.outputs.len()], entries)
    }
}

/// Writes the poison of a buffer whose elements have `N` bytes, by all processors.
fn poison<const N: usize>(layout: &Blueprint, dtype: DType, bytes: &mut [u8]) {
    parallel::each(bytes.chunks_mut(N * parallel::PART).enumerate(), |(part, bytes)| {
        for (index, element) in bytes.chunks_exact_mut(N).enumerate() {
            let bits = layout.poison_of(part * parallel::PART + index, dtype).to_le_bytes();
            element.copy_from_slice(&bits[..N]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Role;

    #[test]
    fn poison_and_checksum_of_many_parts_are_those_of_the_layout() {
        for dtype in [DType::F32, DType::Bf16, DType::F16, DType::I32] {
            let len = 2 * parallel::PART + 3;
            let buffers = vec![
                Buffer::input("x", Role::Activation, dtype, 1, len),
                Buffer::output("y", Role::Output, dtype, 1, len),
            ];
            let mut arena = Arena::new(buffers, 1, Layout::Fenced, 5, 2).unwrap();
            arena.poison(0);
            let mut image = vec![0; len * dtype.size()];
            arena.blueprint.poison(dtype, &mut image);
            assert!(arena.output("y", 0) == image, "{dtype:?}");
            let sum = arena.input_sum();
            let span = arena.blueprint.span(0, 0);
            for at in [span.start, span.start + len, span.end - 1] {
                arena.inputs.bytes_mut()[at] ^= 1;
                assert_ne!(arena.input_sum(), sum, "byte {at}");
                arena.inputs.bytes_mut()[at] ^= 1;
            }
            assert_eq!(arena.input_sum(), sum);
        }
    }
}
