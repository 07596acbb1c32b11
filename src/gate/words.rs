//! The reasons of a ruling, for people.

use kopt_schema::audit::Finding;
use kopt_schema::bout::Forfeit;
use kopt_schema::evidence::Terms;
use kopt_schema::sandbox::Sandbox;
use kopt_stats::{Effect, Reason, gain_of_log};

use super::integrity::Unproven;
use super::series::CANDIDATE;
use crate::audit;

pub fn forfeit(forfeit: &Forfeit) -> String {
    let who = if forfeit.contestant == CANDIDATE { "the candidate" } else { "the incumbent" };
    match &forfeit.case {
        Some(case) => format!("{who}, on {case}: {}", forfeit.message),
        None => format!("{who}: {}", forfeit.message),
    }
}

pub fn audited(finding: &Finding) -> String {
    audit::words::reason(finding)
}

pub fn identical() -> String {
    "both compile to the same code: there is nothing to measure".to_owned()
}

pub fn contaminated(effect: &Effect, alpha: f64) -> String {
    let gain = 100.0 * gain_of_log(effect.mean);
    let level = 100.0 * alpha;
    format!(
        "the incumbent differs from itself by {gain:+.2} % (p = {:.4}, limit {level} %): the machine was disturbed",
        effect.two_sided_p()
    )
}

pub fn nothing_measured() -> String {
    "nothing was measured".to_owned()
}

pub fn rejected(reason: Reason, name: &dyn Fn(&usize) -> String, terms: &Terms) -> String {
    let limit = 100.0 * terms.max_regression;
    match reason {
        Reason::NoGain => {
            let confidence = 100.0 * (1.0 - terms.give_up_alpha);
            format!("a gain of {:.1} % or more is ruled out at {confidence:.0} %", 100.0 * terms.min_gain)
        }
        Reason::AggregateSlower => format!("it is slower over all shapes, by {limit:.0} % or more"),
        Reason::ShapeSlower(index) => format!("{} is slower by {limit:.0} % or more", name(&index)),
        Reason::AnyRegression(index) => {
            format!("{} is slower, and policy {} tolerates no slower shape", name(&index), terms.policy)
        }
    }
}

pub fn undecided(launches: usize) -> String {
    format!("{launches} launches show neither a gain nor that there is none")
}

pub fn held_up(launches: usize) -> String {
    format!("{launches} launches show a gain, but leave the loss of a shape open")
}

pub fn screened() -> String {
    "a gain was shown; a full validation is to confirm it".to_owned()
}

pub fn not_confirmed() -> String {
    "the screen showed a gain, and fresh processes with new seeds did not confirm it".to_owned()
}

pub fn unproven(gain: &Unproven) -> String {
    let Unproven { claimed, seen, clock } = gain;
    format!(
        "its own clock shows {:.1} % of the time saved, {clock} {:.1} %: not enough to be sure of half of it",
        100.0 * claimed,
        100.0 * seen
    )
}

pub fn accepted(slower: &[String]) -> String {
    if slower.is_empty() {
        "the gain was shown, and confirmed by fresh processes with new seeds".to_owned()
    } else {
        format!("the gain was shown and confirmed; slower all the same: {}", slower.join(", "))
    }
}

/// What the machine lacks to confine contestants, if it lacks anything.
pub fn lacking(sandbox: &Sandbox) -> Option<String> {
    let lacks: Vec<String> =
        sandbox.lacking().map(|guard| format!("{} ({})", guard.defence.name(), guard.detail)).collect();
    (!lacks.is_empty())
        .then(|| format!("contestants were only {}; not in force: {}", sandbox.trust(), lacks.join(", ")))
}

/// The tolerance of a gate, as people write it.
fn tolerance(terms: &Terms) -> String {
    let text = format!("{:.2}", 100.0 * terms.max_regression);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

pub fn clear(terms: &Terms) -> String {
    format!("no shape is slower by {} or more", tolerance(terms))
}

pub fn cleared(terms: &Terms) -> String {
    format!("the screen showed a slowdown beyond {}, and fresh processes with new seeds rule it out", tolerance(terms))
}

pub fn slower(parts: &[String], terms: &Terms) -> String {
    let names = parts.join(", ");
    format!("slower by more than {}, shown and confirmed by fresh processes with new seeds: {names}", tolerance(terms))
}

pub fn slower_once(parts: &[String], terms: &Terms) -> String {
    let names = parts.join(", ");
    format!("the screen showed a slowdown beyond {} of {names}, and it was not confirmed", tolerance(terms))
}

pub fn gross(parts: &[String], times: f64) -> String {
    let names = parts.join(", ");
    format!("took more than {times} times as long in every launch, of which the time allowed only a few: {names}")
}

pub fn not_told(launches: usize, terms: &Terms) -> String {
    format!("{launches} launches neither show nor rule out a slowdown beyond {}", tolerance(terms))
}

pub fn detectable(effect: &Effect, alpha: f64, power: f64, slower: bool) -> String {
    let gain = 100.0 * gain_of_log(effect.detectable(alpha, power));
    match (gain.is_finite(), slower) {
        (true, false) => format!("this run could have shown a gain of {gain:.1} % four times of five"),
        (true, true) => format!("this run could have shown {gain:.1} % beyond that, in the mean, four times of five"),
        (false, false) => "too few launches to show any gain".to_owned(),
        (false, true) => "too few launches to show anything".to_owned(),
    }
}
