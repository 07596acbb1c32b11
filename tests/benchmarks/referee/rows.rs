//! The rows: one a decision, appended as it is made.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::{Evidence, Ruling, StageKind};
use kopt_schema::manifest::Backend;
use kopt_stats::LEAST_TO_CONFIRM;
use serde::{Deserialize, Serialize};

use super::measuring;
use super::peers::{self, Peers};
use super::queue::Failure;
use super::resumable;
use super::scenario::{Scenario, Versions};

/// A decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Of everything that measures and judges.
    #[serde(default)]
    pub key: String,
    /// Which scenario.
    pub scenario: String,
    /// The processor, or the GPU. Rows on a GPU until 2026-11-18 have none here, or the host's processor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// How many of its processors the run had to itself: one, where another run had the other. None in rows of before that was
    /// written down, which had all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<usize>,
    /// Which change it was, where that is a patch's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub change: String,
    /// The day.
    pub date: String,
    /// The ruling.
    pub ruling: String,
    /// Aggregate gain with its interval; the confirmation's where there is one.
    pub gain: f64,
    pub low: f64,
    pub high: f64,
    /// Launches of the screen and of the confirmation.
    pub launches: Vec<usize>,
    /// Standard deviation of a launch's aggregate, and of the control's, in logarithms.
    pub sigma: f64,
    pub control_sigma: f64,
    /// The incumbent against itself.
    pub control: f64,
    /// Seconds from the judge's start to the verdict.
    pub seconds: f64,
    /// Processor seconds of the referee's own process in these; the judge and its contestants are others.
    #[serde(default)]
    pub own_s: f64,
    /// What the rules of other tools say of the screen's launches.
    pub peers: Peers,
    /// The ruling's reason where it is no plain accept or rollback.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Row {
    /// The row of a decision.
    pub fn of(scenario: &Scenario, evidence: &Evidence) -> Self {
        let verdict = &evidence.verdict;
        let launches = |kind| {
            evidence.stages.iter().filter(|stage| stage.kind == kind).map(|stage| stage.launches.len()).sum::<usize>()
        };
        let (aggregate, control) = (verdict.aggregate.as_ref(), verdict.control.as_ref());
        let plain = matches!(verdict.ruling.name(), "ACCEPTED" | "ROLLED BACK");
        Self {
            key: String::new(),
            scenario: scenario.name(),
            device: device(evidence),
            processors: Some(evidence.machine.cores),
            change: change(scenario),
            date: evidence.started[..10].to_owned(),
            ruling: verdict.ruling.name().to_owned(),
            gain: rounded(aggregate.map_or(0.0, |estimate| estimate.gain)),
            low: rounded(aggregate.map_or(0.0, |estimate| estimate.low)),
            high: rounded(aggregate.map_or(0.0, |estimate| estimate.high)),
            launches: vec![launches(StageKind::Screen), launches(StageKind::Confirmation)],
            sigma: rounded(aggregate.map_or(0.0, |estimate| estimate.launch_sigma)),
            control_sigma: rounded(control.map_or(0.0, |estimate| estimate.launch_sigma)),
            control: rounded(control.map_or(0.0, |estimate| estimate.gain)),
            seconds: (evidence.seconds * 100.0).round() / 100.0,
            own_s: 0.0,
            peers: peers::judge(evidence),
            reason: if plain { String::new() } else { verdict.reasons.join("; ") },
        }
    }

    /// The row of a version that does not compile: decided without a clock.
    pub fn not_built(scenario: &Scenario) -> Self {
        Self {
            key: String::new(),
            scenario: scenario.name(),
            // What no compiler takes is so everywhere.
            device: String::new(),
            processors: None,
            change: change(scenario),
            date: String::new(),
            ruling: "NOT BUILT".to_owned(),
            gain: 0.0,
            low: 0.0,
            high: 0.0,
            launches: vec![0, 0],
            sigma: 0.0,
            control_sigma: 0.0,
            control: 0.0,
            seconds: 0.0,
            own_s: 0.0,
            peers: Peers::default(),
            reason: String::new(),
        }
    }

    /// Whether it was decided on a GPU.
    pub fn on_gpu(&self) -> bool {
        self.scenario.split(' ').nth(1).is_some_and(|package| package.ends_with("-cuda"))
    }

    /// Whether it was accepted.
    pub fn accepted(&self) -> bool {
        self.ruling.starts_with("ACCEPTED")
    }

    /// Whether the screen alone would have accepted it.
    pub fn screened(&self) -> bool {
        self.accepted() || self.launches.get(1).is_some_and(|launches| *launches > 0)
    }
}

