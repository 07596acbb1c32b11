//! Rows of benchmarks that are said to count for today's code: the code that is named is today's.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/measuring.rs"]
mod measuring;

use camino::Utf8Path;

#[test]
fn what_rows_count_for_is_the_code_as_it_is() {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR"));
    let keys = [&measuring::REFEREE[..], &measuring::on_gpu(), &measuring::of_exploits()]
        .map(|code| measuring::key(root, code).unwrap());
    for (then, now, why) in measuring::AS_GOOD_AS.into_iter().chain(measuring::RULES_AS) {
        assert!(
            keys.iter().any(|key| key == now),
            "rows of {then} are said to count for {now}, but the code's keys are {keys:?}. If what changed does not reach \
             these rows, name the key that is today's and say why; if it does, take the line out, and their table: {why}"
        );
        assert!(measuring::counts(then, now) && !measuring::counts(now, then));
    }
    for (then, now, _) in measuring::RULES_AS {
        assert!(measuring::rules(then, now) && !measuring::rules(now, then));
    }
}
