//! What records and proposers are told, from the ledger and the evidence on disk.

use camino::Utf8Path;
use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::event::{Measured, Proposed, ShapeTime};
use kopt_schema::evidence::{Ceilings, Estimate, Evidence, ShapeVerdict};
use kopt_schema::manifest::Backend;

use super::{Campaign, folder};
use crate::error::{Error, Result};
use crate::ledger::{self, Round};
use crate::machine::Moment;
use crate::proposer::brief::{
    DirectionStanding, Dossier, LastAccepted, LastRollback, PastRound, ShapeChange, ShapeStanding, Tip, without_seeds,
};
use crate::records::{
    self, BucketFinding, Decision, Grounds, Measurement, RoundFacts, TransferDecision, TransferFacts, VersusBaseline,
};
use crate::shell::units;

/// Bytes of instructions that a proposer is given at most.
const DISASSEMBLY: usize = 48 << 10;

/// SHA-256 of a file.
pub fn digest_of(path: &Utf8Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| Error::setup(format!("cannot read `{path}`")).because(&error))?;
    Ok(folder::digest(&bytes))
}

/// The gain that follows from the accepted rounds, as an estimate.
pub fn of_chain(chain: (f64, f64, f64)) -> Estimate {
    let (gain, low, high) = chain;
    Estimate { gain, low, high, confidence: 0.95, launch_sigma: 0.0, launches: 0 }
}

/// Tips that a proposer is given, the most useful ones.
const TIPS: usize = 20;

