//! `prompt.md`: the request as a coding agent, or a person, reads it. A function from data to text.
//!
//! Whatever is quoted is bounded, and fenced so that it cannot end its own quotation.

use std::fmt::Write as _;

use kopt_schema::campaign::event::Refused;
use kopt_schema::campaign::target::{Goal, Metric};
use kopt_schema::campaign::{Bucket, Category};
use kopt_schema::evidence::Estimate;

use super::answer::{self, PROPOSAL};
use super::brief::{Brief, CONTEXT, Dossier, PastRound};
use crate::shell::units;

/// What a compiler or a check said: the first error is at the start, the summary at the end.
const FAILURE: usize = 8 << 10;
/// Long enough for a change of one kernel.
const DIFF: usize = 16 << 10;
/// Profiles and disassemblies.
const LISTING: usize = 24 << 10;
/// A hypothesis is a sentence or two; the rest of it is in `context.json`.
const HYPOTHESIS: usize = 300;

/// The whole text. `failure` is the brief's, as far as a proposer may know it.
pub fn text(brief: &Brief<'_>, failure: Option<&Refused>, limit_s: f64) -> String {
    let mut out = String::new();
    heading(&mut out, brief);
    if let Some(failure) = failure {
        last_attempt(&mut out, failure);
    }
    contract(&mut out, brief, limit_s);
    target(&mut out, brief);
    standing(&mut out, brief.dossier);
    history(&mut out, &brief.dossier.rounds);
    demands(&mut out, brief.dossier);
    known(&mut out, brief.dossier);
    out
}

// Writing to a `String` cannot fail; the results are dropped throughout.

fn heading(out: &mut String, brief: &Brief<'_>) {
    let (target, round, attempt) = (brief.target, brief.round, brief.attempt);
    let _ = writeln!(
        out,
        "# {} on {}, round {round}, attempt {attempt}\n\n\
         You are a performance engineer. Make the kernel `{}` (operator {}, {}) faster on {} by one change that keeps its \
         results correct for every shape, listed below or not. Whether it is faster is measured by others, against the \
         version that stands (`{}`).\n",
        target.target_op,
        target.target_backend.name(),
        target.kernel,
        target.target_op,
        target.target_backend.name(),
        target.target_device,
        brief.incumbent,
    );
    if let Some(instruction) = &target.instruction {
        let _ = writeln!(out, "The user asks for this change, and no other:\n\n{}", fenced("text", instruction));
    }
}

fn last_attempt(out: &mut String, failure: &Refused) {
    let _ = writeln!(
        out,
        "## The last attempt of this round failed: {}\n\n{}\n\n{}",
        failure.reason.name(),
        if failure.reason.is_put_back() {
            "Its files were put back. Mend the idea or choose another."
        } else {
            "Its edit is still in place. Put it right, or undo it and choose another."
        },
        fenced("text", &bounded(&failure.message, FAILURE)),
    );
}

fn contract(out: &mut String, brief: &Brief<'_>, limit_s: f64) {
    let _ = writeln!(
        out,
        "## What to do\n\nWork in `{}`. You may change these files, and no others:\n",
        brief.crate_folder
    );
    for path in &brief.dossier.allowed {
        let _ = writeln!(out, "- `{path}`");
    }
    let directions: Vec<String> = Category::DIRECTIONS.iter().map(|one| format!("`{one}`")).collect();
    let _ = writeln!(
        out,
        "\n\
         1. Form one hypothesis about what the kernel loses time on, and make the one change that follows from it. No \
         second idea, no clean-up beside it: the round is judged whole.\n\
         2. Edit the files in place. A change of any other file has the round refused. Do not run git, do not commit, \
         leave no other files behind.\n\
         3. Write `{}` with these keys, all strings:\n\n\
         ```toml\n\
         title = \"what changes, in a few words\"\n\
         hypothesis = \"why it should be faster: what is lost now, and where it is won\"\n\
         category = \"…\"       # one of those below\n\
         bucket = \"K1\"         # K1 inside the kernel, K2 layout variant, K3 fusion, K4 kept for the same step's backward, W1 derived from a weight through `prepare`\n\
         expected_gain = \"…\"  # for the record, in any form\n\
         different = \"…\"      # only where a similar change was rolled back: what is different now\n\
         next = \"…\"           # what to try next, whatever comes of this\n\
         ```\n\n\
         Categories: {}.\n\
         4. Report no measurements: no number of yours is used. Builds and benchmarks of your own are not needed; the \
         change is compiled, checked on shapes and inputs you do not see, and timed in fresh processes.\n\
         5. You have {} for this answer. What is not finished then is lost.\n\n\
         Never: state that outlives a call, results that depend on what an earlier call saw ({} and {} are refused), \
         code that knows the listed shapes or the benchmark's inputs from others of their kind, \
         less precision than the check allows, threads or processes of your own.\n",
        brief.round_folder.join(PROPOSAL),
        directions.join(", "),
        time(limit_s),
        Bucket::W2.name(),
        Bucket::W3.name(),
    );
}

