//! What programs are told of a gate: which kernels a change can reach, what became of each, and what follows. Every other
//! rendering (terminal, Markdown, annotations, JUnit) is made from these.

use serde::{Deserialize, Serialize};

use crate::evidence::Verdict;
use crate::exit::Exit;

/// Which kernels the change can reach. Told before anything is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GateScope {
    /// The commit that stands.
    pub base: String,
    /// The commit that is gated.
    pub head: String,
    /// Files that differ.
    pub files: usize,
    /// Kernel crates in either; none where nothing that differs could matter, and nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<usize>,
    /// Those that the change can reach.
    pub affected: Vec<GateAffected>,
    /// How base and head were chosen, and what is not as one may think.
    pub notes: Vec<String>,
}

/// A kernel that the change can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GateAffected {
    /// The package's name, in the head where it has one.
    pub kernel: String,
    /// Why.
    pub reasons: Vec<GateReason>,
}

/// Why a kernel is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GateReason {
    /// A file that differs, relative to the repository.
    pub path: String,
    /// `kernel`, `judging` or `toolchain`.
    pub aspect: String,
    /// What the file is to the kernel, in words.
    pub why: String,
}

/// What became of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// Both versions compile to the same code.
    Same,
    /// No shape is slower by the tolerance.
    Passed,
    /// The same, and it is faster.
    Faster,
    /// Slower by more than the tolerance, shown twice.
    Regressed,
    /// The same, and a commit allows it.
    Allowed,
    /// Wrong results, or none.
    Incorrect,
    /// It broke the rules of measurement, or passes only by what the change edits.
    Integrity,
    /// The data cannot tell.
    Inconclusive,
    /// Its judge does not build, or could not do its work: nothing is known.
    NotJudged,
    /// The head's version does not build.
    DoesNotBuild,
    /// Only in the head: checked, and compared with nothing.
    New,
    /// Only in the base.
    Removed,
    /// Called differently than before: checked by its own harness, and compared with nothing, so that nobody knows its speed.
    NotCompared,
    /// The same, and a commit allows it.
    NotComparedAllowed,
    /// It needs a device or a compiler that this machine has not.
    NotHere,
}

impl GateOutcome {
    /// The code that it alone leads to.
    #[must_use]
    pub const fn exit(self) -> Exit {
        match self {
            Self::Same
            | Self::Passed
            | Self::Faster
            | Self::Allowed
            | Self::New
            | Self::Removed
            | Self::NotComparedAllowed
            | Self::NotHere => Exit::Ok,
            Self::Regressed => Exit::Regressed,
            Self::Incorrect => Exit::Incorrect,
            Self::Integrity => Exit::Integrity,
            Self::Inconclusive | Self::NotJudged | Self::NotCompared => Exit::Inconclusive,
            Self::DoesNotBuild => Exit::BuildFailed,
        }
    }

    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same code",
            Self::Passed => "passed",
            Self::Faster => "faster",
            Self::Regressed => "REGRESSED",
            Self::Allowed => "slower, allowed",
            Self::Incorrect => "WRONG",
            Self::Integrity => "INTEGRITY",
            Self::Inconclusive => "cannot tell",
            Self::NotJudged => "NOT JUDGED",
            Self::DoesNotBuild => "DOES NOT BUILD",
            Self::New => "new",
            Self::Removed => "removed",
            Self::NotCompared => "NOT COMPARED",
            Self::NotComparedAllowed => "not compared, allowed",
            Self::NotHere => "not judged here",
        }
    }
}

/// A kernel was gated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GateKernel {
    /// The package's name, in the head where it has one.
    pub kernel: String,
    /// Its name in the base, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// What became of it.
    pub outcome: GateOutcome,
    /// Why, in a line.
    pub text: String,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Files of the change that judge this kernel. They did not judge it here: the base's did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judging: Vec<String>,
    /// What reading the change has found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<String>,
    /// The reason that a commit gives for a slowdown, or for what cannot be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// Trials that the head's version passed.
    #[serde(default)]
    pub trials: usize,
    /// Whether it was the base's judge that tried them, and not the head's own.
    #[serde(default)]
    pub tried_by_base: bool,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The file with everything that rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The file to look at first, relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// And the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Seconds it took, building left out.
    pub seconds: f64,
}

/// What follows from all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct GateResult {
    /// The exit code.
    pub exit_code: u8,
    /// In a line.
    pub text: String,
    /// What a kernel may lose, as a share of its time.
    pub tolerance: f64,
    /// What is made of kernels that cannot be told: `fail`, `warn` or `pass`.
    pub inconclusive: String,
    /// Kernels that cannot be told, which more time may decide.
    pub undecided: Vec<String>,
    /// Seconds in all.
    pub seconds: f64,
}
