//! Whether a record of launches makes sense: the shapes that were laid out, every contestant in every block, nothing
//! twice. What the judge answers and what a file says are checked alike, before anything is computed from them.

use kopt_schema::bout::{Arrangement, BlockRecord, CaseRecord, LaunchRecord, STEPS, TraceRecord};
use kopt_schema::evidence::{Evidence, Stage, StageKind};

use super::seeds::Master;
use crate::gate;

/// Incumbent, candidate, and the incumbent again.
pub const CONTESTANTS: usize = 3;

/// Incumbent and candidate.
const TRACED: usize = 2;

/// No batch takes days; sums of times below this stay far from the end of 64 bits.
const LONGEST_NS: u64 = 1_000_000_000_000_000;

type Check = Result<(), String>;

/// The launch is one of the shapes that are named, or of all the shapes of `arrangement`.
///
/// # Errors
/// What is wrong, in words.
pub fn launch(record: &LaunchRecord, arrangement: &Arrangement, shapes: &[String]) -> Check {
    for (order, what) in [(&record.started, "started"), (&record.ended, "ended"), (&record.outputs, "outputs")] {
        permutation(order).map_err(|wrong| format!("`{what}` {wrong}"))?;
    }
    ensure(record.idle_s.len() == CONTESTANTS, || "`idle_s` is not one number a contestant".to_owned())?;
    ensure(record.wall_s >= 0.0 && record.wall_s.is_finite(), || "it took no time that can be".to_owned())?;
    let all: Vec<&str> = arrangement.cases.iter().map(|case| case.name.as_str()).collect();
    let wanted = if shapes.is_empty() { all } else { shapes.iter().map(String::as_str).collect() };
    same_names(record.cases.iter().map(|case| case.case.as_str()).collect(), wanted)?;
    record.cases.iter().try_for_each(|case| shape(case).map_err(|wrong| format!("shape `{}`: {wrong}", case.case)))
}

fn shape(case: &CaseRecord) -> Check {
    permutation(&case.warmed_up).map_err(|wrong| format!("`warmed_up` {wrong}"))?;
    ensure(case.calls > 0, || "batches of no call".to_owned())?;
    ensure(!case.blocks.is_empty(), || "no block".to_owned())?;
    for rung in &case.ladder {
        ensure(rung.calls > 0 && rung.device_ns.len() == CONTESTANTS, || "a rung is not one of all".to_owned())?;
    }
    case.blocks.iter().try_for_each(block)
}

fn block(block: &BlockRecord) -> Check {
    permutation(&block.order).map_err(|wrong| format!("`order` {wrong}"))?;
    let all = [&block.device_ns, &block.wall_ns, &block.cpu_ns];
    ensure(all.iter().all(|times| times.len() == CONTESTANTS), || {
        "a block without a time of each contestant".to_owned()
    })?;
    ensure(block.device_ns.iter().flatten().all(|time| *time > 0), || "a batch that took no time".to_owned())?;
    ensure(all.into_iter().flatten().flatten().all(|time| *time < LONGEST_NS), || "a batch that took days".to_owned())
}

/// A trace has both sides, and of every call a time of every entry.
///
/// # Errors
/// What is wrong, in words.
pub fn trace(record: &TraceRecord) -> Check {
    ensure(record.sides.len() == TRACED, || format!("{} sides instead of {TRACED}", record.sides.len()))?;
    for side in &record.sides {
        ensure(!side.entries.is_empty() && !side.calls.is_empty(), || "a side without a call".to_owned())?;
        for call in &side.calls {
            ensure(call.step < STEPS, || format!("step {}", call.step))?;
            let times = &call.device_ns;
            ensure(times.len() == side.entries.len(), || "a call without a time of each entry".to_owned())?;
            ensure(times.iter().all(|ns| (1..LONGEST_NS).contains(ns)), || {
                "a call that took no time, or days".to_owned()
            })?;
        }
    }
    Ok(())
}

/// Each contestant once.
fn permutation(order: &[usize]) -> Check {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    ensure(sorted.iter().copied().eq(0..CONTESTANTS), || {
        format!("is {order:?}, not an order of {CONTESTANTS} contestants")
    })
}

fn same_names(mut found: Vec<&str>, mut wanted: Vec<&str>) -> Check {
    found.sort_unstable();
    wanted.sort_unstable();
    ensure(found == wanted, || format!("shapes {} instead of {}", found.join(", "), wanted.join(", ")))
}

