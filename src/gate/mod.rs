//! From evidence to verdict, and nothing else: no clock, no process, no file. The referee asks here after every launch
//! what to do next; `cargo kopt verdict` asks again, later, and must get the same answer.
//!
//! | module | what |
//! |---|---|
//! | `series` | launches as one number a launch and shape |
//! | [`certificate`] | whether a crate's check refuses what is wrong |
//! | `integrity` | what an honest contestant's records cannot look like |
//! | `slowdown` | the other direction: a gate for pull requests |
//! | [`transfer`] | whether a gain exists in training |
//! | `words` | the reasons, for people |

pub mod certificate;
mod integrity;
mod series;
mod slowdown;
pub mod transfer;
mod words;

#[cfg(test)]
mod tests;

use kopt_schema::evidence::{Direction, Estimate, Evidence, Ruling, ShapeVerdict, Stage, StageKind, Terms, Verdict};
use kopt_stats::{
    Effect, LEAST_TO_CONFIRM, Levels, Policy, Reason, Rule, Schedule, Shape, Slowdown, Standing, gain_of_log,
};

pub use certificate::Certificate;
pub use integrity::{below_floor, ceiling_share};
use series::Series;
pub use series::{CANDIDATE, CONTROL, INCUMBENT, gain as launch_gain, usable};
pub use slowdown::{gate_terms, is_gate, unsettled, wants_a_second};

/// Four times of five is what a smallest detectable effect is told for.
const POWER: f64 = 0.8;

/// What the referee does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another launch of the stage it is in; the first of the screen, if there is none yet.
    Measure,
    /// The screen has passed: begin the confirmation.
    Confirm,
    /// Nothing more: give the verdict.
    Done,
}

/// The terms of a policy.
///
/// # Errors
/// A policy of that name does not exist, or the gain makes no sense.
pub fn terms(policy: &str, min_gain: Option<f64>, quick: bool) -> Result<Terms, String> {
    let policy: Policy = policy.parse().map_err(|error: kopt_stats::UnknownPolicy| error.to_string())?;
    let rule = policy.rule();
    let min_gain = min_gain.unwrap_or(rule.min_gain);
    if !(0.0..1.0).contains(&min_gain) {
        return Err(format!("a least gain of {:.1} % makes no sense: from 0 % to below 100 %", 100.0 * min_gain));
    }
    let schedule = slowdown::schedule(policy);
    let schedule = if quick { schedule.truncated(QUICK_LAUNCHES).unwrap_or(schedule) } else { schedule };
    Ok(Terms {
        policy: policy.name().to_owned(),
        min_gain,
        max_regression: rule.max_regression,
        looks: schedule.looks().to_vec(),
        screen_alpha: schedule.alpha(),
        give_up_alpha: if policy == Policy::Gate { RULE_OUT_ALPHA } else { GIVE_UP_ALPHA },
        confirmation_alpha: Schedule::standard().alpha(),
        confirmation_looks: CONFIRMATION_LOOKS,
        further_looks: if quick || policy == Policy::Gate { 0 } else { FURTHER_LOOKS },
        gives_up_early: policy != Policy::Gate,
        weighted: policy == Policy::Gate,
        shape_alpha: rule.shape_alpha,
        control_alpha: CONTROL_ALPHA,
        core: Vec::new(),
        max_time_s: 120.0,
        // What is no gain need not exist in training.
        trace: !quick && policy != Policy::Gate,
    })
}

/// A gain's confirmation is looked at again where it is neither there nor ruled out.
const CONFIRMATION_LOOKS: usize = 2;

/// And a stage goes on where the gain is shown and only single shapes hold it up: they vary more than all together.
const FURTHER_LOOKS: usize = 2;

/// A quick comparison stops at this many launches.
const QUICK_LAUNCHES: usize = 14;

/// At which a look gives a gain up: quick, since nothing is accepted by it.
const GIVE_UP_ALPHA: f64 = 0.1;

/// At which a look of a gate rules a slowdown out, which is what lets a change pass.
const RULE_OUT_ALPHA: f64 = 0.02;

