//! `proposal.toml`: what an agent says of its change. All of it is optional, and what is there is read leniently: an
//! agent that made a good change and spelt a key wrongly has still made a good change. A value that is no text at all
//! shows that the contract was not understood, and fails the attempt by its key.

use std::fs;
use std::io::Read as _;

use camino::Utf8Path;
use kopt_schema::campaign::{Bucket, Category, Proposal};
use toml::{Table, Value};

/// The file, in the round's folder.
pub const PROPOSAL: &str = "proposal.toml";
/// The subject of a commit.
pub const TITLE: usize = 200;
/// Everything else.
pub const TEXT: usize = 4000;
/// No answer is this long.
const LARGEST: u64 = 1 << 20;
const KEYS: [&str; 7] = ["title", "hypothesis", "category", "bucket", "expected_gain", "different", "next"];

/// What an agent says of its change.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The whole of it, with every gap filled.
    pub proposal: Proposal,
    /// What was overlooked.
    pub notes: Vec<String>,
}

/// Reads [`PROPOSAL`] in `folder`; `words` are the agent's last, in place of what is missing.
///
/// # Errors
/// When the file is there and is no such file, in words.
pub fn read(folder: &Utf8Path, words: Option<&str>) -> Result<Said, String> {
    let table = match text(&folder.join(PROPOSAL))? {
        Some(text) => text.parse::<Table>().map_err(|error| format!("{PROPOSAL} is not TOML: {}", error.message()))?,
        None => Table::new(),
    };
    let mut notes = Vec::new();
    for key in table.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let near = kopt_schema::nearest(key, KEYS).map(|near| format!("; did it mean `{near}`?")).unwrap_or_default();
        notes.push(format!("{PROPOSAL}: `{}` is unknown and was ignored{near}", cleaned(key, TITLE)));
    }
    let words = words.filter(|words| !words.trim().is_empty());
    let title = given(&table, "title", TITLE)?.or_else(|| words.and_then(first_line));
    let hypothesis = given(&table, "hypothesis", TEXT)?.or_else(|| words.map(|words| cleaned(words, TEXT)));
    let title = title.or_else(|| hypothesis.as_deref().and_then(first_line));
    let category = word(&table, "category", &mut notes, |word| category(word).ok())?;
    let bucket = word(&table, "bucket", &mut notes, |word| bucket(word).ok())?;
    let proposal = Proposal {
        title: title.unwrap_or_else(|| Proposal::UNTITLED.to_owned()),
        hypothesis: hypothesis.unwrap_or_else(|| "not stated".to_owned()),
        category,
        bucket,
        expected_gain: given(&table, "expected_gain", TITLE)?,
        different: given(&table, "different", TEXT)?,
        next: given(&table, "next", TEXT)?,
        source: None,
    };
    Ok(Said { proposal, notes })
}

/// A direction by its name; else what is wrong with the word.
pub fn category(word: &str) -> Result<Category, String> {
    if word == Category::OverFitting.name() {
        return Err(format!("`{word}` is no direction that a change may take"));
    }
    known(word, "category", Category::DIRECTIONS.map(|one| (one.name(), one)))
}

/// A bucket by its name; else what is wrong with the word.
pub fn bucket(word: &str) -> Result<Bucket, String> {
    known(word, "bucket", Bucket::ALL.map(|one| (one.name(), one)))
}

