//! One kernel of a gate on its way to an outcome: what can be said before anything is run, and what is left to do.

use kopt_schema::exit::Exit;
use kopt_schema::manifest::Shape;
use kopt_schema::message::{GateKernel, GateOutcome};

use super::audit;
use super::scope::{Reached, Scope, Side};
use crate::audit::rules;
use crate::error::Error;
use crate::manifest::Kernel;
use crate::ops::compare::{interface, shapes};
use crate::reach::Aspect;
use crate::referee::entrant::{self, Entrant, Version};
use crate::revision::Revisions;
use camino::{Utf8Path, Utf8PathBuf};

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
    /// Entries and shapes that the head adds: the base's judge does not know them.
    pub added: Vec<String>,
}

/// The head's version.
#[derive(Debug, Clone)]
pub struct Alone<'a> {
    /// The crate as the head has it.
    pub kernel: &'a Kernel,
    /// Its version.
    pub entrant: Entrant,
    /// The base's version compiles here, and for another backend.
    pub moved: bool,
}

/// Why a version that cannot be judged here does not pass: a gate that judges the base's would be left behind by naming what it
/// lacks.
pub const MOVED: &str =
    "the base's version can be compiled here, so that the change takes the kernel out of this gate's sight";

/// What is left to do for a kernel that is reached; what the audit of the change tells goes to `audit`. Compiled versions go
/// to `cache`.
pub fn way<'a>(scope: &'a Scope, reached: &Reached, cache: &Utf8Path, audit: &mut Vec<String>) -> Way<'a> {
    let side = |side: &'a Side, name: Option<&str>| name.and_then(|name| side.kernels.get(name));
    let base = side(&scope.base, reached.pair.before());
    let named = [(&scope.base, reached.pair.before()), (&scope.head, reached.pair.after())];
    let submodule = named.into_iter().find_map(|(side, name)| side.submodule_of(name?));
    if let (Some(path), Some(_)) = (submodule, reached.pair.after()) {
        let text = format!("`{path}` is a submodule, which is not exported, and what it is compiled from lies there");
        return Way::Decided(GateOutcome::NotJudged, text);
    }
    let head = match side(&scope.head, reached.pair.after()) {
        Some(Ok(kernel)) => kernel,
        Some(Err(wrong)) => return Way::Decided(GateOutcome::DoesNotBuild, format!("its manifest is wrong: {wrong}")),
        None => {
            let gone = || (GateOutcome::Removed, "it is gone from the workspace".to_owned());
            let (outcome, text) = reached.elsewhere.as_deref().map_or_else(gone, |folder| {
                let text = format!("it is still in {}, and no kernel of this workspace any more", place(folder));
                (GateOutcome::NotJudged, text)
            });
            return Way::Decided(outcome, text);
        }
    };
    // A crate that the base has, and not as a kernel of this workspace, is not new.
    let elsewhere = reached.elsewhere.as_deref().map(|folder| {
        format!("the base has it in {}, and not as a kernel of this workspace to compare with", place(folder))
    });
    if let Some(id) = rules::unknown(&head.manifest.allow).next() {
        let text = format!("its manifest is wrong: `policy.allow` names `{id}`, which is no rule of the audit");
        return Way::Decided(GateOutcome::DoesNotBuild, text);
    }
    let allow = match &elsewhere {
        Some(_) => Vec::new(),
        None => audit::policy(&scope.base, reached.pair.before(), &head.manifest.allow),
    };
    let compiled = |kernel, side: &Side, word: &str| {
        let (commit, name) = (side.revision.commit.clone(), side.revision.name.clone());
        let version = Version { kernel, revision: commit, name, shown: word.to_owned() };
        entrant::compile_under(cache, &[version], &allow)
            .and_then(|mut built| built.pop().ok_or_else(|| Error::new(Exit::Internal, "nothing was compiled")))
    };
    let alone = match compiled(head, &scope.head, "the head's version") {
        Ok(entrant) => Alone { kernel: head, entrant, moved: false },
        // Only what this machine lacks excuses a version: one that it could compile, and that does not build, fails.
        Err(error) if error.exit() == Exit::Output => return Way::Decided(GateOutcome::NotJudged, words(&error)),
        Err(error) => {
            let before = match base {
                Some(Ok(base)) => Some(compiled(base, &scope.base, "the base's version").map_err(|error| error.exit())),
                _ => None,
            };
            if error.exit() != Exit::NoDevice {
                // What was so before is not the change's doing, and nothing is known of it.
                return match matches!(before, Some(Err(exit)) if exit == error.exit()) {
                    true => {
                        Way::Decided(GateOutcome::NotJudged, format!("{}; nor does the base's version", words(&error)))
                    }
                    false => Way::Decided(GateOutcome::DoesNotBuild, words(&error)),
                };
            }
            return match (before, elsewhere) {
                (Some(Ok(_)), _) => Way::Decided(GateOutcome::NotJudged, format!("{}; {MOVED}", words(&error))),
                // Whether it could be compiled here when there is room is not known.
                (Some(Err(Exit::Output)), _) => Way::Decided(GateOutcome::NotJudged, words(&error)),
                (_, Some(why)) => Way::Decided(GateOutcome::NotJudged, format!("{}; {why}", words(&error))),
                _ => Way::Decided(GateOutcome::NotHere, words(&error)),
            };
        }
    };
    let before = match base {
        Some(Ok(base)) => Some((base, compiled(base, &scope.base, "the base's version"))),
        _ => None,
    };
    let incumbent = before.as_ref().and_then(|(_, incumbent)| incumbent.as_ref().ok());
    let known = incumbent.and_then(|incumbent| incumbent.side.audit.as_ref());
    let read = audit::of_change(known, alone.entrant.side.audit.as_ref());
    audit.extend(read.told);
    audit.extend(entrant::unconfined([Some(&alone.entrant), incumbent].into_iter().flatten()));
    let mut hindered = false;
    let why = match (base, before) {
        (Some(Ok(base)), Some((_, Ok(incumbent)))) => match interface::includes(head, base) {
            Ok(entries) => {
                let added: Vec<String> = entries.into_iter().chain(new_shapes(head, base)).collect();
                if incumbent.side.code != alone.entrant.side.code {
                    // One that the audit refuses, too: the match is over before its first launch, and its evidence says why.
                    return Way::Timed(Box::new(Contest { base, head: alone, incumbent, added }));
                }
                let text = "both compile to the same code: there is nothing to measure";
                return match added.is_empty() {
                    true => Way::Decided(GateOutcome::Same, text.to_owned()),
                    // What was right on the base's shapes may be wrong on others.
                    false => {
                        let text = format!("{text}; `{}` is new", added.join("`, `"));
                        Way::Alone(Box::new(alone), GateOutcome::Same, text)
                    }
                };
            }
            Err(error) => format!("{}; what is called as the base's is can be compared", words(&error)),
        },
        (_, Some((_, Err(error)))) => {
            hindered = matches!(error.exit(), Exit::NoDevice | Exit::Output);
            words(&error)
        }
        (None, _) => "the base has no such kernel".to_owned(),
        _ => "its manifest is wrong in the base".to_owned(),
    };
    let mut introduced = read.introduced.into_iter();
    if let Some(first) = introduced.next() {
        audit.extend(introduced);
        return Way::Decided(GateOutcome::Integrity, first);
    }
    let edited = reached.judging();
    let moved = matches!(base, Some(Ok(base)) if !hindered && base.manifest.backend != alone.kernel.manifest.backend);
    let alone = Alone { moved, ..alone };
    match (base, elsewhere) {
        (None, Some(why)) => Way::Alone(Box::new(alone), GateOutcome::NotJudged, why),
        (None, None) => Way::Alone(Box::new(alone), GateOutcome::New, why),
        // What keeps the base from being compiled here, and is not its own fault, says nothing of the head.
        (Some(_), _) if hindered => {
            let why = format!("the base's version cannot be compiled here: {why}");
            Way::Alone(Box::new(alone), GateOutcome::NotJudged, why)
        }
        (Some(_), _) if edited.is_empty() => Way::Alone(Box::new(alone), GateOutcome::NotCompared, why),
        // Its own judge is the only one that can be asked, and says what the change makes it say.
        (Some(_), _) => {
            let why = format!("{why}; and the change edits what judges it: {}", edited.join(", "));
            Way::Alone(Box::new(alone), GateOutcome::NotJudged, why)
        }
    }
}

