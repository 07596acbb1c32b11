//! Whether a crate's text could ask the compiler which files are there (`__has_include` and its like). What is judged must be
//! what others build, among other files: a crate whose text could ask is told that there are none. Any other is compiled with
//! the compiler's own answer, for the headers that are installed: those of CUDA's C++ library and of libstdc++ look for each
//! other so, and are wrong without an answer.
//!
//! The word stands in the text, or in the name of a macro of an installed header that asks with it, or it is put together of
//! parts that stand there: by pasting, or over the end of a line that a backslash continues. An installed macro that itself holds
//! a part of it is not looked through. An include root outside of the repository is as good as installed: no change of the crate
//! reaches it.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;

use crate::cache::Found;

/// What all of the compiler's words for it have in common, and macros that are made of them.
const WORDS: [&[u8]; 2] = [b"has_include", b"has_embed"];

/// Whether any text that a compiler can read of the crate could ask, or a flag that the manifest adds.
pub(crate) fn could(folder: &Utf8Path, manifest: &Manifest) -> bool {
    let Ok(found) = Found::of(folder, manifest, None) else { return true };
    let outside = outside(folder, manifest);
    let own = found.files.iter().filter(|file| !outside.iter().any(|root| file.starts_with(root)));
    // What cannot be read here, a compiler cannot read either.
    let mut texts: Vec<Vec<u8>> = own.filter_map(|file| std::fs::read(file).ok()).collect();
    texts.extend(manifest.flags.iter().map(|flag| flag.as_bytes().to_vec()));
    can_make_any(&texts)
}

fn can_make_any(texts: &[Vec<u8>]) -> bool {
    let all = || texts.iter().flat_map(|text| names(text));
    // In whatever way it is made, one name has its underscore: most crates have none of these, and are done with.
    let has_the_middle =
        |word: &&[u8]| all().any(|name| name.contains(&b'_') && Parts::of(word).bridged_by(&name.to_ascii_lowercase()));
    WORDS.iter().filter(|word| has_the_middle(word)).any(|word| {
        let mut parts = Parts::of(word);
        all().for_each(|name| parts.add(&name.to_ascii_lowercase()));
        parts.make_the_word()
    })
}

/// Include roots outside of the repository that the crate is in.
fn outside(folder: &Utf8Path, manifest: &Manifest) -> Vec<Utf8PathBuf> {
    let Ok(real) = folder.canonicalize_utf8() else { return Vec::new() };
    let Some(repository) = real.ancestors().find(|above| above.join(".git").exists()) else { return Vec::new() };
    let is_outside = |root: &Utf8PathBuf| root.canonicalize_utf8().is_ok_and(|root| !root.starts_with(repository));
    manifest.include_roots.iter().map(|root| folder.join(root)).filter(is_outside).collect()
}

/// The names in a text, and what else is made of their characters.
fn names(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    text.split(move |byte| !is_part(byte)).filter(|name| !name.is_empty())
}

/// How far names go in making a word when they are put one after the other.
struct Parts<'a> {
    word: &'a [u8],
    /// A name has all of it.
    whole: bool,
    /// By length: a name ends with so much of its beginning.
    begins: Vec<bool>,
    /// A name is what stands between two of its places.
    middles: BTreeSet<(usize, usize)>,
    /// By place: a name begins with all that follows.
    ends: Vec<bool>,
}

impl<'a> Parts<'a> {
    fn of(word: &'a [u8]) -> Self {
        let none = vec![false; word.len()];
        Self { word, whole: false, begins: none.clone(), middles: BTreeSet::new(), ends: none }
    }

    fn add(&mut self, name: &[u8]) {
        self.whole |= name.windows(self.word.len()).any(|part| part == self.word);
        for place in 1..self.word.len() {
            let (beginning, rest) = self.word.split_at(place);
            self.begins[place] |= name.ends_with(beginning);
            self.ends[place] |= name.starts_with(rest);
            if name.len() < rest.len() && rest.starts_with(name) {
                self.middles.insert((place, place + name.len()));
            }
        }
    }

    /// Whether this name alone has the word's underscore where the word has it.
    fn bridged_by(mut self, name: &[u8]) -> bool {
        self.add(name);
        let at = self.word.iter().position(|byte| *byte == b'_').unwrap_or(0);
        let over = |(from, to): &(usize, usize)| *from <= at && at < *to;
        self.whole
            || self.begins[at + 1..].contains(&true)
            || self.ends[..=at].contains(&true)
            || self.middles.iter().any(over)
    }

    fn make_the_word(&self) -> bool {
        let mut reached = self.begins.clone();
        // In the order of their places.
        for (from, to) in &self.middles {
            reached[*to] |= reached[*from];
        }
        self.whole || reached.iter().zip(&self.ends).any(|(reached, ends)| *reached && *ends)
    }
}

#[cfg(test)]
mod tests {
    use super::can_make_any;

    fn could(text: &str) -> bool {
        can_make_any(&[text.as_bytes().to_vec()])
    }

    #[test]
    fn whoever_has_the_word_or_parts_that_make_it_could_ask() {
        let asks = [
            "#if __has_include(\"../target\")",
            "#if __has_include_next(<x.h>)",
            "#if _CCCL_HAS_INCLUDE(<x.h>)",
            "#if __has_\\\ninclude(\"x\")",
            "#if __has_\\  \r\ninclude(\"x\")",
            "#if __has_??/\ninclude(\"x\")",
            "#include <math.h>\n#define ask CONCAT(__has_, x)",
            "JOIN(__h, as_inc, lude)",
            "JOIN(__h, a, s, _, i, nclude_next)",
            "__has_embed(\"x\")",
            "JOIN(__has, _, embed)",
        ];
        for text in asks {
            assert!(could(text), "{text}");
        }
        let does_not = [
            "#include <math.h>\nint batch, a, s, length, has;\n#define JOIN(x, y) x ## y",
            "#include <cub/block/block_reduce.cuh>\n__shared__ float partials[32]; // each warp has its own, and includes it",
            "#if __has_builtin(__builtin_expect) && __has_cpp_attribute(nodiscard)",
            "include the whole of what has been included as is",
        ];
        for text in does_not {
            assert!(!could(text), "{text}");
        }
    }
}
