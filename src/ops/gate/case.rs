//! One kernel of a gate on its way to an outcome: what can be said before anything is run, and what is left to do.

use kopt_schema::exit::Exit;
use kopt_schema::message::{GateKernel, GateOutcome};

use super::audit;
use super::scope::{Reached, Scope, Side};
use crate::error::Error;
use crate::manifest::Kernel;
use crate::ops::compare::interface;
use crate::reach::Aspect;
use crate::referee::entrant::{self, Entrant, Version};
use crate::revision::Revisions;
use camino::Utf8Path;

/// What is left to do for a kernel.
#[derive(Debug)]
pub enum Way<'a> {
    /// Nothing: this came of it, for this reason.
    Decided(GateOutcome, String),
    /// Both versions are run against each other before the base's judge.
    Timed(Box<Contest<'a>>),
    /// Only the head's version can be run, before the head's own judge; what it comes to if it is right, and why only this.
    Alone(Box<Alone<'a>>, GateOutcome, String),
}

/// Two versions to compare.
#[derive(Debug)]
pub struct Contest<'a> {
    /// The crate as the base has it.
    pub base: &'a Kernel,
    /// And as the head has it.
    pub head: Alone<'a>,
    /// The base's version.
    pub incumbent: Entrant,
}

/// The head's version.
#[derive(Debug, Clone)]
pub struct Alone<'a> {
    /// The crate as the head has it.
    pub kernel: &'a Kernel,
    /// Its version.
    pub entrant: Entrant,
}

/// What is left to do for a kernel that is reached. Compiled versions go to `cache`.
pub fn way<'a>(scope: &'a Scope, reached: &Reached, cache: &Utf8Path) -> Way<'a> {
    let side = |side: &'a Side, name: Option<&str>| name.and_then(|name| side.kernels.get(name));
    let base = side(&scope.base, reached.pair.before());
    let head = match side(&scope.head, reached.pair.after()) {
        Some(Ok(kernel)) => kernel,
        Some(Err(wrong)) => return Way::Decided(GateOutcome::DoesNotBuild, format!("its manifest is wrong: {wrong}")),
        None => return Way::Decided(GateOutcome::Removed, "it is gone from the workspace".to_owned()),
    };
    let compiled = |kernel, side: &Side, word: &str| {
        let (commit, name) = (side.revision.commit.clone(), side.revision.name.clone());
        let version = Version { kernel, revision: commit, name, shown: word.to_owned() };
        entrant::compile(cache, &[version])
            .and_then(|mut built| built.pop().ok_or_else(|| Error::new(Exit::Internal, "nothing was compiled")))
    };
    let alone = match compiled(head, &scope.head, "the head's version") {
        Ok(entrant) => Alone { kernel: head, entrant },
        Err(error) => {
            let built = error.exit() == Exit::BuildFailed;
            let outcome = if built { GateOutcome::DoesNotBuild } else { GateOutcome::NotHere };
            return Way::Decided(outcome, words(&error));
        }
    };
    let not_compared = |alone, why: String| Way::Alone(Box::new(alone), GateOutcome::NotCompared, why);
    let base = match base {
        None => return Way::Alone(Box::new(alone), GateOutcome::New, "the base has no such kernel".to_owned()),
        Some(Err(_)) => return not_compared(alone, "its manifest is wrong in the base".to_owned()),
        Some(Ok(base)) => base,
    };
    if let Err(error) = interface::same(base, head) {
        return not_compared(alone, words(&error));
    }
    match compiled(base, &scope.base, "the base's version") {
        Err(error) => not_compared(alone, words(&error)),
        Ok(incumbent) if incumbent.side.code == alone.entrant.side.code => {
            Way::Decided(GateOutcome::Same, "both compile to the same code: there is nothing to measure".to_owned())
        }
        Ok(incumbent) => Way::Timed(Box::new(Contest { base, head: alone, incumbent })),
    }
}

/// What is known of a kernel before its outcome.
pub fn blank(revisions: &Revisions, scope: &Scope, reached: &Reached) -> GateKernel {
    let (base, head) = (&scope.base, &scope.head);
    let kernel = |side: &'_ Side, name: Option<&str>| side.kernels.get(name?)?.as_ref().ok().cloned();
    let (old, new) = (kernel(base, reached.pair.before()), kernel(head, reached.pair.after()));
    let mut notes = Vec::new();
    let renamed_from =
        reached.pair.before().filter(|before| reached.pair.after().is_some_and(|after| after != *before));
    notes.extend(renamed_from.map(|before| format!("it was called {before} in the base")));
    if reached.toolchain() {
        notes.push("the toolchain is another; both versions were compiled by the one at hand".to_owned());
    }
    // The file to look at: the kernel's own before what judges it, and one that the head still has.
    let file = reached.reasons.iter().find(|reason| reason.aspect == Aspect::Kernel).or(reached.reasons.first());
    let file = file.map(|reason| reason.path.clone()).filter(|path| revisions.text(&head.revision, path).is_some());
    let line = file.as_deref().and_then(|path| revisions.first_line(&base.revision, &head.revision, path));
    GateKernel {
        kernel: reached.pair.name().to_owned(),
        renamed_from: renamed_from.map(str::to_owned),
        outcome: GateOutcome::Inconclusive,
        text: String::new(),
        notes,
        // A kernel that was not there before is judged by what came with it, and that is said.
        judging: if reached.pair.before().is_some() && reached.pair.after().is_some() {
            reached.judging()
        } else {
            Vec::new()
        },
        audit: new.as_ref().map(|new| audit::of_change(old.as_ref(), new)).unwrap_or_default(),
        allowed: None,
        trials: 0,
        verdict: None,
        evidence: None,
        file: file.map(|path| path.to_string()),
        line,
        seconds: 0.0,
    }
}

/// An error in a line: what, and the last line of why.
pub fn words(error: &Error) -> String {
    let failure = error.failure();
    let cause = failure.causes.first().and_then(|cause| cause.lines().find(|line| !line.trim().is_empty()));
    match cause {
        Some(cause) => format!("{}: {}", failure.message, cause.trim()),
        None => failure.message,
    }
}
