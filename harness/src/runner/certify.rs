//! Wrong results handed to the crate's own check, when a test or bench binary is started with `--kopt-certify`: mutants of
//! the reference, on every listed shape, through the same comparison that kernels go through. One `certified` message an
//! entry and shape goes to `KOPT_OUT`.
//!
//! A mutant must be refused on each listed shape, and not only on some: a kernel may choose by shape what it computes. One
//! distribution that refuses it is enough; the others are tried until one does.

use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

use kopt_schema::manifest::Manifest;
use kopt_schema::message::{CERTIFY_ARGUMENT, Certified, Message, MutantTaken};

use super::candidate::{Absent, Loaded};
use super::cases::{self, Sizes, TrialSpec};
use super::correctness::{self, Attempt};
use super::output::Output;
use super::{compare, reference};
use crate::distribution::Distribution;
use crate::kernel::{Case, Kernel};
use crate::mutant::{Mutant, Subject};
use crate::package::{EntryLayout, Package};
use crate::parallel;
use crate::tensor::{Draw, Tensors};

/// What stands for the output of a mutant that is one of all of them.
const ALL_OUTPUTS: &str = "all";

/// Whether this process was started for it.
pub(crate) fn is_asked() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == CERTIFY_ARGUMENT)
}

/// `main` of a binary that certifies its own check. That a mutant passed is told, and no failure of this process.
pub(crate) fn main(package: &'static Package, kernel: &'static dyn Kernel) -> Result<ExitCode, String> {
    let (manifest, output) = (package.manifest(), Output::open()?);
    let candidate = Loaded::of(package, &manifest);
    let layouts = cases::entries(package, kernel)?;
    for layout in layouts.iter().copied() {
        for shape in &manifest.shapes {
            let case = Case { shape: shape.clone(), dtype: manifest.dtype };
            let seed = getrandom::u64().map_err(|error| format!("no secret seed: {error}"))?;
            let (layout, forward, taken) = (layout, layouts[0], Vec::new());
            let mut trial = Certification { kernel, manifest: &manifest, layout, forward, case: &case, seed, taken };
            let tried = trial.try_mutants()?;
            let (honest, missing) = match &candidate {
                Ok(candidate) => trial.honest(candidate, &tried)?,
                Err(Absent::NotCompiled(reason)) => (None, Some(reason.clone())),
                Err(Absent::Wrong(reason)) => return Err(reason.clone()),
            };
            output.send(&Message::Certified(Certified {
                kernel: package.name.to_owned(),
                entry: layout.symbol.to_owned(),
                case: shape.name.clone(),
                honest,
                missing,
                mutants: trial.taken,
            }));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An entry on a shape.
struct Certification<'a> {
    kernel: &'static dyn Kernel,
    manifest: &'a Manifest,
    layout: &'static EntryLayout,
    forward: &'static EntryLayout,
    case: &'a Case,
    seed: u64,
    taken: Vec<MutantTaken>,
}

impl Certification<'_> {
    /// Tries distributions until each mutant of each output is refused; those that were tried.
    fn try_mutants(&mut self) -> Result<Vec<Distribution>, String> {
        let mut tried = Vec::new();
        // A refusal counts only where trials make it.
        for distribution in cases::distributions(self.kernel, self.layout.symbol, self.case).0 {
            if !tried.is_empty() && self.taken.iter().all(|taken| taken.caught) {
                break;
            }
            self.try_under(distribution)?;
            tried.push(distribution);
        }
        Ok(tried)
    }

    fn try_under(&mut self, distribution: Distribution) -> Result<(), String> {
        let (kernel, entry, case) = (self.kernel, self.layout.symbol, self.case);
        let inputs = kernel.inputs(entry, case, distribution, &mut Draw::new(self.seed, "inputs"));
        let reference = |inputs: &Tensors| {
            let expected = reference::expect(kernel, self.manifest.backend, entry, case, inputs, distribution);
            expected.map_err(|loss| loss.message)
        };
        let expected = reference(&inputs)?;
        let buffers = kernel.buffers(entry, case);
        let subject = Subject { kernel, entry, case, distribution, inputs: &inputs, expected: &expected };
        // Each takes as long as the reference, and a large shape seconds: side by side, and told in their order.
        let found: Mutex<Vec<(usize, &str, bool, f64)>> = Mutex::default();
        let failed: OnceLock<String> = OnceLock::new();
        parallel::each(Mutant::ALL.into_iter().enumerate(), |(number, mutant)| {
            // A kernel in a lower precision gives all its outputs in it; one whose errors cancel out is no proof by itself.
            let jointly = mutant == Mutant::LowerPrecision;
            if expected.iter().all(|expected| self.is_caught(mutant, if jointly { ALL_OUTPUTS } else { expected.name }))
            {
                return;
            }
            let mut taken: Vec<(usize, &str, bool, f64)> = Vec::new();
            let mutated = match subject.mutated(mutant, self.seed, &reference) {
                Ok(mutated) => mutated,
                Err(why) => return drop(failed.set(why)),
            };
            for (expected, values) in expected.iter().zip(mutated) {
                let buffer = buffers.iter().find(|buffer| buffer.name == expected.name);
                let (Some(values), Some(buffer)) = (values, buffer) else { continue };
                let (passed, excess) = compare::compare_values(expected, buffer, &values);
                match taken.last_mut().filter(|_| jointly) {
                    Some((.., caught, most)) => (*caught, *most) = (*caught || !passed, most.max(excess)),
                    None => {
                        let output = if jointly { ALL_OUTPUTS } else { expected.name };
                        taken.push((number, output, !passed, excess));
                    }
                }
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).extend(taken);
        });
        if let Some(why) = failed.into_inner() {
            return Err(why);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(number, ..)| *number);
        for (number, output, caught, excess) in found {
            self.note(Mutant::ALL[number], output, distribution, caught, excess);
        }
        Ok(())
    }

    fn is_caught(&self, mutant: Mutant, output: &str) -> bool {
        self.taken.iter().any(|taken| taken.caught && taken.mutant == mutant.name() && taken.output == output)
    }

    /// Keeps the distribution that says most of a mutant.
    fn note(&mut self, mutant: Mutant, output: &str, distribution: Distribution, caught: bool, excess: f64) {
        let taken = MutantTaken {
            mutant: mutant.name().to_owned(),
            output: output.to_owned(),
            caught,
            distribution: distribution.name().to_owned(),
            // JSON has no infinity.
            excess: excess.min(f64::MAX),
        };
        let same = |one: &&mut MutantTaken| one.mutant == taken.mutant && one.output == taken.output;
        match self.taken.iter_mut().find(same) {
            Some(before) if !before.caught && (caught || excess > before.excess) => *before = taken,
            Some(_) => {}
            None => self.taken.push(taken),
        }
    }

    /// How far the crate's own kernel is from the exact result under these distributions, in shares of the bound.
    fn honest(
        &self,
        candidate: &Loaded,
        distributions: &[Distribution],
    ) -> Result<(Option<f64>, Option<String>), String> {
        let mut farthest = 0.0_f64;
        for distribution in distributions {
            let name = format!("{}/{}/{}", self.layout.symbol, self.case.shape.name, distribution.name());
            let sizes = Sizes::Given(self.case.shape.clone());
            let (layout, forward, distribution) = (self.layout, self.forward, *distribution);
            let spec = TrialSpec { name, layout, forward, sizes, distribution, bytes: 0, heavy: false };
            let attempt = Attempt { spec: &spec, case: self.case.clone(), seed: self.seed };
            let called = correctness::called(self.kernel, self.manifest, candidate, &attempt);
            let (arena, expected) = match called {
                Ok(called) => called,
                Err(loss) if loss.no_device => return Ok((None, Some(loss.message))),
                Err(loss) => return Err(format!("{}: {}", spec.name, loss.message)),
            };
            for expected in &expected {
                if let Some(buffer) = arena.blueprint.buffers.iter().find(|buffer| buffer.name == expected.name) {
                    farthest = farthest.max(compare::farthest(expected, buffer, &arena));
                }
            }
        }
        Ok((Some(farthest.min(f64::MAX)), None))
    }
}
