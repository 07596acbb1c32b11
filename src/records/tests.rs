//! Records of rounds and campaigns, from facts as the engine gives them, and with strangers' words that try to break out.

mod documents;
mod rounds;

use std::collections::BTreeMap;

use kopt_schema::campaign::event::{Baseline, Level, Reason, ShapeTime};
use kopt_schema::campaign::trained::{PredictedGain, TrainingFigures};
use kopt_schema::campaign::{Bucket, Category, Proposal, Target, Training};
use kopt_schema::evidence::{Direction, Estimate, Ruling, ShapeVerdict, Verdict};

use super::*;

/// A target as a campaign writes it.
pub(crate) fn target() -> Target {
    let text = r#"
        format = 1
        campaign = "softmax_cpu_some-core_20261115-0501"
        created = "2026-11-15 05:01"
        kernel = "softmax-cpu"
        target_op = "softmax"
        target_backend = "cpu"
        target_lang = "c"
        target_device = "Some Core 9"
        target_shapes = ["64x1024", "1x8", "2048x4096"]
        representative_shapes = ["64x1024"]
        core_shapes = []
        primary_metric = "latency"
        kernel_sources = ["kernels/softmax.c"]
        test_command = "cargo test -p softmax-cpu"
        benchmark_command = "cargo bench -p softmax-cpu"
        quick_command = "cargo kopt bench -p softmax-cpu --quick"
        execution_mode = "worktree"
        git_commit = true
        git_branch = "kopt/softmax"
        base = "1a2b3c4d5e"
        max_rounds = 20
        max_time_s = 3600.0
        round_time_s = 600.0
        min_gain = 0.01
        policy = "default"
        roofline_share = 0.95
        proposers = [{ kind = "hand" }]
    "#;
    toml::from_str(text).unwrap()
}

pub(crate) fn estimate(gain: f64, reach: f64) -> Estimate {
    let (low, high) = (gain - reach, gain + reach);
    Estimate { gain, low, high, confidence: 0.96, launch_sigma: 0.01, launches: 9 }
}

pub(crate) fn trained(gain: f64) -> Training {
    Training::Taken(TrainingFigures {
        evidence: "cd".repeat(32),
        incumbent_s: 0.02,
        candidate_s: 0.02 / (1.0 + gain),
        gain: estimate(gain, 0.008),
        predicted: Some(PredictedGain { share: 0.2, gain: estimate(gain, 0.01), covered: true }),
        losses_agree: true,
        losses: "at most 1.0e-7 apart over 52 steps".to_owned(),
        steps: 52,
        seconds: 30.0,
    })
}

pub(crate) fn measurement(ruling: Ruling, gain: f64) -> Measurement {
    let shape = |name: &str, direction| ShapeVerdict {
        shape: name.to_owned(),
        core: true,
        direction,
        estimate: estimate(gain, 0.013),
        incumbent_s: 12.34e-6,
        candidate_s: 12.34e-6 / (1.0 + gain),
    };
    let direction = if gain > 0.0 { Direction::Faster } else { Direction::Slower };
    Measurement {
        level: Level::Full,
        verdict: Verdict {
            ruling,
            direction,
            reasons: vec!["the gain was shown".to_owned()],
            aggregate: Some(estimate(gain, 0.013)),
            shapes: vec![shape("64x1024", direction), shape("1x8", Direction::CannotTell)],
            control: None,
            detectable: Some(0.011),
            launches: 15,
            false_accept: 0.0004,
        },
        failed: vec![FailedShape { shape: "2048x4096".to_owned(), why: "crashed | badly\nat once".to_owned() }],
        left_out: Vec::new(),
        evidence: "ab".repeat(32),
        seconds: 75.0,
    }
}

pub(crate) fn accepted() -> RoundFacts {
    RoundFacts {
        target: target(),
        round: 3,
        at: "2026-11-15 06:10".to_owned(),
        toolchain: "gcc 14".to_owned(),
        proposer: "by hand".to_owned(),
        proposal: Some(Proposal {
            title: "Two rows at a time".to_owned(),
            hypothesis: "The loop waits for one accumulator.".to_owned(),
            category: Some(Category::Overlap),
            bucket: Some(Bucket::K1),
            expected_gain: Some("about 30 %".to_owned()),
            different: None,
            next: Some("four rows".to_owned()),
            source: None,
        }),
        files: vec!["kernels/softmax.c".to_owned()],
        lines: [12, 3],
        refused: Vec::new(),
        measurements: vec![measurement(Ruling::Accepted, 0.123)],
        versus_baseline: Some(VersusBaseline { gain: estimate(0.2, 0.02), measured: false }),
        decision: Decision::Accepted { ruling: Ruling::Accepted, gain: estimate(0.123, 0.013) },
        transfer: TransferFacts {
            bucket: Some(BucketFinding { bucket: Bucket::K1, grounds: Grounds::Presumed }),
            benchmark: Some(estimate(0.123, 0.013)),
            ..TransferFacts::default()
        },
        root_cause: None,
        rollbacks: 0,
        directions: vec!["another layout".to_owned()],
    }
}

pub(crate) fn rolled_back(reason: Reason, message: &str) -> RoundFacts {
    let measured = match reason {
        Reason::Slower => vec![measurement(Ruling::RolledBack, -0.05)],
        _ => Vec::new(),
    };
    let decision = Decision::RolledBack { reason, message: message.to_owned() };
    RoundFacts { decision, measurements: measured, rollbacks: 1, versus_baseline: None, ..accepted() }
}

pub(crate) fn baseline() -> Baseline {
    let time = |shape: &str, ceiling_share| ShapeTime { shape: shape.to_owned(), seconds: 12.34e-6, ceiling_share };
    Baseline {
        evidence: "cd".repeat(32),
        trials: 42,
        shapes: vec![time("64x1024", Some(0.5)), time("1x8", None)],
        launch_sigma: 0.008,
        launch_s: 0.7,
    }
}

/// The cells of each row of a table, as a reader of Markdown splits them: `\|` is no border.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inner.replace("\\|", "\0").split(" | ").map(str::to_owned).collect())
    };
    text.lines().filter_map(cells).collect()
}

/// Lines that start at the margin, by what is before the first colon.
fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    pairs.map(|(label, said)| (label.to_owned(), said.to_owned())).collect()
}