/// How often an undisturbed machine is called disturbed.
const CONTROL_ALPHA: f64 = 0.005;

/// A difference of the incumbent from itself below this, in logarithms, fakes no gain, however sure it is.
const CONTROL_LEAST: f64 = 0.001;

/// What to do after the launches so far. A disturbed machine or a dishonest contestant is looked for when everything
/// else is decided: the verdict will say so.
#[must_use]
pub fn next(evidence: &Evidence) -> Next {
    if evidence.identical || evidence.forfeit.is_some() || is_refused(evidence) {
        return Next::Done;
    }
    let Some(stage) = evidence.stages.last() else { return Next::Measure };
    let (looks, launches) = (looks(evidence, stage), stage.launches.len());
    let last = looks.last().copied().unwrap_or(0);
    // The last look that was reached. What it has shown is not looked at again.
    let Some(reached) = looks.iter().copied().filter(|look| *look <= launches).max() else {
        return if is_given_up(evidence, stage) { Next::Done } else { Next::Measure };
    };
    match (lead(evidence, stage), stage.kind) {
        (Lead::Shown, StageKind::Screen) if evidence.terms.confirmation_looks > 0 => Next::Confirm,
        (Lead::Undecided, _) if launches < last => Next::Measure,
        // A true gain in noisy books: what is shown by the clock is worth as many launches again.
        (Lead::Shown, StageKind::Confirmation) if launches < 2 * reached && in_doubt(evidence) => Next::Measure,
        _ => Next::Done,
    }
}

/// Whether a gain that was confirmed is not shown by the books of processor time yet or, a large one, by the judge's clock.
fn in_doubt(evidence: &Evidence) -> bool {
    rule(&evidence.terms).require_gain && integrity::unproven(evidence).is_some()
}

/// Whether a stage has shown what it is there to show: a gain or, for a gate, a slowdown.
enum Lead {
    Shown,
    RuledOut,
    Undecided,
}

fn lead(evidence: &Evidence, stage: &Stage) -> Lead {
    if is_gate(&evidence.terms) {
        return match slowdown::stand(evidence, stage) {
            Slowdown::Slower(_) => Lead::Shown,
            Slowdown::Clear => Lead::RuledOut,
            Slowdown::Undecided(_) => Lead::Undecided,
        };
    }
    match stand(evidence, stage) {
        Standing::Accept { .. } => Lead::Shown,
        Standing::Reject(_) => Lead::RuledOut,
        Standing::Undecided => Lead::Undecided,
    }
}

/// Launches after which a stage is looked at, and the last of which ends it: those that were planned and, as long as only
/// single shapes hold up a gain that is shown, half as many launches again, beyond the last one only if that can settle it.
/// Such a look costs no error: what it accepts, an earlier one would have accepted but for these shapes.
#[must_use]
pub fn looks(evidence: &Evidence, stage: &Stage) -> Vec<usize> {
    let half_again = |launches: usize| launches + launches.div_ceil(2);
    let mut looks = Vec::new();
    for planned in planned_looks(evidence, stage) {
        while let Some(last) = looks.last().copied() {
            let between = half_again(last);
            let open = evidence.terms.further_looks > 0 && last <= stage.launches.len();
            if !open || between >= planned || !is_held_up(evidence, stage, last) {
                break;
            }
            looks.push(between);
        }
        looks.push(planned);
    }
    // Never more than today's, as evidence is a file and can hold anything.
    for left in (1..=evidence.terms.further_looks.min(FURTHER_LOOKS)).rev() {
        let Some(last) = looks.last().copied().filter(|last| *last <= stage.launches.len()) else { break };
        let furthest = (0..left).fold(last, |launches, _| half_again(launches));
        if !is_held_up(evidence, stage, last) || !would_pass(evidence, stage, last, furthest) {
            break;
        }
        looks.push(half_again(last));
    }
    looks
}

