//! What a gate leaves behind, made from its messages alone: Markdown for a job's summary or a comment, annotations of
//! GitHub Actions, and JUnit. Kernel names, paths, reasons of commits and words of compilers come from the change that is
//! gated: none may open a heading, end a table or give a command to the runner.

pub mod annotations;
pub mod junit;
pub mod markdown;

#[cfg(test)]
pub(crate) mod tests;

use kopt_schema::evidence::{Estimate, ShapeVerdict, Verdict};
use kopt_schema::exit::Exit;
use kopt_schema::message::{GateKernel, GateOutcome, GateResult, GateScope};

/// Everything that was told.
#[derive(Debug, Clone, Copy)]
pub struct GateReport<'a> {
    /// Which kernels the change can reach.
    pub scope: &'a GateScope,
    /// What became of each.
    pub kernels: &'a [GateKernel],
    /// What follows.
    pub result: &'a GateResult,
}

/// Codes that a gate ends with, the worst first: with several kernels, the first of these that one of them leads to.
pub const WORST_FIRST: [Exit; 5] =
    [Exit::Integrity, Exit::Incorrect, Exit::BuildFailed, Exit::Regressed, Exit::Inconclusive];

/// How much a kernel matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The gate fails by it.
    Fails,
    /// Somebody should look.
    Warns,
    /// Nothing to say.
    Fine,
}

/// How much a kernel matters under the gate's setting for what cannot be told.
#[must_use]
pub fn weight(kernel: &GateKernel, inconclusive: &str) -> Weight {
    match (kernel.outcome, inconclusive) {
        (GateOutcome::Inconclusive, "warn") => Weight::Warns,
        (GateOutcome::Inconclusive, "pass") => Weight::Fine,
        (outcome, _) if outcome.exit() != Exit::Ok => Weight::Fails,
        (GateOutcome::Allowed | GateOutcome::NotComparedAllowed | GateOutcome::NotHere, _) => Weight::Warns,
        _ if !kernel.judging.is_empty() || !kernel.audit.is_empty() => Weight::Warns,
        _ => Weight::Fine,
    }
}

/// What a commit has allowed of a kernel, in words.
#[must_use]
pub const fn allowance(outcome: GateOutcome) -> &'static str {
    match outcome {
        GateOutcome::NotComparedAllowed => "that it is compared with nothing",
        _ => "the slowdown",
    }
}

/// Whether the base's judge has come to something: what is compared with nothing has only its own.
#[must_use]
pub const fn judged_by_the_bases(kernel: &GateKernel) -> bool {
    kernel.tried_by_base && !matches!(kernel.outcome, GateOutcome::NotJudged)
}

/// A change of time with its interval, `t_new / t_old - 1`, from a gain.
#[must_use]
pub fn time_change(estimate: &Estimate) -> (f64, f64, f64) {
    let change = |gain: f64| 1.0 / (1.0 + gain) - 1.0;
    (change(estimate.gain), change(estimate.high), change(estimate.low))
}

/// `+5.10 % [+4.20, +6.01]`: more time is worse.
#[must_use]
pub fn time_shown(estimate: &Estimate) -> String {
    let (change, low, high) = time_change(estimate);
    format!("{:+.2} % [{:+.2}, {:+.2}]", 100.0 * change, 100.0 * low, 100.0 * high)
}

/// The shape that lost most.
#[must_use]
pub fn worst(verdict: &Verdict) -> Option<&ShapeVerdict> {
    verdict.shapes.iter().min_by(|one, other| one.estimate.gain.total_cmp(&other.estimate.gain))
}
