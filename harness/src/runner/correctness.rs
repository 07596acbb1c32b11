//! Correctness as a libtest-mimic main. Each trial draws secret seeds, runs the kernel in a child process on fenced and
//! poisoned memory, and compares every element with the reference, which the child never sees. A kernel that exits,
//! hangs or crashes fails its trial and nothing else.

use std::collections::HashSet;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use kopt_schema::manifest::{Backend, Class, Manifest};
use kopt_schema::message::{FailureKind, Message, Outcome, Trial, TrialPlan};
use libtest_mimic::{Arguments, Completion, Failed, Trial as Test};

pub(crate) use super::attempt::{Attempt, attempt, called, together};
use super::batch::{self, Batch, Lost, Tried};
use super::blueprint::POISONS;
use super::candidate::{Absent, Loaded};
use super::cases::{self, TrialSpec};
use super::contestant::Loss;
use super::environment;
use super::output::Output;
use super::room::{self, Room};
use crate::kernel::Kernel;
use crate::package::Package;

/// Trials at a time on a device, unless somebody asks for more.
const MOST_ON_A_DEVICE: usize = 16;

/// What every trial of a binary shares.
struct Suite {
    package: &'static Package,
    kernel: &'static dyn Kernel,
    manifest: Manifest,
    candidate: Result<Loaded, Absent>,
    /// Why there is no device, once a trial has found out: drawing inputs for the next one takes seconds.
    no_device: OnceLock<String>,
    room: Room,
    output: Output,
}

/// `main` of a correctness binary.
pub(crate) fn main(package: &'static Package, kernel: &'static dyn Kernel) -> Result<ExitCode, String> {
    let mut arguments = Arguments::from_args();
    let manifest = package.manifest();
    if manifest.backend != Backend::Cpu {
        // Each has a context on the device, which takes half a gigabyte there before anything is allocated.
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_ON_A_DEVICE);
        arguments.test_threads.get_or_insert(threads);
    }
    let candidate = Loaded::of(package, &manifest);
    let (room, output) = (Room::here(), Output::open()?);
    let suite = Arc::new(Suite { package, kernel, manifest, candidate, no_device: OnceLock::new(), room, output });
    let mut specs = cases::trials(package, kernel, &suite.manifest)?;
    if environment::few_trials() {
        // The first of each: no listed shape goes unchecked.
        let mut seen = HashSet::new();
        specs.retain(|spec| !spec.heavy || seen.insert(spec.name.rsplit_once('/').map(|(case, _)| case.to_owned())));
    }
    let is_device = suite.candidate.as_ref().is_ok_and(|candidate| candidate.class == Class::Device);
    let threads = arguments.test_threads.or_else(|| Some(std::thread::available_parallelism().ok()?.get()));
    let most = if is_device { batch::most_attempts(threads.unwrap_or(1)) } else { 1 };
    let is_wanted =
        |spec: &TrialSpec| !arguments.is_filtered_out(&Test::test(spec.name.clone(), || Ok::<(), Failed>(())));
    let mut tests = Vec::new();
    for batch in batch::of(specs, |spec| if is_wanted(spec) { suite.together(spec, most) } else { 1 }) {
        let batch = Arc::new(batch);
        for number in 0..batch.specs.len() {
            let (suite, batch) = (Arc::clone(&suite), Arc::clone(&batch));
            let name = batch.specs[number].name.clone();
            let test = Test::ignorable_test(name, move || match suite.judge(&batch, number) {
                Verdict::Passed => Ok(Completion::Completed),
                Verdict::Ignored(reason) => Ok(Completion::ignored_with(reason)),
                Verdict::Failed(text) => Err(Failed::from(text)),
            });
            tests.push((number, test));
        }
    }
    if !arguments.list {
        // One trial of each batch first: whoever takes the next one waits for the same process.
        tests.sort_by_key(|(number, _)| *number > 0);
    }
    let tests: Vec<Test> = tests.into_iter().map(|(_, test)| test).collect();
    if !arguments.list {
        let trials = tests.iter().filter(|test| !arguments.is_filtered_out(test)).count();
        suite.output.send(&Message::Plan(TrialPlan { kernel: package.name.to_owned(), trials }));
    }
    Ok(libtest_mimic::run(&arguments, tests).exit_code())
}

