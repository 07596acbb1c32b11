//! Annotations of GitHub Actions: one line a kernel that somebody should look at, shown at the file it is about.

use kopt_schema::message::GateKernel;

use super::{GateReport, Weight, weight};
use crate::records::text;

/// Longest message of an annotation: GitHub shows no more of it.
const LONGEST: usize = 4000;

/// The commands, a line each; none where all is well.
#[must_use]
pub fn annotations(report: &GateReport<'_>) -> Vec<String> {
    report.kernels.iter().filter_map(|kernel| annotation(kernel, &report.result.inconclusive)).collect()
}

fn annotation(kernel: &GateKernel, inconclusive: &str) -> Option<String> {
    let command = match weight(kernel, inconclusive) {
        Weight::Fails => "error",
        Weight::Warns => "warning",
        Weight::Fine => return None,
    };
    let mut properties = Vec::new();
    if let Some(file) = &kernel.file {
        properties.push(format!("file={}", property(file)));
        properties.extend(kernel.line.map(|line| format!("line={line}")));
    }
    let title = format!("cargo kopt gate: {} {}", kernel.kernel, kernel.outcome.name());
    properties.push(format!("title={}", property(&title)));
    let mut message = vec![kernel.text.clone()];
    message.extend(kernel.notes.iter().cloned());
    message.extend(kernel.audit.iter().cloned());
    if !kernel.judging.is_empty() {
        message.push(format!("the change edits what judges it: {}", kernel.judging.join(", ")));
    }
    let message = text::cut(&message.join("\n"), LONGEST);
    Some(format!("::{command} {}::{}", properties.join(","), data(&message)))
}

/// The text of a command, as the runner reads it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property: colon and comma end one.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
