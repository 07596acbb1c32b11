//! One seed of a trial: memory that is drawn and poisoned, calls of the kernel in a process of its own, and every element
//! compared with the reference, which that process never sees.

use std::time::Duration;

use kopt_schema::manifest::{Class, Manifest};
use kopt_schema::message::FailureKind;
use kopt_schema::wire::EntryCall;

use super::arena::Arena;
use super::blueprint::POISONS;
use super::candidate::Loaded;
use super::cases::TrialSpec;
use super::contestant::{Contestant, Loss};
use super::lease::Lease;
use super::memory::Layout;
use super::{compare, environment, prepare, reference};
use crate::kernel::{Buffer, Case, Kernel, Role};
use crate::tensor::{Draw, Expected, Tensors};

/// A trial with one seed, and the case that follows from it.
pub(crate) struct Attempt<'a> {
    pub spec: &'a TrialSpec,
    pub case: Case,
    pub seed: u64,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(kernel: &dyn Kernel, manifest: &Manifest, spec: &'a TrialSpec, seed: u64) -> Self {
        Self { spec, case: spec.case(kernel, manifest, seed), seed }
    }
}

/// Attempts that share a process at most, and bytes of their buffers, if that is more than one.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 512 << 20;

/// How many attempts of a trial may share a process. Where all that runs of a candidate runs on the device, a process is
/// worth nothing but its context. Drivers make one context after the other, whoever asks, in a tenth of a second each: longer than
/// most trials take. Code on the host gets a process of its own.
pub(crate) fn together(candidate: &Loaded, spec: &TrialSpec) -> usize {
    most_together(candidate.class, spec.bytes)
}

fn most_together(class: Class, bytes: usize) -> usize {
    match class {
        Class::Device => (TOGETHER_BYTES / bytes.max(1)).clamp(1, TOGETHER),
        Class::Native | Class::Launcher => 1,
    }
}

/// Attempts in a process of their own, and every element of every output compared. The first that fails, and why.
pub(crate) fn attempt(
    kernel: &dyn Kernel,
    manifest: &Manifest,
    candidate: &Loaded,
    attempts: &[Attempt<'_>],
) -> Result<(), (usize, Loss)> {
    let drawn = attempts.iter().enumerate().map(|(index, attempt)| {
        let drawn = Drawn::new(kernel, manifest, candidate, attempt).map_err(|loss| (index, loss))?;
        Ok(drawn)
    });
    let mut drawn: Vec<Drawn> = drawn.collect::<Result<_, _>>()?;
    let lease = Lease::share(manifest.backend);
    let mut contestant = call_all(manifest, candidate, attempts, &drawn)?;
    // What was prepared must follow the weight: a second step has another one at the same address. And who keeps something
    // that is right in a first call only must not pass by never being called again.
    // Code on a device got its inputs when the memory was attached: it would not see others.
    let again = |attempt: &Attempt<'_>| {
        candidate.prepares.is_some() || (candidate.class == Class::Native && !attempt.spec.heavy)
    };
    if attempts.iter().any(again) {
        for (number, (attempt, drawn)) in
            attempts.iter().zip(&mut drawn).enumerate().filter(|(_, (attempt, _))| again(attempt))
        {
            let again = drawn.verdict(kernel, manifest, attempt).and_then(|()| {
                drawn.fill(kernel, attempt, "inputs of the second step");
                drawn.calls_of(manifest, &mut contestant, number)
            });
            again.map_err(|loss| (number, loss))?;
        }
    }
    // Nothing that it started may go on while outputs are read.
    drop(contestant);
    drop(lease);
    for (number, (attempt, drawn)) in attempts.iter().zip(&drawn).enumerate() {
        drawn.verdict(kernel, manifest, attempt).map_err(|loss| (number, loss))?;
    }
    Ok(())
}

/// One call of the kernel in a process of its own: its memory afterwards, and what its outputs should hold.
pub(crate) fn called(
    kernel: &dyn Kernel,
    manifest: &Manifest,
    candidate: &Loaded,
    attempt: &Attempt<'_>,
) -> Result<(Arena, Vec<Expected>), Loss> {
    let drawn = Drawn::new(kernel, manifest, candidate, attempt)?;
    let lease = Lease::share(manifest.backend);
    let called = call_all(manifest, candidate, std::slice::from_ref(attempt), std::slice::from_ref(&drawn));
    drop(called.map_err(|(_, loss)| loss)?);
    drop(lease);
    let expected = drawn.left_behind(kernel, manifest, attempt)?;
    Ok((drawn.arena, expected))
}