/// The whole of a file: everything that a verdict is computed from is there and fits together.
///
/// # Errors
/// What is wrong, in words.
pub fn evidence(evidence: &Evidence) -> Check {
    if let Some(forfeit) = &evidence.forfeit {
        ensure(forfeit.contestant < CONTESTANTS, || format!("contestant {} forfeits", forfeit.contestant))?;
    }
    terms(evidence)?;
    let kinds: Vec<StageKind> = evidence.stages.iter().map(|stage| stage.kind).collect();
    let known: [&[StageKind]; 3] = [&[], &[StageKind::Screen], &[StageKind::Screen, StageKind::Confirmation]];
    ensure(known.contains(&kinds.as_slice()), || "the stages are not a screen and its confirmation".to_owned())?;
    let Some(arrangement) = &evidence.arrangement else {
        let none = evidence.stages.iter().all(|stage| stage.launches.is_empty());
        return ensure(none && evidence.trace.is_empty(), || "launches without an arrangement".to_owned());
    };
    // Which shapes a launch had to go through follows from those before it.
    let mut before = Evidence { stages: Vec::new(), ..evidence.clone() };
    let mut number = 0;
    for stage in &evidence.stages {
        before.stages.push(Stage { kind: stage.kind, launches: Vec::new() });
        for record in &stage.launches {
            launch(record, arrangement, &gate::unsettled(&before))
                .map_err(|wrong| format!("launch {number}: {wrong}"))?;
            if let Some(stage) = before.stages.last_mut() {
                stage.launches.push(record.clone());
            }
            number += 1;
        }
    }
    let known: Vec<&str> =
        evidence.arrangement.iter().flat_map(|arrangement| &arrangement.cases).map(|case| case.name.as_str()).collect();
    for (number, record) in evidence.trace.iter().enumerate() {
        ensure(known.contains(&record.case.as_str()), || {
            format!("trace {number}: there is no shape `{}`", record.case)
        })?;
        trace(record).map_err(|wrong| format!("trace {number}: {wrong}"))?;
    }
    Ok(())
}

/// Launches that a stage is looked at after, at most: far beyond what anybody waits for, and few enough to count through.
const MOST_LAUNCHES: usize = 10_000;

/// Limits in which arithmetic makes sense.
fn terms(evidence: &Evidence) -> Check {
    let terms = &evidence.terms;
    gate::terms(&terms.policy, None, false).map(drop)?;
    let shares = [
        ("screen_alpha", terms.screen_alpha),
        ("confirmation_alpha", terms.confirmation_alpha),
        ("shape_alpha", terms.shape_alpha),
        ("control_alpha", terms.control_alpha),
        ("give_up_alpha", terms.give_up_alpha),
    ];
    for (name, share) in shares {
        ensure(share > 0.0 && share < 1.0, || format!("`{name}` is {share}, not between 0 and 1"))?;
    }
    ensure(terms.min_gain > -1.0 && terms.max_regression >= 0.0, || "limits of gain and regression".to_owned())?;
    let growing = terms.looks.windows(2).all(|pair| pair[0] < pair[1]);
    let bounded = terms.looks.last().is_some_and(|last| *last <= MOST_LAUNCHES);
    ensure(growing && bounded && terms.looks.first().is_some_and(|first| *first >= 2), || {
        format!("looks at {:?} launches", terms.looks)
    })
}

/// What contradicts itself in evidence that is otherwise whole: somebody has changed it.
#[must_use]
pub fn contradictions(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    if evidence.identical && evidence.incumbent.code != evidence.candidate.code {
        found.push("the two versions are called identical, and the digests of their code differ".to_owned());
    }
    if evidence.identical && evidence.stages.iter().any(|stage| !stage.launches.is_empty()) {
        found.push("the two versions are called identical, and launches were timed".to_owned());
    }
    match Master::given(&evidence.seed) {
        Err(wrong) => found.push(format!("the master seed: {wrong}")),
        Ok(master) => {
            let launches = evidence.stages.iter().flat_map(|stage| &stage.launches).enumerate();
            let foreign = launches.filter(|(number, record)| record.seed != master.launch(*number));
            found.extend(
                foreign.map(|(number, _)| format!("the seed of launch {number} does not follow from the master seed")),
            );
            let traces = evidence.trace.iter().enumerate();
            let foreign = traces.filter(|(number, record)| record.seed != master.trace(*number));
            found.extend(
                foreign.map(|(number, _)| format!("the seed of trace {number} does not follow from the master seed")),
            );
        }
    }
    found
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}
