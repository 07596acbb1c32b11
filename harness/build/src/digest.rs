//! SHA-256, in hexadecimal.

use std::fmt::Write as _;

use camino::Utf8Path;
use sha2::{Digest as _, Sha256};

use crate::error::BuildError;

/// The digest of a sequence of parts. Lengths are hashed too, so that moving a byte between parts changes it.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hexadecimal(&hash.finalize())
}

/// The digest of bytes, as `sha256sum` prints it.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The digest of a file, as `sha256sum` prints it.
///
/// # Errors
/// When the file cannot be read.
pub fn of_file(path: &Utf8Path) -> Result<String, BuildError> {
    Ok(of_bytes(&std::fs::read(path).map_err(BuildError::file(path))?))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