fn planned_looks(evidence: &Evidence, stage: &Stage) -> Vec<usize> {
    let terms = &evidence.terms;
    match (stage.kind, evidence.stages.first()) {
        (StageKind::Confirmation, Some(screen)) if !terms.looks.is_empty() => {
            // Evidence is a file and can hold anything; a schedule must grow.
            let mut looks: Vec<usize> = terms.looks.iter().copied().filter(|look| *look > 1).collect();
            looks.sort_unstable();
            looks.dedup();
            if looks.is_empty() {
                return Vec::new();
            }
            let alpha = terms.screen_alpha.clamp(1e-9, 0.5);
            let (schedule, screened) = (Schedule::new(looks, alpha), screen.launches.len());
            match is_gate(terms) {
                true => schedule.confirmations(screened),
                false => {
                    let enough = launches_to_confirm(evidence, screen, schedule.confirmation(screened));
                    schedule.looks_to_confirm(enough, terms.confirmation_looks)
                }
            }
        }
        _ => terms.looks.clone(),
    }
}

/// Whether a confirmation of a gain is under way that has not come to its first look: cut off there, all launches of its screen
/// would be for nothing.
#[must_use]
pub fn is_half_confirmed(evidence: &Evidence) -> bool {
    let confirmation = evidence.stages.last().filter(|stage| stage.kind == StageKind::Confirmation);
    let first = |stage: &Stage| looks(evidence, stage).first().copied().unwrap_or(0);
    !is_gate(&evidence.terms) && confirmation.is_some_and(|stage| (1..first(stage)).contains(&stage.launches.len()))
}

/// Launches of a confirmation: what the screen says is enough, at most `most`.
fn launches_to_confirm(evidence: &Evidence, screen: &Stage, most: usize) -> usize {
    let series = Series::of(evidence, screen, INCUMBENT, CANDIDATE);
    let (rule, terms) = (rule(&evidence.terms), &evidence.terms);
    let alpha = terms.confirmation_alpha / terms.confirmation_looks.max(1) as f64;
    kopt_stats::launches_to_confirm(&series.shapes(), &rule, alpha, LEAST_TO_CONFIRM.min(most)..=most)
}

/// The verdict on the evidence, whatever verdict stands in it.
#[must_use]
pub fn verdict(evidence: &Evidence) -> Verdict {
    let (ruling, mut reasons) = ruling(evidence);
    reasons.extend(evidence.arrangement.as_ref().and_then(|arrangement| words::lacking(&arrangement.sandbox)));
    let Some(stage) = evidence.stages.last().filter(|stage| !stage.launches.is_empty()) else {
        let direction = if evidence.identical { Direction::Same } else { Direction::CannotTell };
        return Verdict { ruling, direction, reasons, ..placeholder() };
    };
    let (series, aggregate) = match is_gate(&evidence.terms) {
        true => slowdown::told(evidence, stage),
        false => {
            let series = Series::of(evidence, stage, INCUMBENT, CANDIDATE);
            let aggregate = series.aggregate();
            (series, aggregate)
        }
    };
    let (alpha, aggregate) = (alpha_of(evidence, stage), Effect::of(&aggregate));
    let shapes = series.shapes();
    let directions = kopt_stats::directions(&shapes, 2.0 * evidence.terms.shape_alpha, evidence.terms.min_gain);
    let shapes = series.cases.iter().zip(&shapes).zip(directions).map(|((case, shape), direction)| ShapeVerdict {
        shape: case.name.clone(),
        core: case.core,
        direction: named(direction),
        estimate: estimate(&shape.effect(), evidence.terms.shape_alpha),
        incumbent_s: case.incumbent_s,
        candidate_s: case.candidate_s,
    });
    let direction = named(kopt_stats::direction(&aggregate, 2.0 * alpha, evidence.terms.min_gain));
    if ruling == Ruling::RolledBackNoise && evidence.terms.confirmation_looks > 0 {
        reasons.push(words::detectable(&aggregate, alpha, POWER, is_gate(&evidence.terms)));
    }
    let control = control(evidence).map(|effect| estimate(&effect, evidence.terms.control_alpha / 2.0));
    // An interval of a single launch has no end, and JSON no infinity: such estimates say nothing and are left out.
    Verdict {
        ruling,
        direction,
        reasons,
        aggregate: Some(estimate(&aggregate, alpha)).filter(is_finite),
        shapes: shapes.filter(|shape| is_finite(&shape.estimate)).collect(),
        control: control.filter(is_finite),
        detectable: Some(gain_of_log(aggregate.detectable(alpha, POWER))).filter(|gain| gain.is_finite()),
        launches: evidence.stages.iter().map(|stage| stage.launches.len()).sum(),
        false_accept: kopt_stats::false_accept_bound(
            &[evidence.terms.screen_alpha, evidence.terms.confirmation_alpha],
            1,
        ),
    }
}

