//! What may follow what, and what can be asked.

use kopt_schema::campaign::event::{
    Correction, Ended, Exhausted, Level, Reason, Reported, Resumed, StopAsked, Termination, Usage,
};
use kopt_schema::campaign::{Bucket, Event};
use kopt_schema::evidence::Ruling;

use super::*;
use crate::ledger::{Phase, Round, read};

fn ended(termination: Termination) -> Event {
    Event::Ended(Ended { termination })
}

fn reported() -> Event {
    Event::Reported(Reported { evidence: None, total: None, shapes: Vec::new() })
}

fn resumed() -> Event {
    Event::Resumed(Resumed { tool: "0".to_owned(), repaired: Vec::new() })
}

fn correction(of: u64) -> Event {
    Event::Correction(Correction { of, text: "the other way round".to_owned() })
}

fn usage(cost_usd: Option<f64>, input_tokens: Option<u64>) -> Option<Usage> {
    Some(Usage { cost_usd, input_tokens, output_tokens: None })
}

/// Two rounds in, with a proposal that waits for its verdict.
fn validating() -> Story {
    let mut story = Story::measured();
    story.accept(None, 0.1);
    let round = story.begin();
    story.tell(proposed(round, 1, proposal("t", "h")));
    story
}

#[test]
fn the_phases_come_in_order() {
    let mut story = Story::default();
    let (round, attempt) = (2, 1);
    assert_eq!(story.state.phase(), Phase::DefineTarget);
    let began_round = Event::RoundBegan(RoundBegan {
        round,
        incumbent: "base".to_owned(),
        proposer: "by hand".to_owned(),
        rollbacks: 0,
    });
    for (event, phase) in [
        (began(), Phase::Prepare),
        (prepared(), Phase::ReadTips),
        (tips_read(), Phase::Baseline),
        (baseline(), Phase::Analyze),
        (began_round, Phase::Propose { round, attempt }),
        (refused(2, 1, Reason::Proposer), Phase::Propose { round, attempt: 2 }),
        (proposed(2, 2, proposal("t", "h")), Phase::Validate { round, attempt: 2 }),
        (refused(2, 2, Reason::Build), Phase::Propose { round, attempt: 3 }),
        (proposed(2, 3, proposal("t", "h")), Phase::Validate { round, attempt: 3 }),
        (measured(2, 3, Level::Quick, Ruling::RolledBackNoise), Phase::Validate { round, attempt: 3 }),
        (measured(2, 3, Level::Full, Ruling::Accepted), Phase::Validate { round, attempt: 3 }),
        (accepted(2, estimate(0.1)), Phase::Learn { round }),
        (learned(2), Phase::Analyze),
        (ended(Termination::MaxTime), Phase::Report),
        (resumed(), Phase::Report),
        (reported(), Phase::Over),
        (correction(3), Phase::Over),
    ] {
        story.tell(event);
        assert_eq!(story.state.phase(), phase);
    }
    assert_eq!(story.state.rounds[0].attempts.len(), 3);
}

#[test]
fn what_comes_too_early_too_late_or_twice_is_refused_in_words() {
    let mut story = Story::default();
    for event in [prepared(), resumed(), correction(0), ended(Termination::Stopped), story.round_began(2)] {
        assert_eq!(story.try_to(event).unwrap_err(), "entry 0 cannot follow: the campaign has not begun");
    }
    story.tell(began());
    assert!(story.try_to(began()).unwrap_err().ends_with("the campaign has begun already"));
    let early = story.try_to(baseline()).unwrap_err();
    assert!(early.ends_with("a baseline belongs to BASELINE, and the campaign is at PREPARE"), "{early}");
    assert!(story.try_to(tips_read()).is_err());
    story.tell(prepared());
    assert!(story.try_to(baseline()).is_err());
    story.tell(tips_read());
    assert!(story.try_to(tips_read()).is_err());
    let early = story.round_began(2);
    assert!(story.try_to(early).unwrap_err().contains("the campaign is at BASELINE"));
    story.tell(baseline());
    assert!(story.try_to(baseline()).is_err());
    assert!(story.try_to(reported()).unwrap_err().contains("a report needs an end"));
    assert!(story.try_to(correction(4)).unwrap_err().contains("does not come before it"));
}

