//! A candidate: what a kernel's sources compile to, and all that a process needs to run it. `kopt-build` writes
//! `candidate.json` beside the object; test, bench and worker binaries read it and compare the object's digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::manifest::Class;

/// The field of an args struct that holds what was prepared of the weights; null where nothing was.
pub const PREPARED: &str = "prepared";

/// The contents of `candidate.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Version of this format.
    pub format: u32,
    /// What it is made of.
    pub class: Class,
    /// The object's file, beside this one; none where the compiler is missing.
    pub object: Option<String>,
    /// It exports `<op>_prepare_size` and `<op>_prepare`: something derived from the weights is made once a step, in memory of
    /// the harness, and every entry gets it.
    #[serde(default)]
    pub prepares: bool,
    /// SHA-256 of the object, in hexadecimal.
    pub digest: String,
    /// Why there is no object.
    pub missing: Option<String>,
    /// The launch plan's text.
    pub plan: Option<String>,
    /// Chosen knob values.
    pub knobs: BTreeMap<String, i64>,
    /// The compiler, as it names itself.
    pub compiler: String,
    /// Every flag it was given.
    pub flags: Vec<String>,
    /// What the machine lacked to confine the compiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfined: Option<String>,
    /// What each device function takes, as the compiler reports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resources>,
}

/// What a device function takes of the device, as its compiler reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Resources {
    /// The function.
    pub function: String,
    /// Registers of a thread; of vectors, where there are others.
    pub registers: u32,
    /// Registers that a wave shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalar_registers: Option<u32>,
    /// Bytes of a thread that registers are spilled to.
    pub spills: u64,
    /// Bytes of a thread's stack, spills included.
    pub stack: u64,
    /// Bytes of shared memory that the code itself asks for; a launch may add to it.
    pub shared: u64,
}
