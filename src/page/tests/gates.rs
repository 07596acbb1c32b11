//! Pages of gates.

use std::collections::BTreeMap;

use kopt_schema::message::GateOutcome;

use super::{HOSTILE, made, strict};
use crate::gate;
use crate::page::{Exhibit, GatePage};
use crate::records::gate::GateReport;
use crate::records::gate::tests::{kernel, result, scope};

#[test]
fn what_became_of_each_kernel_and_why_it_was_reached_is_shown() {
    let (mut slower, same) = (kernel("a", GateOutcome::Regressed), kernel("b", GateOutcome::Same));
    slower.judging = vec!["tests/correctness.rs".to_owned()];
    slower.audit = vec!["the base has this too: malloc".to_owned()];
    let mut evidence = made::evidence(1.1, "");
    evidence.terms = gate::gate_terms(0.02).unwrap();
    evidence.verdict = gate::verdict(&evidence);
    let exhibit = Exhibit { evidence: &evidence, file: "a.json", digest: None, differences: &[], ruled: false };
    let exhibits = BTreeMap::from([("a", exhibit)]);
    let (scope, result) = (scope(), result("fail"));
    let kernels = [slower, same];
    let report = GateReport { scope: &scope, kernels: &kernels, result: &result };
    let page = strict::read(&crate::page::gate(&GatePage { report, exhibits: &exhibits }));
    for told in [
        "REGRESSED",
        "same code",
        "edits what judges it",
        "tests/correctness.rs",
        "The base has this too: malloc",
        "kernels/a.c",
        "cargo kopt verdict a.json",
        "Dashed: what fails where it is shown, -2.0 %",
        "a slowdown beyond 2 % fails",
    ] {
        assert!(page.text.contains(told), "`{told}`:\n{}", page.text);
    }
    assert_eq!((page.count("section"), page.count("svg")), (2, 4));
    assert!(!page.text.contains("ROLLED BACK"), "a gate has its own words");
}

#[test]
fn a_gate_without_kernels_and_one_of_strangers_words_are_pages() {
    let (mut scope, mut result) = (scope(), result("warn"));
    let none = BTreeMap::new();
    let report = GateReport { scope: &scope, kernels: &[], result: &result };
    assert_eq!(strict::read(&crate::page::gate(&GatePage { report, exhibits: &none })).count("section"), 0);
    for words in HOSTILE {
        let mut hostile = kernel(words, GateOutcome::Allowed);
        (hostile.text, hostile.allowed) = (words.to_owned(), Some(words.to_owned()));
        hostile.notes = vec![words.to_owned()];
        scope.affected[0].kernel = words.to_owned();
        (scope.notes, result.text) = (vec![words.to_owned()], words.to_owned());
        let kernels = [hostile];
        let report = GateReport { scope: &scope, kernels: &kernels, result: &result };
        strict::read(&crate::page::gate(&GatePage { report, exhibits: &none }));
    }
}
