//! An error that points into a file: where, which key, what is wrong, what to do.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// One step of a path to a value in a TOML document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// An element of an array.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Something wrong in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the reader knows it.
    pub file: String,
    /// Line and column, from 1, where known.
    pub position: Option<(usize, usize)>,
    /// The dotted key, where the file has keys.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The offending line and the columns to underline.
    excerpt: Option<(String, Range<usize>)>,
}

impl Diagnostic {
    /// A complaint about a whole file.
    #[must_use]
    pub fn file(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, key: None, message: message.into(), hint: None, excerpt: None }
    }

    /// A complaint about bytes `span` of `text`.
    #[must_use]
    pub fn at(file: &str, text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_char(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line = text[..line_start].matches('\n').count() + 1;
        let columns = text[line_start..start].chars().count();
        let width = text[start..floor_char(text, span.end).clamp(start, line_end)].chars().count().max(1);
        Self {
            position: Some((line, columns + 1)),
            excerpt: Some((text[line_start..line_end].to_owned(), columns..columns + width)),
            ..Self::file(file, message)
        }
    }

    /// A complaint about the value at `path` of a TOML document.
    #[must_use]
    pub fn at_path(file: &str, text: &str, path: &[Step], message: impl Into<String>) -> Self {
        let found = span_of(text, path);
        let located = match found {
            Some(span) => Self::at(file, text, span, message),
            None => Self::file(file, message),
        };
        Self { key: Some(dotted(path)), ..located }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": `{key}`")?;
        }
        write!(f, ": {}", self.message)?;
        if let (Some((line, columns)), Some((number, _))) = (&self.excerpt, self.position) {
            let margin = number.to_string().len();
            write!(f, "\n {:margin$} |\n {number} | {line}\n {:margin$} | ", "", "")?;
            write!(f, "{:1$}{2}", "", columns.start, "^".repeat(columns.len()))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// `package.metadata.kopt.shapes[2].name`.
#[must_use]
pub fn dotted(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => out.extend([".", key]),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// Where the value at `path` stands; the nearest ancestor that exists if it does not.
#[must_use]
pub fn span_of(text: &str, path: &[Step]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut span = None;
    let mut table = Some(document.get_ref());
    let mut array = None;
    for step in path {
        let value = match step {
            Step::Key(key) => table?.get(key.as_str()),
            Step::Index(index) => array.and_then(|array: &toml::de::DeArray<'_>| array.get(*index)),
        };
        let Some(value) = value else { break };
        span = Some(value.span());
        (table, array) = (None, None);
        match value.get_ref() {
            DeValue::Table(inner) => table = Some(inner),
            DeValue::Array(inner) => array = Some(inner),
            _ => {}
        }
        if table.is_none() && array.is_none() {
            break;
        }
    }
    span
}

/// The path of the innermost value that holds byte `at`.
#[must_use]
pub fn path_at(text: &str, at: usize) -> Vec<Step> {
    fn descend(value: &DeValue<'_>, at: usize, path: &mut Vec<Step>) {
        match value {
            DeValue::Table(table) => walk_table(table, at, path),
            DeValue::Array(array) => {
                for (index, inner) in array.iter().enumerate() {
                    if inner.span().contains(&at) {
                        path.push(Step::Index(index));
                        return descend(inner.get_ref(), at, path);
                    }
                }
            }
            _ => {}
        }
    }
    fn walk_table(table: &DeTable<'_>, at: usize, path: &mut Vec<Step>) {
        for (key, value) in table.iter() {
            let nested = holds(value.get_ref(), at);
            if key.span().contains(&at) || value.span().contains(&at) || nested {
                path.push(Step::Key(key.get_ref().to_string()));
                return descend(value.get_ref(), at, path);
            }
        }
    }
    // A table written under a header spans only the header, so its keys are searched too.
    fn holds(value: &DeValue<'_>, at: usize) -> bool {
        match value {
            DeValue::Table(table) => table.iter().any(|(key, inner)| {
                key.span().contains(&at) || inner.span().contains(&at) || holds(inner.get_ref(), at)
            }),
            DeValue::Array(array) => array.iter().any(|inner| inner.span().contains(&at) || holds(inner.get_ref(), at)),
            _ => false,
        }
    }
    let mut path = Vec::new();
    if let Ok(document) = DeTable::parse(text) {
        walk_table(document.get_ref(), at, &mut path);
    }
    path
}

fn floor_char(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[a]\nb = 1\n[a.c]\nd = [1, { e = 2 }]\n";

    #[test]
    fn a_value_is_found_by_its_path_and_a_path_by_its_value() {
        let path = ["a".into(), "c".into(), "d".into(), 1.into(), "e".into()];
        let span = span_of(TEXT, &path).unwrap();
        assert_eq!(&TEXT[span.clone()], "2");
        assert_eq!(path_at(TEXT, span.start), path);
        assert_eq!(dotted(&path), "a.c.d[1].e");
    }

    #[test]
    fn the_text_shows_file_line_key_and_marks_the_columns() {
        let shown = Diagnostic::at_path("x.toml", TEXT, &["a".into(), "b".into()], "no").hint("yes").to_string();
        assert_eq!(shown, "x.toml:2:5: `a.b`: no\n   |\n 2 | b = 1\n   |     ^\nhint: yes");
    }
}
