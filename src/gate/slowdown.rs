//! The gate's direction: a version passes unless it is shown, twice, to be slower than the tolerance. The screen looks at
//! the aggregate and at every shape; the confirmation, with fresh launches, only at what the screen has named.

use kopt_schema::evidence::{Evidence, Ruling, Stage, StageKind, Terms};
use kopt_stats::{Part, Policy, Schedule, Slowdown, SlowdownLevels, slowdown};

use super::series::{CANDIDATE, INCUMBENT, Series};
use super::{alpha_of, looks, words};

/// A disturbance of less than this part of the tolerance neither makes nor hides a slowdown.
const CONTROL_PART: f64 = 0.25;

/// What takes this many times as long in every launch is slower, though the time was over before there were enough of them.
/// Launches of what is very slow take very long: without this it would be called undecided.
const GROSS: f64 = 2.0;

/// Terms of a gate: what is slower by more than `tolerance` fails.
///
/// # Errors
/// A tolerance that makes no sense.
pub fn gate_terms(tolerance: f64) -> Result<Terms, String> {
    if !(tolerance > 0.0 && tolerance < 1.0) {
        return Err(format!("a tolerance of {:.1} % makes no sense: above 0 %, below 100 %", 100.0 * tolerance));
    }
    let terms = super::terms(Policy::Gate.name(), Some(tolerance), false)?;
    Ok(Terms { max_regression: tolerance, ..terms })
}

/// Whether these are terms of a gate.
#[must_use]
pub fn is_gate(terms: &Terms) -> bool {
    terms.policy == Policy::Gate.name()
}

/// When a gate looks.
pub(super) fn schedule(policy: Policy) -> Schedule {
    if policy == Policy::Gate { Schedule::gate() } else { Schedule::standard() }
}

/// Differences of the incumbent from itself below this, in logarithms, matter to nobody.
pub(super) fn control_least(terms: &Terms) -> f64 {
    CONTROL_PART * terms.max_regression.ln_1p()
}

/// Where a version stands in a stage, at the last look that was reached.
pub(super) fn stand(evidence: &Evidence, stage: &Stage) -> Slowdown {
    looked(evidence, stage).0
}

/// Where it stands, and which parts are neither slower nor clear. What was clear at a look stays so, and need not be measured
/// any further; that it might have been slower all the same counts among the tests of later looks.
fn looked(evidence: &Evidence, stage: &Stage) -> (Slowdown, Vec<Part>) {
    let levels = SlowdownLevels { shown: alpha_of(evidence, stage), ruled_out: evidence.terms.give_up_alpha };
    let parts = match stage.kind {
        StageKind::Screen => {
            let shapes = evidence.arrangement.as_ref().map_or(0, |arrangement| arrangement.cases.len());
            std::iter::once(Part::Aggregate).chain((0..shapes).map(Part::Shape)).collect()
        }
        StageKind::Confirmation => suspects(evidence),
    };
    let mut open = parts.clone();
    for look in looks(evidence, stage).into_iter().filter(|look| *look <= stage.launches.len()) {
        let seen = Stage { kind: stage.kind, launches: stage.launches[..look].to_vec() };
        let series = Series::of_each(evidence, &seen, INCUMBENT, CANDIDATE);
        let settled = parts.len() - open.len();
        match slowdown(&series.shapes(), evidence.terms.max_regression, &open, settled, levels) {
            Slowdown::Undecided(left) => open = left,
            decided => return (decided, Vec::new()),
        }
    }
    (Slowdown::Undecided(open.clone()), open)
}

/// The shapes that the next launch goes through, where these are not all: a gate is done with those that are clear.
#[must_use]
pub fn unsettled(evidence: &Evidence) -> Vec<String> {
    let (Some(stage), true) = (evidence.stages.last(), is_gate(&evidence.terms)) else { return Vec::new() };
    let open = looked(evidence, stage).1;
    let cases = evidence.arrangement.iter().flat_map(|arrangement| &arrangement.cases);
    match open.contains(&Part::Aggregate) {
        true => Vec::new(),
        false => cases
            .enumerate()
            .filter(|(index, _)| open.contains(&Part::Shape(*index)))
            .map(|(_, case)| case.name.clone())
            .collect(),
    }
}

