//! VALIDATE: the candidate is compiled, checked and compared with the version that stands; it is accepted as a commit, or
//! rolled back. Whoever resumes here finds in the ledger how far it got, and nothing is decided twice.

use kopt_schema::campaign::Event;
use kopt_schema::campaign::event::{Accepted, Level, Measured, Proposed, Reason};
use kopt_schema::evidence::{Evidence, Ruling};
use kopt_schema::exit::Exit;

use super::anew::Measurer;
use super::bouts::{self, Purpose};
use super::round::Spent;
use super::{Campaign, told};
use crate::error::{Error, Result};
use crate::gate::{self, CANDIDATE};
use crate::referee::evidence;

/// A full validation of this many seconds needs no quick one before it.
const QUICK_BEYOND_S: f64 = 30.0;

/// And a quick one has one of so many shapes at most. What it does not stop takes its time in addition, and it stops only what is
/// wrong, which a full one finds as soon, or slower, which is seldom most of what is proposed.
const QUICK_SHARE: usize = 3;

/// Launches of a usual decision: six to screen, nine to confirm.
const USUAL_LAUNCHES: f64 = 15.0;

/// Matches on a machine that is disturbed, before the round is given up.
pub(super) const MATCHES: usize = 3;

impl Campaign<'_> {
    pub(super) fn validate(&mut self, round: u32, attempt: u32) -> Result<()> {
        let Some(proposed) = self.proposed(round) else {
            return Err(Error::new(Exit::Internal, "nothing was proposed"));
        };
        if let Some(measured) = self.measured(Level::Full) {
            return self.conclude_again(&proposed, &measured);
        }
        self.audience.doing(&format!("round {round}: {}", proposed.proposal.title));
        if let Some(refused) = self.build_fails(&proposed)? {
            self.go_on()?;
            let retry = self.may_retry();
            return self.refuse(round, attempt, refused.0, &refused.1, Spent::default(), retry);
        }
        if self.needs_quick() {
            let measured = match self.measured(Level::Quick) {
                Some(measured) => measured,
                None => self.measure(&proposed, Level::Quick)?,
            };
            // A quick validation accepts nothing: it only finds what is hopeless.
            if hopeless(&self.evidence_of(round, &measured)?) {
                return self.conclude(&proposed, &measured, Measurer::ThisOne);
            }
        }
        let mut measured = self.measure(&proposed, Level::Full)?;
        // In how many of the matches it was the candidate that found no room.
        let mut without_room = usize::from(self.finds_no_room(&measured)?);
        for _ in 1..MATCHES {
            if measured.ruling != Ruling::Contaminated {
                break;
            }
            self.disturbed(&measured.reasons);
            measured = self.measure(&proposed, Level::Full)?;
            without_room += usize::from(self.finds_no_room(&measured)?);
        }
        if without_room == MATCHES {
            let retry = self.may_retry();
            let message = measured.reasons.join("; ");
            return self.refuse(round, attempt, Reason::Incorrect, &message, Spent::default(), retry);
        }
        self.conclude(&proposed, &measured, Measurer::ThisOne)
    }

    /// Whether the candidate found no memory left where the version that stands had found some.
    fn finds_no_room(&self, measured: &Measured) -> Result<bool> {
        let lost = |evidence: Evidence| evidence.forfeit.is_some_and(|forfeit| forfeit.contestant == CANDIDATE);
        Ok(measured.ruling == Ruling::Contaminated && lost(self.evidence_of(measured.round, measured)?))
    }

    /// Says that a match is held once more, and why.
    pub(super) fn disturbed(&mut self, reasons: &[String]) {
        let why = reasons.first().map_or("the machine was disturbed", String::as_str);
        self.audience.shell().warn(&format!("{why}; measuring again"));
    }

    fn proposed(&self, round: u32) -> Option<Proposed> {
        let open = self.state().open_round().filter(|open| open.number == round)?;
        open.attempts.last()?.proposed.clone()
    }

    /// What was measured of the attempt under way: the last of that level that says anything.
    fn measured(&self, level: Level) -> Option<Measured> {
        let attempt = self.state().open_round()?.attempts.last()?;
        let of_level = |measured: &&Measured| measured.level == level && measured.ruling != Ruling::Contaminated;
        attempt.measured.iter().rev().find(of_level).cloned()
    }

    pub(super) fn may_retry(&self) -> bool {
        let Some(open) = self.state().open_round() else { return false };
        let asked = self.proposers.iter().find(|proposer| proposer.name() == open.proposer);
        // A person may try as often as an agent.
        asked.is_none_or(|proposer| proposer.can_retry())
    }

    /// Why the candidate cannot be measured: it does not compile, or is the same code.
    fn build_fails(&mut self, proposed: &Proposed) -> Result<Option<(Reason, String)>> {
        self.tools()?;
        let Some(tools) = self.tools.as_ref() else {
            return Err(Error::new(Exit::Internal, "no judge was prepared"));
        };
        let stands = tools.stand.compile(&self.lineage, self.journal.state().incumbent(), "the version that stands")?;
        match tools.stand.compile(&self.lineage, &proposed.candidate, "the candidate") {
            Ok(candidate) if candidate.side.code == stands.side.code => {
                Ok(Some((Reason::NoChange, "it compiles to the same code".to_owned())))
            }
            Ok(_) => Ok(None),
            // Whatever is wrong with a launch plan or a knob is wrong with the candidate, too.
            Err(error) if matches!(error.exit(), Exit::BuildFailed | Exit::Setup) => {
                let failure = error.failure();
                let words: Vec<String> = std::iter::once(failure.message).chain(failure.causes).collect();
                Ok(Some((Reason::Build, words.join("\n"))))
            }
            Err(error) => Err(error),
        }
    }

    /// A quick validation first, where the full one takes long, as things stand, and has many more shapes.
    fn needs_quick(&self) -> bool {
        let Some(baseline) = &self.state().baseline else { return false };
        let fewer = QUICK_SHARE * self.target.representative_shapes.len() <= self.target.target_shapes.len();
        fewer && USUAL_LAUNCHES * self.launch_s().unwrap_or(baseline.launch_s) > QUICK_BEYOND_S
    }

    /// Seconds of a launch when the version that stands was accepted: mostly far below what the baseline took. Evidence that
    /// somebody has removed since is no reason to stop.
    fn launch_s(&self) -> Option<f64> {
        let accepted = self.state().last_accepted()?;
        let measured = accepted.attempts.last()?.measured.iter().rfind(|measured| measured.level == Level::Full)?;
        let found = self.evidence_of(accepted.number, measured).ok()?;
        let launches: Vec<f64> =
            found.stages.iter().flat_map(|stage| &stage.launches).map(|each| each.wall_s).collect();
        (!launches.is_empty()).then(|| launches.iter().sum::<f64>() / launches.len() as f64)
    }

    /// Holds a match, keeps its evidence and writes down what came of it.
    fn measure(&mut self, proposed: &Proposed, level: Level) -> Result<Measured> {
        let (purpose, name) = match level {
            Level::Quick => (Purpose::Quick, "evidence-quick.json"),
            Level::Full => (Purpose::Full, "evidence.json"),
        };
        let path = self.folder.round(proposed.round).join(name);
        let incumbent = self.state().incumbent().to_owned();
        let found = self.hold([&incumbent, &proposed.candidate], purpose, &path)?;
        let measured = Measured {
            round: proposed.round,
            attempt: proposed.attempt,
            level,
            evidence: told::digest_of(&path)?,
            ruling: found.verdict.ruling,
            reasons: found.verdict.reasons.clone(),
            aggregate: found.verdict.aggregate,
            shapes: bouts::times(&found, true),
            false_accept: found.verdict.false_accept,
            seconds: found.seconds,
        };
        self.add(Event::Measured(measured.clone()))?;
        Ok(measured)
    }

    /// What follows from a measurement.
    fn conclude(&mut self, proposed: &Proposed, measured: &Measured, measurer: Measurer) -> Result<()> {
        let (round, attempt) = (measured.round, measured.attempt);
        let message = measured.reasons.join("; ");
        match measured.ruling {
            Ruling::Accepted | Ruling::AcceptedTradeOff => self.accept(proposed, measured, measurer),
            Ruling::RolledBack => self.roll_back(round, Reason::Slower, &message),
            Ruling::Overfit => self.roll_back(round, Reason::Overfit, &message),
            Ruling::RolledBackNoise => {
                let message = format!("{message}{}", in_the_way(&self.evidence_of(round, measured)?));
                self.roll_back(round, Reason::Noise, &message)
            }
            Ruling::Contaminated => self.roll_back(round, Reason::Contaminated, &message),
            Ruling::IntegrityViolation => {
                let remembers = {
                    let found = gate::transfer::transfer(&self.evidence_of(round, measured)?);
                    found.memory.is_some() || found.keeps
                };
                let reason = if remembers { Reason::Overfit } else { Reason::Integrity };
                self.roll_back(round, reason, &message)
            }
            Ruling::Incorrect => {
                let retry = self.may_retry();
                self.refuse(round, attempt, Reason::Incorrect, &message, Spent::default(), retry)
            }
        }
    }

    /// What follows from a measurement that another process has written down. That one may have moved the branch before it was
    /// killed: then the candidate was vetted, and is not refused for what has become of the machine since. A process that has
    /// measured by itself does not ask: an agent could write the reference, too.
    fn conclude_again(&mut self, proposed: &Proposed, measured: &Measured) -> Result<()> {
        if measured.ruling.is_accepted() {
            let found = self.evidence_of(proposed.round, measured)?;
            let incumbent = self.state().incumbent().to_owned();
            if let Some(commit) = self.lineage.take_up(&proposed.candidate, &incumbent)? {
                return self.write_accept(proposed, measured, &found, commit);
            }
        }
        self.conclude(proposed, measured, Measurer::Another)
    }

    /// The round becomes a commit. Evidence is on disk and written down; every step here can be taken again.
    fn accept(&mut self, proposed: &Proposed, measured: &Measured, measurer: Measurer) -> Result<()> {
        let round = proposed.round;
        let found = self.evidence_of(round, measured)?;
        if let Some(slower) = self.drift_of(&found) {
            return self.roll_back(round, Reason::Slower, &slower);
        }
        let anew = self.anew()?;
        if let Some(wrong) = self.is_not_what_was_measured(&anew, &proposed.candidate, &found, measurer)? {
            return self.roll_back(round, Reason::Integrity, &wrong);
        }
        self.audience.doing(&format!("round {round}: sanitizers, and cargo test"));
        let (found_by_sanitizers, tested) = self.vetted(&anew, &proposed.candidate)?;
        if let Some(found) = found_by_sanitizers {
            self.go_on()?;
            return self.roll_back(round, Reason::Incorrect, &format!("under the sanitizers: {found}"));
        }
        if let Err(error) = tested {
            if error.exit() != Exit::Incorrect && error.exit() != Exit::BuildFailed {
                return Err(error);
            }
            self.go_on()?;
            let failure = error.failure();
            let words: Vec<String> = std::iter::once(failure.message).chain(failure.causes).collect();
            // A full disk fails every version: the one that stands has passed before.
            if self.fails_without_it(&anew)? {
                self.go_on()?;
                return Err(Error::setup("`cargo test` of the version that stands fails, too, and has passed before")
                    .cause(words.join("\n"))
                    .hint("the campaign is paused: see to the machine, and `cargo kopt resume`"));
            }
            self.go_on()?;
            let message = format!("the crate's own `cargo test` fails with it: {}", words.join("\n"));
            return self.roll_back(round, Reason::Incorrect, &message);
        }
        if let Some(objection) = self.training_objects(&anew, round, &proposed.candidate)? {
            return self.roll_back(round, Reason::Incorrect, &format!("in a training step: {objection}"));
        }
        let message = self.commit_message(proposed, measured, &found)?;
        let incumbent = self.state().incumbent().to_owned();
        let commit = self.lineage.accept(&proposed.candidate, &incumbent, &message)?;
        self.write_accept(proposed, measured, &found, commit)
    }

    fn write_accept(
        &mut self,
        proposed: &Proposed,
        measured: &Measured,
        found: &Evidence,
        commit: String,
    ) -> Result<()> {
        let Some(gain) = measured.aggregate else {
            return Err(Error::new(Exit::Internal, "an accepted round without a gain"));
        };
        let bucket = gate::transfer::transfer(found).bucket(proposed.proposal.bucket);
        let (round, ruling) = (proposed.round, measured.ruling);
        self.add(Event::Accepted(Accepted { round, commit, ruling, gain, bucket }))
    }

    /// The evidence that was written down: what lies on disk must be that.
    pub(super) fn evidence_of(&self, round: u32, measured: &Measured) -> Result<Evidence> {
        let name = if measured.level == Level::Quick { "evidence-quick.json" } else { "evidence.json" };
        let path = self.folder.round(round).join(name);
        let bytes = std::fs::read(&path)
            .map_err(|error| Error::setup(format!("cannot read the evidence `{path}`")).because(&error))?;
        if super::folder::digest(&bytes) != measured.evidence {
            return Err(Error::new(Exit::Locked, format!("the evidence of round {round} was changed: `{path}`")).hint(
                "events name its digest; put the file back, or begin a new campaign from the last accepted commit",
            ));
        }
        evidence::read(path.as_str(), &bytes)
    }
}

/// Whether no other shape could save it: it is wrong, it cheats, or it loses too much on one that was measured. That a few shapes
/// show no gain is no reason: a change may be made for one of the others.
fn hopeless(evidence: &Evidence) -> bool {
    let refused = [Ruling::Incorrect, Ruling::IntegrityViolation].contains(&evidence.verdict.ruling);
    refused || !evidence.verdict.losing(evidence.terms.max_regression).is_empty()
}

/// What keeps a gain that is shown from being accepted, as the end of a sentence; nothing where there is no such gain.
fn in_the_way(evidence: &Evidence) -> String {
    let limit = evidence.terms.max_regression;
    let shapes: Vec<&str> = evidence.verdict.in_the_way(limit).iter().map(|shape| shape.shape.as_str()).collect();
    if shapes.is_empty() {
        return String::new();
    }
    format!("; a loss of {:.0} % is not ruled out on {}", 100.0 * limit, shapes.join(", "))
}
