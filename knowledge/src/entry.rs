//! One entry: what it says, and how it is read.

mod validation;

pub use kopt_schema::campaign::{Bucket, Category};
use kopt_schema::diagnostic::{Diagnostic, dotted, path_at};
use kopt_schema::expression::{Expression, Scope};
use kopt_schema::manifest::{Backend, Language};
use kopt_schema::nearest;
use serde::Deserialize;

/// Whether an entry says "do" or "do not".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Measured faster, and it transfers.
    Technique,
    /// Measured slower or without effect, or faster only in a benchmark.
    AntiPattern,
}

/// What one would see before trying: a metric and the value that points here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// What is looked at.
    pub metric: String,
    /// What it shows.
    pub value: String,
}

/// Which kernels an entry is for. An empty list means any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applicability {
    /// Operators.
    pub ops: Vec<String>,
    /// Backends.
    pub backends: Vec<Backend>,
    /// Languages.
    pub languages: Vec<Language>,
    /// A condition over the sizes of a shape.
    pub when: Option<Expression>,
}

/// One measurement. It holds for its device, toolchain and shapes, and claims no more.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The device it was measured on.
    pub device: String,
    /// The compiler.
    pub toolchain: String,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The shapes that the gain is the geometric mean over.
    pub shapes: Vec<String>,
    /// `t_old / t_new - 1`: below zero it is a loss.
    pub gain: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Pairs of fresh processes behind the figures.
    pub launches: u32,
    /// The change that was measured.
    pub source: String,
}

/// A piece of knowledge.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The file's name without `.toml`.
    pub id: String,
    /// Do, or do not.
    pub kind: Kind,
    /// One line.
    pub title: String,
    /// The direction it belongs to.
    pub category: Category,
    /// What it keeps between calls.
    pub bucket: Bucket,
    /// In which situation it was found.
    pub context: String,
    /// What one would see before trying.
    pub signal: Signal,
    /// The generalization: what to do, or what to leave, and where it ends.
    pub takeaway: String,
    /// Which kernels it is for.
    pub applicability: Applicability,
    /// The measurements behind it; none for what needs no measurement to be refused.
    pub evidence: Vec<Evidence>,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: Kind,
    title: String,
    category: Category,
    bucket: Bucket,
    context: String,
    signal: Signal,
    takeaway: String,
    #[serde(default)]
    applicability: ApplicabilityTable,
    #[serde(default)]
    evidence: Vec<Evidence>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicabilityTable {
    #[serde(default)]
    ops: Vec<String>,
    #[serde(default)]
    backends: Vec<Backend>,
    #[serde(default)]
    languages: Vec<Language>,
    when: Option<String>,
}

/// A geometric mean.
fn mean_gain<'a>(evidence: impl Iterator<Item = &'a Evidence>) -> Option<f64> {
    let (mut logarithms, mut count) = (0.0, 0);
    for measured in evidence {
        logarithms += measured.gain.ln_1p();
        count += 1;
    }
    (count > 0).then(|| (logarithms / f64::from(count)).exp_m1())
}

impl Entry {
    /// Reads the entry in `file`, whose name gives the id.
    ///
    /// # Errors
    /// Everything that is wrong with it, each pointing into the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let table: Table = toml::from_str(text).map_err(|error| vec![not_an_entry(file, text, &error)])?;
        let name = file.rsplit('/').next().unwrap_or(file);
        let id = name.strip_suffix(".toml").unwrap_or(name).to_owned();
        let (entry, findings) = validation::validated(file, text, id, table);
        if findings.is_empty() { Ok(entry) } else { Err(findings) }
    }

    /// The gain over all measurements, as a geometric mean; none where nothing was measured.
    #[must_use]
    pub fn measured_gain(&self) -> Option<f64> {
        mean_gain(self.evidence.iter())
    }

    /// The gain on this device, if it was measured there; else over all measurements.
    #[must_use]
    pub fn gain_on(&self, device: &str) -> Option<f64> {
        mean_gain(self.evidence.iter().filter(|measured| measured.device == device)).or_else(|| self.measured_gain())
    }

    /// The least and the largest gain that devices have: what helps on one processor can cost another.
    #[must_use]
    pub fn range_of_gains(&self) -> Option<(f64, f64)> {
        let on = |device: &String| mean_gain(self.evidence.iter().filter(move |measured| measured.device == *device));
        let gains = || self.evidence.iter().filter_map(|measured| on(&measured.device));
        Some((gains().reduce(f64::min)?, gains().reduce(f64::max)?))
    }

    /// Whether the entry is for this kernel at the shape whose sizes `scope` gives.
    ///
    /// Sizes have other names in other operators. A condition that names one which the shape does not have decides
    /// nothing, and the entry applies: better read once too often than never.
    #[must_use]
    pub fn applies(&self, op: &str, backend: Backend, language: Language, scope: &dyn Scope) -> bool {
        let Applicability { ops, backends, languages, when } = &self.applicability;
        (ops.is_empty() || ops.iter().any(|known| known == op))
            && (backends.is_empty() || backends.contains(&backend))
            && (languages.is_empty() || languages.contains(&language))
            && when.as_ref().is_none_or(|when| when.condition(scope).unwrap_or(true))
    }
}