fn target(out: &mut String, brief: &Brief<'_>) {
    let (target, dossier) = (brief.target, brief.dossier);
    let mut rows = vec![
        ("campaign", target.campaign.clone()),
        ("kernel", target.kernel.clone()),
        ("operator", target.target_op.clone()),
        ("backend", target.target_backend.name().to_owned()),
        ("device", target.target_device.clone()),
        ("compiler", dossier.compiler.clone()),
        ("flags", dossier.flags.join(" ")),
        ("metric", metric(target.primary_metric).to_owned()),
        ("goal", target.performance_target.map_or_else(|| "none: as fast as can be".to_owned(), goal)),
        ("least gain of an accept", format!("{:.1} % over all shapes", 100.0 * target.min_gain)),
        ("shapes that may not lose", core_shapes(&target.core_shapes)),
        ("policy", target.policy.clone()),
        ("rounds", format!("this is {} of at most {}", brief.round, target.max_rounds)),
        ("time left", time(dossier.time_left_s)),
    ];
    if let Some(left) = dossier.cost_left_usd {
        rows.push(("money left", format!("{left:.2} US dollars")));
    }
    let _ = writeln!(out, "## Target\n\n| | |\n|---|---|");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "| {name} | {} |", cell(value));
    }
    if let Some(ceilings) = &dossier.ceilings {
        let _ = writeln!(out, "\nCeilings of the device, measured:\n\n{}", fenced("text", &bounded(ceilings, FAILURE)));
    }
    let _ = writeln!(out, "\nAll of this and more, for programs: `{}`.\n", brief.round_folder.join(CONTEXT));
}

fn standing(out: &mut String, dossier: &Dossier) {
    let _ = writeln!(
        out,
        "## Where it stands\n\nA gain is old time / new time − 1.\n\n\
         | shape | baseline | now | gain | of the ceiling |\n|---|---:|---:|---:|---:|"
    );
    for row in &dossier.shapes {
        let share = row.ceiling_share.map_or_else(|| "–".to_owned(), units::percent);
        let (baseline, now) = (units::seconds(row.baseline_s), units::seconds(row.current_s));
        let _ = writeln!(out, "| {} | {baseline} | {now} | {:+.1} % | {share} |", cell(&row.shape), 100.0 * row.gain);
    }
    let so_far = dossier.gain.as_ref().map_or_else(|| "none yet".to_owned(), gain);
    let _ = writeln!(out, "\nOver all shapes, against the baseline: {so_far}.");
    if let Some(last) = &dossier.last_accepted {
        let _ = writeln!(out, "Last accepted: round {}, {} ({}).", last.round, cell(&last.title), gain(&last.gain));
    }
    out.push('\n');
}

