//! `gate`: is any kernel of a change slower, wrong or cheating? From two commits to one exit code.
//!
//! | module | what |
//! |---|---|
//! | `range` | which two commits |
//! | `scope` | which kernels the change can reach |
//! | `case` | one kernel: what can be said before anything is run |
//! | `audit` | what the change can remember and reach, beside the base |
//! | `judge` | kernels before their judges |
//! | `budget` | time, shared by need |
//! | `outcome` | what follows from matches and trailers |
//! | `allow` | slowdowns that a commit allows |
//! | `tell` | what is told on the terminal |
//! | `files` | Markdown, JUnit, annotations, and the page for a browser |
//! | `init` | workflows for GitHub |
//!
//! The base's harness, references, tolerances and shapes judge the head's kernels. A change to any of those is told of,
//! and where the head's version passes only by its own, that is a breach of integrity.

mod allow;
mod audit;
mod budget;
mod case;
mod files;
pub mod init;
mod judge;
mod outcome;
mod range;
mod scope;
mod tell;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::Evidence;
use kopt_schema::exit::Exit;
use kopt_schema::message::{GateKernel, GateOutcome, GateResult, GateScope};

use self::budget::Need;
use self::case::{Alone, Contest, Way};
use self::judge::{Hall, Held};
use self::outcome::{Own, by_its_own, excuse, exit, out_of_sight, outcome, unjudged};
use self::scope::Scope;
use crate::context::Context;
use crate::context::github::GitHub;
use crate::error::{Error, Result};
use crate::gate;
use crate::machine::Moment;
use crate::reach;
use crate::records::gate::GateReport;
use crate::records::numbers;
use crate::referee::evidence;
use crate::referee::seeds::Master;
use crate::revision::{Revision, Revisions};
use crate::shell::{GOOD, Shell, count, units};
use crate::workspace::Workspace;

/// What to do when a kernel cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Inconclusive {
    /// The gate ends with 104.
    Fail,
    /// It passes, with a warning.
    Warn,
    /// It passes.
    Pass,
}

impl Inconclusive {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Pass => "pass",
        }
    }
}

/// What to gate, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The version that stands; found out if none is named.
    pub base: Option<String>,
    /// The version that is gated; what is checked out if none is named.
    pub head: Option<String>,
    /// What a kernel may lose, as a share of its time.
    pub tolerance: f64,
    /// Seconds that measuring may take, over all kernels.
    pub max_time_s: f64,
    /// What to do when a kernel cannot be decided.
    pub inconclusive: Inconclusive,
    /// Where Markdown goes.
    pub markdown: Option<Utf8PathBuf>,
    /// Where JUnit goes.
    pub junit: Option<Utf8PathBuf>,
    /// Where the page for a browser goes.
    pub html: Option<Utf8PathBuf>,
    /// The seed to repeat, instead of secret ones.
    pub seed: Option<Master>,
}

