//! Correctness as a libtest-mimic main. Each trial draws secret seeds, runs the kernel in a child process on fenced and
//! poisoned memory, and compares every element with the reference, which the child never sees. A kernel that exits,
//! hangs or crashes fails its trial and nothing else.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kopt_schema::manifest::Manifest;
use kopt_schema::message::{FailureKind, Message, Outcome, Trial, TrialPlan};
use libtest_mimic::{Arguments, Completion, Failed, Trial as Test};

use super::arena::{Arena, POISONS};
use super::candidate::{Absent, Loaded};
use super::cases::{self, TrialSpec};
use super::contestant::{Contestant, Loss};
use super::memory::Layout;
use super::output::Output;
use super::{arguments, compare, environment};
use crate::kernel::{Case, Kernel};
use crate::package::Package;
use crate::tensor::Draw;

/// What every trial of a binary shares.
struct Suite {
    package: &'static Package,
    kernel: &'static dyn Kernel,
    manifest: Manifest,
    candidate: Result<Loaded, Absent>,
    output: Output,
}

/// `main` of a correctness binary.
pub(crate) fn main(package: &'static Package, kernel: &'static dyn Kernel) -> Result<ExitCode, String> {
    let arguments = Arguments::from_args();
    let manifest = package.manifest();
    let candidate = Loaded::of(package, &manifest);
    let suite = Arc::new(Suite { package, kernel, manifest, candidate, output: Output::open()? });
    let test = |spec: TrialSpec| {
        let suite = Arc::clone(&suite);
        Test::ignorable_test(spec.name.clone(), move || match suite.judge(&spec) {
            Verdict::Passed => Ok(Completion::Completed),
            Verdict::Ignored(reason) => Ok(Completion::ignored_with(reason)),
            Verdict::Failed(text) => Err(Failed::from(text)),
        })
    };
    let tests: Vec<Test> = cases::trials(package, kernel, &suite.manifest)?.into_iter().map(test).collect();
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
    fn judge(&self, spec: &TrialSpec) -> Verdict {
        let begun = Instant::now();
        let mut used = Vec::new();
        let (verdict, failure) = self.over_seeds(spec, &mut used);
        let (outcome, detail) = match &verdict {
            Verdict::Passed => (Outcome::Passed, None),
            Verdict::Ignored(reason) => (Outcome::Ignored, Some(reason.clone())),
            Verdict::Failed(text) => (Outcome::Failed, Some(text.clone())),
        };
        self.output.send(&Message::Trial(Trial {
            kernel: self.package.name.to_owned(),
            name: spec.name.clone(),
            outcome,
            seconds: begun.elapsed().as_secs_f64(),
            seeds: used.iter().map(|seed| format!("{seed:016x}")).collect(),
            failure,
            detail,
        }));
        verdict
    }

    fn over_seeds(&self, spec: &TrialSpec, used: &mut Vec<u64>) -> (Verdict, Option<FailureKind>) {
        let candidate = match &self.candidate {
            Ok(candidate) => candidate,
            Err(Absent::NotCompiled(reason)) => return (Verdict::Ignored(reason.clone()), None),
            Err(Absent::Wrong(reason)) => return (Verdict::Failed(reason.clone()), Some(FailureKind::Setup)),
        };
        let seeds = match self.seeds(spec.heavy) {
            Ok(seeds) => seeds,
            Err(reason) => return (Verdict::Failed(reason), Some(FailureKind::Setup)),
        };
        for seed in seeds {
            used.push(seed);
            let case = spec.case(self.kernel, &self.manifest, seed);
            match once(self.kernel, &self.manifest, spec, candidate, &case, seed) {
                Ok(()) => {}
                Err(loss) if loss.no_device => return (Verdict::Ignored(loss.message), None),
                Err(loss) => {
                    let text = format!(
                        "{}\nshape {}, seed {seed:016x}; repeat with\n  KOPT_SEED={seed:016x} cargo test -p {} --test correctness -- --exact {}",
                        loss.message, case.shape.name, self.package.name, spec.name
                    );
                    return (Verdict::Failed(text), Some(loss.kind));
                }
            }
        }
        (Verdict::Passed, None)
    }

    /// The seeds of a trial: the one that the environment names, or secret ones.
    fn seeds(&self, heavy: bool) -> Result<Vec<u64>, String> {
        if let Some(seed) = environment::seed() {
            return Ok(vec![seed?]);
        }
        let wanted = environment::seeds().unwrap_or(self.manifest.check.seeds).max(1);
        // A heavy case gets a twentieth, so that many seeds stay affordable.
        let count = if heavy { (wanted / 20).max(1) } else { wanted };
        let secret = || getrandom::u64().map_err(|error| format!("no secret seed: {error}"));
        let mut seeds = Vec::new();
        let first = secret()?;
        // Seeds of consecutive turns: between any three of them an element is poisoned in all ways.
        for index in 0..u64::from(count) {
            let seed = secret()? >> 1;
            seeds.push(seed - seed % POISONS + (first % POISONS + index) % POISONS);
        }
        Ok(seeds)
    }
}