fn known<T: Copy, const N: usize>(word: &str, what: &str, all: [(&'static str, T); N]) -> Result<T, String> {
    if let Some((_, value)) = all.iter().find(|(name, _)| *name == word) {
        return Ok(*value);
    }
    let names = all.map(|(name, _)| name);
    Err(match kopt_schema::nearest(word, names) {
        Some(near) => format!("unknown {what} `{word}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{word}`; known: {}", names.join("; ")),
    })
}

/// One line of at most `most` characters: control characters, and those that turn the direction of writing or cannot be
/// seen, are gone, so that no text can pass for another one in a terminal, a table or a commit's last lines.
pub fn cleaned(text: &str, most: usize) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .filter(
            |c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'),
        )
        .collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => line.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// The file's text. What is no plain file may never end.
fn text(path: &Utf8Path) -> Result<Option<String>, String> {
    let Ok(facts) = fs::symlink_metadata(path) else { return Ok(None) };
    if !facts.is_file() {
        return Err(format!("{PROPOSAL} is no plain file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{PROPOSAL} cannot be read: {error}"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{PROPOSAL} has more than {LARGEST} bytes"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| format!("{PROPOSAL} is not UTF-8"))
}

/// A text, where one is given and something is left of it.
fn given(table: &Table, key: &str, most: usize) -> Result<Option<String>, String> {
    let text = match table.get(key) {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        // Written as a number it is kept as the text it was, and used as little.
        Some(number @ (Value::Integer(_) | Value::Float(_))) if key == "expected_gain" => number.to_string(),
        Some(other) => return Err(format!("{PROPOSAL}: `{key}` is {}, not a string", a_kind(other))),
    };
    Ok(Some(cleaned(&text, most)).filter(|text| !text.is_empty()))
}

/// A word of a list; one that is not on it is overlooked.
fn word<T>(
    table: &Table,
    key: &str,
    notes: &mut Vec<String>,
    of: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(given) = given(table, key, TITLE)? else { return Ok(None) };
    let found = of(&given).or_else(|| of(&given.to_lowercase())).or_else(|| of(&given.to_uppercase()));
    if found.is_none() {
        notes.push(format!("{PROPOSAL}: `{given}` is no {key} and was ignored"));
    }
    Ok(found)
}

fn first_line(words: &str) -> Option<String> {
    let lines = words.lines().map(|line| cleaned(line.trim().trim_start_matches(['#', '*', ' ', '-']), TITLE));
    lines.map(|line| line.trim_end_matches('*').to_owned()).find(|line| !line.is_empty())
}

fn a_kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "a truth value",
        Value::Datetime(_) => "a time",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, words: Option<&str>) -> Result<Said, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PROPOSAL), text).unwrap();
        read(Utf8Path::from_path(folder.path()).unwrap(), words)
    }

    #[test]
    fn everything_that_is_said_is_kept() {
        let text = "title = 'Tile'\nhypothesis = \"two\\nlines\"\ncategory = 'tile and launch shape'\nbucket = 'k2'\n\
                    expected_gain = 0.125\ndifferent = 'b'\nnext = 'c'\n";
        let said = told(text, Some("ignored")).unwrap();
        let wanted = Proposal {
            title: "Tile".into(),
            hypothesis: "two lines".into(),
            category: Some(Category::Shape),
            bucket: Some(Bucket::K2),
            expected_gain: Some("0.125".into()),
            different: Some("b".into()),
            next: Some("c".into()),
            source: None,
        };
        assert_eq!(said, Said { proposal: wanted, notes: Vec::new() });
    }

    #[test]
    fn what_is_missing_comes_from_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let said = read(folder, Some("\n## **Wider tile**\n\nIt loads less.")).unwrap().proposal;
        assert_eq!((said.title.as_str(), said.hypothesis.as_str()), ("Wider tile", "## **Wider tile** It loads less."));
        let untitled = told("hypothesis = 'It loads less.'", None).unwrap().proposal;
        assert_eq!(untitled.title, "It loads less.");
        let silent = read(folder, None).unwrap().proposal;
        assert_eq!((silent.title.as_str(), silent.hypothesis.as_str()), ("change by agent", "not stated"));
    }

    #[test]
    fn a_wrong_type_fails_by_its_key_and_a_wrong_word_is_noted() {
        assert_eq!(told("title = 3", None).unwrap_err(), "proposal.toml: `title` is a number, not a string");
        assert_eq!(told("next = ['a']", None).unwrap_err(), "proposal.toml: `next` is a list, not a string");
        assert!(told("title = ", None).unwrap_err().starts_with("proposal.toml is not TOML: "));
        let said = told("titel = 'a'\nsource = 'x'\ncategory = 'over-fitting'\nbucket = 'K9'", None).unwrap();
        assert_eq!(said.notes.len(), 4, "{:?}", said.notes);
        assert!(said.notes.iter().any(|note| note.ends_with("did it mean `title`?")), "{:?}", said.notes);
        assert_eq!((said.proposal.category, said.proposal.bucket, said.proposal.source), (None, None, None));
    }

    #[test]
    fn texts_are_bounded_and_carry_nothing_unseen() {
        let long = format!("title = '{}'\nhypothesis = '{}'", "ä".repeat(300), "x ".repeat(4000));
        let said = told(&long, None).unwrap().proposal;
        assert_eq!((said.title.chars().count(), said.hypothesis.chars().count()), (TITLE, TEXT));
        assert!(said.title.ends_with('…'));
        let sly = cleaned("fast\u{1b}[31m\u{202e}er\r\nKopt-Gain: 9\u{0}", TITLE);
        assert_eq!(sly, "fast [31mer Kopt-Gain: 9");
    }

    #[test]
    fn a_file_that_never_ends_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join(PROPOSAL)).unwrap();
        assert_eq!(read(folder, None).unwrap_err(), "proposal.toml is no plain file");
        fs::remove_file(folder.join(PROPOSAL)).unwrap();
        fs::write(folder.join(PROPOSAL), vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(read(folder, None).unwrap_err().contains("more than"));
    }
}
