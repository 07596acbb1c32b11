//! Kernels before their judges: the base's for what is compared, the head's own for what has nothing to be compared with.

use std::cell::OnceCell;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::evidence::{Ceilings, Evidence, Ruling, Terms};
use kopt_schema::exit::Exit;

use super::budget::{Budget, Need};
use super::case::{Alone, Contest};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::machine::figures::Store;
use crate::ops::compare::figures;
use crate::ops::compare::live::Live;
use crate::process::Interrupts;
use crate::referee::seeds::Master;
use crate::referee::trusted::{self, Trusted};
use crate::referee::{Event, Limits, Match};
use crate::revision::Export;
use crate::shell::{GOOD, Shell};

/// What all matches of a gate have in common.
pub struct Hall<'a> {
    /// The surroundings.
    pub context: &'a Context,
    /// The user's interrupts, watched from the first match on: before it, they end the tool by themselves.
    pub interrupts: OnceCell<Interrupts>,
    /// Where the tool keeps its own things.
    pub own: &'a Utf8Path,
    /// The user's workspace.
    pub user: &'a Utf8Path,
    /// What was agreed.
    pub terms: Terms,
    /// The seed to repeat, instead of secret ones.
    pub seed: Option<Master>,
}

/// A match that was held, or why it could not be.
pub type Held = Result<Evidence>;

