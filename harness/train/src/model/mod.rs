//! A decoder-only language model: characters and places embedded, then layers of attention and feed-forward parts around
//! a residual stream, each behind a normalisation, and a loss over the next character. Forward keeps what backward needs;
//! both use the same memory in every step, as a training framework's allocator would give it.

mod attention;
mod feed;
mod weights;

use crate::ops::{Normed, Ops};
use crate::preset::Sizes;
use crate::real::Real;
use crate::tensor::Tensor;
use attention::Attention;
use feed::{Feed, Routing};
pub use weights::{Layer, Weights};

/// A normalisation's output, and what it keeps.
#[derive(Debug)]
struct Norm<T> {
    y: Tensor<T>,
    inv_rms: Tensor<T>,
}

impl<T: Real> Norm<T> {
    fn new(rows: usize, cols: usize) -> Self {
        Self { y: Tensor::zeros(rows * cols), inv_rms: Tensor::zeros(rows) }
    }

    fn forward(&mut self, ops: &mut impl Ops<T>, x: &[T], weight: &[T]) {
        ops.rmsnorm(x, weight, &mut self.y, &mut self.inv_rms, weight.len());
    }

    fn backward(&self, ops: &mut impl Ops<T>, [x, weight, dy]: [&[T]; 3], dx: &mut [T], dweight: &mut [T]) {
        ops.rmsnorm_backward(Normed { x, weight, inv_rms: &self.inv_rms }, dy, dx, dweight, weight.len());
    }
}

/// What a layer keeps from forward to backward.
#[derive(Debug)]
struct Kept<T> {
    before_attention: Tensor<T>,
    attention_norm: Norm<T>,
    attention: Attention<T>,
    attention_out: Tensor<T>,
    attention_post: Norm<T>,
    before_feed: Tensor<T>,
    feed_norm: Norm<T>,
    feed: Feed<T>,
    feed_out: Tensor<T>,
    feed_post: Norm<T>,
}

/// The model without its weights.
#[derive(Debug)]
pub struct Model<T> {
    sizes: Sizes,
    routing: Routing,
    layers: Vec<Kept<T>>,
    stream: Tensor<T>,
    norm: Norm<T>,
    logits: Tensor<T>,
    /// Gradients: of the logits, of the stream, of what is added to it, of a normalisation's input and of its output.
    dlogits: Tensor<T>,
    dstream: Tensor<T>,
    dadded: Tensor<T>,
    dinput: Tensor<T>,
    dnormed: Tensor<T>,
}

impl<T: Real> Model<T> {
    /// Memory for a model of these sizes.
    #[must_use]
    pub fn new(sizes: Sizes, vocabulary: usize) -> Self {
        let (tokens, width) = (sizes.tokens(), sizes.width);
        let stream = || Tensor::zeros(tokens * width);
        let norm = |wanted: bool| if wanted { Norm::new(tokens, width) } else { Norm::new(0, 0) };
        let layer = |_| Kept {
            before_attention: stream(),
            attention_norm: norm(true),
            attention: Attention::new(sizes),
            attention_out: stream(),
            attention_post: norm(sizes.sandwich),
            before_feed: stream(),
            feed_norm: norm(true),
            feed: Feed::new(sizes),
            feed_out: stream(),
            feed_post: norm(sizes.sandwich),
        };
        Self {
            sizes,
            routing: Routing::new(sizes),
            layers: (0..sizes.layers).map(layer).collect(),
            stream: stream(),
            norm: norm(true),
            logits: Tensor::zeros(tokens * vocabulary),
            dlogits: Tensor::zeros(tokens * vocabulary),
            dstream: stream(),
            dadded: stream(),
            dinput: stream(),
            dnormed: stream(),
        }
    }

    /// The mean loss over `read`, each character of which is followed by that of `next`.
    pub fn forward(&mut self, ops: &mut impl Ops<T>, weights: &Weights<T>, read: &[usize], next: &[usize]) -> f64 {
        let width = self.sizes.width;
        self.routing.route(read);
        for (at, (row, token)) in self.stream.chunks_exact_mut(width).zip(read).enumerate() {
            let place = at % self.sizes.length;
            let embedded = weights.embedding[token * width..].iter().zip(&weights.position[place * width..]);
            row.iter_mut().zip(embedded).for_each(|(row, (token, place))| *row = *token + *place);
        }
        for (kept, layer) in self.layers.iter_mut().zip(&weights.layers) {
            kept.before_attention.copy_from_slice(&self.stream);
            kept.attention_norm.forward(ops, &kept.before_attention, &layer.attention_norm);
            kept.attention.forward(ops, layer, &kept.attention_norm.y, &mut kept.attention_out);
            add_part(ops, &mut self.stream, &kept.attention_out, &mut kept.attention_post, &layer.attention_post);

            kept.before_feed.copy_from_slice(&self.stream);
            kept.feed_norm.forward(ops, &kept.before_feed, &layer.feed_norm);
            kept.feed.forward(ops, layer, &self.routing, &kept.feed_norm.y, &mut kept.feed_out);
            add_part(ops, &mut self.stream, &kept.feed_out, &mut kept.feed_post, &layer.feed_post);
        }
        self.norm.forward(ops, &self.stream, &weights.norm);
        let vocabulary = weights.head.len() / width;
        ops.matmul(&self.norm.y, &weights.head, &mut self.logits, [read.len(), vocabulary, width]);
        cross_entropy(&self.logits, next, &mut self.dlogits, vocabulary)
    }

