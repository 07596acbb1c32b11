//! A round: somebody is asked for one change, in as many attempts as it takes to get one that can be measured, and the
//! change is accepted or rolled back.

use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::{Accepted, Learned, Level, Measured, Proposed, Reason, Refused, RolledBack};
use kopt_schema::evidence::Ruling;

use super::state::Phase;

/// One round. The baseline, round 1, is not among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Its number; the first is 2.
    pub number: u32,
    /// The version that stood when it began.
    pub incumbent: String,
    /// Who was asked.
    pub proposer: String,
    /// Rollbacks in a row before it.
    pub rollbacks: u32,
    /// What was tried, in order.
    pub attempts: Vec<Attempt>,
    /// How it ended; none while it is open.
    pub outcome: Option<Outcome>,
    /// What it taught; none until that was asked.
    pub learned: Option<Learned>,
    /// Seconds that the campaign had run when it began.
    pub began_s: f64,
    /// And when it was decided.
    pub ended_s: Option<f64>,
    /// The time of that, `YYYY-MM-DD HH:MM:SS`, UTC.
    pub ended_at: Option<String>,
}

/// One attempt of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Its number; the first is 1.
    pub number: u32,
    /// What was handed in; none where the proposer failed.
    pub proposed: Option<Proposed>,
    /// Why it went no further, where it did not.
    pub refused: Option<Refused>,
    /// What was measured of it, in order.
    pub measured: Vec<Measured>,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It stands.
    Accepted(Accepted),
    /// The version before it stands.
    RolledBack(RolledBack),
}

impl Round {
    /// What was handed in last.
    #[must_use]
    pub fn proposed(&self) -> Option<&Proposed> {
        self.attempts.iter().rev().find_map(|attempt| attempt.proposed.as_ref())
    }

    /// What its author said of it.
    #[must_use]
    pub fn proposal(&self) -> Option<&Proposal> {
        self.proposed().map(|proposed| &proposed.proposal)
    }

    /// What was said last, of a change too that was refused before it was stored.
    #[must_use]
    pub fn said(&self) -> Option<&Proposal> {
        self.attempts.iter().rev().find_map(Attempt::said)
    }

    /// The files and lines of the change that [`Round::said`] is of, where it was stored.
    #[must_use]
    pub fn stored(&self) -> Option<&Proposed> {
        self.attempts.iter().rev().find(|attempt| attempt.said().is_some())?.proposed.as_ref()
    }

    /// What was measured last.
    #[must_use]
    pub fn verdict(&self) -> Option<&Measured> {
        self.attempts.iter().rev().find_map(|attempt| attempt.measured.last())
    }

    /// What was measured last of all shapes.
    #[must_use]
    pub fn full(&self) -> Option<&Measured> {
        self.attempts.iter().rev().find_map(Attempt::full)
    }

    /// What made it stand, if it does.
    #[must_use]
    pub fn accepted(&self) -> Option<&Accepted> {
        match &self.outcome {
            Some(Outcome::Accepted(accepted)) => Some(accepted),
            _ => None,
        }
    }

    /// Why it was rolled back, if it was.
    #[must_use]
    pub fn rolled_back(&self) -> Option<&RolledBack> {
        match &self.outcome {
            Some(Outcome::RolledBack(rolled_back)) => Some(rolled_back),
            _ => None,
        }
    }

    /// Whether it stands.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.accepted().is_some()
    }

    /// Its status as people read it: `ACCEPTED`, `ROLLED BACK: not faster`, or `OPEN`.
    #[must_use]
    pub fn name(&self) -> String {
        self.outcome.as_ref().map_or_else(|| "OPEN".to_owned(), Outcome::name)
    }

    /// Where the campaign stands while this is its last round.
    pub(super) fn phase(&self) -> Phase {
        let round = self.number;
        match (&self.outcome, &self.learned, self.attempts.last()) {
            (Some(_), Some(_), _) => Phase::Analyze,
            (Some(_), None, _) => Phase::Learn { round },
            (None, _, None) => Phase::Propose { round, attempt: 1 },
            (None, _, Some(last)) if last.refused.is_some() => Phase::Propose { round, attempt: last.number + 1 },
            (None, _, Some(last)) => Phase::Validate { round, attempt: last.number },
        }
    }
}

impl Attempt {
    /// What its author says of it.
    #[must_use]
    pub fn said(&self) -> Option<&Proposal> {
        let unstored = || self.refused.as_ref()?.proposal.as_ref();
        self.proposed.as_ref().map(|proposed| &proposed.proposal).or_else(unstored)
    }

    /// The patch that it came from, also where that failed.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        let proposed = self.proposed.as_ref().and_then(|proposed| proposed.proposal.source.as_deref());
        let refused = self.refused.as_ref().and_then(|refused| refused.source.as_deref());
        proposed.into_iter().chain(refused)
    }

    /// What was measured last of all shapes.
    #[must_use]
    pub fn full(&self) -> Option<&Measured> {
        self.measured.iter().rev().find(|measured| measured.level == Level::Full)
    }

    /// The verdict on its speed, where there is one. It is final: a candidate is not measured until it passes.
    pub(super) fn decided(&self) -> Option<Ruling> {
        let ruling = self.full()?.ruling;
        let on_speed = matches!(
            ruling,
            Ruling::Accepted | Ruling::AcceptedTradeOff | Ruling::RolledBack | Ruling::RolledBackNoise
        );
        on_speed.then_some(ruling)
    }
}

impl Outcome {
    /// As people read it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Accepted(accepted) => accepted.ruling.name().to_owned(),
            Self::RolledBack(RolledBack { reason: Reason::Noise, .. }) => Ruling::RolledBackNoise.name().to_owned(),
            Self::RolledBack(rolled_back) => format!("{}: {}", Ruling::RolledBack.name(), rolled_back.reason.name()),
        }
    }
}
