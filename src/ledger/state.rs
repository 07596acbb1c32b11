//! The campaign as it stands after the events so far, and what can be asked of it. How events change it is in `fold`.

use std::fmt;

use kopt_schema::FORMAT_VERSION;
use kopt_schema::campaign::event::{
    Baseline, Began, Correction, Ended, Prepared, Reported, Resumed, ShapeTime, TipsRead, Usage,
};
use kopt_schema::campaign::trained::{Trained, Training};
use kopt_schema::campaign::{Entry, Event};

use super::chain::Chain;
use super::round::{Attempt, Round};

/// A campaign as it stands. The default is the one of which nothing is written yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// What it is, once it has begun.
    pub began: Option<Began>,
    /// The newest judge.
    pub prepared: Option<Prepared>,
    /// What was known when it began.
    pub tips: Option<TipsRead>,
    /// Round 1.
    pub baseline: Option<Baseline>,
    /// The rounds after it, from number 2 on; the last may be open.
    pub rounds: Vec<Round>,
    /// What training steps said.
    pub trained: Vec<Trained>,
    /// Proposers that have nothing more, each once.
    pub exhausted: Vec<String>,
    /// Each time it went on after a pause.
    pub resumed: Vec<Resumed>,
    /// Whether the user asked for the end.
    pub stop_asked: bool,
    /// Why it ended, if it has.
    pub ended: Option<Ended>,
    /// What was reported, if it was.
    pub reported: Option<Reported>,
    /// Lines that are wrong, and what is right.
    pub corrections: Vec<Correction>,
    /// Seconds it had run at the newest event.
    pub elapsed_s: f64,
    /// The number that the next entry must have.
    pub next_number: u64,
    /// Index of the last accepted round.
    pub(super) standing: Option<usize>,
    /// Rounds that are decided since the last one that brought a gain.
    pub(super) without_improvement: u32,
    /// The accepted gains.
    pub(super) chain: Chain,
    /// Sum over everything that was measured in full.
    pub(super) false_accept: f64,
    /// Attempts that were refused.
    pub(super) refused: usize,
    /// What proposers said to have used.
    pub(super) spent: Usage,
}

/// Where a campaign stands: what is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is written yet.
    DefineTarget,
    /// The judge is to be built.
    Prepare,
    /// What is known is to be read.
    ReadTips,
    /// Round 1 is to be measured.
    Baseline,
    /// No round is open: a new one may begin, or the campaign ends.
    Analyze,
    /// A round is open, and an attempt is to be handed in.
    Propose {
        /// The round.
        round: u32,
        /// The attempt that is due.
        attempt: u32,
    },
    /// An attempt was handed in and is to be judged.
    Validate {
        /// The round.
        round: u32,
        /// The attempt.
        attempt: u32,
    },
    /// A round was decided, and what it teaches is to be written down.
    Learn {
        /// The round.
        round: u32,
    },
    /// The campaign has ended, and the report is owed.
    Report,
    /// Nothing is left to do.
    Over,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefineTarget => f.write_str("DEFINE_TARGET"),
            Self::Prepare => f.write_str("PREPARE"),
            Self::ReadTips => f.write_str("READ_TIPS"),
            Self::Baseline => f.write_str("BASELINE"),
            Self::Analyze => f.write_str("ANALYZE"),
            Self::Propose { round, attempt } => write!(f, "PROPOSE (round {round}, attempt {attempt})"),
            Self::Validate { round, attempt } => write!(f, "VALIDATE (round {round}, attempt {attempt})"),
            Self::Learn { round } => write!(f, "LEARN (round {round})"),
            Self::Report => f.write_str("REPORT"),
            Self::Over => f.write_str("OVER"),
        }
    }
}

