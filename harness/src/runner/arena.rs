//! The memory of one case: inputs encoded, outputs poisoned, everything else patterned, and what it looks like after a
//! call.
//!
//! Outputs are poisoned with random bits, NaNs and huge numbers: an element that a kernel never wrote still holds its own
//! bits, and one that it read first has spread them. Every byte of the output file that belongs to no buffer holds
//! a pattern; a changed one was written out of bounds.

use kopt_schema::DType;
use kopt_schema::wire::{self, Placed};

use super::memory::{Layout, Placer, Shared};
use crate::kernel::Buffer;
use crate::tensor::{Tensors, encode};

/// The memory of one case.
#[derive(Debug)]
pub(crate) struct Arena {
    pub inputs: Shared,
    pub outputs: Shared,
    buffers: Vec<Buffer>,
    placed: Vec<Placed>,
    input_fences: Vec<(usize, usize)>,
    output_fences: Vec<(usize, usize)>,
    noise: u64,
    turn: u64,
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
        let mut files = [Placer::default(), Placer::default()];
        let mut placed: Vec<Placed> = Vec::new();
        for buffer in &buffers {
            let name = buffer.name.to_owned();
            placed.push(Placed { name, written: buffer.written, bytes: buffer.bytes(), offsets: Vec::new() });
        }
        for _ in 0..windows {
            for (buffer, place) in buffers.iter().zip(&mut placed) {
                let file = &mut files[usize::from(buffer.written)];
                place.offsets.push(file.place(buffer.bytes(), buffer.align, layout));
            }
        }
        let [input_file, output_file] = files;
        let mut arena = Self {
            inputs: Shared::new(input_file.len)?,
            outputs: Shared::new(output_file.len)?,
            buffers,
            placed,
            input_fences: input_file.fences,
            output_fences: output_file.fences,
            noise,
            turn,
        };
        arena.inputs.seal()?;
        arena.outputs.settle()?;
        if layout == Layout::Fenced {
            pattern(arena.inputs.bytes_mut(), noise);
            pattern(arena.outputs.bytes_mut(), noise);
        }
        Ok(arena)
    }

    /// The two files, as a worker gets them.
    pub(crate) fn files(&self) -> (&Shared, &Shared) {
        (&self.inputs, &self.outputs)
    }

    /// Writes the inputs of a window; `first` is where the entry's buffers start.
    pub(crate) fn fill(&mut self, window: usize, first: usize, tensors: &Tensors) {
        let mut seen = std::collections::BTreeSet::new();
        for (buffer, place) in self.buffers.iter().zip(&self.placed).skip(first).filter(|(buffer, _)| !buffer.written) {
            // The next entry's buffers may have the same names.
            if !seen.insert(buffer.name) {
                break;
            }
            let start = place.offsets[window];
            if let Some(values) = tensors.get(buffer.name) {
                encode(values, buffer.dtype, &mut self.inputs.bytes_mut()[start..start + place.bytes]);
            }
        }
    }

    /// Poisons the outputs of a window.
    pub(crate) fn poison(&mut self, window: usize) {
        for (buffer, place) in self.buffers.iter().zip(&self.placed).filter(|(buffer, _)| buffer.written) {
            let start = place.offsets[window];
            let bytes = &mut self.outputs.bytes_mut()[start..start + place.bytes];
            let size = buffer.dtype.size();
            for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
                element.copy_from_slice(&poison_bits(self.noise, self.turn, index, buffer.dtype).to_le_bytes()[..size]);
            }
        }
    }

    /// The bytes of a window of a buffer, in its file.
    pub(crate) fn span(&self, buffer: usize, window: usize) -> std::ops::Range<usize> {
        let place = &self.placed[buffer];
        place.offsets[window]..place.offsets[window] + place.bytes
    }

    /// What the file of outputs looks like before any call: every window poisoned, a pattern elsewhere.
    pub(crate) fn poisoned_image(&mut self) -> Vec<u8> {
        pattern(self.outputs.bytes_mut(), self.noise);
        let windows = self.placed.first().map_or(0, |place| place.offsets.len());
        (0..windows).for_each(|window| self.poison(window));
        self.outputs.bytes().to_vec()
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
        match self.placed.iter().find(|place| place.name == name) {
            Some(place) => &self.outputs.bytes()[place.offsets[window]..place.offsets[window] + place.bytes],
            None => &[],
        }
    }

    /// The bytes that an element was poisoned with.
    pub(crate) fn poison_of(&self, index: usize, dtype: DType) -> u32 {
        poison_bits(self.noise, self.turn, index, dtype)
    }

    /// The first byte outside every buffer that no longer holds the pattern, told as a place near a buffer. Fenced
    /// layouts only.
    pub(crate) fn trespass(&self) -> Option<String> {
        let bytes = self.outputs.bytes();
        let mut at = 0;
        let mut spans: Vec<(usize, usize)> = self
            .placed
            .iter()
            .filter(|place| place.written)
            .flat_map(|place| place.offsets.iter().map(|start| (*start, start + place.bytes)))
            .collect();
        spans.sort_unstable();
        spans.push((bytes.len(), bytes.len()));
        for (start, end) in spans {
            if let Some(changed) = (at..start).find(|index| bytes[*index] != pattern_byte(self.noise, *index)) {
                return Some(self.near(changed));
            }
            at = end;
        }
        None
    }

    fn near(&self, at: usize) -> String {
        let written = self.placed.iter().filter(|place| place.written);
        let ends = written.flat_map(|place| place.offsets.iter().map(move |start| (place, *start)));
        let distance = |start: usize, bytes: usize| if at < start { start - at } else { at - (start + bytes) };
        match ends.min_by_key(|(place, start)| distance(*start, place.bytes)) {
            Some((place, start)) if at < start => format!("{} bytes before `{}`", start - at, place.name),
            Some((place, start)) => format!("{} bytes past the end of `{}`", at - (start + place.bytes), place.name),
            None => format!("byte {at}"),
        }
    }

    /// What lies at an offset of the input or the output file, for a fault's address.
    pub(crate) fn describe(&self, written: bool, offset: usize) -> String {
        for place in self.placed.iter().filter(|place| place.written == written) {
            for start in &place.offsets {
                if (*start..start + place.bytes).contains(&offset) {
                    return format!("byte {} of `{}`", offset - start, place.name);
                }
            }
        }
        let of_file = self.placed.iter().filter(|place| place.written == written);
        let nearest = of_file
            .flat_map(|place| place.offsets.iter().map(move |start| (place, *start)))
            .min_by_key(|(place, start)| offset.abs_diff(*start).min(offset.abs_diff(start + place.bytes)));
        match nearest {
            Some((place, start)) if offset < start => format!("{} bytes before `{}`", start - offset, place.name),
            Some((place, start)) => format!("{} bytes past the end of `{}`", offset - start - place.bytes, place.name),
            None => format!("offset {offset}"),
        }
    }

    /// What a worker needs to map it; the entries are added by the caller.
    pub(crate) fn wire(&self, entries: Vec<wire::EntryCall>) -> wire::Arena {
        wire::Arena {
            input_len: self.inputs.len(),
            output_len: self.outputs.len(),
            input_fences: self.input_fences.clone(),
            output_fences: self.output_fences.clone(),
            buffers: self.placed.clone(),
            entries,
        }
    }

    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }
}

