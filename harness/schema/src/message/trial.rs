//! What is told of trials of correctness, and of wrong results that were handed to a crate's own check.

use serde::{Deserialize, Serialize};

/// How many trials a test binary is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TrialPlan {
    /// The package's name.
    pub kernel: String,
    /// Trials after filters.
    pub trials: usize,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every element of every output is within its bound.
    Passed,
    /// The kernel is wrong, or did not answer.
    Failed,
    /// It could not be run here; the detail says why.
    Ignored,
}

/// What was wrong in a failed trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Elements differ from the reference by more than their bound.
    WrongValues,
    /// Elements were never written.
    Unwritten,
    /// Memory outside the buffers was written.
    OutOfBounds,
    /// An input was changed.
    InputModified,
    /// The process died of a signal.
    Crashed,
    /// The process ended without an answer.
    Exited,
    /// No answer in time.
    TimedOut,
    /// The entry returned an error.
    ReturnedError,
    /// The process answered out of turn or with something else.
    Protocol,
    /// The process took more memory than it may.
    MemoryLimit,
    /// Outputs changed after the call had returned.
    LateWrite,
    /// The process started threads or processes, or ran while it was to wait.
    Stray,
    /// It made a system call that a kernel may not.
    ForbiddenCall,
    /// It returned with the processor in another state than a function may leave it in.
    CallingConvention,
    /// It took so much longer than the version that stands that measuring it was given up.
    TooSlow,
    /// The device had no memory left for it: another process may have taken it.
    NoMemory,
    /// The harness could not run the kernel.
    Setup,
}

/// A correctness trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// The package's name.
    pub kernel: String,
    /// The trial's name, as `cargo test` lists it.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Seeds used, as `KOPT_SEED` takes them.
    pub seeds: Vec<String>,
    /// What was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// The text for people: which element, expected, got, map; or why it was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The only argument of a test or bench binary that hands wrong results to its own check.
pub const CERTIFY_ARGUMENT: &str = "--kopt-certify";

/// Mutants of one entry's reference on one shape, as the crate's own check took them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Certified {
    /// The package's name.
    pub kernel: String,
    /// The entry's symbol.
    pub entry: String,
    /// The shape's name.
    pub case: String,
    /// How far the crate's own kernel is from the exact result, in shares of the bound; missing where it cannot be run here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub honest: Option<f64>,
    /// Why it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The mutants.
    pub mutants: Vec<MutantTaken>,
}

/// How a check took a mutant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct MutantTaken {
    /// Its name, such as `zeros`.
    pub mutant: String,
    /// The output that was mutated; `all` for a mutant that gives all of them, in a lower precision.
    pub output: String,
    /// Whether the check refused it under one of the operator's distributions at least.
    pub caught: bool,
    /// The distribution that caught it; of one that was not, that which came nearest.
    pub distribution: String,
    /// How far its worst element is from the exact result, in multiples of the bound, under that distribution.
    pub excess: f64,
}
