//! `summary.md` of a round: what was thought, what was changed, what was measured, what follows.

use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::{Baseline, Level, ShapeTime};
use kopt_schema::evidence::Direction;

use super::facts::{Decision, Measurement, RoundFacts};
use super::{numbers, text, transfer};

mod rollback;
mod validation;

pub use validation::validate_summary;

/// The sections, in order; the last one is that of rolled-back rounds.
const SECTIONS: [&str; 8] = [
    "Hypothesis",
    "Single change",
    "Results",
    "Decision",
    "Attribution",
    "Real-training transfer check",
    "Next direction",
    "Rollback Analysis",
];

/// A round that was accepted goes on in its direction from this gain on, and from the second one at full priority.
const EXHAUSTED: f64 = 0.02;
const STRONG: f64 = 0.05;

/// The whole text.
#[must_use]
pub fn summary(facts: &RoundFacts) -> String {
    let bodies = [
        hypothesis(facts),
        change(facts),
        results(facts),
        decision(facts),
        attribution(facts),
        transfer(&facts.transfer),
        next_direction(facts),
    ];
    let mut told = format!("# Round {}: {}\n", facts.round, text::inline(facts.title()));
    told.push_str(&format!(
        "\n{} · {} · {}\n",
        text::inline(&facts.target.campaign),
        facts.at,
        facts.decision.status()
    ));
    let mut bodies = bodies.to_vec();
    if let Decision::RolledBack { reason, message } = &facts.decision {
        bodies.push(rollback::analysis(facts, *reason, message));
    }
    for (section, body) in SECTIONS.iter().zip(bodies) {
        told.push_str(&format!("\n## {section}\n\n{}\n", body.trim_end_matches('\n')));
    }
    told
}

fn hypothesis(facts: &RoundFacts) -> String {
    if let Decision::Baseline(_) = facts.decision {
        return "None: this round measures the version that the campaign starts from.".to_owned();
    }
    let Some(proposal) = &facts.proposal else { return "None: nothing was handed in.".to_owned() };
    let mut told = text::quote(&proposal.hypothesis);
    if told.trim_matches(['>', '\n', ' ']).is_empty() {
        told = "None was given.\n".to_owned();
    }
    if let Some(category) = proposal.category {
        told.push_str(&format!("\nDirection: {category}.\n"));
    }
    if let Some(different) = &proposal.different {
        told.push_str(&format!("\nDifferent from what was tried before:\n\n{}", text::quote(different)));
    }
    told
}

fn change(facts: &RoundFacts) -> String {
    let [added, removed] = facts.lines;
    let mut told = format!("- Change: {}\n", text::inline(facts.title()));
    told.push_str(&match facts.files.is_empty() {
        true => "- Files: none\n".to_owned(),
        false => {
            format!("- Files: {}\n", facts.files.iter().map(|file| text::code(file)).collect::<Vec<_>>().join(", "))
        }
    });
    told.push_str(&format!("- Lines: {added} added, {removed} removed\n"));
    told.push_str(&format!("- Proposed by: {}\n", text::cell(&facts.proposer)));
    if let Some(source) = facts.proposal.as_ref().and_then(|proposal| proposal.source.as_ref()) {
        told.push_str(&format!("- From: {}\n", text::code(source)));
    }
    told
}

fn results(facts: &RoundFacts) -> String {
    let mut told = String::new();
    for refused in &facts.refused {
        let reason = refused.reason.name();
        told.push_str(&format!(
            "Attempt {} was refused ({reason}):\n\n{}\n",
            refused.attempt,
            text::verbatim(&refused.message)
        ));
    }
    match (&facts.decision, facts.measurements.is_empty()) {
        (Decision::Baseline(baseline), _) => told.push_str(&baseline_results(facts, baseline)),
        (_, true) => told.push_str("- Validation level: none; nothing was measured\n"),
        (_, false) => {
            let all = facts.measurements.iter().map(|measured| measurement(facts, measured));
            told.push_str(&all.collect::<Vec<_>>().join("\n"));
        }
    }
    told
}

