//! The model's ops as calls of entries.

use super::Slots;
use super::call::{Call, Written};
use crate::ops::{EPS, Normed, Ops};

impl Ops<f32> for Slots {
    fn rmsnorm(&mut self, x: &[f32], weight: &[f32], y: &mut [f32], inv_rms: &mut [f32], cols: usize) {
        let call = Call {
            entry: "rmsnorm",
            sizes: vec![("rows", inv_rms.len()), ("cols", cols)],
            reads: vec![("x", x), ("weight", weight)],
            fresh: "x",
            indices: None,
            scalar: Some(("eps", EPS)),
            writes: vec![
                Written { name: "y", values: y, row: cols, terms: cols },
                Written { name: "inv_rms", values: inv_rms, row: 1, terms: cols },
            ],
        };
        if !self.given(call) {
            self.plain.rmsnorm(x, weight, y, inv_rms, cols);
        }
    }

    fn rmsnorm_backward(
        &mut self,
        saved: Normed<'_, f32>,
        dy: &[f32],
        dx: &mut [f32],
        dweight: &mut [f32],
        cols: usize,
    ) {
        let rows = saved.inv_rms.len();
        let call = Call {
            entry: "rmsnorm_backward",
            sizes: vec![("rows", rows), ("cols", cols)],
            reads: vec![("x", saved.x), ("weight", saved.weight), ("inv_rms", saved.inv_rms), ("dy", dy)],
            fresh: "dy",
            indices: None,
            scalar: None,
            writes: vec![
                Written { name: "dx", values: dx, row: cols, terms: cols },
                Written { name: "dweight", values: dweight, row: cols, terms: rows },
            ],
        };
        if !self.given(call) {
            self.plain.rmsnorm_backward(saved, dy, dx, dweight, cols);
        }
    }

    fn softmax(&mut self, x: &[f32], y: &mut [f32], cols: usize) {
        let call = Call {
            entry: "softmax",
            sizes: vec![("rows", x.len() / cols), ("cols", cols)],
            reads: vec![("x", x)],
            fresh: "x",
            indices: None,
            scalar: None,
            writes: vec![Written { name: "y", values: y, row: cols, terms: cols }],
        };
        if !self.given(call) {
            self.plain.softmax(x, y, cols);
        }
    }

    fn matmul(&mut self, a: &[f32], b: &[f32], c: &mut [f32], size: [usize; 3]) {
        let [m, n, k] = size;
        let call = Call {
            entry: "matmul",
            sizes: vec![("m", m), ("n", n), ("k", k)],
            reads: vec![("a", a), ("b", b)],
            fresh: "a",
            indices: None,
            scalar: None,
            writes: vec![Written { name: "c", values: c, row: n, terms: k }],
        };
        if !self.given(call) {
            self.plain.matmul(a, b, c, size);
        }
    }

    fn matmul_backward(&mut self, saved: [&[f32]; 2], dc: &[f32], da: &mut [f32], db: &mut [f32], size: [usize; 3]) {
        let [m, n, k] = size;
        let call = Call {
            entry: "matmul_backward",
            sizes: vec![("m", m), ("n", n), ("k", k)],
            reads: vec![("a", saved[0]), ("b", saved[1]), ("dc", dc)],
            fresh: "dc",
            indices: None,
            scalar: None,
            writes: vec![
                Written { name: "da", values: da, row: k, terms: n },
                Written { name: "db", values: db, row: n, terms: m },
            ],
        };
        if !self.given(call) {
            self.plain.matmul_backward(saved, dc, da, db, size);
        }
    }

    fn grouped_matmul(&mut self, x: &[f32], w: &[f32], offsets: &[i32], y: &mut [f32], size: [usize; 2]) {
        let [k, n] = size;
        let call = Call {
            entry: "grouped_matmul",
            sizes: vec![("rows", x.len() / k), ("groups", offsets.len() - 1), ("k", k), ("n", n)],
            reads: vec![("x", x), ("w", w)],
            fresh: "x",
            indices: Some(("offsets", offsets)),
            scalar: None,
            writes: vec![Written { name: "y", values: y, row: n, terms: k }],
        };
        if !self.given(call) {
            self.plain.grouped_matmul(x, w, offsets, y, size);
        }
    }
}
