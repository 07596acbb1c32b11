//! The nearest valid spelling, for hints.

/// The candidate nearest to `word`, if one is near enough that a typo is likely.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        // A third of the letters may be wrong; below that, two unrelated short words would match.
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_transposed_letter_is_found_and_an_unrelated_word_is_not() {
        assert_eq!(nearest("shpaes", ["sources", "shapes", "op"]), Some("shapes"));
        assert_eq!(nearest("zebra", ["sources", "shapes", "op"]), None);
    }
}
