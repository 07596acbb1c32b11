//! Everything known about a kernel, as one list: the catalogue that comes with the tool, and what was learned here.

use std::cmp::Ordering;

use kopt_knowledge::{Entry, Kind, select};
use kopt_schema::manifest::{Backend, Language, Shape};

use super::tip::Tip;

/// Where something is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Learned in this repository, on this device.
    Own,
    /// The catalogue.
    Catalogue,
}

/// Something known.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTip {
    /// The catalogue's id, or the title of an own tip.
    pub id: String,
    /// Where it is from.
    pub origin: Origin,
    /// One line.
    pub title: String,
    /// What to do, or to leave; with the conditions, for own tips.
    pub takeaway: String,
    /// Do, or do not.
    pub kind: Kind,
    /// The gain it had where it was measured; none where nothing was.
    pub gain: Option<f64>,
    /// What it was measured on: paths of patches, among others.
    pub sources: Vec<String>,
}

/// What applies to a kernel at any of its shapes on a device, and `own`, the tips of its folder: techniques, the largest gain
/// first; then anti-patterns, the largest loss first and those without figures last.
#[must_use]
pub fn known(
    op: &str,
    backend: Backend,
    language: Language,
    shapes: &[Shape],
    device: &str,
    own: &[Tip],
) -> Vec<KnownTip> {
    let mut entries: Vec<&'static Entry> = Vec::new();
    // Without a shape no condition decides anything, and everything for the operator applies.
    let unknown = Shape { name: String::new(), parameters: Vec::new() };
    let shapes = if shapes.is_empty() { std::slice::from_ref(&unknown) } else { shapes };
    for shape in shapes {
        for entry in select(op, backend, language, &shape.scope()) {
            if entries.iter().all(|known| known.id != entry.id) {
                entries.push(entry);
            }
        }
    }
    let mut all: Vec<KnownTip> =
        own.iter().map(of_tip).chain(entries.into_iter().map(|entry| of_entry(entry, device))).collect();
    all.sort_by(usefulness);
    all
}

fn of_tip(tip: &Tip) -> KnownTip {
    KnownTip {
        id: tip.title.clone(),
        origin: Origin::Own,
        title: tip.title.clone(),
        takeaway: format!("{} {}", tip.takeaway, tip.applicability).trim().to_owned(),
        // A file is edited by people: what may not be recommended is not, whatever it says.
        kind: if tip.is_forbidden() { Kind::AntiPattern } else { tip.kind },
        gain: tip.measured_gain(),
        sources: Vec::new(),
    }
}

fn of_entry(entry: &Entry, device: &str) -> KnownTip {
    let gain = entry.gain_on(device);
    // What helps elsewhere can cost here, and then it is nothing to do here.
    let costs = gain.is_some_and(|gain| gain < 0.0);
    KnownTip {
        id: entry.id.clone(),
        origin: Origin::Catalogue,
        title: entry.title.clone(),
        takeaway: entry.takeaway.clone(),
        kind: if costs { Kind::AntiPattern } else { entry.kind },
        gain,
        sources: entry.evidence.iter().map(|evidence| evidence.source.clone()).collect(),
    }
}

fn usefulness(a: &KnownTip, b: &KnownTip) -> Ordering {
    let is_anti_pattern = |tip: &KnownTip| tip.kind == Kind::AntiPattern;
    let effect = |tip: &KnownTip| tip.gain.map_or(0.0, |gain| gain.ln_1p().abs());
    (is_anti_pattern(a).cmp(&is_anti_pattern(b)))
        .then(a.gain.is_none().cmp(&b.gain.is_none()))
        .then(effect(b).total_cmp(&effect(a)))
        .then(a.origin.cmp(&b.origin))
        .then(a.id.cmp(&b.id))
}
