//! The rules, each by its words.

use kopt_schema::campaign::event::{Exhausted, StopAsked, Termination, Usage};
use kopt_schema::campaign::target::Goal;

use super::*;
use crate::ledger::{Momentum, Rung, after_accept, directions, is_stagnant, ladder, termination, used_up};

fn ends(story: &Story, target: &Target) -> Option<Termination> {
    termination(&story.state, target, 100.0)
}

/// A baseline whose shapes reach these shares of the ceiling.
fn at_shares(shares: [Option<f64>; 2]) -> Story {
    let mut story = Story::default();
    story.tell(began()).tell(prepared()).tell(tips_read());
    let Event::Baseline(measured) = baseline() else { unreachable!() };
    let shapes = vec![time("small", 1e-6, shares[0]), time("large", 1e-6, shares[1])];
    story.tell(Event::Baseline(Baseline { shapes, ..measured }));
    story
}

fn order(story: &Story) -> Vec<Category> {
    directions(&story.state).iter().map(|direction| direction.category).collect()
}

fn in_category(category: Category) -> Proposal {
    Proposal { category: Some(category), ..proposal("t", "h") }
}

#[test]
fn a_campaign_with_nothing_reached_and_nothing_used_up_goes_on() {
    assert_eq!(ends(&Story::measured(), &target()), None);
}

#[test]
fn t1_target_reached_by_gain() {
    let goal = Target { performance_target: Some(Goal::Gain(0.3)), ..target() };
    let mut story = Story::measured();
    assert_eq!(ends(&story, &goal), None);
    story.accept(None, 0.15);
    assert_eq!(ends(&story, &goal), None);
    story.accept(None, 0.15);
    assert_eq!(ends(&story, &goal), Some(Termination::TargetReached));
}

#[test]
fn t1_target_reached_by_latency() {
    // The geometric mean of 2 and 8 microseconds is 4, after the accept that of 1 and 4 is 2.
    let mut story = Story::measured();
    let goal = |seconds| Target { performance_target: Some(Goal::Latency(seconds)), ..target() };
    assert_eq!(ends(&story, &goal(3.99e-6)), None);
    assert_eq!(ends(&story, &goal(4.01e-6)), Some(Termination::TargetReached));
    story.accept(None, 0.1);
    assert_eq!(ends(&story, &goal(2.01e-6)), Some(Termination::TargetReached));
    assert_eq!(ends(&story, &goal(1.99e-6)), None);
}

#[test]
fn t1_target_reached_by_share_of_peak() {
    let goal = Target { performance_target: Some(Goal::Peak(0.6)), ..target() };
    let mut story = Story::measured();
    assert_eq!(ends(&story, &goal), None);
    story.accept(None, 0.1);
    assert_eq!(ends(&story, &goal), Some(Termination::TargetReached));
    assert_eq!(ends(&at_shares([Some(0.9), None]), &goal), None);
}

#[test]
fn t2_within_a_stated_share_of_the_roofline() {
    assert_eq!(ends(&at_shares([Some(0.96), Some(0.96)]), &target()), Some(Termination::AtTheCeiling));
    assert_eq!(ends(&at_shares([Some(0.99), Some(0.80)]), &target()), None);
    assert_eq!(ends(&at_shares([Some(0.96), None]), &target()), None);
    let lower = Target { roofline_share: 0.85, ..target() };
    assert_eq!(ends(&at_shares([Some(0.99), Some(0.80)]), &lower), Some(Termination::AtTheCeiling));
}

#[test]
fn t3_max_rounds_the_baseline_included() {
    let mut story = Story::measured();
    story.accept(None, 0.1).roll_back(Reason::Slower, proposal("t", "h"));
    assert_eq!(ends(&story, &Target { max_rounds: 4, ..target() }), None);
    assert_eq!(ends(&story, &Target { max_rounds: 3, ..target() }), Some(Termination::MaxRounds));
}

