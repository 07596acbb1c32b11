//! The memory of one shape in a bout, and what is dealt into it: contents that the process has not seen, at places drawn
//! at random, with results that are known exactly.
//!
//! A few *bases* are drawn and evaluated in f64. Each *deal* is a base under the operator's symmetries (axes turned round,
//! inputs multiplied by powers of two and -1), written into one of many places; what is expected of its outputs follows
//! by the same turn and factors. All contestants read one file of inputs. Each has a file of outputs of its own, so that
//! none can spoil another's, and between batches every byte of it is that of one *image*: poison where outputs are,
//! a pattern elsewhere.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use kopt_schema::DType;
use kopt_schema::message::{Cost, FailureKind};
use kopt_schema::wire::EntryCall;

use super::deal::{self, Deal, Factor};
use crate::distribution::Distribution;
use crate::kernel::{Axis, Case, Kernel, Symmetry};
use crate::package::EntryLayout;
use crate::runner::arena::Arena;
use crate::runner::candidate::Loaded;
use crate::runner::contestant::{Contestant, Loss};
use crate::runner::memory::{Layout, Shared};
use crate::runner::{arguments, compare};
use crate::tensor::{Draw, Expected, Values, encode};

/// Places take at most this much memory, inputs and outputs of one contestant together, and are at most this many.
const MEMORY: usize = 64 << 20;
const PLACES: usize = 256;

/// A bout can deal at least this many contents before one returns, if the reference takes no longer than this in all.
const CONTENTS: u64 = 512;
const BASES: u64 = 64;
const REFERENCE_S: f64 = 1.0;

