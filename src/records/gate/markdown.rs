//! Markdown for a job's summary or a comment: one line when all is well, a table of kernels, and what was measured folded
//! away.

use kopt_schema::message::GateKernel;

use super::{GateReport, Weight, allowance, judged_by_the_bases, time_shown, weight, worst};
use crate::records::text::{self, code, table};
use crate::shell::units;

/// By which a comment is found again, to be replaced.
pub const MARK: &str = "<!-- kopt-gate -->";

/// A comment of GitHub takes 65,536 characters; rows of shapes beyond this are left out.
const LONGEST: usize = 50_000;

/// Why a kernel is reached: files that are named.
const NAMED: usize = 4;

/// The document.
#[must_use]
pub fn markdown(report: &GateReport<'_>) -> String {
    let of = |kernel: &GateKernel| weight(kernel, &report.result.inconclusive);
    let worst = report.kernels.iter().map(of).fold(Weight::Fine, |worst, one| match (worst, one) {
        (Weight::Fails, _) | (_, Weight::Fails) => Weight::Fails,
        (Weight::Warns, _) | (_, Weight::Warns) => Weight::Warns,
        _ => Weight::Fine,
    });
    let sign = match worst {
        Weight::Fails => "❌",
        Weight::Warns => "⚠️",
        Weight::Fine => "✅",
    };
    let mut text = format!("{MARK}\n{sign} **cargo kopt gate**: {}\n", inline(&report.result.text));
    if report.kernels.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = report.kernels.iter().map(row).collect();
    text.push('\n');
    text.push_str(&table(&["kernel", "", "time, mean over shapes", "worst shape", ""], &rows));
    for kernel in report.kernels {
        remarks(kernel, &mut text);
    }
    let mut folded = String::new();
    for kernel in report.kernels {
        shapes(kernel, &mut folded);
    }
    reasons(report, &mut folded);
    let (base, head) = (&report.scope.base, &report.scope.head);
    let short = |commit: &str| commit.chars().take(10).collect::<String>();
    let tolerance = 100.0 * report.result.tolerance;
    let facts = format!(
        "{} against {}, on one machine, interleaved; more time is worse. It fails where a slowdown beyond {tolerance} % is \
         shown by its lower bound, twice, by separate launches. {}\n",
        code(&short(head)),
        code(&short(base)),
        units::duration(report.result.seconds)
    );
    text.push_str(&format!(
        "\n<details><summary>Shapes, and why these kernels</summary>\n\n{folded}{facts}\n</details>\n"
    ));
    text
}

/// Words of the change, for Markdown: a name with `@` before it would call somebody.
fn inline(words: &str) -> String {
    text::inline(words).replace('@', "&#64;")
}

/// The same, for a table.
fn cell(words: &str) -> String {
    text::cell(words).replace('@', "&#64;")
}

fn row(kernel: &GateKernel) -> Vec<String> {
    let verdict = kernel.verdict.as_ref();
    let aggregate = verdict.and_then(|verdict| verdict.aggregate.as_ref()).map(time_shown);
    let worst = verdict.and_then(worst).map(|shape| format!("{}: {}", shape.shape, time_shown(&shape.estimate)));
    vec![
        code(&kernel.kernel),
        format!("**{}**", kernel.outcome.name()),
        cell(&aggregate.unwrap_or_default()),
        cell(&worst.unwrap_or_default()),
        cell(&kernel.text),
    ]
}

/// What must not be overlooked.
fn remarks(kernel: &GateKernel, text: &mut String) {
    let name = code(&kernel.kernel);
    let mut say = |line: String| text.push_str(&format!("\n> {name}: {line}\n"));
    if !kernel.judging.is_empty() {
        let files: Vec<String> = kernel.judging.iter().map(|file| code(file)).collect();
        let judged = if judged_by_the_bases(kernel) { "; the base's judged it here" } else { "" };
        say(format!("the change edits what judges it ({}){judged}", files.join(", ")));
    }
    if let Some(reason) = &kernel.allowed {
        say(format!("{} is allowed by a commit: {}", allowance(kernel.outcome), inline(reason)));
    }
    kernel.audit.iter().chain(&kernel.notes).for_each(|line| say(inline(line)));
}

fn shapes(kernel: &GateKernel, text: &mut String) {
    let Some(verdict) = kernel.verdict.as_ref().filter(|verdict| !verdict.shapes.is_empty()) else { return };
    let mut rows = Vec::new();
    let mut length = text.len();
    for shape in &verdict.shapes {
        let row = vec![
            cell(&shape.shape),
            cell(&units::seconds(shape.incumbent_s)),
            cell(&units::seconds(shape.candidate_s)),
            cell(&time_shown(&shape.estimate)),
            shape.direction.name().to_owned(),
        ];
        length += row.iter().map(|cell| cell.len() + 3).sum::<usize>();
        if length > LONGEST {
            break;
        }
        rows.push(row);
    }
    let left = verdict.shapes.len() - rows.len();
    text.push_str(&format!("{}, {} launches\n\n", code(&kernel.kernel), verdict.launches));
    text.push_str(&table(&["shape", "base", "head", "time", ""], &rows));
    if left > 0 {
        text.push_str(&format!("\nand {left} shapes more\n"));
    }
    text.push('\n');
}

fn reasons(report: &GateReport<'_>, text: &mut String) {
    for affected in &report.scope.affected {
        if text.len() > LONGEST {
            return;
        }
        let named: Vec<String> = affected
            .reasons
            .iter()
            .take(NAMED)
            .map(|reason| format!("{} {}", code(&reason.path), inline(&reason.why)))
            .collect();
        let more = affected.reasons.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        text.push_str(&format!("{}: {}{more}\n\n", code(&affected.kernel), named.join("; ")));
    }
}