/// What stands in evidence before there is a verdict.
#[must_use]
pub fn placeholder() -> Verdict {
    Verdict {
        ruling: Ruling::RolledBackNoise,
        direction: Direction::CannotTell,
        reasons: Vec::new(),
        aggregate: None,
        shapes: Vec::new(),
        control: None,
        detectable: None,
        launches: 0,
        false_accept: 0.0,
    }
}

/// The aggregate of the stage under way, for a progress line.
#[must_use]
pub fn so_far(evidence: &Evidence) -> Option<(Option<Estimate>, Option<Estimate>)> {
    let stage = evidence.stages.last().filter(|stage| stage.launches.len() > 1)?;
    let aggregate = Effect::of(&Series::of(evidence, stage, INCUMBENT, CANDIDATE).aggregate());
    let control = control(evidence).map(|effect| estimate(&effect, evidence.terms.control_alpha / 2.0));
    Some((Some(estimate(&aggregate, alpha_of(evidence, stage))).filter(is_finite), control.filter(is_finite)))
}

/// Whether the audit of the candidate's object found a violation that the incumbent's does not have.
#[must_use]
pub fn is_refused(evidence: &Evidence) -> bool {
    evidence
        .candidate
        .audit
        .as_ref()
        .is_some_and(|audit| audit.beyond(evidence.incumbent.audit.as_ref()).next().is_some())
}

fn ruling(evidence: &Evidence) -> (Ruling, Vec<String>) {
    // Before a forfeit: what was found in the object says why it failed.
    if let Some(audit) = evidence.candidate.audit.as_ref().filter(|_| is_refused(evidence)) {
        let found = audit.beyond(evidence.incumbent.audit.as_ref());
        return (Ruling::IntegrityViolation, found.map(words::audited).collect());
    }
    // Wrong only for what it did before: that is no mistake.
    if let Some(reason) = evidence.forfeit.as_ref().and_then(|_| transfer::remembers(evidence)) {
        return (Ruling::IntegrityViolation, vec![reason]);
    }
    let (ruling, reasons) = measured(evidence);
    // A gate asks for no gain, so that none has to exist in training.
    let asked = !evidence.identical && !is_gate(&evidence.terms);
    let gained = matches!(ruling, Ruling::Accepted | Ruling::AcceptedTradeOff) && asked;
    match transfer::overruled(evidence).filter(|_| gained) {
        Some(overruled) => overruled,
        None => (ruling, reasons),
    }
}

