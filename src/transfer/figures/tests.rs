use super::*;

fn call(entry: &str, calls: u64, seconds: f64) -> CallTime {
    CallTime { entry: entry.to_owned(), shape: "4x8".to_owned(), calls, seconds, reading: 0.0 }
}

/// A launch in which the op takes `share` of a step of one second, and the candidate's calls take `in_step` of that time in
/// the step and `repeated` of it when they are repeated.
fn launch(share: f64, in_step: f64, repeated: f64, wobble: f64) -> Launch {
    let step = |op: f64| StepTaken {
        loss: Some(3.0),
        seconds: (1.0 - share + op) * (1.0 + wobble),
        calls: vec![call("op", 2, op * (1.0 + wobble))],
    };
    let steps = |op: f64| vec![step(op); 8];
    Launch {
        steps: [steps(share), steps(share * in_step), steps(share)],
        repeated: [vec![call("op", 10, 1.0)], vec![call("op", 20, 2.0 * repeated)]],
    }
}

#[test]
fn a_gain_that_transfers_is_predicted_and_measured() {
    let launches: Vec<Launch> = [0.0, 0.001, -0.001, 0.002].map(|wobble| launch(0.4, 0.5, 0.5, wobble)).into();
    let (gain, control) = (gain(&launches, 1), gain(&launches, 2));
    assert!((gain.gain - 0.25).abs() < 1e-9 && control.gain.abs() < 1e-9, "{gain:?} {control:?}");
    let prediction = prediction(&launches).unwrap();
    assert!((prediction.share - 0.4).abs() < 1e-9);
    assert!((prediction.benchmark_gain - 1.0).abs() < 1e-9 && (prediction.step_op_gain - 1.0).abs() < 1e-9);
    assert!((prediction.predicted.gain - 0.25).abs() < 1e-9);
    assert_eq!(prediction.calls[0].calls, 2);
    assert_eq!(step_times(&launches)[1], 0.8 * 1.0005);
}

#[test]
fn a_gain_of_the_repetition_alone_is_predicted_and_does_not_come() {
    let launches: Vec<Launch> = [1.0, 1.01, 0.99, 1.005].map(|in_step| launch(0.4, in_step, 0.1, 0.0)).into();
    let prediction = prediction(&launches).unwrap();
    assert!(prediction.predicted.gain > 0.5 && !prediction.covered, "{prediction:?}");
    assert!(gain(&launches, 1).high < 0.01);
}

#[test]
fn who_reads_the_results_may_wait_for_them_or_not() {
    let launches: Vec<Launch> = [0.0, 0.001, -0.001, 0.002]
        .map(|wobble| {
            let mut launch = launch(0.4, 0.5, 0.5, wobble);
            // A call takes half of its time, and reading what it wrote a quarter of that time longer.
            launch.repeated[1][0].reading = 0.25 * 2.0;
            launch
        })
        .into();
    let prediction = prediction(&launches).unwrap();
    let call = &prediction.calls[0];
    assert!((call.saved - 0.2).abs() < 1e-9 && (call.read_later - 0.1).abs() < 1e-9, "{call:?}");
    // From 1 / (1 - 0.2 + 0.1) to 1 / (1 - 0.2).
    let predicted = &prediction.predicted;
    assert!((predicted.low - 1.0 / 9.0).abs() < 1e-9 && (predicted.high - 0.25).abs() < 1e-9, "{predicted:?}");
    assert!(prediction.covered);
}

#[test]
fn without_calls_there_is_no_prediction() {
    let mut bare = launch(0.4, 0.5, 0.5, 0.0);
    bare.steps.iter_mut().flatten().for_each(|step| step.calls.clear());
    assert_eq!(prediction(&[bare.clone(), bare]), None);
    assert_eq!(prediction(&[]), None);
}

fn with_losses(incumbent: &[f64], candidate: &[f64]) -> Launch {
    let steps = |losses: &[f64]| {
        let step = |loss: &f64| StepTaken {
            loss: Some(*loss).filter(|loss| loss.is_finite()),
            seconds: 1.0,
            calls: Vec::new(),
        };
        losses.iter().map(step).collect::<Vec<_>>()
    };
    Launch { steps: [steps(incumbent), steps(candidate), steps(incumbent)], repeated: Default::default() }
}

fn noisy(losses: &[f64]) -> Vec<Vec<Option<f64>>> {
    vec![losses.iter().copied().map(Some).collect()]
}

#[test]
fn losses_may_drift_as_far_as_rounding_makes_them() {
    let noise = noisy(&[4.0, 3.0003, 2.0001]);
    let honest = losses(&[with_losses(&[4.0, 3.0, 2.0], &[4.0, 3.001, 2.001])], &noise);
    assert!(honest.agree && honest.repeatable, "{}", honest.why);
    // What noise had done by then is allowed later too: losses that have drifted apart stay so.
    assert!((honest.allowed[2] - honest.allowed[1]).abs() < 1e-12 && honest.allowed[0] < 1e-5);
    let early = losses(&[with_losses(&[4.0, 3.0, 2.0], &[4.001, 3.0, 2.0])], &noise);
    assert!(!early.agree && early.why.starts_with("at step 1 the loss is 4.0000000"), "{}", early.why);
    let broken = losses(&[with_losses(&[4.0, 3.0, 2.0], &[4.0, f64::NAN, f64::NAN])], &noise);
    assert!(!broken.agree && broken.why.contains("no number with the candidate"), "{}", broken.why);
}

#[test]
fn every_launch_counts_and_the_incumbent_is_held_against_itself() {
    let noise = noisy(&[4.0, 3.0]);
    let good = with_losses(&[4.0, 3.0], &[4.0, 3.0]);
    assert!(!losses(&[good.clone(), with_losses(&[4.0, 3.0], &[4.1, 3.0])], &noise).agree);
    let mut restless = good.clone();
    restless.steps[2][1].loss = Some(3.0001);
    let found = losses(&[good, restless], &noise);
    assert!(found.agree && !found.repeatable);
    assert!(!losses(&[], &noise).agree);
}