#[test]
fn t3_max_time() {
    let story = Story::measured();
    assert_eq!(termination(&story.state, &target(), 3599.0), None);
    assert_eq!(termination(&story.state, &target(), 3600.0), Some(Termination::MaxTime));
    assert_eq!(used_up(&story.state, &target(), 3599.0), None);
    assert_eq!(used_up(&story.state, &target(), 3600.0), Some("time"));
}

#[test]
fn t3_max_cost_where_proposers_tell_what_they_cost() {
    let limit = Target { max_cost_usd: Some(2.0), ..target() };
    let mut story = Story::measured();
    for (cost, termination) in [(1.5, None), (0.5, Some(Termination::MaxCost))] {
        let round = story.begin();
        let Event::Refused(refused) = refused(round, 1, Reason::Proposer) else { unreachable!() };
        let usage = Some(Usage { cost_usd: Some(cost), ..Usage::default() });
        story.tell(Event::Refused(Refused { usage, ..refused }));
        story.tell(rolled_back(round, Reason::Proposer)).tell(learned(round));
        assert_eq!(ends(&story, &limit), termination);
        assert_eq!(used_up(&story.state, &limit, 100.0), termination.map(|_| "money"));
        assert_eq!(ends(&story, &target()), None);
    }
}

#[test]
fn tile_two_rounds_without_improvement_end_the_campaign() {
    let tile = Target { policy: "tile".to_owned(), ..target() };
    let mut story = Story::measured();
    story.roll_back(Reason::Slower, proposal("t", "h")).accept(None, 0.1).roll_back(Reason::Noise, proposal("t", "h"));
    assert_eq!(ends(&story, &tile), None);
    story.roll_back(Reason::Slower, proposal("t", "h"));
    assert_eq!(ends(&story, &tile), Some(Termination::NoImprovement));
    assert_eq!(ends(&story, &target()), None);
}

#[test]
fn tile_25_rounds_at_most() {
    let tile = Target { policy: "tile".to_owned(), ..target() };
    let mut story = Story::measured();
    for _ in 2..25 {
        story.accept(None, 0.02);
    }
    assert_eq!(ends(&story, &tile), None);
    story.accept(None, 0.02);
    assert_eq!(ends(&story, &tile), Some(Termination::MaxRounds));
    assert_eq!(ends(&story, &target()), None);
}

#[test]
fn t4_the_user_stops_it_whatever_else_holds() {
    let mut story = at_shares([Some(0.99), Some(0.99)]);
    story.tell(Event::StopAsked(StopAsked {}));
    assert_eq!(termination(&story.state, &target(), 1e9), Some(Termination::Stopped));
    let mut early = Story::default();
    early.tell(began()).tell(Event::StopAsked(StopAsked {}));
    assert_eq!(ends(&early, &target()), Some(Termination::Stopped));
}

#[test]
fn nobody_has_anything_more_to_propose() {
    let patches = Source::Patches { folder: "patches".to_owned() };
    let agent = Source::Agent { command: "agent --do".to_owned() };
    let both = Target { proposers: vec![patches.clone(), agent.clone()], ..target() };
    let with_hand = Target { proposers: vec![patches.clone(), agent.clone(), Source::Hand], ..target() };
    let mut story = Story::measured();
    story.tell(Event::Exhausted(Exhausted { proposer: patches.name() }));
    assert_eq!(ends(&story, &both), None);
    story.tell(Event::Exhausted(Exhausted { proposer: agent.name() }));
    assert_eq!(ends(&story, &both), Some(Termination::NothingProposed));
    story.tell(Event::Exhausted(Exhausted { proposer: Source::Hand.name() }));
    assert_eq!(ends(&story, &with_hand), None);
}

#[test]
fn termination_is_checked_between_rounds_only() {
    let mut story = Story::measured();
    let round = story.begin();
    story.tell(Event::StopAsked(StopAsked {}));
    assert_eq!(ends(&story, &target()), None);
    story.tell(rolled_back(round, Reason::Stopped));
    assert_eq!(ends(&story, &target()), None);
    story.tell(learned(round));
    assert_eq!(ends(&story, &target()), Some(Termination::Stopped));
}

