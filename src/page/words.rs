//! Words of strangers on a page: on one line, not too long, and never more than words. Escaping is the markup's.

use super::markup::Markup;
use super::plots::Tone;
use crate::records::text;

/// Letters of a name.
const NAME: usize = 200;

/// Letters of a sentence or paragraph.
const SENTENCE: usize = 1200;

/// Lines of a message, and letters of each.
const MESSAGE: (usize, usize) = (40, 200);

/// A name.
pub fn name(of: &str) -> String {
    text::cut(&text::line(&head(of, NAME)), NAME)
}

/// A sentence, with a capital.
pub fn sentence(of: &str) -> String {
    let line = text::cut(&text::line(&head(of, SENTENCE)), SENTENCE);
    let mut letters = line.chars();
    match letters.next() {
        // A name is written as it is: `softmax_cpu: …` is no sentence.
        Some(first)
            if line
                .split(' ')
                .next()
                .is_some_and(|word| word.trim_end_matches([',', ';']).chars().all(|c| c.is_ascii_lowercase())) =>
        {
            first.to_uppercase().chain(letters).collect()
        }
        _ => line,
    }
}

/// A message of a compiler or a check, line by line.
pub fn message(of: &str) -> String {
    let (lines, columns) = MESSAGE;
    let mut all = of.trim_end().lines();
    let mut kept: Vec<String> =
        all.by_ref().take(lines).map(|line| text::cut(&text::line(&head(line, columns)), columns)).collect();
    match all.count() {
        0 => {}
        more => kept.push(format!("… and {more} lines more")),
    }
    kept.join("\n")
}

/// A word in a frame.
pub fn badge(to: &mut Markup, tone: Tone, word: &str) {
    let class = format!("badge {}", tone.class());
    to.leaf("span", &[("class", &class)], word);
}

/// The beginning, so that nothing is done to a hundred thousand letters of which two hundred are shown. Some more than are
/// shown, since invisible ones are left out.
fn head(of: &str, most: usize) -> String {
    of.chars().take(4 * most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_said_to_be() {
        let long = "x".repeat(100_000);
        assert_eq!(name(&long).chars().count(), NAME);
        assert!(name(&long).ends_with('…') && sentence(&long).ends_with('…'));
        let told = message(&"line\n".repeat(100_000));
        assert_eq!(told.lines().count(), MESSAGE.0 + 1);
        assert!(told.ends_with("… and 99960 lines more"), "{told}");
    }

    #[test]
    fn sentences_have_capitals_and_names_do_not() {
        assert_eq!(sentence("the gain was shown"), "The gain was shown");
        assert_eq!(sentence("occupancy, registers"), "Occupancy, registers");
        assert_eq!(sentence("64x1024: slower"), "64x1024: slower");
        assert_eq!(sentence("tall: slower"), "tall: slower");
        assert_eq!(sentence(""), "");
    }
}
