//! The reference against plain arithmetic, and its bounds against kernels that are honest and that are not.

use super::*;
use crate::tensor::{Values, round_to};

fn case(sizes: [usize; 6], dtype: DType) -> Case {
    Case { shape: shape_of(sizes), dtype }
}

/// How a kernel goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All scores, their maximum, their weights.
    Plain,
    /// One pass over the keys with a running maximum.
    Online,
    /// Parts of the keys apart, then together.
    Split,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Online, Way::Split];

/// Maximum, sum of weights and weighted sum of vectors, of some keys.
struct Part {
    largest: f32,
    sum: f32,
    out: Vec<f32>,
}

impl Part {
    const fn empty(d: usize) -> impl Fn() -> Self {
        move || Self { largest: f32::NEG_INFINITY, sum: 0.0, out: vec![0.0; d] }
    }

    fn join(mut self, other: &Self) -> Self {
        let largest = self.largest.max(other.largest);
        let scaled = |part: &Self| if part.largest == largest { 1.0 } else { (part.largest - largest).exp() };
        let (own, others) = (scaled(&self), scaled(other));
        self.sum = self.sum * own + other.sum * others;
        self.out.iter_mut().zip(&other.out).for_each(|(out, other)| *out = *out * own + other * others);
        Self { largest, ..self }
    }
}

/// A kernel in f32. `kept` is applied to every score and weight.
fn computed(case: &Case, inputs: &Tensors, way: Way, kept: impl Fn(f32) -> f32) -> Vec<f32> {
    let Sizes { b, h, h_kv, s, t, d } = Sizes::of(case);
    let (q, k, v) = (inputs.floats("q"), inputs.floats("k"), inputs.floats("v"));
    let empty = Part::empty(d);
    let mut out = Vec::new();
    for index in 0..b * h * s {
        let (head, query) = (index / s, index % s);
        let shared = head / h * h_kv + head % h / (h / h_kv);
        let q = &q[index * d..(index + 1) * d];
        let key = |at: usize| &k[(shared * t + at) * d..][..d];
        let vector = |at: usize| &v[(shared * t + at) * d..][..d];
        let score = |at: usize| kept(q.iter().zip(key(at)).fold(0.0, |sum, (q, k)| sum + q * k) * scale(d));
        let seen = t - s + query + 1;
        let one = |at: usize| Part { largest: score(at), sum: 1.0, out: vector(at).to_vec() };
        let online = |range: std::ops::Range<usize>| range.fold(empty(), |part, at| part.join(&one(at)));
        let whole = match way {
            Way::Online => online(0..seen),
            Way::Split => (0..seen).step_by(16).fold(empty(), |all, from| all.join(&online(from..seen.min(from + 16)))),
            Way::Plain => {
                let mut all = empty();
                let scores: Vec<f32> = (0..seen).map(score).collect();
                all.largest = scores.iter().fold(all.largest, |largest, score| largest.max(*score));
                for (at, score) in scores.iter().enumerate() {
                    let weight = kept((score - all.largest).exp());
                    all.sum += weight;
                    all.out.iter_mut().zip(vector(at)).for_each(|(out, v)| *out += weight * v);
                }
                all
            }
        };
        out.extend(whole.out.iter().map(|out| round_to(out / whole.sum, case.dtype)));
    }
    out
}

fn outside(expected: &Expected, got: &[f32]) -> Option<String> {
    assert_eq!((expected.values.len(), expected.bounds.len()), (got.len(), got.len()));
    expected.values.iter().zip(&expected.bounds).zip(got).enumerate().find_map(|(at, ((value, bound), got))| {
        let got = f64::from(*got);
        let right = (value.is_nan() && got.is_nan()) || (value - got).abs() <= *bound;
        (!right).then(|| format!("[{at}] {value} {got} {bound}"))
    })
}

fn drawn(case: &Case, distribution: Distribution, seed: u64) -> (Tensors, Expected) {
    let inputs = DecodeAttention.inputs("decode_attention", case, distribution, &mut Draw::new(seed, "attention"));
    let expected = DecodeAttention.expect("decode_attention", case, &inputs, distribution.rounding()).remove(0);
    (inputs, expected)
}

#[test]
fn known_values() {
    // Two queries at the end of three positions; scores of 0 and ln 3.
    let mut inputs = Tensors::default();
    inputs.insert("q", Values::Float(vec![0.0, 3.0f32.ln()]));
    inputs.insert("k", Values::Float(vec![0.0, 0.0, 1.0]));
    inputs.insert("v", Values::Float(vec![1.0, 3.0, 7.0]));
    let case = case([1, 1, 1, 2, 3, 1], DType::F32);
    let out = DecodeAttention.expect("decode_attention", &case, &inputs, Rounding::Random).remove(0);
    assert!((out.values[0] - 2.0).abs() < 1e-6, "the first does not see the last: {}", out.values[0]);
    assert!((out.values[1] - (1.0 + 3.0 + 3.0 * 7.0) / 5.0).abs() < 1e-6, "{}", out.values[1]);
    assert!(out.bounds.iter().all(|bound| *bound > 0.0 && *bound < 1e-4));
}

