//! `verdict`: evidence judged again, from its raw data, and compared with what stands in it. Whoever has the file can
//! do this; nobody has to believe the verdict that came with it.

use std::io::Read as _;

use camino::Utf8Path;
use kopt_schema::evidence::{Estimate, Evidence, Verdict};
use kopt_schema::exit::Exit;
use kopt_schema::message::Message;

use super::compare::{decision, report};
use super::report::save;
use crate::campaign::folder::digest;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate;
use crate::page::{self, Comparisons, Exhibit};
use crate::referee::{evidence, record};
use crate::shell::{BAD, GOOD, Shell, indented};

/// Numbers may differ by this share of themselves: decimal digits and back, and another machine's logarithm.
const ROUNDING: f64 = 1e-9;

/// Judges the evidence in `file` again; `-` is standard input. With `page`, also writes it there for a browser.
///
/// # Errors
/// When it cannot be read or is no evidence, or the page cannot be written.
pub fn verdict(context: &Context, shell: &mut Shell, file: &Utf8Path, page: Option<&Utf8Path>) -> Result<Exit> {
    let shown = if file == "-" { "standard input".to_owned() } else { format!("`{file}`") };
    let bytes = bytes(context, file, &shown)?;
    let found = evidence::read(&shown, &bytes)?;
    let computed = gate::verdict(&found);
    let mut differences = differences(&found, &computed);
    differences.extend(record::contradictions(&found));
    shell.status("Judging", GOOD, &heading(&found));
    report::show(shell, &found, &computed);
    let agrees = differences.is_empty();
    match agrees {
        true => shell.status("Agrees", GOOD, "the recorded verdict is what the raw data gives"),
        false => {
            let listed: String = differences.iter().map(|one| indented(one, 4)).collect();
            shell.tell(&format!("{BAD}disagrees{BAD:#}: the evidence is not as it was written\n{listed}"));
        }
    }
    let exit = if agrees { computed.ruling.exit() } else { Exit::Integrity };
    let told = Evidence { verdict: computed, ..found };
    if let Some(page) = page {
        let heading = heading(&told);
        let digest = digest(&bytes);
        let exhibit = Exhibit {
            evidence: &told,
            file: file.as_str(),
            digest: Some(&digest),
            differences: &differences,
            ruled: true,
        };
        let exhibits = [(heading, exhibit)];
        let text = page::comparisons(&Comparisons { title: &told.kernel, lead: &[], exhibits: &exhibits });
        save(context, shell, &context.absolute(page), &text)?;
    }
    shell.message(&Message::Verdict(decision(&told, file.as_str(), Some(differences))))?;
    Ok(exit)
}

fn bytes(context: &Context, file: &Utf8Path, shown: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = match file.as_str() {
        "-" => std::io::stdin().lock().read_to_end(&mut text).map(drop),
        _ => std::fs::read(context.absolute(file)).map(|found| text = found),
    };
    read.map(|()| text).map_err(|error| {
        let wrong = Error::setup(format!("cannot read {shown}")).because(&error);
        wrong.hint("`compare`, `gate` and `verify` keep evidence in target/kopt/evidence, campaigns in .kopt/campaigns")
    })
}

/// `softmax-cpu: working tree against HEAD, 2026-11-15 05:01, on Some CPU`.
fn heading(evidence: &Evidence) -> String {
    let on = evidence.arrangement.as_ref().map_or(&evidence.machine.processor, |arrangement| &arrangement.device);
    let (candidate, incumbent) = (&evidence.candidate.name, &evidence.incumbent.name);
    format!("{}: {candidate} against {incumbent}, {}, on {on}", evidence.kernel, evidence.started)
}

