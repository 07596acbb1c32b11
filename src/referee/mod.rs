//! The referee: two versions of a kernel are compared, and evidence comes of it.
//!
//! It owns the wall clock, the secret seeds and the decision when to stop, which it asks of `gate` after every launch.
//! What is measured is measured by the judge, an executable of the trusted base; what it means is for `gate` to say.
//!
//! | module | what |
//! |---|---|
//! | `course` | the course of a match |
//! | [`entrant`] | the two versions, compiled and audited |
//! | [`inspection`] | what the auditor is given of a version |
//! | [`trusted`] | the judge's executable, built from the base |
//! | [`judge`] | the judge's process |
//! | [`seeds`] | all seeds from one |
//! | [`record`] | whether records make sense |
//! | [`evidence`] | evidence as a file |
//! | [`ceilings`] | what the device can do at most, asked of the judge |

pub mod ceilings;
mod course;
pub mod entrant;
pub mod evidence;
pub mod inspection;
pub mod judge;
pub mod record;
pub mod seeds;
pub mod trusted;

#[cfg(test)]
mod tests;

use std::time::Duration;

use kopt_schema::FORMAT_VERSION;
use kopt_schema::bout::{self, Arrangement, BOUT_VERSION, Bout};
use kopt_schema::evidence::{Ceilings, Estimate, Evidence, Injection, LeftOut, Stage, StageKind, Terms};
use kopt_schema::sandbox::Defence;

use crate::gate;
use crate::machine::{self, Moment};
use crate::manifest::Kernel;
use entrant::Entrant;
use seeds::Master;

/// Blocks of a launch and shape, and seconds that the calls of a batch fill. Launches are the independent evidence,
/// but a launch costs a fifth of a second before its first batch: with 3 blocks of 1 ms batches the aggregate of four
/// shapes varied by 2.3 % from launch to launch (0.40 s each), with 10 of 0.3 ms by 0.7 % (0.29 s), with 20 by 0.6 %
/// (0.35 s).
const BLOCKS: usize = 16;
const BATCH_S: f64 = 0.0003;
/// Resident bytes that a contestant may have beyond the shared memory.
const MEMORY: u64 = 2 << 30;

/// Number of the candidate in a bout.
const CANDIDATE: usize = 1;

/// How long the judge may take to answer. The judge itself ends contestants that hang.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// To lay out the memory and evaluate the reference.
    pub open: Duration,
    /// To check the candidate on every trial.
    pub check: Duration,
    /// To measure a launch, or a trace; ceilings too, unless `open` is longer.
    pub launch: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open: Duration::from_secs(120), check: Duration::from_secs(1800), launch: Duration::from_secs(600) }
    }
}

/// A comparison to be held. Everything that decides it is here, so that who has no command line can hold one too.
#[derive(Debug, Clone)]
pub struct Match<'a> {
    /// The kernel crate as the base has it; the judge runs in its folder.
    pub kernel: &'a Kernel,
    /// The version that stands.
    pub incumbent: &'a Entrant,
    /// The version that challenges it.
    pub candidate: &'a Entrant,
    /// Names of the shapes to compare; all of the judge's if empty.
    pub shapes: Vec<String>,
    /// Shapes that are not compared, and why.
    pub left_out: Vec<LeftOut>,
    /// What was agreed.
    pub terms: Terms,
    /// What all seeds follow from.
    pub seed: Master,
    /// Check the candidate on every trial of the crate before the first launch.
    pub check: bool,
    /// Slowdowns to inject, for self-tests. Those of the incumbent are injected into the control, its twin, as well.
    pub injected: Vec<Injection>,
    /// Defences that contestants do without, for tests of the defences. Commands leave it empty.
    pub without: Vec<Defence>,
    /// What is known of what devices can do at most. Of a device that is missing here the judge measures it; none means
    /// that nobody asks, and no time is held against physics.
    pub ceilings: Option<Vec<Ceilings>>,
    /// Measure even where both versions are the same code: for tests of the referee itself.
    pub even_if_identical: bool,
    /// How long the judge may take to answer.
    pub limits: Limits,
}

