//! What is told of a gate: lines and a table for people, messages for programs.

use std::collections::BTreeMap;

use anstyle::Style;
use kopt_schema::message::{GateKernel, GateOutcome, GateScope, Message};

use super::range::Range;
use crate::error::Result;
use crate::records::gate::{GateReport, Weight, judged_by_the_bases, time_shown, weight, worst};
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, GOOD, MIND, Shell, TOLD, count, indented, units};

/// Reasons of a kernel that are shown one by one.
const SHOWN: usize = 3;

/// Which kernels are reached.
pub fn scope(shell: &mut Shell, range: &Range, scope: &GateScope) -> Result<()> {
    shell.status("Comparing", GOOD, &format!("{} with {}", range.head.shown(), range.base.shown()));
    scope.notes.iter().for_each(|note| shell.note(note));
    let files = if scope.files == 1 { "1 file differs".to_owned() } else { format!("{} files differ", scope.files) };
    shell.status("Changed", TOLD, &files);
    for affected in &scope.affected {
        let told = affected.reasons.iter().take(SHOWN).map(|reason| format!("{} {}", reason.path, reason.why));
        let mut told: Vec<String> = told.collect();
        let more = affected.reasons.len().saturating_sub(SHOWN);
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        let why = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
        shell.status("Reached", TOLD, &format!("{}{why}", affected.kernel));
    }
    shell.message(&Message::GateScope(scope.clone()))
}

/// What became of a kernel, for programs.
pub fn kernel(shell: &mut Shell, kernel: &GateKernel) -> Result<()> {
    shell.message(&Message::GateKernel(kernel.clone()))
}

/// What follows, for people and programs.
pub fn result(shell: &mut Shell, report: &GateReport<'_>) -> Result<()> {
    if !report.kernels.is_empty() {
        shell.say(&table(report.kernels).render());
    }
    for kernel in report.kernels {
        details(shell, kernel, weight(kernel, &report.result.inconclusive));
    }
    let failed = report.result.exit_code != 0;
    let (style, word) = if failed { (BAD, "FAILED") } else { (GOOD, "PASSED") };
    let line = format!("{style}{word}{style:#}: {}\n", report.result.text);
    // Who wants quiet wants to hear of what failed.
    if failed {
        shell.tell(&line)
    } else {
        shell.say(&line)
    }
    if !report.result.undecided.is_empty() {
        let hint = "more time (--max-time) or a quieter machine may decide; --inconclusive says what is made of it";
        shell.say(&format!("{TOLD}hint{TOLD:#}: not decided: {}; {hint}\n", report.result.undecided.join(", ")));
    }
    shell.message(&Message::GateResult(report.result.clone()))
}

fn table(kernels: &[GateKernel]) -> Table {
    let mut table = Table::new(&[
        ("kernel", Align::Left),
        ("", Align::Left),
        ("time [interval]", Align::Right),
        ("worst shape", Align::Left),
        ("", Align::Right),
    ]);
    for kernel in kernels {
        let verdict = kernel.verdict.as_ref();
        let worst = verdict.and_then(worst);
        table.row([
            kernel.kernel.clone(),
            kernel.outcome.name().to_owned(),
            verdict.and_then(|verdict| verdict.aggregate.as_ref()).map(time_shown).unwrap_or_default(),
            worst.map(|shape| shape.shape.clone()).unwrap_or_default(),
            worst.map(|shape| time_shown(&shape.estimate)).unwrap_or_default(),
        ]);
    }
    table
}

fn details(shell: &mut Shell, kernel: &GateKernel, weight: Weight) {
    let style: Style = match weight {
        Weight::Fails => BAD,
        Weight::Warns => MIND,
        Weight::Fine => GOOD,
    };
    let mut text = format!("{style}{}{style:#} {}: {}\n", kernel.kernel, kernel.outcome.name(), kernel.text);
    if let Some(reason) = &kernel.allowed {
        text.push_str(&indented(&format!("allowed by a commit: {reason}"), 4));
    }
    if !kernel.judging.is_empty() {
        let judged = if judged_by_the_bases(kernel) { "; the base's judged it here" } else { "" };
        let files = kernel.judging.join(", ");
        text.push_str(&indented(&format!("the change edits what judges it{judged}: {files}"), 4));
    }
    kernel.audit.iter().chain(&kernel.notes).for_each(|line| text.push_str(&indented(line, 4)));
    if let (Weight::Fails, Some(verdict)) = (weight, &kernel.verdict) {
        for shape in &verdict.shapes {
            let (old, new) = (units::seconds(shape.incumbent_s), units::seconds(shape.candidate_s));
            text.push_str(&format!("    {}: {old} to {new}, {}\n", shape.shape, time_shown(&shape.estimate)));
        }
    }
    if let Some(evidence) = &kernel.evidence {
        text.push_str(&format!("    evidence: {evidence}\n"));
    }
    match weight {
        Weight::Fails => shell.tell(&text),
        _ => shell.say(&text),
    }
}

/// The whole in a line.
pub fn summary(scope: &GateScope, kernels: &[GateKernel]) -> String {
    if kernels.is_empty() {
        return "the change reaches no kernel".to_owned();
    }
    let mut outcomes: BTreeMap<u8, (GateOutcome, Vec<&str>)> = BTreeMap::new();
    for kernel in kernels {
        outcomes.entry(rank(kernel.outcome)).or_insert((kernel.outcome, Vec::new())).1.push(&kernel.kernel);
    }
    let told: Vec<String> =
        outcomes.values().map(|(outcome, names)| format!("{} {}", names.join(", "), outcome.name())).collect();
    let rest = scope.kernels.unwrap_or(0).saturating_sub(kernels.len());
    let rest = if rest > 0 { format!("; {} not reached", count(rest, "kernel")) } else { String::new() };
    format!("{}{rest}", told.join("; "))
}

/// The order in which outcomes are told, the worst first.
const fn rank(outcome: GateOutcome) -> u8 {
    match outcome {
        GateOutcome::Integrity => 0,
        GateOutcome::Incorrect => 1,
        GateOutcome::DoesNotBuild => 2,
        GateOutcome::Regressed => 3,
        GateOutcome::NotJudged => 4,
        GateOutcome::NotCompared => 5,
        GateOutcome::Inconclusive => 6,
        GateOutcome::Allowed => 7,
        GateOutcome::NotComparedAllowed => 8,
        GateOutcome::NotHere => 9,
        GateOutcome::Removed => 10,
        GateOutcome::New => 11,
        GateOutcome::Faster => 12,
        GateOutcome::Passed => 13,
        GateOutcome::Same => 14,
    }
}
