//! What is learned. Gradients and the optimizer's means have the same form.

use kopt_harness::Draw;

use crate::preset::Sizes;
use crate::real::Real;
use crate::tensor::Tensor;

/// All weights of a model. What a model does not have is empty.
#[derive(Debug)]
pub struct Weights<T> {
    /// A row for each character.
    pub embedding: Tensor<T>,
    /// A row for each place.
    pub position: Tensor<T>,
    /// The layers.
    pub layers: Vec<Layer<T>>,
    /// The last normalisation.
    pub norm: Tensor<T>,
    /// From the stream to a number for each character.
    pub head: Tensor<T>,
}

/// Weights of a layer.
#[derive(Debug)]
pub struct Layer<T> {
    /// Before attention.
    pub attention_norm: Tensor<T>,
    /// Queries, keys and values.
    pub qkv: Tensor<T>,
    /// From attention to the stream.
    pub out: Tensor<T>,
    /// After attention.
    pub attention_post: Tensor<T>,
    /// Before the feed-forward part.
    pub feed_norm: Tensor<T>,
    /// Value and gate, of each expert.
    pub feed_in: Tensor<T>,
    /// Back to the stream, of each expert.
    pub feed_out: Tensor<T>,
    /// After the feed-forward part.
    pub feed_post: Tensor<T>,
}

impl<T: Real> Weights<T> {
    /// Random weights.
    #[must_use]
    pub fn random(sizes: Sizes, vocabulary: usize, seed: u64) -> Self {
        let mut draw = Draw::new(seed, "weights");
        let (width, attention, hidden, experts) = (sizes.width, sizes.attention(), sizes.hidden, sizes.experts);
        // Sums of `inputs` products keep their size; what is added to the stream shrinks with the number of parts.
        let parts = 1.0 / (2.0 * sizes.layers as f64).sqrt();
        let mut matrix = |inputs: usize, outputs: usize, scale: f64| {
            let deviation = scale / (inputs as f64).sqrt();
            Tensor::filled(inputs * outputs, || deviation * f64::from(draw.normal()))
        };
        let ones = |wanted: bool| Tensor::filled(if wanted { width } else { 0 }, || 1.0);
        let embedding = matrix(1, vocabulary * width, 0.5);
        let position = matrix(1, sizes.length * width, 0.25);
        let mut layer = || Layer {
            attention_norm: ones(true),
            qkv: matrix(width, 3 * attention, 1.0),
            out: matrix(attention, width, parts),
            attention_post: ones(sizes.sandwich),
            feed_norm: ones(true),
            feed_in: matrix(width, experts * 2 * hidden, 1.0),
            feed_out: matrix(hidden, experts * width, parts),
            feed_post: ones(sizes.sandwich),
        };
        let layers = (0..sizes.layers).map(|_| layer()).collect();
        Self { embedding, position, layers, norm: ones(true), head: matrix(width, vocabulary, 1.0) }
    }

    /// The same form, all zero.
    #[must_use]
    pub fn zeros(&self) -> Self {
        let zeros = |tensor: &Tensor<T>| Tensor::zeros(tensor.len());
        let layer = |layer: &Layer<T>| Layer {
            attention_norm: zeros(&layer.attention_norm),
            qkv: zeros(&layer.qkv),
            out: zeros(&layer.out),
            attention_post: zeros(&layer.attention_post),
            feed_norm: zeros(&layer.feed_norm),
            feed_in: zeros(&layer.feed_in),
            feed_out: zeros(&layer.feed_out),
            feed_post: zeros(&layer.feed_post),
        };
        Self {
            embedding: zeros(&self.embedding),
            position: zeros(&self.position),
            layers: self.layers.iter().map(layer).collect(),
            norm: zeros(&self.norm),
            head: zeros(&self.head),
        }
    }

    /// Every tensor, in a fixed order.
    #[must_use]
    pub fn each(&self) -> Vec<&Tensor<T>> {
        let mut all = vec![&self.embedding, &self.position, &self.norm, &self.head];
        all.extend(self.layers.iter().flat_map(Layer::each));
        all
    }

    /// Every tensor, in the same order.
    pub fn each_mut(&mut self) -> Vec<&mut Tensor<T>> {
        let mut all = vec![&mut self.embedding, &mut self.position, &mut self.norm, &mut self.head];
        all.extend(self.layers.iter_mut().flat_map(Layer::each_mut));
        all
    }

    /// How many numbers are learned.
    #[must_use]
    pub fn count(&self) -> usize {
        self.each().iter().map(|tensor| tensor.len()).sum()
    }
}

impl<T> Layer<T> {
    fn each(&self) -> [&Tensor<T>; 8] {
        let Self { attention_norm, qkv, out, attention_post, feed_norm, feed_in, feed_out, feed_post } = self;
        [attention_norm, qkv, out, attention_post, feed_norm, feed_in, feed_out, feed_post]
    }

    fn each_mut(&mut self) -> [&mut Tensor<T>; 8] {
        let Self { attention_norm, qkv, out, attention_post, feed_norm, feed_in, feed_out, feed_post } = self;
        [attention_norm, qkv, out, attention_post, feed_norm, feed_in, feed_out, feed_post]
    }
}