#[test]
fn after_an_accept_go_on_from_5_fall_from_2_exhausted_below() {
    let of = |gain| after_accept(gain);
    assert_eq!([of(0.3), of(0.05)], [Momentum::GoOn; 2]);
    assert_eq!([of(0.0499), of(0.02)], [Momentum::FallingPriority; 2]);
    assert_eq!([of(0.0199), of(0.0), of(-0.01)], [Momentum::Exhausted; 3]);
}

#[test]
fn consecutive_rollbacks_escalate_what_the_next_proposal_must_be_given() {
    let rungs = [0, 1, 2, 3, 4, 99].map(ladder);
    let [plain, diff, profile, disassembly, best, later] = rungs;
    assert_eq!((plain, diff, profile), (Rung::Plain, Rung::DiffAndNumbers, Rung::FreshProfile));
    assert_eq!((disassembly, best, later), (Rung::Disassembly, Rung::BestKnown, Rung::BestKnown));
    assert!(rungs.is_sorted());
    assert!(profile.words().contains("new bottleneck class") && disassembly.words().contains("disassembly"));
}

#[test]
fn two_rollbacks_in_a_row_are_stagnation_and_never_end_a_campaign() {
    let mut story = Story::measured();
    story.roll_back(Reason::Slower, proposal("t", "h"));
    assert!(!is_stagnant(&story.state));
    story.roll_back(Reason::Build, proposal("t", "h"));
    assert!(is_stagnant(&story.state));
    assert_eq!(ends(&story, &target()), None);
    story.begin();
    assert!(is_stagnant(&story.state));
    let round = story.state.next_round() - 1;
    story.tell(proposed(round, 1, proposal("t", "h"))).tell(measured(round, 1, Level::Full, Ruling::Accepted));
    story.tell(accepted(round, estimate(0.1)));
    assert!(!is_stagnant(&story.state));
}

#[test]
fn directions_are_ordered_by_gain_with_exhausted_ones_last() {
    use Category::{Algorithm, Layout, Occupancy, Overlap, Reference, Shape};
    let mut story = Story::measured();
    assert_eq!(order(&story), Category::DIRECTIONS);
    story.accept(Some(Shape), 0.01).accept(Some(Layout), 0.03).accept(Some(Overlap), 0.08);
    story.accept(Some(Algorithm), 0.4).roll_back(Reason::Slower, in_category(Occupancy));
    assert_eq!(order(&story), [Algorithm, Overlap, Layout, Reference, Occupancy, Shape]);
    let first = directions(&story.state)[0];
    assert_eq!((first.tried, first.accepted, first.best_gain), (1, 1, Some(0.4)));
    assert_eq!((first.momentum, first.untried), (Some(Momentum::GoOn), false));
    // The newest accept decides whether a direction goes on, and the best one where it stands among its like.
    story.accept(Some(Algorithm), 0.015);
    assert_eq!(order(&story), [Overlap, Layout, Reference, Occupancy, Algorithm, Shape]);
}

#[test]
fn under_stagnation_untried_directions_come_first() {
    use Category::{Algorithm, Layout, Occupancy, OverFitting, Overlap, Reference, Shape};
    let mut story = Story::measured();
    story.accept(Some(Algorithm), 0.4).roll_back(Reason::Slower, in_category(Shape));
    assert_eq!(order(&story)[0], Algorithm);
    story.roll_back(Reason::Noise, in_category(Layout));
    assert_eq!(order(&story), [Overlap, Occupancy, Reference, Algorithm, Shape, Layout]);
    // What has no direction, or the one that may not be taken, counts for none.
    story.roll_back(Reason::Overfit, in_category(OverFitting)).roll_back(Reason::Slower, proposal("t", "h"));
    assert_eq!(order(&story), [Overlap, Occupancy, Reference, Algorithm, Shape, Layout]);
    assert_eq!(directions(&story.state).iter().map(|direction| direction.tried).sum::<usize>(), 3);
}
