//! A deck's memory on a GPU. The judge owns it; contestants map it, inputs for reading only. Bases, what is expected,
//! and the image are in buffers that no other process can reach. Nothing goes over the bus in a batch but a few flags.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::bases::Entry;
use super::store::{Claim, Put, Store};
use crate::runner::backend::BackendError;
use crate::runner::backend::gpu::memory::{self, Buffer, Exported};
use crate::runner::backend::gpu::table::{Output, Table, Turned};
use crate::runner::blueprint::Blueprint;
use crate::runner::contestant::Loss;
use crate::runner::memory::Given;

/// Memory of a device.
pub(super) struct Device {
    table: Arc<Table>,
    inputs: Exported,
    outputs: Vec<Exported>,
    image: Buffer,
    bases: Arc<Bases>,
    /// One for each claim or range of a question.
    flags: Buffer,
}

/// What bases are on the device: gigabytes, for all memory that is laid out for them.
struct Bases {
    /// Inputs, and values and bounds of outputs, by number.
    inputs: Vec<Buffer>,
    known: Vec<[Buffer; 2]>,
}

impl Bases {
    fn new(table: &Table, entries: &[Entry]) -> Result<Self, BackendError> {
        let device = &table.device;
        let (mut inputs, mut known): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for base in entries.iter().flat_map(|entry| &entry.bases) {
            for input in &base.inputs {
                inputs.push((input.number, Buffer::with(device, &input.bytes)?));
            }
            for output in &base.outputs {
                let upload = |numbers: &[f64]| Buffer::with(device, bytes_of(numbers));
                known.push((output.number, [upload(&output.expected.values)?, upload(&output.expected.bounds)?]));
            }
        }
        inputs.sort_by_key(|(number, _)| *number);
        known.sort_by_key(|(number, _)| *number);
        Ok(Self {
            inputs: inputs.into_iter().map(|(_, buffer)| buffer).collect(),
            known: known.into_iter().map(|(_, buffers)| buffers).collect(),
        })
    }
}

impl Device {
    pub(super) fn new(
        table: &Arc<Table>,
        blueprint: &Blueprint,
        contestants: usize,
        entries: &[Entry],
    ) -> Result<Self, Loss> {
        Self::with(table, Arc::new(Bases::new(table, entries)?), blueprint, contestants)
    }

    fn with(table: &Arc<Table>, bases: Arc<Bases>, blueprint: &Blueprint, contestants: usize) -> Result<Self, Loss> {
        let device = &table.device;
        let inputs = Exported::new(device, blueprint.lens[0])?;
        let outputs = (0..contestants).map(|_| Exported::new(device, blueprint.lens[1]));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let image = Buffer::new(device, outputs.first().map_or(0, |file| file.pages.len))?;
        // What the driver gives may hold another process's data.
        table.clear(inputs.pages.address, inputs.pages.len)?;
        paint(table, blueprint, &image)?;
        for file in &outputs {
            table.copy(file.pages.address, image.address, image.len)?;
        }
        let flags = Buffer::new(device, 4 * blueprint.windows * blueprint.buffers.len().max(1))?;
        device.synchronize()?;
        Ok(Self { table: Arc::clone(table), inputs, outputs, image, bases, flags })
    }

    fn address(&self, outputs: usize) -> u64 {
        self.outputs[outputs].pages.address
    }

    /// Asks questions, each with the address of a flag of its own; numbers of those whose flag was raised.
    fn ask(
        &self,
        questions: usize,
        mut ask: impl FnMut(usize, u64) -> Result<(), BackendError>,
    ) -> Result<Vec<usize>, BackendError> {
        let mut raised = Vec::new();
        let most = (self.flags.len / 4).max(1);
        for start in (0..questions).step_by(most) {
            let count = most.min(questions - start);
            self.table.clear(self.flags.address, 4 * count)?;
            for index in 0..count {
                ask(start + index, self.flags.address + 4 * index as u64)?;
            }
            let mut flags = vec![0; 4 * count];
            memory::download(&self.table.device, self.flags.address, &mut flags)?;
            raised.extend((0..count).filter(|index| flags[4 * index] != 0).map(|index| start + index));
        }
        Ok(raised)
    }
}