enum Verdict {
    Passed,
    Ignored(String),
    Failed(String),
}

impl Suite {
    /// Runs a trial over its seeds and reports it.
    fn judge(&self, batch: &Batch, number: usize) -> Verdict {
        let begun = Instant::now();
        let spec = &batch.specs[number];
        let tried = batch.tried(|specs| self.try_together(specs));
        let seeds = tried.map_or_else(|| self.seeds(spec.heavy), |tried| Ok(tried.seeds[number].clone()));
        let mut used = Vec::new();
        let mut seconds = None;
        let (verdict, failure) = match tried.and_then(|tried| tried.of(number)) {
            Some(passed_or_lost) => {
                (used, seconds) = (seeds.unwrap_or_default(), tried.map(|tried| tried.seconds));
                match passed_or_lost {
                    Ok(()) => (Verdict::Passed, None),
                    Err(lost) => self.lost(spec, lost.seed, lost.loss.clone()),
                }
            }
            None => self.over_seeds(spec, seeds, &mut used),
        };
        let (outcome, detail) = match &verdict {
            Verdict::Passed => (Outcome::Passed, None),
            Verdict::Ignored(reason) => (Outcome::Ignored, Some(reason.clone())),
            Verdict::Failed(text) => (Outcome::Failed, Some(text.clone())),
        };
        self.output.send(&Message::Trial(Trial {
            kernel: self.package.name.to_owned(),
            name: spec.name.clone(),
            outcome,
            seconds: seconds.unwrap_or_else(|| begun.elapsed().as_secs_f64()),
            seeds: used.iter().map(|seed| format!("{seed:016x}")).collect(),
            failure,
            detail,
        }));
        verdict
    }

    /// How many trials like this one may share a process that has room for `most` attempts.
    fn together(&self, spec: &TrialSpec, most: usize) -> usize {
        let attempts = self.candidate.as_ref().map_or(1, |candidate| together(candidate, spec)).min(most);
        (attempts / self.seed_count(spec.heavy)).max(1)
    }