fn baseline_results(facts: &RoundFacts, baseline: &Baseline) -> String {
    let mut told = level(facts, Level::Full);
    let row = |time: &ShapeTime| {
        vec![text::cell(&time.shape), numbers::seconds(time.seconds), numbers::share(time.ceiling_share)]
    };
    let mut rows: Vec<_> = baseline.shapes.iter().map(row).collect();
    let measured: Vec<&str> = baseline.shapes.iter().map(|time| time.shape.as_str()).collect();
    for shape in facts.target.target_shapes.iter().filter(|shape| !measured.contains(&shape.as_str())) {
        rows.push(vec![text::cell(shape), "not measured".to_owned(), "-".to_owned()]);
    }
    told.push_str(&format!("\n{}\n", text::table(&["shape", "time", "share of ceiling"], &rows)));
    told.push_str(&format!("- Correctness: {}\n", numbers::count(baseline.trials, "trial passed", "trials passed")));
    told.push_str(&format!("- Noise: a launch deviates by {}\n", numbers::probability(baseline.launch_sigma)));
    told.push_str(&format!("- Evidence: {}\n", text::code(&baseline.evidence)));
    told
}

fn level(facts: &RoundFacts, level: Level) -> String {
    let target = &facts.target;
    let (name, timing) = match level {
        Level::Quick => ("quick (representative shapes; accepts nothing)", &target.quick_command),
        Level::Full => ("full (every shape)", &target.benchmark_command),
    };
    let (test, timing) = (text::code(&target.test_command), text::code(timing));
    format!("- Validation level: {name}\n- Commands: {test} (correctness), {timing} (latency)\n")
}

fn measurement(facts: &RoundFacts, measured: &Measurement) -> String {
    let verdict = &measured.verdict;
    let mut told = level(facts, measured.level);
    let heading = ["shape", "before", "after", "gain", "interval", "direction"];
    told.push_str(&format!("\n{}\n", text::table(&heading, &shape_rows(facts, measured))));
    let aggregate = verdict.aggregate.as_ref();
    let told_of = |estimate: Option<_>| estimate.map_or_else(|| "not measured".to_owned(), numbers::with_confidence);
    told.push_str(&format!("- Aggregate vs last accepted: {}\n", told_of(aggregate)));
    // Only what is measured over every shape can be compared with a baseline that was.
    if measured.level == Level::Full {
        let how = facts.versus_baseline.map_or("", |versus| match versus.measured {
            true => " (measured against it)",
            false => " (product of the accepted rounds' gains)",
        });
        let versus = facts.versus_baseline.as_ref().map(|versus| &versus.gain);
        told.push_str(&format!("- Aggregate vs baseline: {}{how}\n", told_of(versus)));
    }
    if let Some(estimate) = aggregate {
        told.push_str(&format!("- Noise: a launch deviates by {}\n", numbers::probability(estimate.launch_sigma)));
    }
    if let Some(detectable) = verdict.detectable {
        told.push_str(&format!("- Smallest gain that this could show: {}\n", numbers::gain(detectable)));
    }
    let launches = numbers::count(verdict.launches, "launch", "launches");
    told.push_str(&format!("- Launches: {launches} in {}\n", numbers::duration(measured.seconds)));
    told.push_str(&format!("- Evidence: {}\n", text::code(&measured.evidence)));
    told
}

