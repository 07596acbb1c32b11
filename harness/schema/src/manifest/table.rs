//! The tables as they are written: every key optional, nothing resolved.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Backend, Class, Knob, Language};
use crate::dtype::DType;

/// `[package.metadata.kopt]`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelTable {
    /// The operator: a standard one (softmax, rmsnorm, matmul, grouped_matmul, cross_entropy, decode_attention), or a name of one's own, a C identifier.
    pub op: String,
    /// Where the kernel runs.
    pub backend: Backend,
    /// Default: c for cpu, cuda for cuda, hip for hip. c++ is for cpu, triton for both GPUs.
    pub language: Option<Language>,
    /// Default: native for cpu, device for GPUs.
    pub class: Option<Class>,
    /// Element type of the main buffers. Default: f32.
    pub dtype: Option<DType>,
    /// Files that rounds may change. Default: `kernels/<op>.<extension of the language>`. The launch plan and, where knobs are
    /// declared, `kernels/<op>_knobs.h` belong to them by themselves.
    pub sources: Option<Vec<String>>,
    /// Default: `kernels/<op>.h`.
    pub header: Option<String>,
    /// Default for class device: `kernels/<op>.launch.toml`.
    pub launch: Option<String>,
    /// Device architectures, such as sm_90a or gfx90a, or native: that of the device here. Of several, the one that the device
    /// here is of, else the first. Default: sm_90, gfx90a; for triton on hip gfx942.
    pub arch: Option<Vec<String>>,
    /// For language triton: a command that makes device code, a program or a Python script of the crate. Default: the
    /// harness's own, which compiles what the source lists in KERNELS.
    pub generator: Option<Vec<String>>,
    /// Compiler flags added to the harness's own; shown wherever the kernel is.
    pub flags: Option<Vec<String>>,
    /// Folders outside the crate that sources may include from, relative to the crate.
    pub include_roots: Option<Vec<String>>,
    /// The shapes that are checked and timed: at least one.
    #[serde(default)]
    pub shapes: Vec<ShapeTable>,
    /// What a tuner may turn.
    #[serde(default)]
    pub knobs: BTreeMap<String, Knob>,
    /// Conditions between knobs and sizes, in the expression language.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// How correctness trials run.
    pub check: Option<Check>,
    /// What the audit of the built object lets pass.
    pub policy: Option<Policy>,
    /// How it is found out what a gain is worth in training.
    pub transfer: Option<Transfer>,
}

/// `[workspace.metadata.kopt]`: defaults for every kernel crate of the workspace.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkspaceTable {
    /// See the package's key.
    pub dtype: Option<DType>,
    /// See the package's key.
    pub arch: Option<Vec<String>>,
    /// See the package's key.
    pub flags: Option<Vec<String>>,
    /// See the package's key.
    pub check: Option<Check>,
}

/// How correctness trials run.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Secret seeds a trial. Default: 3.
    pub seeds: Option<u32>,
    /// Seconds after which a kernel counts as hanging. Default: 20.
    pub timeout_s: Option<f64>,
}

/// What the audit lets pass. It is read from the version that stands: no candidate allows itself anything.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Ids of rules (`cargo kopt audit --list`) whose findings do not count; they are shown in every verdict.
    pub allow: Option<Vec<String>>,
}

/// How it is found out what a gain is worth in training: a slot, or a command.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The op of the harness's language model that the kernel takes over: `grouped_matmul`, `matmul`, `rmsnorm` or `softmax`. Its
    /// entries must have the names of that op's.
    pub slot: Option<String>,
    /// A training script of the user's own instead: run by `sh -c` in the crate's folder, once for each version in turn.
    /// `KOPT_OBJECT` names the compiled kernel; the script prints a line `METRIC step_ms=…` and a line `METRIC loss=…` for each
    /// step.
    pub command: Option<String>,
    /// Seconds after which it counts as hanging. Default: 600.
    pub timeout_s: Option<f64>,
    /// How far the losses of both versions may be apart at each step, relative. Default: 0.001.
    pub loss_tolerance: Option<f64>,
}

/// A value of a shape: a size, or one of an operator's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ShapeValue {
    /// A size.
    Size(i64),
    /// A word.
    Choice(String),
}

impl<'de> Deserialize<'de> for ShapeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;
        impl Visitor<'_> for Seen {
            type Value = ShapeValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size (an integer) or a word")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<ShapeValue, E> {
                Ok(ShapeValue::Size(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<ShapeValue, E> {
                i64::try_from(value).map(ShapeValue::Size).map_err(|_| E::custom("the size does not fit 64 bits"))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<ShapeValue, E> {
                Ok(ShapeValue::Choice(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Seen)
    }
}

/// A shape as it is written: `{ name = "decode", rows = 1, cols = 8192 }`, the name optional, order kept.
#[derive(Debug, Clone)]
pub struct ShapeTable(pub Vec<(String, ShapeValue)>);

impl<'de> Deserialize<'de> for ShapeTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = ShapeTable;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a shape such as { rows = 64, cols = 1024 }")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ShapeTable, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(ShapeTable(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(feature = "json-schema")]
impl schemars::JsonSchema for ShapeTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Shape".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <BTreeMap<String, ShapeValue>>::json_schema(generator)
    }
}