/// What the launches show, before it is asked whether training has it too.
fn measured(evidence: &Evidence) -> (Ruling, Vec<String>) {
    if let Some(forfeit) = &evidence.forfeit {
        let ruling =
            if forfeit.contestant == CANDIDATE { Ruling::of_forfeit(forfeit.kind) } else { Ruling::Contaminated };
        return (ruling, vec![words::forfeit(forfeit)]);
    }
    if evidence.identical {
        let required = rule(&evidence.terms).require_gain;
        return (if required { Ruling::RolledBack } else { Ruling::Accepted }, vec![words::identical()]);
    }
    let violations = integrity::violations(evidence);
    if !violations.is_empty() {
        return (Ruling::IntegrityViolation, violations);
    }
    let least = if is_gate(&evidence.terms) { slowdown::control_least(&evidence.terms) } else { CONTROL_LEAST };
    let fires = |effect: &Effect| effect.two_sided_p() < evidence.terms.control_alpha && effect.mean.abs() >= least;
    if let Some(effect) = control(evidence).filter(fires) {
        return (Ruling::Contaminated, vec![words::contaminated(&effect, evidence.terms.control_alpha)]);
    }
    let Some(screen) = evidence.stages.iter().find(|stage| stage.kind == StageKind::Screen) else {
        return (Ruling::RolledBackNoise, vec![words::nothing_measured()]);
    };
    let confirmation = evidence.stages.iter().find(|stage| stage.kind == StageKind::Confirmation);
    if is_gate(&evidence.terms) {
        return slowdown::ruling(evidence, screen, confirmation);
    }
    let names = |index: &usize| Series::of(evidence, screen, INCUMBENT, CANDIDATE).cases[*index].name.clone();
    match (stand(evidence, screen), confirmation.map(|stage| stand(evidence, stage))) {
        (Standing::Reject(reason), _) => (Ruling::RolledBack, vec![words::rejected(reason, &names, &evidence.terms)]),
        (Standing::Undecided, _) => {
            let launches = screen.launches.len();
            let held_up = looks(evidence, screen).into_iter().rfind(|look| *look <= launches);
            let held_up = held_up.is_some_and(|look| is_held_up(evidence, screen, look));
            let why = if held_up { words::held_up(launches) } else { words::undecided(launches) };
            (Ruling::RolledBackNoise, vec![why])
        }
        (Standing::Accept { .. }, _) if evidence.terms.confirmation_looks == 0 => {
            (Ruling::RolledBackNoise, vec![words::screened()])
        }
        (Standing::Accept { .. }, Some(Standing::Accept { slower })) => {
            if let Some(gain) = integrity::unproven(evidence).filter(|_| in_doubt(evidence)) {
                return (Ruling::RolledBackNoise, vec![words::unproven(&gain)]);
            }
            let ruling = if slower.is_empty() { Ruling::Accepted } else { Ruling::AcceptedTradeOff };
            (ruling, vec![words::accepted(&slower.iter().map(names).collect::<Vec<_>>())])
        }
        (Standing::Accept { .. }, Some(Standing::Reject(reason))) => {
            let why = words::rejected(reason, &names, &evidence.terms);
            (Ruling::RolledBackNoise, vec![words::not_confirmed(), why])
        }
        (Standing::Accept { .. }, _) => (Ruling::RolledBackNoise, vec![words::not_confirmed()]),
    }
}

/// Where the candidate stands in a stage, at the last look that was reached.
fn stand(evidence: &Evidence, stage: &Stage) -> Standing {
    if is_given_up(evidence, stage) {
        return Standing::Reject(Reason::NoGain);
    }
    let looks = looks(evidence, stage).into_iter().filter(|look| *look <= stage.launches.len());
    let Some(look) = looks.max() else { return Standing::Undecided };
    kopt_stats::standing(&seen(evidence, stage, look).shapes(), &rule(&evidence.terms), levels(evidence, stage))
}

/// Whether the gain of the screen is ruled out before the confirmation's first look, after as many launches as a screen is looked
/// at. A version that is faster by a little less than is asked for passes a screen now and then, whose bare gain then asks for the
/// longest confirmation. What ends it early accepts nothing, so that it costs no error.
fn is_given_up(evidence: &Evidence, stage: &Stage) -> bool {
    let terms = &evidence.terms;
    if stage.kind != StageKind::Confirmation || !terms.gives_up_early || is_gate(terms) {
        return false;
    }
    let first = planned_looks(evidence, stage).first().copied().unwrap_or(0).min(stage.launches.len() + 1);
    let ruled_out = |look: usize| {
        let shapes = seen(evidence, stage, look);
        let standing = kopt_stats::standing(&shapes.shapes(), &rule(terms), levels(evidence, stage));
        standing == Standing::Reject(Reason::NoGain)
    };
    terms.looks.iter().any(|look| *look < first && ruled_out(*look))
}