impl State {
    /// Where the campaign stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.reported.is_some() {
            Phase::Over
        } else if self.ended.is_some() {
            Phase::Report
        } else if self.began.is_none() {
            Phase::DefineTarget
        } else if self.prepared.is_none() {
            Phase::Prepare
        } else if self.tips.is_none() {
            Phase::ReadTips
        } else if self.baseline.is_none() {
            Phase::Baseline
        } else {
            self.rounds.last().map_or(Phase::Analyze, Round::phase)
        }
    }

    /// The entry that says `event` next.
    #[must_use]
    pub fn entry(&self, at: impl Into<String>, elapsed_s: f64, event: Event) -> Entry {
        Entry { format: FORMAT_VERSION, number: self.next_number, at: at.into(), elapsed_s, event }
    }

    /// The version that stands: the commit of the last accepted round, or the one that the campaign starts from. Empty
    /// before it has begun.
    #[must_use]
    pub fn incumbent(&self) -> &str {
        let base = self.began.as_ref().map_or("", |began| &began.base);
        self.last_accepted().and_then(Round::accepted).map_or(base, |accepted| &accepted.commit)
    }

    /// The round that is not decided yet.
    #[must_use]
    pub fn open_round(&self) -> Option<&Round> {
        self.rounds.last().filter(|round| round.outcome.is_none())
    }

    /// The round of that number.
    #[must_use]
    pub fn round(&self, number: u32) -> Option<&Round> {
        self.rounds.get(usize::try_from(number.checked_sub(2)?).ok()?)
    }

    /// The number that the next round must have.
    #[must_use]
    pub fn next_round(&self) -> u32 {
        self.rounds.last().map_or(2, |round| round.number + 1)
    }

    /// Rounds that have begun, the baseline among them once it is measured.
    #[must_use]
    pub fn rounds_begun(&self) -> usize {
        usize::from(self.baseline.is_some()) + self.rounds.len()
    }

    /// The accepted rounds, in order.
    pub fn accepted(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.is_accepted())
    }

    /// The round that stands; none while the baseline does.
    #[must_use]
    pub fn last_accepted(&self) -> Option<&Round> {
        self.rounds.get(self.standing?)
    }

    /// What the training step of that round said; without a round, that of the report.
    #[must_use]
    pub fn trained(&self, round: Option<u32>) -> Option<&Training> {
        self.trained.iter().find(|trained| trained.round == round).map(|trained| &trained.training)
    }

    /// Rounds that were rolled back since the last accepted one.
    #[must_use]
    pub fn rollbacks_in_a_row(&self) -> u32 {
        let first = self.standing.map_or(0, |index| index + 1);
        let decided = self.rounds.len() - usize::from(self.open_round().is_some());
        u32::try_from(decided - first).unwrap_or(u32::MAX)
    }

    /// Rounds that were decided since the last one that was accepted with a gain. A policy may accept without one.
    #[must_use]
    pub fn rounds_without_improvement(&self) -> u32 {
        self.without_improvement
    }

    /// What proposers said to have used; what none of them told is none.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.spent
    }

    /// Attempts that failed before they could be measured.
    #[must_use]
    pub fn attempts_refused(&self) -> usize {
        self.refused
    }

    /// The gain over the baseline that follows from the accepted rounds, and the ends of its 95 % interval; none where
    /// nothing was accepted. It attributes; the gain that counts is measured, final against baseline.
    #[must_use]
    pub fn chain_gain(&self) -> Option<(f64, f64, f64)> {
        self.chain.gain()
    }

    /// The probability, at most, that any of the accepts is false. Every candidate that was measured in full is charged,
    /// whatever came of it.
    #[must_use]
    pub fn false_accept_bound(&self) -> f64 {
        self.false_accept.min(1.0)
    }

    /// File names of the patches of that proposer that were tried. A patch of another queue may be called the same.
    #[must_use]
    pub fn used_by(&self, proposer: &str) -> Vec<String> {
        let rounds = self.rounds.iter().filter(|round| round.proposer == proposer);
        rounds.flat_map(|round| &round.attempts).flat_map(Attempt::sources).map(str::to_owned).collect()
    }

    /// What each shape takes with the version that stands; nothing before the baseline.
    #[must_use]
    pub fn latest_times(&self) -> &[ShapeTime] {
        let baseline = self.baseline.as_ref().map_or(&[][..], |baseline| &baseline.shapes);
        self.last_accepted().and_then(Round::full).map_or(baseline, |measured| &measured.shapes)
    }
}
