//! What stands around every page: the head with the rules for the browser, the style, and parts that all pages use.

use sha2::{Digest as _, Sha256};

use super::markup::Markup;

/// The style of every page. No part of it asks for anything outside of the file.
const STYLE: &str = include_str!("style.css");

/// The letters of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A whole document.
#[must_use]
pub fn document(title: &str, body: &Markup) -> String {
    // Everything is forbidden but this very style and the empty icon: a browser that is tricked into asking for something
    // does not ask.
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        base64(&Sha256::digest(STYLE))
    );
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>").line();
    page.element("html", &[("lang", "en")], |html| {
        html.line().element("head", &[], |head| {
            head.single("meta", &[("charset", "utf-8")]).line();
            head.single("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]).line();
            head.single("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]).line();
            head.single("meta", &[("name", "color-scheme"), ("content", "light dark")]).line();
            head.single("meta", &[("name", "referrer"), ("content", "no-referrer")]).line();
            head.single("link", &[("rel", "icon"), ("href", "data:,")]).line();
            head.leaf("title", &[], title).line();
            head.element("style", &[], |style| {
                style.own(STYLE);
            });
        });
        html.line().element("body", &[], |inside| {
            inside.element("main", &[], |main| {
                main.put(body);
            });
        });
    });
    page.line();
    page.into_string()
}

/// A heading with what follows it.
pub fn section(to: &mut Markup, id: &str, heading: &str, inside: impl FnOnce(&mut Markup)) {
    to.element("section", &[("id", id)], |section| {
        section.leaf("h2", &[], heading);
        inside(section);
    })
    .line();
}

/// A plot with what it shows in words; `wide` ones in a frame that scrolls by itself.
pub fn figure(to: &mut Markup, wide: bool, caption: &str, plot: &Markup) {
    to.element("figure", &[], |figure| {
        match wide {
            true => figure.element("div", &scrolls("A plot that scrolls", "scroll wide"), |scroll| {
                scroll.put(plot);
            }),
            false => figure.put(plot),
        };
        figure.leaf("figcaption", &[], caption);
    })
    .line();
}

/// A table in a frame that scrolls by itself. The first cell of each row names the row.
pub fn table<Cell: AsRef<str>>(to: &mut Markup, name: &str, heads: &[&str], rows: &[Vec<Cell>]) {
    to.element("div", &scrolls(name, "scroll"), |scroll| {
        scroll.element("table", &[], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for name in heads {
                        row.leaf("th", &[("scope", "col")], name);
                    }
                });
            });
            table.element("tbody", &[], |body| {
                for cells in rows {
                    body.element("tr", &[], |row| {
                        for (at, cell) in cells.iter().enumerate() {
                            match at {
                                0 => row.leaf("th", &[("scope", "row")], cell.as_ref()),
                                _ => row.leaf("td", &[], cell.as_ref()),
                            };
                        }
                    });
                }
            });
        });
    })
    .line();
}

/// What scrolls must be reached by keyboard, and so have a name.
pub const fn scrolls<'a>(name: &'a str, class: &'a str) -> [(&'static str, &'a str); 4] {
    [("class", class), ("tabindex", "0"), ("role", "group"), ("aria-label", name)]
}

/// The numbers of a plot, folded.
pub fn numbers<Cell: AsRef<str>>(to: &mut Markup, name: &str, heads: &[&str], rows: &[Vec<Cell>]) {
    to.element("details", &[("class", "numbers")], |details| {
        details.leaf("summary", &[], name);
        table(details, name, heads, rows);
    });
}

/// Names with what is said of them.
pub fn facts(to: &mut Markup, rows: &[(&str, String)]) {
    to.element("dl", &[], |list| {
        for (name, said) in rows {
            list.leaf("dt", &[], name);
            list.leaf("dd", &[], said);
        }
    })
    .line();
}

/// A list of sentences; nothing where there is none.
pub fn list(to: &mut Markup, items: &[String]) {
    if items.is_empty() {
        return;
    }
    to.element("ul", &[], |list| {
        for item in items {
            list.leaf("li", &[], item);
        }
    })
    .line();
}

/// Thirty-two bytes are no reason for another crate.
fn base64(bytes: &[u8]) -> String {
    let letter = |group: u32, at: u32| char::from(LETTERS[(group >> (18 - 6 * at) & 63) as usize]);
    let of = |three: &[u8]| {
        let group = three.iter().fold(0, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        (0..4).map(|at| if at as usize <= three.len() { letter(group, at) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn the_style_asks_for_nothing_and_cannot_end_early() {
        for word in ["url(", "@import", "</", "http", "src:"] {
            assert!(!STYLE.contains(word), "`{word}` in the style");
        }
    }
}