/// One row for every shape of the level: a shape without a time has one that says so.
fn shape_rows(facts: &RoundFacts, measured: &Measurement) -> Vec<Vec<String>> {
    let asked = match measured.level {
        Level::Quick => &facts.target.representative_shapes,
        Level::Full => &facts.target.target_shapes,
    };
    let mut shapes: Vec<&str> = asked.iter().map(String::as_str).collect();
    let timed = measured.verdict.shapes.iter().map(|shape| shape.shape.as_str());
    let failed = measured.failed.iter().map(|failed| failed.shape.as_str());
    for shape in timed.chain(failed).chain(measured.left_out.iter().map(|left_out| left_out.shape.as_str())) {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes.into_iter().map(|shape| shape_row(measured, shape)).collect()
}

fn shape_row(measured: &Measurement, shape: &str) -> Vec<String> {
    let without_time = |why: String| {
        let cells = [text::cell(shape)].into_iter().chain(std::iter::repeat_n("-".to_owned(), 4));
        cells.chain([why]).collect()
    };
    if let Some(failed) = measured.failed.iter().find(|failed| failed.shape == shape) {
        return without_time(format!("FAILED: {}", text::cell(&failed.why)));
    }
    let Some(found) = measured.verdict.shapes.iter().find(|found| found.shape == shape) else {
        let left_out = measured.left_out.iter().find(|left_out| left_out.shape == shape);
        let why = left_out.map(|left_out| format!("not compared: {}", text::cell(&left_out.why)));
        return without_time(why.unwrap_or_else(|| "not measured".to_owned()));
    };
    vec![
        text::cell(shape),
        numbers::seconds(found.incumbent_s),
        numbers::seconds(found.candidate_s),
        numbers::gain(found.estimate.gain),
        numbers::interval(found.estimate.low, found.estimate.high),
        found.direction.name().to_owned(),
    ]
}

fn decision(facts: &RoundFacts) -> String {
    let mut told = format!("**{}**\n", facts.decision.status());
    let ruling = facts.deciding().map(|measured| &measured.verdict);
    if let Some(verdict) = ruling {
        told.push_str(&format!("\nRuling of the referee: {}.\n\n", verdict.ruling.name()));
        told.extend(verdict.reasons.iter().map(|reason| format!("- {}\n", text::inline(reason))));
    }
    match &facts.decision {
        Decision::Baseline(_) => {
            return told + "\nThe version that the campaign starts from; later rounds are compared with it.\n";
        }
        Decision::RolledBack { reason, message } => {
            told.push_str(&format!("\nReason: {}.\n", reason.name()));
            if !message.trim().is_empty() && !ruling.is_some_and(|verdict| verdict.reasons.contains(message)) {
                told.push_str(&format!("\n{}", text::verbatim(message)));
            }
        }
        Decision::Accepted { .. } => told.push_str(&trade_off(facts)),
    }
    told.push_str("\nClaim and measurement:\n");
    told.push_str(&format!(
        "\n- Expected by the proposer (a claim, never used): {}\n",
        expected(facts.proposal.as_ref())
    ));
    told.push_str(&format!("- Measured: {}\n", measured(facts)));
    told
}

/// The shapes that are credibly slower all the same, and by how much.
fn trade_off(facts: &RoundFacts) -> String {
    let shapes = facts.deciding().map_or(&[][..], |measured| &measured.verdict.shapes);
    let slower = shapes.iter().filter(|shape| shape.direction == Direction::Slower);
    slower
        .map(|one| format!("- Slower: {}, {}\n", text::inline(&one.shape), numbers::estimate(&one.estimate)))
        .collect()
}

fn expected(proposal: Option<&Proposal>) -> String {
    let said = proposal.and_then(|proposal| proposal.expected_gain.as_deref()).map(text::inline);
    said.filter(|said| !said.is_empty()).unwrap_or_else(|| "nothing was said".to_owned())
}

fn measured(facts: &RoundFacts) -> String {
    facts.gain().map_or_else(|| "nothing".to_owned(), numbers::with_confidence)
}

fn attribution(facts: &RoundFacts) -> String {
    match (&facts.decision, facts.gain()) {
        (Decision::Baseline(_), _) => "Nothing to attribute: there is no change.".to_owned(),
        (Decision::Accepted { .. }, Some(gain)) => format!(
            "The change above is all that differs between the two versions that were measured: the gain is its own. \
             It adds {:+.4} to the chain, in logarithms; bucket: {}.",
            gain.gain.ln_1p(),
            transfer::bucket(facts.transfer.bucket)
        ),
        _ => "Nothing is attributed: the change is not part of the chain.".to_owned(),
    }
}

fn next_direction(facts: &RoundFacts) -> String {
    let proposal = facts.proposal.as_ref();
    let category =
        proposal.and_then(|proposal| proposal.category).map_or("its direction".to_owned(), |c| c.to_string());
    let mut told = match &facts.decision {
        Decision::Baseline(_) => "The first proposal is asked for.\n".to_owned(),
        Decision::Accepted { gain, .. } if gain.gain >= STRONG => format!("Go on with {category}.\n"),
        Decision::Accepted { gain, .. } if gain.gain >= EXHAUSTED => {
            format!("Go on with {category}, at lower priority.\n")
        }
        Decision::Accepted { .. } => format!("Exhausted: {category}. Another direction is next.\n"),
        Decision::RolledBack { .. } => rollback::escalation(facts.rollbacks),
    };
    if let Some(next) = proposal.and_then(|proposal| proposal.next.as_deref()).filter(|next| !next.trim().is_empty()) {
        told.push_str(&format!("\nThe proposer suggests:\n\n{}", text::quote(next)));
    }
    if !facts.directions.is_empty() {
        told.push_str("\nOpen directions:\n\n");
        told.extend(facts.directions.iter().map(|direction| format!("- {}\n", text::inline(direction))));
    }
    told
}