    /// Trials in one process. Nothing where nothing was learned of the kernel.
    fn try_together(&self, specs: &[TrialSpec]) -> Option<Tried> {
        let begun = Instant::now();
        let candidate = self.candidate.as_ref().ok().filter(|_| self.no_device.get().is_none())?;
        let seeds: Vec<Vec<u64>> = specs.iter().map(|spec| self.seeds(spec.heavy)).collect::<Result<_, _>>().ok()?;
        let each = specs.iter().zip(&seeds).enumerate();
        let each = each.flat_map(|(number, (spec, seeds))| seeds.iter().map(move |seed| (number, spec, *seed)));
        let (numbers, attempts): (Vec<usize>, Vec<Attempt<'_>>) =
            each.map(|(number, spec, seed)| (number, Attempt::new(self.kernel, &self.manifest, spec, seed))).unzip();
        let lost = match self.attempt(candidate, &attempts) {
            Ok(()) => None,
            Err((_, loss)) if loss.no_device => {
                self.note_absence(candidate, &loss);
                return None;
            }
            Err((place, mut loss)) => {
                loss.message += &format!("\nin a process shared with {} other trials", specs.len() - 1);
                Some(Lost { number: numbers[place], seed: attempts[place].seed, loss })
            }
        };
        Some(Tried { seconds: begun.elapsed().as_secs_f64() / specs.len() as f64, seeds, lost })
    }

    /// Attempts in a process of their own, when there is room for them.
    fn attempt(&self, candidate: &Loaded, attempts: &[Attempt<'_>]) -> Result<(), (usize, Loss)> {
        let needed = |attempt: &Attempt<'_>| room::needed(self.kernel, attempt.spec.layout.symbol, &attempt.case);
        let _taken = self.room.take(attempts.iter().map(needed).sum());
        attempt(self.kernel, &self.manifest, candidate, attempts)
    }

    /// Where code of the candidate runs on the host, its word is for its own trial only.
    fn note_absence(&self, candidate: &Loaded, loss: &Loss) {
        if candidate.class == Class::Device {
            let _ = self.no_device.set(loss.message.clone());
        }
    }

    fn over_seeds(
        &self,
        spec: &TrialSpec,
        seeds: Result<Vec<u64>, String>,
        used: &mut Vec<u64>,
    ) -> (Verdict, Option<FailureKind>) {
        let candidate = match &self.candidate {
            Ok(candidate) => candidate,
            Err(Absent::NotCompiled(reason)) => return (Verdict::Ignored(reason.clone()), None),
            Err(Absent::Wrong(reason)) => return (Verdict::Failed(reason.clone()), Some(FailureKind::Setup)),
        };
        if let Some(reason) = self.no_device.get() {
            return (Verdict::Ignored(reason.clone()), None);
        }
        let seeds = match seeds {
            Ok(seeds) => seeds,
            Err(reason) => return (Verdict::Failed(reason), Some(FailureKind::Setup)),
        };
        for seeds in seeds.chunks(together(candidate, spec)) {
            used.extend(seeds);
            let attempts: Vec<_> =
                seeds.iter().map(|seed| Attempt::new(self.kernel, &self.manifest, spec, *seed)).collect();
            match self.attempt(candidate, &attempts) {
                Ok(()) => {}
                // The processor is always there: code that runs on it and says otherwise wants not to be looked at.
                Err((_, loss)) if loss.no_device && candidate.class != Class::Native => {
                    self.note_absence(candidate, &loss);
                    return (Verdict::Ignored(loss.message), None);
                }
                Err((number, loss)) => return self.lost(spec, attempts[number].seed, loss),
            }
        }
        (Verdict::Passed, None)
    }

    /// A lost trial, and how to repeat it.
    fn lost(&self, spec: &TrialSpec, seed: u64, loss: Loss) -> (Verdict, Option<FailureKind>) {
        let case = spec.case(self.kernel, &self.manifest, seed);
        let text = format!(
            "{}\nshape {}, seed {seed:016x}; repeat with\n  KOPT_SEED={seed:016x} cargo test -p {} --test correctness -- --exact {}",
            loss.message, case.shape.name, self.package.name, spec.name
        );
        (Verdict::Failed(text), Some(loss.kind))
    }

    /// How many seeds a trial has.
    fn seed_count(&self, heavy: bool) -> usize {
        if environment::seed().is_some() {
            return 1;
        }
        let wanted = environment::seeds().unwrap_or(self.manifest.check.seeds).max(1) as usize;
        // A heavy case gets a twentieth, so that many seeds stay affordable.
        if heavy { (wanted / 20).max(1) } else { wanted }
    }

    /// The seeds of a trial: the one that the environment names, or secret ones.
    fn seeds(&self, heavy: bool) -> Result<Vec<u64>, String> {
        if let Some(seed) = environment::seed() {
            return Ok(vec![seed?]);
        }
        let secret = || getrandom::u64().map_err(|error| format!("no secret seed: {error}"));
        let mut seeds = Vec::new();
        let first = secret()?;
        // Seeds of consecutive turns: between any three of them an element is poisoned in all ways.
        for index in 0..self.seed_count(heavy) as u64 {
            let seed = secret()? >> 1;
            seeds.push(seed - seed % POISONS + (first % POISONS + index) % POISONS);
        }
        Ok(seeds)
    }
}
