//! The example queues are what they say: helping, slower and no-op patches are right, and clean under the sanitizers; a
//! wrong one is right on every listed shape and wrong on an odd one; one does not build; one touches what it may not. (What each is worth is
//! measured by the benchmark `truth`, not here.)
//!
//! One test a patch: `cargo test --test patch_queues matmul-cpu/09`. The end of a queue, and every patch that is not to be
//! accepted, is run through all trials and the sanitizers; the states between are on their way to the end, and run through the trials of
//! random shapes only. `KOPT_QUEUE_FILTER` chooses other trials, `/` all of them. Each is run with one secret seed, or with `KOPT_SEEDS`:
//! 200 seeds and as many shapes under every distribution are
//! `KOPT_SEEDS=200 KOPT_QUEUE_FILTER=random-1 cargo test --test patch_queues`. Examples for a GPU are compiled where their compiler
//! is, and checked where such a device is.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/judge.rs"]
mod judge;
#[path = "support/queue.rs"]
mod queue;

use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::manifest::Kernel;
use cargo_kopt::process::Interrupts;
use cargo_kopt::runner::{Heard, Job, Runner};
use cargo_kopt::sanitizer::{self, Finding};
use kopt_build::BuildError;
use kopt_build::cache::{Cache, Order};
use kopt_schema::manifest::{Backend, Language, Manifest};
use kopt_schema::message::{self, Message, Outcome};
use kopt_schema::queue::Truth;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use queue::Applied;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let scratch = tempfile::tempdir().unwrap();
    let scratch = Utf8Path::from_path(scratch.path()).unwrap();
    let root = Utf8Path::new(ROOT);
    let mut trials = Vec::new();
    for package in queue::examples(root, |_| true).unwrap() {
        let (folder, manifest) = queue::example(root, &package).unwrap();
        let states = scratch.join(&package);
        let applied = queue::apply_all(&folder, &states).unwrap();
        let crate_tests = Arc::new(Example {
            package: package.clone(),
            manifest,
            // By what they are compiled from: the queues are run twice in CI, and hardly any patch changes in between.
            cache: Cache::new(Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("queues")),
            judge: OnceLock::new(),
            no_device: OnceLock::new(),
        });
        let count = applied.iter().filter(|patch| patch.truth == Truth::Helps).count();
        let kinds = [Truth::Wrong, Truth::Slower, Truth::NoOp, Truth::NoBuild, Truth::Forbidden];
        let missing: Vec<_> =
            kinds.into_iter().filter(|kind| applied.iter().all(|patch| patch.truth != *kind)).collect();
        trials.push(Trial::test(format!("{package}/has-every-kind"), move || {
            ensure(count >= 5, || format!("only {count} helping patches"))?;
            ensure(missing.is_empty(), || format!("no patch of kind {missing:?}"))
        }));
        if package == "softmax-cuda" {
            let (example, from) = (Arc::clone(&crate_tests), states.join("baseline"));
            trials.push(Trial::ignorable_test(format!("{package}/read-past-the-end"), move || {
                example.finds_a_read_past_the_end(&from)
            }));
        }
        let last = applied.iter().rev().find(|patch| patch.truth == Truth::Helps).map(|patch| patch.name.clone());
        let baseline = Applied {
            name: "baseline".to_owned(),
            truth: Truth::Helps,
            before: states.clone(),
            after: states.join("baseline"),
        };
        for patch in std::iter::once(baseline).chain(applied) {
            let name = patch.name.clone();
            let example = Arc::clone(&crate_tests);
            let on_its_way = patch.truth == Truth::Helps && Some(&name) != last.as_ref();
            let filter = asked("KOPT_QUEUE_FILTER").or_else(|| on_its_way.then(|| "/random-".to_owned()));
            let test = move || match example.cannot_compile() {
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => example.test(&patch, filter),
            };
            trials.push(Trial::ignorable_test(format!("{package}/{name}"), test));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(Failed::from(otherwise())) }
}

/// Files that differ between two copies of a crate.
fn changed(before: &Utf8Path, after: &Utf8Path) -> Result<Vec<String>, queue::Failure> {
    let mut changed = Vec::new();
    for part in queue::PARTS {
        for entry in after.join(part).read_dir_utf8()? {
            let path = format!("{part}/{}", entry?.file_name());
            if std::fs::read(before.join(&path)).ok() != Some(std::fs::read(after.join(&path))?) {
                changed.push(path);
            }
        }
    }
    for file in queue::FILES {
        if std::fs::read(before.join(file))? != std::fs::read(after.join(file))? {
            changed.push(file.to_owned());
        }
    }
    Ok(changed)
}

