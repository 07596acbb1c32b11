//! The layout of one case's memory: which buffer lies where, and what every byte that no kernel wrote must hold.
//!
//! Outputs are poisoned with random bits, NaNs and huge numbers: an element that a kernel never wrote still holds its own
//! bits, and one that it read first has spread them. Every byte of the output file that belongs to no buffer holds
//! a pattern; a changed one was written out of bounds. All of it follows from two numbers, on the host as on a device.

use std::ops::Range;

use kopt_schema::DType;
use kopt_schema::wire::{self, Placed};

use super::memory::{Layout, Placer};
use crate::kernel::{Buffer, Role};
use crate::parallel;

/// A layout. Files are numbered: 0 holds the inputs, 1 the outputs.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    pub buffers: Vec<Buffer>,
    /// Lengths of the two files.
    pub lens: [usize; 2],
    /// Seeds poison and pattern.
    pub noise: u64,
    /// Chooses the kinds of poison.
    pub turn: u64,
    pub windows: usize,
    placed: Vec<Placed>,
    fences: [Vec<(usize, usize)>; 2],
}

impl Blueprint {
    /// Lays out `windows` copies of the buffers. Weights of one name are one buffer, whichever entries read them: forward and
    /// backward of a step have the same.
    pub(crate) fn new(buffers: Vec<Buffer>, windows: usize, layout: Layout, noise: u64, turn: u64) -> Self {
        Self::lay_out(buffers, windows, layout, [noise, turn], false)
    }

    /// The same, with weights that stay where they are in all windows: those of a training run, changed in place.
    pub(crate) fn of_training(buffers: Vec<Buffer>, windows: usize, noise: u64) -> Self {
        Self::lay_out(buffers, windows, Layout::Packed, [noise, 0], true)
    }

    fn lay_out(buffers: Vec<Buffer>, windows: usize, layout: Layout, [noise, turn]: [u64; 2], pinned: bool) -> Self {
        let mut files = [Placer::default(), Placer::default()];
        let mut placed: Vec<Placed> = Vec::new();
        for buffer in &buffers {
            let name = buffer.name.to_owned();
            placed.push(Placed { name, written: buffer.written, bytes: buffer.bytes(), offsets: Vec::new() });
        }
        for _ in 0..windows {
            for (index, buffer) in buffers.iter().enumerate() {
                let twin = buffers[..index].iter().position(|other| shares(other, buffer));
                let file = &mut files[usize::from(buffer.written)];
                let before = placed[index].offsets.first().copied().filter(|_| pinned && is_weight(buffer));
                let shared = twin.and_then(|twin| placed[twin].offsets.last().copied());
                let offset = shared.or(before).unwrap_or_else(|| file.place(buffer.bytes(), buffer.align, layout));
                placed[index].offsets.push(offset);
            }
        }
        let lens = [files[0].len, files[1].len];
        Self { buffers, lens, noise, turn, windows, placed, fences: files.map(|file| file.fences) }
    }

    /// The bytes of a window of a buffer, in its file.
    pub(crate) fn span(&self, buffer: usize, window: usize) -> Range<usize> {
        let place = &self.placed[buffer];
        place.offsets[window]..place.offsets[window] + place.bytes
    }

