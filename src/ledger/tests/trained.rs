//! Training steps among the events: when they may come, and that they come once.

use kopt_schema::campaign::event::{Ended, Termination};
use kopt_schema::campaign::{Trained, Training};

use super::*;

pub(super) fn trained(round: Option<u32>) -> Event {
    Event::Trained(Trained { round, training: Training::NotMeasured { why: "the crate declares no slot".to_owned() } })
}

#[test]
fn a_training_step_comes_once_at_the_baseline_before_an_accept_and_with_the_report() {
    let mut story = Story::default();
    story.tell(began()).tell(prepared()).tell(tips_read());
    for round in [None, Some(2)] {
        assert!(story.try_to(trained(round)).unwrap_err().contains("is not due: the campaign is at BASELINE"));
    }
    story.tell(trained(Some(1)));
    assert!(story.try_to(trained(Some(1))).unwrap_err().contains("was run for round 1 already"));
    story.tell(baseline());
    assert!(story.try_to(trained(Some(1))).unwrap_err().contains("for round 1 is not due"));
    story.begin();
    story.tell(proposed(2, 1, proposal("a", "b")));
    assert!(story.try_to(trained(Some(2))).unwrap_err().contains("is not due"), "nothing was measured");
    story.tell(measured(2, 1, Level::Full, Ruling::Accepted)).tell(trained(Some(2)));
    assert!(story.try_to(trained(Some(2))).unwrap_err().contains("was run for round 2 already"));
    story.tell(accepted(2, estimate(0.1))).tell(learned(2));
    assert!(story.try_to(trained(None)).is_err());
    story.tell(Event::Ended(Ended { termination: Termination::NothingProposed })).tell(trained(None));
    assert!(story.try_to(trained(None)).unwrap_err().contains("was run for the report already"));
    assert_eq!(story.state.trained.len(), 3);
    assert!(story.state.trained(Some(2)).is_some() && story.state.trained(Some(3)).is_none());
}

#[test]
fn a_candidate_that_was_not_accepted_is_not_trained_with() {
    let mut story = Story::measured();
    story.begin();
    story.tell(proposed(2, 1, proposal("a", "b"))).tell(measured(2, 1, Level::Full, Ruling::RolledBack));
    assert!(story.try_to(trained(Some(2))).unwrap_err().contains("is not due"));
}