#[test]
fn a_round_begins_with_its_number_from_what_stands_and_never_inside_another() {
    let mut story = Story::measured();
    for wrong in [1, 3] {
        let event = story.round_began(wrong);
        assert!(story.try_to(event).unwrap_err().contains("where round 2 is due"));
    }
    let Event::RoundBegan(mut elsewhere) = story.round_began(2) else { unreachable!() };
    elsewhere.incumbent = "another".to_owned();
    let why = story.try_to(Event::RoundBegan(elsewhere)).unwrap_err();
    assert!(why.ends_with("round 2 starts from `another`, and `base` stands"), "{why}");
    story.begin();
    let inside = story.round_began(3);
    assert!(story.try_to(inside.clone()).is_err());
    story.tell(rolled_back(2, Reason::Proposer));
    assert!(story.try_to(inside).unwrap_err().contains("LEARN (round 2)"));
    story.tell(learned(2)).tell(Event::StopAsked(StopAsked {}));
    let late = story.round_began(3);
    assert!(story.try_to(late).unwrap_err().ends_with("the user asked for the end"));
}

#[test]
fn only_the_current_attempt_of_the_open_round_can_be_told_of() {
    for (round, attempt) in [(2, 1), (3, 2), (4, 1), (3, 0)] {
        let mut story = validating();
        for event in [
            proposed(round, attempt, proposal("t", "h")),
            refused(round, attempt, Reason::Build),
            measured(round, attempt, Level::Full, Ruling::Accepted),
        ] {
            assert!(story.try_to(event).is_err(), "{round} {attempt}");
        }
    }
    let mut story = validating();
    assert!(story.try_to(proposed(3, 1, proposal("t", "h"))).is_err());
    assert!(story.try_to(rolled_back(2, Reason::Slower)).unwrap_err().contains("round 2 is not open"));
    assert!(story.try_to(learned(3)).is_err());
    story.tell(rolled_back(3, Reason::Stopped));
    assert!(story.try_to(rolled_back(3, Reason::Stopped)).is_err());
    assert!(story.try_to(learned(2)).is_err());
    story.tell(learned(3));
    assert!(story.try_to(learned(3)).is_err());
}

#[test]
fn nothing_is_accepted_without_a_full_measurement_that_says_so() {
    let yes = accepted(3, estimate(0.1));
    let mut story = validating();
    assert!(story.try_to(yes.clone()).unwrap_err().contains("not accepted by a full measurement"));
    story.tell(measured(3, 1, Level::Quick, Ruling::Accepted));
    assert!(story.try_to(yes.clone()).is_err());
    for ruling in [Ruling::RolledBack, Ruling::RolledBackNoise, Ruling::Contaminated, Ruling::Incorrect] {
        let mut other = story.clone();
        other.tell(measured(3, 1, Level::Full, ruling));
        assert!(other.try_to(yes.clone()).is_err(), "{ruling:?}");
    }
    let mut other = story.clone();
    other.tell(measured(3, 1, Level::Full, Ruling::AcceptedTradeOff));
    assert!(other.try_to(yes.clone()).unwrap_err().contains("its verdict was ACCEPTED (trade-off)"));
    story.tell(measured(3, 1, Level::Full, Ruling::Accepted));
    assert!(story.try_to(accepted(2, estimate(0.1))).is_err());
    story.tell(yes);
    assert_eq!(story.state.incumbent(), "commit-3");
}

#[test]
fn an_accept_of_an_earlier_attempt_does_not_count_for_a_later_one() {
    let mut story = validating();
    story.tell(measured(3, 1, Level::Quick, Ruling::Accepted)).tell(refused(3, 1, Reason::Incorrect));
    assert!(story.try_to(accepted(3, estimate(0.1))).is_err());
    story.tell(proposed(3, 2, proposal("t", "h")));
    assert!(story.try_to(accepted(3, estimate(0.1))).is_err());
}

