//! What a person reads about a comparison: a row a shape, the aggregate, the control, what could have been shown, how
//! often the terms err, and the ruling with its reasons.

use std::collections::BTreeMap;

use anstyle::Style;
use kopt_schema::audit::Stateless;
use kopt_schema::evidence::{Ceilings, Estimate, Evidence, Ruling, Stage, StageKind, Verdict};
use kopt_schema::message::FailureKind;

use crate::audit;
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, GOOD, MIND, Shell, TOLD, count, indented, units};

/// Shows a verdict and what it rests on.
pub fn show(shell: &mut Shell, evidence: &Evidence, verdict: &Verdict) {
    if !verdict.shapes.is_empty() {
        shell.say(&table(verdict).render());
    }
    for (word, line) in lines(evidence, verdict) {
        shell.status(word, TOLD, &line);
    }
    let (style, passed) = style_of(verdict.ruling);
    let text = ruling(evidence, verdict, style);
    // Who wants quiet wants to hear of what did not pass.
    if passed { shell.say(&text) } else { shell.tell(&text) }
}

/// One row a shape.
fn table(verdict: &Verdict) -> Table {
    let mut table = Table::new(&[
        ("shape", Align::Left),
        ("incumbent", Align::Right),
        ("candidate", Align::Right),
        ("gain [interval]", Align::Right),
        ("verdict", Align::Left),
        ("", Align::Left),
    ]);
    for shape in &verdict.shapes {
        table.row([
            shape.shape.clone(),
            units::seconds(shape.incumbent_s),
            units::seconds(shape.candidate_s),
            gain(&shape.estimate),
            shape.direction.name().to_owned(),
            if shape.core { String::new() } else { "not core".to_owned() },
        ]);
    }
    table
}

/// What stands under the table, each line with its word in the margin.
fn lines(evidence: &Evidence, verdict: &Verdict) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if !evidence.left_out.is_empty() {
        lines.push(("Left out", left_out(evidence)));
    }
    if !evidence.injected.is_empty() {
        lines.push(("Self-test", injected(evidence)));
    }
    if let Some(audit) = &evidence.candidate.audit {
        lines.push(("State audit", audit::words::line(audit)));
    }
    if let Some(audit) = evidence.incumbent.audit.as_ref().filter(|audit| audit.stateless == Stateless::Violated) {
        lines.push(("Incumbent", audit::words::line(audit)));
    }
    if let Some(aggregate) = &verdict.aggregate {
        let (told, launches) = (with_confidence(aggregate), launches(&evidence.stages));
        let word = verdict.direction.name();
        lines.push(("Aggregate", format!("{told}: {word}; {launches} in {}", units::seconds(evidence.seconds))));
    }
    if let Some(before) = &evidence.called_off {
        let why = before.verdict.reasons.first().map_or("the machine was disturbed", String::as_str);
        lines.push(("Before it", format!("a match that does not count, of {}: {why}", units::seconds(before.seconds))));
    }
    if let Some(control) = &verdict.control {
        lines.push(("Control", format!("{}, the incumbent against itself", with_confidence(control))));
    }
    if let Some(detectable) = verdict.detectable {
        lines.push(("Resolution", format!("a gain of {} is shown four times of five", share(detectable))));
    }
    let limit = evidence.terms.max_regression;
    let in_the_way = verdict.in_the_way(limit);
    if !in_the_way.is_empty() {
        let each: Vec<String> =
            in_the_way.iter().map(|shape| format!("{} ({})", shape.shape, gain(&shape.estimate))).collect();
        lines.push(("In the way", format!("a loss of {} is not ruled out on {}", share(limit), each.join(", "))));
    }
    if verdict.aggregate.is_some() {
        let (screen, confirmation) = (share(evidence.terms.screen_alpha), share(evidence.terms.confirmation_alpha));
        let both = share(verdict.false_accept);
        let text = if evidence.terms.policy == kopt_stats::Policy::Gate.name() {
            let tolerance = share(evidence.terms.max_regression);
            format!("without a slowdown beyond {tolerance}, at most {both} fail")
        } else {
            format!("without a gain, at most {screen} pass the screen, {confirmation} the confirmation, {both} both")
        };
        lines.push(("Error rates", text));
    }
    lines
}