/// Where the recorded verdict is not the one that the data gives.
fn differences(evidence: &Evidence, computed: &Verdict) -> Vec<String> {
    let recorded = &evidence.verdict;
    let mut list = List::default();
    list.words("ruling", recorded.ruling.name(), computed.ruling.name());
    list.words("direction", recorded.direction.name(), computed.direction.name());
    list.estimates("aggregate", recorded.aggregate.as_ref(), computed.aggregate.as_ref());
    list.estimates("control", recorded.control.as_ref(), computed.control.as_ref());
    list.numbers("smallest gain that could be shown", recorded.detectable, computed.detectable);
    list.numbers("launches", Some(recorded.launches as f64), Some(computed.launches as f64));
    list.numbers("false accepts", Some(recorded.false_accept), Some(computed.false_accept));
    let names =
        |verdict: &Verdict| verdict.shapes.iter().map(|shape| shape.shape.clone()).collect::<Vec<_>>().join(", ");
    list.words("shapes", &names(recorded), &names(computed));
    for (was, is) in recorded.shapes.iter().zip(&computed.shapes) {
        let of = |what: &str| format!("{}: {what}", is.shape);
        list.words(&of("direction"), was.direction.name(), is.direction.name());
        list.words(&of("core"), if was.core { "yes" } else { "no" }, if is.core { "yes" } else { "no" });
        list.estimates(&is.shape, Some(&was.estimate), Some(&is.estimate));
        list.numbers(&of("seconds of the incumbent"), Some(was.incumbent_s), Some(is.incumbent_s));
        list.numbers(&of("seconds of the candidate"), Some(was.candidate_s), Some(is.candidate_s));
    }
    // Another version may word its reasons otherwise.
    if evidence.tool == env!("CARGO_PKG_VERSION") {
        list.words("reasons", &recorded.reasons.join("; "), &computed.reasons.join("; "));
    }
    list.0
}

/// Differences as they are found.
#[derive(Debug, Default)]
struct List(Vec<String>);

/// A number of an estimate.
type Part = fn(&Estimate) -> f64;

impl List {
    fn words(&mut self, what: &str, recorded: &str, computed: &str) {
        if recorded != computed {
            self.0.push(format!("{what}: recorded `{recorded}`, computed `{computed}`"));
        }
    }

    fn numbers(&mut self, what: &str, recorded: Option<f64>, computed: Option<f64>) {
        let same = match (recorded, computed) {
            (Some(was), Some(is)) => (was - is).abs() <= ROUNDING * was.abs().max(is.abs()).max(ROUNDING),
            (None, None) => true,
            _ => false,
        };
        if !same {
            let told = |number: Option<f64>| number.map_or("nothing".to_owned(), |number| format!("{number}"));
            self.0.push(format!("{what}: recorded {}, computed {}", told(recorded), told(computed)));
        }
    }

    fn estimates(&mut self, what: &str, recorded: Option<&Estimate>, computed: Option<&Estimate>) {
        let parts: [(&str, Part); 6] = [
            ("gain", |one| one.gain),
            ("lower end", |one| one.low),
            ("upper end", |one| one.high),
            ("confidence", |one| one.confidence),
            ("sigma", |one| one.launch_sigma),
            ("launches", |one| one.launches as f64),
        ];
        for (part, of) in parts {
            self.numbers(&format!("{what}: {part}"), recorded.map(of), computed.map(of));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_no_difference_and_one_digit_is() {
        let mut list = List::default();
        list.numbers("a", Some(0.031_234_567_890_123_4), Some(0.031_234_567_890_123_5));
        list.numbers("b", Some(0.0), Some(1e-19));
        list.numbers("c", None, None);
        assert!(list.0.is_empty(), "{list:?}");
        list.numbers("d", Some(0.0312), Some(0.0313));
        list.numbers("e", Some(1.0), None);
        list.words("f", "ACCEPTED", "ROLLED BACK");
        assert_eq!(
            list.0,
            [
                "d: recorded 0.0312, computed 0.0313",
                "e: recorded 1, computed nothing",
                "f: recorded `ACCEPTED`, computed `ROLLED BACK`"
            ]
        );
    }
}