    /// Gradients of the last forward's loss.
    pub fn backward(
        &mut self,
        ops: &mut impl Ops<T>,
        weights: &Weights<T>,
        gradients: &mut Weights<T>,
        read: &[usize],
    ) {
        let width = self.sizes.width;
        let size = [read.len(), weights.head.len() / width, width];
        let saved = [&*self.norm.y, &*weights.head];
        ops.matmul_backward(saved, &self.dlogits, &mut self.dnormed, &mut gradients.head, size);
        let of = [&*self.stream, &*weights.norm, &*self.dnormed];
        self.norm.backward(ops, of, &mut self.dstream, &mut gradients.norm);
        let layers = self.layers.iter_mut().zip(&weights.layers).zip(&mut gradients.layers).rev();
        for ((kept, layer), gradient) in layers {
            let out = [&*kept.feed_out, &*layer.feed_post];
            part_gradient(ops, &self.dstream, out, &kept.feed_post, &mut self.dadded, &mut gradient.feed_post);
            let given = [&*kept.feed_norm.y, &*self.dadded];
            kept.feed.backward(ops, (layer, &self.routing), given, &mut self.dnormed, gradient);
            let of = [&*kept.before_feed, &*layer.feed_norm, &*self.dnormed];
            kept.feed_norm.backward(ops, of, &mut self.dinput, &mut gradient.feed_norm);
            add(&mut self.dstream, &self.dinput);

            let out = [&*kept.attention_out, &*layer.attention_post];
            part_gradient(
                ops,
                &self.dstream,
                out,
                &kept.attention_post,
                &mut self.dadded,
                &mut gradient.attention_post,
            );
            kept.attention.backward(ops, layer, [&kept.attention_norm.y, &self.dadded], &mut self.dnormed, gradient);
            let of = [&*kept.before_attention, &*layer.attention_norm, &*self.dnormed];
            kept.attention_norm.backward(ops, of, &mut self.dinput, &mut gradient.attention_norm);
            add(&mut self.dstream, &self.dinput);
        }
        gradients.embedding.fill(T::ZERO);
        gradients.position.fill(T::ZERO);
        for (at, (row, token)) in self.dstream.chunks_exact(width).zip(read).enumerate() {
            let place = at % self.sizes.length;
            add(&mut gradients.embedding[token * width..(token + 1) * width], row);
            add(&mut gradients.position[place * width..(place + 1) * width], row);
        }
    }
}

/// Adds what a part gives to the stream, normalised where the model has that.
fn add_part<T: Real>(ops: &mut impl Ops<T>, stream: &mut [T], out: &[T], post: &mut Norm<T>, weight: &[T]) {
    if weight.is_empty() {
        add(stream, out);
    } else {
        post.forward(ops, out, weight);
        add(stream, &post.y);
    }
}

/// The gradient of what a part gave.
fn part_gradient<T: Real>(
    ops: &mut impl Ops<T>,
    dstream: &[T],
    [out, weight]: [&[T]; 2],
    post: &Norm<T>,
    dadded: &mut [T],
    dweight: &mut [T],
) {
    if weight.is_empty() {
        dadded.copy_from_slice(dstream);
    } else {
        post.backward(ops, [out, weight, dstream], dadded, dweight);
    }
}

fn add<T: Real>(into: &mut [T], what: &[T]) {
    into.iter_mut().zip(what).for_each(|(into, what)| *into += *what);
}

/// The mean of `-ln p(next)`, and its gradient.
fn cross_entropy<T: Real>(logits: &[T], next: &[usize], dlogits: &mut [T], vocabulary: usize) -> f64 {
    let share = T::of(1.0 / next.len() as f64);
    let mut loss = 0.0;
    for ((row, gradient), next) in logits.chunks_exact(vocabulary).zip(dlogits.chunks_exact_mut(vocabulary)).zip(next) {
        let most = row.iter().fold(T::LOWEST, |most, x| if *x > most { *x } else { most });
        let mut sum = T::ZERO;
        for (x, gradient) in row.iter().zip(gradient.iter_mut()) {
            *gradient = (*x - most).exp();
            sum += *gradient;
        }
        loss += sum.wide().ln() + most.wide() - row[*next].wide();
        gradient.iter_mut().for_each(|gradient| *gradient = *gradient / sum * share);
        gradient[*next] = gradient[*next] - share;
    }
    loss / next.len() as f64
}