#[test]
fn a_candidate_is_not_measured_until_it_passes() {
    for ruling in [Ruling::Accepted, Ruling::RolledBack, Ruling::RolledBackNoise] {
        let mut story = validating();
        story.tell(measured(3, 1, Level::Full, ruling));
        assert!(story.try_to(measured(3, 1, Level::Full, Ruling::Accepted)).is_err());
        assert!(story.try_to(refused(3, 1, Reason::Slower)).unwrap_err().contains("has its verdict"));
    }
    // A disturbed machine is no verdict, and a correctness fix belongs to the same round.
    for ruling in [Ruling::Contaminated, Ruling::Incorrect] {
        let mut story = validating();
        story.tell(measured(3, 1, Level::Full, ruling)).tell(measured(3, 1, Level::Full, Ruling::Contaminated));
        story.tell(refused(3, 1, Reason::Incorrect));
    }
}

#[test]
fn an_accept_that_cannot_be_is_refused() {
    let mut story = validating();
    story.tell(measured(3, 1, Level::Full, Ruling::Accepted));
    let Event::Accepted(good) = accepted(3, estimate(0.1)) else { unreachable!() };
    let overfit = Accepted { bucket: Bucket::W2, ..good.clone() };
    assert!(story.try_to(Event::Accepted(overfit)).unwrap_err().contains("bucket W2"));
    let standing = Accepted { commit: "commit-2".to_owned(), ..good.clone() };
    assert!(story.try_to(Event::Accepted(standing)).unwrap_err().contains("no commit of its own"));
    for gain in [
        Estimate { low: -1.0, ..good.gain },
        Estimate { high: 0.05, ..good.gain },
        Estimate { low: 0.2, ..good.gain },
        Estimate { confidence: 1.0, ..good.gain },
    ] {
        let odd = Accepted { gain, ..good.clone() };
        assert!(story.try_to(Event::Accepted(odd)).unwrap_err().contains("makes no sense"));
    }
    story.tell(Event::Accepted(good));
}

#[test]
fn a_campaign_ends_between_rounds_and_then_only_the_report_is_left() {
    let mut story = validating();
    assert!(story.try_to(ended(Termination::Stopped)).unwrap_err().ends_with("round 3 is open"));
    story.tell(rolled_back(3, Reason::Stopped));
    assert!(story.try_to(ended(Termination::Stopped)).unwrap_err().contains("what round 3 teaches"));
    story.tell(learned(3)).tell(ended(Termination::Stopped));
    let round = story.round_began(4);
    let exhausted = Event::Exhausted(Exhausted { proposer: "x".to_owned() });
    for event in [prepared(), round, exhausted, Event::StopAsked(StopAsked {}), ended(Termination::MaxTime)] {
        assert!(story.try_to(event).unwrap_err().ends_with("the campaign has ended"));
    }
    story.tell(correction(1)).tell(resumed()).tell(reported()).tell(correction(2));
    assert!(story.try_to(reported()).unwrap_err().contains("written already"));
    assert!(story.try_to(resumed()).unwrap_err().ends_with("the campaign is over"));
    assert_eq!(story.state.corrections.len(), 2);
}

#[test]
fn a_campaign_that_is_stopped_before_its_baseline_ends_too() {
    let mut story = Story::default();
    story.tell(began()).tell(Event::StopAsked(StopAsked {})).tell(ended(Termination::Stopped)).tell(reported());
    assert_eq!(story.state.phase(), Phase::Over);
}

#[test]
fn a_resumed_campaign_builds_its_judge_again_wherever_it_is() {
    let mut story = validating();
    let phase = story.state.phase();
    story.tell(resumed()).tell(Event::Prepared(Prepared { judge: "ff".to_owned() }));
    assert_eq!(story.state.phase(), phase);
    assert_eq!(story.state.prepared.as_ref().unwrap().judge, "ff");
    assert_eq!(story.state.resumed.len(), 1);
}

