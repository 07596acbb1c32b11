//! An audit in words: the line of summaries and commits, and the reason of a ruling.

use kopt_schema::audit::{Audit, Finding, Severity};

use super::rules;

/// The line `State audit` of the transfer check: `stateless (presumed): an object for x86-64, 345 instructions; allowed: ...`.
#[must_use]
pub fn line(audit: &Audit) -> String {
    let mut text = format!("{}: {}", audit.stateless.name(), audit.scope);
    let violations: Vec<String> = audit.violations().map(Finding::line).collect();
    if !violations.is_empty() {
        text.push_str(&format!("; found: {}", violations.join(", ")));
    }
    let allowed: Vec<String> = audit.allowed.iter().map(|one| format!("{} ({})", one.what, one.why)).collect();
    if !allowed.is_empty() {
        text.push_str(&format!("; allowed: {}", allowed.join(", ")));
    }
    let notes = audit.findings.iter().filter(|finding| finding.severity == Severity::Note).count();
    if notes > 0 {
        text.push_str(&format!("; {notes} {}", if notes == 1 { "note" } else { "notes" }));
    }
    text
}

/// A violation as the reason of a ruling: what, where, why, and how to see it again.
#[must_use]
pub fn reason(finding: &Finding) -> String {
    let title = rules::find(&finding.rule).map_or("", |rule| rule.title.as_str());
    let instruction = finding.instruction.as_ref().map_or_else(String::new, |text| format!(" (`{text}`)"));
    format!("state audit, {}{instruction}: {title}; see `cargo kopt audit --explain {}`", finding.line(), finding.rule)
}
