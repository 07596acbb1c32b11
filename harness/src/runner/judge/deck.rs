//! The contents of one shape in a bout: dealt such that the process has not seen them, at places drawn at random, with
//! results that are known exactly.
//!
//! A few *bases* are drawn and evaluated in f64. Each *deal* is a base under the operator's symmetries (axes turned round,
//! inputs multiplied by powers of two and -1), written into one of many places; what is expected of its outputs follows
//! by the same turn and factors. What is dealt is decided here; where it is kept, and how it is compared there, is for
//! the [`store`] to know.

mod bases;
mod device;
mod host;
mod steps;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use kopt_schema::manifest::Backend;
use kopt_schema::message::{Cost, FailureKind};

use self::bases::{Entry, Input, Known};
use self::device::Device;
use self::host::Host;
use self::store::{Claim, Put, Store};
use super::deal::{self, Deal, Factor};
use crate::kernel::{Case, Kernel};
use crate::package::EntryLayout;
use crate::runner::backend::gpu::table::Table;
use crate::runner::blueprint::Blueprint;
use crate::runner::candidate::Loaded;
use crate::runner::contestant::{Contestant, Loss};
use crate::runner::memory::{Given, Layout};
use crate::runner::{compare, prepare};
use crate::tensor::Draw;

/// Places take at most this much memory, inputs and outputs of one contestant together, and are at most this many. On a
/// device, whose calls are short, a batch needs more of them.
const MEMORY: usize = 64 << 20;
const DEVICE_MEMORY: usize = 512 << 20;
const PLACES: usize = 256;

