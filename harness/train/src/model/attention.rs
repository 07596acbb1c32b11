//! Causal attention. The projections and the softmax are ops with slots; what is between them is here.

use super::Layer;
use crate::ops::Ops;
use crate::preset::Sizes;
use crate::real::Real;
use crate::tensor::Tensor;

#[derive(Debug)]
pub(super) struct Attention<T> {
    sizes: Sizes,
    /// Queries, keys and values of each token, side by side.
    qkv: Tensor<T>,
    /// One row for each query of each head of each piece: how much of each place it takes. Places after it hold -inf.
    scores: Tensor<T>,
    shares: Tensor<T>,
    mixed: Tensor<T>,
    dqkv: Tensor<T>,
    dmixed: Tensor<T>,
    /// One head's keys or values, place by place beside each other for each of its numbers.
    turned: Vec<T>,
    row: Vec<T>,
}

impl<T: Real> Attention<T> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let (tokens, attention) = (sizes.tokens(), sizes.attention());
        let square = tokens * sizes.heads * sizes.length;
        let mut scores = Tensor::zeros(square);
        // What is after a query's place is never written again.
        scores.iter_mut().for_each(|score| *score = T::LOWEST);
        Self {
            sizes,
            qkv: Tensor::zeros(tokens * 3 * attention),
            scores,
            shares: Tensor::zeros(square),
            mixed: Tensor::zeros(tokens * attention),
            dqkv: Tensor::zeros(tokens * 3 * attention),
            dmixed: Tensor::zeros(tokens * attention),
            turned: vec![T::ZERO; sizes.head * sizes.length],
            row: vec![T::ZERO; sizes.length],
        }
    }

    pub(super) fn forward(&mut self, ops: &mut impl Ops<T>, weights: &Layer<T>, x: &[T], y: &mut [T]) {
        let (sizes, tokens, attention) = (self.sizes, self.sizes.tokens(), self.sizes.attention());
        ops.matmul(x, &weights.qkv, &mut self.qkv, [tokens, 3 * attention, sizes.width]);
        let scale = T::of(1.0 / (sizes.head as f64).sqrt());
        for (piece, head) in pieces(sizes) {
            turn(&self.qkv, sizes, piece, attention + head * sizes.head, &mut self.turned);
            for place in 0..sizes.length {
                let query = at(sizes, piece, place, head * sizes.head);
                let row = &mut self.scores[score(sizes, piece, head, place)][..=place];
                row.fill(T::ZERO);
                for (factor, keys) in self.qkv[query].iter().zip(self.turned.chunks_exact(sizes.length)) {
                    let factor = *factor * scale;
                    row.iter_mut().zip(keys).for_each(|(row, key)| *row += factor * *key);
                }
            }
        }
        ops.softmax(&self.scores, &mut self.shares, sizes.length);
        self.mixed.fill(T::ZERO);
        for (piece, head) in pieces(sizes) {
            for place in 0..sizes.length {
                let shares = &self.shares[score(sizes, piece, head, place)];
                let into = &mut self.mixed[(piece * sizes.length + place) * attention + head * sizes.head..];
                for (before, share) in shares[..=place].iter().enumerate() {
                    let value = &self.qkv[at(sizes, piece, before, 2 * attention + head * sizes.head)];
                    into.iter_mut().zip(value).for_each(|(into, value)| *into += *share * *value);
                }
            }
        }
        ops.matmul(&self.mixed, &weights.out, y, [tokens, sizes.width, attention]);
    }

    pub(super) fn backward(
        &mut self,
        ops: &mut impl Ops<T>,
        weights: &Layer<T>,
        [x, dy]: [&[T]; 2],
        dx: &mut [T],
        gradients: &mut Layer<T>,
    ) {
        let (sizes, tokens, attention) = (self.sizes, self.sizes.tokens(), self.sizes.attention());
        let size = [tokens, sizes.width, attention];
        ops.matmul_backward([&self.mixed, &weights.out], dy, &mut self.dmixed, &mut gradients.out, size);
        self.dqkv.fill(T::ZERO);
        for (piece, head) in pieces(sizes) {
            turn(&self.qkv, sizes, piece, 2 * attention + head * sizes.head, &mut self.turned);
            for place in 0..sizes.length {
                self.query_gradient(piece, head, place);
            }
        }
        let size = [tokens, 3 * attention, sizes.width];
        ops.matmul_backward([x, &weights.qkv], &self.dqkv, dx, &mut gradients.qkv, size);
    }

    /// What one query of one head adds to the gradients of itself, and of the keys and values before it.
    fn query_gradient(&mut self, piece: usize, head: usize, place: usize) {
        let (sizes, attention) = (self.sizes, self.sizes.attention());
        let scale = T::of(1.0 / (sizes.head as f64).sqrt());
        let (own, width) = (head * sizes.head, sizes.head);
        let shares = &self.shares[score(sizes, piece, head, place)][..=place];
        let mixed = (piece * sizes.length + place) * attention + own;
        let dmixed = &self.dmixed[mixed..mixed + width];
        let row = &mut self.row[..=place];
        row.fill(T::ZERO);
        for (factor, values) in dmixed.iter().zip(self.turned.chunks_exact(sizes.length)) {
            row.iter_mut().zip(values).for_each(|(row, value)| *row += *factor * *value);
        }
        let sum: T = row.iter().zip(shares).map(|(row, share)| *row * *share).sum();
        let query = at(sizes, piece, place, own);
        for (before, (dshare, share)) in row.iter().zip(shares).enumerate() {
            let dscore = *share * (*dshare - sum) * scale;
            let key = at(sizes, piece, before, attention + own);
            let value = at(sizes, piece, before, 2 * attention + own);
            for (number, dmixed) in dmixed.iter().enumerate() {
                self.dqkv[query.start + number] += dscore * self.qkv[key.start + number];
                self.dqkv[key.start + number] += dscore * self.qkv[query.start + number];
                self.dqkv[value.start + number] += *share * *dmixed;
            }
        }
    }
}

fn pieces(sizes: Sizes) -> impl Iterator<Item = (usize, usize)> {
    (0..sizes.batch).flat_map(move |piece| (0..sizes.heads).map(move |head| (piece, head)))
}

/// Where a head's numbers for one place are, among queries, keys and values.
fn at(sizes: Sizes, piece: usize, place: usize, column: usize) -> std::ops::Range<usize> {
    let start = (piece * sizes.length + place) * 3 * sizes.attention() + column;
    start..start + sizes.head
}

/// Where a query's scores are.
fn score(sizes: Sizes, piece: usize, head: usize, place: usize) -> std::ops::Range<usize> {
    let row = (piece * sizes.heads + head) * sizes.length + place;
    row * sizes.length..(row + 1) * sizes.length
}

/// Turns one head's keys or values, so that loops over places run along memory.
fn turn<T: Real>(qkv: &[T], sizes: Sizes, piece: usize, column: usize, turned: &mut [T]) {
    for place in 0..sizes.length {
        for (number, value) in qkv[at(sizes, piece, place, column)].iter().enumerate() {
            turned[number * sizes.length + place] = *value;
        }
    }
}