#[test]
fn heads_of_a_group_share_keys() {
    let case = case([1, 4, 2, 1, 1, 1], DType::F32);
    let mut inputs = Tensors::default();
    inputs.insert("q", Values::Float(vec![1.0; 4]));
    inputs.insert("k", Values::Float(vec![1.0, 1.0]));
    inputs.insert("v", Values::Float(vec![5.0, 6.0]));
    let out = DecodeAttention.expect("decode_attention", &case, &inputs, Rounding::Random).remove(0);
    assert_eq!(out.values, [5.0, 5.0, 6.0, 6.0]);
}

#[test]
fn a_query_that_is_no_number_gives_none() {
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let case = case([1, 1, 1, 2, 2, 2], DType::F32);
        let mut inputs = Tensors::default();
        inputs.insert("q", Values::Float(vec![bad, 1.0, 1.0, 1.0]));
        inputs.insert("k", Values::Float(vec![1.0, 2.0, -1.0, 0.5]));
        inputs.insert("v", Values::Float(vec![1.0; 4]));
        let out = DecodeAttention.expect("decode_attention", &case, &inputs, Rounding::Random).remove(0);
        assert!(out.values[..2].iter().all(|value| value.is_nan()), "{bad}: {:?}", out.values);
        assert!(out.values[2..].iter().all(|value| (value - 1.0).abs() < 1e-12));
    }
}

#[test]
fn honest_kernels_are_within_the_bounds() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        for (seed, shape) in DecodeAttention.odd_shapes().into_iter().enumerate() {
            let case = Case { shape, dtype };
            for distribution in DecodeAttention.distributions() {
                let (inputs, expected) = drawn(&case, distribution, seed as u64);
                let special = matches!(distribution, Distribution::Infinite | Distribution::NotANumber);
                // A running maximum drops a NaN: only the plain kernel is written for those.
                for way in &WAYS[..if special { 1 } else { 3 }] {
                    let wrong = outside(&expected, &computed(&case, &inputs, *way, |value| value));
                    assert_eq!(wrong, None, "{} {dtype:?} {distribution:?} {way:?}", case.shape.name);
                }
            }
        }
    }
}

#[test]
fn weights_in_a_lower_precision_are_outside() {
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        let case = case([1, 2, 1, 4, 300, 64], dtype);
        let (inputs, expected) = drawn(&case, Distribution::Normal, 5);
        for lower in [DType::Bf16, DType::F16] {
            let got = computed(&case, &inputs, Way::Plain, |value| round_to(value, lower));
            assert!(outside(&expected, &got).is_some(), "{dtype:?} with weights in {lower:?}");
        }
    }
}

#[test]
fn a_key_too_many_or_too_few_is_outside() {
    let sizes = [1, 2, 1, 3, 40, 32];
    let (inputs, expected) = drawn(&case(sizes, DType::Bf16), Distribution::Normal, 9);
    // Without the mask all queries see what the last one sees.
    let Sizes { s, d, .. } = Sizes::of(&case(sizes, DType::Bf16));
    let mut unmasked = Vec::new();
    for head in 0..2 {
        for query in 0..s {
            let at = (head * s + query) * d;
            let mut one = Tensors::default();
            one.insert("q", Values::Float(inputs.floats("q")[at..at + d].to_vec()));
            one.insert("k", inputs.get("k").unwrap().clone());
            one.insert("v", inputs.get("v").unwrap().clone());
            unmasked.extend(computed(&case([1, 1, 1, 1, 40, 32], DType::Bf16), &one, Way::Plain, |value| value));
        }
    }
    assert!(outside(&expected, &unmasked).is_some());
    assert_eq!(outside(&expected, &computed(&case(sizes, DType::Bf16), &inputs, Way::Plain, |value| value)), None);
}

#[test]
fn cost_counts_pairs_that_are_seen() {
    let cost = DecodeAttention.cost("decode_attention", &case([2, 4, 2, 2, 8, 16], DType::Bf16));
    let (q, k) = (2.0 * 2.0 * 4.0 * 2.0 * 16.0, 2.0 * 2.0 * 2.0 * 8.0 * 16.0);
    assert_eq!((cost.bytes_read, cost.bytes_written), (q + 2.0 * k, q));
    assert_eq!(cost.flops, 2.0 * 4.0 * (8.0 + 7.0) * (4.0 * 16.0 + 5.0));
}
