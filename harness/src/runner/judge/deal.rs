//! A content under a symmetry: which axes are turned by how much, which inputs are multiplied by what, and what that does to
//! bytes and to what is expected.

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

/// Copies bytes of elements of `size`; the runs are all of `into`, in order.
pub(super) fn copy(from: &[u8], mut into: &mut [u8], size: usize, runs: &[Run]) {
    let mut pieces = Vec::new();
    for part in parts(runs) {
        let len: usize = part.iter().map(|run| run.len * size).sum();
        let (piece, rest) = into.split_at_mut(len);
        pieces.push((part, piece));
        into = rest;
    }
    parallel::each(pieces.into_iter(), |(part, mut piece)| {
        for run in part {
            let (target, rest) = piece.split_at_mut(run.len * size);
            target.copy_from_slice(&from[run.from * size..(run.from + run.len) * size]);
            piece = rest;
        }
    });
}

/// Multiplies elements by a power of two.
pub(super) fn multiply(bytes: &mut [u8], dtype: DType, factor: f32) {
    parallel::each(bytes.chunks_mut(PART * dtype.size()), |part| multiply_part(part, dtype, factor));
}

fn multiply_part(bytes: &mut [u8], dtype: DType, factor: f32) {
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

/// Whether every element of an f32 output is within its bound; false also where a closer look is needed.
pub(super) fn all_right(bytes: &[u8], expected: &Expected, runs: &[Run], factor: f64) -> bool {
    let (elements, size) = (bytes.as_chunks::<4>().0, factor.abs());
    if elements.len() != expected.values.len() || elements.len() != expected.bounds.len() {
        return false;
    }
    let is_right = |run: &Run| {
        let got = &elements[run.to..run.to + run.len];
        let base = run.from..run.from + run.len;
        got.iter().zip(&expected.values[base.clone()]).zip(&expected.bounds[base]).fold(
            true,
            |right, ((got, value), bound)| {
                let off = (f64::from(f32::from_le_bytes(*got)) - value * factor).abs();
                right & (off <= bound * size)
            },
        )
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
        let base: Vec<u8> = (0..len).map(|index| (index % 253) as u8).collect();
        let (mut into, mut plain) = (vec![0; len], vec![0; len]);
        copy(&base, &mut into, 1, &runs);
        runs.iter()
            .for_each(|run| plain[run.to..run.to + run.len].copy_from_slice(&base[run.from..run.from + run.len]));
        assert_eq!(into, plain);
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
        let base: Vec<u8> = (0..24).collect();
        for (k, n) in [(0, 0), (1, 0), (0, 3), (2, 1), (5, 6)] {
            let mut into = [0; 24];
            copy(&base, &mut into, 1, &runs(&axes(&symmetry, "w", &[("k", k), ("n", n)], 24), 24));
            for (at, value) in into.iter().enumerate() {
                let (group, row, column) = (at / 12, at / 4 % 3, at % 4);
                assert_eq!(usize::from(*value), group * 12 + (row + k) % 3 * 4 + (column + n) % 4);
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
