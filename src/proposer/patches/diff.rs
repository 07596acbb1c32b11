//! A unified diff as git writes it, read into data. Everything that can be wrong with a patch by itself is found here,
//! when its queue is opened; whether it fits the files is for `apply`.

use camino::{Utf8Path, Utf8PathBuf};

/// What a patch does to one file. Paths are relative to the crate, and may climb out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file it starts from; none where it is made.
    pub old: Option<Utf8PathBuf>,
    /// The file it leads to; none where it is removed.
    pub new: Option<Utf8PathBuf>,
    /// The old file stays.
    pub copies: bool,
    /// Whether it can be run afterwards, where that is said.
    pub executable: Option<bool>,
    /// In the order of the file.
    pub hunks: Vec<Hunk>,
}

/// Some lines in place of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Its line in the patch file, from 1.
    pub at: usize,
    /// Where it was in the old file, from 1; 0 where that was empty.
    pub start: usize,
    /// What stands there, each line with its end.
    pub old: Vec<String>,
    /// What will.
    pub new: Vec<String>,
    /// Lines at the end that are in both.
    pub trailing: usize,
}

/// What a patch does, file by file.
///
/// # Errors
/// When it cannot be read, does nothing, or does something that cannot be done here, in words.
pub fn parse(patch: &str) -> Result<Vec<FileChange>, String> {
    let mut reader = Reader { lines: patch.split_inclusive('\n').collect(), at: 0 };
    let mut changes = Vec::new();
    while reader.seek() {
        changes.push(reader.change()?);
    }
    if changes.is_empty() {
        return Err("it has no diff".to_owned());
    }
    Ok(changes)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).map(|line| line.trim_end_matches('\n'))
    }

    fn next_is(&self, start: &str) -> bool {
        self.lines.get(self.at + 1).is_some_and(|line| line.starts_with(start))
    }

    /// What is wrong with the line that is being read.
    fn here<T>(&self, wrong: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("line {}: {wrong}", self.at + 1))
    }

    /// Goes on to the next file; text between files is for people.
    fn seek(&mut self) -> bool {
        while let Some(line) = self.peek() {
            if line.starts_with("diff --git ") || (line.starts_with("--- ") && self.next_is("+++ ")) {
                return true;
            }
            self.at += 1;
        }
        false
    }

    fn change(&mut self) -> Result<FileChange, String> {
        let first = self.at;
        let mut change = FileChange { old: None, new: None, copies: false, executable: None, hunks: Vec::new() };
        // Names of the line `diff --git a/x b/x`, for changes that have no other.
        let mut both = None;
        if let Some(names) = self.peek().and_then(|line| line.strip_prefix("diff --git ")) {
            both = Some(names);
            self.at += 1;
        }
        let (mut made, mut removed, mut moved, mut named) = (false, false, false, false);
        while let Some(line) = self.peek() {
            let (word, rest) = line.split_at(line.find(|c: char| c.is_ascii_digit()).unwrap_or(line.len()));
            match word {
                "new mode " => change.executable = Some(self.mode(rest)?),
                "new file mode " => (made, change.executable) = (true, Some(self.mode(rest)?)),
                "deleted file mode " => removed = self.mode(rest).map(|_| true)?,
                _ if ["old mode ", "similarity index ", "dissimilarity index "].contains(&word) => {}
                _ if line.starts_with("index ") => {}
                _ if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") => {
                    return self.here("a binary change; only text can be proposed");
                }
                _ => {
                    let path = |start| line.strip_prefix(start).map(Utf8Path::new);
                    if let Some(old) = path("rename from ").or_else(|| path("copy from ")) {
                        (moved, change.copies) = (true, line.starts_with("copy"));
                        change.old = Some(self.usable(old)?);
                    } else if let Some(new) = path("rename to ").or_else(|| path("copy to ")) {
                        change.new = Some(self.usable(new)?);
                    } else {
                        break;
                    }
                }
            }
            self.at += 1;
        }
        if self.peek().is_some_and(|line| line.starts_with("--- ")) && self.next_is("+++ ") {
            named = true;
            change.old = self.side("--- ")?;
            change.new = self.side("+++ ")?;
        }
        if !named && !moved {
            let Some(path) = both.and_then(same_twice) else { return self.here("it does not say which file changes") };
            let path = Some(self.stripped(path)?);
            (change.old, change.new) = (path.clone().filter(|_| !made), path.filter(|_| !removed));
        }
        if change.old.is_none() && change.new.is_none() {
            return self.here("a file that neither was nor will be");
        }
        while self.peek().is_some_and(|line| line.starts_with("@@")) {
            change.hunks.push(self.hunk()?);
        }
        // A file that is made or removed may be empty; one that only changes may not stay as it is.
        if change.hunks.is_empty() && change.old == change.new && change.executable.is_none() {
            self.at = first;
            return self.here("a file that does not change");
        }
        if let Some(line) = self.peek()
            && line.starts_with(['+', '-', ' ', '\\'])
            && !matches!(line.trim_end(), "--")
            && !(line.starts_with("--- ") && self.next_is("+++ "))
        {
            return self.here("more lines than the hunk before it says to have");
        }
        Ok(change)
    }

    /// Whether a file of this mode can be run.
    fn mode(&self, digits: &str) -> Result<bool, String> {
        match digits.trim_end() {
            "100755" => Ok(true),
            "100644" => Ok(false),
            "120000" => self.here("a symbolic link; only plain files can be proposed"),
            other => self.here(format!("a file of mode {other}; only plain files can be proposed")),
        }
    }

    /// The path after `---` or `+++`; none for a file that is not there.
    fn side(&mut self, start: &str) -> Result<Option<Utf8PathBuf>, String> {
        let line = self.peek().and_then(|line| line.strip_prefix(start)).unwrap_or_default();
        // A plain diff has the time after a tab.
        let path = line.split('\t').next().unwrap_or(line);
        let side = if path == "/dev/null" { Ok(None) } else { self.stripped(path).map(Some) };
        self.at += 1;
        side
    }

    /// Without the letter that git puts before a path.
    fn stripped(&self, path: &str) -> Result<Utf8PathBuf, String> {
        if path.starts_with('"') {
            return self.here(format!("{path}: names with such characters are not supported"));
        }
        if path.starts_with('/') {
            return self.here(format!("`{path}` is absolute; paths are relative to the crate"));
        }
        match path.split_once('/') {
            Some(("a" | "b" | "c" | "i" | "o" | "w", rest)) => self.usable(Utf8Path::new(rest)),
            _ => self.here(format!("`{path}` does not start with `a/` or `b/`, as git writes it by default")),
        }
    }

    fn usable(&self, path: &Utf8Path) -> Result<Utf8PathBuf, String> {
        let text = path.as_str();
        if path.is_absolute() || text.is_empty() || text.starts_with('"') || text.contains(char::is_control) {
            return self.here(format!("`{}` is no path relative to the crate", text.escape_debug()));
        }
        Ok(path.to_owned())
    }

    fn hunk(&mut self) -> Result<Hunk, String> {
        let at = self.at + 1;
        let header = self.peek().and_then(ranges);
        let Some(([start, mut old_left], [_, mut new_left])) = header else {
            return self.here("this does not read `@@ -line,count +line,count @@`");
        };
        self.at += 1;
        let mut hunk = Hunk { at, start, old: Vec::new(), new: Vec::new(), trailing: 0 };
        while old_left > 0 || new_left > 0 {
            let Some(line) = self.lines.get(self.at) else {
                return Err(format!("line {at}: the file ends before the hunk does"));
            };
            // Editors strip the space of an empty line.
            let (sign, rest) = if *line == "\n" { (" ", "\n") } else { line.split_at_checked(1).unwrap_or(("", "")) };
            let (in_old, in_new) = match sign {
                " " => (true, true),
                "-" => (true, false),
                "+" => (false, true),
                _ => return self.here(format!("the hunk of line {at} has fewer lines than it says")),
            };
            if (in_old && old_left == 0) || (in_new && new_left == 0) {
                return self.here(format!("the hunk of line {at} has other lines than it says"));
            }
            let unended = self.lines.get(self.at + 1).is_some_and(|line| line.starts_with('\\'));
            let text = if unended { rest.trim_end_matches('\n') } else { rest };
            if !unended && !rest.ends_with('\n') {
                return self.here("the patch ends in the middle of a line");
            }
            if in_old {
                old_left -= 1;
                hunk.old.push(text.to_owned());
            }
            if in_new {
                new_left -= 1;
                hunk.new.push(text.to_owned());
            }
            hunk.trailing = if in_old && in_new { hunk.trailing + 1 } else { 0 };
            self.at += if unended { 2 } else { 1 };
        }
        if hunk.old == hunk.new {
            return Err(format!("line {at}: a hunk that changes nothing"));
        }
        Ok(hunk)
    }
}

/// `@@ -3,7 +3,8 @@ …`: line and count of both sides.
fn ranges(line: &str) -> Option<([usize; 2], [usize; 2])> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some([start.parse().ok()?, count.parse().ok()?])
    };
    Some((range(old)?, range(new)?))
}

/// `a/x` of `a/x b/x`. Names may have spaces, so it is split in the middle.
fn same_twice(names: &str) -> Option<&str> {
    let (old, new) = names.split_at_checked(names.len() / 2)?;
    let new = new.strip_prefix(' ')?;
    (old.split_once('/')?.1 == new.split_once('/')?.1).then_some(old)
}