/// Whether it is undecided after `look` launches though a gain is shown: a loss of some core shape is not ruled out.
fn is_held_up(evidence: &Evidence, stage: &Stage, look: usize) -> bool {
    let (series, rule) = (seen(evidence, stage, look), rule(&evidence.terms));
    let stands = |shapes: &[Shape<'_>]| kopt_stats::standing(shapes, &rule, levels(evidence, stage));
    let mut shapes = series.shapes();
    let undecided = stands(&shapes) == Standing::Undecided;
    shapes.iter_mut().for_each(|shape| shape.core = false);
    undecided && matches!(stands(&shapes), Standing::Accept { .. })
}

/// Whether it would be accepted after `launches` like those until `look`.
fn would_pass(evidence: &Evidence, stage: &Stage, look: usize, launches: usize) -> bool {
    let (series, levels) = (seen(evidence, stage, look), levels(evidence, stage));
    kopt_stats::would_pass(&series.shapes(), &rule(&evidence.terms), levels.accept, launches)
}

fn seen(evidence: &Evidence, stage: &Stage, look: usize) -> Series {
    let seen = Stage { kind: stage.kind, launches: stage.launches[..look].to_vec() };
    Series::of(evidence, &seen, INCUMBENT, CANDIDATE)
}

fn levels(evidence: &Evidence, stage: &Stage) -> Levels {
    Levels { accept: alpha_of(evidence, stage), give_up: evidence.terms.give_up_alpha }
}

/// The incumbent against itself, over all stages: a disturbance need not respect them.
fn control(evidence: &Evidence) -> Option<Effect> {
    let launches: Vec<_> = evidence.stages.iter().flat_map(|stage| stage.launches.iter().cloned()).collect();
    if launches.len() < 2 || launches.iter().any(|launch| launch.started.len() <= CONTROL) {
        return None;
    }
    let all = Stage { kind: StageKind::Screen, launches };
    // Not every launch of a gate has every shape.
    let gains = match is_gate(&evidence.terms) {
        true => series::by_launch(&all, INCUMBENT, CONTROL),
        false => Series::of(evidence, &all, INCUMBENT, CONTROL).aggregate(),
    };
    Some(Effect::of(&gains))
}

/// The level of each look: a stage's error is spread evenly over those planned, so that the sum holds whatever the data.
fn alpha_of(evidence: &Evidence, stage: &Stage) -> f64 {
    let all = match stage.kind {
        StageKind::Screen => evidence.terms.screen_alpha,
        StageKind::Confirmation => evidence.terms.confirmation_alpha,
    };
    all / planned_looks(evidence, stage).len().max(1) as f64
}

fn rule(terms: &Terms) -> Rule {
    let policy: Policy = terms.policy.parse().unwrap_or_default();
    let (min_gain, max_regression, shape_alpha) = (terms.min_gain, terms.max_regression, terms.shape_alpha);
    Rule { min_gain, max_regression, shape_alpha, ..policy.rule() }
}

fn estimate(effect: &Effect, alpha: f64) -> Estimate {
    Estimate {
        gain: gain_of_log(effect.mean),
        low: gain_of_log(effect.lower(alpha)),
        high: gain_of_log(effect.upper(alpha)),
        confidence: 1.0 - 2.0 * alpha,
        launch_sigma: effect.deviation,
        launches: effect.launches,
    }
}

fn is_finite(estimate: &Estimate) -> bool {
    let numbers = [estimate.gain, estimate.low, estimate.high, estimate.confidence, estimate.launch_sigma];
    numbers.iter().all(|number| number.is_finite())
}

fn named(direction: kopt_stats::Direction) -> Direction {
    match direction {
        kopt_stats::Direction::Faster => Direction::Faster,
        kopt_stats::Direction::Slower => Direction::Slower,
        kopt_stats::Direction::Same => Direction::Same,
        kopt_stats::Direction::CannotTell => Direction::CannotTell,
    }
}
