//! The ops of the model that a kernel can take over, as the standard operators of `kopt-harness` define them, and each in
//! plain Rust: simple loops over consecutive memory that the compiler turns into vector code.

use crate::real::Real;

/// Keeps the root of a normalisation away from zero; the operator's own number.
pub const EPS: f32 = 1e-5;

/// What the model calls. Outputs are written whole; what was in them before is not read.
pub trait Ops<T> {
    /// `y = x / rms(x) * weight` by rows of `cols`; `inv_rms` is kept for backward.
    fn rmsnorm(&mut self, x: &[T], weight: &[T], y: &mut [T], inv_rms: &mut [T], cols: usize);
    /// Its gradients.
    fn rmsnorm_backward(&mut self, saved: Normed<'_, T>, dy: &[T], dx: &mut [T], dweight: &mut [T], cols: usize);
    /// Softmax by rows of `cols`.
    fn softmax(&mut self, x: &[T], y: &mut [T], cols: usize);
    /// `c = a * b`, sizes `[m, n, k]`.
    fn matmul(&mut self, a: &[T], b: &[T], c: &mut [T], size: [usize; 3]);
    /// `da = dc * bᵀ` and `db = aᵀ * dc`.
    fn matmul_backward(&mut self, saved: [&[T]; 2], dc: &[T], da: &mut [T], db: &mut [T], size: [usize; 3]);
    /// `y[r] = x[r] * w[group of r]`; `offsets` has the first row of each group and the end, sizes are `[k, n]`.
    fn grouped_matmul(&mut self, x: &[T], w: &[T], offsets: &[i32], y: &mut [T], size: [usize; 2]);
}

/// What a normalisation's backward reads of its forward.
#[derive(Debug, Clone, Copy)]
pub struct Normed<'a, T> {
    /// The input.
    pub x: &'a [T],
    /// A factor for each column.
    pub weight: &'a [T],
    /// What forward kept of each row.
    pub inv_rms: &'a [T],
}

/// All of them in plain Rust.
#[derive(Debug, Clone, Default)]
pub struct Plain<T> {
    transposed: Vec<T>,
}

impl<T: Real> Ops<T> for Plain<T> {
    fn rmsnorm(&mut self, x: &[T], weight: &[T], y: &mut [T], inv_rms: &mut [T], cols: usize) {
        let rows = x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)).zip(inv_rms);
        for ((x, y), inv_rms) in rows {
            let mean = dot(x, x) / T::of(cols as f64);
            *inv_rms = T::ONE / (mean + T::of(f64::from(EPS))).sqrt();
            for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                *y = *x * *inv_rms * *weight;
            }
        }
    }

    fn rmsnorm_backward(&mut self, saved: Normed<'_, T>, dy: &[T], dx: &mut [T], dweight: &mut [T], cols: usize) {
        dweight.fill(T::ZERO);
        let rows = saved.x.chunks_exact(cols).zip(dy.chunks_exact(cols)).zip(dx.chunks_exact_mut(cols));
        for (((x, dy), dx), inv_rms) in rows.zip(saved.inv_rms) {
            // `dx` holds weight · dy until its sum with x is known.
            for ((dx, dy), weight) in dx.iter_mut().zip(dy).zip(saved.weight) {
                *dx = *weight * *dy;
            }
            let inv_rms = *inv_rms;
            let correction = inv_rms * inv_rms * inv_rms / T::of(cols as f64) * dot(dx, x);
            for (((dx, x), dy), dweight) in dx.iter_mut().zip(x).zip(dy).zip(dweight.iter_mut()) {
                *dx = *dx * inv_rms - *x * correction;
                *dweight += *dy * (*x * inv_rms);
            }
        }
    }

    fn softmax(&mut self, x: &[T], y: &mut [T], cols: usize) {
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
            let most = x.iter().fold(T::LOWEST, |most, x| if *x > most { *x } else { most });
            let mut sum = T::ZERO;
            for (x, y) in x.iter().zip(y.iter_mut()) {
                *y = (*x - most).exp();
                sum += *y;
            }
            y.iter_mut().for_each(|y| *y = *y / sum);
        }
    }

    fn matmul(&mut self, a: &[T], b: &[T], c: &mut [T], [_, n, k]: [usize; 3]) {
        product(a, b, c, n, k);
    }

    fn matmul_backward(&mut self, saved: [&[T]; 2], dc: &[T], da: &mut [T], db: &mut [T], [_, n, k]: [usize; 3]) {
        let [a, b] = saved;
        self.transpose(b, n);
        product(dc, &self.transposed, da, k, n);
        db.fill(T::ZERO);
        add_outer(a, dc, db, n, k);
    }

    fn grouped_matmul(&mut self, x: &[T], w: &[T], offsets: &[i32], y: &mut [T], [k, n]: [usize; 2]) {
        for (rows, w) in groups(offsets).zip(w.chunks_exact(k * n)) {
            product(&x[rows.start * k..rows.end * k], w, &mut y[rows.start * n..rows.end * n], n, k);
        }
    }
}

