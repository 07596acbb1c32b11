//! Attention of a few new positions to everything before them, as in decoding: `out = softmax(scale q kᵀ) v` for each
//! head, with `scale = 1 / √d`.
//!
//! `q` is `[b, h, s, d]`, `k` and `v` are `[b, h_kv, t, d]`, `out` is as `q`. Each `h / h_kv` neighbouring heads of `q` share one
//! of `k` and `v`. The queries are the last `s` of the `t` positions, and none sees a later one: query `i` sees keys `0` to
//! `t - s + i`. Shapes have `t >= s`, and `h` is a multiple of `h_kv`.
//!
//! A query with an infinity or a NaN comes out all NaN. Weights below the smallest normal number may be flushed to zero.

#[cfg(test)]
mod tests;

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use super::shape;
use crate::distribution::Distribution;
use crate::error_model::{Rounding, U, rounded};
use crate::kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
use crate::parallel;
use crate::tensor::{Draw, Expected, Scales, Tensors};

/// Attention of the last positions to all.
#[derive(Debug, Clone, Copy)]
pub struct DecodeAttention;

impl Kernel for DecodeAttention {
    fn op(&self) -> &str {
        "decode_attention"
    }

    fn parameters(&self) -> Vec<Parameter> {
        super::parameters("decode_attention")
    }

    fn buffers(&self, _entry: &str, case: &Case) -> Vec<Buffer> {
        let Sizes { b, h, h_kv, s, t, d } = Sizes::of(case);
        vec![
            Buffer::input("q", Role::Activation, case.dtype, b * h * s, d),
            Buffer::input("k", Role::Activation, case.dtype, b * h_kv * t, d),
            Buffer::input("v", Role::Activation, case.dtype, b * h_kv * t, d),
            Buffer::output("out", Role::Output, case.dtype, b * h * s, d),
        ]
    }

    fn scalars(&self, _entry: &str, case: &Case) -> Vec<(&'static str, f32)> {
        vec![("scale", scale(case.size("d")))]
    }

    fn distributions(&self) -> Vec<Distribution> {
        [&Distribution::FINITE[..], &[Distribution::Infinite, Distribution::NotANumber]].concat()
    }

