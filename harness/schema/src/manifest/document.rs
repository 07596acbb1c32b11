//! The text of a `Cargo.toml`, read as tables; what serde has against it in our words, at its place in the file.

use crate::diagnostic::{Diagnostic, dotted, path_at};
use crate::spelling::nearest;

/// A `Cargo.toml` and the name it is reported under.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Document<'_> {
    /// Its tables as `T` has them.
    ///
    /// # Errors
    /// The first thing that is wrong in the text, with its place.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Vec<Diagnostic>> {
        toml::from_str(self.text).map_err(|error| {
            let message = error.message();
            let span = error.span().unwrap_or(0..0);
            let path = path_at(self.text, span.start);
            let mut wrong = Diagnostic::at(self.file, self.text, span, first_sentence(message));
            wrong.key = (!path.is_empty()).then(|| dotted(&path));
            wrong.hint = suggestion(message);
            vec![wrong]
        })
    }
}

/// serde lists every valid name in its message; the nearest one is a better hint than the list.
fn suggestion(message: &str) -> Option<String> {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (found, valid) = quoted.split_first()?;
    if !message.starts_with("unknown ") || valid.is_empty() {
        return None;
    }
    Some(match nearest(found, valid.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid: {}", valid.join(", ")),
    })
}

fn first_sentence(message: &str) -> String {
    match message.strip_prefix("unknown field ") {
        Some(rest) => format!("unknown key {}", rest.split(", expected").next().unwrap_or(rest)),
        None => message.to_owned(),
    }
}
