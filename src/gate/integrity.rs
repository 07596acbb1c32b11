//! What an honest contestant's records cannot look like. Each test compares the candidate with the incumbent in the same
//! launches, so that what the machine does to both cancels, and all of them together err once in a thousand: nobody is
//! accused by chance. For an accept it is the other way round, and doubt counts against the candidate: [`unproven`]
//! asks that the gain is also shown by a clock that the candidate cannot reach.
//!
//! - **Two clocks.** Time that a candidate saves by its own clock must be saved on the judge's clock too, and on the
//!   system's books of its processor time. What was only moved out of the timed region was not saved.
//! - **Rest.** A contestant that waits for its turn does not run.
//! - **Linearity.** Eight calls take eight times as long as one, for the candidate as for the incumbent.
//! - **Physics.** No call is faster than the device's measured ceilings allow.

use kopt_schema::bout::{BlockRecord, CaseRecord, LaunchRecord};
use kopt_schema::evidence::{Ceilings, Evidence, Stage, StageKind};
use kopt_schema::manifest::Backend;
use kopt_schema::message::Cost;
use kopt_stats::Effect;

use super::series::{CANDIDATE, INCUMBENT, Series};

/// Error of all tests together.
const ALPHA: f64 = 0.001;

/// Tests of each shape: by the judge's clock, and two by the system's books.
const TESTS_A_SHAPE: usize = 3;

/// And of all shapes: rest, and linearity.
const TESTS_OF_ALL: usize = 2;

/// Launches without which nothing can be said.
const LEAST_LAUNCHES: usize = 6;

/// Savings below this share are not worth a test: clocks differ by as much.
const LEAST_SAVING: f64 = 0.02;

/// At least this part of what is saved must be seen by the other clock.
const SEEN: f64 = 0.5;

/// A candidate may claim this share of the incumbent's time beyond what the system's books of its processor time show:
/// both count the same thread, so that they differ by noise alone.
const UNBOOKED: f64 = 0.005;

/// Or this part of what it saves, if that is more, or of what it loses. The books count the worker's own messages and a fresh
/// stack too: honest gains of 8 to 30 % were booked as the same or up to an eighth more when tried, and a loss of 42 % as
/// one of 45 %.
const UNBOOKED_PART: f64 = 0.3;

/// At which a gain must be shown on the system's books, each time that they are looked at, and a large one by the judge's clock.
const BOOKED_ALPHA: f64 = 0.02;

/// From this share on a saving must also be seen by the judge's clock, which counts whoever does the work: another process
/// has books of its own. Smaller ones that clock is too coarse for.
const LARGE: f64 = 0.25;

/// Seconds a launch that a candidate may run while it is to wait, beyond what the incumbent does.
const IDLE_S: f64 = 0.001;

/// A single call may take this much longer than one of many, beyond what the incumbent's does.
const NONLINEAR: f64 = 1.25;

/// A time this far below the floor is impossible.
const BELOW: f64 = 0.95;

/// Everything that cannot be, in words.
pub fn violations(evidence: &Evidence) -> Vec<String> {
    let (mut found, alpha) = (Vec::new(), alpha(evidence));
    for name in names(evidence) {
        let cases: Vec<&CaseRecord> = records(evidence).filter(|case| case.case == name).collect();
        let by_wall = unseen(&cases, wall, alpha).map(|found| (found, "the judge's clock"));
        // A process that waits for a GPU uses the processor as it likes.
        let books = || unseen(&cases, processor, alpha).or_else(|| unbooked(&cases, alpha));
        let booked = (evidence.backend == Backend::Cpu).then(books);
        let by_books = booked.flatten().map(|found| (found, "the system's count of its processor time"));
        for ((claimed, seen), what) in [by_wall, by_books].into_iter().flatten() {
            found.push(format!(
                "{name}: it claims to save {:.1} % of the time, but {what} saw {:.1} %: work was moved out of what is timed",
                100.0 * claimed,
                100.0 * seen
            ));
        }
    }
    if let Some(seconds) = idle(evidence, alpha) {
        found.push(format!(
            "it runs for {:.1} ms a launch while it is to wait, beyond what the incumbent does: work was done ahead",
            1e3 * seconds
        ));
    }
    if let Some(factor) = nonlinear(evidence, alpha) {
        found.push(format!(
            "a single call takes {:.2} times as long as one of many, compared with the incumbent: its time depends on repetition",
            factor
        ));
    }
    found.extend(below_floor(evidence));
    found
}

/// What one test of many may err by. On a device there are no books, and nobody looks at rest.
fn alpha(evidence: &Evidence) -> f64 {
    let shapes = names(evidence).len();
    let tests = match evidence.backend {
        Backend::Cpu => TESTS_A_SHAPE * shapes + TESTS_OF_ALL,
        Backend::Cuda | Backend::Hip => shapes + 1,
    };
    ALPHA / tests as f64
}

fn names(evidence: &Evidence) -> Vec<String> {
    evidence.arrangement.iter().flat_map(|arrangement| arrangement.cases.iter().map(|case| case.name.clone())).collect()
}

