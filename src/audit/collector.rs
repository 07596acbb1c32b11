//! Findings as they come, counted and sorted: one for each thing in each symbol, with its first place.

use kopt_schema::audit::{Allowed, Audit, Finding, Severity, Stateless};
use kopt_schema::manifest::Class;

use super::rules;

/// Where something is.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pub symbol: Option<String>,
    pub section: Option<String>,
    pub offset: Option<u64>,
    pub instruction: Option<String>,
    pub source: Option<String>,
}

impl Place {
    pub(super) fn section(name: &str) -> Self {
        Self { section: Some(name.to_owned()), ..Self::default() }
    }
}

/// Findings of one object.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    allow: &'a [String],
    findings: Vec<Finding>,
    allowed: Vec<Allowed>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(allow: &'a [String]) -> Self {
        Self { allow, findings: Vec::new(), allowed: Vec::new() }
    }

    /// Something that rule `id` names.
    pub(super) fn add(&mut self, id: &str, what: impl Into<String>, place: impl FnOnce() -> Place) {
        let (what, place) = (what.into(), place());
        if self.allow.iter().any(|allowed| allowed == id) {
            return self.allow(id, what, "the policy of the manifest allows it");
        }
        let same = |known: &&mut Finding| known.rule == id && known.what == what && known.symbol == place.symbol;
        if let Some(known) = self.findings.iter_mut().find(same) {
            known.more += 1;
            return;
        }
        self.findings.push(Finding {
            rule: id.to_owned(),
            severity: rules::find(id).map_or(Severity::Violation, |rule| rule.severity),
            keeps: rules::find(id).is_some_and(|rule| rule.keeps),
            what,
            symbol: place.symbol,
            section: place.section,
            offset: place.offset,
            instruction: place.instruction,
            source: place.source,
            more: 0,
        });
    }

    /// Something that a rule would name, and why it does not count.
    pub(super) fn allow(&mut self, id: &str, what: impl Into<String>, why: &str) {
        let allowed = Allowed { rule: id.to_owned(), what: what.into(), why: why.to_owned() };
        if !self.allowed.contains(&allowed) {
            self.allowed.push(allowed);
        }
    }

    /// The audit; `clean` is what an object without violations is.
    pub(super) fn finish(mut self, class: Class, clean: Stateless, scope: String) -> Audit {
        self.findings.sort_by_key(|finding| finding.severity);
        let violated = self.findings.first().is_some_and(|finding| finding.severity == Severity::Violation);
        let stateless = if violated { Stateless::Violated } else { clean };
        Audit { class, stateless, scope, findings: self.findings, allowed: self.allowed }
    }

    /// Whether anything that does not count was found.
    pub(super) fn has_allowed(&self) -> bool {
        !self.allowed.is_empty()
    }
}
