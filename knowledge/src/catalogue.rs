//! All entries, and those that apply to a kernel.

use std::cmp::Ordering;
use std::sync::LazyLock;

use kopt_schema::expression::Scope;
use kopt_schema::manifest::{Backend, Language};

use crate::entry::{Entry, Kind};

/// Ids to the files of those names, with their texts.
macro_rules! embedded {
    ($($id:literal),* $(,)?) => {
        &[$((concat!("knowledge/entries/", $id, ".toml"), include_str!(concat!("../entries/", $id, ".toml")))),*]
    };
}

/// Every file of `entries`, in the order of their names. A test compares the list with the folder.
const EMBEDDED: &[(&str, &str)] = embedded![
    "activation-cache",
    "blocks-of-panels",
    "clusters-for-long-rows",
    "column-walk-for-sums",
    "few-rows-path-for-many-rows",
    "few-rows-path",
    "finer-last-round",
    "float4-accesses",
    "gradients-from-one-read",
    "gradients-of-few-rows-side-by-side",
    "hardware-exp2-and-reciprocal",
    "independent-accumulators",
    "multiply-by-inverse",
    "next-row-reduced-ahead",
    "one-exchange",
    "one-row-buffer",
    "online-softmax-on-cpu",
    "output-cache-by-pointer",
    "packed-panels",
    "persistent-row-blocks",
    "pinned-cache",
    "prefetch-next-row",
    "reads-leave-last",
    "register-tile",
    "rows-in-registers",
    "rows-side-by-side",
    "running-maximum-for-short-rows",
    "slices-of-rows",
    "spare-warps-write",
    "streaming-stores",
    "tails-of-listed-shapes",
    "team-matches-row",
    "tensor-cores-for-any-alignment",
    "tidying-for-the-compiler",
    "tile-beyond-registers",
    "tile-that-fills-registers",
    "tiles-by-tensor-maps",
    "uniform-only-groups",
    "vector-polynomial-exp",
    "warp-shuffle-reduction",
    "wide-blocks-for-long-rows",
    "work-in-first-call",
    "write-behind",
];

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let entry = |(file, text): &(&str, &str)| {
        // Cannot fail in a build that passed its tests: `every_entry_is_valid` reads the same bytes.
        Entry::parse(file, text).unwrap_or_else(|findings| panic!("{}", findings[0]))
    };
    EMBEDDED.iter().map(entry).collect()
});

/// Every entry, in the order of their file names.
#[must_use]
pub fn all() -> &'static [Entry] {
    &ENTRIES
}

/// The entry of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.id == id)
}

/// The entries that apply to a kernel at the shape whose sizes `scope` gives: techniques, the largest measured gain
/// first; then anti-patterns, the largest measured loss first and those that need no figures last.
#[must_use]
pub fn select(op: &str, backend: Backend, language: Language, scope: &dyn Scope) -> Vec<&'static Entry> {
    let mut chosen: Vec<_> = all().iter().filter(|entry| entry.applies(op, backend, language, scope)).collect();
    chosen.sort_by(|a, b| usefulness(a, b));
    chosen
}

