//! Chosen knob values. They live in `kernels/<op>_knobs.h` as `#define NAME 128`, so that a tuner changes a kernel
//! source and nothing else, and a launch plan can use the same number as the code.

use std::collections::BTreeMap;

/// The integer `#define`s of a header.
#[must_use]
pub fn defined(header: &str) -> BTreeMap<String, i64> {
    let integers = defines(header).filter_map(|(name, value)| Some((name, integer(&value)?)));
    integers.collect()
}

/// What a header defines as `name` that is no plain integer: a plan could not use the number that the code does.
#[must_use]
pub fn unreadable(header: &str, name: &str) -> Option<String> {
    defines(header).find(|(known, value)| known == name && integer(value).is_none()).map(|(_, value)| value)
}

/// Names and what stands behind them, without comments.
fn defines(header: &str) -> impl Iterator<Item = (String, String)> {
    header.lines().filter_map(|line| {
        let line = without_comments(line);
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?.trim_start();
        let (name, value) = rest.split_once(char::is_whitespace)?;
        (!value.trim().is_empty()).then(|| (name.to_owned(), value.trim().to_owned()))
    })
}

/// A line with a space for each comment, as a compiler reads it.
fn without_comments(line: &str) -> String {
    let (mut text, mut rest) = (String::new(), line);
    while let Some(start) = ["/*", "//"].iter().filter_map(|mark| rest.find(mark)).min() {
        let is_last = rest[start..].starts_with("//");
        text.push_str(&rest[..start]);
        text.push(' ');
        rest = match rest[start..].find("*/") {
            Some(end) if !is_last => &rest[start + end + 2..],
            _ => "",
        };
    }
    text + rest
}

fn integer(value: &str) -> Option<i64> {
    let bare = value.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(value);
    bare.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn integer_defines_are_read_and_others_passed_over() {
        let header = "#ifndef K\n#define K\n# define TILE 64 // wide\n#define UNROLL (4)\n#define F 1.5f\n#endif\n";
        let expected = [("TILE".to_owned(), 64), ("UNROLL".to_owned(), 4)];
        assert_eq!(super::defined(header), expected.into());
    }

    #[test]
    fn what_is_no_plain_integer_is_told_and_not_guessed() {
        let header = "#define A (64 * 2)\n#define B 0x80\n#define C 128u\n#define D 64/* wide */\n#define E\n";
        assert_eq!(super::defined(header), [("D".to_owned(), 64)].into());
        let unreadable = |name: &str| super::unreadable(header, name);
        assert_eq!(["A", "B", "C"].map(unreadable), ["(64 * 2)", "0x80", "128u"].map(|value| Some(value.to_owned())));
        assert_eq!(["D", "E", "F"].map(unreadable), [None, None, None]);
    }

    #[test]
    fn comments_are_spaces() {
        let header = "#define A /* wide */ 64\n#define B/**/32\n/* a */ #define C 1 /* b */ // c\n#define D /* 8\n// #define E 4\n";
        let expected = [("A", 64), ("B", 32), ("C", 1)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(super::defined(header), expected.into());
    }
}
