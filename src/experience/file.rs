//! The file of tips. A tip is a `##` heading with lines `- Label: text` under it and one line
//! `- evidence = { … }`, an inline table of TOML, for each measurement. Anything else in it is a person's, and stays.

use camino::Utf8Path;
use kopt_knowledge::Kind;
use kopt_schema::campaign::Bucket;
use kopt_schema::nearest;
use serde::Deserialize;

use super::tip::{Tip, TipEvidence};
use crate::error::{Error, Result};
use crate::records::text;

/// Labels that are understood, as they are written.
const LABELS: [&str; 9] =
    ["Kind", "Bucket", "Uniform only", "Do not retry", "Context", "Signal", "Takeaway", "Applicability", "History"];

/// What begins a line of evidence.
const EVIDENCE: &str = "evidence";

/// A tip, and where it stands.
#[derive(Debug)]
pub struct Section {
    /// What it says.
    pub tip: Tip,
    /// The line that says its kind.
    pub kind_line: usize,
    /// Where a line can be added to it.
    pub end: usize,
}

/// A tip while it is read.
struct Draft {
    heading: usize,
    tip: Tip,
    kind_line: Option<usize>,
    last: usize,
    /// The label that an indented line goes on with.
    open: Option<&'static str>,
}

#[derive(Deserialize)]
struct Line {
    evidence: TipEvidence,
}

/// Every tip of `text`, which `path` holds.
///
/// # Errors
/// The first line that cannot be understood.
pub fn sections(path: &Utf8Path, text: &str) -> Result<Vec<Section>> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= is_fence;
        if let Some(title) = line.strip_prefix("## ").filter(|_| !fenced) {
            drafts.push(Draft::new(at, unescaped(title.trim())));
        } else if let Some(draft) = drafts.last_mut() {
            if !line.trim().is_empty() {
                draft.last = at;
            }
            if fenced || is_fence {
                draft.open = None;
            } else {
                draft.take(at, line).map_err(|wrong| wrong_line(path, at, &wrong))?;
            }
        }
    }
    drafts.into_iter().map(|draft| draft.section(path)).collect()
}

impl Draft {
    fn new(heading: usize, title: String) -> Self {
        let tip = Tip {
            title,
            kind: Kind::Technique,
            bucket: None,
            uniform_only: false,
            do_not_retry: false,
            context: String::new(),
            signal: String::new(),
            takeaway: String::new(),
            applicability: String::new(),
            evidence: Vec::new(),
            history: Vec::new(),
        };
        Self { heading, tip, kind_line: None, last: heading, open: None }
    }

    fn take(&mut self, at: usize, line: &str) -> std::result::Result<(), String> {
        if let (Some(label), true) = (self.open, line.starts_with([' ', '\t']) && !line.trim().is_empty()) {
            return self.set(at, label, line.trim());
        }
        self.open = None;
        let Some(item) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).map(str::trim) else {
            return Ok(());
        };
        if item.strip_prefix(EVIDENCE).is_some_and(|rest| rest.trim_start().starts_with('=')) {
            let read = toml::from_str::<Line>(item).map_err(|error| error.message().to_owned())?;
            self.tip.evidence.push(read.evidence);
            return Ok(());
        }
        let Some((said, value)) = item.split_once(':') else { return Ok(()) };
        let said = said.trim_matches(['*', '_', ' ']);
        // A label nobody knows is a person's note.
        let Some(label) = LABELS.into_iter().find(|label| label.eq_ignore_ascii_case(said)) else { return Ok(()) };
        self.set(at, label, value.trim_start_matches('*').trim())?;
        self.open = Some(label);
        Ok(())
    }

    fn set(&mut self, at: usize, label: &str, value: &str) -> std::result::Result<(), String> {
        let value = unescaped(value);
        let tip = &mut self.tip;
        match label {
            "Kind" => {
                tip.kind = kind(&value)?;
                self.kind_line = Some(at);
            }
            "Bucket" => tip.bucket = Some(bucket(&value)?),
            "Uniform only" => tip.uniform_only = !value.eq_ignore_ascii_case("no"),
            "Do not retry" => tip.do_not_retry = !value.eq_ignore_ascii_case("no"),
            "History" => tip.history.push(value),
            "Context" => join(&mut tip.context, &value),
            "Signal" => join(&mut tip.signal, &value),
            "Takeaway" => join(&mut tip.takeaway, &value),
            _ => join(&mut tip.applicability, &value),
        }
        Ok(())
    }

    fn section(self, path: &Utf8Path) -> Result<Section> {
        let Some(kind_line) = self.kind_line else {
            let wrong = format!("`{}` does not say what kind it is", text::line(&self.tip.title));
            return Err(wrong_line(path, self.heading, &wrong)
                .hint("add a line `- Kind: technique` or `- Kind: anti-pattern` under it"));
        };
        Ok(Section { tip: self.tip, kind_line, end: self.last + 1 })
    }
}

