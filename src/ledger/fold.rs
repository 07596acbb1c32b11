//! The fold: one entry after the other, and what may follow what.
//!
//! An entry is first looked at whole and only then taken in, so that one that is refused changes nothing: whoever writes
//! events asks here before a line is written.

use kopt_schema::campaign::event::{Accepted, Ended, Exhausted, Level, Measured, Refused, RoundBegan, Usage};
use kopt_schema::campaign::trained::Trained;
use kopt_schema::campaign::{Entry, Event};
use kopt_schema::evidence::Ruling;

use super::chain;
use super::lines::{self, Damage, DamageKind, Wrong};
use super::round::{Attempt, Outcome, Round};
use super::state::{Phase, State};

impl State {
    /// The state after all of `entries`.
    ///
    /// # Errors
    /// The first entry that is out of place.
    pub fn fold(entries: &[Entry]) -> Result<Self, Damage> {
        let mut state = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            state.take(entry).map_err(|(kind, what)| Damage { line: index + 1, what, kind })?;
        }
        Ok(state)
    }

    /// The state after one more entry. One that is refused changes nothing.
    ///
    /// # Errors
    /// Why it cannot follow, in words.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        self.take(entry).map_err(|(_, what)| format!("entry {} {what}", entry.number))
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Wrong> {
        lines::place(entry, self.next_number)?;
        lines::survives(entry).map_err(|what| (DamageKind::Impossible, what))?;
        self.may_follow(entry).map_err(|why| (DamageKind::Impossible, format!("cannot follow: {why}")))?;
        self.next_number += 1;
        self.elapsed_s = entry.elapsed_s;
        self.note(entry);
        Ok(())
    }

    /// Whether the entry can come now; if not, why.
    fn may_follow(&self, entry: &Entry) -> Result<(), String> {
        let phase = self.phase();
        match &entry.event {
            Event::Began(_) => expect(phase == Phase::DefineTarget, || "the campaign has begun already".to_owned()),
            _ if phase == Phase::DefineTarget => Err("the campaign has not begun".to_owned()),
            Event::Correction(correction) => expect(correction.of < entry.number, || {
                format!("it corrects entry {}, which does not come before it", correction.of)
            }),
            Event::Resumed(_) => expect(phase != Phase::Over, || "the campaign is over".to_owned()),
            Event::Trained(trained) => self.may_be_trained(trained),
            Event::Reported(_) => match phase {
                Phase::Report => Ok(()),
                Phase::Over => Err("the report was written already".to_owned()),
                _ => Err(format!("a report needs an end, and the campaign is at {phase}")),
            },
            _ if matches!(phase, Phase::Report | Phase::Over) => Err("the campaign has ended".to_owned()),
            Event::Prepared(_) | Event::Exhausted(_) | Event::StopAsked(_) => Ok(()),
            Event::TipsRead(_) => at(phase, Phase::ReadTips, "tips"),
            Event::Baseline(_) => at(phase, Phase::Baseline, "a baseline"),
            Event::RoundBegan(began) => self.may_begin(began),
            Event::Proposed(proposed) => {
                let (round, attempt) = (proposed.round, proposed.attempt);
                at(
                    phase,
                    Phase::Propose { round, attempt },
                    &format!("a proposal of round {round}, attempt {attempt},"),
                )
            }
            Event::Refused(refused) => self.may_be_refused(refused),
            Event::Measured(measured) => self.may_be_measured(measured),
            Event::Accepted(accepted) => self.may_be_accepted(accepted),
            Event::RolledBack(rolled_back) => match phase {
                Phase::Propose { round, .. } | Phase::Validate { round, .. } if round == rolled_back.round => Ok(()),
                _ => Err(not_open(rolled_back.round, phase)),
            },
            Event::Learned(learned) => {
                let round = learned.round;
                at(phase, Phase::Learn { round }, &format!("a lesson of round {round}"))
            }
            Event::Ended(Ended { .. }) => match phase {
                Phase::Propose { round, .. } | Phase::Validate { round, .. } => Err(format!("round {round} is open")),
                Phase::Learn { round } => Err(format!("what round {round} teaches is not written down")),
                _ => Ok(()),
            },
        }
    }

    fn may_begin(&self, began: &RoundBegan) -> Result<(), String> {
        at(self.phase(), Phase::Analyze, &format!("round {}", began.round))?;
        expect(!self.stop_asked, || "the user asked for the end".to_owned())?;
        let due = self.next_round();
        expect(began.round == due, || format!("round {} begins where round {due} is due", began.round))?;
        expect(began.incumbent == self.incumbent(), || {
            format!("round {due} starts from `{}`, and `{}` stands", began.incumbent, self.incumbent())
        })
    }

    fn may_be_refused(&self, refused: &Refused) -> Result<(), String> {
        let (round, attempt) = (refused.round, refused.attempt);
        if self.phase() == (Phase::Propose { round, attempt }) {
            return Ok(());
        }
        self.undecided(round, attempt)
    }

    fn may_be_measured(&self, measured: &Measured) -> Result<(), String> {
        self.undecided(measured.round, measured.attempt)
    }

    /// Whether this attempt is under judgement, and no verdict on its speed is there yet.
    fn undecided(&self, round: u32, attempt: u32) -> Result<(), String> {
        let validated = self.validated(round, attempt)?;
        expect(validated.decided().is_none(), || {
            format!("attempt {attempt} of round {round} has its verdict, and is accepted or rolled back by it")
        })
    }

    /// Once for the baseline, once for a round that is about to be accepted, once for the report.
    fn may_be_trained(&self, trained: &Trained) -> Result<(), String> {
        let phase = self.phase();
        let due = match (trained.round, phase) {
            (None, Phase::Report) | (Some(1), Phase::Baseline) => true,
            (Some(round), Phase::Validate { round: open, attempt }) if round == open => {
                let ruling = self.validated(round, attempt)?.decided();
                ruling.is_some_and(Ruling::is_accepted)
            }
            _ => false,
        };
        let what = trained.round.map_or("the report".to_owned(), |round| format!("round {round}"));
        expect(due, || format!("a training step for {what} is not due: the campaign is at {phase}"))?;
        expect(self.trained(trained.round).is_none(), || format!("a training step was run for {what} already"))
    }

    fn may_be_accepted(&self, accepted: &Accepted) -> Result<(), String> {
        let phase = self.phase();
        let round = accepted.round;
        let Phase::Validate { round: open, attempt } = phase else { return Err(not_open(round, phase)) };
        expect(open == round, || not_open(round, phase))?;
        let ruling = self.validated(round, attempt)?.decided();
        let passed = ruling.filter(|ruling| ruling.is_accepted());
        let Some(passed) = passed else {
            return Err(format!("attempt {attempt} of round {round} was not accepted by a full measurement"));
        };
        expect(accepted.ruling == passed, || {
            format!("round {round} is called {}, and its verdict was {}", accepted.ruling.name(), passed.name())
        })?;
        expect(!accepted.bucket.is_overfit(), || {
            format!("a gain of bucket {} is an over-fit and never accepted", accepted.bucket.name())
        })?;
        expect(!accepted.commit.is_empty() && accepted.commit != self.incumbent(), || {
            format!("round {round} names no commit of its own")
        })?;
        expect(chain::makes_sense(&accepted.gain), || {
            let gain = &accepted.gain;
            format!("a gain of {} in [{}, {}] at {} makes no sense", gain.gain, gain.low, gain.high, gain.confidence)
        })
    }

    /// The attempt, if it is the one under judgement.
    fn validated(&self, round: u32, attempt: u32) -> Result<&Attempt, String> {
        let phase = self.phase();
        let wrong = || format!("attempt {attempt} of round {round} is not under judgement: the campaign is at {phase}");
        expect(phase == Phase::Validate { round, attempt }, wrong)?;
        self.open_round().and_then(|round| round.attempts.last()).ok_or_else(wrong)
    }

    /// Takes in what may follow.
    fn note(&mut self, entry: &Entry) {
        match entry.event.clone() {
            Event::Began(began) => self.began = Some(began),
            Event::Prepared(prepared) => self.prepared = Some(prepared),
            Event::TipsRead(tips) => self.tips = Some(tips),
            Event::Baseline(baseline) => self.baseline = Some(baseline),
            Event::RoundBegan(began) => self.rounds.push(self.opened(began)),
            Event::Proposed(proposed) => {
                self.spend(proposed.usage);
                let number = proposed.attempt;
                self.attempt(number, |attempt| attempt.proposed = Some(proposed));
            }
            Event::Refused(refused) => {
                self.spend(refused.usage);
                self.refused += 1;
                self.attempt(refused.attempt, |attempt| attempt.refused = Some(refused));
            }
            Event::Measured(measured) => {
                if measured.level == Level::Full {
                    self.false_accept += measured.false_accept.clamp(0.0, 1.0);
                }
                self.attempt(measured.attempt, |attempt| attempt.measured.push(measured));
            }
            Event::Trained(trained) => self.trained.push(trained),
            Event::Accepted(accepted) => {
                self.chain.push(&accepted.gain);
                self.standing = self.rounds.len().checked_sub(1);
                let improved = accepted.gain.gain > 0.0;
                self.without_improvement = if improved { 0 } else { self.without_improvement + 1 };
                self.decide(Outcome::Accepted(accepted), &entry.at);
            }
            Event::RolledBack(rolled_back) => {
                self.without_improvement += 1;
                self.decide(Outcome::RolledBack(rolled_back), &entry.at);
            }
            Event::Learned(learned) => {
                if let Some(round) = self.rounds.last_mut() {
                    round.learned = Some(learned);
                }
            }
            Event::Exhausted(Exhausted { proposer }) => {
                if !self.exhausted.contains(&proposer) {
                    self.exhausted.push(proposer);
                }
            }
            Event::Resumed(resumed) => self.resumed.push(resumed),
            Event::StopAsked(_) => self.stop_asked = true,
            Event::Ended(ended) => self.ended = Some(ended),
            Event::Reported(reported) => self.reported = Some(reported),
            Event::Correction(correction) => self.corrections.push(correction),
        }
    }

    fn opened(&self, began: RoundBegan) -> Round {
        let RoundBegan { round: number, incumbent, proposer, rollbacks } = began;
        let began_s = self.elapsed_s;
        let attempts = Vec::new();
        Round {
            number,
            incumbent,
            proposer,
            rollbacks,
            attempts,
            outcome: None,
            learned: None,
            began_s,
            ended_s: None,
            ended_at: None,
        }
    }

    /// Changes an attempt of the open round, which begins if it is not there.
    fn attempt(&mut self, number: u32, change: impl FnOnce(&mut Attempt)) {
        let Some(round) = self.rounds.last_mut() else { return };
        if round.attempts.last().is_none_or(|last| last.number != number) {
            round.attempts.push(Attempt { number, proposed: None, refused: None, measured: Vec::new() });
        }
        if let Some(attempt) = round.attempts.last_mut() {
            change(attempt);
        }
    }

    fn decide(&mut self, outcome: Outcome, at: &str) {
        if let Some(round) = self.rounds.last_mut() {
            round.outcome = Some(outcome);
            round.ended_s = Some(self.elapsed_s);
            round.ended_at = Some(at.to_owned());
        }
    }

    fn spend(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        let tokens = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
            (sum, more) => sum.or(more),
        };
        let spent = &mut self.spent;
        // A claim below zero would pay for others.
        spent.cost_usd = match (spent.cost_usd, usage.cost_usd.map(|cost| cost.max(0.0))) {
            (Some(sum), Some(more)) => Some((sum + more).min(f64::MAX)),
            (sum, more) => sum.or(more),
        };
        spent.input_tokens = tokens(spent.input_tokens, usage.input_tokens);
        spent.output_tokens = tokens(spent.output_tokens, usage.output_tokens);
    }
}

fn expect(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn at(phase: Phase, due: Phase, what: &str) -> Result<(), String> {
    expect(phase == due, || format!("{what} belongs to {due}, and the campaign is at {phase}"))
}

fn not_open(round: u32, phase: Phase) -> String {
    format!("round {round} is not open for a decision: the campaign is at {phase}")
}
