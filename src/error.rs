//! What went wrong, for people: a message, its causes, a hint that can be acted on, and the exit code it leads to.
//!
//! One type is enough here: nothing in the tool branches on an error, it only ends in one. A failed trial is not an
//! error but a result, and never takes this form.

use std::fmt;

use kopt_schema::Diagnostic;
use kopt_schema::exit::Exit;
use kopt_schema::message::Failure;

/// The result of anything that can fail in a way a person should read about.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command could not be completed.
#[derive(Debug, Clone)]
pub struct Error {
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    exit: Exit,
}

impl Error {
    /// An error that ends the tool with `exit`.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hint: None, exit }
    }

    /// Something about files or configuration that a person can put right.
    #[must_use]
    pub fn setup(message: impl Into<String>) -> Self {
        Self::new(Exit::Setup, message)
    }

    /// Adds `cause` and the errors behind it.
    #[must_use]
    pub fn because(mut self, cause: &dyn std::error::Error) -> Self {
        let mut next = Some(cause);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// Adds a cause that is only a text, such as what a program printed.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The code the tool ends with.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// The error as a message for machines.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure { message: self.message.clone(), causes: self.causes.clone(), hint: self.hint.clone() }
    }
}

impl From<&Diagnostic> for Error {
    fn from(finding: &Diagnostic) -> Self {
        // The text of a finding ends in its hint; here the hint has a place of its own.
        let mut bare = finding.clone();
        bare.hint = None;
        Self { hint: finding.hint.clone(), ..Self::setup(bare.to_string()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_causes_of_a_cause_are_kept_in_order() {
        let inner = std::io::Error::other("disk on fire");
        let error = Error::setup("cannot read").because(&inner).cause("and so on").hint("pour water");
        assert_eq!(error.failure().causes, ["disk on fire", "and so on"]);
        assert_eq!(error.exit(), Exit::Setup);
        assert_eq!(error.failure().hint.as_deref(), Some("pour water"));
    }

    #[test]
    fn the_hint_of_a_finding_is_said_once() {
        let finding = Diagnostic::file("Cargo.toml", "no").hint("yes");
        let failure = Error::from(&finding).failure();
        assert_eq!(failure.message, "Cargo.toml: no");
        assert_eq!(failure.hint.as_deref(), Some("yes"));
    }
}