/// Gates a change.
///
/// # Errors
/// When a commit cannot be found or read, or output cannot be written. What comes of the change is an [`Exit`].
pub fn gate(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let begun = Instant::now();
    let github = GitHub::of_process();
    let terms = gate::gate_terms(request.tolerance).map_err(|wrong| Error::new(Exit::Usage, wrong))?;
    for path in [&request.markdown, &request.junit, &request.html].into_iter().flatten() {
        files::has_room(&context.absolute(path))?;
    }
    let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
    let own = workspace.target.join("kopt");
    let revisions = Revisions::around(&workspace.root, &own.join("revisions"))?;
    let (base, head) = (request.base.as_deref(), request.head.as_deref());
    let Some(range) = range::choose(&revisions, &github, base, head)? else {
        shell.status("Nothing", GOOD, "to compare with: this is the first commit");
        return Ok(Exit::Ok);
    };
    revisions.keeps_clear(&own, Some(&range.head))?;
    let changes = revisions.changes(&range.base, &range.head)?;
    let mut notes = range.notes.clone();
    if range.base.commit == range.head.commit {
        notes.push("base and head are the same commit".to_owned());
    }
    if request.head.is_none() && revisions.uncommitted() > 0 {
        let files = count(revisions.uncommitted(), "file");
        notes.push(format!("{files} with changes that are not committed: not gated (`cargo kopt compare` takes them)"));
    }
    // Text for people changes no code: no need to know of any package. Among sources, and where sources include from, it may be
    // one of them.
    let sides = [&range.base, &range.head];
    let roots: OnceCell<Result<Vec<Utf8PathBuf>>> = OnceCell::new();
    let is_included = |path: &Utf8PathBuf| {
        let of = |side: &&Revision| revisions.manifests(side).map(|found| reach::include_roots(&found));
        let found = || sides.iter().map(of).collect::<Result<Vec<_>>>().map(|found| found.concat());
        // Where they cannot be read, whoever looks closer says so.
        let is_at = |root: &Utf8PathBuf| path.starts_with(root) || root.starts_with(path);
        roots.get_or_init(found).as_ref().map_or(true, |roots| roots.iter().any(is_at))
    };
    let is_text = |path: &Utf8PathBuf| {
        let mut names = sides.iter().flat_map(|side| revisions.names_around(side, path));
        let mut is_beside_source = || names.any(|name| reach::is_source(&name));
        reach::is_document(path) && !reach::is_beside_code(path) && !is_beside_source() && !is_included(path)
    };
    let scope = match changes.iter().flat_map(|change| [&change.before, &change.after]).flatten().all(is_text) {
        true => None,
        false => Some(Scope::find(context, &revisions, &range, &changes)?),
    };
    notes.extend(scope.iter().flat_map(Scope::left_out));
    let message = match &scope {
        Some(scope) => GateScope { notes, ..scope.message(&range, &changes) },
        None => GateScope {
            base: range.base.commit.clone(),
            head: range.head.commit.clone(),
            files: changes.len(),
            kernels: None,
            affected: Vec::new(),
            notes,
        },
    };
    tell::scope(shell, &range, &message)?;
    if scope.as_ref().is_some_and(|scope| scope.kernels == 0) {
        let error =
            Error::new(Exit::NoKernel, "there is no kernel crate in this workspace, before the change or after it");
        return Err(error.hint("`cargo kopt new NAME` makes one"));
    }
    let (mut kernels, mut measured) = (Vec::new(), Measured::new());
    if let Some(scope) = scope.as_ref().filter(|scope| !scope.reached.is_empty()) {
        let (own, user) = (own.as_path(), workspace.root.as_path());
        let hall = Hall { context, interrupts: OnceCell::new(), own, user, terms, seed: request.seed.clone() };
        let (allowed, wrong) = allow::find(&revisions, &range)?;
        wrong.iter().for_each(|line| shell.warn(line));
        kernels = Gate { revisions: &revisions, scope, hall }.run(shell, request.max_time_s, &mut measured)?;
        for kernel in &mut kernels {
            excuse(kernel, &allowed);
        }
    }
    for kernel in &kernels {
        tell::kernel(shell, kernel)?;
    }
    let result = result(&message, &kernels, request, begun.elapsed().as_secs_f64());
    let report = GateReport { scope: &message, kernels: &kernels, result: &result };
    tell::result(shell, &report)?;
    files::write(context, shell, &github, request, &report)?;
    files::page(context, shell, request, &report, &measured)?;
    Ok(exit(&kernels, request.inconclusive))
}

/// Evidence by kernel, for those that came before a judge.
type Measured = BTreeMap<String, Evidence>;

/// The kernels that are reached, and what is needed to judge them.
struct Gate<'a> {
    revisions: &'a Revisions,
    scope: &'a Scope,
    hall: Hall<'a>,
}