impl Hall<'_> {
    /// Holds the matches before the base's judges, and shares the time between them.
    pub fn compare(&self, shell: &mut Shell, base: &Export, contests: &[&Contest<'_>], seconds: f64) -> Vec<Held> {
        let names: Vec<&str> = contests.iter().map(|contest| contest.base.member.name.as_str()).collect();
        let (judges, _lock) = match self.judges(shell, base, &names) {
            Ok(judges) => judges,
            Err(error) => return contests.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut budget = Budget::new(seconds);
        let mut held: Vec<Held> = Vec::new();
        for (index, (contest, judge)) in contests.iter().zip(&judges).enumerate() {
            let share = budget.share(contests.len() - index);
            held.push(judge.as_ref().map_err(Clone::clone).and_then(|judge| {
                shell.status("Gating", GOOD, &contest.head.kernel.member.name);
                self.hold(shell, contest, judge, share, None, &mut budget)
            }));
        }
        self.go_on(shell, contests, &judges, &mut held, &mut budget);
        held
    }

    /// What is left goes to those that are not decided, and to those that were disturbed, who begin anew, once.
    fn go_on(
        &self,
        shell: &mut Shell,
        contests: &[&Contest<'_>],
        judges: &[Result<Utf8PathBuf>],
        held: &mut [Held],
        budget: &mut Budget,
    ) {
        let mut over = vec![false; held.len()];
        loop {
            let need = |index: usize| Need::of(held[index].as_ref().ok().filter(|_| !over[index])?);
            let mut open: Vec<(usize, Need)> =
                (0..held.len()).filter_map(|index| Some((index, need(index)?))).collect();
            open.sort_by(|(_, one), (_, other)| one.seconds().total_cmp(&other.seconds()));
            let Some(&(index, nearest)) = open.first() else { return };
            let (Some(share), Ok(judge), Ok(evidence)) =
                (budget.more(open.len(), nearest), &judges[index], &held[index])
            else {
                return;
            };
            let disturbed = evidence.verdict.ruling == Ruling::Contaminated;
            let (before, launches) = ((!disturbed).then(|| evidence.clone()), evidence.verdict.launches);
            shell.status("Going on", GOOD, &contests[index].head.kernel.member.name);
            let found = self.hold(shell, contests[index], judge, share, before, budget);
            // One that gets no further is not asked again. What was measured before still stands where going on fails.
            over[index] = disturbed || found.as_ref().map_or(true, |found| found.verdict.launches == launches);
            held[index] = found.or_else(|_| held[index].clone());
        }
    }

    /// What comes of a match that needs no clock: the audit refuses the head's version.
    ///
    /// # Errors
    /// When there is no seed to be had.
    pub fn at_once(&self, contest: &Contest<'_>) -> Result<Option<Evidence>> {
        let seed = self.seed.clone().map_or_else(Master::secret, Ok)?;
        Ok(self.bout(contest, 0.0, seed, None).at_once())
    }

    fn bout<'b>(
        &self,
        contest: &'b Contest<'_>,
        share: f64,
        seed: Master,
        ceilings: Option<Vec<Ceilings>>,
    ) -> Match<'b> {
        Match {
            kernel: contest.base,
            incumbent: &contest.incumbent,
            candidate: &contest.head.entrant,
            // The base's shapes, whatever the head lists.
            shapes: contest.base.manifest.shapes.iter().map(|shape| shape.name.clone()).collect(),
            left_out: Vec::new(),
            terms: Terms { max_time_s: share, ..self.terms.clone() },
            seed,
            check: true,
            injected: Vec::new(),
            without: Vec::new(),
            ceilings,
            even_if_identical: false,
            limits: Limits::default(),
        }
    }

    fn hold(
        &self,
        shell: &mut Shell,
        contest: &Contest<'_>,
        judge: &Utf8Path,
        share: f64,
        before: Option<Evidence>,
        budget: &mut Budget,
    ) -> Held {
        let interrupts = self.watched()?;
        let mut store = Store::open(self.own);
        let seed = match (&before, &self.seed) {
            (Some(evidence), _) => Master::given(&evidence.seed).map_err(Error::setup)?,
            (None, Some(seed)) => seed.clone(),
            (None, None) => Master::secret()?,
        };
        let bout = self.bout(contest, share, seed, Some(store.figures.ceilings.clone()));
        let mut since = Instant::now();
        let mut live = Live::new(shell, &contest.head.kernel.member.name);
        let told = &mut |event: Event<'_>| {
            if matches!(event, Event::Checked(_)) {
                since = Instant::now();
            }
            live.hear(&event)
        };
        let found = match before {
            Some(evidence) => bout.hold_further(self.context, interrupts, judge, evidence, told),
            None => bout.hold(self.context, interrupts, judge, told),
        };
        live.finish();
        budget.spend(since.elapsed().as_secs_f64());
        let found = found?;
        figures::keep(shell, &mut store, &found);
        Ok(found)
    }

    /// Runs the trials of versions that are compared with nothing, before the head's own judges.
    pub fn check(&self, shell: &mut Shell, head: &Export, versions: &[&Alone<'_>]) -> Vec<Held> {
        let names: Vec<&str> = versions.iter().map(|one| one.kernel.member.name.as_str()).collect();
        let (judges, _lock) = match self.judges(shell, head, &names) {
            Ok(judges) => judges,
            Err(error) => return versions.iter().map(|_| Err(error.clone())).collect(),
        };
        let one = |(version, judge): (&&Alone<'_>, Result<Utf8PathBuf>)| {
            let bout = Match {
                kernel: version.kernel,
                incumbent: &version.entrant,
                candidate: &version.entrant,
                shapes: version.kernel.manifest.shapes.iter().map(|shape| shape.name.clone()).collect(),
                left_out: Vec::new(),
                // No time: the trials are run, and nothing is measured.
                terms: Terms { max_time_s: 0.0, ..self.terms.clone() },
                seed: self.seed.clone().map_or_else(Master::secret, Ok)?,
                check: true,
                injected: Vec::new(),
                without: Vec::new(),
                ceilings: None,
                even_if_identical: true,
                limits: Limits::default(),
            };
            let mut live = Live::new(shell, &version.kernel.member.name);
            let found = bout.hold(self.context, self.watched()?, &judge?, &mut |event| live.hear(&event));
            live.finish();
            found
        };
        versions.iter().zip(judges).map(one).collect()
    }

    /// Builds judges by one call of cargo; where one does not build, each by its own, to know which.
    fn judges(
        &self,
        shell: &mut Shell,
        export: &Export,
        names: &[&str],
    ) -> Result<(Vec<Result<Utf8PathBuf>>, std::fs::File)> {
        // Held until the matches are over: nobody builds another judge meanwhile.
        let lock = trusted::lock(shell, self.own)?;
        let build = |shell: &mut Shell, names: &[&str]| {
            let built = Trusted::build_under(&lock, self.context, shell, export, names, self.own, self.user);
            // An interrupt ends cargo too, and is no reason to build again.
            if let Some(signal) = self.interrupts.get().and_then(Interrupts::signal) {
                Interrupts::obey(signal);
            }
            built
        };
        let built = match build(shell, names) {
            Ok(executables) => executables.into_iter().map(Ok).collect(),
            Err(error) if names.len() == 1 => vec![Err(error)],
            Err(_) => {
                let one = |name: &&str| {
                    let missing = || Error::new(Exit::BuildFailed, format!("cargo built no bench of `{name}`"));
                    build(shell, &[name]).and_then(|mut built| built.pop().ok_or_else(missing))
                };
                names.iter().map(one).collect()
            }
        };
        Ok((built, lock))
    }
}

impl Hall<'_> {
    fn watched(&self) -> Result<&Interrupts> {
        if self.interrupts.get().is_none() {
            let _ = self.interrupts.set(Interrupts::watch()?);
        }
        self.interrupts.get().ok_or_else(|| Error::new(Exit::Internal, "cannot watch for signals"))
    }
}
