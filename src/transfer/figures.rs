//! From launches to figures: gain of the step, share of the op, what it predicts, and whether losses agree. Pure functions.

use kopt_schema::evidence::Estimate;
use kopt_schema::training::{CallShare, CallTime, Losses, Prediction, StepTaken};
use kopt_stats::{Effect, gain_of_log, mean_interval, median, winsorized_mean};

/// Steps of a process that are not timed: its memory is touched for the first time.
pub const WARM_UP: usize = 2;
/// Two-sided.
pub const CONFIDENCE: f64 = 0.95;
/// Losses may differ by this many times what rounding noise alone does to them: the noise is drawn to the size of
/// rounding errors, and a few runs of it do not show the largest drift there can be. A kernel that computes with half the
/// digits is off by some thousand times as much.
const NOISE_FACTOR: f64 = 10.0;
/// Losses of f32 models are no better known than this, noise or not.
const FLOOR: f64 = 1e-6;

/// Losses step by step; none where one is no number.
pub type Curve = Vec<Option<f64>>;

/// What three trainers did in one launch: incumbent, candidate, and the incumbent again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Launch {
    /// Steps of each.
    pub steps: [Vec<StepTaken>; 3],
    /// Calls that incumbent and candidate repeated on the same tensors.
    pub repeated: [Vec<CallTime>; 2],
}

/// Adds times of calls to those of the same entry and shape.
pub fn add_times(into: &mut Vec<CallTime>, times: &[CallTime]) {
    for time in times {
        match into.iter_mut().find(|known| known.entry == time.entry && known.shape == time.shape) {
            Some(known) => {
                known.calls += time.calls;
                known.seconds += time.seconds;
                known.reading += time.reading;
            }
            None => into.push(time.clone()),
        }
    }
}

fn timed(steps: &[StepTaken]) -> &[StepTaken] {
    steps.get(WARM_UP..).unwrap_or_default()
}

/// Logarithm of the gain of `who` over the incumbent in one launch. Steps are compared with the one taken at the same time.
#[must_use]
pub fn launch_gain(launch: &Launch, who: usize) -> f64 {
    let pairs = timed(&launch.steps[0]).iter().zip(timed(&launch.steps[who]));
    let gains: Vec<f64> = pairs.map(|(incumbent, other)| (incumbent.seconds / other.seconds).ln()).collect();
    winsorized_mean(&gains)
}

/// The gain of `who` over the incumbent.
#[must_use]
pub fn gain(launches: &[Launch], who: usize) -> Estimate {
    estimate(&launches.iter().map(|launch| launch_gain(launch, who)).collect::<Vec<_>>())
}

/// An estimate from one logarithm a launch.
#[must_use]
pub fn estimate(logs: &[f64]) -> Estimate {
    let interval = mean_interval(logs, CONFIDENCE).map(gain_of_log);
    Estimate {
        gain: interval.estimate,
        low: interval.low,
        high: interval.high,
        confidence: CONFIDENCE,
        launch_sigma: Effect::of(logs).deviation,
        launches: logs.len(),
    }
}

/// Seconds of a step of incumbent and candidate: the median over all.
#[must_use]
pub fn step_times(launches: &[Launch]) -> [f64; 2] {
    [0, 1].map(|who| {
        let all: Vec<f64> =
            launches.iter().flat_map(|launch| timed(&launch.steps[who])).map(|step| step.seconds).collect();
        median(&all)
    })
}

/// What the op's share and its gain in a benchmark of the same calls predict; none where the kernel took over no call.
#[must_use]
pub fn prediction(launches: &[Launch]) -> Option<Prediction> {
    let rows: Vec<Vec<CallShare>> = launches.iter().map(shares).collect();
    let first = rows.first().filter(|rows| !rows.is_empty())?;
    let reading = [0.0, 1.0].map(|waits| estimate(&rows.iter().map(|rows| predicted(rows, waits)).collect::<Vec<_>>()));
    let predicted = between(&reading);
    let measured = gain(launches, 1);
    let count = rows.len() as f64;
    let mean = |at: usize, value: fn(&CallShare) -> f64| {
        rows.iter().filter_map(|rows| rows.get(at)).map(value).sum::<f64>() / count
    };
    let log_mean = |at: usize, value: fn(&CallShare) -> f64| {
        gain_of_log(rows.iter().filter_map(|rows| rows.get(at)).map(|row| value(row).ln_1p()).sum::<f64>() / count)
    };
    let calls: Vec<CallShare> = first
        .iter()
        .enumerate()
        .map(|(at, row)| CallShare {
            entry: row.entry.clone(),
            shape: row.shape.clone(),
            calls: row.calls,
            share: mean(at, |row| row.share),
            benchmark_gain: log_mean(at, |row| row.benchmark_gain),
            saved: mean(at, |row| row.saved),
            read_later: mean(at, |row| row.read_later),
            step_gain: log_mean(at, |row| row.step_gain),
        })
        .collect();
    let share: f64 = calls.iter().map(|call| call.share).sum();
    let whole = |gain: fn(&CallShare) -> f64| {
        let left: f64 = calls.iter().map(|call| call.share / (1.0 + gain(call))).sum();
        share / left - 1.0
    };
    Some(Prediction {
        share,
        benchmark_gain: whole(|call| call.benchmark_gain),
        step_op_gain: whole(|call| call.step_gain),
        covered: measured.low <= predicted.high && predicted.low <= measured.high,
        predicted,
        calls,
    })
}