struct Example {
    package: String,
    manifest: Manifest,
    cache: Cache,
    /// The crate's own test executable.
    judge: OnceLock<(Kernel, Utf8PathBuf)>,
    no_device: OnceLock<bool>,
}

/// What whoever runs the test asks for.
#[allow(clippy::disallowed_methods, reason = "no part of the tool")]
fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The GPU, which one patch has at a time.
static DEVICE: Mutex<()> = Mutex::new(());

static CONTEXT: LazyLock<Context> = LazyLock::new(|| Context::of_process().unwrap());

static INTERRUPTS: LazyLock<Interrupts> = LazyLock::new(|| Interrupts::watch().unwrap());

impl Example {
    /// Why the crate's kernels cannot be compiled here.
    fn cannot_compile(&self) -> Option<String> {
        kopt_build::compile::lacking(&self.manifest)
    }

    /// The manifest by which the sources of a HIP example are compiled for CUDA, too, where nvcc is.
    fn for_cuda(&self) -> Option<Manifest> {
        let arch = vec!["sm_90".to_owned()];
        let cuda = Manifest { backend: Backend::Cuda, language: Language::Cuda, arch, ..self.manifest.clone() };
        let wanted = self.manifest.backend == Backend::Hip && self.manifest.language == Language::Hip;
        (wanted && kopt_build::compile::lacking(&cuda).is_none()).then_some(cuda)
    }

    fn test(&self, patch: &Applied, filter: Option<String>) -> Result<Completion, Failed> {
        if patch.name != "baseline" {
            let changed = changed(&patch.before, &patch.after).map_err(|error| error.to_string())?;
            let foreign = changed.iter().find(|path| !self.manifest.sources.contains(path));
            ensure(!changed.is_empty(), || "the patch changes nothing".to_owned())?;
            ensure(foreign.is_some() == (patch.truth == Truth::Forbidden), || format!("it changes {changed:?}"))?;
        }
        let built = self.cache.candidate(&Order { folder: patch.after.clone(), manifest: self.manifest.clone() });
        // The states between take as long, and say nothing new.
        if let Some(manifest) = self.for_cuda().filter(|_| filter.is_none()) {
            let refused = self.cache.candidate(&Order { folder: patch.after.clone(), manifest }).err();
            ensure(refused.is_some() == (patch.truth == Truth::NoBuild), || match refused {
                Some(error) => format!("for CUDA: {error}"),
                None => "it compiles for CUDA".to_owned(),
            })?;
        }
        if patch.truth == Truth::NoBuild {
            let refused = matches!(built, Err(BuildError::Compile { .. }));
            ensure(refused, || "it compiles".to_owned())?;
            return Ok(Completion::Completed);
        }
        let candidate = built.map_err(|error| error.to_string())?;
        if self.manifest.backend != Backend::Cpu && self.no_device(&candidate)? {
            return Ok(Completion::ignored_with("it compiles, and there is no device to run it"));
        }
        // Every trial has a context of its own: those of several patches at a time would wait for each other until they time out.
        let _one_at_a_time = (self.manifest.backend != Backend::Cpu).then(|| DEVICE.lock());
        // Sanitizers take seconds, on a device half a minute: states between are on their way here, too.
        let with_sanitizers = filter.is_none();
        let (passed, failed) = self.check(&candidate, filter)?;
        let names = || failed.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("\n");
        if patch.truth != Truth::Wrong {
            ensure(passed, || format!("it is wrong: {}", names()))?;
            if !with_sanitizers {
                return Ok(Completion::Completed);
            }
            let found = self.sanitized(&patch.after)?;
            // Not every toolkit has them, and a processor always does.
            let lacking = self.manifest.backend != Backend::Cpu && kopt_build::toolchain::compute_sanitizer().is_err();
            ensure(lacking || found == Finding::Clean, || format!("the sanitizers: {found:?}"))?;
            return Ok(Completion::Completed);
        }
        ensure(!failed.is_empty(), || "no trial sees that it is wrong".to_owned())?;
        let listed = failed
            .iter()
            .find(|(name, _)| self.manifest.shapes.iter().any(|shape| name.contains(&format!("/{}/", shape.name))));
        ensure(listed.is_none(), || format!("it is wrong on a listed shape: {listed:?}"))?;
        Ok(Completion::Completed)
    }