fn mix(noise: u64, index: usize) -> u64 {
    // SplitMix64's finisher: every index gets bits of its own.
    let mut z = noise.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn pattern_byte(noise: u64, index: usize) -> u8 {
    mix(noise, index / 8).to_le_bytes()[index % 8]
}

fn pattern(bytes: &mut [u8], noise: u64) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(noise, index).to_le_bytes()[..chunk.len()]);
    }
}

/// Ways to poison an element.
pub(crate) const POISONS: u64 = 3;

/// What an output holds before a call: a quiet NaN with a random payload that no arithmetic produces, or a huge finite
/// number of either sign. The NaN spreads through arithmetic; the huge ones also survive a maximum or a minimum, which
/// drop a NaN. Elements differ in kind, and from turn to turn each takes the next one.
fn poison_bits(noise: u64, turn: u64, index: usize, dtype: DType) -> u32 {
    let random = mix(!noise, index);
    // The kind must not depend on the noise: turns have different noise and must take different kinds.
    let kind = (mix(0, index) % POISONS + turn) % POISONS;
    let (sign, payload) = ((random >> 63) as u32, (random & 0x003f_ffff) as u32);
    match (dtype, kind) {
        (DType::F32, 0) => sign << 31 | 0x7fc0_0000 | payload.max(1),
        (DType::F32, 1) => 0x7080_0000 | payload,
        (DType::F32, _) => 0xf080_0000 | payload,
        (DType::Bf16, 0) => sign << 15 | 0x7fc0 | (payload & 0x3f).max(1),
        (DType::Bf16, 1) => 0x7080 | (payload & 0x7f),
        (DType::Bf16, _) => 0xf080 | (payload & 0x7f),
        (DType::F16, 0) => sign << 15 | 0x7e00 | (payload & 0x1ff).max(1),
        (DType::F16, 1) => 0x7800 | (payload & 0x3ff),
        (DType::F16, _) => 0xf800 | (payload & 0x3ff),
        (DType::I32, 0) => random as u32 | 0x4000_0000,
        (DType::I32, 1) => 0x7f00_0000 | payload,
        (DType::I32, _) => 0x8000_0000 | payload,
    }
}
