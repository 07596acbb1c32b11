//! What is told of audits.

use serde::{Deserialize, Serialize};

use crate::audit::{Audit, Severity};
use crate::candidate::Resources;
use crate::manifest::Class;

/// The audit of a kernel's object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct KernelAudit {
    /// The package's name.
    pub kernel: String,
    /// Sources that it was built from, relative to the package.
    pub sources: Vec<String>,
    /// Folders outside the package that they may include from.
    pub include_roots: Vec<String>,
    /// Flags the manifest adds to the harness's own.
    pub flags: Vec<String>,
    /// It has violations, beyond those of the base where one was named.
    pub refused: bool,
    /// What was found.
    pub audit: Audit,
}

/// What the functions of a kernel's object take of the device, as its compiler reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct KernelResources {
    /// The package's name.
    pub kernel: String,
    /// One for each function that can be launched.
    pub functions: Vec<Resources>,
}

/// A rule of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RuleInfo {
    /// Its id.
    pub rule: String,
    /// The class of candidates it is about.
    pub class: Class,
    /// How much its findings weigh.
    pub severity: Severity,
    /// What it finds.
    pub title: String,
    /// Why it is a rule.
    pub why: String,
    /// What to do instead.
    pub instead: String,
}
