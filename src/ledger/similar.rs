//! Whether a proposal was rolled back before, in other words. Words are compared and not meanings: cheap, the same on
//! every machine, and an author who knows better can say what is different.

use std::collections::BTreeSet;

use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::Reason;

use super::state::State;

/// Share of common words from which on two texts say the same. Pairs of the example queues, which all differ, stay
/// below a half.
const ALIKE: f64 = 0.6;

/// Words that say nothing about a change.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "already", "also", "an", "and", "are", "as", "at", "be", "because", "been", "but", "by",
    "can", "could", "do", "does", "each", "every", "for", "from", "had", "has", "have", "if", "in", "into", "is", "it",
    "its", "may", "might", "more", "now", "of", "on", "one", "or", "our", "over", "per", "should", "so", "some",
    "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too",
    "use", "used", "uses", "using", "was", "we", "were", "when", "where", "which", "while", "will", "with", "would",
];

/// The newest round that was rolled back for what it is and whose proposal is too like this one; none if the proposal says
/// what is different. Failures that say nothing about the idea, such as noise or a patch that does not apply, do not
/// stand in the way of another try. Nor does anything in the way of a patch of a queue, which somebody has put there beside
/// the other, and cannot explain; nor of a change of which nothing was said.
#[must_use]
pub fn similar(state: &State, proposal: &Proposal) -> Option<u32> {
    let explained = proposal.different.as_deref().is_some_and(|different| !different.trim().is_empty());
    if explained || proposal.source.is_some() || proposal.is_untitled() {
        return None;
    }
    let new = Words::of(proposal);
    let failed = state.rounds.iter().rev().filter(|round| {
        let reason = round.rolled_back().map(|rolled_back| rolled_back.reason);
        matches!(reason, Some(Reason::Slower | Reason::Incorrect | Reason::Integrity | Reason::Overfit))
    });
    failed
        .filter_map(|round| Some((round.number, round.proposal().filter(|said| !said.is_untitled())?)))
        .map(|(number, said)| (number, Words::of(said)))
        .find_map(|(number, old)| new.is_like(&old).then_some(number))
}

/// A proposal as far as it is compared.
struct Words {
    title: Vec<String>,
    all: BTreeSet<String>,
}

impl Words {
    fn of(proposal: &Proposal) -> Self {
        let title = words(&proposal.title);
        let all = title.iter().cloned().chain(words(&proposal.hypothesis)).collect();
        Self { title, all }
    }

    fn is_like(&self, other: &Self) -> bool {
        if !self.title.is_empty() && self.title == other.title {
            return true;
        }
        // Unrolling by four and by eight are two things to try.
        let numbers = |words: &Self| -> Vec<String> {
            words.title.iter().filter(|word| word.contains(|c: char| c.is_ascii_digit())).cloned().collect()
        };
        if numbers(self) != numbers(other) {
            return false;
        }
        let (common, union) = (self.all.intersection(&other.all).count(), self.all.union(&other.all).count());
        union > 0 && common as f64 >= ALIKE * union as f64
    }
}

/// The words of a text that say something, each as its stem.
fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.filter(|word| !STOP_WORDS.contains(word)).map(stem).collect()
}

/// A word without its ending: `tiles`, `tiled` and `tiling` are one. Light on purpose: a stem need not be a word, and two
/// words that are held for one cost less than rules for a language.
fn stem(word: &str) -> String {
    if word.len() < 4 || !word.is_ascii() || word.contains(|c: char| c.is_ascii_digit()) {
        return word.to_owned();
    }
    let singular = match word {
        _ if word.ends_with("ies") => format!("{}y", &word[..word.len() - 3]),
        _ if word.ends_with("sses") || word.ends_with("ches") || word.ends_with("shes") => {
            word[..word.len() - 2].to_owned()
        }
        _ if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") => word.to_owned(),
        _ => word.strip_suffix('s').unwrap_or(word).to_owned(),
    };
    let bare = if let Some(start) = singular.strip_suffix("ied") {
        format!("{start}y")
    } else {
        let bare = singular.strip_suffix("ing").or_else(|| singular.strip_suffix("ed")).unwrap_or(&singular);
        // `string`, `need`: what is left must still be a word's beginning.
        let is_stem = bare.len() >= 3 && bare.contains(|c| "aeiouy".contains(c));
        if is_stem { bare.to_owned() } else { singular.clone() }
    };
    let bare = bare.strip_suffix('e').filter(|start| start.len() >= 3).unwrap_or(&bare);
    let mut letters = bare.chars().rev();
    let (last, before) = (letters.next(), letters.next());
    let doubled = last == before && last.is_some_and(|c| !"aeiou".contains(c));
    bare[..bare.len() - usize::from(doubled)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_word_have_one_stem() {
        for forms in [
            &["tile", "tiles", "tiled", "tiling"][..],
            &["store", "stores", "stored", "storing"],
            &["unroll", "unrolls", "unrolled", "unrolling"],
            &["pass", "passes", "passed", "passing"],
            &["copy", "copies", "copied", "copying"],
            &["prefetch", "prefetches", "prefetching"],
            &["run", "runs", "running"],
            &["cache", "caches", "cached", "caching"],
        ] {
            let stems: BTreeSet<String> = forms.iter().map(|form| stem(form)).collect();
            assert_eq!(stems.len(), 1, "{stems:?}");
        }
    }

    #[test]
    fn other_words_stay_apart() {
        for (one, other) in [("string", "stride"), ("need", "ne"), ("exp2", "exp"), ("dx", "dy"), ("bus", "bu")] {
            assert_ne!(stem(one), stem(other));
        }
    }

    #[test]
    fn words_that_say_nothing_are_left_out_and_numbers_stay() {
        assert_eq!(words("Hold a 4 x 16 tile of y in registers"), ["hold", "4", "x", "16", "til", "y", "register"]);
        assert!(words("to be, or that is: the one of them").is_empty());
    }
}