    /// The first buffer of that name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.name == name)
    }

    /// Bytes of a window's buffers that lie where an earlier one does.
    pub(crate) fn repeated(&self) -> usize {
        let lies_there = |index: usize| self.buffers[..index].iter().any(|one| shares(one, &self.buffers[index]));
        let buffers = self.buffers.iter().enumerate();
        buffers.filter(|(index, _)| lies_there(*index)).map(|(_, buffer)| buffer.bytes()).sum()
    }

    /// Numbers of the buffers that are written.
    pub(crate) fn written(&self) -> impl Iterator<Item = usize> {
        self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.written).map(|(index, _)| index)
    }

    /// Every window of every buffer that is written, in the order of the file.
    pub(crate) fn outputs(&self) -> Vec<Range<usize>> {
        let windows = |index| (0..self.windows).map(move |window| self.span(index, window));
        let mut spans: Vec<_> = self.written().flat_map(windows).collect();
        spans.sort_unstable_by_key(|span| span.start);
        spans
    }

    /// The bits that an element was poisoned with.
    #[inline]
    pub(crate) fn poison_of(&self, index: usize, dtype: DType) -> u32 {
        poison_bits(self.noise, self.turn, index, dtype)
    }

    /// Writes the poison of a buffer.
    pub(crate) fn poison(&self, dtype: DType, bytes: &mut [u8]) {
        let size = dtype.size();
        for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
            element.copy_from_slice(&self.poison_of(index, dtype).to_le_bytes()[..size]);
        }
    }

    /// Writes the pattern over a whole file.
    pub(crate) fn pattern(&self, bytes: &mut [u8]) {
        parallel::each(bytes.chunks_mut(8 * parallel::PART).enumerate(), |(part, bytes)| {
            for (index, chunk) in bytes.chunks_mut(8).enumerate() {
                let word = mix(self.noise, part * parallel::PART + index);
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
        });
    }

    /// What a byte of the pattern is.
    pub(crate) fn pattern_byte(&self, index: usize) -> u8 {
        mix(self.noise, index / 8).to_le_bytes()[index % 8]
    }

    /// A byte outside every output, told as a place near one.
    pub(crate) fn near(&self, at: usize) -> String {
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

    /// What a worker needs to map it, where the two files are as long as `lens` says.
    pub(crate) fn wire(&self, on_device: bool, lens: [usize; 2], entries: Vec<wire::EntryCall>) -> wire::Arena {
        let [input_len, output_len] = lens;
        let [input_fences, output_fences] = self.fences.clone();
        wire::Arena {
            on_device,
            input_len,
            output_len,
            input_fences,
            output_fences,
            buffers: self.placed.clone(),
            entries,
        }
    }
}

/// Whether it is something that an optimizer changes between steps.
pub(crate) fn is_weight(buffer: &Buffer) -> bool {
    buffer.role == Role::Weight && !buffer.written
}

/// Whether two entries read the same weight.
pub(crate) fn shares(one: &Buffer, other: &Buffer) -> bool {
    is_weight(one) && one == other
}

#[inline]
pub(crate) fn mix(noise: u64, index: usize) -> u64 {
    // SplitMix64's finisher: every index gets bits of its own.
    let mut z = noise.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ways to poison an element.
pub(crate) const POISONS: u64 = 3;

/// What an output holds before a call: a quiet NaN with a random payload that no arithmetic produces, or a huge finite
/// number of either sign. The NaN spreads through arithmetic; the huge ones also survive a maximum or a minimum, which
/// drop a NaN. Elements differ in kind, and from turn to turn each takes the next one.
#[inline]
fn poison_bits(noise: u64, turn: u64, index: usize, dtype: DType) -> u32 {
    let random = mix(!noise, index);
    // The kind must not depend on the noise: turns have different noise and must take different kinds.
    let kind = (mix(0, index) % POISONS + turn) % POISONS;
    let (sign, payload) = ((random >> 63) as u32, (random & 0x003f_ffff) as u32);
    // All kinds are computed: a branch on what cannot be foreseen takes longer than any of them.
    let kinds = match dtype {
        DType::F32 => [sign << 31 | 0x7fc0_0000 | payload.max(1), 0x7080_0000 | payload, 0xf080_0000 | payload],
        DType::Bf16 => {
            let huge = payload & 0x7f;
            [sign << 15 | 0x7fc0 | (payload & 0x3f).max(1), 0x7080 | huge, 0xf080 | huge]
        }
        DType::F16 => {
            let huge = payload & 0x3ff;
            [sign << 15 | 0x7e00 | (payload & 0x1ff).max(1), 0x7800 | huge, 0xf800 | huge]
        }
        DType::I32 => [random as u32 | 0x4000_0000, 0x7f00_0000 | payload, 0x8000_0000 | payload],
    };
    kinds[kind as usize]
}