    /// Infinity and NaN strike `q` only: in `v` they would come back through keys that a tile has masked with a weight of 0.
    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let special = matches!(distribution, Distribution::Infinite | Distribution::NotANumber);
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            let distribution = if special && buffer.name != "q" { Distribution::Uniform } else { distribution };
            tensors.insert(buffer.name, draw.scaled(buffer, distribution, scales(buffer.name, case.size("d"))));
        }
        tensors
    }

    fn expect(&self, _entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        let sizes = Sizes::of(case);
        let Sizes { b, h, h_kv, s, t, d } = sizes;
        let (q, k, v) = (inputs.floats("q"), inputs.floats("k"), inputs.floats("v"));
        let (mut values, mut bounds) = (vec![0.0; b * h * s * d], vec![0.0; b * h * s * d]);
        let (head, cache) = (s * d, t * d);
        if values.is_empty() {
            return vec![Expected { name: "out", values, bounds }];
        }
        let heads = values.chunks_mut(head).zip(bounds.chunks_mut(head)).enumerate();
        parallel::each(heads, |(index, (values, bounds))| {
            let shared = (index / h * h_kv + index % h / (h / h_kv).max(1)) * cache;
            let (keys, vectors) = (&k[shared..shared + cache], &v[shared..shared + cache]);
            let queries = q[index * head..(index + 1) * head].chunks_exact(d);
            let results = values.chunks_exact_mut(d).zip(bounds.chunks_exact_mut(d));
            for (query, (q, (values, bounds))) in queries.zip(results).enumerate() {
                let seen = (t + query + 1).saturating_sub(s) * d;
                expect_query(q, &keys[..seen], &vectors[..seen], case.dtype, rounding, values, bounds);
            }
        });
        vec![Expected { name: "out", values, bounds }]
    }

    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let Sizes { b, h, s, t, d, .. } = Sizes::of(case);
        let mut cost = Cost::default();
        for buffer in self.buffers(entry, case) {
            let bytes = if buffer.written { &mut cost.bytes_written } else { &mut cost.bytes_read };
            *bytes += buffer.bytes() as f64;
        }
        // Two products of d terms and the softmax, for each pair of a query and a key that it sees.
        let pairs = b as f64 * h as f64 * (s as f64 * t as f64 - s as f64 * (s as f64 - 1.0) / 2.0);
        cost.flops = pairs * (4.0 * d as f64 + 5.0);
        cost
    }

    /// Keys may be turned where every query sees all of them. What `q` and `k` are summed over, and what `v` and `out`
    /// share, turn apart from each other.
    fn symmetry(&self, _entry: &str, case: &Case) -> Symmetry {
        let Sizes { b, h, h_kv, s, t, d } = Sizes::of(case);
        let (b, group) = (Axis::Turns("b", b), Axis::Turns("group", h / h_kv.max(1)));
        let (h_kv, inner, outer) = (Axis::Turns("h_kv", h_kv), Axis::Turns("d", d), Axis::Turns("d of v", d));
        let t = if s == 1 { Axis::Turns("t", t) } else { Axis::Stays(t) };
        let s = Axis::Stays(s);
        Symmetry {
            tensors: vec![
                ("q", vec![b, h_kv, group, s, inner]),
                ("k", vec![b, h_kv, t, inner]),
                ("v", vec![b, h_kv, t, outer]),
                ("out", vec![b, h_kv, group, s, outer]),
            ],
            scaled: vec![("v", vec!["out"])],
        }
    }

    fn odd_shapes(&self) -> Vec<Shape> {
        [
            [1, 1, 1, 1, 1, 1],
            [1, 2, 1, 1, 3, 5],
            [2, 3, 3, 1, 7, 8],
            [1, 4, 2, 2, 5, 16],
            [2, 2, 1, 3, 17, 33],
            [5, 10, 5, 6, 23, 17],
            [1, 8, 2, 1, 65, 64],
            [1, 2, 2, 7, 31, 24],
            [1, 6, 3, 16, 16, 40],
            [1, 4, 1, 4, 63, 72],
            [2, 4, 4, 17, 130, 128],
            [1, 4, 2, 16, 127, 128],
            [2, 2, 2, 1, 129, 128],
            [1, 3, 1, 5, 257, 128],
            [1, 1, 1, 1, 1025, 128],
            [3, 1, 1, 2, 33, 129],
            [1, 2, 2, 1, 64, 256],
            [0, 2, 2, 1, 3, 4],
        ]
        .map(shape_of)
        .to_vec()
    }

    fn random_shape(&self, draw: &mut Draw) -> Shape {
        let (h_kv, s) = (draw.between(1, 4), draw.between(1, 8));
        let d = if draw.bits().is_multiple_of(2) { 128 } else { draw.between(1, 96) };
        shape_of([draw.between(1, 3), h_kv * draw.between(1, 4), h_kv, s, s + draw.between(0, 120), d])
    }

    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        let near = super::near(shape, &["b", "s", "t"], draw)?;
        // Every position is a key.
        let [b, h, h_kv, s, t, d] = ["b", "h", "h_kv", "s", "t", "d"].map(|name| near.size(name));
        Some(shape_of([b, h, h_kv, s, t.max(s), d]))
    }

    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        super::fewer(shape, "b", fits)
    }
}

/// A shape of these sizes: b, h, h_kv, s, t, d.
fn shape_of([b, h, h_kv, s, t, d]: [usize; 6]) -> Shape {
    shape(&[("b", b), ("h", h), ("h_kv", h_kv), ("s", s), ("t", t), ("d", d)])
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    b: usize,
    h: usize,
    h_kv: usize,
    s: usize,
    t: usize,
    d: usize,
}