/// Something that happened in a match.
#[derive(Debug)]
pub enum Event<'a> {
    /// The judge lays out memory and evaluates the reference.
    Opening,
    /// It is ready.
    Opened(&'a Arrangement),
    /// The judge measures what the device can do at most: it is not known, or a time would be impossible by what is.
    MeasuringCeilings,
    /// What it found.
    Ceilings(&'a Ceilings),
    /// The candidate is checked on every trial.
    Checking,
    /// The candidate passed this many trials.
    Checked(usize),
    /// A launch was measured.
    Launched(Progress),
    /// Incumbent and candidate go through steps of training on this shape.
    Tracing(&'a str),
    /// The control has called the match off, for this reason: it is held once more.
    Again(&'a str),
}

/// Where a match stands after a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The stage it is in.
    pub stage: StageKind,
    /// Launches of that stage so far.
    pub launches: usize,
    /// The data was looked at after this launch.
    pub looked: bool,
    /// The number of launches at the next look, if there may be one.
    pub next_look: Option<usize>,
    /// The gain over all shapes in this stage.
    pub aggregate: Option<Estimate>,
    /// The incumbent against itself.
    pub control: Option<Estimate>,
    /// Seconds since the match began.
    pub seconds: f64,
}

impl Match<'_> {
    /// The evidence, if it can be had without a clock: both versions are the same code, or the candidate's object breaks a
    /// rule. Whoever can cheat the clock is not put before it.
    #[must_use]
    pub fn at_once(&self) -> Option<Evidence> {
        let decided = |evidence: &Evidence| evidence.identical || gate::is_refused(evidence);
        let mut evidence = Some(self.blank()).filter(decided)?;
        evidence.stages.clear();
        evidence.verdict = gate::verdict(&evidence);
        Some(evidence)
    }

    /// The evidence before the first launch.
    fn blank(&self) -> Evidence {
        let same = self.incumbent.side.code == self.candidate.side.code;
        Evidence {
            format: FORMAT_VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: self.kernel.member.name.clone(),
            op: self.kernel.manifest.op.clone(),
            backend: self.kernel.manifest.backend,
            class: self.kernel.manifest.class,
            started: Moment::now().minute(),
            seconds: 0.0,
            incumbent: self.incumbent.side.clone(),
            candidate: self.candidate.side.clone(),
            machine: machine::facts(),
            terms: self.terms.clone(),
            seed: self.seed.text().to_owned(),
            injected: self.injected.clone(),
            without: self.without.clone(),
            identical: same && self.injected.is_empty() && !self.even_if_identical,
            arrangement: None,
            left_out: self.left_out.clone(),
            trials: 0,
            ceilings: None,
            stages: vec![Stage { kind: StageKind::Screen, launches: Vec::new() }],
            trace: Vec::new(),
            forfeit: None,
            called_off: None,
            verdict: gate::placeholder(),
        }
    }

    /// What the judge is asked to open.
    #[must_use]
    pub fn bout(&self) -> Bout {
        let entrant = |entrant: &Entrant, contestant: usize| bout::Entrant {
            candidate: entrant.file.to_string(),
            object: entrant.side.object.clone(),
            handicaps: self
                .injected
                .iter()
                .filter(|one| one.contestant == contestant)
                .map(|one| one.handicap.clone())
                .collect(),
        };
        Bout {
            version: BOUT_VERSION,
            contestants: vec![entrant(self.incumbent, 0), entrant(self.candidate, 1), entrant(self.incumbent, 0)],
            shapes: self.shapes.clone(),
            seed: self.seed.memory(),
            blocks: BLOCKS,
            batch_s: BATCH_S,
            timeout_s: self.kernel.manifest.check.timeout_s,
            memory: MEMORY,
            without: self.without.clone(),
        }
    }
}
