//! What an audit of a built object found: whether the candidate can remember anything between two calls, and reach anything
//! but its arguments. The rules are the tool's; what they found travels in evidence.

use serde::{Deserialize, Serialize};

use crate::manifest::Class;

/// What the audit of one object came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// What the candidate is made of.
    pub class: Class,
    /// Whether it can keep anything between calls.
    pub stateless: Stateless,
    /// What was looked at, and what was not, in words.
    pub scope: String,
    /// What was found, violations first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What a rule would have named, and why it does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Allowed>,
}

impl Audit {
    /// Findings that a candidate may not have.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Violation)
    }

    /// Violations that `other` does not have: another rule, or the same rule for something else.
    pub fn beyond<'a>(&'a self, other: Option<&'a Self>) -> impl Iterator<Item = &'a Finding> {
        let known = move |finding: &Finding| {
            other.is_some_and(|other| {
                other.violations().any(|there| there.rule == finding.rule && there.what == finding.what)
            })
        };
        self.violations().filter(move |finding| !known(finding))
    }
}

/// Whether a candidate can keep anything between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stateless {
    /// It cannot: device code without memory of its own.
    Proven,
    /// Nothing speaks against it; what is left is for the sandbox and the trace.
    Presumed,
    /// It can, or can reach what it must not.
    Violated,
    /// This object cannot be read by these rules.
    NotAudited,
}

impl Stateless {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "stateless (proven)",
            Self::Presumed => "stateless (presumed)",
            Self::Violated => "not stateless",
            Self::NotAudited => "not audited",
        }
    }
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The candidate is refused.
    Violation,
    /// Worth knowing; nobody is refused for it.
    Note,
}

/// Something that a rule names, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The rule: `cargo kopt audit --explain RULE`.
    pub rule: String,
    /// How much it weighs.
    pub severity: Severity,
    /// It is a place that outlives a call: what is kept there is a memory of past calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps: bool,
    /// What was found: the name of an import or a variable, an instruction.
    pub what: String,
    /// The function or variable it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// The section it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Bytes from the symbol's beginning; from the section's, where there is no symbol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The instruction, disassembled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// The line of the source, where debug data names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Further places in the same symbol.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

impl Finding {
    /// Where it is: `softmax+0x1c in .text (kernels/softmax.c:12)`.
    #[must_use]
    pub fn place(&self) -> String {
        let at = match (&self.symbol, self.offset) {
            (Some(symbol), Some(offset)) => format!("{symbol}+{offset:#x}"),
            (Some(symbol), None) => symbol.clone(),
            (None, Some(offset)) => format!("{offset:#x}"),
            (None, None) => String::new(),
        };
        let section = self.section.as_ref().map(|section| format!("in {section}"));
        let source = self.source.as_ref().map(|source| format!("({source})"));
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        let parts = [Some(at), section, source, more];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// In one line: `system-call: syscall at softmax+0x1c in .text`.
    #[must_use]
    pub fn line(&self) -> String {
        match self.place() {
            place if place.is_empty() => format!("{}: {}", self.rule, self.what),
            place => format!("{}: {} at {place}", self.rule, self.what),
        }
    }
}

/// Something that a rule would have named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Allowed {
    /// The rule.
    pub rule: String,
    /// What was found.
    pub what: String,
    /// Why it does not count.
    pub why: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}