#[test]
fn what_stands_and_what_was_tried_can_be_asked() {
    let mut story = Story::measured();
    assert_eq!((story.state.incumbent(), story.state.latest_times()[0].seconds), ("base", 2e-6));
    assert!(story.state.last_accepted().is_none() && story.state.chain_gain().is_none());
    story.accept(None, 0.1);
    for reason in [Reason::Slower, Reason::Noise] {
        story.roll_back(reason, proposal("t", "h"));
    }
    let round = story.begin();
    let state = &story.state;
    assert_eq!((state.incumbent(), state.latest_times()[0].seconds), ("commit-2", 1e-6));
    assert_eq!((state.rollbacks_in_a_row(), state.rounds_without_improvement()), (2, 2));
    assert_eq!(state.open_round().unwrap().number, round);
    assert_eq!((state.rounds_begun(), state.accepted().count()), (5, 1));
    assert_eq!(state.round(3).unwrap().name(), "ROLLED BACK: not faster");
    assert!(state.round(1).is_none() && state.round(6).is_none());
    let names: Vec<String> = state.rounds.iter().map(Round::name).collect();
    assert_eq!(names, ["ACCEPTED", "ROLLED BACK: not faster", "ROLLED BACK (noise)", "OPEN"]);
    assert_eq!(state.round(2).unwrap().verdict().unwrap().ruling, Ruling::Accepted);
    let first = &state.rounds[0];
    assert_eq!((first.began_s, first.ended_s), (4.0, Some(7.0)));
    assert_eq!(first.ended_at.as_deref(), Some("2000-01-01 00:00:00"));
    assert_eq!(state.open_round().unwrap().ended_at, None);
    assert_eq!((state.elapsed_s, state.next_number), (story.entries.len() as f64 - 1.0, story.entries.len() as u64));
}

#[test]
fn every_full_measurement_is_charged() {
    let mut story = Story::measured();
    story.accept(None, 0.1).roll_back(Reason::Slower, proposal("t", "h"));
    let round = story.begin();
    story.tell(proposed(round, 1, proposal("t", "h"))).tell(measured(round, 1, Level::Quick, Ruling::RolledBack));
    assert!((story.state.false_accept_bound() - 2.0 / 64.0).abs() < 1e-12);
    story.tell(rolled_back(round, Reason::Slower)).tell(learned(round));
    for _ in 0..80 {
        story.roll_back(Reason::Slower, proposal("t", "h"));
    }
    assert_eq!(story.state.false_accept_bound(), 1.0);
}

#[test]
fn what_was_spent_is_summed_over_proposals_and_refusals() {
    let mut story = Story::measured();
    assert_eq!(story.state.spent(), Usage::default());
    let round = story.begin();
    let Event::Refused(failed) = refused(round, 1, Reason::Proposer) else { unreachable!() };
    let Event::Proposed(handed_in) = proposed(round, 2, proposal("t", "h")) else { unreachable!() };
    story.tell(Event::Refused(Refused { usage: usage(Some(0.25), None), ..failed }));
    story.tell(Event::Proposed(Proposed { usage: usage(Some(1.5), Some(1000)), ..handed_in }));
    story.tell(refused(round, 2, Reason::Build));
    let Event::Proposed(handed_in) = proposed(round, 3, proposal("t", "h")) else { unreachable!() };
    story.tell(Event::Proposed(Proposed { usage: usage(Some(-9.0), Some(1)), ..handed_in }));
    assert_eq!(story.state.spent(), usage(Some(1.75), Some(1001)).unwrap());
    assert_eq!(story.state.attempts_refused(), 2);
}

#[test]
fn a_patch_that_was_offered_is_not_offered_again() {
    let mut story = Story::measured();
    let round = story.begin();
    let Event::Refused(failed) = refused(round, 1, Reason::DoesNotApply) else { unreachable!() };
    story.tell(Event::Refused(Refused { source: Some("01-a.patch".to_owned()), ..failed }));
    story.tell(proposed(round, 2, Proposal { source: Some("02-b.patch".to_owned()), ..proposal("t", "h") }));
    assert_eq!(story.state.used_by("by hand"), ["01-a.patch", "02-b.patch"]);
    // Another queue has patches of its own, whatever they are called.
    assert_eq!(story.state.used_by("patches of elsewhere"), Vec::<String>::new());
}