/// What it was decided on; nothing, where a GPU was not even opened.
fn device(evidence: &Evidence) -> String {
    match (evidence.backend, &evidence.arrangement) {
        (Backend::Cpu, _) => evidence.machine.processor.clone(),
        (Backend::Cuda | Backend::Hip, Some(arrangement)) => arrangement.device.clone(),
        (Backend::Cuda | Backend::Hip, None) => String::new(),
    }
}

fn change(scenario: &Scenario) -> String {
    match &scenario.versions {
        Versions::Tip => String::new(),
        Versions::Patch { change, .. } => change.clone(),
    }
}

pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Earlier versions that look further at a gain that one shape holds up, which is what rows with a loss in one are about.
const LOOKS_FURTHER: [&str; 1] = ["3ee3e88d6e7a"];

/// Earlier versions that hold a match that its control has called off once more. Of the others such a decision on a patch, or on
/// an injected gain, is none: today it would not have ended there.
const HOLDS_AGAIN: [&str; 3] = ["01402b8e84fd", "ccaf9586d6bc", "8e769d838791"];

/// The file of rows.
pub struct Rows {
    file: Utf8PathBuf,
    /// Of rows on the processor and on a GPU: each rests on its own backend.
    keys: [String; 2],
    rows: Vec<Row>,
}

impl Rows {
    /// The rows of this version of the code, and of those that are as good unless its `own` alone are wanted.
    pub fn open(root: &Utf8Path, own: bool) -> Result<Self, Failure> {
        let file = root.join("tests/benchmarks/referee.jsonl");
        let keys = [measuring::key(root, &measuring::REFEREE)?, measuring::key(root, &measuring::on_gpu())?];
        let counts = |row: &Row| {
            let now = &keys[usize::from(row.on_gpu())];
            let as_good =
                !own && (!row.scenario.starts_with("loss-in-one") || LOOKS_FURTHER.contains(&row.key.as_str()));
            let called_off = row.ruling == Ruling::Contaminated.name() && !row.scenario.starts_with("aa");
            // Earlier versions ended in the middle of a confirmation where the time was over, and this one does not.
            let cut_off = row.launches.get(1).is_some_and(|launches| (1..LEAST_TO_CONFIRM).contains(launches));
            let over = (row.accepted() || !cut_off) && (!called_off || HOLDS_AGAIN.contains(&row.key.as_str()));
            row.key == *now || (as_good && over && measuring::counts(&row.key, now))
        };
        let rows = resumable::rows(&file, counts)?;
        Ok(Self { file, keys, rows })
    }

    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Those of a scenario. Of a patch, those of the change that it is today, on machines that its truth is known of.
    pub fn of<'a>(&'a self, scenario: &'a Scenario) -> impl Iterator<Item = &'a Row> {
        let name = scenario.name();
        self.rows.iter().filter(move |row| {
            let fits = match &scenario.versions {
                Versions::Tip => true,
                Versions::Patch { change, truths, .. } => {
                    let known = row.device.is_empty() || truths.iter().any(|(device, _)| *device == row.device);
                    row.change == *change && known
                }
            };
            fits && row.scenario == name
        })
    }

    pub fn append(&mut self, row: Row) -> Result<(), Failure> {
        let row = Row { key: self.keys[usize::from(row.on_gpu())].clone(), ..row };
        resumable::append(&self.file, &row)?;
        self.rows.push(row);
        Ok(())
    }
}