impl Campaign<'_> {
    /// Everything that is said of a round: of one that is decided, or is about to be by `decision`.
    pub(super) fn facts(&self, round: &Round, decision: Decision, found: Option<&Evidence>) -> RoundFacts {
        let proposed = round.stored();
        let attempt = round.attempts.last();
        let kept = self.measurements(round, attempt.map_or(&[][..], |attempt| &attempt.measured), found);
        let state = self.state();
        let directions = ledger::directions(state);
        let proposal = round.said().cloned();
        let mut transfer = self.transfer(proposal.as_ref(), &decision, found);
        self.add_training(round.number, &mut transfer);
        RoundFacts {
            target: self.target.clone(),
            round: round.number,
            at: Moment::now().minute(),
            toolchain: found.map(|found| found.candidate.compiler.clone()).unwrap_or_default(),
            proposer: round.proposer.clone(),
            proposal,
            files: proposed.map(|proposed| proposed.files.clone()).unwrap_or_default(),
            lines: proposed.map_or([0, 0], |proposed| proposed.lines),
            refused: round.attempts.iter().filter_map(|attempt| attempt.refused.clone()).collect(),
            measurements: kept,
            versus_baseline: self.versus_baseline(round.number, &decision),
            rollbacks: state.rollbacks_in_a_row(),
            directions: directions.iter().map(|direction| direction.category.name().to_owned()).collect(),
            transfer,
            root_cause: None,
            decision,
        }
    }

    fn measurements(&self, round: &Round, measured: &[Measured], found: Option<&Evidence>) -> Vec<Measurement> {
        let last = measured.last().map(|measured| measured.evidence.clone());
        let one = |measured: &Measured| {
            let of_last = Some(&measured.evidence) == last.as_ref();
            match found.filter(|_| of_last) {
                Some(found) => Some(Measurement::of(measured.level, found, &measured.evidence)),
                // An older one on a disturbed machine was replaced on disk: then there is nothing to show of it.
                None => {
                    let found = self.evidence_of(round.number, measured).ok()?;
                    Some(Measurement::of(measured.level, &found, &measured.evidence))
                }
            }
        };
        measured.iter().filter_map(one).collect()
    }

    /// The gain over the baseline with this round's change in, where it has one. Of a round that is about to be accepted the
    /// ledger does not know yet.
    fn versus_baseline(&self, round: u32, decision: &Decision) -> Option<VersusBaseline> {
        let accepted: Vec<_> = self.state().accepted().collect();
        let is_known = accepted.iter().any(|one| one.number == round);
        let own = match decision {
            Decision::Accepted { gain, .. } if !is_known => Some(gain),
            _ => None,
        };
        if own.is_none() && !is_known && !matches!(decision, Decision::RolledBack { .. }) {
            return None;
        }
        let gains = accepted.iter().filter_map(|round| round.accepted()).map(|accepted| &accepted.gain).chain(own);
        let gain = match (accepted.len(), own) {
            (0, Some(own)) => *own,
            _ => of_chain(ledger::chain(gains)?),
        };
        Some(VersusBaseline { gain, measured: false })
    }

    /// What is known of whether the gain exists outside of a benchmark: what the evidence shows, and where there is none what
    /// the proposer says.
    fn transfer(&self, proposal: Option<&Proposal>, decision: &Decision, found: Option<&Evidence>) -> TransferFacts {
        let claimed = proposal.and_then(|proposal| proposal.bucket);
        let grouped = self.kernel.manifest.shapes.iter().any(|shape| shape.routing().is_some());
        let benchmark = match decision {
            Decision::Accepted { gain, .. } => Some(*gain),
            _ => None,
        };
        if let Some(found) = found {
            return TransferFacts { grouped, benchmark, ..records::established(found, claimed) };
        }
        TransferFacts {
            bucket: claimed.map(|bucket| BucketFinding { bucket, grounds: Grounds::Claimed }),
            grouped,
            benchmark,
            decision: claimed.filter(|bucket| bucket.is_overfit()).map(TransferDecision::of),
            ..TransferFacts::default()
        }
    }

    /// The message of the commit that a round becomes.
    pub(super) fn commit_message(&self, proposed: &Proposed, measured: &Measured, found: &Evidence) -> Result<String> {
        let round = self.state().round(proposed.round).ok_or_else(|| super::bug("a round that is not there"))?;
        let gain = measured.aggregate.ok_or_else(|| super::bug("an accepted round without a gain"))?;
        let decision = Decision::Accepted { ruling: measured.ruling, gain };
        let facts = self.facts(round, decision, Some(found));
        Ok(records::commit_message(&facts))
    }

    /// What a proposer is told.
    pub(super) fn dossier(&self) -> Result<Dossier> {
        let state = self.state();
        let baseline = state.baseline.as_ref().map_or(&[][..], |baseline| &baseline.shapes);
        let standing = |now: &ShapeTime| {
            let before = baseline.iter().find(|time| time.shape == now.shape).map_or(now.seconds, |time| time.seconds);
            ShapeStanding {
                shape: now.shape.clone(),
                baseline_s: before,
                current_s: now.seconds,
                gain: before / now.seconds - 1.0,
                ceiling_share: now.ceiling_share,
            }
        };
        let last_accepted = state.last_accepted().and_then(|round| {
            let (accepted, proposal) = (round.accepted()?, round.proposal()?);
            Some(LastAccepted { round: round.number, title: proposal.title.clone(), gain: accepted.gain })
        });
        let directions = ledger::directions(state).into_iter().map(|direction| DirectionStanding {
            category: direction.category,
            tried: u32::try_from(direction.tried).unwrap_or(u32::MAX),
            accepted: u32::try_from(direction.accepted).unwrap_or(u32::MAX),
            momentum: match direction.momentum {
                Some(momentum) => momentum.name().to_owned(),
                None if direction.untried => "untried".to_owned(),
                None => "nothing accepted".to_owned(),
            },
        });
        let told = |takeaway: String, gain: Option<f64>| match gain {
            Some(gain) => format!("{takeaway} Measured: {:+.1} %.", 100.0 * gain),
            None => takeaway,
        };
        // Warnings that no figure ranks come last, and are told all the same.
        let (first, rest): (Vec<_>, Vec<_>) =
            self.known()?.into_iter().enumerate().partition(|(index, _)| *index < TIPS);
        let warns =
            |tip: &crate::experience::KnownTip| tip.kind != kopt_knowledge::Kind::Technique && tip.gain.is_none();
        let warnings = rest.into_iter().filter(|(_, tip)| warns(tip));
        let tips = first.into_iter().chain(warnings).map(|(_, tip)| Tip {
            title: tip.title,
            takeaway: told(tip.takeaway, tip.gain),
            kind: if tip.kind == kopt_knowledge::Kind::Technique { "technique" } else { "anti-pattern" }.to_owned(),
        });
        let (rollbacks, newest) = (state.rollbacks_in_a_row(), self.newest());
        // Of every shape, which the newest need not be: it may be of a quick round, or of one that was refused before it was timed.
        let of_baseline = self.evidence_of_baseline();
        let spent = state.spent().cost_usd.unwrap_or(0.0);
        Ok(Dossier {
            shapes: state.latest_times().iter().map(standing).collect(),
            gain: state.chain_gain().map(of_chain),
            last_accepted,
            rounds: state.rounds.iter().filter(|round| round.outcome.is_some()).map(past).collect(),
            rollbacks,
            rung: ledger::ladder(rollbacks).words().to_owned(),
            stagnation: ledger::is_stagnant(state),
            directions: directions.collect(),
            tips: tips.collect(),
            last_rollback: self.last_rollback(),
            profile: of_baseline.as_ref().and_then(|found| profile(found, state.latest_times())),
            disassembly: if ledger::ladder(rollbacks) >= ledger::Rung::Disassembly { self.disassembly() } else { None },
            ceilings: of_baseline.as_ref().and_then(|found| found.ceilings.as_ref()).map(ceilings),
            compiler: newest.as_ref().map(|found| found.incumbent.compiler.clone()).unwrap_or_default(),
            flags: newest.map_or_else(|| self.kernel.manifest.flags.clone(), |found| found.incumbent.flags),
            allowed: self.target.kernel_sources.clone(),
            time_left_s: (self.target.max_time_s - self.journal.elapsed_s()).max(0.0),
            cost_left_usd: self.target.max_cost_usd.map(|most| (most - spent).max(0.0)),
        })
    }

    /// The newest evidence that is there: of the last round that was measured, or of the baseline.
    fn newest(&self) -> Option<Evidence> {
        let measured = self.state().rounds.iter().rev().find_map(|round| Some((round.number, round.verdict()?)));
        let of_round = measured.and_then(|(number, measured)| self.evidence_of(number, measured).ok());
        of_round.or_else(|| self.evidence_of_baseline())
    }

    fn evidence_of_baseline(&self) -> Option<Evidence> {
        let bytes = std::fs::read(self.folder.round(1).join("evidence.json")).ok()?;
        crate::referee::evidence::read("the baseline's evidence", &bytes).ok()
    }

    /// The instructions of the version that stands, where the system has a disassembler.
    fn disassembly(&self) -> Option<String> {
        let tools = self.tools.as_ref()?;
        let stands = tools.stand.compile(&self.lineage, self.state().incumbent(), "the version that stands").ok()?;
        let object = stands.object()?;
        let mut command = std::process::Command::new(if self.kernel.manifest.backend == Backend::Cpu {
            "objdump"
        } else {
            "cuobjdump"
        });
        match self.kernel.manifest.backend {
            Backend::Cpu => command.args(["--disassemble", "--no-show-raw-insn", "--section=.text"]),
            Backend::Cuda | Backend::Hip => command.arg("--dump-sass"),
        };
        let said = crate::process::capture({
            command.arg(object);
            command
        });
        let text = said.ok().filter(|said| said.status.success())?.stdout;
        let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at < DISASSEMBLY).last().unwrap_or(0);
        Some(text[..end].to_owned()).filter(|text| !text.is_empty())
    }

    /// The change that was rolled back last, if nothing was accepted since.
    fn last_rollback(&self) -> Option<LastRollback> {
        let state = self.state();
        let round = state.rounds.iter().rev().find(|round| round.outcome.is_some())?;
        round.rolled_back()?;
        // Only of the last attempt, which was rolled back: an earlier one has left its diff and its evidence, too.
        let last = round.attempts.last()?;
        let diff = || std::fs::read_to_string(self.folder.round(round.number).join("candidate.diff")).ok();
        let diff = last.proposed.as_ref().and_then(|_| diff());
        // Both times of one match: times of two are not compared.
        let found = last.measured.last().and_then(|measured| self.evidence_of(round.number, measured).ok());
        let change = |shape: ShapeVerdict| ShapeChange {
            shape: shape.shape,
            before_s: shape.incumbent_s,
            after_s: shape.candidate_s,
            gain: Some(shape.estimate),
        };
        let shapes = found.map(|found| found.verdict.shapes).unwrap_or_default();
        Some(LastRollback { round: round.number, diff, shapes: shapes.into_iter().map(change).collect() })
    }
}