impl Sizes {
    fn of(case: &Case) -> Self {
        let [b, h, h_kv, s, t, d] = ["b", "h", "h_kv", "s", "t", "d"].map(|name| case.size(name));
        Self { b, h, h_kv, s, t, d }
    }
}

/// What scores are multiplied by.
fn scale(d: usize) -> f32 {
    1.0 / (d.max(1) as f32).sqrt()
}

/// Scores are products of two inputs, and a rounding error of a score counts as much as the score is large: with larger
/// factors f32 could tell nothing of the weights.
fn scales(name: &str, d: usize) -> Scales {
    match name {
        "v" => Scales::default(),
        // Their score, 144 whatever d is, overflows in an exponential from which no maximum was subtracted.
        _ => Scales { large: 30.0, tiny: 1e-6, outlier: 12.0 * (d.max(1) as f32).powf(0.25) },
    }
}

/// One query against the keys that it sees.
fn expect_query(
    q: &[f32],
    keys: &[f32],
    vectors: &[f32],
    dtype: DType,
    rounding: Rounding,
    values: &mut [f64],
    bounds: &mut [f64],
) {
    let d = q.len();
    let (factor, growth) = (f64::from(scale(d)), rounding.growth(d));
    let q: Vec<f64> = q.iter().copied().map(f64::from).collect();
    let scored = |key: &[f32]| {
        let (mut dot, mut magnitude) = (0.0, 0.0);
        for (q, k) in q.iter().zip(key) {
            let term = q * f64::from(*k);
            dot += term;
            magnitude += term.abs();
        }
        let underflow = factor * d as f64 * DType::F32.smallest();
        (factor * dot, U * (growth * factor * magnitude + 4.0 * (factor * dot).abs()) + underflow)
    };
    let scores: Vec<(f64, f64)> = keys.chunks_exact(d).map(scored).collect();
    // f64::max drops a NaN, which must spread instead.
    let nan = scores.iter().any(|(score, _)| score.is_nan());
    let largest = scores.iter().fold(f64::NEG_INFINITY, |largest, (score, _)| largest.max(*score));
    let largest = if nan { f64::NAN } else { largest };
    // The weight of each key before they are divided by their sum, and its relative error: that of the score, and of x - max
    // as in a softmax. An error of the maximum is common to all and goes with the division.
    let weighed = |(score, error): &(f64, f64)| {
        let reach = largest - score;
        ((-reach).exp(), (error + 3.0 * U * reach).exp_m1())
    };
    let weights: Vec<(f64, f64)> = scores.iter().map(weighed).collect();
    let sum: f64 = weights.iter().map(|(weight, _)| weight).sum();
    let inherited: f64 =
        weights.iter().filter(|(weight, _)| *weight > 0.0).map(|(w, error)| w * error).sum::<f64>() / sum;
    let smallest = weights.iter().fold(1.0, |smallest: f64, (weight, _)| smallest.min(*weight));
    let rounding = rounding.of_positive(weights.len(), smallest, 1.0);
    let common = inherited + U * (2.0 * rounding.growth(weights.len()) + 12.0);
    let mut sizes = vec![0.0; d];
    values.fill(0.0);
    bounds.fill(0.0);
    for ((weight, error), vector) in weights.iter().zip(vectors.chunks_exact(d)) {
        let (share, error) = (weight / sum, if *weight > 0.0 { error + common } else { 0.0 });
        for (((value, bound), size), v) in values.iter_mut().zip(bounds.iter_mut()).zip(&mut sizes).zip(vector) {
            let v = f64::from(*v);
            *value += share * v;
            *bound += share * v.abs() * error;
            *size += v.abs();
        }
    }
    let underflow = weights.len() as f64 * DType::F32.smallest();
    for ((value, bound), size) in values.iter_mut().zip(bounds.iter_mut()).zip(sizes) {
        // A sum of nothing is no number either: 0 / 0.
        if sum == 0.0 || sum.is_nan() {
            (*value, *bound) = (f64::NAN, 0.0);
        } else {
            *bound = rounded(*value, *bound + size * DType::F32.smallest_normal() + underflow, dtype);
        }
    }
}
