//! `[package.metadata.kopt]`: what a kernel crate says of itself.
//!
//! Parsed early, so that a typo fails before slow work: [`parse`] takes the text of a `Cargo.toml` (and of the
//! workspace's, whose `[workspace.metadata.kopt]` gives defaults) and returns a [`Manifest`] with every default
//! filled in, or all that is wrong with it, each pointing into the file. Files that it names are checked by
//! `kopt-build`, which may touch the disk.

mod arch;
mod document;
mod resolve;
mod shapes;
mod table;
mod transfer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::expression::Value;

pub use resolve::{NotAKernel, parse};
pub use table::{Check, KernelTable, Policy, ShapeTable, ShapeValue, Transfer, WorkspaceTable};

/// Where a kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The host's cores.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Hip,
}

impl Backend {
    /// The name as it is written in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }

    /// What its kernels are written in where a manifest does not say.
    #[must_use]
    pub const fn language(self) -> Language {
        self.languages()[0]
    }

    /// What its kernels may be written in.
    #[must_use]
    pub const fn languages(self) -> [Language; 2] {
        match self {
            Self::Cpu => [Language::C, Language::Cpp],
            Self::Cuda => [Language::Cuda, Language::Triton],
            Self::Hip => [Language::Hip, Language::Triton],
        }
    }
}

/// What a kernel is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// C.
    C,
    /// C++.
    #[serde(rename = "c++")]
    Cpp,
    /// CUDA C++.
    Cuda,
    /// HIP C++.
    Hip,
    /// Python, compiled by Triton.
    Triton,
}

impl Language {
    /// The name as it is written in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "c++",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Triton => "triton",
        }
    }

    /// The extension of its sources.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Cuda => "cu",
            Self::Hip => "hip",
            Self::Triton => "py",
        }
    }
}

/// What a candidate is made of, and so how much of it can misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Device code and a launch plan: no host code of the candidate runs.
    Device,
    /// A shared object whose function runs on the host.
    Native,
    /// A shared object that launches device code itself.
    Launcher,
}

impl Class {
    /// The name as it is written in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Native => "native",
            Self::Launcher => "launcher",
        }
    }
}

/// A knob that a tuner may turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// Values it may take.
    pub values: Vec<i64>,
    /// The value where `kernels/<op>_knobs.h` does not define it.
    pub default: i64,
}

/// A shape: a name and the operator's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Unique in the crate.
    pub name: String,
    /// Parameters in the order written.
    pub parameters: Vec<(String, ShapeValue)>,
}

impl Shape {
    /// A shape whose name is made of its parameters.
    #[must_use]
    pub fn unnamed(parameters: Vec<(String, ShapeValue)>) -> Self {
        Self { name: default_name(&parameters), parameters }
    }

    /// A size, zero if the shape has none of that name.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        match self.parameters.iter().find(|(key, _)| key == name) {
            Some((_, ShapeValue::Size(size))) => usize::try_from(*size).unwrap_or(0),
            _ => 0,
        }
    }

    /// A choice, empty if the shape has none of that name.
    #[must_use]
    pub fn choice(&self, name: &str) -> &str {
        match self.parameters.iter().find(|(key, _)| key == name) {
            Some((_, ShapeValue::Choice(word))) => word,
            _ => "",
        }
    }

    /// How its rows are spread over groups; none where the op has no groups.
    #[must_use]
    pub fn routing(&self) -> Option<crate::bout::Routing> {
        let kind = self.choice("routing");
        let sizes = self.parameters.iter().filter(|(name, _)| name != "routing").cloned().collect::<Vec<_>>();
        (!kind.is_empty()).then(|| crate::bout::Routing { kind: kind.to_owned(), sizes: default_name(&sizes) })
    }

    /// The parameters as names of an expression.
    #[must_use]
    pub fn scope(&self) -> BTreeMap<String, Value> {
        let value = |value: &ShapeValue| match value {
            ShapeValue::Size(size) => Value::Int(*size),
            ShapeValue::Choice(word) => Value::Text(word.clone()),
        };
        self.parameters.iter().map(|(name, given)| (name.clone(), value(given))).collect()
    }
}

/// `1024x4096`, `1024x8x256x512-skewed`.
fn default_name(parameters: &[(String, ShapeValue)]) -> String {
    let sizes: Vec<String> = parameters
        .iter()
        .filter_map(|(_, value)| match value {
            ShapeValue::Size(size) => Some(size.to_string()),
            ShapeValue::Choice(_) => None,
        })
        .collect();
    let choices = parameters.iter().filter_map(|(_, value)| match value {
        ShapeValue::Size(_) => None,
        ShapeValue::Choice(word) => Some(word.as_str()),
    });
    std::iter::once(sizes.join("x").as_str()).chain(choices).collect::<Vec<_>>().join("-")
}

/// A kernel crate's table with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The operator: a standard one, or the name of the crate's own.
    pub op: String,
    /// Where it runs.
    pub backend: Backend,
    /// What it is written in.
    pub language: Language,
    /// What a candidate is made of.
    pub class: Class,
    /// Element type of the main buffers.
    pub dtype: DType,
    /// What rounds may change, relative to the crate. The launch plan and the knobs header are among them.
    pub sources: Vec<String>,
    /// The header with the args structs.
    pub header: String,
    /// The launch plan, for class `device`.
    pub launch: Option<String>,
    /// Device architectures to compile for.
    pub arch: Vec<String>,
    /// What makes device code of Python sources; empty for the harness's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generator: Vec<String>,
    /// Flags added to the harness's own.
    pub flags: Vec<String>,
    /// Folders outside the crate that sources may include from.
    pub include_roots: Vec<String>,
    /// The shapes that are checked and timed.
    pub shapes: Vec<Shape>,
    /// What a tuner may turn.
    pub knobs: BTreeMap<String, Knob>,
    /// Conditions between knobs and sizes.
    pub constraints: Vec<String>,
    /// How correctness trials run.
    pub check: CheckSettings,
    /// Rules of the audit whose findings do not count.
    #[serde(default)]
    pub allow: Vec<String>,
    /// How it is found out what a gain is worth in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferSettings>,
}

/// How it is found out what a gain is worth in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferSettings {
    /// The kernel takes over this op of the harness's language model.
    Slot(String),
    /// A training script of the user's own.
    Script(Script),
}

/// A training script of the user's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// What `sh -c` runs.
    pub command: String,
    /// Seconds after which it counts as hanging.
    pub timeout_s: f64,
    /// How far losses may be apart, relative.
    pub loss_tolerance: f64,
}

/// How correctness trials run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckSettings {
    /// Secret seeds a trial.
    pub seeds: u32,
    /// Seconds after which a kernel counts as hanging.
    pub timeout_s: f64,
}

impl Manifest {
    /// The header with chosen knob values.
    #[must_use]
    pub fn knobs_header(&self) -> String {
        format!("kernels/{}_knobs.h", self.op)
    }

    /// Sources that a compiler takes: not headers, not the launch plan.
    pub fn compiled(&self) -> impl Iterator<Item = &str> {
        const COMPILED: [&str; 8] = [".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".C", ".py"];
        self.sources.iter().map(String::as_str).filter(|path| COMPILED.iter().any(|end| path.ends_with(end)))
    }
}
