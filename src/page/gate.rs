//! The page of a gate: what became of each kernel that the change reaches, why it is reached, and what that rests on.

use std::collections::BTreeMap;

use kopt_schema::message::GateKernel;

use super::exhibit::Exhibit;
use super::markup::Markup;
use super::plots::Tone;
use super::{frame, within_budget, words};
use crate::records::gate::{GateReport, Weight, allowance, judged_by_the_bases, time_shown, weight, worst};
use crate::records::numbers;

/// Why a kernel is reached: files that are named.
const NAMED: usize = 20;

/// What such a page says.
#[derive(Debug, Clone, Copy)]
pub struct GatePage<'a> {
    /// Everything that was told.
    pub report: GateReport<'a>,
    /// What was measured, by kernel.
    pub exhibits: &'a BTreeMap<&'a str, Exhibit<'a>>,
}

/// The page: an overview, then a section for each kernel.
#[must_use]
pub fn gate(page: &GatePage<'_>) -> String {
    within_budget(page.exhibits.len(), |extra| made(page, extra))
}

fn made(page: &GatePage<'_>, extra: usize) -> String {
    let (scope, result) = (page.report.scope, page.report.result);
    let title = format!("Gate: {}", if result.exit_code == 0 { "passed" } else { "failed" });
    let mut body = Markup::default();
    body.leaf("h1", &[], &title);
    // Names of kernels are written as they are.
    let names = if page.report.kernels.is_empty() { "" } else { "Kernels: " };
    body.leaf("p", &[], &words::sentence(&format!("{names}{}", result.text)));
    let (base, head) = (short(&scope.base), short(&scope.head));
    let files = numbers::count(scope.files, "file differs", "files differ");
    let lead = format!(
        "{head} against {base}, {files}; on one machine, interleaved, in {}. A kernel fails where a slowdown beyond {} is \
         shown by its lower bound, twice, by separate launches.",
        numbers::duration(result.seconds),
        numbers::probability(result.tolerance)
    );
    body.leaf("p", &[("class", "soft")], &lead);
    frame::list(&mut body, &scope.notes.iter().map(|note| words::sentence(note)).collect::<Vec<_>>());
    if !page.report.kernels.is_empty() {
        overview(&mut body, &page.report);
    }
    for (number, kernel) in page.report.kernels.iter().enumerate() {
        frame::section(&mut body, &format!("kernel-{}", number + 1), &words::name(&kernel.kernel), |section| {
            outcome(section, kernel, &result.inconclusive);
            frame::list(section, &remarks(kernel));
            reached(section, page, kernel);
            let Some(exhibit) = page.exhibits.get(kernel.kernel.as_str()) else { return };
            section.put(&exhibit.within(extra).0);
            section.element("p", &[], |line| {
                line.text("Computed again from the raw data: ");
                line.leaf("code", &[], &words::name(&format!("cargo kopt verdict {}", exhibit.file)));
            });
        });
    }
    frame::document(&title, &body)
}

fn short(commit: &str) -> String {
    words::name(&commit.chars().take(10).collect::<String>())
}

fn overview(to: &mut Markup, report: &GateReport<'_>) {
    to.element("div", &frame::scrolls("Kernels", "scroll"), |scroll| {
        scroll.element("table", &[], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for name in ["kernel", "outcome", "time, mean over shapes", "worst shape", "its time"] {
                        row.leaf("th", &[("scope", "col")], name);
                    }
                });
            });
            table.element("tbody", &[], |rows| {
                for (number, kernel) in report.kernels.iter().enumerate() {
                    let verdict = kernel.verdict.as_ref();
                    let worst = verdict.and_then(worst);
                    rows.element("tr", &[], |row| {
                        row.element("th", &[("scope", "row")], |cell| {
                            let target = format!("#kernel-{}", number + 1);
                            cell.leaf("a", &[("href", &target)], &words::name(&kernel.kernel));
                        });
                        row.element("td", &[], |cell| badge(cell, kernel, &report.result.inconclusive));
                        let mean = verdict.and_then(|verdict| verdict.aggregate.as_ref()).map(time_shown);
                        row.leaf("td", &[], &mean.unwrap_or_default());
                        row.leaf("td", &[], &worst.map(|shape| words::name(&shape.shape)).unwrap_or_default());
                        row.leaf("td", &[], &worst.map(|shape| time_shown(&shape.estimate)).unwrap_or_default());
                    });
                }
            });
        });
    })
    .line();
    to.leaf("p", &[("class", "soft")], "Here more time is worse; below, gains: the time before / the time after − 1.");
}

fn badge(to: &mut Markup, kernel: &GateKernel, inconclusive: &str) {
    let tone = match weight(kernel, inconclusive) {
        Weight::Fails => Tone::Bad,
        Weight::Warns => Tone::Even,
        Weight::Fine => Tone::Good,
    };
    words::badge(to, tone, kernel.outcome.name());
}

fn outcome(to: &mut Markup, kernel: &GateKernel, inconclusive: &str) {
    to.element("p", &[], |line| {
        badge(line, kernel, inconclusive);
        line.text(" ").text(&words::sentence(&kernel.text));
    });
}

/// What must not be overlooked.
fn remarks(kernel: &GateKernel) -> Vec<String> {
    let mut remarks = Vec::new();
    let allowed = |reason: &String| format!("{} is allowed by a commit: {reason}", allowance(kernel.outcome));
    remarks.extend(kernel.allowed.as_ref().map(allowed));
    if !kernel.judging.is_empty() {
        let judged = if judged_by_the_bases(kernel) { "; the base's judged it here" } else { "" };
        remarks.push(format!("the change edits what judges it{judged}: {}", kernel.judging.join(", ")));
    }
    remarks.extend(kernel.audit.iter().chain(&kernel.notes).cloned());
    remarks.iter().map(|remark| words::sentence(remark)).collect()
}

/// Why the kernel is looked at, folded.
fn reached(to: &mut Markup, page: &GatePage<'_>, kernel: &GateKernel) {
    let affected = page.report.scope.affected.iter().find(|affected| affected.kernel == kernel.kernel);
    let Some(reasons) = affected.map(|affected| &affected.reasons).filter(|reasons| !reasons.is_empty()) else {
        return;
    };
    to.element("details", &[("class", "numbers")], |details| {
        details.leaf("summary", &[], "Why the change reaches it");
        let named = reasons.iter().take(NAMED);
        let mut lines: Vec<String> =
            named.map(|reason| words::name(&format!("{} {}", reason.path, reason.why))).collect();
        match reasons.len().saturating_sub(NAMED) {
            0 => {}
            more => lines.push(format!("and {more} more")),
        }
        frame::list(details, &lines);
    });
}
