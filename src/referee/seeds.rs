//! Everything random in a match follows from one secret number, so that a match can be repeated with the same orders,
//! and nobody can choose among many.
//!
//! The derivation is public: a seed is the first 16 hexadecimal digits of the SHA-256 of `kopt seed`, the master seed
//! in lower-case hexadecimal and a label, each on a line of its own (`kopt seed\n<master>\n<label>\n`). The label is
//! `memory` for the contents of the memory, and `launch <n>` for launch n, counted from 0 through all stages, and `trace <n>`
//! for trace n, counted from 0.

use kopt_schema::exit::Exit;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Digits of a secret master seed, and the most that one may have.
const DIGITS: usize = 64;

/// The seed that all others follow from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master(String);

impl Master {
    /// A new one, from the system's randomness.
    ///
    /// # Errors
    /// When the system has none.
    pub fn secret() -> Result<Self> {
        let mut bytes = [0u8; DIGITS / 2];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(Exit::Internal, "the system gives no random numbers").cause(error.to_string())
        })?;
        Ok(Self(hexadecimal(&bytes)))
    }

    /// One that was written down.
    ///
    /// # Errors
    /// When it is no hexadecimal number, or too long.
    pub fn given(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        match digits.chars().all(|digit| digit.is_ascii_hexdigit()) && (1..=DIGITS).contains(&digits.len()) {
            true => Ok(Self(digits.to_ascii_lowercase())),
            false => Err(format!("a seed is 1 to {DIGITS} hexadecimal digits, not `{text}`")),
        }
    }

    /// As evidence holds it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The seed of the memory's contents.
    #[must_use]
    pub fn memory(&self) -> String {
        self.derived("memory")
    }

    /// The seed of a launch, counted from 0 through all stages.
    #[must_use]
    pub fn launch(&self, number: usize) -> String {
        self.derived(&format!("launch {number}"))
    }

    /// The seed of a trace, counted from 0.
    #[must_use]
    pub fn trace(&self, number: usize) -> String {
        self.derived(&format!("trace {number}"))
    }

    fn derived(&self, label: &str) -> String {
        let digest = Sha256::digest(format!("kopt seed\n{}\n{label}\n", self.0));
        hexadecimal(&digest[..8])
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_from_the_master_as_documented() {
        let master = Master::given("0xBEEF").unwrap();
        assert_eq!(master.text(), "beef");
        // printf 'kopt seed\nbeef\nlaunch 0\n' | sha256sum | cut -c -16
        assert_eq!(master.launch(0), "5773a6673e62c8f0");
        assert_ne!(master.launch(0), master.launch(1));
        assert_ne!(master.launch(0), master.memory());
        assert_eq!(master.launch(7), Master::given("beef").unwrap().launch(7));
    }

    #[test]
    fn a_secret_one_is_never_the_same_and_can_be_given_again() {
        let (one, two) = (Master::secret().unwrap(), Master::secret().unwrap());
        assert_ne!(one, two);
        assert_eq!(Master::given(one.text()).unwrap(), one);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "0x", "xyz", "-1", "1 2", &"f".repeat(65)] {
            assert!(Master::given(text).is_err(), "{text}");
        }
    }
}
