//! A tip added to what is known. The file is read, changed and moved into place by one writer at a time; two campaigns
//! that learn at once both leave what they learned.

use std::fs::File;

use camino::Utf8Path;
use kopt_knowledge::Kind;
use kopt_schema::exit::Exit;

use super::file::{self, Section};
use super::tip::{Tip, TipEvidence};
use super::{FILE, LOCK, text_of};
use crate::error::{Error, Result};
use crate::records::{numbers, text};
use crate::replacement::Replacement;

/// What stands at the top of a new file.
const PREAMBLE: &str = "\
# What was learned here

Each `##` heading is a tip. Edit the texts as you like; campaigns add tips and lines of evidence, and delete nothing.
";

/// What became of a tip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// Nobody knew.
    Added,
    /// It was known, and was seen once more.
    Observed,
    /// It was known otherwise: its conditions have changed, or it is an anti-pattern now.
    Contradicted,
}

/// Adds `tip` to those in `folder`, which is made where it is missing. What a round has taught is learned once, however
/// often it is told.
///
/// # Errors
/// When the file cannot be understood or written, or the tip has no title.
pub fn learn(folder: &Utf8Path, tip: &Tip) -> Result<Learnt> {
    let key = Tip::key(&tip.title);
    if key.is_empty() {
        return Err(Error::new(Exit::Internal, "a tip without a title cannot be learned"));
    }
    let path = folder.join(FILE);
    let failed = |error: &dyn std::error::Error| {
        Error::new(Exit::Output, format!("cannot write the tips to `{path}`")).because(error)
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let lock = File::create(folder.join(LOCK)).map_err(|error| failed(&error))?;
    // Held until this function ends.
    lock.lock().map_err(|error| failed(&error))?;

    let before = text_of(&path)?;
    let sections = file::sections(&path, &before)?;
    let tip = permitted(tip);
    let (learnt, after) = match sections.iter().find(|section| Tip::key(&section.tip.title) == key) {
        Some(section) if is_known(section, &tip) => return Ok(Learnt::Observed),
        Some(section) => changed(&before, section, &tip),
        None => (Learnt::Added, with_section(&before, &tip)),
    };
    // An unclosed block of code would swallow what was added.
    let count = file::sections(&path, &after)?.iter().map(|section| section.tip.evidence.len()).sum::<usize>();
    if count != sections.iter().map(|section| section.tip.evidence.len()).sum::<usize>() + tip.evidence.len() {
        return Err(Error::setup(format!("cannot add to the tips in `{path}`: a block of code in it is not closed"))
            .hint("add the missing ``` line"));
    }
    Replacement::alike(&path).write(after.as_bytes()).map_err(|error| failed(&error))?;
    Ok(learnt)
}

/// What only a benchmark rewards is never recommended.
fn permitted(tip: &Tip) -> Tip {
    if tip.kind == Kind::AntiPattern || !tip.is_forbidden() {
        return tip.clone();
    }
    let why = match (tip.uniform_only, tip.do_not_retry) {
        (true, _) => "it gains only where rows are spread evenly",
        (false, true) => "it broke the rules",
        (false, false) => "it remembers past calls",
    };
    let takeaway = format!("Do not retry: {why}, and that is no gain outside of a benchmark. {}", tip.takeaway);
    Tip { kind: Kind::AntiPattern, takeaway: takeaway.trim_end().to_owned(), ..tip.clone() }
}

/// Whether every measurement of `tip` stands there already, as after a campaign that was killed while it learned.
fn is_known(section: &Section, tip: &Tip) -> bool {
    let known = &section.tip.evidence;
    let same =
        |a: &TipEvidence, b: &TipEvidence| a.round == b.round && text::line(&a.campaign) == text::line(&b.campaign);
    !tip.evidence.is_empty() && tip.evidence.iter().all(|one| known.iter().any(|other| same(one, other)))
}

/// What a finding does to a tip of the same title.
enum Effect {
    /// It agrees.
    Agrees,
    /// The tip holds under narrower conditions.
    Narrows(String),
    /// The tip is an anti-pattern from now on.
    Turns(String),
}

fn effect(old: &Tip, new: &Tip) -> Effect {
    let shapes = |evidence: &[TipEvidence]| -> Vec<String> {
        evidence.iter().flat_map(|one| one.shapes.iter().cloned()).collect()
    };
    match (old.kind, new.kind) {
        (Kind::AntiPattern, Kind::Technique) if new.evidence.iter().any(TipEvidence::is_gain) => {
            Effect::Narrows(format!("It helped all the same {}.", seen(new)))
        }
        (Kind::AntiPattern, _) => Effect::Agrees,
        (Kind::Technique, _) => {
            let lost = new.evidence.iter().any(TipEvidence::is_loss);
            let helped: Vec<TipEvidence> = old.evidence.iter().filter(|one| one.is_gain()).cloned().collect();
            let (helped, now) = (shapes(&helped), shapes(&new.evidence));
            let same_shapes = helped.is_empty() || now.iter().any(|shape| helped.contains(shape));
            match (new.kind, lost) {
                (Kind::AntiPattern, _) if new.is_forbidden() => Effect::Turns(format!("do not retry; {}", seen(new))),
                (_, true) if same_shapes => Effect::Turns(format!("slower {}", seen(new))),
                (_, true) | (Kind::AntiPattern, _) => Effect::Narrows(format!("It did not help {}.", seen(new))),
                (Kind::Technique, false) => Effect::Agrees,
            }
        }
    }
}

/// `on 64x1024 (2026-11-15, -5.0 %, incorrect: …)`.
fn seen(tip: &Tip) -> String {
    let one = |evidence: &TipEvidence| {
        let shapes = if evidence.shapes.is_empty() { "no shape".to_owned() } else { evidence.shapes.join(", ") };
        let mut said = vec![evidence.date.clone()];
        said.extend(evidence.gain.map(numbers::gain));
        said.extend(evidence.finding.clone());
        format!("on {shapes} ({})", said.join(", "))
    };
    tip.evidence.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The text with what `tip` adds to the tip in `section`; nothing is taken away but the word of its kind.
fn changed(text: &str, section: &Section, tip: &Tip) -> (Learnt, String) {
    // Ends of lines are a person's choice too: only `\n` is looked at.
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let evidence = tip.evidence.iter().map(file::evidence_line);
    let (learnt, added) = match effect(&section.tip, tip) {
        Effect::Agrees => (Learnt::Observed, Vec::new()),
        Effect::Narrows(how) => (Learnt::Contradicted, vec![file::labelled("Applicability", &how)]),
        Effect::Turns(why) => {
            lines[section.kind_line] = file::kind_line(Kind::AntiPattern);
            let was = format!("was a {} until it was found: {why}", file::kind_name(section.tip.kind));
            let mut added = vec![file::labelled("History", &was)];
            // A later line of the same label says what holds.
            added.extend(file::marks(tip).into_iter().filter(|line| !file::marks(&section.tip).contains(line)));
            (Learnt::Contradicted, added)
        }
    };
    lines.splice(section.end..section.end, added.into_iter().chain(evidence));
    (learnt, format!("{}\n", lines.join("\n").trim_end_matches('\n')))
}

fn with_section(text: &str, tip: &Tip) -> String {
    let before = if text.trim().is_empty() { PREAMBLE } else { text };
    format!("{}\n\n{}\n", before.trim_end(), file::written(tip).join("\n"))
}
