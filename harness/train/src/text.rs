//! The text that the model learns: short paragraphs about a village, made for this crate, with grammar, agreement and
//! small sums to find out. A token is a character.

use kopt_harness::Draw;

const TEXT: &str = include_str!("../text/village.txt");

/// The text as tokens.
#[derive(Debug, Clone)]
pub struct Text {
    tokens: Vec<usize>,
    characters: Vec<u8>,
}

impl Default for Text {
    fn default() -> Self {
        let mut characters: Vec<u8> = TEXT.bytes().collect();
        characters.sort_unstable();
        characters.dedup();
        let mut token_of = [0; 256];
        for (token, character) in characters.iter().enumerate() {
            token_of[usize::from(*character)] = token;
        }
        Self { tokens: TEXT.bytes().map(|byte| token_of[usize::from(byte)]).collect(), characters }
    }
}

impl Text {
    /// How many different characters it has.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.characters.len()
    }

    /// What a step reads and what follows each character of it: `batch` pieces of `length`, from places that depend on
    /// `seed` and `step` alone.
    #[must_use]
    pub fn batch(&self, seed: u64, step: u64, batch: usize, length: usize) -> (Vec<usize>, Vec<usize>) {
        let mut draw = Draw::new(seed, &format!("batch {step}"));
        let (mut read, mut next) = (Vec::new(), Vec::new());
        for _ in 0..batch {
            let start = draw.between(0, self.tokens.len() - length - 1);
            read.extend_from_slice(&self.tokens[start..start + length]);
            next.extend_from_slice(&self.tokens[start + 1..=start + length]);
        }
        (read, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_depends_on_seed_and_step_alone() {
        let text = Text::default();
        assert!(text.vocabulary() > 30 && text.vocabulary() < 64);
        let (read, next) = text.batch(1, 2, 3, 10);
        assert_eq!((read.len(), next.len()), (30, 30));
        assert_eq!(read[1..10], next[..9]);
        assert_eq!((read.clone(), next), text.batch(1, 2, 3, 10));
        assert_ne!(read, text.batch(1, 3, 3, 10).0);
        assert_ne!(read, text.batch(2, 2, 3, 10).0);
    }
}