/// The image: a pattern everywhere, and poison over the outputs.
fn paint(table: &Table, blueprint: &Blueprint, image: &Buffer) -> Result<(), BackendError> {
    table.pattern(image.address, image.len, blueprint.noise)?;
    for index in blueprint.written() {
        let buffer = &blueprint.buffers[index];
        for window in 0..blueprint.windows {
            let to = image.address + blueprint.span(index, window).start as u64;
            table.poison(to, buffer.len, buffer.dtype, blueprint.noise, blueprint.turn)?;
        }
    }
    Ok(())
}

/// Numbers as their bytes.
#[allow(unsafe_code, reason = "a view of plain numbers")]
fn bytes_of(numbers: &[f64]) -> &[u8] {
    // SAFETY: every byte of an f64 may be read, and the length is the slice's own.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

impl Store for Device {
    fn beside(&self, blueprint: &Blueprint, contestants: usize) -> Result<Box<dyn Store>, Loss> {
        Ok(Box::new(Self::with(&self.table, Arc::clone(&self.bases), blueprint, contestants)?))
    }

    fn files(&self, outputs: usize) -> (&dyn Given, &dyn Given) {
        (&self.inputs, &self.outputs[outputs])
    }

    fn lens(&self) -> (bool, [usize; 2]) {
        (true, [self.inputs.pages.len, self.image.len])
    }

    fn huge_pages(&self) -> bool {
        true
    }

    fn put(&mut self, inputs: &[Put<'_>]) -> Result<(), Loss> {
        for put in inputs {
            let (to, from) = (self.inputs.pages.address + put.span.start as u64, self.bases.inputs[put.number].address);
            self.table.deal(to, from, &Turned::new(&put.axes)?, put.dtype, put.factor)?;
        }
        // A contestant reads them as soon as this returns.
        Ok(self.table.device.synchronize()?)
    }

    fn doubtful(&mut self, outputs: usize, claims: &[Claim<'_>]) -> Result<Vec<usize>, Loss> {
        // A reference of another length than the buffer's is for the host to tell.
        let fits = |claim: &Claim<'_>| {
            let (values, bounds) = (claim.expected.values.len(), claim.expected.bounds.len());
            values == bounds && values * claim.dtype.size() == claim.span.len()
        };
        if !claims.iter().all(fits) {
            return Ok((0..claims.len()).collect());
        }
        let doubted = self.ask(claims.len(), |index, flag| {
            let claim = &claims[index];
            let offset = claim.span.start as u64;
            let [values, bounds] = &self.bases.known[claim.number];
            let output = Output {
                got: self.address(outputs) + offset,
                image: self.image.address + offset,
                values: values.address,
                bounds: bounds.address,
                turned: &Turned::new(&claim.axes)?,
                dtype: claim.dtype,
                factor: claim.factor,
            };
            self.table.check(&output, flag)
        });
        Ok(doubted?)
    }

    fn restore(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<(), Loss> {
        for span in spans {
            let offset = span.start as u64;
            self.table.copy(self.address(outputs) + offset, self.image.address + offset, span.len())?;
        }
        Ok(self.table.device.synchronize()?)
    }

    fn changed(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<Option<usize>, Loss> {
        let changed = self.ask(spans.len(), |index, flag| {
            let offset = spans[index].start as u64;
            let (now, then) = (self.address(outputs) + offset, self.image.address + offset);
            self.table.same(now, then, spans[index].len(), flag)
        });
        Ok(changed?.first().copied())
    }

    fn read(&self, outputs: usize, span: Range<usize>) -> Result<Cow<'_, [u8]>, Loss> {
        let mut bytes = vec![0; span.len()];
        self.table.device.here()?;
        memory::download(&self.table.device, self.address(outputs) + span.start as u64, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn image(&self) -> Result<Cow<'_, [u8]>, Loss> {
        let mut bytes = vec![0; self.image.len];
        self.table.device.here()?;
        memory::download(&self.table.device, self.image.address, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    #[cfg(test)]
    fn input(&self, span: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; span.len()];
        memory::download(&self.table.device, self.inputs.pages.address + span.start as u64, &mut bytes).unwrap();
        bytes
    }

    #[cfg(test)]
    fn teach(&mut self, number: usize, expected: &crate::tensor::Expected) {
        for (buffer, numbers) in self.bases.known[number].iter().zip([&expected.values, &expected.bounds]) {
            memory::upload(&self.table.device, buffer.address, bytes_of(numbers)).unwrap();
        }
    }

    #[cfg(test)]
    fn write(&mut self, outputs: usize, at: usize, bytes: &[u8]) {
        memory::upload(&self.table.device, self.address(outputs) + at as u64, bytes).unwrap();
    }
}
