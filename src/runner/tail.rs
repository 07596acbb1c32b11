//! Files that another process is still writing, read as they grow.

use std::fs::File;
use std::io::Read;

use camino::Utf8Path;
use kopt_schema::exit::Exit;

use crate::error::{Error, Result};

/// Whole lines, as they are finished.
#[derive(Debug)]
pub struct Lines {
    file: File,
    rest: Vec<u8>,
}

impl Lines {
    /// Starts at the beginning of `path`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Utf8Path) -> Result<Self> {
        Ok(Self { file: open(path)?, rest: Vec::new() })
    }

    /// The lines finished since the last call.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn new_lines(&mut self) -> Result<Vec<String>> {
        read_on(&mut self.file, &mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole);
        Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
    }

    /// A last line without its end.
    #[must_use]
    pub fn unfinished(&self) -> Option<String> {
        (!self.rest.is_empty()).then(|| String::from_utf8_lossy(&self.rest).into_owned())
    }
}

/// Text of any kind, of which the end is kept.
#[derive(Debug)]
pub struct Text {
    file: File,
    kept: Vec<u8>,
    most: usize,
    cut: bool,
}

impl Text {
    /// Starts at the beginning of `path` and keeps the last `most` bytes.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Utf8Path, most: usize) -> Result<Self> {
        Ok(Self { file: open(path)?, kept: Vec::new(), most, cut: false })
    }

    /// What was written since the last call.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn new_text(&mut self) -> Result<Option<String>> {
        let mut more = Vec::new();
        read_on(&mut self.file, &mut more)?;
        if more.is_empty() {
            return Ok(None);
        }
        self.kept.extend_from_slice(&more);
        let over = self.kept.len().saturating_sub(self.most);
        self.cut |= over > 0;
        self.kept.drain(..over);
        Ok(Some(String::from_utf8_lossy(&more).into_owned()))
    }

    /// The end of it, from the start of a line.
    #[must_use]
    pub fn kept(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        match (self.cut, text.split_once('\n')) {
            (true, Some((_, rest))) => format!("…\n{rest}"),
            _ => text.into_owned(),
        }
    }
}

fn open(path: &Utf8Path) -> Result<File> {
    File::open(path).map_err(|error| Error::new(Exit::Internal, format!("cannot open `{path}`")).because(&error))
}

fn read_on(file: &mut File, into: &mut Vec<u8>) -> Result<()> {
    file.read_to_end(into)
        .map(drop)
        .map_err(|error| Error::new(Exit::Internal, "cannot read what a process wrote").because(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_is_told_once_and_only_when_it_is_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut lines = Lines::open(Utf8Path::from_path(file.path()).unwrap()).unwrap();
        write!(file, "a\n\nb\nc").unwrap();
        assert_eq!(lines.new_lines().unwrap(), ["a", "b"]);
        assert_eq!(lines.unfinished().as_deref(), Some("c"));
        writeln!(file, "d").unwrap();
        assert_eq!(lines.new_lines().unwrap(), ["cd"]);
        assert_eq!(lines.unfinished(), None);
    }

    #[test]
    fn the_end_of_a_long_text_is_kept_from_a_line_start() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut text = Text::open(Utf8Path::from_path(file.path()).unwrap(), 12).unwrap();
        assert_eq!(text.new_text().unwrap(), None);
        write!(file, "first line\nsecond\nthird\n").unwrap();
        assert!(text.new_text().unwrap().unwrap().starts_with("first"));
        assert_eq!(text.kept(), "…\nthird\n");
    }
}
