//! Text and its damage.

use kopt_schema::campaign::event::Reason;

use super::{Story, estimate, proposal, rolled_back};
use crate::ledger::{Damage, DamageKind, State, line, read, read_bytes};

/// A text of eleven lines with letters of more than one byte.
fn text() -> String {
    let mut story = Story::measured();
    story.roll_back(Reason::Slower, proposal("Größere Kacheln", "größer ist schneller"));
    story.begin();
    story.tell(rolled_back(3, Reason::Stopped));
    story.entries.iter().map(line).collect()
}

fn damage(text: &str) -> Damage {
    read(text).unwrap_err()
}

#[test]
fn text_goes_there_and_back() {
    let text = text();
    let entries = read(&text).unwrap();
    assert_eq!(entries.len(), 11);
    assert_eq!(entries.iter().map(line).collect::<String>(), text);
    assert!(State::fold(&entries).is_ok());
}

#[test]
fn no_text_is_no_damage() {
    assert_eq!(read(""), Ok(Vec::new()));
    assert_eq!(State::fold(&[]), Ok(State::default()));
}

#[test]
fn a_text_cut_anywhere_is_whole_up_to_a_line() {
    let text = text();
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in 0..text.len() {
        let (complete, whole) = starts.iter().filter(|start| **start <= cut).fold((0, 0), |(n, _), at| (n + 1, *at));
        match read_bytes(&text.as_bytes()[..cut]) {
            // Lacking nothing, or nothing but its line end.
            Ok(entries) if cut == whole => assert_eq!(entries.len(), complete),
            Ok(entries) => {
                assert_eq!((entries.len(), text.as_bytes()[cut]), (complete + 1, b'\n'));
            }
            Err(damage) => {
                assert_eq!((damage.line, damage.kind), (complete + 1, DamageKind::CutOff { whole }));
                assert_eq!(read(&text[..whole]).unwrap().len(), complete);
            }
        }
    }
}

#[test]
fn what_a_power_failure_leaves_behind_is_cut_off() {
    let text = text();
    let damage = damage(&format!("{text}\0\0\0"));
    assert_eq!((damage.line, damage.kind), (12, DamageKind::CutOff { whole: text.len() }));
    assert_eq!(damage.to_string(), "line 12 is cut off after 3 bytes");
}

#[test]
fn a_broken_line_in_the_middle_is_unreadable() {
    let broken = text().replacen("\"prepared\"", "\"prepared", 1);
    let found = damage(&broken);
    assert_eq!((found.line, found.kind), (2, DamageKind::Unreadable));
    assert!(found.to_string().starts_with("line 2 is no JSON: "), "{found}");
    let unknown = damage(&text().replacen("\"prepared\"", "\"preheated\"", 1));
    assert_eq!((unknown.line, unknown.kind), (2, DamageKind::Unreadable));
    assert!(unknown.what.contains("preheated"), "{unknown}");
}

#[test]
fn a_last_line_that_is_whole_and_no_entry_is_unreadable_and_not_cut_off() {
    let text = text();
    assert_eq!(damage(&format!("{text}{{}}")).kind, DamageKind::Unreadable);
}

#[test]
fn blank_lines_are_damage() {
    let text = text();
    for (blank, line) in [(format!("\n{text}"), 1), (format!("{text}\n"), 12), (text.replacen('\n', "\n \n", 1), 2)] {
        assert_eq!(damage(&blank), Damage { line, what: "is empty".to_owned(), kind: DamageKind::Unreadable });
    }
}

#[test]
fn numbers_that_do_not_run_are_a_gap() {
    let text = text();
    let missing: String = text.split_inclusive('\n').enumerate().filter(|(at, _)| *at != 4).map(|(_, l)| l).collect();
    let found = damage(&missing);
    assert_eq!((found.line, found.kind), (5, DamageKind::Gap));
    assert_eq!(found.to_string(), "line 5 has number 5 where 4 is due");
    let mut entries = read(&text).unwrap();
    entries.remove(4);
    assert_eq!(State::fold(&entries).unwrap_err(), found);
}

#[test]
fn a_newer_format_is_called_newer_even_where_nothing_else_is_known_of_it() {
    let newer = text().replacen("\"format\":1,\"number\":1", "\"format\":7,\"order\":1", 1);
    let found = damage(&newer);
    assert_eq!((found.line, found.kind), (2, DamageKind::Newer));
    assert_eq!(found.to_string(), "line 2 has format 7, and this tool knows formats up to 1");
    let mut entries = read(&text()).unwrap();
    entries[3].format = 2;
    assert_eq!(State::fold(&entries).unwrap_err().kind, DamageKind::Newer);
}

#[test]
fn an_event_that_cannot_follow_is_named_by_its_line() {
    let mut entries = read(&text()).unwrap();
    entries.truncate(10);
    let mut again = entries[4].clone();
    again.number = 10;
    entries.push(again);
    let found = State::fold(&entries).unwrap_err();
    assert_eq!((found.line, found.kind), (11, DamageKind::Impossible));
    assert_eq!(
        found.to_string(),
        "line 11 cannot follow: round 2 belongs to ANALYZE, and the campaign is at PROPOSE (round 3, attempt 1)"
    );
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_before_it_is_written() {
    let mut story = Story::measured();
    let round = story.begin();
    let mut gain = estimate(0.1);
    gain.high = f64::INFINITY;
    let why = story.try_to(super::accepted(round, gain)).unwrap_err();
    assert_eq!(why, "entry 5 cannot be written: `gain.high` is not a finite number");
}