/// One seed of a trial: the kernel in a process of its own, and every element of every output compared.
pub(crate) fn once(
    kernel: &dyn Kernel,
    manifest: &Manifest,
    spec: &TrialSpec,
    candidate: &Loaded,
    case: &Case,
    seed: u64,
) -> Result<(), Loss> {
    let setup = |error: String| Loss::new(FailureKind::Setup, error);
    let entry = spec.layout.symbol;
    let buffers = kernel.buffers(entry, case);
    let inputs = kernel.inputs(entry, case, spec.distribution, &mut Draw::new(seed, "inputs"));
    let noise = Draw::new(seed, "noise").bits();
    let mut arena = Arena::new(buffers, 1, Layout::Fenced, noise, seed % POISONS)
        .map_err(|error| setup(format!("memory: {error}")))?;
    arena.fill(0, 0, &inputs);
    arena.poison(0);
    let before = arena.input_sum();
    let plan = candidate.plan.as_ref();
    let call = arguments::entry_call(kernel, spec.layout, case, 0, plan, &candidate.knobs).map_err(setup)?;
    let symbols = [entry.to_owned()];
    let mut contestant = Contestant::start(candidate, manifest.backend, &symbols, &[&arena])?;
    let number = contestant.attach(arena.wire(vec![call]))?;
    let limit = Duration::from_secs_f64(environment::timeout_s().unwrap_or(manifest.check.timeout_s));
    contestant.call(number, 0, 0, limit).map_err(|loss| explain(loss, &contestant, &arena))?;
    drop(contestant);
    if arena.input_sum() != before {
        return Err(Loss::new(FailureKind::InputModified, "an input is not what it was before the call"));
    }
    if let Some(place) = arena.trespass() {
        return Err(Loss::new(FailureKind::OutOfBounds, format!("wrote outside its outputs, {place}")));
    }
    for expected in kernel.expect(entry, case, &inputs, spec.distribution.rounding()) {
        let buffer = arena.buffers().iter().find(|buffer| buffer.name == expected.name);
        let unknown = || setup(format!("the operator's reference gives `{}`, which is no buffer", expected.name));
        if let Some(loss) = compare::compare(&expected, buffer.ok_or_else(unknown)?, &arena, 0) {
            return Err(loss);
        }
    }
    Ok(())
}

/// A fault's address, as a place near a buffer.
fn explain(loss: Loss, contestant: &Contestant, arena: &Arena) -> Loss {
    let lens = (arena.inputs.len(), arena.outputs.len());
    let Some((written, offset)) = loss.address.and_then(|address| contestant.locate(0, address, lens)) else {
        return loss;
    };
    let place = arena.describe(written, offset);
    let inside = place.starts_with("byte");
    let (kind, message) = match (written, inside) {
        (false, true) => (FailureKind::InputModified, format!("wrote to an input, {place}: inputs are read-only")),
        _ => (FailureKind::OutOfBounds, format!("touched memory outside its buffers, {place}")),
    };
    Loss { kind, message, ..loss }
}
