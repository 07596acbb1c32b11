//! The feed-forward part: a gated unit, dense, or one of several experts for each token.

use super::Layer;
use crate::ops::{Ops, Plain};
use crate::preset::Sizes;
use crate::real::Real;
use crate::tensor::Tensor;

/// Which expert each token of a step is given to. It follows from the character alone: frequent ones make large groups, as
/// a router would, but no group changes because a number was rounded differently. With a learned router one token in the
/// wrong group would move the loss by more than an honest kernel ever does.
#[derive(Debug)]
pub(super) struct Routing {
    /// The token of each row, sorted by expert.
    order: Vec<usize>,
    /// The first row of each expert, and the end.
    offsets: Tensor<i32>,
}

impl Routing {
    pub(super) fn new(sizes: Sizes) -> Self {
        Self { order: Vec::with_capacity(sizes.tokens()), offsets: Tensor::zeros(sizes.experts + 1) }
    }

    pub(super) fn route(&mut self, read: &[usize]) {
        self.order.clear();
        let experts = self.offsets.len() - 1;
        for expert in 0..experts {
            let own = read.iter().enumerate().filter(|(_, character)| *character % experts == expert);
            self.order.extend(own.map(|(token, _)| token));
            self.offsets[expert + 1] = i32::try_from(self.order.len()).unwrap_or(i32::MAX);
        }
    }

    /// Rows in the order of tokens to rows in the order of experts.
    fn sort<T: Real>(&self, rows: &[T], sorted: &mut [T], width: usize) {
        for (row, token) in sorted.chunks_exact_mut(width).zip(&self.order) {
            row.copy_from_slice(&rows[token * width..(token + 1) * width]);
        }
    }

    /// And back.
    fn collect<T: Real>(&self, sorted: &[T], rows: &mut [T], width: usize) {
        for (row, token) in sorted.chunks_exact(width).zip(&self.order) {
            rows[token * width..(token + 1) * width].copy_from_slice(row);
        }
    }
}

#[derive(Debug)]
pub(super) struct Feed<T> {
    sizes: Sizes,
    /// Value and gate of each token, then their product.
    inner: Tensor<T>,
    gated: Tensor<T>,
    dinner: Tensor<T>,
    dgated: Tensor<T>,
    experts: Option<Experts<T>>,
}

/// What a mixture of experts needs besides: inputs and outputs in the order of experts.
#[derive(Debug)]
struct Experts<T> {
    x: Tensor<T>,
    y: Tensor<T>,
    dx: Tensor<T>,
    dy: Tensor<T>,
    plain: Plain<T>,
}

impl<T: Real> Feed<T> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let (tokens, hidden) = (sizes.tokens(), sizes.hidden);
        let rows = || Tensor::zeros(tokens * sizes.width);
        let experts = || Experts { x: rows(), y: rows(), dx: rows(), dy: rows(), plain: Plain::default() };
        Self {
            sizes,
            inner: Tensor::zeros(tokens * 2 * hidden),
            gated: Tensor::zeros(tokens * hidden),
            dinner: Tensor::zeros(tokens * 2 * hidden),
            dgated: Tensor::zeros(tokens * hidden),
            experts: (sizes.experts > 1).then(experts),
        }
    }

    pub(super) fn forward(
        &mut self,
        ops: &mut impl Ops<T>,
        weights: &Layer<T>,
        routing: &Routing,
        x: &[T],
        y: &mut [T],
    ) {
        let Sizes { width, hidden, .. } = self.sizes;
        let tokens = self.sizes.tokens();
        let Some(experts) = &mut self.experts else {
            ops.matmul(x, &weights.feed_in, &mut self.inner, [tokens, 2 * hidden, width]);
            gate(&self.inner, &mut self.gated, hidden);
            return ops.matmul(&self.gated, &weights.feed_out, y, [tokens, width, hidden]);
        };
        let offsets = &routing.offsets;
        routing.sort(x, &mut experts.x, width);
        ops.grouped_matmul(&experts.x, &weights.feed_in, offsets, &mut self.inner, [width, 2 * hidden]);
        gate(&self.inner, &mut self.gated, hidden);
        ops.grouped_matmul(&self.gated, &weights.feed_out, offsets, &mut experts.y, [hidden, width]);
        routing.collect(&experts.y, y, width);
    }

    pub(super) fn backward(
        &mut self,
        ops: &mut impl Ops<T>,
        (weights, routing): (&Layer<T>, &Routing),
        [x, dy]: [&[T]; 2],
        dx: &mut [T],
        gradients: &mut Layer<T>,
    ) {
        let Sizes { width, hidden, .. } = self.sizes;
        let tokens = self.sizes.tokens();
        let Some(experts) = &mut self.experts else {
            let saved = [&*self.gated, &*weights.feed_out];
            let size = [tokens, width, hidden];
            ops.matmul_backward(saved, dy, &mut self.dgated, &mut gradients.feed_out, size);
            gate_backward(&self.inner, &self.dgated, &mut self.dinner, hidden);
            let saved = [x, &*weights.feed_in];
            let size = [tokens, 2 * hidden, width];
            return ops.matmul_backward(saved, &self.dinner, dx, &mut gradients.feed_in, size);
        };
        let Experts { plain, .. } = experts;
        let offsets = &routing.offsets;
        routing.sort(dy, &mut experts.dy, width);
        let given = [&*self.gated, &*weights.feed_out, &*experts.dy];
        plain.grouped_backward(given, offsets, [&mut self.dgated, &mut gradients.feed_out], [hidden, width]);
        gate_backward(&self.inner, &self.dgated, &mut self.dinner, hidden);
        let given = [&*experts.x, &*weights.feed_in, &*self.dinner];
        plain.grouped_backward(given, offsets, [&mut experts.dx, &mut gradients.feed_in], [width, 2 * hidden]);
        routing.collect(&experts.dx, dx, width);
    }
}

/// `value * gate * sigmoid(gate)`.
fn gate<T: Real>(inner: &[T], gated: &mut [T], hidden: usize) {
    for (inner, gated) in inner.chunks_exact(2 * hidden).zip(gated.chunks_exact_mut(hidden)) {
        let (value, gate) = inner.split_at(hidden);
        for ((gated, value), gate) in gated.iter_mut().zip(value).zip(gate) {
            *gated = *value * *gate / (T::ONE + (-*gate).exp());
        }
    }
}

fn gate_backward<T: Real>(inner: &[T], dgated: &[T], dinner: &mut [T], hidden: usize) {
    let rows = inner.chunks_exact(2 * hidden).zip(dinner.chunks_exact_mut(2 * hidden));
    for ((inner, dinner), dgated) in rows.zip(dgated.chunks_exact(hidden)) {
        let ((value, gate), (dvalue, dgate)) = (inner.split_at(hidden), dinner.split_at_mut(hidden));
        for (at, dgated) in dgated.iter().enumerate() {
            let sigmoid = T::ONE / (T::ONE + (-gate[at]).exp());
            dvalue[at] = *dgated * gate[at] * sigmoid;
            dgate[at] = *dgated * value[at] * sigmoid * (T::ONE + gate[at] * (T::ONE - sigmoid));
        }
    }
}