fn past(round: &Round) -> PastRound {
    let proposal = round.said();
    let text = |get: fn(&Proposal) -> &String| proposal.map(get).cloned().unwrap_or_default();
    PastRound {
        round: round.number,
        title: text(|proposal| &proposal.title),
        hypothesis: text(|proposal| &proposal.hypothesis),
        category: proposal.and_then(|proposal| proposal.category),
        status: round.name(),
        gain: round.accepted().map(|accepted| accepted.gain).or_else(|| round.verdict()?.aggregate),
        reason: round.rolled_back().map(|rolled_back| without_seeds(&rolled_back.message)),
    }
}

/// Where the time goes, as far as times, the operator's cost and the device's ceilings tell: for each shape what it moves and
/// computes a second, and which of the two is nearer to what the device can do.
fn profile(found: &Evidence, times: &[ShapeTime]) -> Option<String> {
    let ceilings = found.ceilings.as_ref()?;
    let cases = &found.arrangement.as_ref()?.cases;
    let line = |time: &ShapeTime| {
        let cost = &cases.iter().find(|case| case.name == time.shape)?.cost;
        let bytes = (cost.bytes_read + cost.bytes_written) / time.seconds;
        let flops = cost.flops / time.seconds;
        let moved = bytes / ceilings.copy_bytes_per_s;
        let computed = ceilings.fma_flops_per_s.map(|most| flops / most);
        let bound = match computed {
            Some(computed) if computed > moved => "arithmetic",
            _ => "memory",
        };
        let near = computed.unwrap_or(0.0).max(moved);
        let told = match computed {
            _ if near >= 0.5 => format!("bound by {bound}"),
            Some(_) => "neither is near its ceiling: latency, dependencies or overhead".to_owned(),
            None => "not bound by memory; how much the device can compute was not measured".to_owned(),
        };
        let share = |share: f64| format!("{:.0} % of the ceiling", 100.0 * share);
        let arithmetic = computed.map(|computed| format!(" ({})", share(computed))).unwrap_or_default();
        Some(format!(
            "{}: {}, {} ({}), {}{arithmetic}: {told}",
            time.shape,
            units::seconds(time.seconds),
            units::rate(bytes, "B"),
            share(moved),
            units::rate(flops, "FLOP")
        ))
    };
    let lines: Vec<String> = times.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What the device can do at most, in words.
fn ceilings(ceilings: &Ceilings) -> String {
    let read = ceilings.read_bytes_per_s.map(|rate| format!(", read {}", units::rate(rate, "B"))).unwrap_or_default();
    let fma =
        ceilings.fma_flops_per_s.map(|rate| format!(", arithmetic {}", units::rate(rate, "FLOP"))).unwrap_or_default();
    format!("{}: copy {}{read}{fma}, measured", ceilings.device, units::rate(ceilings.copy_bytes_per_s, "B"))
}
