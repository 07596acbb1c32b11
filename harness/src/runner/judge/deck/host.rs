//! A deck's memory in files of the host, which contestants map.

use std::borrow::Cow;
use std::ops::Range;

use kopt_schema::DType;

use super::store::{Claim, Put, Store};
use crate::parallel;
use crate::runner::arena::Arena;
use crate::runner::backend::cpu::flush;
use crate::runner::blueprint::Blueprint;
use crate::runner::contestant::Loss;
use crate::runner::judge::deal::{self, Within};
use crate::runner::memory::{Given, Shared};

/// Files of the host.
pub(super) struct Host {
    arena: Arena,
    /// Outputs of every contestant but the first.
    others: Vec<Shared>,
    image: Vec<u8>,
    huge_pages: bool,
}

impl Host {
    pub(super) fn new(blueprint: Blueprint, contestants: usize) -> Result<Self, Loss> {
        let memory = |error: std::io::Error| Loss::of_judge(format!("memory: {error}"));
        let mut arena = Arena::of(blueprint).map_err(memory)?;
        let image = arena.poisoned_image();
        let mut others = Vec::new();
        for _ in 1..contestants {
            let mut outputs = Shared::new(image.len()).map_err(memory)?;
            outputs.settle().map_err(memory)?;
            parallel::copy(&image, outputs.bytes_mut());
            others.push(outputs);
        }
        let huge_pages = [&arena.inputs, &arena.outputs].into_iter().chain(&others).all(Shared::huge_pages);
        Ok(Self { arena, others, image, huge_pages })
    }

    fn outputs(&self, outputs: usize) -> &Shared {
        outputs.checked_sub(1).map_or(&self.arena.outputs, |other| &self.others[other])
    }

    fn outputs_mut(&mut self, outputs: usize) -> (&mut Shared, &[u8]) {
        let file = match outputs.checked_sub(1) {
            None => &mut self.arena.outputs,
            Some(other) => &mut self.others[other],
        };
        (file, &self.image)
    }
}

impl Store for Host {
    fn beside(&self, blueprint: &Blueprint, contestants: usize) -> Result<Box<dyn Store>, Loss> {
        Ok(Box::new(Self::new(blueprint.clone(), contestants)?))
    }

    fn files(&self, outputs: usize) -> (&dyn Given, &dyn Given) {
        (&self.arena.inputs, self.outputs(outputs))
    }

    fn lens(&self) -> (bool, [usize; 2]) {
        (false, [self.arena.inputs.len(), self.arena.outputs.len()])
    }

    fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    fn put(&mut self, inputs: &[Put<'_>]) -> Result<(), Loss> {
        for Put { bytes, span, dtype, axes, factor, .. } in inputs {
            let into = &mut self.arena.inputs.bytes_mut()[span.clone()];
            let runs = deal::runs(axes, bytes.len() / dtype.size());
            deal::copy(bytes, into, *dtype, factor.map(|factor| factor as f32), &runs);
        }
        Ok(())
    }

    fn doubtful(&mut self, outputs: usize, claims: &[Claim<'_>]) -> Result<Vec<usize>, Loss> {
        let file = self.outputs(outputs).bytes();
        let is_right = |claim: &Claim<'_>| {
            if claim.dtype != DType::F32 {
                return false;
            }
            let runs = deal::runs(&claim.axes, claim.expected.values.len());
            let within = claim.within.get_or_init(|| Within::of(claim.expected));
            deal::all_right(&file[claim.span.clone()], within, &runs, claim.factor)
        };
        let doubted = claims.iter().enumerate().filter(|(_, claim)| !is_right(claim));
        Ok(doubted.map(|(index, _)| index).collect())
    }

    fn flush(&self, outputs: usize, [read, written]: [&[Range<usize>]; 2]) {
        for (file, spans) in [(&self.arena.inputs, read), (self.outputs(outputs), written)] {
            spans.iter().for_each(|span| flush::flush(&file.bytes()[span.clone()]));
        }
    }

    fn restore(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<(), Loss> {
        let (file, image) = self.outputs_mut(outputs);
        for span in spans {
            parallel::copy(&image[span.clone()], &mut file.bytes_mut()[span.clone()]);
        }
        Ok(())
    }

    fn changed(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<Option<usize>, Loss> {
        let file = self.outputs(outputs).bytes();
        Ok(spans.iter().position(|span| !parallel::equal(&file[span.clone()], &self.image[span.clone()])))
    }

    fn read(&self, outputs: usize, span: Range<usize>) -> Result<Cow<'_, [u8]>, Loss> {
        Ok(Cow::Borrowed(&self.outputs(outputs).bytes()[span]))
    }

    fn image(&self) -> Result<Cow<'_, [u8]>, Loss> {
        Ok(Cow::Borrowed(&self.image))
    }

    #[cfg(test)]
    fn input(&self, span: Range<usize>) -> Vec<u8> {
        self.arena.inputs.bytes()[span].to_vec()
    }

    #[cfg(test)]
    fn teach(&mut self, _number: usize, _expected: &crate::tensor::Expected) {
        // A claim brings it.
    }

    #[cfg(test)]
    fn write(&mut self, outputs: usize, at: usize, bytes: &[u8]) {
        self.outputs_mut(outputs).0.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