/// Names of the head's shapes that are none of the base's.
fn new_shapes(head: &Kernel, base: &Kernel) -> Vec<String> {
    let is_known = |shape: &Shape| base.manifest.shapes.iter().any(|other| shapes::same(shape, other));
    head.manifest.shapes.iter().filter(|shape| !is_known(shape)).map(|shape| shape.name.clone()).collect()
}

/// A folder of the repository, in words.
fn place(folder: &Utf8Path) -> String {
    if folder.as_str().is_empty() { "the repository's root".to_owned() } else { format!("`{folder}`") }
}

/// What is known of a kernel before its outcome.
pub fn blank(revisions: &Revisions, scope: &Scope, reached: &Reached) -> GateKernel {
    let (base, head) = (&scope.base, &scope.head);
    let mut notes = Vec::new();
    let renamed_from =
        reached.pair.before().filter(|before| reached.pair.after().is_some_and(|after| after != *before));
    notes.extend(renamed_from.map(|before| format!("it was called {before} in the base")));
    if reached.toolchain() {
        notes.push("the toolchain is another; both versions were compiled by the one at hand".to_owned());
    }
    // The file to look at: the kernel's own before what judges it, and one that the head still has.
    let file = reached.reasons.iter().find(|reason| reason.aspect == Aspect::Kernel).or(reached.reasons.first());
    let is_there = |path: &Utf8PathBuf| revisions.text(&head.revision, path).is_ok_and(|text| text.is_some());
    let file = file.map(|reason| reason.path.clone()).filter(is_there);
    let line = file.as_deref().and_then(|path| revisions.first_line(&base.revision, &head.revision, path));
    GateKernel {
        kernel: reached.pair.name().to_owned(),
        renamed_from: renamed_from.map(str::to_owned),
        outcome: GateOutcome::NotJudged,
        text: String::new(),
        notes,
        // A kernel that was not there before is judged by what came with it, and that is said.
        judging: if reached.pair.before().is_some() && reached.pair.after().is_some() {
            reached.judging()
        } else {
            Vec::new()
        },
        audit: Vec::new(),
        allowed: None,
        trials: 0,
        tried_by_base: false,
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
