//! The model learns, and the same every time.

#![allow(clippy::unwrap_used, reason = "a test")]

use kopt_train::preset::{PRESETS, sizes};
use kopt_train::slots::Slots;
use kopt_train::training::Training;

fn losses(preset: &str, seed: u64, steps: usize) -> Vec<f64> {
    let mut training = Training::new(sizes(preset).unwrap(), seed, Slots::default());
    (0..steps).map(|_| training.step().unwrap().loss.unwrap()).collect()
}

#[test]
fn the_loss_falls_in_every_preset() {
    for (preset, _) in PRESETS {
        let losses = losses(preset, 7, 30);
        let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
        let (first, last) = (mean(&losses[..3]), mean(&losses[27..]));
        println!("{preset}: {first:.2} to {last:.2}");
        // All characters alike would be ln 43 = 3.76.
        assert!(first > 3.5 && first < 6.0, "{preset} starts at {first}");
        assert!(last < first - 0.5, "{preset} only came from {first} to {last}");
    }
}

#[test]
fn the_same_seed_gives_the_same_losses_to_the_last_bit() {
    assert_eq!(losses("tiny", 1, 20), losses("tiny", 1, 20));
    assert_ne!(losses("tiny", 1, 1), losses("tiny", 2, 1));
}

#[test]
fn a_preset_that_does_not_exist_is_answered_with_those_that_do() {
    let error = sizes("huge").unwrap_err();
    assert!(error.contains("`huge`") && error.contains("rmsnorm") && error.contains("grouped_matmul"), "{error}");
}
