//! The optimizer: Adam with decoupled weight decay.

use crate::model::Weights;
use crate::real::Real;

/// Of a stream of [`RATED_WIDTH`] and less. In a wider one as many more weights move together: with the same rate training
/// would be so near the edge of what is stable that rounding errors grow until no loss can be told from another.
const RATE: f64 = 3e-3;
const RATED_WIDTH: f64 = 128.0;
const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.99;
const EPSILON: f64 = 1e-8;
const WEIGHT_DECAY: f64 = 0.01;
/// Steps over which the rate grows to its full size.
const WARM_UP: f64 = 20.0;

/// Running means of the gradients and of their squares.
#[derive(Debug)]
pub struct AdamW<T> {
    first: Weights<T>,
    second: Weights<T>,
    steps: i32,
    rate: f64,
}

impl<T: Real> AdamW<T> {
    /// For these weights, of a model whose stream has this width.
    #[must_use]
    pub fn new(weights: &Weights<T>, width: usize) -> Self {
        let rate = RATE * (RATED_WIDTH / width.max(1) as f64).min(1.0);
        Self { first: weights.zeros(), second: weights.zeros(), steps: 0, rate }
    }

    /// Moves the weights against their gradients.
    pub fn step(&mut self, weights: &mut Weights<T>, gradients: &Weights<T>) {
        self.steps += 1;
        let rate = self.rate * (f64::from(self.steps) / WARM_UP).min(1.0);
        let corrected = |decay: f64| 1.0 - decay.powi(self.steps);
        let step = T::of(rate / corrected(FIRST_DECAY));
        let scale = T::of(1.0 / corrected(SECOND_DECAY));
        let kept = T::of(1.0 - rate * WEIGHT_DECAY);
        let (b1, b2, epsilon) = (T::of(FIRST_DECAY), T::of(SECOND_DECAY), T::of(EPSILON));
        let (n1, n2) = (T::of(1.0 - FIRST_DECAY), T::of(1.0 - SECOND_DECAY));
        let moments = self.first.each_mut().into_iter().zip(self.second.each_mut());
        for ((weights, gradients), (first, second)) in weights.each_mut().into_iter().zip(gradients.each()).zip(moments)
        {
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((weight, gradient), (first, second)) in weights.iter_mut().zip(gradients.iter()).zip(moments) {
                *first = b1 * *first + n1 * *gradient;
                *second = b2 * *second + n2 * (*gradient * *gradient);
                *weight = *weight * kept - step * *first / ((*second * scale).sqrt() + epsilon);
            }
        }
    }
}
