//! Every backward against finite differences of its forward, in f64: the same code that trains in f32.

use kopt_harness::Draw;
use kopt_train::model::{Model, Weights};
use kopt_train::ops::{Normed, Ops, Plain};
use kopt_train::preset::{Sizes, sizes};
use kopt_train::text::Text;

const STEP: f64 = 1e-5;

fn random(draw: &mut Draw, len: usize) -> Vec<f64> {
    (0..len).map(|_| f64::from(draw.normal())).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// Compares `gradient` with differences of `loss` as each element of `values` is moved.
#[track_caller]
fn agrees(what: &str, values: &[f64], gradient: &[f64], mut loss: impl FnMut(&[f64]) -> f64) {
    let mut moved = values.to_vec();
    for at in 0..values.len() {
        moved[at] = values[at] + STEP;
        let above = loss(&moved);
        moved[at] = values[at] - STEP;
        let below = loss(&moved);
        moved[at] = values[at];
        close(&format!("{what}[{at}]"), (above - below) / (2.0 * STEP), gradient[at]);
    }
}

#[track_caller]
fn close(what: &str, difference: f64, gradient: f64) {
    let bound = 1e-8 + 1e-6 * gradient.abs();
    assert!((difference - gradient).abs() < bound, "{what}: {gradient} but differences give {difference}");
}

#[test]
fn rmsnorm() {
    let (rows, cols) = (3, 19);
    let mut draw = Draw::new(1, "rmsnorm");
    let (x, weight, dy) = (random(&mut draw, rows * cols), random(&mut draw, cols), random(&mut draw, rows * cols));
    let forward = |x: &[f64], weight: &[f64]| {
        let (mut y, mut inv_rms) = (vec![0.0; rows * cols], vec![0.0; rows]);
        Plain::default().rmsnorm(x, weight, &mut y, &mut inv_rms, cols);
        (y, inv_rms)
    };
    let inv_rms = forward(&x, &weight).1;
    let (mut dx, mut dweight) = (vec![9.0; rows * cols], vec![9.0; cols]);
    let saved = Normed { x: &x, weight: &weight, inv_rms: &inv_rms };
    Plain::default().rmsnorm_backward(saved, &dy, &mut dx, &mut dweight, cols);
    agrees("dx", &x, &dx, |x| dot(&forward(x, &weight).0, &dy));
    agrees("dweight", &weight, &dweight, |weight| dot(&forward(&x, weight).0, &dy));
}

#[test]
fn matmul() {
    for [m, n, k] in [[3, 4, 5], [5, 7, 2], [1, 1, 9], [8, 3, 4]] {
        let mut draw = Draw::new(2, "matmul");
        let (a, b, dc) = (random(&mut draw, m * k), random(&mut draw, k * n), random(&mut draw, m * n));
        let forward = |a: &[f64], b: &[f64]| {
            let mut c = vec![9.0; m * n];
            Plain::default().matmul(a, b, &mut c, [m, n, k]);
            c
        };
        let (mut da, mut db) = (vec![9.0; m * k], vec![9.0; k * n]);
        Plain::default().matmul_backward([&a, &b], &dc, &mut da, &mut db, [m, n, k]);
        agrees("da", &a, &da, |a| dot(&forward(a, &b), &dc));
        agrees("db", &b, &db, |b| dot(&forward(&a, b), &dc));
    }
}

#[test]
fn grouped_matmul_with_an_empty_group() {
    let (k, n, offsets) = (3, 5, [0, 2, 2, 7]);
    let mut draw = Draw::new(3, "grouped");
    let (x, w, dy) = (random(&mut draw, 7 * k), random(&mut draw, 3 * k * n), random(&mut draw, 7 * n));
    let forward = |x: &[f64], w: &[f64]| {
        let mut y = vec![9.0; 7 * n];
        Plain::default().grouped_matmul(x, w, &offsets, &mut y, [k, n]);
        y
    };
    let (mut dx, mut dw) = (vec![9.0; 7 * k], vec![9.0; 3 * k * n]);
    Plain::default().grouped_backward([&x, &w, &dy], &offsets, [&mut dx, &mut dw], [k, n]);
    agrees("dx", &x, &dx, |x| dot(&forward(x, &w), &dy));
    agrees("dw", &w, &dw, |w| dot(&forward(&x, w), &dy));
}

/// The whole model: some elements of every tensor of weights.
#[track_caller]
fn model(sizes: Sizes) {
    let text = Text::default();
    let mut weights = Weights::<f64>::random(sizes, text.vocabulary(), 4);
    // Away from one, so that a factor that is left out shows.
    let mut draw = Draw::new(5, "norms");
    for tensor in weights.each_mut() {
        tensor.iter_mut().for_each(|value| *value *= 1.0 + 0.3 * f64::from(draw.unit()));
    }
    let (read, next) = text.batch(6, 0, sizes.batch, sizes.length);
    let (mut model, mut ops) = (Model::new(sizes, text.vocabulary()), Plain::default());
    let mut gradients = weights.zeros();
    model.forward(&mut ops, &weights, &read, &next);
    model.backward(&mut ops, &weights, &mut gradients, &read);
    let gradients: Vec<Vec<f64>> = gradients.each().iter().map(|tensor| tensor.to_vec()).collect();
    let mut seen = 0;
    for (number, gradient) in gradients.iter().enumerate() {
        let stride = (gradient.len() / 12).max(1);
        for at in (0..gradient.len()).step_by(stride) {
            let mut loss = |by: f64| {
                weights.each_mut()[number][at] += by;
                let loss = model.forward(&mut ops, &weights, &read, &next);
                weights.each_mut()[number][at] -= by;
                loss
            };
            let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            close(&format!("tensor {number}, element {at}"), difference, gradient[at]);
            seen += usize::from(gradient[at].abs() > 1e-6);
        }
    }
    assert!(seen > 50, "only {seen} gradients were not zero");
}

#[test]
fn a_model_with_experts_and_normalisations_before_and_after() {
    model(sizes("tiny").unwrap());
}

#[test]
fn a_dense_model() {
    model(Sizes { experts: 1, sandwich: false, ..sizes("tiny").unwrap() });
}