/// What is told of each shape, by the last stage that went through it, and of all together.
pub(super) fn told(evidence: &Evidence, stage: &Stage) -> (Series, Vec<f64>) {
    let mut series = Series::of_each(evidence, stage, INCUMBENT, CANDIDATE);
    let mut aggregate = series.aggregate();
    if let Some(screen) = evidence.stages.first().filter(|screen| screen.kind != stage.kind) {
        let before = Series::of_each(evidence, screen, INCUMBENT, CANDIDATE);
        if aggregate.is_empty() {
            aggregate = before.aggregate();
        }
        for (case, before) in series.cases.iter_mut().zip(before.cases).filter(|(case, _)| case.gains.is_empty()) {
            *case = before;
        }
    }
    (series, aggregate)
}

/// What the screen has named.
fn suspects(evidence: &Evidence) -> Vec<Part> {
    let screen = evidence.stages.iter().find(|stage| stage.kind == StageKind::Screen);
    match screen.map(|screen| stand(evidence, screen)) {
        Some(Slowdown::Slower(parts)) => parts,
        _ => Vec::new(),
    }
}

/// Parts that took so long in every launch, of two at least, that nothing else can be said of them.
fn gross(evidence: &Evidence) -> Vec<Part> {
    let launches: Vec<_> = evidence.stages.iter().flat_map(|stage| stage.launches.clone()).collect();
    let series = Series::of_each(evidence, &Stage { kind: StageKind::Screen, launches }, INCUMBENT, CANDIDATE);
    let is_gross = |gains: &[f64]| gains.len() > 1 && gains.iter().all(|gain| *gain < -GROSS.ln());
    let cases = series.cases.iter().enumerate();
    cases.filter(|(_, case)| is_gross(&case.gains)).map(|(index, _)| Part::Shape(index)).collect()
}

/// Whether a single launch shows so much that a second must be made, whatever time is left.
#[must_use]
pub fn wants_a_second(evidence: &Evidence) -> bool {
    let [Stage { launches, .. }] = &evidence.stages[..] else { return false };
    let [launch] = &launches[..] else { return false };
    let twice = Stage { kind: StageKind::Screen, launches: vec![launch.clone(), launch.clone()] };
    let repeated = Evidence { stages: vec![twice], ..evidence.clone() };
    is_gate(&evidence.terms) && !gross(&repeated).is_empty()
}

/// What follows from screen and confirmation.
pub(super) fn ruling(evidence: &Evidence, screen: &Stage, confirmation: Option<&Stage>) -> (Ruling, Vec<String>) {
    let terms = &evidence.terms;
    let name = |part: &Part| match part {
        Part::Aggregate => "the mean over all shapes".to_owned(),
        Part::Shape(index) => {
            let cases = evidence.arrangement.as_ref().map(|arrangement| arrangement.cases.as_slice());
            cases.and_then(|cases| cases.get(*index)).map_or_else(String::new, |case| case.name.clone())
        }
    };
    let names = |parts: &[Part]| parts.iter().map(name).collect::<Vec<_>>();
    match (stand(evidence, screen), confirmation.map(|stage| stand(evidence, stage))) {
        (Slowdown::Clear, _) => (Ruling::Accepted, vec![words::clear(terms)]),
        (Slowdown::Slower(_), Some(Slowdown::Slower(parts))) => {
            (Ruling::RolledBack, vec![words::slower(&names(&parts), terms)])
        }
        (Slowdown::Slower(_), Some(Slowdown::Clear)) => (Ruling::Accepted, vec![words::cleared(terms)]),
        (open, _) => match (gross(evidence), open) {
            (parts, Slowdown::Slower(named)) if parts.is_empty() => {
                (Ruling::RolledBackNoise, vec![words::slower_once(&names(&named), terms)])
            }
            (parts, _) if parts.is_empty() => {
                (Ruling::RolledBackNoise, vec![words::not_told(screen.launches.len(), terms)])
            }
            (parts, _) => (Ruling::RolledBack, vec![words::gross(&names(&parts), GROSS)]),
        },
    }
}