impl<T: Real> Plain<T> {
    fn transpose(&mut self, matrix: &[T], cols: usize) {
        let rows = matrix.len() / cols;
        self.transposed.clear();
        self.transposed.resize(matrix.len(), T::ZERO);
        for (row, values) in matrix.chunks_exact(cols).enumerate() {
            for (col, value) in values.iter().enumerate() {
                self.transposed[col * rows + row] = *value;
            }
        }
    }

    /// Gradients of [`Ops::grouped_matmul`], which has no backward entry: a kernel never takes this over.
    pub fn grouped_backward(
        &mut self,
        [x, w, dy]: [&[T]; 3],
        offsets: &[i32],
        [dx, dw]: [&mut [T]; 2],
        [k, n]: [usize; 2],
    ) {
        for (group, rows) in groups(offsets).enumerate() {
            let weight = group * k * n..(group + 1) * k * n;
            let size = [rows.len(), n, k];
            let (inside, outside) = (rows.start * k..rows.end * k, rows.start * n..rows.end * n);
            let saved = [&x[inside.clone()], &w[weight.clone()]];
            self.matmul_backward(saved, &dy[outside], &mut dx[inside], &mut dw[weight], size);
        }
    }
}

/// The rows of each group.
fn groups(offsets: &[i32]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let row = |offset: i32| usize::try_from(offset).unwrap_or(0);
    offsets.windows(2).map(move |pair| row(pair[0])..row(pair[1]))
}

/// A sum of products in sixteen parts, which the compiler can keep in vector registers.
fn dot<T: Real>(left: &[T], right: &[T]) -> T {
    const PARTS: usize = 16;
    let mut sums = [T::ZERO; PARTS];
    let (wide_left, wide_right) = (left.chunks_exact(PARTS), right.chunks_exact(PARTS));
    let rest: T = wide_left.remainder().iter().zip(wide_right.remainder()).map(|(left, right)| *left * *right).sum();
    for (left, right) in wide_left.zip(wide_right) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += *left * *right;
        }
    }
    rest + sums.into_iter().sum()
}

/// `c = a * b` with rows of `k` in `a` and of `n` in `b`: four rows of `b` at a time, so that a row of `c` is passed over
/// a quarter as often.
fn product<T: Real>(a: &[T], b: &[T], c: &mut [T], n: usize, k: usize) {
    c.fill(T::ZERO);
    for (a, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        add_rows(a, b, c, n);
    }
}

/// `into += Σ factors[i] * rows[i]`, rows of `n`.
fn add_rows<T: Real>(factors: &[T], rows: &[T], into: &mut [T], n: usize) {
    let (fours, row_fours) = (factors.chunks_exact(4), rows.chunks_exact(4 * n));
    let last = factors.len() / 4 * 4;
    for (factor, rows) in fours.zip(row_fours) {
        let (first, rest) = rows.split_at(n);
        let (second, rest) = rest.split_at(n);
        let (third, fourth) = rest.split_at(n);
        let sources = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (into, ((first, second), (third, fourth))) in into.iter_mut().zip(sources) {
            *into += (factor[0] * *first + factor[1] * *second) + (factor[2] * *third + factor[3] * *fourth);
        }
    }
    for (factor, row) in factors[last..].iter().zip(rows[last * n..].chunks_exact(n)) {
        into.iter_mut().zip(row).for_each(|(into, row)| *into += *factor * *row);
    }
}

/// `db += aᵀ * dc`: four rows of both at a time.
fn add_outer<T: Real>(a: &[T], dc: &[T], db: &mut [T], n: usize, k: usize) {
    let rows = a.len() / k;
    let mut column = [T::ZERO; 4];
    for start in (0..rows).step_by(4) {
        let count = 4.min(rows - start);
        for (p, db) in db.chunks_exact_mut(n).enumerate() {
            for (row, factor) in column.iter_mut().enumerate().take(count) {
                *factor = a[(start + row) * k + p];
            }
            add_rows(&column[..count], &dc[start * n..(start + count) * n], db, n);
        }
    }
}
