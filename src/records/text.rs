//! Words of strangers, made harmless: a title from an agent or a message from a compiler may hold anything, and a record
//! must still be the document it claims to be.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Longest text of a table's cell; what is longer is cut at a word.
const CELL: usize = 160;

/// Lines of a message that are kept.
const LINES: usize = 40;

/// Characters of a line of a message that are kept.
const COLUMNS: usize = 200;

/// An absolute path with at least one folder: from the root, from a home or from a drive.
static MACHINE_PATH: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(^|[^\w/.\\])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+~-]+[/\\])+").ok());

/// On one line: no control characters, none that are invisible or turn the text around, no folders of a machine.
pub fn line(text: &str) -> String {
    let visible: String =
        text.chars().filter(|c| !is_invisible(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let collapsed = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    without_folders(&collapsed)
}

/// The same, for Markdown.
pub fn inline(text: &str) -> String {
    escaped(&line(text))
}

/// For a table: not too long, and `-` where there is nothing.
pub fn cell(text: &str) -> String {
    let text = cut(&line(text), CELL);
    if text.is_empty() { "-".to_owned() } else { escaped(&text) }
}

/// A quotation that keeps its lines. Nothing at the start of a line can be a heading or a list.
pub fn quote(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(inline).collect();
    let lines = lines.join("\n");
    lines.trim_matches('\n').lines().map(|line| format!("> {line}").trim_end().to_owned() + "\n").collect()
}

/// As it was said, by compiler or judge: an indented block, which nothing in it can close.
pub fn verbatim(text: &str) -> String {
    let mut lines: Vec<String> = text.trim_end().lines().map(verbatim_line).collect();
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(format!("    … and {more} lines more"));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn verbatim_line(text: &str) -> String {
    let visible: String = text
        .chars()
        .filter(|c| !is_invisible(*c) && (!c.is_control() || *c == '\t'))
        .map(|c| if c == '\t' { ' ' } else { c })
        .collect();
    let text = without_folders(&visible);
    let kept: String = text.chars().take(COLUMNS).collect();
    let end = if kept.len() < text.len() { "…" } else { "" };
    format!("    {kept}{end}")
}

/// A code span, whatever backticks the text has.
pub fn code(text: &str) -> String {
    let text = line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    if text.is_empty() { "-".to_owned() } else { format!("{fence}{gap}{text}{gap}{fence}") }
}

/// At most `most` characters, cut at a word, with `…` where something was cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    // A single long word is cut where it must be.
    let at = kept.rfind(' ').filter(|at| *at * 2 > kept.len()).unwrap_or(kept.len());
    format!("{}…", kept[..at].trim_end())
}

/// The text on lines of at most `width` characters, each after `indent`; words that are longer are broken.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.chars().count()).max(1);
    let (mut done, mut current) = (String::new(), String::new());
    let mut end = |current: &mut String| {
        if !current.is_empty() {
            done.push_str(&format!("{indent}{current}\n"));
            current.clear();
        }
    };
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(room) {
            let used = current.chars().count();
            if used > 0 && used + 1 + piece.len() > room {
                end(&mut current);
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.extend(piece);
        }
    }
    end(&mut current);
    done
}

/// A Markdown table. Cells are taken as they are.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let row = |cells: &mut dyn Iterator<Item = &str>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let mut text = row(&mut heading.iter().copied());
    text.push_str(&format!("|{}\n", "---|".repeat(heading.len())));
    for cells in rows {
        text.push_str(&row(&mut cells.iter().map(String::as_str)));
    }
    text
}

/// Folders of a machine tell nothing to anybody else: `…/softmax.c` is left of them.
fn without_folders(text: &str) -> String {
    match &*MACHINE_PATH {
        Some(path) => path.replace_all(text, |found: &Captures<'_>| format!("{}…/", &found[1])).into_owned(),
        None => text.to_owned(),
    }
}

/// Zero-width characters, byte-order marks, and those that change the direction of what follows.
pub const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn escaped(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    let mut text = String::with_capacity(line.len());
    let first_word = letters.iter().position(|c| *c == ' ').unwrap_or(letters.len());
    for (at, c) in letters.iter().enumerate() {
        let inside_a_word = at > 0
            && letters[at - 1].is_alphanumeric()
            && letters.get(at + 1).is_some_and(|next| next.is_alphanumeric());
        let special = match c {
            '\\' | '`' | '*' | '<' | '>' | '|' | '~' | '&' => true,
            // A bracket alone is no link, and intervals are full of them.
            ']' => matches!(letters.get(at + 1), Some('(' | '[' | ':')),
            '_' => !inside_a_word,
            '#' | '=' => at == 0,
            // A number may have a sign; a list or a rule may not begin.
            '-' | '+' => at == 0 && letters.get(1).is_none_or(|next| *next == ' ' || next == c),
            '.' | ')' => at > 0 && at + 1 == first_word && letters[..at].iter().all(char::is_ascii_digit),
            _ => false,
        };
        if special {
            text.push('\\');
        }
        text.push(*c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_without_tricks() {
        assert_eq!(line("  a\r\n\tb\u{1b}[31m\u{202e}c\u{200b} "), "a b [31mc");
    }

    #[test]
    fn folders_of_a_machine_are_left_out_and_others_kept() {
        for (given, left) in [
            ("/srv/someone/crate/kernels/softmax.c:12: error", "…/softmax.c:12: error"),
            ("in (/tmp/x/y)", "in (…/y)"),
            ("~/crate/a.c and C:\\Users\\b\\a.c", "…/a.c and …/a.c"),
            ("kernels/softmax.c, ../x/y and ./a/b", "kernels/softmax.c, ../x/y and ./a/b"),
            ("12 GB/s, a / b / c, https://example.org/a/b", "12 GB/s, a / b / c, https://example.org/a/b"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(line(given), left);
        }
    }

    #[test]
    fn a_cell_stays_in_its_table() {
        assert_eq!(cell("a | b\nc `x` <b>"), "a \\| b c \\`x\\` \\<b\\>");
        assert_eq!(cell(" \n"), "-");
        assert_eq!(cell("keep_this *not that*"), "keep_this \\*not that\\*");
        assert_eq!(cell("[x](y) ![z][w]"), "[x\\](y) ![z\\][w]");
        assert_eq!(cell("+12.3 % [+11.0, +13.6] at 96 %"), "+12.3 % [+11.0, +13.6] at 96 %");
        assert!(cell(&"word ".repeat(100)).chars().count() <= CELL);
    }

    #[test]
    fn nothing_in_a_quotation_opens_anything() {
        assert_eq!(quote("## Decision\n\n- x\n1. y\n===\n"), "> \\## Decision\n>\n> \\- x\n> 1\\. y\n> \\===\n");
        assert_eq!(verbatim("## Decision\n```\n\tx"), "    ## Decision\n    ```\n     x\n");
        assert_eq!(verbatim(&"x\n".repeat(50)).lines().last(), Some("    … and 10 lines more"));
        assert_eq!((code("a"), code("a`b``c"), code("")), ("`a`".into(), "``` a`b``c ```".into(), "-".into()));
    }

    #[test]
    fn text_is_cut_at_words_and_wrapped() {
        assert_eq!(cut("one two three", 9), "one two…");
        assert_eq!(cut("abcdefghij", 5), "abcd…");
        assert_eq!(wrap("one two three", 9, "  "), "  one two\n  three\n");
        assert_eq!(wrap("abcdefghij k", 4, ""), "abcd\nefgh\nij k\n");
    }
}
