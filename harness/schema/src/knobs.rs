//! Chosen knob values. They live in `kernels/<op>_knobs.h` as `#define NAME 128`, so that a tuner changes a kernel
//! source and nothing else, and a launch plan can use the same number as the code.

use std::collections::BTreeMap;

/// The integer `#define`s of a header.
#[must_use]
pub fn defined(header: &str) -> BTreeMap<String, i64> {
    header
        .lines()
        .filter_map(|line| {
            let mut words =
                line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?.split_whitespace();
            let (name, value) = (words.next()?, words.next()?);
            Some((name.to_owned(), value.trim_matches(['(', ')']).parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn integer_defines_are_read_and_others_passed_over() {
        let header = "#ifndef K\n#define K\n# define TILE 64 // wide\n#define UNROLL (4)\n#define F 1.5f\n#endif\n";
        let expected = [("TILE".to_owned(), 64), ("UNROLL".to_owned(), 4)];
        assert_eq!(super::defined(header), expected.into());
    }
}
