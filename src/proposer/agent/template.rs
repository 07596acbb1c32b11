//! The command line of an agent: words as a shell would split them, with placeholders. No shell is run, so what only a
//! shell can do is refused by name instead of being handed to a program that takes it for a file.

use crate::error::{Error, Result};

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `prompt.md`.
    PromptFile,
    /// The workspace in the campaign's worktree.
    Worktree,
    /// The kernel's crate in it.
    Crate,
    /// The round's folder.
    RoundDir,
    /// The round's number.
    Round,
    /// The attempt's number.
    Attempt,
    /// Whole seconds that the agent has.
    TimeS,
}

const PLACES: [(&str, Place); 7] = [
    ("prompt_file", Place::PromptFile),
    ("worktree", Place::Worktree),
    ("crate", Place::Crate),
    ("round_dir", Place::RoundDir),
    ("round", Place::Round),
    ("attempt", Place::Attempt),
    ("time_s", Place::TimeS),
];

/// Part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place(Place),
}

/// A command line with gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    program: String,
    arguments: Vec<Vec<Piece>>,
}

impl Template {
    /// Reads a command line.
    ///
    /// # Errors
    /// When a quotation does not end, a placeholder is unknown, a shell is needed, or there is no program.
    pub fn parse(command: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::setup(format!("the command of the agent cannot be read: {what}")).cause(format!("it is: {command}"))
        };
        let mut words = split(command).map_err(wrong)?.into_iter();
        let Some(program) = words.next().filter(|word| !word.is_empty()) else {
            return Err(wrong("it names no program".to_owned()));
        };
        if !matches!(&pieces(&program).map_err(wrong)?[..], [Piece::Text(_)]) {
            return Err(wrong("the program itself cannot be a placeholder".to_owned()));
        }
        let arguments = words.map(|word| pieces(&word)).collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Self { program, arguments })
    }

    /// The program, as written.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Whether the prompt is named among the arguments; else it is the standard input.
    pub fn names_prompt(&self) -> bool {
        self.arguments.iter().flatten().any(|piece| *piece == Piece::Place(Place::PromptFile))
    }

    /// The arguments with every gap filled. A value is never split, whatever is in it.
    pub fn filled(&self, value: impl Fn(Place) -> String) -> Vec<String> {
        let fill = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Place(place) => value(*place),
        };
        self.arguments.iter().map(|word| word.iter().map(fill).collect()).collect()
    }
}

/// Words, with quotes and backslashes as in a shell.
fn split(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a `'` is not closed")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a `\"` is not closed")? {
                        '"' => break,
                        '\\' => match rest.next().ok_or("a `\"` is not closed")? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next().ok_or("it ends in a backslash")?),
            '|' | '&' | ';' | '<' | '>' | '$' | '`' | '\0' => {
                return Err(format!("`{c}` needs a shell, and none is run; quote it, or put the line into a script"));
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word in pieces. Braces are a placeholder only around a name, so that JSON can be an argument.
fn pieces(word: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        let (before, inside) = (&rest[..start], &rest[start + 1..]);
        let length = inside.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(inside.len());
        let name = &inside[..length];
        text.push_str(before);
        if name.is_empty() || !inside[length..].starts_with('}') {
            text.push('{');
            rest = inside;
            continue;
        }
        let Some((_, place)) = PLACES.iter().find(|(known, _)| *known == name) else {
            let names = PLACES.map(|(known, _)| known);
            return Err(match kopt_schema::nearest(name, names) {
                Some(near) => format!("unknown placeholder `{{{name}}}`; did you mean `{{{near}}}`?"),
                None => format!("unknown placeholder `{{{name}}}`; known: {}", names.join(", ")),
            });
        };
        if !text.is_empty() {
            found.push(Piece::Text(std::mem::take(&mut text)));
        }
        found.push(Piece::Place(*place));
        rest = &inside[length + 1..];
    }
    text.push_str(rest);
    if !text.is_empty() || found.is_empty() {
        found.push(Piece::Text(text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(command: &str) -> Vec<String> {
        Template::parse(command).unwrap().filled(|place| format!("<{place:?} x>"))
    }

    fn wrong(command: &str) -> String {
        Template::parse(command).unwrap_err().to_string()
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        assert_eq!(arguments(r#"p a 'b c' "d \" \n" e\ f '' g'h'"i""#), ["a", "b c", "d \" \\n", "e f", "", "ghi"]);
        assert_eq!(arguments("p  \t a\n"), ["a"]);
        assert_eq!(Template::parse("'my agent' x").unwrap().program(), "my agent");
    }

    #[test]
    fn placeholders_are_filled_without_being_split_and_other_braces_stay() {
        assert_eq!(arguments("p --in={prompt_file}:{round}"), ["--in=<PromptFile x>:<Round x>"]);
        assert_eq!(arguments(r#"p '{"a": {"b": 1}}' {} {A} {"#), ["{\"a\": {\"b\": 1}}", "{}", "{A}", "{"]);
        assert!(Template::parse("p {prompt_file}").unwrap().names_prompt());
        assert!(!Template::parse("p prompt_file {crate}").unwrap().names_prompt());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert!(wrong("p {promt_file}").ends_with("unknown placeholder `{promt_file}`; did you mean `{prompt_file}`?"));
        assert!(wrong("p {x}").contains("known: prompt_file, "));
        assert!(wrong("p 'a").ends_with("a `'` is not closed"));
        assert!(wrong("p \"a\\").ends_with("a `\"` is not closed"));
        assert!(wrong("p a\\").ends_with("it ends in a backslash"));
        assert!(wrong("p a | q").contains("`|` needs a shell"));
        assert!(wrong("p $HOME").contains("`$` needs a shell"));
        for empty in ["", "  ", "''", "'' a"] {
            assert!(wrong(empty).ends_with("it names no program"), "{empty}");
        }
        assert!(wrong("{crate}/agent").ends_with("the program itself cannot be a placeholder"));
    }
}