    /// That the sanitizers see one, which no trial does: what it reads is next to nothing in a maximum.
    fn finds_a_read_past_the_end(&self, folder: &Utf8Path) -> Result<Completion, Failed> {
        if let Some(reason) = self.cannot_compile().or_else(|| kopt_build::toolchain::compute_sanitizer().err()) {
            return Ok(Completion::ignored_with(reason));
        }
        let candidate = self.cache.candidate(&Order { folder: folder.to_owned(), manifest: self.manifest.clone() });
        if self.no_device(&candidate.map_err(|error| error.to_string())?)? {
            return Ok(Completion::ignored_with("there is no device"));
        }
        let scratch = tempfile::tempdir()?;
        let wrong = Utf8Path::from_path(scratch.path()).ok_or("the folder's name is no text")?;
        std::fs::create_dir(wrong.join("kernels"))?;
        for entry in folder.join("kernels").read_dir_utf8()? {
            let path = entry?.into_path();
            let text = std::fs::read_to_string(&path)?;
            let to = wrong.join("kernels").join(path.file_name().unwrap_or_default());
            std::fs::write(to, text.replacen("i < cols;", "i <= cols;", 1))?;
        }
        let _one_at_a_time = DEVICE.lock();
        let found = self.sanitized(wrong)?;
        let is_seen = matches!(&found, Finding::Found(what) if what.starts_with("memcheck: "));
        ensure(is_seen, || format!("the sanitizers: {found:?}"))?;
        Ok(Completion::Completed)
    }

    fn sanitized(&self, folder: &Utf8Path) -> Result<Finding, Failed> {
        let scratch = tempfile::tempdir()?;
        let place = Utf8Path::from_path(scratch.path()).ok_or("the folder's name is no text")?;
        let version = (folder, &self.manifest);
        Ok(sanitizer::run(&CONTEXT, &INTERRUPTS, version, &self.judge().1, place).map_err(|error| error.to_string())?)
    }

    fn judge(&self) -> &(Kernel, Utf8PathBuf) {
        self.judge.get_or_init(|| judge::of(&self.package))
    }

    /// Whether there is nothing here that runs it: one trial tells.
    fn no_device(&self, candidate: &Utf8Path) -> Result<bool, Failed> {
        if let Some(known) = self.no_device.get() {
            return Ok(*known);
        }
        let trials = self.trials(candidate, Some("random-1/uniform".to_owned()))?.1;
        let none = !trials.is_empty() && trials.iter().all(|trial| trial.outcome == Outcome::Ignored);
        Ok(*self.no_device.get_or_init(|| none))
    }

    /// Whether all trials of a candidate passed, and those that failed with what was wrong.
    fn check(&self, candidate: &Utf8Path, filter: Option<String>) -> Result<(bool, Vec<(String, String)>), Failed> {
        let (ended_well, trials) = self.trials(candidate, filter)?;
        let passed = ended_well && !trials.is_empty() && trials.iter().all(|trial| trial.outcome == Outcome::Passed);
        let failed = trials.into_iter().filter(|trial| trial.outcome == Outcome::Failed);
        Ok((passed, failed.map(|trial| (trial.name, trial.detail.unwrap_or_default())).collect()))
    }

    /// The trials whose names contain the filter, run by the crate's own test executable: what `cargo kopt check` does beside that takes
    /// longer than most of them, and there are more than a hundred states. Whether it ended well, and each that it reported.
    fn trials(&self, candidate: &Utf8Path, filter: Option<String>) -> Result<(bool, Vec<message::Trial>), Failed> {
        let seeds = asked("KOPT_SEEDS").unwrap_or_else(|| "1".to_owned());
        let environment = vec![("KOPT_CANDIDATE", candidate.to_string()), ("KOPT_SEEDS", seeds)];
        let (kernel, executable) = self.judge();
        let job = Job { kernel, executable, arguments: filter.into_iter().collect(), environment };
        let (mut planned, mut trials) = (0, Vec::new());
        let mut hear = |heard| {
            if let Heard::Message(message) = heard {
                match *message {
                    Message::Plan(plan) => planned = plan.trials,
                    Message::Trial(trial) => trials.push(trial),
                    _ => {}
                }
            }
            Ok(())
        };
        let runner = Runner::new(&CONTEXT).map_err(|error| error.to_string())?;
        let ended = runner.run(&job, &mut hear).map_err(|error| error.to_string())?;
        Ok((ended.trouble().is_none() && trials.len() == planned, trials))
    }
}
