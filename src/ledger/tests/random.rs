//! Long campaigns at random: whatever happens, these hold.

use kopt_schema::campaign::event::{Correction, Ended, Exhausted, Reported, Resumed, StopAsked, Termination, Usage};

use super::trained::trained;
use super::*;
use crate::ledger::{DamageKind, Phase, Round, directions, line, read, similar, termination};

/// `SplitMix64`, so that a failure comes again.
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

const REASONS: [Reason; 7] = [
    Reason::Slower,
    Reason::Noise,
    Reason::Build,
    Reason::Incorrect,
    Reason::Overfit,
    Reason::Proposer,
    Reason::DoesNotApply,
];

const RULINGS: [Ruling; 7] = [
    Ruling::Accepted,
    Ruling::AcceptedTradeOff,
    Ruling::RolledBack,
    Ruling::RolledBackNoise,
    Ruling::Contaminated,
    Ruling::Incorrect,
    Ruling::IntegrityViolation,
];

/// Something that may happen now.
fn legal(story: &Story, generator: &mut Generator) -> Event {
    let state = &story.state;
    let phase = state.phase();
    if !matches!(phase, Phase::DefineTarget | Phase::Report | Phase::Over) && generator.one_in(12) {
        return match generator.below(4) {
            0 => prepared(),
            1 => Event::Resumed(Resumed { tool: "0".to_owned(), repaired: vec!["a piece".to_owned()] }),
            2 => Event::Correction(Correction { of: generator.below(state.next_number), text: "no".to_owned() }),
            _ => Event::Exhausted(Exhausted { proposer: format!("proposer {}", generator.below(3)) }),
        };
    }
    match phase {
        Phase::DefineTarget => began(),
        Phase::Prepare => prepared(),
        Phase::ReadTips => tips_read(),
        Phase::Baseline if state.trained(Some(1)).is_none() && generator.one_in(2) => trained(Some(1)),
        Phase::Baseline => baseline(),
        Phase::Analyze if state.stop_asked => Event::Ended(Ended { termination: Termination::Stopped }),
        Phase::Analyze if generator.one_in(200) => Event::StopAsked(StopAsked {}),
        Phase::Analyze => story.round_began(state.next_round()),
        Phase::Propose { round, attempt } => match generator.below(6) {
            0 => rolled_back(round, generator.pick(&REASONS)),
            1 => refused(round, attempt, generator.pick(&REASONS)),
            _ => {
                let text = format!("change {} of {}", generator.below(40), generator.below(40));
                let category = Some(generator.pick(&Category::DIRECTIONS));
                let Event::Proposed(handed_in) = proposed(round, attempt, proposal(&text, &text)) else {
                    unreachable!()
                };
                let proposal = Proposal { category, source: Some(text), ..handed_in.proposal };
                let usage = Some(Usage { cost_usd: Some(0.25), ..Usage::default() });
                Event::Proposed(Proposed { proposal, usage, ..handed_in })
            }
        },
        Phase::Validate { round, attempt } => {
            let decided = state.open_round().and_then(|round| round.attempts.last()).and_then(|last| last.decided());
            match decided {
                Some(Ruling::Accepted | Ruling::AcceptedTradeOff)
                    if state.trained(Some(round)).is_none() && generator.one_in(3) =>
                {
                    trained(Some(round))
                }
                Some(ruling @ (Ruling::Accepted | Ruling::AcceptedTradeOff)) if !generator.one_in(8) => {
                    let gain = generator.pick(&[0.01, 0.015, 0.03, 0.0625, 0.25]);
                    let Event::Accepted(accept) = accepted(round, estimate(gain)) else { unreachable!() };
                    Event::Accepted(Accepted { ruling, ..accept })
                }
                None if !generator.one_in(6) => {
                    let level = generator.pick(&[Level::Quick, Level::Full]);
                    measured(round, attempt, level, generator.pick(&RULINGS))
                }
                None if generator.one_in(2) => refused(round, attempt, generator.pick(&REASONS)),
                _ => rolled_back(round, generator.pick(&REASONS)),
            }
        }
        Phase::Learn { round } => learned(round),
        Phase::Report | Phase::Over => Event::Reported(Reported { evidence: None, total: None, shapes: Vec::new() }),
    }
}

/// A campaign of so many events at most.
fn campaign(seed: u64, events: usize) -> Story {
    let mut generator = Generator(seed);
    let mut story = Story::default();
    while story.entries.len() < events && story.state.phase() != Phase::Over {
        let event = legal(&story, &mut generator);
        story.tell(event);
    }
    story
}

fn text_of(entries: &[Entry]) -> String {
    entries.iter().map(line).collect()
}

#[test]
fn a_fold_can_be_cut_anywhere_and_gone_on_with() {
    for seed in 0..8 {
        let story = campaign(seed, 120);
        for cut in 0..=story.entries.len() {
            let mut state = State::fold(&story.entries[..cut]).unwrap();
            if cut % 10 == 0 {
                for entry in &story.entries[cut..] {
                    state.apply(entry).unwrap();
                }
                assert_eq!(state, story.state);
            } else {
                assert_eq!(state.next_number, cut as u64);
            }
        }
    }
}

#[test]
fn the_chain_of_versions_is_linear() {
    for seed in 0..40 {
        let story = campaign(seed, 400);
        let mut standing = "base".to_owned();
        for (index, round) in story.state.rounds.iter().enumerate() {
            assert_eq!((round.number as usize, &round.incumbent), (index + 2, &standing));
            if let Some(accepted) = round.accepted() {
                assert_ne!(accepted.commit, standing);
                standing.clone_from(&accepted.commit);
            }
        }
        assert_eq!(story.state.incumbent(), standing);
    }
}