/// Logarithm of the step's gain if each call gains in the step what it gains in the benchmark, and its readers wait for this
/// part of what they read slower.
fn predicted(rows: &[CallShare], waits: f64) -> f64 {
    let saved: f64 = rows.iter().map(|row| row.saved - waits * row.read_later).sum();
    -(-saved).ln_1p()
}

/// The one estimate of which two are the ends.
fn between([one, other]: &[Estimate; 2]) -> Estimate {
    Estimate {
        gain: f64::midpoint(one.gain, other.gain),
        low: one.low.min(other.low),
        high: one.high.max(other.high),
        ..*one
    }
}

/// The calls of one launch.
fn shares(launch: &Launch) -> Vec<CallShare> {
    let inside = |who: usize| {
        let mut all = Vec::new();
        timed(&launch.steps[who]).iter().for_each(|step| add_times(&mut all, &step.calls));
        all
    };
    let (incumbent, candidate) = (inside(0), inside(1));
    let steps = timed(&launch.steps[0]);
    let whole: f64 = steps.iter().map(|step| step.seconds).sum();
    let row = |own: &CallTime| {
        let find = |calls: &[CallTime]| {
            calls
                .iter()
                .find(|call| call.entry == own.entry && call.shape == own.shape)
                .map(|call| [call.seconds, call.reading].map(|seconds| seconds / call.calls as f64))
        };
        let ([before, read_before], [after, read_after]) = (find(&launch.repeated[0])?, find(&launch.repeated[1])?);
        let share = own.seconds / whole;
        Some(CallShare {
            entry: own.entry.clone(),
            shape: own.shape.clone(),
            calls: own.calls / steps.len().max(1) as u64,
            share,
            benchmark_gain: before / after - 1.0,
            saved: share * (before - after) / before,
            read_later: share * (read_after - read_before) / before,
            step_gain: own.seconds / own.calls as f64 / find(&candidate)?[0] - 1.0,
        })
    };
    incumbent.iter().filter_map(row).collect()
}

/// Whether both versions learn the same: at no step are the losses further apart than ten times what noise of the size of
/// rounding errors had done to the incumbent's by then.
#[must_use]
pub fn losses(launches: &[Launch], noisy: &[Curve]) -> Losses {
    let of = |launch: &Launch, who: usize| launch.steps[who].iter().map(|step| step.loss).collect::<Vec<_>>();
    let Some(first) = launches.first() else {
        let none = Vec::new;
        return Losses {
            agree: false,
            why: "nothing was trained".to_owned(),
            incumbent: none(),
            candidate: none(),
            allowed: Vec::new(),
            repeatable: false,
        };
    };
    let (incumbent, candidate) = (of(first, 0), of(first, 1));
    let mut drift = 0.0f64;
    let mut allowed = Vec::new();
    for (step, loss) in incumbent.iter().enumerate() {
        for other in noisy.iter().filter_map(|losses| losses.get(step)) {
            drift = drift.max(apart(*loss, *other).unwrap_or(0.0));
        }
        allowed.push(FLOOR + NOISE_FACTOR * drift);
    }
    let found = launches.iter().find_map(|launch| disagreement(&incumbent, &of(launch, 1), &allowed));
    let repeatable = launches.iter().all(|launch| {
        [0, 2].into_iter().all(|who| of(launch, who).iter().zip(&incumbent).all(|(again, loss)| again == loss))
    });
    let why = found.clone().unwrap_or_else(|| {
        let most = incumbent.iter().zip(&candidate).filter_map(|(a, b)| apart(*a, *b)).fold(0.0, f64::max);
        let last = allowed.last().copied().unwrap_or(FLOOR);
        format!("at most {most:.1e} apart over {} steps; rounding alone may make it {last:.1e}", incumbent.len())
    });
    Losses { agree: found.is_none(), why, incumbent, candidate, allowed, repeatable }
}

/// The first step at which losses are too far apart, in words.
#[must_use]
pub fn disagreement(incumbent: &[Option<f64>], candidate: &[Option<f64>], allowed: &[f64]) -> Option<String> {
    let told = |loss: Option<f64>| loss.map_or("no number".to_owned(), |loss| format!("{loss:.7}"));
    incumbent.iter().zip(candidate).zip(allowed).enumerate().find_map(|(step, ((old, new), allowed))| {
        let too_far = match apart(*old, *new) {
            Some(difference) => difference > *allowed,
            None => old.is_some() != new.is_some(),
        };
        too_far.then(|| {
            let (old, new) = (told(*old), told(*new));
            format!("at step {} the loss is {old} with the incumbent and {new} with the candidate; {allowed:.1e} of it is allowed", step + 1)
        })
    })
}

/// The relative difference of two losses; none where one is no number.
fn apart(old: Option<f64>, new: Option<f64>) -> Option<f64> {
    let (old, new) = (old?, new?);
    Some((old - new).abs() / old.abs().max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests;
