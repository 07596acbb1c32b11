//! The audit of the change: what the head's object can remember and reach, beside what the base's can. Only what the change
//! brings in fails it: whoever opens a pull request answers for that, and not for what stands already, which is told.

use kopt_schema::audit::Audit;

use super::scope::Side;
use crate::audit::{rules, words};

/// What reading the head's object has found, a line each.
#[derive(Debug, Default)]
pub struct Reading {
    /// Violations that the base's does not have: each of them fails the gate.
    pub introduced: Vec<String>,
    /// What else a reader should know.
    pub told: Vec<String>,
}

/// Reads the audit of the head's object beside the base's, if there is one to be read.
pub fn of_change(base: Option<&Audit>, head: Option<&Audit>) -> Reading {
    let Some(head) = head else { return Reading::default() };
    let introduced: Vec<_> = head.beyond(base).collect();
    let inherited = head.violations().filter(|finding| !introduced.contains(finding));
    let mut told: Vec<String> =
        inherited.map(|finding| format!("the base has this too: {}", words::reason(finding))).collect();
    if base.is_none() {
        told.extend(head.allowed.iter().map(|one| format!("not held against it: {} ({})", one.what, one.why)));
    }
    Reading { introduced: introduced.into_iter().map(words::reason).collect(), told }
}

/// What the audit lets the head's version of a kernel do: what the base's manifest allows. No change allows itself anything,
/// but for a kernel that is new, whose manifest is all there is.
pub fn policy(base: &Side, before: Option<&str>, own: &[String]) -> Vec<String> {
    let Some(name) = before else { return own.to_owned() };
    let Some(Ok(kernel)) = base.kernels.get(name) else { return Vec::new() };
    // The base may be older than this tool and name what is no rule any more: that allows nothing.
    kernel.manifest.allow.iter().filter(|id| rules::find(id).is_some()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use kopt_schema::audit::{Allowed, Finding, Severity, Stateless};
    use kopt_schema::manifest::Class;

    use super::*;

    fn audit(found: &[&str], allowed: &[&str]) -> Audit {
        let finding = |what: &&str| Finding {
            rule: "import-memory".to_owned(),
            severity: Severity::Violation,
            keeps: true,
            what: (*what).to_owned(),
            symbol: None,
            section: None,
            offset: None,
            instruction: None,
            source: None,
            more: 0,
        };
        let allow = |what: &&str| Allowed {
            rule: "import-memory".to_owned(),
            what: (*what).to_owned(),
            why: "the policy of the manifest allows it".to_owned(),
        };
        Audit {
            class: Class::Native,
            stateless: Stateless::Violated,
            scope: String::new(),
            findings: found.iter().map(finding).collect(),
            allowed: allowed.iter().map(allow).collect(),
        }
    }

    #[test]
    fn only_what_the_base_has_not_is_held_against_the_change() {
        let (malloc, both) = (audit(&["malloc"], &[]), audit(&["malloc", "free"], &[]));
        let read = of_change(Some(&malloc), Some(&both));
        assert_eq!((read.introduced.len(), read.told.len()), (1, 1));
        assert!(read.introduced[0].contains("free") && read.introduced[0].contains("--explain import-memory"));
        assert!(read.told[0].starts_with("the base has this too: ") && read.told[0].contains("malloc"));
        assert!(of_change(Some(&both), Some(&malloc)).introduced.is_empty());
        assert_eq!(of_change(None, Some(&both)).introduced.len(), 2);
        assert!(of_change(Some(&both), None).introduced.is_empty());
    }

    #[test]
    fn what_a_new_kernel_allows_itself_is_told() {
        let own = audit(&[], &["malloc"]);
        assert_eq!(of_change(Some(&own), Some(&own)).told.len(), 0);
        let told = of_change(None, Some(&own)).told;
        assert_eq!(told, ["not held against it: malloc (the policy of the manifest allows it)"]);
    }
}