/// Calls the kernel on the memory of each attempt, all in one process, which is still there.
fn call_all(
    manifest: &Manifest,
    candidate: &Loaded,
    attempts: &[Attempt<'_>],
    drawn: &[Drawn],
) -> Result<Contestant, (usize, Loss)> {
    let arenas: Vec<&Arena> = drawn.iter().map(|drawn| &drawn.arena).collect();
    let symbols: Vec<String> =
        attempts.first().map(|attempt| attempt.spec.layout.symbol.to_owned()).into_iter().collect();
    let mut contestant = Contestant::start(candidate, manifest.backend, &symbols, &arenas).map_err(|loss| (0, loss))?;
    for (number, drawn) in drawn.iter().enumerate() {
        let attached = contestant.attach(drawn.arena.wire(drawn.calls.clone())).map(|_| ());
        attached.and_then(|()| drawn.calls_of(manifest, &mut contestant, number)).map_err(|loss| (number, loss))?;
    }
    Ok(contestant)
}

/// The memory of an attempt, and the calls on it: the entry, after a preparation where there is one.
struct Drawn {
    inputs: Tensors,
    arena: Arena,
    /// A checksum of the inputs.
    before: u64,
    calls: Vec<EntryCall>,
}

impl Drawn {
    fn new(kernel: &dyn Kernel, manifest: &Manifest, candidate: &Loaded, attempt: &Attempt<'_>) -> Result<Self, Loss> {
        let Attempt { spec, case, seed } = attempt;
        let mut buffers = kernel.buffers(spec.layout.symbol, case);
        let sizes = prepare::sizes(kernel, manifest.backend, spec.forward, candidate, std::slice::from_ref(case))?;
        buffers.extend(sizes.first().and_then(|bytes| prepare::buffer(*bytes)));
        let noise = Draw::new(*seed, "noise").bits();
        let arena = Arena::new(buffers, 1, Layout::Fenced, noise, seed % POISONS)
            .map_err(|error| Loss::of_judge(format!("memory: {error}")))?;
        let buffers = &arena.blueprint.buffers;
        let calls = prepare::step(kernel, spec.forward, &[(spec.layout, 0)], case, candidate, buffers);
        // A candidate's own plan may be what cannot be called.
        let calls = calls.map_err(|error| Loss::new(FailureKind::Setup, error))?;
        let mut drawn = Self { inputs: Tensors::default(), arena, before: 0, calls };
        drawn.fill(kernel, attempt, "inputs");
        Ok(drawn)
    }

    /// New contents and poison.
    fn fill(&mut self, kernel: &dyn Kernel, attempt: &Attempt<'_>, purpose: &str) {
        let Attempt { spec, case, seed } = attempt;
        let draw = &mut Draw::new(*seed, purpose);
        self.inputs = kernel.inputs(spec.layout.symbol, case, spec.distribution, draw);
        self.arena.fill(0, 0, &self.inputs);
        self.arena.poison(0);
        self.before = self.arena.input_sum();
    }

    /// Makes the calls in a process that has this memory under `number`.
    fn calls_of(&self, manifest: &Manifest, contestant: &mut Contestant, number: usize) -> Result<(), Loss> {
        let limit = Duration::from_secs_f64(environment::timeout_s().unwrap_or(manifest.check.timeout_s));
        for call in 0..self.calls.len() {
            let called = contestant.call(number, call, 0, limit);
            called.map_err(|loss| explain(loss, contestant, number, &self.arena))?;
        }
        Ok(())
    }

    /// What is expected of what the call left behind, if all of that is where it may be.
    fn left_behind(
        &self,
        kernel: &dyn Kernel,
        manifest: &Manifest,
        attempt: &Attempt<'_>,
    ) -> Result<Vec<Expected>, Loss> {
        let Self { inputs, arena, before, .. } = self;
        let Attempt { spec, case, .. } = attempt;
        if arena.input_sum() != *before {
            return Err(Loss::new(FailureKind::InputModified, "an input is not what it was before the call"));
        }
        if let Some(place) = arena.trespass() {
            return Err(Loss::new(FailureKind::OutOfBounds, format!("wrote outside its outputs, {place}")));
        }
        reference::expect(kernel, manifest.backend, spec.layout.symbol, case, inputs, spec.distribution)
    }

    /// Every element of every output, compared.
    fn verdict(&self, kernel: &dyn Kernel, manifest: &Manifest, attempt: &Attempt<'_>) -> Result<(), Loss> {
        let arena = &self.arena;
        let all = self.left_behind(kernel, manifest, attempt)?;
        let is_output = |buffer: &&Buffer| buffer.written && buffer.role != Role::Workspace;
        if let Some(left) = arena
            .blueprint
            .buffers
            .iter()
            .filter(is_output)
            .find(|buffer| !all.iter().any(|one| one.name == buffer.name))
        {
            return Err(Loss::of_judge(format!(
                "the operator's reference gives nothing for `{}`, which the kernel writes",
                left.name
            )));
        }
        for expected in all {
            let buffer = arena.blueprint.find(expected.name).map(|index| &arena.blueprint.buffers[index]);
            let unknown = || format!("the operator's reference gives `{}`, which is no buffer", expected.name);
            let buffer = buffer.ok_or_else(|| Loss::of_judge(unknown()))?;
            if let Some(loss) = compare::compare(&expected, buffer, arena, 0) {
                return Err(loss);
            }
        }
        Ok(())
    }
}

/// A fault's address, as a place near a buffer.
fn explain(loss: Loss, contestant: &Contestant, number: usize, arena: &Arena) -> Loss {
    let lens = (arena.inputs.len(), arena.outputs.len());
    let Some((written, offset)) = loss.address.and_then(|address| contestant.locate(number, address, lens)) else {
        return loss;
    };
    let place = arena.blueprint.describe(written, offset);
    let inside = place.starts_with("byte");
    let (kind, message) = match (written, inside) {
        (false, true) => (FailureKind::InputModified, format!("wrote to an input, {place}: inputs are read-only")),
        _ => (FailureKind::OutOfBounds, format!("touched memory outside its buffers, {place}")),
    };
    Loss { kind, message, ..loss }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_on_a_device_shares_a_process_as_far_as_its_memory_allows() {
        let device = |mebibytes: usize| most_together(Class::Device, mebibytes << 20);
        assert_eq!([0, 1, 16].map(device), [32; 3]);
        assert_eq!([17, 128, 256, 512, 4096].map(device), [30, 4, 2, 1, 1]);
        for class in [Class::Native, Class::Launcher] {
            assert_eq!(most_together(class, 0), 1, "{class:?}: code on the host may keep what it has seen");
        }
    }
}