/// The lines of a tip.
pub fn written(tip: &Tip) -> Vec<String> {
    let mut lines = vec![format!("## {}", text::inline(&tip.title)), String::new(), kind_line(tip.kind)];
    lines.extend(marks(tip));
    let prose = [
        ("Context", &tip.context),
        ("Signal", &tip.signal),
        ("Takeaway", &tip.takeaway),
        ("Applicability", &tip.applicability),
    ];
    lines.extend(prose.iter().filter(|(_, said)| !said.trim().is_empty()).map(|(label, said)| labelled(label, said)));
    lines.extend(tip.history.iter().map(|said| labelled("History", said)));
    lines.extend(tip.evidence.iter().map(evidence_line));
    lines
}

/// The lines that say what a tip keeps and whether it may be recommended.
pub fn marks(tip: &Tip) -> Vec<String> {
    let mut lines: Vec<String> = tip.bucket.iter().map(|bucket| format!("- Bucket: {}", bucket.name())).collect();
    lines.extend(tip.uniform_only.then(|| "- Uniform only: yes".to_owned()));
    lines.extend(tip.do_not_retry.then(|| "- Do not retry: yes".to_owned()));
    lines
}

/// `- Kind: technique`.
pub fn kind_line(kind: Kind) -> String {
    format!("- Kind: {}", kind_name(kind))
}

/// As files name it.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Technique => "technique",
        Kind::AntiPattern => "anti-pattern",
    }
}

/// `- Applicability: softmax`.
pub fn labelled(label: &str, said: &str) -> String {
    format!("- {label}: {}", text::inline(said))
}

/// `- evidence = { … }`, on one line whatever it holds.
pub fn evidence_line(evidence: &TipEvidence) -> String {
    let finite =
        |number: Option<f64>| number.filter(|number| number.is_finite()).map(|number| (number * 1e6).round() / 1e6);
    let clean = TipEvidence {
        date: text::line(&evidence.date),
        device: text::line(&evidence.device),
        toolchain: text::line(&evidence.toolchain),
        shapes: evidence.shapes.iter().map(|shape| text::line(shape)).collect(),
        gain: finite(evidence.gain),
        low: finite(evidence.low),
        high: finite(evidence.high),
        observations: evidence.observations,
        campaign: text::line(&evidence.campaign),
        round: evidence.round,
        commit: evidence.commit.as_deref().map(text::line),
        finding: evidence.finding.as_deref().map(text::line),
    };
    // Strings, numbers and a list of strings: there is nothing in it that TOML cannot hold.
    let table = toml::Value::try_from(&clean).map(|value| value.to_string()).unwrap_or_default();
    format!("- {EVIDENCE} = {table}")
}

fn kind(said: &str) -> std::result::Result<Kind, String> {
    match Tip::key(said).as_str() {
        "technique" => Ok(Kind::Technique),
        "anti pattern" | "antipattern" => Ok(Kind::AntiPattern),
        _ => Err(format!("`{}` is no kind: `technique` or `anti-pattern`", text::line(said))),
    }
}

fn bucket(said: &str) -> std::result::Result<Bucket, String> {
    let names = Bucket::ALL.map(Bucket::name);
    Bucket::ALL.into_iter().find(|bucket| bucket.name().eq_ignore_ascii_case(said)).ok_or_else(|| {
        let near = nearest(said, names).map_or_else(|| names.join(", "), |near| format!("did you mean {near}?"));
        format!("`{}` is no bucket: {near}", text::line(said))
    })
}

fn join(field: &mut String, more: &str) {
    if !field.is_empty() && !more.is_empty() {
        field.push(' ');
    }
    field.push_str(more);
}

/// Markdown's escapes taken back.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match letters.peek() {
            Some(next) if c == '\\' && next.is_ascii_punctuation() => plain.extend(letters.next()),
            _ => plain.push(c),
        }
    }
    plain
}

fn wrong_line(path: &Utf8Path, at: usize, wrong: &str) -> Error {
    Error::setup(format!("{path}, line {}: {wrong}", at + 1)).hint("mend the line, or delete it")
}