fn history(out: &mut String, rounds: &[PastRound]) {
    if rounds.is_empty() {
        let _ = writeln!(out, "## Tried so far\n\nNothing: this is the first change.\n");
        return;
    }
    let _ = writeln!(
        out,
        "## Tried so far\n\nA change too like one that was rolled back is refused unless `different` says what is different.\n\n\
         | round | change | hypothesis | direction | came of it | gain |\n|---:|---|---|---|---|---|"
    );
    for past in rounds {
        let came = match &past.reason {
            Some(reason) => format!("{}: {reason}", past.status),
            None => past.status.clone(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            past.round,
            cell(&past.title),
            cell(&answer::cleaned(&past.hypothesis, HYPOTHESIS)),
            past.category.map_or("–", Category::name),
            cell(&answer::cleaned(&came, HYPOTHESIS)),
            past.gain.as_ref().map_or_else(|| "–".to_owned(), gain),
        );
    }
    out.push('\n');
}

fn demands(out: &mut String, dossier: &Dossier) {
    let _ = writeln!(out, "## What this proposal must take into account\n");
    if dossier.rollbacks > 0 {
        let _ = writeln!(out, "Rollbacks in a row: {}.", dossier.rollbacks);
    }
    if !dossier.rung.is_empty() {
        let _ = writeln!(out, "{}", dossier.rung);
    }
    if dossier.stagnation {
        let _ = writeln!(
            out,
            "This is stagnation: take another direction than the last ones, an untried one first. Weigh at least three of \
             different categories before you choose."
        );
    }
    if !dossier.directions.is_empty() {
        let _ = writeln!(out, "\n| direction | tried | accepted | |\n|---|---:|---:|---|");
        for one in &dossier.directions {
            let _ = writeln!(out, "| {} | {} | {} | {} |", one.category, one.tried, one.accepted, cell(&one.momentum));
        }
    }
    if let Some(last) = &dossier.last_rollback {
        let _ = writeln!(out, "\n### The last change that was rolled back (round {})\n", last.round);
        if !last.shapes.is_empty() {
            let _ = writeln!(out, "| shape | before | with it | gain |\n|---|---:|---:|---|");
            for row in &last.shapes {
                let (before, after) = (units::seconds(row.before_s), units::seconds(row.after_s));
                let told = row.gain.as_ref().map_or_else(|| "–".to_owned(), gain);
                let _ = writeln!(out, "| {} | {before} | {after} | {told} |", cell(&row.shape));
            }
            out.push('\n');
        }
        if let Some(diff) = &last.diff {
            let _ = writeln!(out, "{}", fenced("diff", &bounded(diff, DIFF)));
        }
    }
    for (name, listing) in
        [("Profile", &dossier.profile), ("Disassembly of the version that stands", &dossier.disassembly)]
    {
        if let Some(listing) = listing {
            let _ = writeln!(out, "\n### {name}\n\n{}", fenced("text", &bounded(listing, LISTING)));
        }
    }
    out.push('\n');
}

fn known(out: &mut String, dossier: &Dossier) {
    if dossier.tips.is_empty() {
        return;
    }
    let _ = writeln!(out, "## What is known\n");
    for tip in &dossier.tips {
        let takeaway = answer::cleaned(&tip.takeaway, 2 * HYPOTHESIS);
        let _ = writeln!(out, "- {} ({}): {takeaway}", cell(&tip.title), cell(&tip.kind));
    }
}

fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Latency => "seconds a call",
        Metric::TeraFlops => "TFLOP/s, from the cost model; verdicts are on latency",
        Metric::GigaBytes => "GB/s, from the cost model; verdicts are on latency",
    }
}

fn goal(goal: Goal) -> String {
    match goal {
        Goal::Gain(gain) => format!("{:+.1} % over the baseline", 100.0 * gain),
        Goal::Latency(seconds) => format!("{} a call, as a geometric mean over all shapes", units::seconds(seconds)),
        Goal::Peak(share) => format!("{} of the measured ceiling", units::percent(share)),
    }
}

fn core_shapes(shapes: &[String]) -> String {
    if shapes.is_empty() { "all".to_owned() } else { shapes.join(", ") }
}

fn gain(estimate: &Estimate) -> String {
    format!("{:+.1} % [{:+.1}, {:+.1}]", 100.0 * estimate.gain, 100.0 * estimate.low, 100.0 * estimate.high)
}

/// `2 h 5 min`, `10 min`, `45 s`.
fn time(seconds: f64) -> String {
    // A cast of a negative number or of NaN gives 0.
    let whole = seconds.round() as u64;
    match (whole / 3600, whole % 3600 / 60) {
        (0, 0..2) => format!("{whole} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// One cell of a table: a line, without what would end the cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A block that nothing in `text` can end.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.lines().map(|line| line.trim_start().chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

/// At most about `most` bytes: three quarters from the start, one from the end, and how much is missing between them.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - most / 4);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_cannot_end_itself_and_is_bounded() {
        assert_eq!(fenced("text", "a\n  ````\nb\n"), "`````text\na\n  ````\nb\n`````\n");
        assert_eq!(fenced("text", "a"), "```text\na\n```\n");
        let long = "ä".repeat(10_000);
        let short = bounded(&long, 8 << 10);
        assert!(short.len() < (8 << 10) + 64 && short.contains("bytes left out"), "{}", short.len());
        assert_eq!(bounded("short", 8), "short");
        assert_eq!(cell("a | b\n c"), "a \\| b c");
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        let cases = [
            (45.2, "45 s"),
            (600.0, "10 min"),
            (119.0, "119 s"),
            (7500.0, "2 h 5 min"),
            (3600.0, "1 h"),
            (-3.0, "0 s"),
        ];
        for (seconds, told) in cases {
            assert_eq!(time(seconds), told);
        }
    }
}
