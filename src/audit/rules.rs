//! The rules, as data: one file each under `rules/`, whose name is the rule's id. A file says what the rule is, why it is one,
//! what to do instead, and which names it is about; what is no name (memory, constructors, the shape of code) is looked
//! for by `native`, `code`, `device` and `launcher`, under the rule's id.

use std::sync::OnceLock;

use kopt_schema::audit::Severity;
use kopt_schema::manifest::Class;
use serde::Deserialize;

/// A rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The file's name.
    #[serde(skip)]
    pub id: &'static str,
    /// What it finds, in a few words.
    pub title: String,
    /// The class of candidates it is about.
    pub class: Class,
    /// How much its findings weigh.
    pub severity: Severity,
    /// Why it is a rule.
    pub why: String,
    /// What to do instead.
    pub instead: String,
    /// What it names outlives a call, so that something can be kept there.
    #[serde(default)]
    pub keeps: bool,
    /// Patterns of imported names.
    #[serde(default)]
    pub imports: Vec<String>,
    /// Patterns of exported names.
    #[serde(default)]
    pub exports: Vec<String>,
    /// Mnemonics of instructions.
    #[serde(default)]
    pub mnemonics: Vec<String>,
    /// Patterns of PTX instructions.
    #[serde(default)]
    pub opcodes: Vec<String>,
    /// Patterns of PTX operands.
    #[serde(default)]
    pub operands: Vec<String>,
    /// Patterns of names that are fine.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Mathematical functions that are fine, in every precision.
    #[serde(default)]
    pub math: Vec<String>,
    /// Functions of the compiler's own library in which the rule does not hold.
    #[serde(default)]
    pub toolchain: Vec<String>,
}

macro_rules! files {
    ($($id:literal),* $(,)?) => { &[$(($id, include_str!(concat!("rules/", $id, ".toml")))),*] };
}

/// Every file, in the order of `--list`.
const FILES: &[(&str, &str)] = files![
    "import-clock",
    "import-memory",
    "import-thread",
    "import-openmp",
    "import-file",
    "import-environment",
    "import-loader",
    "import-process",
    "import-floating-point-mode",
    "import",
    "interposition",
    "export",
    "constructor",
    "ifunc",
    "writable-data",
    "thread-local",
    "executable-data",
    "text-relocation",
    "dependency",
    "system-call",
    "clock-read",
    "processor-query",
    "random-number",
    "segment-register",
    "floating-point-mode",
    "floating-point-status",
    "saved-state",
    "protection-key",
    "waiting",
    "cache-control",
    "privileged",
    "far-transfer",
    "absolute-address",
    "branch-outside",
    "overlapping-code",
    "undecodable-code",
    "hidden-bytes",
    "device-global",
    "device-allocation",
    "device-launch",
    "device-output",
    "device-undecodable",
    "device-import",
    "device-clock",
    "device-cache-policy",
    "device-cache-hint",
    "launcher-import",
    "launcher-data",
    "launcher-constructor",
];

/// All rules.
#[must_use]
pub fn all() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    // A file that is no rule fails the test that reads them all, and is left out here.
    let read = |(id, text): &(&'static str, &str)| Some(Rule { id, ..toml::from_str(text).ok()? });
    RULES.get_or_init(|| FILES.iter().filter_map(read).collect())
}

/// The rule of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    all().iter().find(|rule| rule.id == id)
}

/// Those of `ids` that are no rules.
pub fn unknown(ids: &[String]) -> impl Iterator<Item = &String> {
    ids.iter().filter(|id| find(id).is_none())
}

/// Whether one of the patterns is that of `name`.
#[must_use]
pub fn matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.contains(['*', '?', '[']) {
        true => glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(name)),
        false => pattern == name,
    })
}

/// The function that `name` computes for several elements at once: `expf`, if it is `_ZGVdN8v_expf`.
#[must_use]
pub fn of_several(name: &str) -> Option<&str> {
    name.strip_prefix("_ZGV").and_then(|rest| rest.split_once('_')).map(|(_, scalar)| scalar)
}

/// Whether a kernel may import `name`: arithmetic, copying, and what compilers call by themselves.
#[must_use]
pub fn may_import(name: &str) -> bool {
    let Some(rule) = find("import") else { return false };
    let scalar = of_several(name).unwrap_or(name);
    let is_math = |name: &str| rule.math.iter().any(|known| known == name);
    let precisions = ["f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x"];
    is_math(scalar)
        || precisions.iter().any(|precision| scalar.strip_suffix(precision).is_some_and(is_math))
        || matches(&rule.allow, name)
}
