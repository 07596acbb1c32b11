//! What follows from matches and trailers: from evidence to an outcome, from outcomes to an exit code.

use kopt_schema::evidence::{Direction, Evidence, Ruling};
use kopt_schema::exit::Exit;
use kopt_schema::message::{GateKernel, GateOutcome};

use super::allow::Allowed;
use super::judge::Held;
use super::{Inconclusive, case};
use crate::error::Error;
use crate::records::gate::WORST_FIRST;
use crate::shell::count;

/// Why a version is run before the head's own judge.
pub enum Own {
    /// There is nothing to compare it with.
    Else(GateOutcome, String),
    /// It is wrong before the base's, and the change edits what judges it.
    Edited,
    /// It has these entries and shapes, of which the base's judge knows nothing.
    Added(Vec<String>),
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
        // What the base's judge has found wrong stays wrong.
        (Own::Added(_), _) if !matches!(kernel.outcome.exit(), Exit::Ok | Exit::Inconclusive) => {}
        (Own::Added(names), Ok(found)) if found.forfeit.is_none() => {
            let (names, trials) = (names.join("`, `"), count(found.trials, "trial"));
            kernel.notes.push(format!("`{names}` is new, and was not timed; {trials} of its own judge passed"));
        }
        (Own::Added(_), Ok(found)) => {
            kernel.outcome = outcome(&found);
            kernel.text = found.verdict.reasons.first().cloned().unwrap_or_default();
        }
        (Own::Else(outcome, why), Ok(found)) => {
            (kernel.trials, kernel.tried_by_base, kernel.seconds) = (found.trials, false, found.seconds);
            match found.forfeit.is_some() {
                true => {
                    kernel.outcome = self::outcome(&found);
                    kernel.text = found.verdict.reasons.first().cloned().unwrap_or_default();
                }
                false => {
                    let trials = count(found.trials, "trial");
                    let unknown = match outcome {
                        GateOutcome::NotCompared => "how fast it is beside the base nobody knows",
                        _ => "nothing was timed",
                    };
                    (kernel.outcome, kernel.text) =
                        (*outcome, format!("{why}; {trials} of its own passed, and {unknown}"));
                }
            }
        }
        // That there is no device here the base's judge has found out already.
        (Own::Added(_), Err(error)) if error.exit() == Exit::NoDevice && kernel.outcome == GateOutcome::NotHere => {}
        (Own::Else(..) | Own::Added(_), Err(error)) => {
            // Where the base's judge has run it, or it was not to pass anyway, one of the change's own that finds no device does
            // not excuse it.
            let may_be_elsewhere = matches!(own, Own::Else(outcome, _) if *outcome != GateOutcome::NotJudged);
            kernel.outcome = match error.exit() {
                Exit::BuildFailed => GateOutcome::DoesNotBuild,
                _ if may_be_elsewhere => unjudged(&error),
                _ => GateOutcome::NotJudged,
            };
            kernel.text = case::words(&error);
        }
    }
}

/// What a kernel comes to whose match could not be held. Only a machine without what it needs excuses it: a kernel that keeps
/// its judge from answering must not get away with that.
pub fn unjudged(error: &Error) -> GateOutcome {
    match error.exit() {
        Exit::NoDevice => GateOutcome::NotHere,
        _ => GateOutcome::NotJudged,
    }
}

/// What a kernel comes to that the change has taken to a backend which this machine may not have, when it has it not.
pub fn out_of_sight(kernel: &mut GateKernel) {
    if kernel.outcome == GateOutcome::NotHere {
        kernel.outcome = GateOutcome::NotJudged;
        kernel.text = format!("{}; {}", kernel.text, case::MOVED);
    }
}

/// What a match comes to.
pub fn outcome(evidence: &Evidence) -> GateOutcome {
    match evidence.verdict.ruling {
        Ruling::Accepted | Ruling::AcceptedTradeOff if evidence.verdict.direction == Direction::Faster => {
            GateOutcome::Faster
        }
        Ruling::Accepted | Ruling::AcceptedTradeOff => GateOutcome::Passed,
        Ruling::RolledBack | Ruling::Overfit => GateOutcome::Regressed,
        // Who keeps the incumbent, or itself, from running must not get away with that.
        Ruling::Contaminated if evidence.forfeit.is_some() => GateOutcome::NotJudged,
        Ruling::RolledBackNoise | Ruling::Contaminated => GateOutcome::Inconclusive,
        Ruling::Incorrect => GateOutcome::Incorrect,
        Ruling::IntegrityViolation => GateOutcome::Integrity,
    }
}