/// What serde says, as a place in the file with the nearest valid word.
fn not_an_entry(file: &str, text: &str, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let path = path_at(text, span.start);
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    let mut finding = Diagnostic::at(file, text, span, error.message().split(", expected").next().unwrap_or_default());
    finding.key = (!path.is_empty()).then(|| dotted(&path));
    if let (true, [found, valid @ ..]) = (error.message().starts_with("unknown "), quoted.as_slice()) {
        finding.hint = Some(match nearest(found, valid.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("valid: {}", valid.join(", ")),
        });
    }
    finding
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kopt_schema::expression::Value;

    use super::*;

    pub(super) const TECHNIQUE: &str = r#"
kind = "technique"
title = "Stream"
category = "data layout and movement"
bucket = "K1"
context = "A large output."
signal = { metric = "traffic", value = "a third is read to be overwritten" }
takeaway = "Write past the caches."

[applicability]
ops = ["softmax"]
backends = ["cpu"]
languages = ["c", "c++"]
when = "rows * cols >= 8192"

[[evidence]]
device = "a core"
toolchain = "gcc"
date = "2026-11-15"
shapes = ["64x1024"]
gain = 0.21
low = 0.20
high = 0.22
launches = 60
source = "x.patch"

[[evidence]]
device = "a core"
toolchain = "gcc"
date = "2026-11-15"
shapes = ["64x1024"]
gain = 0.0
low = -0.01
high = 0.01
launches = 60
source = "y.patch"
"#;

    fn scope(sizes: &[(&str, i64)]) -> BTreeMap<String, Value> {
        sizes.iter().map(|(name, size)| ((*name).to_owned(), Value::Int(*size))).collect()
    }

    #[test]
    fn the_file_name_is_the_id_and_gains_combine_as_logarithms() {
        let entry = Entry::parse("entries/stream-output.toml", TECHNIQUE).unwrap();
        assert_eq!(entry.id, "stream-output");
        assert_eq!(entry.category.to_string(), "data layout and movement");
        assert!((entry.measured_gain().unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn an_entry_applies_where_operator_backend_language_and_sizes_fit() {
        let entry = Entry::parse("stream.toml", TECHNIQUE).unwrap();
        let (large, small) = (scope(&[("rows", 64), ("cols", 1024)]), scope(&[("rows", 1), ("cols", 1024)]));
        assert!(entry.applies("softmax", Backend::Cpu, Language::Cpp, &large));
        assert!(!entry.applies("softmax", Backend::Cpu, Language::C, &small));
        assert!(!entry.applies("rmsnorm", Backend::Cpu, Language::C, &large));
        assert!(!entry.applies("softmax", Backend::Cuda, Language::Cuda, &large));
    }

    #[test]
    fn a_condition_over_sizes_that_the_shape_does_not_have_decides_nothing() {
        let entry = Entry::parse("stream.toml", TECHNIQUE).unwrap();
        assert!(entry.applies("softmax", Backend::Cpu, Language::C, &scope(&[("m", 1), ("n", 1)])));
    }

    #[test]
    fn a_misspelt_key_or_word_is_refused_with_the_nearest_one() {
        for (right, wrong, key, hint) in [
            ("takeaway =", "takeawy =", "takeawy", "did you mean `takeaway`?"),
            ("\"technique\"", "\"technik\"", "kind", "did you mean `technique`?"),
            ("\"K1\"", "\"K11\"", "bucket", "did you mean `K1`?"),
            ("[\"cpu\"]", "[\"cppu\"]", "applicability.backends[0]", "did you mean `cpu`?"),
            ("device =", "devise =", "evidence", "did you mean `device`?"),
        ] {
            let findings = Entry::parse("stream.toml", &TECHNIQUE.replacen(right, wrong, 1)).unwrap_err();
            assert_eq!(findings[0].key.as_deref(), Some(key), "{}", findings[0]);
            assert_eq!(findings[0].hint.as_deref(), Some(hint), "{}", findings[0]);
            assert!(findings[0].position.is_some());
        }
    }
}
