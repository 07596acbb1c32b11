//! Text of others before it is printed: names of files, words of compilers, results of kernels. On a terminal a control
//! character moves the cursor or the window's title; in the log of a GitHub job, a line that begins with `::`, or holds `##[`, is an
//! order to the runner, and could hide the annotations of the gate that printed it.

use std::borrow::Cow;

/// `text` without what a terminal or a job's runner would obey. Styles, line ends and tabs stay.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    let tame = text.lines().all(|line| !is_order(line)) && !text.chars().any(|one| one.is_control() && one != '\n');
    if tame {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive('\n') {
        let line = visible(line);
        // Only what begins a line is an order, blanks and styles aside.
        if begins(&line).starts_with("::") {
            safe.push('\\');
        }
        safe.push_str(&line.replace("##[", "# #["));
    }
    Cow::Owned(safe)
}

fn is_order(line: &str) -> bool {
    line.trim_start().starts_with("::") || line.contains("##[")
}

/// A line from its first character on that is neither blank nor of a style.
fn begins(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some(style) = style_at(rest) {
        rest = rest[style..].trim_start();
    }
    rest
}

/// Control characters as their pictures.
fn visible(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(style) = style_at(rest) {
            safe.push_str(&rest[..style]);
            rest = &rest[style..];
            continue;
        }
        rest = &rest[first.len_utf8()..];
        safe.push(match first {
            '\n' | '\t' => first,
            '\u{7f}' => '␡',
            '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(first)).unwrap_or('\u{fffd}'),
            _ if first.is_control() => '\u{fffd}',
            _ => first,
        });
    }
    safe
}

/// Bytes of the style that `text` begins with: `ESC [ numbers m`, and no other sequence.
fn style_at(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let end = inside.find(|one: char| !one.is_ascii_digit() && one != ';')?;
    inside[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_is_tame_stays_as_it_is() {
        for text in ["", "a::b\n", "  error: x\n\tat y", "\u{1b}[1;32m  Checked\u{1b}[0m ü\n"] {
            assert_eq!(harmless(text), text);
        }
    }

    #[test]
    fn a_line_is_no_order_to_a_runner() {
        let orders =
            ["::stop-commands::x", "a\n  ::error file=x::y\n", "\u{1b}[1m::error::y", "\r::error::x", "x ##[error]y"];
        for order in orders {
            let safe = harmless(order);
            let obeys = |line: &str| {
                let plain: String = line.replace("\u{1b}[1m", "");
                plain.trim_start().starts_with("::") || plain.contains("##[")
            };
            assert!(!safe.lines().any(obeys), "{safe:?}");
        }
    }

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(harmless("a\rb\u{1b}]0;title\u{7}c\u{1b}[2Jd\u{9b}e"), "a␍b␛]0;title␇c␛[2Jd\u{fffd}e");
        assert_eq!(harmless("\u{1b}[31mred\u{1b}[0m\u{8}\n"), "\u{1b}[31mred\u{1b}[0m␈\n");
    }
}
