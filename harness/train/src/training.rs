//! Steps of training: text, forward, backward, optimizer.

use kopt_schema::training::StepTaken;

use crate::adamw::AdamW;
use crate::model::{Model, Weights};
use crate::preset::Sizes;
use crate::slots::{Slots, processor_s};
use crate::text::Text;

/// A model while it is trained.
#[derive(Debug)]
pub struct Training {
    text: Text,
    sizes: Sizes,
    seed: u64,
    steps: u64,
    weights: Weights<f32>,
    gradients: Weights<f32>,
    model: Model<f32>,
    optimizer: AdamW<f32>,
    slots: Slots,
}

impl Training {
    /// A model with random weights that follow from `seed`.
    #[must_use]
    pub fn new(sizes: Sizes, seed: u64, slots: Slots) -> Self {
        let text = Text::default();
        let vocabulary = text.vocabulary();
        let weights = Weights::random(sizes, vocabulary, seed);
        let (gradients, optimizer) = (weights.zeros(), AdamW::new(&weights, sizes.width));
        let model = Model::new(sizes, vocabulary);
        Self { text, sizes, seed, steps: 0, weights, gradients, model, optimizer, slots }
    }

    /// Numbers that are learned.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.weights.count()
    }

    /// The ops.
    pub fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Takes a step.
    ///
    /// # Errors
    /// When a kernel fails.
    pub fn step(&mut self) -> Result<StepTaken, String> {
        let (read, next) = self.text.batch(self.seed, self.steps, self.sizes.batch, self.sizes.length);
        let start = processor_s();
        let loss = self.model.forward(&mut self.slots, &self.weights, &read, &next);
        self.model.backward(&mut self.slots, &self.weights, &mut self.gradients, &read);
        self.optimizer.step(&mut self.weights, &self.gradients);
        let seconds = processor_s() - start;
        self.steps += 1;
        let calls = self.slots.take_times()?;
        Ok(StepTaken { loss: Some(loss).filter(|loss| loss.is_finite()), seconds, calls })
    }
}
