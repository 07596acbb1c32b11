//! What a person reads about trials: counts, the first failures in full, the rest by kind, and how to repeat each.

use std::collections::BTreeMap;

use kopt_schema::exit::Exit;
use kopt_schema::message::{FailureKind, Outcome, Trial};

use super::Request;
use super::tally::Tally;
use crate::shell::{BAD, GOOD, MIND, TOLD, count, indented, quoted};

/// Failures of one kernel that are shown in full; more of them rarely say more.
const IN_FULL: usize = 5;

/// `3 failed`, beside the bar.
pub fn so_far(tally: &Tally) -> String {
    let failed = match tally.failed() {
        0 => String::new(),
        failed => format!("{failed} failed "),
    };
    failed + tally.trials.last().map_or("", |trial| trial.name.as_str())
}

/// `182 passed, 2 failed, 3 ignored`, without the zeros.
pub fn counts(tally: &Tally) -> String {
    let parts = [
        (tally.passed(), "passed"),
        (tally.failed(), "failed"),
        (tally.missing(), "not reported"),
        (tally.ignored(), "ignored"),
    ];
    let told: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    if told.is_empty() { "no trial".to_owned() } else { told.join(", ") }
}

/// The failed trials: all of them with `all`, else the first few and a count of the rest.
pub fn failures(tally: &Tally, all: bool, request: &Request) -> String {
    let failed: Vec<&Trial> = tally.trials.iter().filter(|trial| trial.outcome == Outcome::Failed).collect();
    let shown = if all { failed.len() } else { failed.len().min(IN_FULL) };
    let mut text: String = failed[..shown].iter().map(|trial| failure(trial, request)).collect();
    if shown < failed.len() {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in &failed[shown..] {
            *kinds.entry(trial.failure.map_or("no reason given", kind)).or_default() += 1;
        }
        let kinds: Vec<String> = kinds.iter().map(|(kind, number)| format!("{number} × {kind}")).collect();
        text.push_str(&format!(
            "\n{} more: {} (-v shows all)\n",
            count(failed.len() - shown, "failure"),
            kinds.join(", ")
        ));
    }
    text
}

fn failure(trial: &Trial, request: &Request) -> String {
    let why = trial.failure.map_or("no reason given", kind);
    let mut text = format!("\n{BAD}failure{BAD:#}: {} {}: {why}\n", trial.kernel, trial.name);
    if let Some(detail) = &trial.detail {
        text.push_str(&indented(detail, 4));
    }
    text.push_str(&format!("    {TOLD}repeat{TOLD:#}: {}\n", repeat(trial, request)));
    text
}

/// The command that runs this trial again with the seed it failed on, the last it used.
fn repeat(trial: &Trial, request: &Request) -> String {
    let manifest = match &request.target.manifest_path {
        Some(path) => format!(" --manifest-path {}", quoted(path.as_str())),
        None => String::new(),
    };
    let seed = trial.seeds.last().map(|seed| format!(" --seed {seed}")).unwrap_or_default();
    format!("cargo kopt check{manifest} -p {} {} --exact{seed}", trial.kernel, quoted(&trial.name))
}

const fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::WrongValues => "wrong values",
        FailureKind::Unwritten => "elements never written",
        FailureKind::OutOfBounds => "written out of bounds",
        FailureKind::InputModified => "an input was modified",
        FailureKind::Crashed => "crashed",
        FailureKind::Exited => "exited without an answer",
        FailureKind::TimedOut => "timed out",
        FailureKind::ReturnedError => "returned an error",
        FailureKind::Protocol => "answered out of turn",
        FailureKind::MemoryLimit => "took too much memory",
        FailureKind::LateWrite => "wrote after it had returned",
        FailureKind::Stray => "started threads or processes",
        FailureKind::ForbiddenCall => "made a forbidden system call",
        FailureKind::CallingConvention => "broke the calling convention",
        FailureKind::TooSlow => "far slower",
        FailureKind::NoMemory => "no memory left on the device",
        FailureKind::Setup => "could not be run",
    }
}

/// Why trials were ignored, each reason once.
pub fn ignored(tally: &Tally) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in tally.trials.iter().filter(|trial| trial.outcome == Outcome::Ignored) {
        *reasons.entry(trial.detail.as_deref().unwrap_or("no reason given")).or_default() += 1;
    }
    let line = |(reason, number): (&str, usize)| {
        let first = reason.lines().next().unwrap_or_default();
        format!("{:>12} {MIND}{number} ignored{MIND:#}: {first}\n", "")
    };
    reasons.into_iter().map(line).collect()
}

/// The last line.
pub fn closing(tallies: &[Tally], exit: Exit) -> String {
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let trials = format!("{} of {}", count(sum(|tally| tally.trials.len()), "trial"), count(tallies.len(), "kernel"));
    match exit {
        Exit::Incorrect => {
            let wrong: Vec<&str> =
                tallies.iter().filter(|tally| tally.is_wrong()).map(|tally| tally.kernel.as_str()).collect();
            let failed = sum(|tally| tally.failed() + tally.missing());
            format!("\n{BAD}incorrect{BAD:#}: {failed} failed among {trials}: {}\n", wrong.join(", "))
        }
        Exit::NoDevice => format!("{MIND}nothing checked{MIND:#}: all {trials} were ignored\n"),
        _ => match sum(Tally::ignored) {
            0 => format!("{GOOD}correct{GOOD:#}: {trials}\n"),
            ignored => format!("{GOOD}correct{GOOD:#}: {trials}, {ignored} of them ignored\n"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kopt_schema::message::Message;

    fn failed(number: usize, kind: FailureKind) -> Message {
        Message::Trial(Trial {
            kernel: "softmax-cpu".to_owned(),
            name: format!("7x13/{number}"),
            outcome: Outcome::Failed,
            seconds: 0.0,
            seeds: vec!["0x1".to_owned(), "0x2a".to_owned()],
            failure: Some(kind),
            detail: Some("y[3]: expected 1\n  got 2".to_owned()),
        })
    }

    #[test]
    fn the_first_failures_are_shown_in_full_and_the_rest_counted() {
        let mut tally = Tally::new("softmax-cpu", false);
        for number in 0..7 {
            let kind = if number == 6 { FailureKind::Crashed } else { FailureKind::WrongValues };
            tally.hear(&failed(number, kind));
        }
        let plain = |all| anstream::adapter::strip_str(&failures(&tally, all, &Request::default())).to_string();
        let text = plain(false);
        assert!(
            text.contains("failure: softmax-cpu 7x13/4: wrong values\n    y[3]: expected 1\n      got 2\n"),
            "{text}"
        );
        assert!(text.contains("repeat: cargo kopt check -p softmax-cpu 7x13/0 --exact --seed 0x2a\n"), "{text}");
        assert!(text.ends_with("2 failures more: 1 × crashed, 1 × wrong values (-v shows all)\n"), "{text}");
        assert!(plain(true).contains("7x13/6: crashed"));
    }
}
