//! Whether a summary is whole. The engine asks before it goes on: a record with a hole in it is no record.

use super::{SECTIONS, rollback};
use crate::records::transfer;

/// What is missing, empty, too much or out of order; nothing for a whole summary.
#[must_use]
pub fn validate_summary(text: &str, rolled_back: bool) -> Vec<String> {
    let found = sections(text);
    let wanted = if rolled_back { &SECTIONS[..] } else { &SECTIONS[..SECTIONS.len() - 1] };
    let mut wrong = Vec::new();
    for section in wanted {
        match found.iter().filter(|(name, _)| name == section).collect::<Vec<_>>()[..] {
            [] => wrong.push(format!("section `{section}` is missing")),
            [(_, body)] => wrong.extend(within(section, body)),
            _ => wrong.push(format!("section `{section}` is there more than once")),
        }
    }
    for (name, _) in &found {
        if !SECTIONS.contains(name) {
            wrong.push(format!("section `{name}` does not belong there"));
        } else if !wanted.contains(name) {
            wrong.push(format!("section `{name}` belongs to rounds that were rolled back"));
        }
    }
    let places: Vec<usize> = found.iter().filter_map(|(name, _)| wanted.iter().position(|one| one == name)).collect();
    if let Some(pair) = places.windows(2).find(|pair| pair[0] > pair[1]) {
        wrong.push(format!("section `{}` stands before `{}`", wanted[pair[0]], wanted[pair[1]]));
    }
    wrong
}

/// Each heading of the second level with the lines under it.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("## "), found.last_mut()) {
            (Some(name), _) => found.push((name.trim(), Vec::new())),
            (None, Some((_, body))) => body.push(line),
            (None, None) => {}
        }
    }
    found
}

fn within(section: &str, body: &[&str]) -> Vec<String> {
    if body.iter().all(|line| line.trim().is_empty()) {
        return vec![format!("section `{section}` is empty")];
    }
    match section {
        "Results" => labels(section, body, &["Validation level"]),
        "Rollback Analysis" => labels(section, body, &rollback::LABELS),
        "Real-training transfer check" => {
            let grouped = body.iter().any(|line| label(line) == Some(transfer::ROBUSTNESS));
            let wanted = transfer::LABELS.into_iter().filter(|label| *label != transfer::ROBUSTNESS || grouped);
            labels(section, body, &wanted.collect::<Vec<_>>())
        }
        _ => Vec::new(),
    }
}

fn labels(section: &str, body: &[&str], wanted: &[&str]) -> Vec<String> {
    let found: Vec<&str> = body.iter().filter_map(|line| label(line)).collect();
    let missing = wanted.iter().filter(|label| !found.contains(label));
    let mut wrong: Vec<String> = missing.map(|label| format!("section `{section}` has no line `{label}`")).collect();
    let places: Vec<usize> = found.iter().filter_map(|name| wanted.iter().position(|one| one == name)).collect();
    if !places.is_sorted() {
        wrong.push(format!("the lines of section `{section}` are out of order"));
    }
    wrong
}

/// The label of a line of a list.
fn label<'a>(line: &&'a str) -> Option<&'a str> {
    Some(line.strip_prefix("- ")?.split_once(':')?.0)
}