/// The contents of a shape.
pub(crate) struct Deck {
    blueprint: Blueprint,
    store: Box<dyn Store>,
    entries: Vec<Entry>,
    bases: usize,
    dealt: Vec<Option<Deal>>,
    /// Axes that may be turned, and their extents.
    axes: Vec<(&'static str, usize)>,
    /// Base, axis and turn of what was dealt in this launch.
    seen: HashSet<(usize, &'static str, usize)>,
    /// Who had each file of outputs since all of it was last seen to be as the image.
    holders: Vec<Vec<usize>>,
    pub cost: Cost,
}

impl Deck {
    /// Draws and evaluates the bases, and lays out memory for `contestants`, with room for what they prepare: on the table's
    /// device, if there is a table.
    pub(crate) fn new(
        kernel: &dyn Kernel,
        layouts: &[&'static EntryLayout],
        case: &Case,
        contestants: usize,
        prepared: usize,
        seed: u64,
        table: Option<&Arc<Table>>,
    ) -> Result<Self, Loss> {
        let mut buffers = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        for layout in layouts {
            let symmetry = kernel.symmetry(layout.symbol, case);
            let cost = kernel.cost(layout.symbol, case);
            entries.push(Entry { layout, first: buffers.len(), symmetry, bases: Vec::new(), cost });
            buffers.extend(kernel.buffers(layout.symbol, case));
        }
        buffers.extend(prepare::buffer(prepared));
        let bytes: usize = buffers.iter().map(crate::kernel::Buffer::bytes).sum();
        let memory = if table.is_some() { DEVICE_MEMORY } else { MEMORY };
        let places = (memory / bytes.max(1)).clamp(2, PLACES);
        let blueprint = Blueprint::new(buffers, places, Layout::Packed, Draw::new(seed, "noise").bits(), 0);
        let axes = bases::axes(&entries);
        let variants = bases::variants(&blueprint, &axes, &entries);
        let backend = table.map_or(Backend::Cpu, |table| table.device.driver.backend());
        let bases = bases::draw(&mut entries, kernel, backend, case, variants, &mut Draw::new(seed, "bases"))?;
        let store: Box<dyn Store> = match table {
            Some(table) => Box::new(Device::new(table, &blueprint, contestants, &entries)?),
            None => Box::new(Host::new(blueprint.clone(), contestants)?),
        };
        let mut cost = entries.iter().map(|entry| entry.cost).fold(Cost::default(), |a, b| a + b);
        // A weight that several entries read is flushed once, before the first: the others may find it in the caches.
        cost.bytes_read = (cost.bytes_read - blueprint.repeated() as f64).max(0.0);
        let (dealt, seen, holders) = (vec![None; places], HashSet::new(), vec![Vec::new(); contestants]);
        Ok(Self { blueprint, store, entries, bases, dealt, axes, seen, holders, cost })
    }

    pub(crate) fn places(&self) -> usize {
        self.blueprint.windows
    }

    /// Contents that can be dealt before one returns.
    pub(crate) fn contents(&self) -> u64 {
        bases::variants(&self.blueprint, &self.axes, &self.entries).saturating_mul(self.bases as u64)
    }

    /// Whether the memory has huge pages.
    pub(crate) fn huge_pages(&self) -> bool {
        self.store.huge_pages()
    }

    /// The file of inputs and that of a contestant's outputs.
    pub(crate) fn files(&self, outputs: usize) -> (&dyn Given, &dyn Given) {
        self.store.files(outputs)
    }

    /// What a worker needs to map it and call a candidate on it.
    pub(crate) fn wire(
        &self,
        kernel: &dyn Kernel,
        case: &Case,
        candidate: &Loaded,
    ) -> Result<kopt_schema::wire::Arena, String> {
        let entries: Vec<_> = self.entries.iter().map(|entry| (entry.layout, entry.first)).collect();
        let forward = self.entries.first().map(|entry| entry.layout).ok_or("an operator without an entry")?;
        let calls = prepare::step(kernel, forward, &entries, case, candidate, &self.blueprint.buffers)?;
        let (on_device, lens) = self.store.lens();
        Ok(self.blueprint.wire(on_device, lens, calls))
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

    /// Whether all of a file of outputs is as the image, now that the process that had it is gone; else who may have
    /// changed it, and what. Nobody is left who could change it later: who gets it next answers for that.
    pub(crate) fn returned(&mut self, outputs: usize) -> Result<Option<(Vec<usize>, Loss)>, Loss> {
        let loss = self.intact(outputs)?;
        let holders = std::mem::take(&mut self.holders[outputs]);
        Ok(loss.map(|loss| (holders, loss)))
    }

    /// Deals new contents to `count` places and names them.
    pub(crate) fn deal(&mut self, count: usize, draw: &mut Draw) -> Result<Vec<usize>, Loss> {
        let mut places: Vec<usize> = (0..self.places()).collect();
        for index in 0..count.min(places.len()) {
            let other = draw.between(index, places.len() - 1);
            places.swap(index, other);
        }
        places.truncate(count);
        let deals: Vec<(usize, Deal)> = places.iter().map(|place| (*place, self.draw_deal(draw))).collect();
        self.put(deals)?;
        Ok(places)
    }

    /// A base, and for each axis a turn that this base has not had: neither a row nor a column of it comes again as it was.
    /// Where all have been had, any will do.
    fn draw_deal(&mut self, draw: &mut Draw) -> Deal {
        let most = usize::from(bases::largest_exponent(&self.blueprint));
        let mut factor =
            || Factor { negative: draw.between(0, 1) == 1, exponent: u8::try_from(draw.between(0, most)).unwrap_or(0) };
        let mut factors: Vec<Vec<Factor>> =
            self.entries.iter().map(|entry| entry.symmetry.scaled.iter().map(|_| factor()).collect()).collect();
        self.share_factors(&mut factors);
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

    /// Writes contents to their places.
    fn put(&mut self, deals: Vec<(usize, Deal)>) -> Result<(), Loss> {
        let mut puts = Vec::new();
        for (place, deal) in &deals {
            for (entry, factors) in self.entries.iter().zip(&deal.factors) {
                for Input { number, buffer, bytes } in &entry.bases[deal.base].inputs {
                    let (name, dtype) = (self.blueprint.buffers[*buffer].name, self.blueprint.buffers[*buffer].dtype);
                    let scaled = entry.symmetry.scaled.iter().position(|(input, _)| *input == name);
                    puts.push(Put {
                        number: *number,
                        bytes,
                        span: self.blueprint.span(*buffer, *place),
                        dtype,
                        axes: deal::axes(&entry.symmetry, name, &deal.turns, bytes.len() / dtype.size()),
                        factor: scaled.map(|position| factors[position].value()),
                    });
                }
            }
        }
        self.store.put(&puts)?;
        for (place, deal) in deals {
            self.dealt[place] = Some(deal);
        }
        Ok(())
    }

    /// Compares every output of the calls on these places, last call first: what is still being written is seen then.
    pub(crate) fn check(&mut self, outputs: usize, places: &[usize]) -> Result<Option<Loss>, Loss> {
        self.check_entries(outputs, places, 0..self.entries.len())
    }

    /// The same for some of the entries.
    fn check_entries(&mut self, outputs: usize, places: &[usize], numbers: Range<usize>) -> Result<Option<Loss>, Loss> {
        let mut claims = Vec::new();
        for place in places.iter().rev() {
            let Some(deal) = &self.dealt[*place] else { continue };
            for (entry, factors) in self.entries[numbers.clone()].iter().zip(&deal.factors[numbers.clone()]) {
                for Known { number, expected, within } in &entry.bases[deal.base].outputs {
                    let index = self.blueprint.buffers[entry.first..].iter().position(|b| b.name == expected.name);
                    let Some(buffer) = index.map(|index| entry.first + index) else {
                        let message = format!("the operator's reference gives `{}`, which is no buffer", expected.name);
                        return Err(Loss::of_judge(message));
                    };
                    claims.push(Claim {
                        number: *number,
                        expected,
                        within,
                        buffer,
                        span: self.blueprint.span(buffer, *place),
                        dtype: self.blueprint.buffers[buffer].dtype,
                        axes: deal::axes(&entry.symmetry, expected.name, &deal.turns, expected.values.len()),
                        factor: entry.factor(expected.name, factors),
                    });
                }
            }
        }
        let doubtful = self.store.doubtful(outputs, &claims)?;
        for claim in doubtful.iter().map(|index| &claims[*index]) {
            let bytes = self.store.read(outputs, claim.span.clone())?;
            let runs = deal::runs(&claim.axes, claim.expected.values.len());
            let moved = deal::moved(claim.expected, &runs, claim.factor);
            let buffer = &self.blueprint.buffers[claim.buffer];
            let loss = compare::compare_bytes(&moved, buffer, &bytes, &self.blueprint);
            if loss.is_some() {
                return Ok(loss);
            }
        }
        match doubtful.len() {
            // A device compares in full: there is nothing that it leaves to the host but words.
            1.. if self.store.lens().0 => {
                Err(Loss::of_judge("the judge's device and its host disagree about a result"))
            }
            _ => Ok(None),
        }
    }

    /// Ranges of the outputs of these places.
    fn spans(&self, places: &[usize]) -> Vec<Range<usize>> {
        let written = self.blueprint.written();
        written.flat_map(|index| places.iter().map(move |place| self.blueprint.span(index, *place))).collect()
    }

    /// Empties the caches of all that a call at this place touches.
    pub(crate) fn flush(&self, outputs: usize, place: usize) {
        let spans = |written: bool| -> Vec<Range<usize>> {
            let buffers = self.blueprint.buffers.iter().enumerate().filter(|(_, buffer)| buffer.written == written);
            buffers.map(|(index, _)| self.blueprint.span(index, place)).collect()
        };
        self.store.flush(outputs, [&spans(false), &spans(true)]);
    }

    /// Puts the image back over the outputs of these places.
    pub(crate) fn restore(&mut self, outputs: usize, places: &[usize]) -> Result<(), Loss> {
        let spans = self.spans(places);
        self.store.restore(outputs, &spans)
    }

    /// Whether the outputs of these places are as the image again: a change came after the call had returned.
    pub(crate) fn still(&mut self, outputs: usize, places: &[usize]) -> Result<Option<Loss>, Loss> {
        let spans = self.spans(places);
        let changed = self.store.changed(outputs, &spans)?;
        Ok(changed.map(|index| self.late(spans[index].start)))
    }

    fn late(&self, at: usize) -> Loss {
        let place = self.blueprint.describe(true, at);
        let message = format!("wrote to its outputs after the call had returned, near {place}");
        Loss::new(FailureKind::LateWrite, message)
    }

    /// Whether all of a contestant's output file is as the image, as it must be between batches.
    pub(crate) fn intact(&mut self, outputs: usize) -> Result<Option<Loss>, Loss> {
        let (_, [_, len]) = self.store.lens();
        if self.store.changed(outputs, std::slice::from_ref(&(0..len)))?.is_none() {
            return Ok(None);
        }
        let (now, image) = (self.store.read(outputs, 0..len)?, self.store.image()?);
        let changed = || now.iter().zip(image.iter()).enumerate().filter(|(_, (now, then))| now != then);
        let Some((first, _)) = changed().next() else { return Ok(None) };
        // Memory that is no call's is out of bounds; where only outputs changed, it was when no call had them.
        let spans = self.blueprint.outputs();
        let is_output = |at: usize| {
            let before = spans.partition_point(|span| span.start <= at);
            before > 0 && spans[before - 1].contains(&at)
        };
        let outside = changed().map(|(at, _)| at).find(|at| !is_output(*at));
        Ok(Some(match outside {
            Some(at) => {
                let place = self.blueprint.describe(true, at);
                let message = format!("wrote to memory that it was not given to write to, {place}");
                Loss::new(FailureKind::OutOfBounds, message)
            }
            None => self.late(first),
        }))
    }

    /// A fault, told as a place near a buffer; `number` is that of the arena in the contestant.
    pub(crate) fn explained(&self, loss: Loss, contestant: &Contestant, number: usize) -> Loss {
        let (_, [inputs, outputs]) = self.store.lens();
        let lens = (inputs, outputs);
        let Some((written, offset)) = loss.address.and_then(|address| contestant.locate(number, address, lens)) else {
            return loss;
        };
        let place = self.blueprint.describe(written, offset);
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