#[test]
fn what_is_kept_while_folding_is_what_a_count_over_the_rounds_finds() {
    for seed in 0..40 {
        let state = campaign(seed, 400).state;
        let decided = state.rounds.iter().filter(|round| round.outcome.is_some());
        let in_a_row = decided.rev().take_while(|round| !round.is_accepted()).count();
        assert_eq!(state.rollbacks_in_a_row() as usize, in_a_row);
        assert_eq!(state.rounds_without_improvement() as usize, in_a_row);
        let attempts = || state.rounds.iter().flat_map(|round| &round.attempts);
        assert_eq!(state.attempts_refused(), attempts().filter(|attempt| attempt.refused.is_some()).count());
        let cost = attempts().filter(|attempt| attempt.proposed.is_some()).count() as f64 * 0.25;
        assert_eq!(state.spent().cost_usd.unwrap_or_default(), cost);
        let full = attempts().flat_map(|attempt| &attempt.measured).filter(|measured| measured.level == Level::Full);
        assert_eq!(state.false_accept_bound(), (full.count() as f64 / 64.0).min(1.0));
        let log: f64 = state.accepted().filter_map(Round::accepted).map(|accepted| accepted.gain.gain.ln_1p()).sum();
        let gain = state.chain_gain().map_or(0.0, |(gain, _, _)| gain.ln_1p());
        assert!((gain - log).abs() < 1e-9);
    }
}

#[test]
fn every_question_has_an_answer_after_every_event() {
    for seed in 0..10 {
        let story = campaign(seed, 200);
        let mut state = State::default();
        for entry in &story.entries {
            state.apply(entry).unwrap();
            let phase = state.phase();
            assert_eq!(phase == Phase::Over, state.reported.is_some());
            let open = matches!(phase, Phase::Propose { .. } | Phase::Validate { .. });
            assert_eq!(open, state.open_round().is_some());
            assert!(!phase.to_string().is_empty());
            let between = !open && !matches!(phase, Phase::Learn { .. } | Phase::Report | Phase::Over);
            assert!(between || termination(&state, &target(), 1e9).is_none());
            let mut categories: Vec<Category> = directions(&state).iter().map(|one| one.category).collect();
            categories.sort();
            assert_eq!(categories, Category::DIRECTIONS);
            assert_eq!(similar(&state, &proposal("nothing like that", "at all, ever")), None);
            if let Some((gain, low, high)) = state.chain_gain() {
                assert!(low <= gain && gain <= high);
            }
        }
    }
}

#[test]
fn the_text_goes_there_and_back() {
    for seed in 0..20 {
        let story = campaign(seed, 300);
        let text = text_of(&story.entries);
        let entries = read(&text).unwrap();
        assert_eq!(entries, story.entries);
        assert_eq!(text_of(&entries), text);
        assert_eq!(State::fold(&entries).unwrap(), story.state);
    }
}

#[test]
fn a_line_that_is_missing_doubled_or_moved_is_damage() {
    let story = campaign(7, 40);
    let text = text_of(&story.entries);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 40);
    for one in 0..lines.len() {
        // Without its last line a ledger is that of a moment before.
        if one + 1 < lines.len() {
            let mut rest = lines.clone();
            rest.remove(one);
            let damage = read(&rest.concat()).unwrap_err();
            assert_eq!((damage.line, damage.kind), (one + 1, DamageKind::Gap));
        }
        let mut doubled = lines.clone();
        doubled.insert(one, lines[one]);
        assert_eq!(read(&doubled.concat()).unwrap_err().kind, DamageKind::Gap);
        for other in one + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(one, other);
            let damage = read(&swapped.concat()).unwrap_err();
            assert_eq!((damage.line, damage.kind), (one + 1, DamageKind::Gap));
        }
    }
}

#[test]
fn what_is_refused_changes_nothing_and_what_is_taken_keeps_the_order() {
    let mut generator = Generator(99);
    // Events of all kinds, from campaigns at other points: `try_to` holds that a refusal changes nothing.
    let strangers = campaign(3, 400).entries;
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..10 {
        let mut story = Story::default();
        let mut own = Generator(seed);
        while story.entries.len() < 100 && story.state.phase() != Phase::Over {
            for _ in 0..5 {
                let stranger = strangers[generator.below(strangers.len() as u64) as usize].event.clone();
                match story.try_to(stranger) {
                    Ok(()) => taken += 1,
                    Err(_) => refused += 1,
                }
            }
            if story.state.phase() != Phase::Over {
                let event = legal(&story, &mut own);
                story.tell(event);
            }
        }
        assert_eq!(State::fold(&story.entries).unwrap(), story.state);
    }
    assert!(taken > 50 && refused > 500, "{taken} {refused}");
}

#[test]
fn a_campaign_of_a_thousand_rounds_is_read() {
    let mut story = Story::measured();
    for round in 0..1000 {
        match round % 5 {
            0 => story.accept(Some(Category::Layout), 0.01),
            _ => story.roll_back(Reason::Slower, proposal("t", "h")),
        };
    }
    let entries = read(&text_of(&story.entries)).unwrap();
    let state = State::fold(&entries).unwrap();
    assert_eq!((state.rounds.len(), state.accepted().count(), state.rollbacks_in_a_row()), (1000, 200, 4));
}