fn records(evidence: &Evidence) -> impl Iterator<Item = &CaseRecord> {
    evidence.stages.iter().flat_map(|stage| stage.launches.iter()).flat_map(|launch| launch.cases.iter())
}

type Clock = fn(&BlockRecord) -> &Vec<[u64; 2]>;

fn device(block: &BlockRecord) -> &Vec<[u64; 2]> {
    &block.device_ns
}

fn wall(block: &BlockRecord) -> &Vec<[u64; 2]> {
    &block.wall_ns
}

fn processor(block: &BlockRecord) -> &Vec<[u64; 2]> {
    &block.cpu_ns
}

/// Share of the incumbent's time that the candidate saves in a launch, by some clock.
fn saving(case: &CaseRecord, clock: Clock) -> Option<f64> {
    let total = |clock: Clock, contestant: usize| {
        let batches = case.blocks.iter().map(|block| clock(block).get(contestant).map(|halves| halves[0] + halves[1]));
        batches.sum::<Option<u64>>().map(|nanoseconds| nanoseconds as f64)
    };
    let incumbent = total(device, INCUMBENT).filter(|time| *time > 0.0)?;
    let (old, new) = (total(clock, INCUMBENT)?, total(clock, CANDIDATE)?);
    // A clock that stands still was not read.
    (old > 0.0 && new > 0.0).then(|| (old - new) / incumbent)
}

/// A saving that the other clock did not see: what is claimed, and what was seen.
fn unseen(cases: &[&CaseRecord], clock: Clock, alpha: f64) -> Option<(f64, f64)> {
    let pairs: Option<Vec<(f64, f64)>> =
        cases.iter().map(|case| Some((saving(case, device)?, saving(case, clock)?))).collect();
    let pairs = pairs.filter(|pairs| pairs.len() >= LEAST_LAUNCHES)?;
    let claimed = Effect::of(&pairs.iter().map(|(claimed, _)| *claimed).collect::<Vec<_>>()).mean;
    if claimed < LEAST_SAVING {
        return None;
    }
    let short = Effect::of(&pairs.iter().map(|(claimed, seen)| seen - SEEN * claimed).collect::<Vec<_>>());
    (short.upper(alpha) < 0.0).then_some((claimed, short.mean + SEEN * claimed))
}

/// A saving that the books do not show, however small: what is claimed, and what was seen.
fn unbooked(cases: &[&CaseRecord], alpha: f64) -> Option<(f64, f64)> {
    let pairs: Option<Vec<(f64, f64)>> =
        cases.iter().map(|case| Some((saving(case, device)?, saving(case, processor)?))).collect();
    let pairs = pairs.filter(|pairs| pairs.len() >= LEAST_LAUNCHES)?;
    let mean = |one: fn(&(f64, f64)) -> f64| pairs.iter().map(one).sum::<f64>() / pairs.len() as f64;
    let excess = Effect::of(&pairs.iter().map(|(claimed, seen)| claimed - seen).collect::<Vec<_>>());
    let (claimed, seen) = (mean(|pair| pair.0), mean(|pair| pair.1));
    (excess.lower(alpha) > UNBOOKED.max(UNBOOKED_PART * claimed.abs())).then_some((claimed, seen))
}

/// The same for a typical block. A disturbed one in sixteen would hide a small gain in the sum of all; whoever moves work into
/// one in sixteen is found by that sum.
fn typical_saving(case: &CaseRecord, clock: Clock) -> Option<f64> {
    let times = |clock: Clock, contestant: usize| -> Option<Vec<f64>> {
        let batch = |block: &BlockRecord| clock(block).get(contestant).map(|halves| (halves[0] + halves[1]) as f64);
        case.blocks.iter().map(batch).collect::<Option<Vec<f64>>>()
    };
    let incumbent = kopt_stats::median(&times(device, INCUMBENT)?);
    let (old, new) = (times(clock, INCUMBENT)?, times(clock, CANDIDATE)?);
    let was_read = incumbent > 0.0 && old.iter().chain(&new).all(|time| *time > 0.0);
    let savings: Vec<f64> = old.iter().zip(&new).map(|(old, new)| (old - new) / incumbent).collect();
    was_read.then(|| kopt_stats::winsorized_mean(&savings))
}

/// A gain that some clock leaves a doubt of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unproven {
    /// Share of the incumbent's time that is saved by the candidate's own clock.
    pub claimed: f64,
    /// And by the other one.
    pub seen: f64,
    /// Which that is.
    pub clock: &'static str,
}

