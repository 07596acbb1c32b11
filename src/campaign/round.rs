//! ANALYZE and PROPOSE: a round is begun, somebody is asked for one change, and what was handed in is checked and stored
//! before anything is compiled.

use kopt_schema::campaign::event::{Exhausted, Proposed, Reason, Refused, RolledBack, RoundBegan, Usage};
use kopt_schema::campaign::target::Source;
use kopt_schema::campaign::{Bucket, Event, Proposal};
use kopt_schema::exit::Exit;

use super::{Campaign, folder};
use crate::error::{Error, Result};
use crate::ledger;
use crate::proposer::{Brief, Outcome};

/// Attempts of a round at most: the first, and three with the error given back.
pub const ATTEMPTS: u32 = 4;

/// Rounds in a row without an answer after which a campaign waits for somebody to mend its proposer.
const UNANSWERED: u32 = 2;

/// What `try` and events call a change that came by hand.
pub const BY_HAND: &str = "by hand";

impl Campaign<'_> {
    /// ANALYZE: begins the next round. `false` where the next change comes by hand.
    pub(super) fn begin_round(&mut self) -> Result<bool> {
        if self.unanswered >= UNANSWERED {
            let last = self.state().rounds.last().and_then(|round| round.rolled_back());
            let why = last.map(|rolled_back| rolled_back.message.clone()).unwrap_or_default();
            return Err(Error::new(Exit::Locked, format!("no proposal came in {UNANSWERED} rounds in a row"))
                .cause(why)
                .hint("the campaign is paused: see to the agent (is it logged in, has it credit?), then `cargo kopt resume`"));
        }
        let mut spent = Vec::new();
        for proposer in &self.proposers {
            let name = proposer.name();
            if !self.state().exhausted.contains(&name) && !proposer.has_more(&self.state().used_by(&name)) {
                spent.push(name);
            }
        }
        if let Some(proposer) = spent.into_iter().next() {
            // One at a time: whether the campaign ends is looked at again after each.
            self.add(Event::Exhausted(Exhausted { proposer }))?;
            return Ok(true);
        }
        let ready: Vec<String> = self
            .proposers
            .iter()
            .map(|proposer| proposer.name())
            .filter(|name| !self.state().exhausted.contains(name))
            .collect();
        let Some(name) = ready.get(self.state().rounds.len() % ready.len().max(1)).cloned() else { return Ok(false) };
        let incumbent = self.state().incumbent().to_owned();
        self.lineage.reset(&incumbent)?;
        self.open_round(&name)?;
        Ok(true)
    }

    /// Writes down that a round begins.
    pub(super) fn open_round(&mut self, proposer: &str) -> Result<()> {
        let state = self.state();
        let began = RoundBegan {
            round: state.next_round(),
            incumbent: state.incumbent().to_owned(),
            proposer: proposer.to_owned(),
            rollbacks: state.rollbacks_in_a_row(),
        };
        let folder = self.folder.round(began.round);
        std::fs::create_dir_all(folder.join("artifacts"))
            .map_err(|error| Error::new(Exit::Output, format!("cannot make `{folder}`")).because(&error))?;
        self.add(Event::RoundBegan(began))
    }

    /// PROPOSE: asks whoever's turn it is. `false` where that is a person.
    pub(super) fn propose(&mut self, round: u32, attempt: u32) -> Result<bool> {
        let Some(open) = self.state().open_round() else {
            return Err(Error::new(Exit::Internal, "no round is open"));
        };
        let (name, incumbent) = (open.proposer.clone(), open.incumbent.clone());
        let failure = open.attempts.last().and_then(|attempt| attempt.refused.clone());
        if self.is_spent(round)? {
            return Ok(true);
        }
        let Some(index) = self.proposers.iter().position(|proposer| proposer.name() == name) else {
            // Nobody would ever hand in the next attempt where the campaign is to end, or others propose: `try` takes an edit
            // between their rounds, too, and whoever takes the campaign up after it goes on with theirs.
            if self.folder.stop().exists() {
                self.roll_back(round, Reason::Stopped, "the campaign was stopped while the round was open")?;
            } else if self.target.proposers.contains(&Source::Hand) {
                return Ok(false);
            } else if let Some(last) = &failure {
                self.roll_back(round, last.reason, &last.message)?;
            } else {
                self.roll_back(round, Reason::Stopped, "the campaign went on without an edit by hand")?;
            }
            return Ok(true);
        };
        let used_up = ledger::used_up(self.state(), &self.target, self.journal.elapsed_s());
        if let (Some(last), Some(what)) = (&failure, used_up) {
            // Between rounds the campaign ends by it; another attempt would go on spending until then, or have no time.
            let message = format!("{}; no {what} is left for another attempt", last.message);
            self.roll_back(round, last.reason, &message)?;
            return Ok(true);
        }
        let retry = self.proposers[index].can_retry();
        if failure.as_ref().is_none_or(|failure| failure.reason.is_put_back()) {
            self.lineage.reset(&incumbent)?;
        }
        // A process that has taken the campaign up has compiled nothing yet that it could show. A queue looks at nothing.
        if retry
            && ledger::ladder(self.state().rollbacks_in_a_row()) >= ledger::Rung::Disassembly
            && let Err(error) = self.tools()
        {
            let why = self.let_go(error)?;
            self.roll_back(round, Reason::Stopped, &super::undecided(&why))?;
            return Ok(true);
        }
        self.audience.doing(&format!("round {round}: {name}"));
        let dossier = self.dossier()?;
        let used = self.state().used_by(&name);
        let (crate_folder, round_folder) = (self.crate_folder(), self.folder.round(round));
        let brief = Brief {
            target: &self.target,
            round,
            attempt,
            incumbent: &incumbent,
            workspace: self.lineage.workspace(),
            crate_folder: &crate_folder,
            round_folder: &round_folder,
            used: &used,
            failure: failure.as_ref(),
            dossier: &dossier,
        };
        let answer = self.proposers[index].propose(self.context, self.interrupts, &brief)?;
        for note in &answer.notes {
            self.audience.shell().note(note);
        }
        self.warn_of_cost(retry, answer.usage);
        let spent = Spent { seconds: answer.seconds, usage: answer.usage, source: answer.source, said: answer.said };
        match answer.outcome {
            Outcome::Change(proposal) => self.take(round, attempt, &name, proposal, spent, retry)?,
            Outcome::Nothing => {
                self.refuse(round, attempt, Reason::NoChange, "nothing was proposed", spent, false)?;
            }
            Outcome::Failed { reason, message } => {
                let message = match reason {
                    Reason::DoesNotApply => message + &self.below(&name),
                    _ => message,
                };
                self.refuse(round, attempt, reason, &message, spent, retry)?;
            }
        }
        Ok(true)
    }

    /// Says once that a limit of money does not hold for an agent that does not tell what it costs.
    fn warn_of_cost(&mut self, is_agent: bool, usage: Option<Usage>) {
        let is_told = usage.is_some_and(|usage| usage.cost_usd.is_some());
        if is_agent && !is_told && self.target.max_cost_usd.is_some() && !self.warned_of_cost {
            self.warned_of_cost = true;
            self.audience.shell().warn(
                "the agent does not say what it costs: `max_cost_usd` cannot hold it back; `--max-rounds` and `--max-time` do",
            );
        }
    }

    /// What a patch of that queue may stand on that is not there.
    fn below(&self, proposer: &str) -> String {
        let rolled_back = self.state().rounds.iter().filter(|round| {
            let reason = round.rolled_back().map(|rolled_back| rolled_back.reason);
            round.proposer == proposer && reason.is_some_and(|reason| reason != Reason::DoesNotApply)
        });
        let patches: Vec<&str> = rolled_back.filter_map(|round| round.said()?.source.as_deref()).collect();
        match &patches[..] {
            [] => String::new(),
            [one] => format!("; it may stand on {one}, which was rolled back"),
            [few @ .., last] => format!("; it may stand on {} or {last}, which were rolled back", few.join(", ")),
        }
    }

    /// Whether the open round was refused for the last time; it is over then. Only a process that was killed between the
    /// refusal and the rollback leaves such a one, and the next proposal would be taken for another attempt at it.
    pub(super) fn is_spent(&mut self, round: u32) -> Result<bool> {
        let last = self.state().open_round().and_then(|open| open.attempts.last());
        let Some(refused) = last.and_then(|attempt| attempt.refused.clone()) else { return Ok(false) };
        if self.may_retry() && may_be_tried_again(&refused) {
            return Ok(false);
        }
        self.roll_back(round, refused.reason, &refused.message)?;
        Ok(true)
    }

    /// A change was handed in: it is looked at, stored, and written down.
    pub(super) fn take(
        &mut self,
        round: u32,
        attempt: u32,
        proposer: &str,
        proposal: Proposal,
        spent: Spent,
        retry: bool,
    ) -> Result<()> {
        self.unanswered = 0;
        let incumbent = self.state().incumbent().to_owned();
        let sources = self.sources();
        let spent = Spent { said: Some(proposal.clone()), ..spent };
        let changes = self.lineage.changes(&incumbent, &sources)?;
        if !changes.forbidden.is_empty() {
            let told: Vec<String> =
                changes.forbidden.iter().map(|one| format!("{} ({})", one.path, one.what)).collect();
            let message = format!("{}; only {} may change", told.join(", "), self.target.kernel_sources.join(", "));
            return self.refuse(round, attempt, Reason::Forbidden, &message, spent, retry);
        }
        if changes.changed.is_empty() {
            return self.refuse(round, attempt, Reason::NoChange, "no source was changed", spent, retry);
        }
        if let Some(why) = proposal.bucket.and_then(remembers) {
            return self.refuse(round, attempt, Reason::Overfit, why, spent, retry);
        }
        if let Some(like) = ledger::similar(self.state(), &proposal) {
            let message = format!(
                "too like round {like}, which was rolled back; say in `different` what is different, or try something else"
            );
            return self.refuse(round, attempt, Reason::Similar, &message, spent, retry);
        }
        // An accept of this candidate can only be begun after it is measured: a reference that says otherwise is not ours.
        self.lineage.withdraw(&incumbent)?;
        let candidate = self.lineage.capture(&incumbent, round, attempt, &sources, &proposal.title)?;
        let folder = self.folder.round(round);
        folder::write(&folder.join("candidate.diff"), candidate.diff.as_bytes())?;
        let text = toml::to_string_pretty(&proposal)
            .map_err(|error| Error::new(Exit::Internal, "cannot write a proposal as TOML").because(&error))?;
        folder::write(&folder.join("proposal.toml"), text.as_bytes())?;
        self.snapshot(round, &candidate.commit)?;
        self.add(Event::Proposed(Proposed {
            round,
            attempt,
            proposer: proposer.to_owned(),
            proposal,
            candidate: candidate.commit,
            files: candidate.files,
            lines: candidate.lines,
            seconds: spent.seconds,
            usage: spent.usage,
        }))
    }

    /// An attempt failed: another one follows, or the round is over.
    pub(super) fn refuse(
        &mut self,
        round: u32,
        attempt: u32,
        reason: Reason,
        message: &str,
        spent: Spent,
        retry: bool,
    ) -> Result<()> {
        let Spent { seconds, usage, source, said: proposal } = spent;
        let message = message.to_owned();
        let refused = Refused { round, attempt, reason, message, seconds, usage, source, proposal };
        self.add(Event::Refused(refused.clone()))?;
        if retry && may_be_tried_again(&refused) {
            return Ok(());
        }
        self.roll_back(round, reason, &refused.message)
    }

    /// The round is over, and the version that stood stands, also where a killed process had begun to accept the round.
    pub(super) fn roll_back(&mut self, round: u32, reason: Reason, message: &str) -> Result<()> {
        let incumbent = self.state().incumbent().to_owned();
        self.lineage.withdraw(&incumbent)?;
        self.unanswered = if reason == Reason::Proposer { self.unanswered + 1 } else { 0 };
        self.add(Event::RolledBack(RolledBack { round, reason, message: message.to_owned() }))
    }

    /// The declared sources, relative to the workspace.
    pub(super) fn sources(&self) -> Vec<camino::Utf8PathBuf> {
        let sources = self.target.kernel_sources.iter();
        sources.map(|source| relative(&self.kernel.path, source)).collect()
    }

    /// The sources of the candidate, for people.
    fn snapshot(&self, round: u32, candidate: &str) -> Result<()> {
        let folder = self.folder.round(round).join("kernel_snapshot");
        for source in &self.target.kernel_sources {
            if let Some(bytes) = self.lineage.file(candidate, &relative(&self.kernel.path, source))? {
                folder::write(&folder.join(source), &bytes)?;
            }
        }
        Ok(())
    }
}

