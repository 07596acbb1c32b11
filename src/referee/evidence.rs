//! `evidence.json`, written and read. A file takes its place when it is complete; what is read may come from
//! anywhere, and is refused with a reason before anything is computed from it.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::evidence::Evidence;
use kopt_schema::exit::Exit;
use serde_json::Value;

use super::record;
use crate::error::{Error, Result};
use crate::machine::Moment;
use crate::replacement::{Replacement, folder_of};

/// Writes `evidence` to `path`; its folder is made.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Utf8Path, evidence: &Evidence) -> Result<()> {
    let failed = |error: &dyn std::error::Error| {
        Error::new(Exit::Output, format!("cannot write the evidence to `{path}`")).because(error)
    };
    std::fs::create_dir_all(folder_of(path)).map_err(|error| failed(&error))?;
    let mut text = serde_json::to_vec_pretty(evidence).map_err(|error| failed(&error))?;
    text.push(b'\n');
    if path.exists() && !path.is_file() {
        // A pipe or `/dev/stdout`: nothing can be moved there.
        return std::fs::write(path, text).map_err(|error| failed(&error));
    }
    Replacement::shared(path).synced().write(&text).map_err(|error| failed(&error))
}

/// Whether something can be written to `path`, asked before the work whose result it shall be. The folder is made.
///
/// # Errors
/// When it cannot.
pub fn has_room(path: &Utf8Path) -> Result<()> {
    let failed = |error: &dyn std::error::Error| {
        Error::new(Exit::Output, format!("cannot write the evidence to `{path}`")).because(error)
    };
    if path.is_dir() {
        return Err(Error::new(Exit::Output, format!("cannot write the evidence to `{path}`: it is a folder")));
    }
    std::fs::create_dir_all(folder_of(path)).map_err(|error| failed(&error))?;
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    tempfile::tempfile_in(folder_of(path)).map(drop).map_err(|error| failed(&error))
}

/// A name for new evidence in `folder` that nothing has yet.
#[must_use]
pub fn fresh_name(folder: &Utf8Path, kernel: &str, when: Moment) -> Utf8PathBuf {
    let stem = format!("{kernel}-{}", when.compact());
    let names = std::iter::once(format!("{stem}.json")).chain((2..).map(|number| format!("{stem}-{number}.json")));
    names.map(|name| folder.join(name)).find(|path| !path.exists()).unwrap_or_else(|| folder.join("evidence.json"))
}

/// The evidence in `text`; `shown` is where it came from.
///
/// # Errors
/// When it is cut off, no evidence, of a newer format, or does not fit together.
pub fn read(shown: &str, text: &[u8]) -> Result<Evidence> {
    let hint = "`cargo kopt compare` writes evidence";
    let value: Value = serde_json::from_slice(text).map_err(|error| {
        let what = match error.is_eof() {
            true if text.iter().all(u8::is_ascii_whitespace) => "is empty",
            true => "is cut off",
            false => "is no evidence: it is not JSON",
        };
        Error::setup(format!("{shown} {what}")).because(&error).hint(hint)
    })?;
    let format = value.get("format").and_then(Value::as_u64);
    match (format, value.get("verdict")) {
        (Some(format), _) if format > u64::from(FORMAT_VERSION) => {
            return Err(Error::setup(format!(
                "{shown} has format {format}; this version knows up to {FORMAT_VERSION}"
            ))
            .hint("a newer cargo kopt has written it: update this one"));
        }
        (Some(_), Some(_)) => {}
        _ => return Err(Error::setup(format!("{shown} is no evidence")).hint(hint)),
    }
    let evidence: Evidence = serde_json::from_slice(text)
        .map_err(|error| Error::setup(format!("{shown} is damaged")).because(&error).hint(hint))?;
    match record::evidence(&evidence) {
        Ok(()) => Ok(evidence),
        Err(wrong) => Err(Error::setup(format!("{shown} is damaged")).cause(wrong)),
    }
}
