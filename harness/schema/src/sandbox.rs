//! What confines a contestant, and what of it is in force on a machine. Evidence states it: a machine that lacks a defence
//! gives a verdict that can be trusted less, and says so.

use serde::{Deserialize, Serialize};

/// A defence that surrounds a candidate's host code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Defence {
    /// No file can be written, none but libraries and its own object read, no TCP port used (landlock).
    Files,
    /// System calls beyond what loading and answering take end the process (seccomp).
    SystemCalls,
    /// Each call gets a stack of fresh random bytes and registers in their first state, and must leave the processor as a
    /// function may.
    CleanCalls,
    /// While a call runs nothing can be written to but its outputs, its stack and what its object has of its own (memory keys).
    Memory,
}

impl Defence {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::SystemCalls => "system calls",
            Self::CleanCalls => "clean calls",
            Self::Memory => "memory",
        }
    }
}

/// How far a defence is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Force {
    /// All of it.
    Whole,
    /// Some of it: the machine lacks the rest.
    Part,
    /// None of it: the machine lacks it.
    None,
    /// There is nothing to defend against: the candidate has no host code.
    NotNeeded,
    /// Turned off, for a test.
    Off,
}

/// A defence and how far it is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Guard {
    /// Which.
    pub defence: Defence,
    /// How far.
    pub force: Force,
    /// The mechanism, or what is missing.
    pub detail: String,
}

/// What confines a contestant. Evidence of versions that had no sandbox has no guards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Sandbox {
    /// One for each defence.
    pub guards: Vec<Guard>,
}

impl Sandbox {
    /// Adds what came of a defence.
    pub fn add(&mut self, defence: Defence, force: Force, detail: impl Into<String>) {
        self.guards.push(Guard { defence, force, detail: detail.into() });
    }

    /// Defences that are not wholly in force though they are needed.
    pub fn lacking(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().filter(|guard| !matches!(guard.force, Force::Whole | Force::NotNeeded))
    }

    /// How much a verdict on confined contestants can be trusted, in words.
    #[must_use]
    pub fn trust(&self) -> &'static str {
        if self.guards.is_empty() {
            "unconfined"
        } else if self.lacking().next().is_some() {
            "partly confined"
        } else if self.guards.iter().all(|guard| guard.force == Force::NotNeeded) {
            "no host code"
        } else {
            "confined"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_lowers_the_trust() {
        let mut sandbox = Sandbox::default();
        assert_eq!(sandbox.trust(), "unconfined");
        sandbox.add(Defence::SystemCalls, Force::Whole, "seccomp");
        assert_eq!(sandbox.trust(), "confined");
        sandbox.add(Defence::Files, Force::None, "no landlock");
        assert_eq!(sandbox.trust(), "partly confined");
        assert_eq!(sandbox.lacking().map(|guard| guard.defence).collect::<Vec<_>>(), [Defence::Files]);
        let mut device = Sandbox::default();
        device.add(Defence::Files, Force::NotNeeded, "");
        assert_eq!(device.trust(), "no host code");
    }
}
