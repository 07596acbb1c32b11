//! Rows of benchmarks that are said to count for today's code: the code that is named is today's.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/measuring.rs"]
mod measuring;

use camino::Utf8Path;
use measuring::versions::{EXPLOITS, EXPLOITS_ON_GPU, GPU, PROCESSOR};

#[test]
fn what_rows_count_for_is_the_code_as_it_is() {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = [
        (PROCESSOR, measuring::REFEREE.to_vec()),
        (GPU, measuring::on_gpu()),
        (EXPLOITS, measuring::of_exploits()),
        (EXPLOITS_ON_GPU, measuring::of_exploits_on_gpu()),
    ];
    let mut stale = Vec::new();
    for (kind, code) in all {
        let key = measuring::key(root, &code).unwrap();
        if key != kind.now {
            stale.push(format!("{} is {key} now", kind.now));
        }
        for (place, earlier) in kind.earlier.iter().enumerate() {
            let (then, now) = (earlier.key, kind.now);
            assert!(measuring::counts(then, now) && !measuring::counts(now, then), "{then}");
            assert_eq!(measuring::rules(then, now), earlier.campaigns.is_some(), "{then}");
            assert!(!earlier.why.is_empty() && earlier.campaigns != Some(""), "{then}: no reason");
            assert!(kind.earlier[..place].iter().all(|newer| newer.key != then), "{then} is named twice");
        }
    }
    assert!(
        stale.is_empty(),
        "{}. Where what changed does not reach rows of before, name the new key in tests/support/versions.rs, and the old one with the \
         reason among the earlier; where it does, take out the versions that it reaches, and their tables",
        stale.join(", ")
    );
}