/// The ruling, then its reasons.
fn ruling(evidence: &Evidence, verdict: &Verdict, style: Style) -> String {
    let mut reasons = verdict.reasons.iter();
    let first = reasons.next().map(|reason| format!(": {reason}")).unwrap_or_default();
    let mut text = format!("{style}{}{style:#}{first}\n", verdict.ruling.name());
    reasons.for_each(|reason| text.push_str(&indented(reason, 4)));
    if evidence.forfeit.as_ref().is_some_and(|forfeit| forfeit.kind == FailureKind::NoMemory) {
        text.push_str(&format!("{TOLD}hint{TOLD:#}: free memory of the device, or name another one: --device N\n"));
    } else if verdict.ruling == Ruling::Contaminated {
        let again = "leave the machine to the comparison and start it again";
        text.push_str(&format!(
            "{TOLD}hint{TOLD:#}: {again}; load was {:.2} before and {:.2} after\n",
            evidence.machine.load_before, evidence.machine.load_after
        ));
    }
    text
}

const fn style_of(ruling: Ruling) -> (Style, bool) {
    match ruling {
        Ruling::Accepted | Ruling::AcceptedTradeOff => (GOOD, true),
        Ruling::RolledBackNoise | Ruling::Contaminated => (MIND, false),
        Ruling::RolledBack | Ruling::Overfit | Ruling::Incorrect | Ruling::IntegrityViolation => (BAD, false),
    }
}

/// `1x8, 4x8 (only in BASE); a (sizes differ)`.
fn left_out(evidence: &Evidence) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in &evidence.left_out {
        reasons.entry(&one.why).or_default().push(&one.shape);
    }
    let told: Vec<String> = reasons.iter().map(|(why, shapes)| format!("{} ({why})", shapes.join(", "))).collect();
    told.join("; ")
}

fn injected(evidence: &Evidence) -> String {
    let one = |injection: &kopt_schema::evidence::Injection| {
        let who = if injection.contestant == 0 { "the incumbent" } else { "the candidate" };
        let shape = injection.handicap.case.as_deref().map(|case| format!(" on {case}")).unwrap_or_default();
        format!("{who} is slowed down by {}{shape}", share(injection.handicap.share))
    };
    evidence.injected.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// `9 launches and 6 to confirm`.
pub fn launches(stages: &[Stage]) -> String {
    let of = |kind| stages.iter().filter(|stage| stage.kind == kind).map(|stage| stage.launches.len()).sum::<usize>();
    match of(StageKind::Confirmation) {
        0 => count(of(StageKind::Screen), "launch").replace("launchs", "launches"),
        confirmed => format!("{} launches and {confirmed} to confirm", of(StageKind::Screen)),
    }
}

/// `Some CPU: copy 20.0 GB/s, read 11.0 GB/s, write 9.0 GB/s, arithmetic 98.7 GFLOP/s`.
pub fn ceilings(ceilings: &Ceilings) -> String {
    let moved = [
        ("copy", Some(ceilings.copy_bytes_per_s)),
        ("read", ceilings.read_bytes_per_s),
        ("write", ceilings.write_bytes_per_s),
    ];
    let moved = moved.into_iter().filter_map(|(what, rate)| Some(format!("{what} {}", units::rate(rate?, "B"))));
    let fma = ceilings.fma_flops_per_s.map(|rate| format!("arithmetic {}", units::rate(rate, "FLOP")));
    format!("{}: {}", ceilings.device, moved.chain(fma).collect::<Vec<_>>().join(", "))
}

/// `+3.12 % [+2.01, +4.25]`.
pub fn gain(estimate: &Estimate) -> String {
    format!("{:+.2} % [{:+.2}, {:+.2}]", 100.0 * estimate.gain, 100.0 * estimate.low, 100.0 * estimate.high)
}

/// `+3.12 % [+2.01, +4.25] at 99.3 %`.
fn with_confidence(estimate: &Estimate) -> String {
    format!("{} at {}", gain(estimate), share(estimate.confidence))
}

/// A share as people write it: `2 %`, `0.04 %`, `99.33 %`.
pub fn share(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}
