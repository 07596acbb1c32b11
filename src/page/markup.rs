//! HTML that cannot be broken from inside: names of tags and attributes are written in this program, every value and
//! every text is escaped, and what is opened is closed. What is made is well-formed XML too, which the tests hold it to.

use crate::records::text::is_invisible;

/// A piece of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

/// Names and values of a tag.
type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// Text, as it stands.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.0);
        self
    }

    /// An element with something in it.
    pub fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.open(tag, attributes);
        self.0.push('>');
        inside(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// An element with text in it.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) -> &mut Self {
        self.element(tag, attributes, |inside| {
            inside.text(text);
        })
    }

    /// An element with nothing in it.
    pub fn single(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.open(tag, attributes);
        self.0.push_str("/>");
        self
    }

    /// Another piece.
    pub fn put(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    /// What is part of this program: a style, a doctype.
    pub fn own(&mut self, text: &'static str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// A line break in the source, so that the file can be read and compared by lines.
    pub fn line(&mut self) -> &mut Self {
        self.0.push('\n');
        self
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of it.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            escape(value, &mut self.0);
            self.0.push('"');
        }
    }
}

/// The five characters that mean something, and none that are not seen: a text that turns the line around is no text.
fn escape(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            '\n' | '\t' => to.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() || is_invisible(c) => {}
            c => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_text_or_a_value() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", "\" onclick='x' <")], |inside| {
            inside.text("</p><script>alert(1)</script>&amp;\u{202e}\u{0}\u{1b}[31m");
            inside.single("br", &[]);
        });
        assert_eq!(
            markup.into_string(),
            "<p title=\"&quot; onclick=&#39;x&#39; &lt;\">&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;[31m<br/></p>"
        );
    }
}