/// A slowdown that is meant passes, and so does a speed that nobody can know; nothing else can be excused.
pub fn excuse(kernel: &mut GateKernel, allowed: &[Allowed]) {
    let names = [Some(kernel.kernel.as_str()), kernel.renamed_from.as_deref()];
    let excused = match kernel.outcome {
        GateOutcome::Regressed => Some(GateOutcome::Allowed),
        GateOutcome::NotCompared => Some(GateOutcome::NotComparedAllowed),
        _ => None,
    };
    let found = allowed.iter().find(|one| names.contains(&Some(one.kernel.as_str())));
    match (found, excused) {
        (Some(found), Some(excused)) => {
            kernel.outcome = excused;
            kernel.allowed = Some(found.reason.clone());
        }
        (Some(found), None) if kernel.outcome.exit() != Exit::Ok => {
            kernel.notes.push(format!("a commit allows a slowdown ({}); that excuses no other failure", found.reason));
        }
        (None, _) if kernel.outcome == GateOutcome::NotCompared => {
            let trailer = format!("`Kopt-Allow: {} <reason>`", kernel.kernel);
            kernel.notes.push(format!("where it is meant to be compared with nothing, a commit says so: {trailer}"));
        }
        _ => {}
    }
}

/// The worst that one of them comes to.
pub fn exit(kernels: &[GateKernel], inconclusive: Inconclusive) -> Exit {
    let counts = |outcome: &GateOutcome| *outcome != GateOutcome::Inconclusive || inconclusive == Inconclusive::Fail;
    let codes: Vec<Exit> = kernels.iter().map(|kernel| kernel.outcome).filter(counts).map(GateOutcome::exit).collect();
    WORST_FIRST.into_iter().find(|worst| codes.contains(worst)).unwrap_or(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use kopt_schema::bout::Forfeit;
    use kopt_schema::message::FailureKind;

    use super::*;
    use crate::page::tests::made;

    fn kernel(outcome: GateOutcome) -> GateKernel {
        GateKernel {
            kernel: "softmax".to_owned(),
            renamed_from: Some("soft".to_owned()),
            outcome,
            text: String::new(),
            notes: Vec::new(),
            judging: Vec::new(),
            audit: Vec::new(),
            allowed: None,
            trials: 0,
            tried_by_base: false,
            verdict: None,
            evidence: None,
            file: None,
            line: None,
            seconds: 0.0,
        }
    }

    #[test]
    fn the_worst_decides_in_the_documented_order() {
        let order = [
            (GateOutcome::Passed, Exit::Ok),
            (GateOutcome::Inconclusive, Exit::Inconclusive),
            (GateOutcome::Regressed, Exit::Regressed),
            (GateOutcome::DoesNotBuild, Exit::BuildFailed),
            (GateOutcome::Incorrect, Exit::Incorrect),
            (GateOutcome::Integrity, Exit::Integrity),
        ];
        let mut kernels = Vec::new();
        for (outcome, worst) in order {
            kernels.insert(0, kernel(outcome));
            assert_eq!(exit(&kernels, Inconclusive::Fail), worst);
        }
        let unsure = [kernel(GateOutcome::Inconclusive)];
        assert_eq!([Inconclusive::Warn, Inconclusive::Pass].map(|how| exit(&unsure, how)), [Exit::Ok; 2]);
        assert_eq!(exit(&[], Inconclusive::Fail), Exit::Ok);
        for unknown in [GateOutcome::NotJudged, GateOutcome::NotCompared] {
            for how in [Inconclusive::Fail, Inconclusive::Warn, Inconclusive::Pass] {
                assert_eq!(exit(&[kernel(unknown)], how), Exit::Inconclusive, "{unknown:?}, {how:?}");
            }
        }
        assert_eq!(exit(&[kernel(GateOutcome::NotComparedAllowed)], Inconclusive::Fail), Exit::Ok);
    }

    #[test]
    fn a_kernel_that_leaves_its_judge_without_a_run_is_not_let_pass_as_undecided() {
        let mut evidence = made::evidence(1.0, "");
        evidence.verdict.ruling = Ruling::Contaminated;
        assert_eq!(outcome(&evidence), GateOutcome::Inconclusive);
        for (contestant, kind) in [(1, FailureKind::NoMemory), (0, FailureKind::Crashed)] {
            let message = "no room".to_owned();
            evidence.forfeit = Some(Forfeit { contestant, case: None, kind, message });
            assert_eq!(outcome(&evidence), GateOutcome::NotJudged, "{kind:?}");
        }
    }

    #[test]
    fn only_a_missing_device_excuses_a_match_that_was_not_held() {
        assert_eq!(unjudged(&Error::new(Exit::NoDevice, "no GPU")), GateOutcome::NotHere);
        for exit in [Exit::Internal, Exit::Setup, Exit::BuildFailed] {
            assert_eq!(unjudged(&Error::new(exit, "the judge did not answer")), GateOutcome::NotJudged);
        }
    }

    #[test]
    fn a_kernel_that_was_taken_to_what_is_not_here_does_not_pass() {
        let after = |outcome: GateOutcome| {
            let mut moved = kernel(outcome);
            out_of_sight(&mut moved);
            moved.outcome
        };
        assert_eq!(after(GateOutcome::NotHere), GateOutcome::NotJudged);
        for outcome in [GateOutcome::NotCompared, GateOutcome::Incorrect] {
            assert_eq!(after(outcome), outcome);
        }
    }

    #[test]
    fn a_trailer_excuses_a_slowdown_under_either_name_and_nothing_else() {
        let allowed = |name: &str| [Allowed { kernel: name.to_owned(), reason: "exact".to_owned() }];
        for (name, outcome) in
            [("softmax", GateOutcome::Allowed), ("soft", GateOutcome::Allowed), ("rmsnorm", GateOutcome::Regressed)]
        {
            let mut slower = kernel(GateOutcome::Regressed);
            excuse(&mut slower, &allowed(name));
            assert_eq!(slower.outcome, outcome, "{name}");
        }
        let with = |trailer: &str| {
            let mut other = kernel(GateOutcome::NotCompared);
            excuse(&mut other, &allowed(trailer));
            (other.outcome, other.allowed, other.notes)
        };
        assert_eq!(with("soft"), (GateOutcome::NotComparedAllowed, Some("exact".to_owned()), Vec::new()));
        let (outcome, excused, told) = with("rmsnorm");
        assert_eq!((outcome, excused), (GateOutcome::NotCompared, None));
        assert!(told.len() == 1 && told[0].ends_with("`Kopt-Allow: softmax <reason>`"), "{told:?}");
        for outcome in
            [GateOutcome::Incorrect, GateOutcome::Integrity, GateOutcome::DoesNotBuild, GateOutcome::NotJudged]
        {
            let mut other = kernel(outcome);
            excuse(&mut other, &allowed("softmax"));
            assert_eq!((other.outcome, other.allowed, other.notes.len()), (outcome, None, 1));
        }
    }

    #[test]
    fn a_judge_of_the_changes_own_that_finds_no_device_excuses_only_what_no_other_has_run() {
        let absent = || Err(Error::new(Exit::NoDevice, "no GPU"));
        for (own, before, expected) in [
            (Own::Added(vec!["second".to_owned()]), GateOutcome::Inconclusive, GateOutcome::NotJudged),
            (Own::Added(vec!["second".to_owned()]), GateOutcome::NotHere, GateOutcome::NotHere),
            (Own::Else(GateOutcome::NotJudged, String::new()), GateOutcome::NotJudged, GateOutcome::NotJudged),
            (Own::Else(GateOutcome::New, String::new()), GateOutcome::NotJudged, GateOutcome::NotHere),
        ] {
            let mut judged = kernel(before);
            by_its_own(&mut judged, &own, absent());
            assert_eq!(judged.outcome, expected);
        }
    }
}
