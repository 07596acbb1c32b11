//! What follows from matches and trailers: from evidence to an outcome, from outcomes to an exit code.

use kopt_schema::evidence::{Direction, Evidence, Ruling};
use kopt_schema::exit::Exit;
use kopt_schema::message::{GateKernel, GateOutcome};

use super::allow::Allowed;
use super::judge::Held;
use super::{Inconclusive, case};
use crate::records::gate::WORST_FIRST;
use crate::shell::count;

/// Why a version is run before the head's own judge.
pub enum Own {
    /// There is nothing to compare it with.
    Else(GateOutcome, String),
    /// It is wrong before the base's, and the change edits what judges it.
    Edited,
}

/// What the head's own judge says.
pub fn by_its_own(kernel: &mut GateKernel, own: &Own, held: Held) {
    match (own, held) {
        (Own::Edited, Ok(found)) if found.forfeit.is_none() && found.trials > 0 => {
            kernel.outcome = GateOutcome::Integrity;
            let before = std::mem::take(&mut kernel.text);
            kernel.text = format!("it passes only by what the change itself edits: {}", kernel.judging.join(", "));
            kernel.notes.insert(0, format!("before the base's judge: {before}"));
        }
        (Own::Edited, _) => {}
        (Own::Else(outcome, why), Ok(found)) => {
            (kernel.trials, kernel.seconds) = (found.trials, found.seconds);
            match found.forfeit.is_some() {
                true => {
                    kernel.outcome = self::outcome(&found);
                    kernel.text = found.verdict.reasons.first().cloned().unwrap_or_default();
                }
                false => {
                    let trials = count(found.trials, "trial");
                    (kernel.outcome, kernel.text) =
                        (*outcome, format!("{why}; {trials} of its own passed, and nothing was timed"));
                }
            }
        }
        (Own::Else(..), Err(error)) => {
            kernel.outcome = match error.exit() {
                Exit::NoDevice => GateOutcome::NotHere,
                Exit::BuildFailed => GateOutcome::DoesNotBuild,
                _ => GateOutcome::Inconclusive,
            };
            kernel.text = case::words(&error);
        }
    }
}

/// What a match comes to.
pub fn outcome(evidence: &Evidence) -> GateOutcome {
    match evidence.verdict.ruling {
        Ruling::Accepted | Ruling::AcceptedTradeOff if evidence.verdict.direction == Direction::Faster => {
            GateOutcome::Faster
        }
        Ruling::Accepted | Ruling::AcceptedTradeOff => GateOutcome::Passed,
        Ruling::RolledBack => GateOutcome::Regressed,
        Ruling::RolledBackNoise | Ruling::Contaminated => GateOutcome::Inconclusive,
        Ruling::Incorrect => GateOutcome::Incorrect,
        Ruling::IntegrityViolation => GateOutcome::Integrity,
    }
}

/// A slowdown that is meant passes; nothing else can be excused.
pub fn excuse(kernel: &mut GateKernel, allowed: &[Allowed]) {
    let names = [Some(kernel.kernel.as_str()), kernel.renamed_from.as_deref()];
    let Some(found) = allowed.iter().find(|one| names.contains(&Some(one.kernel.as_str()))) else { return };
    match kernel.outcome {
        GateOutcome::Regressed => {
            kernel.outcome = GateOutcome::Allowed;
            kernel.allowed = Some(found.reason.clone());
        }
        outcome if outcome.exit() != Exit::Ok => {
            kernel.notes.push(format!("a commit allows a slowdown ({}); that excuses no other failure", found.reason));
        }
        _ => {}
    }
}

/// The worst that one of them comes to.
pub fn exit(kernels: &[GateKernel], inconclusive: Inconclusive) -> Exit {
    let counts = |exit: &Exit| *exit != Exit::Inconclusive || inconclusive == Inconclusive::Fail;
    let codes: Vec<Exit> = kernels.iter().map(|kernel| kernel.outcome.exit()).filter(counts).collect();
    WORST_FIRST.into_iter().find(|worst| codes.contains(worst)).unwrap_or(Exit::Ok)
}