impl Gate<'_> {
    fn run(&self, shell: &mut Shell, seconds: f64, measured: &mut Measured) -> Result<Vec<GateKernel>> {
        let cache = self.hall.own.join("candidates");
        let mut kernels: Vec<GateKernel> =
            self.scope.reached.iter().map(|one| case::blank(self.revisions, self.scope, one)).collect();
        let reached = self.scope.reached.iter().zip(&mut kernels);
        let ways: Vec<Way<'_>> =
            reached.map(|(one, kernel)| case::way(self.scope, one, &cache, &mut kernel.audit)).collect();
        let mut alone: Vec<(usize, &Alone<'_>, Own)> = Vec::new();
        let mut timed: Vec<(usize, &Contest<'_>)> = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            match way {
                Way::Decided(outcome, text) => (kernels[index].outcome, kernels[index].text) = (*outcome, text.clone()),
                Way::Timed(contest) => match self.hall.at_once(contest)? {
                    Some(found) => self.decide(&mut kernels[index], Ok(found), measured)?,
                    None => timed.push((index, contest)),
                },
                Way::Alone(version, outcome, why) => alone.push((index, version, Own::Else(*outcome, why.clone()))),
            }
        }
        if let (Some(base), false) = (&self.scope.base.export, timed.is_empty()) {
            let contests: Vec<&Contest<'_>> = timed.iter().map(|(_, contest)| *contest).collect();
            let held = self.hall.compare(shell, base, &contests, seconds);
            for ((index, contest), held) in timed.iter().zip(held) {
                let kernel = &mut kernels[*index];
                self.decide(kernel, held, measured)?;
                // Only this can tell a wrong kernel from one that is right by what the change says is right.
                if kernel.outcome == GateOutcome::Incorrect && !kernel.judging.is_empty() {
                    alone.push((*index, &contest.head, Own::Edited));
                } else if !contest.added.is_empty() {
                    alone.push((*index, &contest.head, Own::Added(contest.added.clone())));
                }
            }
        }
        if let (Some(head), false) = (&self.scope.head.export, alone.is_empty()) {
            let versions: Vec<&Alone<'_>> = alone.iter().map(|(_, version, _)| *version).collect();
            let held = self.hall.check(shell, head, &versions);
            for ((index, version, own), held) in alone.into_iter().zip(held) {
                by_its_own(&mut kernels[index], &own, held);
                if version.moved {
                    out_of_sight(&mut kernels[index]);
                }
            }
        }
        Ok(kernels)
    }

    /// What a match comes to.
    fn decide(&self, kernel: &mut GateKernel, held: Held, measured: &mut Measured) -> Result<()> {
        let found = match held {
            Ok(found) => found,
            Err(error) => {
                kernel.outcome = unjudged(&error);
                kernel.text = match error.exit() {
                    Exit::BuildFailed => format!("the base's judge does not build: {}", case::words(&error)),
                    _ => case::words(&error),
                };
                return Ok(());
            }
        };
        let path = evidence::fresh_name(&self.hall.own.join("evidence"), &kernel.kernel, Moment::now());
        evidence::write(&path, &found)?;
        kernel.evidence = Some(self.hall.context.shown(&path).to_string());
        kernel.outcome = outcome(&found);
        kernel.text = found.verdict.reasons.first().cloned().unwrap_or_default();
        kernel.notes.extend(found.verdict.reasons.iter().skip(1).cloned());
        (kernel.trials, kernel.seconds) = (found.trials, found.seconds);
        kernel.tried_by_base = found.trials > 0;
        if found.stages.iter().any(|stage| !stage.launches.is_empty()) {
            kernel.verdict = Some(found.verdict.clone());
        }
        if let (GateOutcome::Inconclusive, Some(need)) = (kernel.outcome, Need::of(&found)) {
            let launches = numbers::count(need.launches, "launch", "launches");
            let time = units::duration(need.seconds());
            kernel.notes.push(format!("the time was over {launches}, about {time}, before its next look"));
        }
        measured.insert(kernel.kernel.clone(), found);
        Ok(())
    }
}

fn result(scope: &GateScope, kernels: &[GateKernel], request: &Request, seconds: f64) -> GateResult {
    // More time decides nothing where nothing was, or could be, compared.
    let undecided = kernels.iter().filter(|kernel| kernel.outcome == GateOutcome::Inconclusive);
    GateResult {
        exit_code: exit(kernels, request.inconclusive).code(),
        text: tell::summary(scope, kernels),
        tolerance: request.tolerance,
        inconclusive: request.inconclusive.name().to_owned(),
        undecided: undecided.map(|kernel| kernel.kernel.clone()).collect(),
        seconds,
    }
}

/// The top of the repository around `manifest`, and the workspace's folder in it.
pub(super) fn repository_root(context: &Context, manifest: Option<&Utf8Path>) -> Result<(Utf8PathBuf, Utf8PathBuf)> {
    let workspace = Workspace::find(context, manifest)?;
    let revisions = Revisions::around(&workspace.root, &workspace.target.join("kopt/revisions"))?;
    let inside = revisions.prefix();
    let top = workspace.root.ancestors().nth(inside.components().count()).unwrap_or(&workspace.root);
    Ok((top.to_owned(), inside.to_owned()))
}
