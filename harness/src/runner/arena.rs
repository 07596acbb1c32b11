//! The memory of one case on the host: inputs encoded, outputs poisoned, everything else patterned, and what it looks like
//! after a call.

use kopt_schema::wire;

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
            self.blueprint.poison(self.blueprint.buffers[index].dtype, &mut self.outputs.bytes_mut()[span]);
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
        self.inputs.bytes().chunks_exact(8).enumerate().fold(0, |sum: u64, (index, chunk)| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            sum.wrapping_add(mix(u64::from_le_bytes(word), index))
        })
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
