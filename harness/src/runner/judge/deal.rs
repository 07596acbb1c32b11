//! A content under a symmetry: which axes are turned by how much, which inputs are multiplied by what, and what that does to
//! bytes and to what is expected.

use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use kopt_schema::DType;

use crate::kernel::{Axis, Symmetry};
use crate::parallel;
use crate::tensor::Expected;

/// A base under a symmetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deal {
    pub base: usize,
    /// How far each axis of the deck is turned.
    pub turns: Vec<(&'static str, usize)>,
    /// A factor for each scaled input of each entry.
    pub factors: Vec<Vec<Factor>>,
}

/// A power of two, or its negative: multiplying by it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor {
    pub negative: bool,
    pub exponent: u8,
}

impl Factor {
    pub(super) fn value(self) -> f64 {
        let size = f64::from(1u32 << self.exponent);
        if self.negative { -size } else { size }
    }
}

/// Elements that one processor takes at a time.
const PART: usize = 1 << 19;

/// Elements that stay together when axes are turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Where they are in the base.
    pub from: usize,
    /// Where they go.
    pub to: usize,
    pub len: usize,
}

/// The axes of a buffer of `len` elements, outermost first: extent of each, and how far it is turned. Neighbours that stay
/// as they are count as one.
pub(super) fn axes(
    symmetry: &Symmetry,
    name: &str,
    turns: &[(&'static str, usize)],
    len: usize,
) -> Vec<(usize, usize)> {
    let tensor = symmetry.tensors.iter().find(|(tensor, _)| *tensor == name);
    let declared = tensor.map_or(&[][..], |(_, axes)| axes);
    let turned = |axis: &Axis| match *axis {
        Axis::Stays(extent) => (extent, 0),
        Axis::Turns(name, extent) => {
            let turn = turns.iter().find(|(axis, _)| *axis == name).map_or(0, |(_, turn)| *turn);
            (extent, turn % extent.max(1))
        }
    };
    let mut axes: Vec<(usize, usize)> = Vec::new();
    for (extent, turn) in declared.iter().map(turned) {
        match axes.last_mut() {
            Some((outer, 0)) if turn == 0 => *outer *= extent,
            _ => axes.push((extent, turn)),
        }
    }
    // An operator that declares other sizes than its buffers have is left alone, and its reference evaluated as it is.
    if axes.is_empty() || axes.iter().map(|(extent, _)| extent).product::<usize>() != len {
        return vec![(len, 0)];
    }
    axes
}

/// The runs of a buffer of `len` elements with these axes.
pub(super) fn runs(axes: &[(usize, usize)], len: usize) -> Vec<Run> {
    if len == 0 {
        return vec![Run { from: 0, to: 0, len }];
    }
    let mut found = Vec::new();
    spread(axes, len, 0, 0, &mut found);
    found
}

fn spread(axes: &[(usize, usize)], len: usize, from: usize, to: usize, found: &mut Vec<Run>) {
    let Some(((extent, turn), inner)) = axes.split_first() else { return };
    let step = len / extent;
    if inner.iter().all(|(_, turn)| *turn == 0) {
        // What lies inside stays together.
        let rest = (extent - turn) * step;
        found.push(Run { from: from + turn * step, to, len: rest });
        if *turn > 0 {
            found.push(Run { from, to: to + rest, len: turn * step });
        }
        return;
    }
    for index in 0..*extent {
        let source = (index + turn) % extent;
        spread(inner, step, from + source * step, to + index * step, found);
    }
}

/// Runs for several processors: as they are in order of where they go, in parts of about [`PART`] elements.
fn parts(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut parts = vec![Vec::new()];
    let mut room = PART;
    for run in runs {
        let mut run = *run;
        loop {
            let len = run.len.min(room);
            parts.last_mut().into_iter().for_each(|part| part.push(Run { len, ..run }));
            (run, room) = (Run { from: run.from + len, to: run.to + len, len: run.len - len }, room - len);
            if run.len == 0 {
                break;
            }
            parts.push(Vec::new());
            room = PART;
        }
    }
    parts
}

/// Elements that are copied and multiplied before the next: they are still in the cache.
const AT_ONCE: usize = 1 << 12;

/// Copies elements, multiplied by a power of two where there is a factor; the runs are all of `into`, in order.
pub(super) fn copy(from: &[u8], mut into: &mut [u8], dtype: DType, factor: Option<f32>, runs: &[Run]) {
    let size = dtype.size();
    let mut pieces = Vec::new();
    for part in parts(runs) {
        let len: usize = part.iter().map(|run| run.len * size).sum();
        let (piece, rest) = into.split_at_mut(len);
        pieces.push((part, piece));
        into = rest;
    }
    let factor = factor.filter(|factor| *factor != 1.0);
    parallel::each(pieces.into_iter(), |(part, mut piece)| {
        for run in part {
            let (target, rest) = piece.split_at_mut(run.len * size);
            let source = &from[run.from * size..(run.from + run.len) * size];
            match factor {
                None => target.copy_from_slice(source),
                Some(factor) => {
                    for (target, source) in target.chunks_mut(AT_ONCE * size).zip(source.chunks(AT_ONCE * size)) {
                        target.copy_from_slice(source);
                        multiply(target, dtype, factor);
                    }
                }
            }
            piece = rest;
        }
    });
}

/// Multiplies elements by a power of two.
fn multiply(bytes: &mut [u8], dtype: DType, factor: f32) {
    match dtype {
        DType::F32 => {
            for chunk in bytes.as_chunks_mut::<4>().0 {
                *chunk = (f32::from_le_bytes(*chunk) * factor).to_le_bytes();
            }
        }
        DType::Bf16 => {
            for chunk in bytes.as_chunks_mut::<2>().0 {
                *chunk = bf16::from_f32(bf16::from_le_bytes(*chunk).to_f32() * factor).to_le_bytes();
            }
        }
        DType::F16 => {
            for chunk in bytes.as_chunks_mut::<2>().0 {
                *chunk = f16::from_f32(f16::from_le_bytes(*chunk).to_f32() * factor).to_le_bytes();
            }
        }
        DType::I32 => {}
    }
}

/// The numbers of f32 that are within the bounds of an output's elements: the first and the last of each. Half of what the
/// bounds themselves take, for a comparison that does little but read.
#[derive(Debug)]
pub(super) struct Within {
    low: Vec<f32>,
    high: Vec<f32>,
    /// The largest of them.
    most: f32,
}

impl Within {
    pub(super) fn of(expected: &Expected) -> Self {
        let len = expected.values.len().min(expected.bounds.len());
        let (mut low, mut high) = (vec![0.0; len], vec![0.0; len]);
        let most = Mutex::new(0f32);
        let of_bases = expected.values.chunks(PART).zip(expected.bounds.chunks(PART));
        let parts = low.chunks_mut(PART).zip(high.chunks_mut(PART)).zip(of_bases);
        parallel::each(parts, |((low, high), (values, bounds))| {
            let mut largest = 0f32;
            for ((low, high), (value, bound)) in low.iter_mut().zip(high).zip(values.iter().zip(bounds)) {
                (*low, *high) = (up(value - bound), down(value + bound));
                largest = largest.max(low.abs()).max(high.abs());
            }
            let mut most = most.lock().unwrap_or_else(PoisonError::into_inner);
            *most = most.max(largest);
        });
        Self { low, high, most: most.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The first f32 that is not below a number.
fn up(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) < value { near.next_up() } else { near }
}

/// The last that is not above it.
fn down(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) > value { near.next_down() } else { near }
}

/// Whether every element of an f32 output is within its bound; false also where a closer look is needed.
pub(super) fn all_right(bytes: &[u8], within: &Within, runs: &[Run], factor: f64) -> bool {
    let (elements, factor) = (bytes.as_chunks::<4>().0, factor as f32);
    // Beyond the type's range a bound would be none.
    if elements.len() != within.low.len() || !(within.most * factor).is_finite() {
        return false;
    }
    let (low, high) = if factor < 0.0 { (&within.high, &within.low) } else { (&within.low, &within.high) };
    let is_right = |run: &Run| {
        let got = &elements[run.to..run.to + run.len];
        let base = run.from..run.from + run.len;
        got.iter().zip(&low[base.clone()]).zip(&high[base]).fold(true, |right, ((got, low), high)| {
            let got = f32::from_le_bytes(*got);
            right & (got >= low * factor) & (got <= high * factor)
        })
    };
    parallel::all(parts(runs).into_iter(), |part| part.iter().all(is_right))
}

/// What is expected under a symmetry.
pub(super) fn moved(expected: &Expected, runs: &[Run], factor: f64) -> Expected {
    let moved = |values: &[f64], factor: f64| {
        let mut moved = vec![f64::NAN; values.len()];
        for run in runs.iter().filter(|run| run.from + run.len <= values.len() && run.to + run.len <= values.len()) {
            for (to, from) in moved[run.to..run.to + run.len].iter_mut().zip(&values[run.from..run.from + run.len]) {
                *to = from * factor;
            }
        }
        moved
    };
    Expected {
        name: expected.name,
        values: moved(&expected.values, factor),
        bounds: moved(&expected.bounds, factor.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Draw;

    #[test]
    fn parts_are_the_runs_again() {
        let axes = [(3, 1), (PART / 2 + 7, PART / 3)];
        let len = axes.iter().map(|(extent, _)| extent).product();
        let runs = runs(&axes, len);
        let parts = parts(&runs);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.iter().map(|run| run.len).sum::<usize>() <= PART));
        let pieces: Vec<Run> = parts.into_iter().flatten().collect();
        let mut at = 0;
        for piece in &pieces {
            assert_eq!(piece.to, at);
            at += piece.len;
            let whole = runs.iter().find(|run| (run.to..run.to + run.len.max(1)).contains(&piece.to)).unwrap();
            assert_eq!(piece.from - whole.from, piece.to - whole.to);
        }
        assert_eq!(at, len);
        let base: Vec<f32> = (0..len).map(|index| (index % 253) as f32 - 100.0).collect();
        let bytes: Vec<u8> = base.iter().flat_map(|value| value.to_le_bytes()).collect();
        for factor in [None, Some(1.0), Some(-8.0)] {
            let (mut into, mut plain) = (vec![0; 4 * len], vec![0.0; len]);
            copy(&bytes, &mut into, DType::F32, factor, &runs);
            for run in &runs {
                let moved = base[run.from..run.from + run.len].iter().map(|value| value * factor.unwrap_or(1.0));
                plain[run.to..run.to + run.len].iter_mut().zip(moved).for_each(|(to, value)| *to = value);
            }
            let into: Vec<f32> = into.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            assert!(into == plain, "{factor:?}");
        }
    }

    /// By the definition, in f64.
    fn is_within(got: f32, value: f64, bound: f64, factor: f64) -> bool {
        (f64::from(got) - value * factor).abs() <= bound * factor.abs()
    }

    #[test]
    fn what_is_within_in_f32_is_what_is_within_in_f64() {
        let mut draw = Draw::new(5, "within");
        let mut draw = |size: f64| (draw.between(0, 2_000_000) as f64 / 1e6 - 1.0) * size;
        for size in [1e-42, 1e-20, 1.0, 1e30] {
            for _ in 0..2_000 {
                let (value, bound) = (draw(size), draw(size * 1e-3).abs());
                // Odd numbers of f32 right beside the edges, and beyond.
                for edge in [value - bound, value, value + bound] {
                    let near = edge as f32;
                    for (got, factor) in [near, near.next_up(), near.next_down()].into_iter().zip([1.0, -4.0, 1024.0]) {
                        let expected = Expected { name: "y", values: vec![value], bounds: vec![bound] };
                        let scaled = got * factor as f32;
                        let runs = [Run { from: 0, to: 0, len: 1 }];
                        let right = all_right(&scaled.to_le_bytes(), &Within::of(&expected), &runs, factor);
                        assert_eq!(right, is_within(scaled, value, bound, factor), "{got} {value} {bound} {factor}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_exact_result_is_within_a_bound_of_zero_and_its_neighbours_are_not() {
        let runs = [Run { from: 0, to: 0, len: 1 }];
        for value in [0.0f32, 1.5, -3.0e-39, f32::MAX] {
            let expected = Expected { name: "y", values: vec![f64::from(value)], bounds: vec![0.0] };
            let within = Within::of(&expected);
            let right = |got: f32| all_right(&got.to_le_bytes(), &within, &runs, 1.0);
            assert!(right(value) && !right(value.next_up()) && !right(value.next_down()) && !right(f32::NAN));
        }
    }

    #[test]
    fn axes_are_turned_each_on_its_own() {
        let symmetry = Symmetry {
            tensors: vec![
                ("w", vec![Axis::Stays(2), Axis::Turns("k", 3), Axis::Turns("n", 4)]),
                ("wrong", vec![Axis::Turns("k", 3)]),
            ],
            scaled: Vec::new(),
        };
        let base: Vec<u8> = (0..24u32).flat_map(u32::to_le_bytes).collect();
        for (k, n) in [(0, 0), (1, 0), (0, 3), (2, 1), (5, 6)] {
            let mut into = [0; 96];
            let runs = runs(&axes(&symmetry, "w", &[("k", k), ("n", n)], 24), 24);
            copy(&base, &mut into, DType::I32, None, &runs);
            for (at, value) in into.as_chunks::<4>().0.iter().enumerate() {
                let (group, row, column) = (at / 12, at / 4 % 3, at % 4);
                assert_eq!(u32::from_le_bytes(*value) as usize, group * 12 + (row + k) % 3 * 4 + (column + n) % 4);
            }
        }
        for name in ["wrong", "unknown"] {
            assert_eq!(runs(&axes(&symmetry, name, &[("k", 1)], 7), 7), [Run { from: 0, to: 0, len: 7 }]);
        }
        assert_eq!(runs(&axes(&symmetry, "w", &[], 0), 0), [Run { from: 0, to: 0, len: 0 }]);
        // What stays as it is, is one axis with its neighbours.
        assert_eq!(axes(&symmetry, "w", &[("n", 1)], 24), [(6, 0), (4, 1)]);
        assert_eq!(axes(&symmetry, "w", &[("k", 2)], 24), [(2, 0), (3, 2), (4, 0)]);
    }
}
