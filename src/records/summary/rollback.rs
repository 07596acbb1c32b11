//! The Rollback Analysis of a round, and what a rollback asks of the next one.

use kopt_schema::campaign::event::Reason;
use kopt_schema::evidence::{Direction, Ruling};

use super::{expected, measured};
use crate::records::facts::RoundFacts;
use crate::records::text;

/// What the analysis says, each with its label.
pub const LABELS: [&str; 5] = ["Change made", "Expected effect", "Actual effect", "Root cause", "Lesson"];

/// From here on the next proposals must come from other directions.
const STAGNATION: u32 = 2;

/// The lesson where a candidate found no memory left on a device.
const NO_ROOM: &str = "it wants more of the device's memory than there was; nothing about its speed";

pub fn analysis(facts: &RoundFacts, reason: Reason, message: &str) -> String {
    let [added, removed] = facts.lines;
    let change = match facts.proposal {
        Some(_) if facts.files.is_empty() => format!("none; proposed was {}", text::inline(facts.title())),
        Some(_) => format!("{} ({added} lines added, {removed} removed)", text::inline(facts.title())),
        None => "none".to_owned(),
    };
    let actual = match facts.gain() {
        Some(_) => format!("{}; {}", measured(facts), reason.name()),
        None => format!("not measured: {}", reason.name()),
    };
    let said = [
        change,
        expected(facts.proposal.as_ref()),
        actual,
        root_cause(facts, reason, message),
        match facts.deciding().map(|measured| measured.verdict.ruling) {
            Some(Ruling::Contaminated) if reason == Reason::Incorrect => NO_ROOM,
            _ => lesson(reason),
        }
        .to_owned(),
    ];
    LABELS.iter().zip(said).map(|(label, said)| format!("- {label}: {said}\n")).collect()
}

/// What was found out, or what the reason itself says, or that nobody knows.
fn root_cause(facts: &RoundFacts, reason: Reason, message: &str) -> String {
    if let Some(cause) = &facts.root_cause {
        return text::inline(cause);
    }
    let message = match text::cut(&text::line(message), 400) {
        empty if empty.is_empty() => "nothing more is known".to_owned(),
        said => text::inline(&said),
    };
    match reason {
        // It gains, and something else is held against it.
        Reason::Slower if facts.deciding().is_some_and(|measured| measured.verdict.ruling.is_accepted()) => message,
        Reason::Slower => match slower(facts) {
            empty if empty.is_empty() => "unknown: the time is measured, not what takes it".to_owned(),
            shapes => format!("unknown: the time is measured, not what takes it; slower on {shapes}"),
        },
        Reason::Noise => "unknown: whether there is an effect at all is not known".to_owned(),
        Reason::Contaminated => format!("the machine, not the change: {message}"),
        // It was judged, and something else kept it from being decided.
        Reason::Stopped if facts.deciding().is_some() => message,
        Reason::Stopped => "none: the campaign was stopped before it was judged".to_owned(),
        _ => message,
    }
}

fn slower(facts: &RoundFacts) -> String {
    let shapes = facts.deciding().map_or(&[][..], |measured| &measured.verdict.shapes);
    let slower = shapes.iter().filter(|shape| shape.direction == Direction::Slower);
    slower.map(|shape| text::inline(&shape.shape)).collect::<Vec<_>>().join(", ")
}

const fn lesson(reason: Reason) -> &'static str {
    match reason {
        Reason::Proposer => "nothing about the kernel; the proposer needs attention",
        Reason::NoChange => "the compiler makes the same code of it: look at the instructions before trying a variant",
        Reason::DoesNotApply => "nothing about the kernel; the patch was made for another version",
        Reason::Forbidden => "only the kernel's sources may change; do the same within them",
        Reason::Similar => "it was tried and rolled back; say what is different, or leave it",
        Reason::Build => "nothing about speed; the same idea may be tried in a form that compiles",
        Reason::Incorrect => "as it was done it computes something else; the case that failed says where to look first",
        Reason::Integrity => "do not retry: it broke the rules of measurement",
        Reason::Slower => "as it was done, on these shapes and this device, it does not pay",
        Reason::Noise => "if there is an effect, it is smaller than what this could show; not worth a retry by itself",
        Reason::Contaminated => "nothing about the kernel; it may be tried again on a quiet machine",
        Reason::Overfit => "do not retry: only the benchmark is faster",
        Reason::Stopped => "nothing yet; it may be tried again",
    }
}

/// What the next proposal is given after so many rollbacks in a row.
pub fn escalation(rollbacks: u32) -> String {
    let given = match rollbacks {
        0 | 1 => "the diff of this round and its numbers",
        2 => "a fresh profile, and a bottleneck of another class",
        3 => "the disassembly of the version that stands",
        _ => "how far each shape is from the measured ceiling",
    };
    let row = if rollbacks > 1 { format!("{rollbacks} rollbacks in a row. ") } else { String::new() };
    let stagnation = match rollbacks >= STAGNATION {
        true => " Stagnation: the direction changes, untried ones first.",
        false => "",
    };
    format!("{row}The next proposal is given {given}.{stagnation}\n")
}
