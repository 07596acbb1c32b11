//! The transfer check with real kernels, end to end: each kernel of `transfer-kernels/` meets the example's own in a whole
//! match, screen, confirmation and trace, as often as asked, and what comes of it is printed beside what must. What the audit
//! refuses is measured as if there were none.
//!
//! `cargo bench --bench transfer -- [--runs N] [NAME…]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../support/traced.rs"]
mod traced;

use std::time::Instant;

use cargo_kopt::gate::transfer::transfer;
use kopt_schema::evidence::{Evidence, Ruling};

use traced::Ground;

/// A kernel, and what must come of it.
struct Row {
    package: &'static str,
    keeps: &'static str,
    ruling: Ruling,
    /// None where nothing was traced.
    bucket: &'static str,
    words: &'static str,
}

const fn row(
    package: &'static str,
    keeps: &'static str,
    ruling: Ruling,
    bucket: &'static str,
    words: &'static str,
) -> Row {
    Row { package, keeps, ruling, bucket, words }
}

const ROWS: [Row; 8] = [
    row("matmul-cpu", "NOTHING", Ruling::Accepted, "K1", "confirmed"),
    row("matmul-cpu", "PREPARED", Ruling::Accepted, "W1", "confirmed"),
    row("matmul-cpu", "FORWARD_ONLY", Ruling::Overfit, "W1", "a hit rate of 0 %"),
    row("matmul-cpu", "STATIC_POINTER", Ruling::IntegrityViolation, "W3", "REJECT-as-overfit"),
    // Every call of a launch has a weight of its own: such a cache finds nothing there, and costs what it copies.
    row("matmul-cpu", "STATIC_CONTENTS", Ruling::RolledBack, "", "is slower by 5 % or more"),
    row("matmul-cpu", "ACTIVATION", Ruling::IntegrityViolation, "W2", "REJECT-as-overfit"),
    row("matmul-cpu", "OUTPUT", Ruling::IntegrityViolation, "W2", "REJECT-as-overfit"),
    row("grouped-matmul-cpu", "EQUAL_GROUPS", Ruling::Overfit, "K1", "over-fit to groups of equal size"),
];

/// Shapes of the matches: of matmul those whose steps are short.
const MATMUL: [&str; 4] = ["64x256x256", "128x128x128", "100x300x200", "256x256x256"];
/// Where what is kept is most of the work: one row of a product with a large weight. On the shapes above the cache saves little,
/// and this kernel is accepted there for what `NOTHING` gains too, unless the audit refuses it.
const ONE_ROW: [&str; 2] = ["1x1024x1024", "64x256x256"];
const GROUPED: [&str; 6] = ["uniform", "top2", "top1", "skewed", "empty", "ragged"];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    let (mut runs, mut names) = (1usize, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--runs" => runs = arguments.next().and_then(|text| text.parse().ok()).expect("--runs N"),
            name => names.push(name.to_owned()),
        }
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| row.keeps == name);
    let grounds = ["matmul-cpu", "grouped-matmul-cpu"].map(|package| (package, Ground::of(package)));
    println!("| kernel | as it must be | benchmark gain | trace gain | bound | seconds | what came of it |");
    println!("|---|---|---|---|---|---|---|");
    for row in ROWS.iter().filter(wanted) {
        let (_, ground) = grounds.iter().find(|(package, _)| *package == row.package).unwrap();
        let (incumbent, mut candidate) = (ground.baseline(), ground.variant(row.keeps).unwrap());
        if ["STATIC_POINTER", "STATIC_CONTENTS", "ACTIVATION", "OUTPUT"].contains(&row.keeps) {
            // Such memory is refused by the audit before anything is measured: what the trace makes of it is seen without.
            let found = candidate.side.audit.take().unwrap();
            assert!(found.violations().any(|finding| finding.keeps), "{}: the audit sees no memory", row.keeps);
        }
        let shapes: &[&str] = match row.keeps {
            "EQUAL_GROUPS" => &GROUPED,
            "STATIC_CONTENTS" => &ONE_ROW,
            _ => &MATMUL,
        };
        let (mut right, mut last, mut seconds) = (0, None, 0.0);
        for _ in 0..runs {
            let begun = Instant::now();
            let found = ground.hold(&ground.bout(&incumbent, &candidate, shapes));
            seconds += begun.elapsed().as_secs_f64() / runs as f64;
            let is_right = as_it_must_be(row, &found);
            right += usize::from(is_right);
            if !is_right {
                println!("<!-- {}: {:?} {:?} -->", row.keeps, found.verdict.ruling, found.verdict.reasons);
            }
            last = Some(found);
        }
        print(row, &last.unwrap(), right, runs, seconds);
    }
}

fn as_it_must_be(row: &Row, found: &Evidence) -> bool {
    let same = |ruling: Ruling| if ruling == Ruling::AcceptedTradeOff { Ruling::Accepted } else { ruling };
    let said = found.verdict.reasons.first().is_some_and(|reason| reason.contains(row.words));
    let bucket = row.bucket.is_empty() || transfer(found).bucket(None).name() == row.bucket;
    same(found.verdict.ruling) == row.ruling && said && bucket
}

fn print(row: &Row, found: &Evidence, right: usize, runs: usize, seconds: f64) {
    let facts = transfer(found);
    let percent = |gain: Option<f64>| gain.map_or("—".to_owned(), |gain| format!("{:+.1} %", 100.0 * gain));
    let bound = facts.preparation.as_ref().and_then(|preparation| preparation.bound);
    println!(
        "| {} | {right} of {runs} | {} | {} | {} | {seconds:.1} | {}: {} |",
        row.keeps,
        percent(found.verdict.aggregate.map(|aggregate| aggregate.gain)),
        percent(facts.gain.map(|gain| gain.gain)),
        percent(bound),
        found.verdict.ruling.name(),
        found.verdict.reasons.join("; ")
    );
}
