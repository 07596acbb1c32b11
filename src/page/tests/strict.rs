//! A reader of pages that forgives nothing: every tag closed in its turn, every value quoted, nothing unescaped, no name
//! that these pages do not use. What it accepts, a browser reads in one way only.

use std::collections::BTreeSet;

/// Elements that pages are made of. What a stranger's words could open is not among them.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "main",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "div",
    "span",
    "b",
    "strong",
    "a",
    "ul",
    "li",
    "dl",
    "dt",
    "dd",
    "code",
    "pre",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "details",
    "summary",
    "footer",
    "svg",
    "desc",
    "g",
    "path",
    "circle",
    "rect",
    "text",
];

const ATTRIBUTES: &[&str] = &[
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "rel",
    "href",
    "id",
    "class",
    "tabindex",
    "role",
    "aria-label",
    "scope",
    "data-name",
    "viewBox",
    "d",
    "x",
    "y",
    "cx",
    "cy",
    "r",
    "width",
    "height",
    "transform",
];

/// What was read of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// All text, unescaped, with a line break after each piece.
    pub text: String,
    /// Names of the elements, in order.
    pub elements: Vec<String>,
    /// Every attribute with its value, unescaped.
    pub attributes: Vec<(String, String)>,
}

impl Page {
    pub fn count(&self, element: &str) -> usize {
        self.elements.iter().filter(|one| *one == element).count()
    }
}

/// Reads a page, or panics where it is wrong.
pub fn read(html: &str) -> Page {
    let mut rest = html.strip_prefix("<!DOCTYPE html>\n").expect("a doctype");
    let (mut page, mut open, mut ids) = (Page::default(), Vec::<String>::new(), BTreeSet::new());
    while !rest.is_empty() {
        let near = rest.chars().take(80).collect::<String>();
        let Some(inside) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            page.text.push_str(&unescaped(&rest[..end]));
            page.text.push('\n');
            rest = &rest[end..];
            continue;
        };
        let end = inside.find('>').unwrap_or_else(|| panic!("a tag without an end: {near}"));
        let (tag, after) = (&inside[..end], &inside[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of turn: {near}");
            continue;
        }
        let (tag, single) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(ELEMENTS.contains(&name), "element `{name}`: {near}");
        for (key, value) in read_attributes(attributes) {
            if key == "id" {
                assert!(ids.insert(value.clone()), "id `{value}` twice");
            }
            page.attributes.push((key, value));
        }
        page.elements.push(name.to_owned());
        if name == "style" {
            let end = rest.find("</style>").expect("the style's end");
            rest = &rest[end + "</style>".len()..];
        } else if !single {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for (_, target) in page.attributes.iter().filter(|(key, _)| key == "href") {
        let inside = target.strip_prefix('#').is_some_and(|id| ids.contains(id));
        assert!(inside || target == "data:,", "`{target}` leads out of the page, or nowhere");
    }
    page
}

fn read_attributes(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("an attribute without a value: {text}"));
        assert!(ATTRIBUTES.contains(&name), "attribute `{name}`");
        let (value, rest) = rest.split_once('"').expect("a closing quote");
        found.push((name.to_owned(), unescaped(value)));
        text = rest.strip_prefix(' ').unwrap_or(rest);
    }
    found
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or_else(|| panic!("a bare ampersand: {part}"));
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("entity `{other}`"),
        });
        plain.push_str(rest);
    }
    plain
}