#[test]
fn a_change_that_was_never_stored_is_known_by_its_words_and_counts_as_no_proposal() {
    let mut story = Story::measured();
    let round = story.begin();
    let Event::Refused(failed) = refused(round, 1, Reason::DoesNotApply) else { unreachable!() };
    story.tell(Event::Refused(Refused { proposal: Some(proposal("a title", "h")), ..failed }));
    let round = &story.state.rounds[0];
    assert_eq!((round.proposal(), round.said().map(|said| said.title.as_str())), (None, Some("a title")));
    // Nor are the words of one attempt put beside the files of another.
    let mut story = Story::measured();
    let round = story.begin();
    story.tell(proposed(round, 1, proposal("first", "h")));
    story.tell(refused(round, 1, Reason::Build));
    let Event::Refused(failed) = refused(round, 2, Reason::Forbidden) else { unreachable!() };
    story.tell(Event::Refused(Refused { proposal: Some(proposal("second", "h")), ..failed }));
    let round = &story.state.rounds[0];
    assert_eq!((round.said().map(|said| said.title.as_str()), round.stored()), (Some("second"), None));
}

#[test]
fn the_gain_of_one_round_has_that_rounds_interval() {
    let mut story = Story::measured();
    story.accept(None, 0.1);
    let (gain, low, high) = story.state.chain_gain().unwrap();
    let alone = estimate(0.1);
    assert!((gain - alone.gain).abs() < 1e-9 && (low - alone.low).abs() < 1e-9 && (high - alone.high).abs() < 1e-9);
}

#[test]
fn gains_multiply_and_their_variances_add() {
    let mut story = Story::measured();
    for gain in [0.1, 0.2, 0.05, 0.3] {
        story.accept(None, gain).roll_back(Reason::Slower, proposal("t", "h"));
    }
    let (gain, low, high) = story.state.chain_gain().unwrap();
    assert!((gain - (1.1 * 1.2 * 1.05 * 1.3 - 1.0)).abs() < 1e-9);
    // Four equal variances: twice the standard error, with 48 degrees of freedom (2.0106) instead of 12 (2.1788).
    let half_width = 2.0 * 1.01f64.ln() * 2.0106 / 2.1788;
    assert!((high.ln_1p() - gain.ln_1p() - half_width).abs() < 1e-5);
    assert!((gain.ln_1p() - low.ln_1p() - half_width).abs() < 1e-5);
}

#[test]
fn a_confidence_other_than_95_per_cent_is_converted() {
    let mut story = Story::measured();
    let round = story.begin();
    story.tell(proposed(round, 1, proposal("t", "h"))).tell(measured(round, 1, Level::Full, Ruling::Accepted));
    // t[0.995, 12] = 3.0545, t[0.975, 12] = 2.1788.
    story.tell(accepted(round, Estimate { confidence: 0.99, ..estimate(0.1) }));
    let (gain, _, high) = story.state.chain_gain().unwrap();
    assert!((high.ln_1p() - gain.ln_1p() - 1.01f64.ln() * 2.1788 / 3.0545).abs() < 1e-5);
}

#[test]
fn a_gain_without_any_spread_has_no_interval() {
    let mut story = Story::measured();
    let round = story.begin();
    story.tell(proposed(round, 1, proposal("t", "h"))).tell(measured(round, 1, Level::Full, Ruling::Accepted));
    story.tell(accepted(round, Estimate { low: 0.1, high: 0.1, launches: 0, ..estimate(0.1) }));
    let (gain, low, high) = story.state.chain_gain().unwrap();
    assert!(gain == low && low == high && (gain - 0.1).abs() < 1e-12);
}

#[test]
fn an_exhausted_proposer_is_listed_once() {
    let mut story = Story::measured();
    for proposer in ["a", "b", "a"] {
        story.tell(Event::Exhausted(Exhausted { proposer: proposer.to_owned() }));
    }
    assert_eq!(story.state.exhausted, ["a", "b"]);
}

#[test]
fn a_state_from_text_is_the_state_that_wrote_it() {
    let mut story = validating();
    story.tell(measured(3, 1, Level::Full, Ruling::Accepted)).tell(accepted(3, estimate(0.25)));
    let text: String = story.entries.iter().map(crate::ledger::line).collect();
    assert_eq!(State::fold(&read(&text).unwrap()), Ok(story.state));
}
