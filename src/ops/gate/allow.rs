//! `Kopt-Allow: <kernel> <reason>`: a trailer by which a commit allows a slowdown that is meant.

use crate::error::Result;
use crate::revision::Revisions;

use super::range::Range;

/// The trailer's name.
const TRAILER: &str = "Kopt-Allow";

/// A slowdown that a commit allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The kernel's package.
    pub kernel: String,
    /// Why, and which commit says so.
    pub reason: String,
}

/// Trailers of the commits between base and head, and those that say nothing.
///
/// # Errors
/// When the history cannot be read.
pub fn find(revisions: &Revisions, range: &Range) -> Result<(Vec<Allowed>, Vec<String>)> {
    let (mut allowed, mut wrong) = (Vec::new(), Vec::new());
    for (commit, message) in revisions.messages_between(&range.base, &range.head)? {
        let short = &commit[..commit.len().min(10)];
        for value in trailers(&message) {
            match value.split_once(char::is_whitespace).map(|(kernel, reason)| (kernel, reason.trim())) {
                Some((kernel, reason)) if !reason.is_empty() => {
                    allowed.push(Allowed { kernel: kernel.to_owned(), reason: format!("{reason} ({short})") });
                }
                _ => wrong.push(format!("{short}: `{TRAILER}: {value}` gives no reason, and allows nothing")),
            }
        }
    }
    Ok((allowed, wrong))
}

fn trailers(message: &str) -> Vec<String> {
    let Ok(found) = git2::message_trailers_strs(message) else { return Vec::new() };
    let own = found.iter().filter(|(name, _)| name.eq_ignore_ascii_case(TRAILER));
    own.map(|(_, value)| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trailers_count_and_each_is_read() {
        let message = "Exact sums\n\nKopt-Allow: not here, in the text\n\nmore text\n\nKopt-Allow: softmax sums must be exact\nSigned-off-by: Somebody\nkopt-allow: rmsnorm so must these\n";
        assert_eq!(trailers(message), ["softmax sums must be exact", "rmsnorm so must these"]);
        assert!(trailers("Kopt-Allow in passing").is_empty());
    }
}
