//! The text of `events.jsonl`: one entry a line, numbered from 0. What is wrong with it is named by its line.

use std::fmt;

use kopt_schema::FORMAT_VERSION;
use kopt_schema::campaign::Entry;
use serde_json::Value;

/// Something is wrong with a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it, as the end of a sentence that begins with the line.
    pub what: String,
    /// Of which kind it is.
    pub kind: DamageKind,
}

/// What can be wrong with a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Only the last line is incomplete: whoever wrote it was killed. It can be put aside and the rest used.
    CutOff {
        /// Bytes of intact text before it.
        whole: usize,
    },
    /// A line is no entry.
    Unreadable,
    /// The numbers do not run 0, 1, 2 and so on: lines are missing, doubled or in another order.
    Gap,
    /// The format is newer than this tool.
    Newer,
    /// The event cannot follow those before it.
    Impossible,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} {}", self.line, self.what)
    }
}

impl std::error::Error for Damage {}

/// The entries of a ledger. A last line that lacks only its line end is an entry like any other: who appends ends it first.
///
/// # Errors
/// The first thing that is wrong with the text. Whether an event can follow another is left to
/// [`State::fold`](super::State::fold).
pub fn read(text: &str) -> Result<Vec<Entry>, Damage> {
    read_bytes(text.as_bytes())
}

/// As [`read`], for a file that may have been cut off in the middle of a character.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8]) -> Result<Vec<Entry>, Damage> {
    let mut entries = Vec::new();
    let mut whole = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let entry = entry(line, whole).and_then(|entry| match place(&entry, entries.len() as u64) {
            Ok(()) => Ok(entry),
            Err(wrong) => Err(wrong),
        });
        let (kind, what) = match entry {
            Ok(entry) => {
                entries.push(entry);
                whole += line.len();
                continue;
            }
            Err(wrong) => wrong,
        };
        return Err(Damage { line: entries.len() + 1, what, kind });
    }
    Ok(entries)
}

/// One entry as a line, with its line end.
#[must_use]
pub fn line(entry: &Entry) -> String {
    let mut line = serde_json::to_string(entry).expect("an entry has no keys but names, and JSON takes those");
    line.push('\n');
    line
}

/// What is wrong: its kind, and the words.
pub(super) type Wrong = (DamageKind, String);

/// Reads one line; `whole` bytes of intact text come before it.
fn entry(line: &[u8], whole: usize) -> Result<Entry, Wrong> {
    if line.trim_ascii().is_empty() && line.ends_with(b"\n") {
        return Err((DamageKind::Unreadable, "is empty".to_owned()));
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| match line.ends_with(b"\n") {
        true => (DamageKind::Unreadable, format!("is no JSON: {error}")),
        // An object that lacks its end is no JSON, so nothing that was written whole comes here.
        false => (DamageKind::CutOff { whole }, format!("is cut off after {} bytes", line.len())),
    })?;
    // The format is looked at before the rest: an event that only a newer tool knows is no damage.
    if let Some(format) = value.get("format").and_then(Value::as_u64).filter(|format| is_newer(*format)) {
        return Err(newer(format));
    }
    serde_json::from_value(value).map_err(|error| (DamageKind::Unreadable, format!("is no entry: {error}")))
}

/// Whether `entry` belongs at place `number`, in a format that is known.
pub(super) fn place(entry: &Entry, number: u64) -> Result<(), Wrong> {
    if is_newer(u64::from(entry.format)) {
        return Err(newer(u64::from(entry.format)));
    }
    if entry.number != number {
        return Err((DamageKind::Gap, format!("has number {} where {number} is due", entry.number)));
    }
    Ok(())
}

/// Whether `entry` could be read again once it is written. JSON has no infinity: such a number would be written as
/// `null`, and the campaign lost by it.
pub(super) fn survives(entry: &Entry) -> Result<(), String> {
    let value = serde_json::to_value(entry).map_err(|error| format!("cannot be written: {error}"))?;
    match null(&value) {
        Some(place) => Err(format!("cannot be written: `{place}` is not a finite number")),
        None => Ok(()),
    }
}

/// Where a value holds a `null`. What is absent from an entry is left out, so only a number becomes one.
fn null(value: &Value) -> Option<String> {
    let under = |name: &str, inner: &Value| {
        let rest = null(inner)?;
        Some(if rest.is_empty() { name.to_owned() } else { format!("{name}.{rest}") })
    };
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| under(&index.to_string(), item)),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| under(name, field)),
        _ => None,
    }
}

fn is_newer(format: u64) -> bool {
    format > u64::from(FORMAT_VERSION)
}

fn newer(format: u64) -> Wrong {
    let what = format!("has format {format}, and this tool knows formats up to {FORMAT_VERSION}");
    (DamageKind::Newer, what)
}
