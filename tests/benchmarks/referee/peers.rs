//! What other tools' rules say of the same recorded launches.
//!
//! They run one version, then the other. The same is done here with what was recorded: the incumbent's batches of the
//! first half of the screen's launches, then the candidate's of the second half. A sample is the geometric mean over the
//! shapes of a batch's time per call. That the launches in between are interleaved does not show in either half.

use kopt_schema::bout::LaunchRecord;
use kopt_schema::evidence::Evidence;
use kopt_stats::{PeerVerdict, criterion_verdict, mann_whitney};
use serde::{Deserialize, Serialize};

/// Whether each rule calls the candidate faster.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Peers {
    /// The lower mean.
    pub mean: bool,
    /// Mann-Whitney at 5 %, and the lower median rank.
    pub mann_whitney: bool,
    /// Criterion's default: "improved".
    pub criterion: bool,
}

/// The peers' verdicts on the screen's launches.
pub fn judge(evidence: &Evidence) -> Peers {
    let Some(stage) = evidence.stages.first().filter(|stage| stage.launches.len() > 1) else {
        return Peers::default();
    };
    let (first, second) = stage.launches.split_at(stage.launches.len() / 2);
    let (old, new) = (samples(first, 0), samples(second, 1));
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
    let lower = mean(&new) < mean(&old);
    let median = |samples: &[f64]| kopt_stats::median(samples);
    Peers {
        mean: lower,
        mann_whitney: mann_whitney(&old, &new) < 0.05 && median(&new) < median(&old),
        criterion: criterion_verdict(&old, &new, 1) == PeerVerdict::Improved,
    }
}

/// A contestant's samples over launches, in the order they were taken.
fn samples(launches: &[LaunchRecord], contestant: usize) -> Vec<f64> {
    let mut samples = Vec::new();
    for launch in launches {
        let batches = launch.cases.iter().map(|case| 2 * case.blocks.len()).min().unwrap_or(0);
        for batch in 0..batches {
            let logs = launch.cases.iter().map(|case| {
                let nanoseconds = case.blocks[batch / 2].device_ns[contestant][batch % 2];
                (nanoseconds.max(1) as f64 / case.calls as f64).ln()
            });
            samples.push((logs.sum::<f64>() / launch.cases.len() as f64).exp());
        }
    }
    samples
}
