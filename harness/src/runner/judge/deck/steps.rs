//! A deck of a training run: weights stay where they are and change in place, everything else gets a place that the process
//! has not seen, and what comes again is chosen, not drawn.

use std::collections::HashSet;

use super::super::deal::Factor;
use super::{Deck, Entry};
use crate::kernel::Axis;
use crate::runner::blueprint::{Blueprint, is_weight, shares};
use crate::runner::contestant::Loss;
use crate::tensor::Draw;

impl Deck {
    /// A deck of the same shape and bases for the steps of a training run.
    pub(crate) fn of_training(&self, places: usize, contestants: usize, noise: u64) -> Result<Self, Loss> {
        let blueprint = Blueprint::of_training(self.blueprint.buffers.clone(), places, noise);
        Ok(Self {
            store: self.store.beside(&blueprint, contestants)?,
            blueprint,
            entries: self.entries.clone(),
            bases: self.bases,
            dealt: vec![None; places],
            axes: self.axes.clone(),
            seen: HashSet::new(),
            holders: vec![Vec::new(); contestants],
            cost: self.cost,
        })
    }

    /// New contents at a place, weights included.
    pub(crate) fn deal_to(&mut self, place: usize, draw: &mut Draw) -> Result<(), Loss> {
        let deal = self.draw_deal(draw);
        self.put(vec![(place, deal)])
    }

    /// New contents at a place but for the weights, which are those of the deal before: axes that a weight has stay, and so
    /// does its factor.
    pub(crate) fn deal_beside_weights(&mut self, place: usize, draw: &mut Draw) -> Result<(), Loss> {
        let Some(before) = self.dealt[place].clone() else { return Ok(()) };
        let mut deal = self.draw_deal(draw);
        deal.base = before.base;
        for ((axis, extent), turn) in self.axes.iter().zip(&mut deal.turns) {
            let had = before.turns.iter().find(|(other, _)| other == axis).map_or(0, |(_, had)| *had);
            turn.1 = match self.is_of_weight(axis) {
                true => had,
                false if turn.1 == had => (had + 1) % extent,
                false => turn.1,
            };
        }
        for (number, entry) in self.entries.iter().enumerate() {
            for (position, (input, _)) in entry.symmetry.scaled.iter().enumerate() {
                let had = before.factors[number][position];
                let factor = &mut deal.factors[number][position];
                // Anything else has another factor: without an axis of its own it would come again as it was.
                let same = *factor == had && !self.is_weight(entry, input);
                *factor = if self.is_weight(entry, input) {
                    had
                } else {
                    Factor { negative: factor.negative ^ same, ..*factor }
                };
            }
        }
        self.put(vec![(place, deal)])
    }

    /// The contents of one place at another.
    pub(crate) fn repeat_at(&mut self, from: usize, to: usize) -> Result<(), Loss> {
        self.dealt[from].clone().map_or(Ok(()), |deal| self.put(vec![(to, deal)]))
    }

    /// Compares every output of one entry.
    pub(crate) fn check_entry(&mut self, outputs: usize, place: usize, number: usize) -> Result<Option<Loss>, Loss> {
        self.check_entries(outputs, &[place], number..number + 1)
    }

    /// Whether there is anything that changes once a step.
    pub(crate) fn has_weights(&self) -> bool {
        self.blueprint.buffers.iter().any(is_weight)
    }

    fn is_weight(&self, entry: &Entry, name: &str) -> bool {
        let mut own = self.blueprint.buffers[entry.first..].iter();
        own.find(|buffer| buffer.name == name).is_some_and(is_weight)
    }

    fn is_of_weight(&self, axis: &str) -> bool {
        self.entries.iter().any(|entry| {
            let tensors = entry.symmetry.tensors.iter().filter(|(name, _)| self.is_weight(entry, name));
            tensors.flat_map(|(_, axes)| axes).any(|one| matches!(one, Axis::Turns(name, _) if *name == axis))
        })
    }

    /// A weight that several entries read has one factor: the first entry's.
    pub(super) fn share_factors(&self, factors: &mut [Vec<Factor>]) {
        let buffers = &self.blueprint.buffers;
        let place = |entry: &Entry, name: &str| {
            let own = buffers[entry.first..].iter().position(|buffer| buffer.name == name);
            own.map(|index| entry.first + index)
        };
        let mut known: Vec<(usize, Factor)> = Vec::new();
        for (entry, factors) in self.entries.iter().zip(factors) {
            for ((input, _), factor) in entry.symmetry.scaled.iter().zip(factors) {
                let Some(index) = place(entry, input) else { continue };
                match known.iter().find(|(other, _)| shares(&buffers[*other], &buffers[index])) {
                    Some((_, first)) => *factor = *first,
                    None => known.push((index, *factor)),
                }
            }
        }
    }
}