/// Whether another attempt may follow one that was refused, by whoever can try again.
fn may_be_tried_again(refused: &Refused) -> bool {
    refused.attempt < ATTEMPTS && refused.reason != Reason::Overfit
}

/// Why a change of that bucket is refused by its own words, if it is. A cache of weights shows by what it exports, and is
/// judged by its trace.
const fn remembers(bucket: Bucket) -> Option<&'static str> {
    match bucket {
        Bucket::K1 | Bucket::K2 | Bucket::K3 | Bucket::K4 | Bucket::W1 => None,
        Bucket::W2 | Bucket::W3 => {
            Some("by its own words it is W2 or W3, a memory of past calls, which training does not repeat")
        }
    }
}

/// A path of the crate, seen from the workspace.
pub fn relative(crate_path: &camino::Utf8Path, source: &str) -> camino::Utf8PathBuf {
    if crate_path == "." { source.into() } else { crate_path.join(source) }
}

/// What asking has cost, and what it brought where no change can be stored.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Seconds.
    pub seconds: f64,
    /// As the proposer tells it.
    pub usage: Option<Usage>,
    /// The patch that was used up by it.
    pub source: Option<String>,
    /// What its author says of the change.
    pub said: Option<Proposal>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remembers_calls_is_refused_and_what_does_not_is_judged() {
        let refused: Vec<&str> =
            Bucket::ALL.into_iter().filter(|one| remembers(*one).is_some()).map(Bucket::name).collect();
        assert_eq!(refused, ["W2", "W3"]);
    }
}