/// A gain of which less than half is certain by the system's books of processor time or, where it is large, by the judge's
/// clock. Whoever shades its own clock by less than what can be called a violation gains nothing by it.
pub fn unproven(evidence: &Evidence) -> Option<Unproven> {
    // A process that waits for a GPU uses the processor as it likes.
    if evidence.backend != Backend::Cpu {
        return None;
    }
    let mean = |launch: &LaunchRecord, clock: Clock| {
        let savings: Option<Vec<f64>> = launch.cases.iter().map(|case| typical_saving(case, clock)).collect();
        savings.filter(|savings| !savings.is_empty()).map(|savings| savings.iter().sum::<f64>() / savings.len() as f64)
    };
    let by = |other: Clock, clock: &'static str| {
        let launches = evidence.stages.iter().flat_map(|stage| stage.launches.iter());
        let pairs: Vec<(f64, f64)> =
            launches.filter_map(|launch| Some((mean(launch, device)?, mean(launch, other)?))).collect();
        let excess = Effect::of(&pairs.iter().map(|(claimed, seen)| seen - SEEN * claimed).collect::<Vec<_>>());
        let claimed = pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.len().max(1) as f64;
        // Not where it could not be read: what nobody saw is not shown.
        (excess.lower(BOOKED_ALPHA) > 0.0, Unproven { claimed, seen: excess.mean + SEEN * claimed, clock })
    };
    let (booked, books) = by(processor, "the system's count of its processor time");
    let (seen, wall) = by(wall, "the judge's clock");
    if booked { (!seen && wall.claimed >= LARGE).then_some(wall) } else { Some(books) }
}

/// Seconds a launch that the candidate runs while it is to wait, beyond the incumbent, if that is beyond doubt.
fn idle(evidence: &Evidence, alpha: f64) -> Option<f64> {
    let launches = evidence.stages.iter().flat_map(|stage| stage.launches.iter());
    let beyond = |idle: &Vec<f64>| Some(idle.get(CANDIDATE)? - idle.get(INCUMBENT)?);
    let excesses: Vec<f64> = launches.filter_map(|launch| beyond(&launch.idle_s)).collect();
    let effect = Effect::of(&excesses);
    let sure = evidence.backend == Backend::Cpu && excesses.len() >= LEAST_LAUNCHES && effect.lower(alpha) > IDLE_S;
    sure.then_some(effect.mean)
}

/// How much longer a single call takes than one of many, beyond the incumbent's, if that is beyond doubt.
fn nonlinear(evidence: &Evidence, alpha: f64) -> Option<f64> {
    let excess = |case: &CaseRecord| {
        let (one, many) = (case.ladder.iter().find(|rung| rung.calls == 1)?, case.ladder.last()?);
        let ratio = |contestant: usize| {
            let (one_ns, many_ns) = (*one.device_ns.get(contestant)?, *many.device_ns.get(contestant)?);
            Some((one_ns.max(1) as f64 * many.calls as f64 / many_ns.max(1) as f64).ln())
        };
        (many.calls > 1).then(|| Some(ratio(CANDIDATE)? - ratio(INCUMBENT)?)).flatten()
    };
    let excesses: Vec<f64> = records(evidence).filter_map(excess).collect();
    let effect = Effect::of(&excesses);
    (excesses.len() >= LEAST_LAUNCHES && effect.lower(alpha) > NONLINEAR.ln()).then(|| effect.mean.exp())
}

/// A shape on which the candidate is faster than the ceilings allow, in words. Where the incumbent is, too, the ceilings
/// are wrong and say nothing.
#[must_use]
pub fn below_floor(evidence: &Evidence) -> Option<String> {
    let (ceilings, arrangement) = (evidence.ceilings.as_ref()?, evidence.arrangement.as_ref()?);
    let launches: Vec<_> = evidence.stages.iter().flat_map(|stage| stage.launches.iter().cloned()).collect();
    if launches.len() < LEAST_LAUNCHES {
        return None;
    }
    let all = Stage { kind: StageKind::Screen, launches };
    let series = Series::of(evidence, &all, INCUMBENT, CANDIDATE);
    series.cases.iter().zip(&arrangement.cases).find_map(|(case, info)| {
        let floor = floor(&info.cost, ceilings);
        (case.candidate_s < BELOW * floor && case.incumbent_s >= floor).then(|| {
            format!(
                "{}: {:.2} µs a call is less than the {:.2} µs that the device's ceilings allow",
                case.name,
                1e6 * case.candidate_s,
                1e6 * floor
            )
        })
    })
}

/// Share of the measured ceiling that a call of `seconds` reaches: all its bytes at the rate of a copy, or its flops at
/// the rate of multiply-adds, whichever takes longer. None where there is nothing to compare with.
#[must_use]
pub fn ceiling_share(cost: &Cost, ceilings: &Ceilings, seconds: f64) -> Option<f64> {
    let moving = (cost.bytes_read + cost.bytes_written) / ceilings.copy_bytes_per_s;
    let computing = ceilings.fma_flops_per_s.map_or(0.0, |rate| cost.flops / rate);
    let least = moving.max(computing);
    (least > 0.0 && seconds > 0.0 && least.is_finite()).then(|| least / seconds)
}

/// Seconds below which no call can be. Inputs come from memory, since they were flushed. Outputs may stay in the caches
/// when the call returns, so that their bytes bound nothing.
fn floor(cost: &Cost, ceilings: &Ceilings) -> f64 {
    let reading = cost.bytes_read / ceilings.read_bytes_per_s.unwrap_or(ceilings.copy_bytes_per_s);
    let computing = ceilings.fma_flops_per_s.map_or(0.0, |rate| cost.flops / rate);
    reading.max(computing)
}