/// The memory of a shape.
pub(crate) struct Deck {
    arena: Arena,
    /// Outputs of every contestant but the first.
    others: Vec<Shared>,
    image: Vec<u8>,
    entries: Vec<Entry>,
    places: usize,
    bases: usize,
    dealt: Vec<Option<Deal>>,
    /// Axes that may be turned, and their extents.
    axes: Vec<(&'static str, usize)>,
    /// Base, axis and turn of what was dealt in this launch.
    seen: HashSet<(usize, &'static str, usize)>,
    /// Who had each file of outputs since all of it was last seen to be as the image.
    holders: Vec<Vec<usize>>,
    pub huge_pages: bool,
    pub cost: Cost,
}

/// An entry's share of the buffers.
struct Entry {
    layout: &'static EntryLayout,
    first: usize,
    symmetry: Symmetry,
    bases: Vec<Base>,
}

struct Base {
    /// Buffers, by their index in the arena, and their bytes.
    inputs: Vec<(usize, Vec<u8>)>,
    expected: Vec<Expected>,
}

impl Deck {
    /// Lays out memory for `contestants`, and draws and evaluates the bases.
    pub(crate) fn new(
        kernel: &dyn Kernel,
        layouts: &[&'static EntryLayout],
        case: &Case,
        contestants: usize,
        seed: u64,
    ) -> Result<Self, Loss> {
        let setup = |error: String| Loss::new(FailureKind::Setup, error);
        let mut buffers = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        for layout in layouts {
            let symmetry = kernel.symmetry(layout.symbol, case);
            entries.push(Entry { layout, first: buffers.len(), symmetry, bases: Vec::new() });
            buffers.extend(kernel.buffers(layout.symbol, case));
        }
        let bytes: usize = buffers.iter().map(crate::kernel::Buffer::bytes).sum();
        let places = (MEMORY / bytes.max(1)).clamp(2, PLACES);
        let memory = |error: std::io::Error| setup(format!("memory: {error}"));
        let mut arena =
            Arena::new(buffers, places, Layout::Packed, Draw::new(seed, "noise").bits(), 0).map_err(memory)?;
        let image = arena.poisoned_image();
        arena.outputs.bytes_mut().copy_from_slice(&image);
        let mut others = Vec::new();
        for _ in 1..contestants {
            let mut outputs = Shared::new(image.len()).map_err(memory)?;
            outputs.settle().map_err(memory)?;
            outputs.bytes_mut().copy_from_slice(&image);
            others.push(outputs);
        }
        let mut huge_pages = arena.inputs.collapse() & arena.outputs.collapse();
        for outputs in &mut others {
            huge_pages &= outputs.collapse();
        }
        let cost = layouts.iter().map(|layout| kernel.cost(layout.symbol, case)).fold(Cost::default(), |a, b| a + b);
        let (dealt, seen, holders) = (vec![None; places], HashSet::new(), vec![Vec::new(); contestants]);
        let mut deck = Self {
            arena,
            others,
            image,
            axes: axes(&entries),
            entries,
            places,
            bases: 0,
            dealt,
            seen,
            holders,
            huge_pages,
            cost,
        };
        deck.draw_bases(kernel, case, &mut Draw::new(seed, "bases"));
        Ok(deck)
    }

    fn draw_bases(&mut self, kernel: &dyn Kernel, case: &Case, draw: &mut Draw) {
        let begun = std::time::Instant::now();
        let wanted = CONTENTS.div_ceil(self.variants()).clamp(1, BASES);
        for number in 0..wanted {
            if number > 1 && begun.elapsed().as_secs_f64() > REFERENCE_S {
                break;
            }
            for entry in &mut self.entries {
                let symbol = entry.layout.symbol;
                let tensors = kernel.inputs(symbol, case, Distribution::Normal, draw);
                let expected = kernel.expect(symbol, case, &tensors, Distribution::Normal.rounding());
                let buffers = kernel.buffers(symbol, case);
                let read = buffers.iter().enumerate().filter(|(_, buffer)| !buffer.written);
                let inputs = read.map(|(index, buffer)| {
                    let mut bytes = vec![0; buffer.bytes()];
                    if let Some(values) = tensors.get(buffer.name) {
                        debug_assert!(matches!(values, Values::Float(_)) == (buffer.dtype != DType::I32));
                        encode(values, buffer.dtype, &mut bytes);
                    }
                    (entry.first + index, bytes)
                });
                entry.bases.push(Base { inputs: inputs.collect(), expected });
            }
            self.bases += 1;
        }
    }

    /// Contents that one base gives.
    fn variants(&self) -> u64 {
        let factors: usize = self.entries.iter().map(|entry| entry.symmetry.scaled.len()).sum();
        let turns = self.axes.iter().map(|(_, extent)| *extent as u64).max().unwrap_or(1);
        let each = 2 * (u64::from(self.largest_exponent()) + 1);
        turns.saturating_mul(each.saturating_pow(u32::try_from(factors).unwrap_or(u32::MAX)))
    }

    /// Sums of products of two scaled inputs must stay in the type's range.
    fn largest_exponent(&self) -> u8 {
        let narrow = self.arena.buffers().iter().any(|buffer| buffer.dtype == DType::F16);
        if narrow { 1 } else { 15 }
    }

    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Contents that can be dealt before one returns.
    pub(crate) fn contents(&self) -> u64 {
        self.variants().saturating_mul(self.bases as u64)
    }

    /// The file of inputs and that of a contestant's outputs.
    pub(crate) fn files(&self, outputs: usize) -> (&Shared, &Shared) {
        (&self.arena.inputs, outputs.checked_sub(1).map_or(&self.arena.outputs, |other| &self.others[other]))
    }

    fn outputs_mut(&mut self, outputs: usize) -> &mut Shared {
        match outputs.checked_sub(1) {
            None => &mut self.arena.outputs,
            Some(other) => &mut self.others[other],
        }
    }

    /// What a worker needs to map it and call a candidate on it.
    pub(crate) fn wire(
        &self,
        kernel: &dyn Kernel,
        case: &Case,
        candidate: &Loaded,
    ) -> Result<kopt_schema::wire::Arena, String> {
        let call = |entry: &Entry| {
            arguments::entry_call(kernel, entry.layout, case, entry.first, candidate.plan.as_ref(), &candidate.knobs)
        };
        let calls: Result<Vec<EntryCall>, String> = self.entries.iter().map(call).collect();
        Ok(self.arena.wire(calls?))
    }

    /// Forgets what was dealt: the processes that saw it are gone.
    pub(crate) fn shuffle(&mut self) {
        self.seen.clear();
    }

    /// Each contestant gets a file of outputs.
    pub(crate) fn hand_out(&mut self, outputs: &[usize]) {
        for (contestant, outputs) in outputs.iter().enumerate() {
            if !self.holders[*outputs].contains(&contestant) {
                self.holders[*outputs].push(contestant);
            }
        }
    }

    /// Whether all of a contestant's file of outputs is as the image; else who may have changed it, and what.
    pub(crate) fn returned(&mut self, outputs: usize, contestant: usize) -> Option<(Vec<usize>, Loss)> {
        let loss = self.intact(outputs);
        let holders = std::mem::replace(&mut self.holders[outputs], vec![contestant]);
        loss.map(|loss| (holders, loss))
    }

    /// Deals new contents to `count` places and names them.
    pub(crate) fn deal(&mut self, count: usize, draw: &mut Draw) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.places).collect();
        for index in 0..count.min(self.places) {
            let other = draw.between(index, self.places - 1);
            places.swap(index, other);
        }
        places.truncate(count);
        for place in &places {
            let deal = self.draw_deal(draw);
            self.write(*place, &deal);
            self.dealt[*place] = Some(deal);
        }
        places
    }

    /// A base, and for each axis a turn that this base has not had: neither a row nor a column of it comes again as it was.
    /// Where all have been had, any will do.
    fn draw_deal(&mut self, draw: &mut Draw) -> Deal {
        let most = usize::from(self.largest_exponent());
        let mut factor =
            || Factor { negative: draw.between(0, 1) == 1, exponent: u8::try_from(draw.between(0, most)).unwrap_or(0) };
        let factors =
            self.entries.iter().map(|entry| entry.symmetry.scaled.iter().map(|_| factor()).collect()).collect();
        let base = draw.between(0, self.bases - 1);
        let mut turns = Vec::new();
        for (axis, extent) in &self.axes {
            let mut turn = draw.between(0, extent - 1);
            let fresh = (0..*extent).map(|step| (turn + step) % extent);
            turn = fresh.into_iter().find(|turn| !self.seen.contains(&(base, *axis, *turn))).unwrap_or(turn);
            self.seen.insert((base, *axis, turn));
            turns.push((*axis, turn));
        }
        Deal { base, turns, factors }
    }

    fn write(&mut self, place: usize, deal: &Deal) {
        for (entry, factors) in self.entries.iter().zip(&deal.factors) {
            for (index, bytes) in &entry.bases[deal.base].inputs {
                let (name, dtype) = (self.arena.buffers()[*index].name, self.arena.buffers()[*index].dtype);
                let span = self.arena.span(*index, place);
                let into = &mut self.arena.inputs.bytes_mut()[span];
                let runs = deal::runs(&entry.symmetry, name, &deal.turns, bytes.len() / dtype.size());
                deal::copy(bytes, into, dtype.size(), &runs);
                let scaled = entry.symmetry.scaled.iter().position(|(input, _)| *input == name);
                if let Some(factor) = scaled.map(|position| factors[position].value()) {
                    deal::multiply(into, dtype, factor as f32);
                }
            }
        }
    }

    /// Compares every output of the calls on these places, last call first: what is still being written is seen then.
    pub(crate) fn check(&self, outputs: usize, places: &[usize]) -> Option<Loss> {
        let (_, file) = self.files(outputs);
        for place in places.iter().rev() {
            let Some(deal) = &self.dealt[*place] else { continue };
            for (entry, factors) in self.entries.iter().zip(&deal.factors) {
                for expected in &entry.bases[deal.base].expected {
                    let index = self.arena.buffers()[entry.first..].iter().position(|b| b.name == expected.name);
                    let Some(index) = index.map(|index| entry.first + index) else {
                        let message = format!("the operator's reference gives `{}`, which is no buffer", expected.name);
                        return Some(Loss::new(FailureKind::Setup, message));
                    };
                    let bytes = &file.bytes()[self.arena.span(index, *place)];
                    let runs = deal::runs(&entry.symmetry, expected.name, &deal.turns, expected.values.len());
                    let factor = entry.factor(expected.name, factors);
                    if self.arena.buffers()[index].dtype == DType::F32
                        && deal::all_right(bytes, expected, &runs, factor)
                    {
                        continue;
                    }
                    let moved = deal::moved(expected, &runs, factor);
                    let loss = compare::compare_bytes(&moved, &self.arena.buffers()[index], bytes, &self.arena);
                    if loss.is_some() {
                        return loss;
                    }
                }
            }
        }
        None
    }

    /// Puts the image back over the outputs of these places.
    pub(crate) fn restore(&mut self, outputs: usize, places: &[usize]) {
        let written: Vec<usize> =
            (0..self.arena.buffers().len()).filter(|index| self.arena.buffers()[*index].written).collect();
        for place in places {
            for index in &written {
                let span = self.arena.span(*index, *place);
                let image = std::mem::take(&mut self.image);
                self.outputs_mut(outputs).bytes_mut()[span.clone()].copy_from_slice(&image[span]);
                self.image = image;
            }
        }
    }

    /// Whether the outputs of these places are as the image again: a change came after the call had returned.
    pub(crate) fn still(&self, outputs: usize, places: &[usize]) -> Option<Loss> {
        let (_, file) = self.files(outputs);
        let written = self.arena.buffers().iter().enumerate().filter(|(_, buffer)| buffer.written);
        let mut spans = written.flat_map(|(index, _)| places.iter().map(move |place| self.arena.span(index, *place)));
        let changed = spans.find(|span| file.bytes()[span.clone()] != self.image[span.clone()])?;
        let place = self.arena.describe(true, changed.start);
        let message = format!("wrote to its outputs after the call had returned, near {place}");
        Some(Loss::new(FailureKind::LateWrite, message))
    }

    /// Whether all of a contestant's output file is as the image, as it must be between batches.
    pub(crate) fn intact(&self, outputs: usize) -> Option<Loss> {
        let (_, file) = self.files(outputs);
        if file.bytes()[..self.image.len()] == self.image {
            return None;
        }
        let mut changed = file.bytes().iter().zip(&self.image).enumerate().filter(|(_, (now, then))| now != then);
        let first = changed.next()?.0;
        // Memory that is no call's is out of bounds; where only outputs changed, it was when no call had them.
        let outputs = self.arena.buffers().iter().enumerate().filter(|(_, buffer)| buffer.written);
        let mut spans: Vec<_> =
            outputs.flat_map(|(index, _)| (0..self.places).map(move |place| self.arena.span(index, place))).collect();
        spans.sort_unstable_by_key(|span| span.start);
        let is_output = |at: usize| {
            let before = spans.partition_point(|span| span.start <= at);
            before > 0 && spans[before - 1].contains(&at)
        };
        let outside = std::iter::once(first).chain(changed.map(|(at, _)| at)).find(|at| !is_output(*at));
        Some(match outside {
            Some(at) => {
                let place = self.arena.describe(true, at);
                let message = format!("wrote to memory that it was not given to write to, {place}");
                Loss::new(FailureKind::OutOfBounds, message)
            }
            None => {
                let place = self.arena.describe(true, first);
                let message = format!("wrote to its outputs after the call had returned, near {place}");
                Loss::new(FailureKind::LateWrite, message)
            }
        })
    }

    /// A fault, told as a place near a buffer; `number` is that of the arena in the contestant.
    pub(crate) fn explained(&self, loss: Loss, contestant: &Contestant, number: usize) -> Loss {
        let lens = (self.arena.inputs.len(), self.arena.outputs.len());
        let Some((written, offset)) = loss.address.and_then(|address| contestant.locate(number, address, lens)) else {
            return loss;
        };
        let place = self.arena.describe(written, offset);
        match (written, place.starts_with("byte")) {
            (false, true) => {
                let message = format!("wrote to an input, {place}: inputs are read-only");
                Loss { kind: FailureKind::InputModified, message, ..loss }
            }
            // A fault in its own output is none of its bounds.
            (true, true) => loss,
            _ => {
                let message = format!("touched memory outside its buffers, {place}");
                Loss { kind: FailureKind::OutOfBounds, message, ..loss }
            }
        }
    }
}

/// The axes of all entries' buffers that may be turned.
fn axes(entries: &[Entry]) -> Vec<(&'static str, usize)> {
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
    fn factor(&self, output: &str, factors: &[Factor]) -> f64 {
        let scaled = self.symmetry.scaled.iter().zip(factors);
        scaled.filter(|((_, outputs), _)| outputs.contains(&output)).map(|(_, factor)| factor.value()).product()
    }
}
