//! LEARN and REPORT: what a round leaves behind, and what came of the whole.

use camino::Utf8Path;
use kopt_schema::campaign::Event;
use kopt_schema::campaign::event::{Learned, Reported};
use kopt_schema::evidence::{Evidence, Ruling};
use kopt_schema::exit::Exit;

use super::bouts::{self, Purpose};
use super::validate::MATCHES;
use super::{Campaign, bug, folder, told};
use crate::error::{Error, Result};
use crate::experience;
use crate::ledger::Outcome;
use crate::records::{self, Decision, RoundFacts};

/// The evidence of the end against the beginning, in the campaign's folder.
const TOTAL: &str = "evidence-total.json";

impl Campaign<'_> {
    /// LEARN: the round's summary, a tip where there is one, and everything stored with the campaign's references.
    pub(super) fn learn(&mut self, number: u32) -> Result<()> {
        let facts = self.decided(number)?;
        self.write_summary(&facts)?;
        let commit =
            self.state().round(number).and_then(|round| round.accepted()).map(|accepted| accepted.commit.clone());
        let tip = experience::tip_of_round(&facts, commit.as_deref());
        if let Some(tip) = &tip {
            experience::learn(&self.tips_folder(), tip)?;
        }
        let incumbent = self.state().incumbent().to_owned();
        self.lineage.reset(&incumbent)?;
        self.add(Event::Learned(Learned { round: number, tip: tip.map(|tip| tip.title) }))?;
        self.write_logs()?;
        self.store_round(number)
    }

    /// Everything that is said of a round that is decided.
    pub(super) fn decided(&self, number: u32) -> Result<RoundFacts> {
        let round = self.state().round(number).ok_or_else(|| bug("a round that is not there"))?;
        let decision = match &round.outcome {
            Some(Outcome::Accepted(accepted)) => Decision::Accepted { ruling: accepted.ruling, gain: accepted.gain },
            Some(Outcome::RolledBack(rolled_back)) => {
                Decision::RolledBack { reason: rolled_back.reason, message: rolled_back.message.clone() }
            }
            None => return Err(bug("a round that is not decided")),
        };
        let found = round.verdict().and_then(|measured| self.evidence_of(number, measured).ok());
        Ok(self.facts(round, decision, found.as_ref()))
    }

    /// REPORT: the version that stands against the baseline, measured, and everything told.
    pub(super) fn report(&mut self) -> Result<()> {
        self.make_up_baseline()?;
        let (base, head) = (self.target.base.clone(), self.state().incumbent().to_owned());
        let (mut found, mut unmeasured) = (None, None);
        if head != base && self.state().last_accepted().is_some() {
            self.audience.doing("the end against the beginning");
            match self.total([&base, &head]) {
                Ok(total) => found = Some(total),
                Err(error) => {
                    unmeasured = Some(self.let_go(error)?);
                    // Of a process that was killed: no event and no report names its digest.
                    remove_if_there(&self.folder.path.join(TOTAL))?;
                }
            }
        }
        let report = self.whole_report(found.as_ref(), unmeasured)?;
        let [markdown, json] = self.folder.report();
        let data = serde_json::to_vec_pretty(&report).map_err(|error| bug("a report as JSON").because(&error))?;
        folder::write(&json, &data)?;
        folder::write(&markdown, records::report_markdown(&report).as_bytes())?;
        let shapes = match &found {
            Some((_, evidence)) => bouts::times(evidence, true),
            None => self.state().latest_times().to_vec(),
        };
        self.add(Event::Reported(Reported {
            evidence: found.as_ref().map(|(digest, _)| digest.clone()),
            total: report.total.as_ref().map(|total| total.gain),
            shapes,
        }))
    }

    /// The end against the beginning: the digest of the evidence, and the evidence. A training step beside it.
    fn total(&mut self, [base, head]: [&str; 2]) -> Result<(String, Evidence)> {
        let path = self.folder.path.join(TOTAL);
        let mut evidence = self.hold([base, head], Purpose::Total, &path)?;
        for _ in 1..MATCHES {
            if evidence.verdict.ruling != Ruling::Contaminated {
                break;
            }
            self.disturbed(&evidence.verdict.reasons);
            evidence = self.hold([base, head], Purpose::Total, &path)?;
        }
        let digest = told::digest_of(&path)?;
        self.train_report([base, head])?;
        Ok((digest, evidence))
    }

    /// What is left to do when the report is written. The worktree goes last: while it stands, `resume` comes here.
    pub(super) fn tidy(&mut self) -> Result<()> {
        self.write_logs()?;
        self.store_end()?;
        // The branch has everything; the folder would only go stale.
        self.lineage.remove_worktree()
    }
}

fn remove_if_there(path: &Utf8Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::new(Exit::Output, format!("cannot remove `{path}`")).because(&error))
        }
        _ => Ok(()),
    }
}
