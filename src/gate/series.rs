//! Launches as numbers: for each shape one log gain a launch. Blocks within a launch are brought together robustly; over
//! launches nothing is trimmed, because they are the evidence.

use kopt_schema::bout::CaseRecord;
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
    /// Median seconds a call of the first contestant.
    pub incumbent_s: f64,
    /// And of the second.
    pub candidate_s: f64,
}

impl Series {
    /// Gains of contestant `new` over contestant `old`. A launch in which a shape is missing is left out: it was cut off.
    pub fn of(evidence: &Evidence, stage: &Stage, old: usize, new: usize) -> Self {
        let names: Vec<String> = match &evidence.arrangement {
            Some(arrangement) => arrangement.cases.iter().map(|case| case.name.clone()).collect(),
            None => Vec::new(),
        };
        let find = |cases: &'_ [CaseRecord], name: &str| cases.iter().position(|case| case.case == name);
        let whole: Vec<_> = stage
            .launches
            .iter()
            .filter(|launch| names.iter().all(|name| find(&launch.cases, name).is_some()))
            .filter(|launch| launch.cases.iter().all(|case| usable(case, old.max(new))))
            .collect();
        let core = &evidence.terms.core;
        let case = |name: &String| {
            let rows: Vec<&CaseRecord> = whole
                .iter()
                .filter_map(|launch| find(&launch.cases, name).map(|position| &launch.cases[position]))
                .collect();
            Case {
                name: name.clone(),
                core: core.is_empty() || core.contains(name),
                gains: rows.iter().map(|row| gain(row, old, new)).collect(),
                incumbent_s: median(&rows.iter().map(|row| seconds(row, old)).collect::<Vec<_>>()),
                candidate_s: median(&rows.iter().map(|row| seconds(row, new)).collect::<Vec<_>>()),
            }
        };
        Self { cases: names.iter().map(case).collect() }
    }

    /// For the rules.
    pub fn shapes(&self) -> Vec<Shape<'_>> {
        self.cases.iter().map(|case| Shape { name: &case.name, core: case.core, gains: &case.gains }).collect()
    }

    /// The geometric mean over shapes, one number a launch.
    pub fn aggregate(&self) -> Vec<f64> {
        combine(&self.cases.iter().map(|case| case.gains.as_slice()).collect::<Vec<_>>())
    }
}

/// Whether a record has what is asked of it. Evidence is a file, and a file can hold anything.
#[must_use]
pub fn usable(case: &CaseRecord, contestant: usize) -> bool {
    !case.blocks.is_empty() && case.calls > 0 && case.blocks.iter().all(|block| block.device_ns.len() > contestant)
}

/// The log gain of a launch.
#[must_use]
pub fn gain(case: &CaseRecord, old: usize, new: usize) -> f64 {
    winsorized_mean(&case.blocks.iter().map(|block| block.log_gain(old, new)).collect::<Vec<_>>())
}

/// Median seconds a call in a launch.
fn seconds(case: &CaseRecord, contestant: usize) -> f64 {
    let batches = case.blocks.iter().flat_map(|block| block.device_ns[contestant]);
    median(&batches.map(|nanoseconds| nanoseconds as f64 * 1e-9 / case.calls as f64).collect::<Vec<_>>())
}
