//! Launches as numbers: for each shape one log gain a launch. Blocks within a launch are brought together robustly; over
//! launches nothing is trimmed, because they are the evidence.
//!
//! A gate goes on with what is open alone, and then has time for ten times the blocks: such a launch says more of a shape than
//! one of a single block, and counts for more. And where a second process of the incumbent runs in every block, what the
//! candidate is compared with is the mean of both, which varies less than one of them.

use kopt_schema::bout::{BlockRecord, CaseRecord, LaunchRecord};
use kopt_schema::evidence::{Evidence, Stage};
use kopt_stats::{Shape, combine, median, winsorized_mean};

/// Number of the incumbent in a bout.
pub const INCUMBENT: usize = 0;
/// Number of the candidate.
pub const CANDIDATE: usize = 1;
/// Number of the incumbent's second process.
pub const CONTROL: usize = 2;

/// One contestant against another over the launches of a stage.
#[derive(Debug, Clone)]
pub struct Series {
    /// The shapes, in the order of the arrangement.
    pub cases: Vec<Case>,
}

/// A shape.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Whether it may not lose.
    pub core: bool,
    /// One log gain a launch.
    pub gains: Vec<f64>,
    /// How many blocks each has, where launches count by them.
    pub weights: Vec<f64>,
    /// Median seconds a call of the first contestant.
    pub incumbent_s: f64,
    /// And of the second.
    pub candidate_s: f64,
}

impl Series {
    /// Gains of contestant `new` over contestant `old`. A launch in which a shape is missing is left out: it was cut off.
    pub fn of(evidence: &Evidence, stage: &Stage, old: usize, new: usize) -> Self {
        let names = names(evidence);
        Self::over(evidence, stage, old, new, |launch| names.iter().all(|name| find(launch, name).is_some()))
    }

    /// The same, each shape over the launches that have it: a gate measures no further what is settled.
    pub fn of_each(evidence: &Evidence, stage: &Stage, old: usize, new: usize) -> Self {
        Self::over(evidence, stage, old, new, |_| true)
    }

    fn over(
        evidence: &Evidence,
        stage: &Stage,
        old: usize,
        new: usize,
        counts: impl Fn(&LaunchRecord) -> bool,
    ) -> Self {
        let is_usable = |launch: &&LaunchRecord| launch.cases.iter().all(|case| usable(case, old.max(new)));
        let launches: Vec<_> = stage.launches.iter().filter(|launch| counts(launch)).filter(is_usable).collect();
        let (core, weighted) = (&evidence.terms.core, evidence.terms.weighted);
        let both = weighted && (old, new) == (INCUMBENT, CANDIDATE);
        let compared = |row: &CaseRecord| match both && usable(row, CONTROL) {
            true => over_blocks(row, |block| f64::midpoint(block.log_gain(old, new), block.log_gain(CONTROL, new))),
            false => gain(row, old, new),
        };
        let case = |name: String| {
            let rows: Vec<&CaseRecord> = launches.iter().filter_map(|launch| find(launch, &name)).collect();
            Case {
                core: core.is_empty() || core.contains(&name),
                name,
                gains: rows.iter().map(|row| compared(row)).collect(),
                weights: rows.iter().filter(|_| weighted).map(|row| row.blocks.len() as f64).collect(),
                incumbent_s: median(&rows.iter().map(|row| seconds(row, old)).collect::<Vec<_>>()),
                candidate_s: median(&rows.iter().map(|row| seconds(row, new)).collect::<Vec<_>>()),
            }
        };
        Self { cases: names(evidence).into_iter().map(case).collect() }
    }

    /// For the rules.
    pub fn shapes(&self) -> Vec<Shape<'_>> {
        let cases = self.cases.iter();
        cases.map(|Case { name, core, gains, weights, .. }| Shape { name, core: *core, gains, weights }).collect()
    }

    /// The geometric mean over shapes, one number a launch that has them all: the first ones.
    pub fn aggregate(&self) -> Vec<f64> {
        let whole = self.cases.iter().map(|case| case.gains.len()).min().unwrap_or(0);
        combine(&self.cases.iter().map(|case| &case.gains[..whole]).collect::<Vec<_>>())
    }
}

/// The geometric mean over the shapes that a launch has, one number a launch.
pub fn by_launch(stage: &Stage, old: usize, new: usize) -> Vec<f64> {
    let usable = |launch: &&LaunchRecord| launch.cases.iter().all(|case| usable(case, old.max(new)));
    let launches = stage.launches.iter().filter(usable).filter(|launch| !launch.cases.is_empty());
    let mean = |launch: &LaunchRecord| {
        launch.cases.iter().map(|case| gain(case, old, new)).sum::<f64>() / launch.cases.len() as f64
    };
    launches.map(mean).collect()
}

fn names(evidence: &Evidence) -> Vec<String> {
    evidence.arrangement.iter().flat_map(|arrangement| arrangement.cases.iter().map(|case| case.name.clone())).collect()
}

fn find<'a>(launch: &'a LaunchRecord, name: &str) -> Option<&'a CaseRecord> {
    launch.cases.iter().find(|case| case.case == name)
}

/// Whether a record has what is asked of it. Evidence is a file, and a file can hold anything.
#[must_use]
pub fn usable(case: &CaseRecord, contestant: usize) -> bool {
    !case.blocks.is_empty() && case.calls > 0 && case.blocks.iter().all(|block| block.device_ns.len() > contestant)
}

/// The log gain of a launch.
#[must_use]
pub fn gain(case: &CaseRecord, old: usize, new: usize) -> f64 {
    over_blocks(case, |block| block.log_gain(old, new))
}

fn over_blocks(case: &CaseRecord, value: impl Fn(&BlockRecord) -> f64) -> f64 {
    winsorized_mean(&case.blocks.iter().map(value).collect::<Vec<_>>())
}

/// Median seconds a call in a launch.
fn seconds(case: &CaseRecord, contestant: usize) -> f64 {
    let batches = case.blocks.iter().flat_map(|block| block.device_ns[contestant]);
    median(&batches.map(|nanoseconds| nanoseconds as f64 * 1e-9 / case.calls as f64).collect::<Vec<_>>())
}
