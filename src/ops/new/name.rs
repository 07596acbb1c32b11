//! Names that cargo and rustc take, refused before anything is written. Cargo would refuse most of them too, but only
//! after the files are there.

use kopt_schema::exit::Exit;

use crate::error::{Error, Result};

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that every crate has already, folders of cargo, and those the new crate depends on.
const TAKEN: &[&str] = &[
    "alloc",
    "build",
    "core",
    "correctness",
    "deps",
    "examples",
    "incremental",
    "kopt_build",
    "kopt_harness",
    "latency",
    "proc_macro",
    "std",
    "test",
];

/// Whether a package may have this name.
///
/// # Errors
/// When it may not, with the reason.
pub fn check(name: &str) -> Result<()> {
    let wrong = |why: &str| Err(Error::new(Exit::Usage, format!("`{name}` cannot be the name of a crate: {why}")));
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(bad) = name.chars().find(|c| !letter(*c)) {
        return wrong(&format!("it has `{bad}`; letters, digits, `-` and `_` are allowed"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return wrong("it must start with a letter");
    }
    let name_in_rust = name.replace('-', "_");
    if KEYWORDS.contains(&name_in_rust.as_str()) {
        return wrong("it is a keyword of Rust");
    }
    if TAKEN.contains(&name_in_rust.as_str()) {
        return wrong("the name is taken");
    }
    Ok(())
}

/// Whether C takes it as the name of a function.
pub fn is_c_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_or_rustc_would_refuse_are_refused() {
        for good in ["softmax", "softmax-cuda", "my_kernel2"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "2fast", "-x", "a b", "ünder", "loop", "core", "kopt-harness", "a/b", "latency"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