fn usefulness(a: &Entry, b: &Entry) -> Ordering {
    let is_anti_pattern = |entry: &Entry| entry.kind == Kind::AntiPattern;
    let effect = |entry: &Entry| entry.measured_gain().map_or(0.0, |gain| gain.ln_1p().abs());
    let unmeasured = |entry: &Entry| entry.evidence.is_empty();
    (is_anti_pattern(a).cmp(&is_anti_pattern(b)))
        .then(unmeasured(a).cmp(&unmeasured(b)))
        .then(effect(b).total_cmp(&effect(a)))
        .then(a.id.cmp(&b.id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use kopt_schema::expression::Value;
    use kopt_schema::operator;
    use kopt_schema::queue::{PatchHeader, Truth, TruthFile};

    use super::*;
    use crate::entry::{Category, Evidence};

    fn folder() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    fn scope(sizes: &[(&str, i64)]) -> BTreeMap<String, Value> {
        sizes.iter().map(|(name, size)| ((*name).to_owned(), Value::Int(*size))).collect()
    }

    fn ids(entries: &[&Entry], kind: Kind) -> Vec<&'static str> {
        let of_kind = entries.iter().filter(|entry| entry.kind == kind);
        of_kind.filter_map(|entry| find(&entry.id)).map(|entry| entry.id.as_str()).collect()
    }

    /// Evidence measured on a patch of an example: the crate's name and the patch's file name.
    fn patch_of(evidence: &Evidence) -> Option<(&str, &str)> {
        evidence.source.strip_prefix("example-kernels/")?.split_once("/patches/")
    }

    #[test]
    fn every_entry_is_valid() {
        for (file, text) in EMBEDDED {
            if let Err(findings) = Entry::parse(file, text) {
                panic!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let mut files: Vec<String> = fs::read_dir(folder().join("entries"))
            .unwrap()
            .map(|entry| format!("knowledge/entries/{}", entry.unwrap().file_name().to_str().unwrap()))
            .collect();
        files.sort();
        assert_eq!(EMBEDDED.iter().map(|(file, _)| *file).collect::<Vec<_>>(), files);
    }

    #[test]
    fn operators_are_standard_ones() {
        for entry in all() {
            for op in &entry.applicability.ops {
                assert!(operator::standard(op).is_some(), "{}: {op}", entry.id);
            }
        }
    }

    #[test]
    fn conditions_name_parameters_of_a_standard_operator() {
        for entry in all() {
            let ops = operator::STANDARD.iter().filter(|operator| {
                let ops = &entry.applicability.ops;
                ops.is_empty() || ops.iter().any(|op| op == operator.name)
            });
            for name in entry.applicability.when.iter().flat_map(|when| when.names()) {
                let known = |operator: &operator::StandardOperator| operator.parameters.iter().any(|p| p.name == name);
                assert!(ops.clone().any(known), "{}: {name}", entry.id);
            }
        }
    }

    /// Where a figure is copied from a queue of the examples, it is that queue's figure on that machine.
    #[test]
    fn evidence_is_what_the_example_queues_measured() {
        let root = folder().parent().unwrap().join("example-kernels");
        let mut compared = 0;
        for entry in all() {
            for evidence in &entry.evidence {
                let Some((package, patch)) = patch_of(evidence) else { continue };
                let at = format!("{}: {}", entry.id, evidence.source);
                let text = fs::read_to_string(root.join(package).join("patches").join(patch)).expect(&at);
                let wanted: &[Truth] = match entry.kind {
                    Kind::Technique => &[Truth::Helps],
                    Kind::AntiPattern => &[Truth::Slower, Truth::NoOp],
                };
                assert!(wanted.contains(&PatchHeader::parse(&text).unwrap().truth.unwrap()), "{at}");
                let patches = root.join(package).join("patches");
                // A queue for a device that is not here may have none yet.
                let Ok(text) = fs::read_to_string(patches.join("truth.toml")) else { continue };
                let machines = toml::from_str::<TruthFile>(&text).unwrap().machines;
                let quoted = &machines[0].device;
                let there = |other: &&Evidence| other.source == evidence.source && other.device == *quoted;
                assert_eq!(entry.evidence.iter().filter(there).count(), 1, "{at}: on {quoted}");
                let truth = machines.iter().find(|truth| truth.device == evidence.device).expect(&at);
                let row = truth.patches.iter().find(|row| row.patch == patch).expect(&at);
                let gain = row.aggregate.expect(&at);
                assert_eq!((evidence.gain, evidence.low, evidence.high), (gain.gain, gain.low, gain.high), "{at}");
                let date = row.date.as_ref().unwrap_or(&truth.date);
                assert_eq!((evidence.launches as usize, &evidence.date), (row.launches, date), "{at}");
                let shapes: Vec<&String> = row.shapes.iter().map(|shape| &shape.shape).collect();
                assert_eq!(evidence.shapes.iter().collect::<Vec<_>>(), shapes, "{at}");
                compared += 1;
            }
        }
        assert!(compared > 20, "only {compared} figures are compared");
    }

    #[test]
    fn no_technique_keeps_anything_between_calls() {
        for entry in all() {
            assert!(entry.kind == Kind::AntiPattern || !entry.bucket.is_overfit(), "{}", entry.id);
            assert!(entry.kind == Kind::AntiPattern || entry.category != Category::OverFitting, "{}", entry.id);
        }
    }

    #[test]
    fn techniques_come_by_gain_then_measured_losses_then_the_rest() {
        let chosen = select("softmax", Backend::Cpu, Language::C, &scope(&[("rows", 2048), ("cols", 4096)]));
        let techniques = ids(&chosen, Kind::Technique);
        assert!(techniques.contains(&"vector-polynomial-exp"), "{techniques:?}");
        let gains: Vec<f64> = chosen[..techniques.len()].iter().filter_map(|entry| entry.measured_gain()).collect();
        assert_eq!(gains.len(), techniques.len());
        assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
        let anti_patterns = ids(&chosen, Kind::AntiPattern);
        assert!(anti_patterns.contains(&"online-softmax-on-cpu"), "{anti_patterns:?}");
        assert_eq!(chosen.last().unwrap().category, Category::OverFitting);
    }

    #[test]
    fn another_operator_backend_or_shape_selects_other_entries() {
        let contains = |op: &str, backend, language, sizes: &[(&str, i64)], id: &str| {
            select(op, backend, language, &scope(sizes)).iter().any(|entry| entry.id == id)
        };
        let rows = |rows| [("rows", rows), ("cols", 4096)];
        assert!(contains("rmsnorm", Backend::Cpu, Language::C, &rows(64), "prefetch-next-row"));
        assert!(!contains("rmsnorm", Backend::Cpu, Language::C, &rows(1), "prefetch-next-row"));
        assert!(!contains("rmsnorm", Backend::Cpu, Language::C, &rows(64), "register-tile"));
        assert!(contains("matmul", Backend::Cpu, Language::C, &[("m", 64), ("n", 64), ("k", 64)], "register-tile"));
        assert!(contains("softmax", Backend::Cuda, Language::Cuda, &rows(64), "float4-accesses"));
        let odd = [("rows", 64), ("cols", 4097)];
        assert!(!contains("softmax", Backend::Cuda, Language::Cuda, &odd, "float4-accesses"));
        assert!(!contains("softmax", Backend::Cpu, Language::C, &rows(64), "warp-shuffle-reduction"));
    }

    #[test]
    fn over_fitting_is_shown_for_every_kernel() {
        let chosen = select("my_own", Backend::Hip, Language::Hip, &scope(&[]));
        let anti_patterns = ids(&chosen, Kind::AntiPattern);
        for id in ["activation-cache", "output-cache-by-pointer", "pinned-cache", "work-in-first-call"] {
            assert!(anti_patterns.contains(&id), "{id}");
        }
    }
}
