//! The example queues are what they say: helping, slower and no-op patches are right; a wrong one is right on every
//! listed shape and wrong on an odd one; one does not build; one touches what it may not. (What each is worth is
//! measured by the benchmark `truth`, not here.)
//!
//! One test a patch: `cargo test --test patch_queues matmul-cpu/09`. With `KOPT_SEEDS=200` each trial of a right kernel
//! is run with 200 secret seeds.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/queue.rs"]
mod queue;

use std::process::{Command, ExitCode};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::BuildError;
use kopt_build::cache::{Cache, Order};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Manifest;
use kopt_schema::message::{Message, Outcome};
use kopt_schema::queue::Truth;
use libtest_mimic::{Arguments, Failed, Trial};
use queue::Applied;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Crates whose kernels run on any machine.
const PACKAGES: [&str; 4] = ["grouped-matmul-cpu", "matmul-cpu", "rmsnorm-cpu", "softmax-cpu"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let scratch = tempfile::tempdir().unwrap();
    let scratch = Utf8Path::from_path(scratch.path()).unwrap();
    let root = Utf8Path::new(ROOT);
    let mut trials = Vec::new();
    for package in PACKAGES {
        let (folder, manifest) = queue::example(root, package).unwrap();
        let applied = queue::apply_all(&folder, &scratch.join(package)).unwrap();
        let crate_tests = Arc::new(Example { package, manifest, cache: Cache::new(scratch.join("objects")) });
        let count = applied.iter().filter(|patch| patch.truth == Truth::Helps).count();
        let kinds = [Truth::Wrong, Truth::Slower, Truth::NoOp, Truth::NoBuild, Truth::Forbidden];
        let missing: Vec<_> =
            kinds.into_iter().filter(|kind| applied.iter().all(|patch| patch.truth != *kind)).collect();
        trials.push(Trial::test(format!("{package}/has-every-kind"), move || {
            ensure(count >= 5, || format!("only {count} helping patches"))?;
            ensure(missing.is_empty(), || format!("no patch of kind {missing:?}"))
        }));
        for patch in applied {
            let example = Arc::clone(&crate_tests);
            trials.push(Trial::test(format!("{package}/{}", patch.name), move || example.test(&patch)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(Failed::from(otherwise())) }
}

struct Example {
    package: &'static str,
    manifest: Manifest,
    cache: Cache,
}

impl Example {
    fn test(&self, patch: &Applied) -> Result<(), Failed> {
        let changed = queue::changed(&patch.before, &patch.after).map_err(|error| error.to_string())?;
        let foreign = changed.iter().find(|path| !self.manifest.sources.contains(path));
        ensure(!changed.is_empty(), || "the patch changes nothing".to_owned())?;
        ensure(foreign.is_some() == (patch.truth == Truth::Forbidden), || format!("it changes {changed:?}"))?;
        let built = self.cache.candidate(&Order { folder: patch.after.clone(), manifest: self.manifest.clone() });
        if patch.truth == Truth::NoBuild {
            let refused = matches!(built, Err(BuildError::Compile { .. }));
            return ensure(refused, || "it compiles".to_owned());
        }
        let candidate = built.map_err(|error| error.to_string())?;
        if patch.truth != Truth::Wrong {
            let (exit, failed) = self.check(&candidate)?;
            return ensure(exit == Exit::Ok.code(), || format!("it is wrong: {failed:?}"));
        }
        let (_, failed) = self.check(&candidate)?;
        ensure(!failed.is_empty(), || "no trial sees that it is wrong".to_owned())?;
        let listed = failed
            .iter()
            .find(|name| self.manifest.shapes.iter().any(|shape| name.contains(&format!("/{}/", shape.name))));
        ensure(listed.is_none(), || format!("it is wrong on a listed shape: {listed:?}"))
    }

    /// Exit code of `cargo kopt check`, and the names of failed trials.
    fn check(&self, candidate: &Utf8PathBuf) -> Result<(u8, Vec<String>), Failed> {
        let output = Command::new(env!("CARGO_BIN_EXE_cargo-kopt"))
            .args(["check", "-p", self.package, "--message-format", "json"])
            .current_dir(ROOT)
            .env("KOPT_CANDIDATE", candidate)
            .output()?;
        let lines = String::from_utf8(output.stdout)?;
        let failed = lines.lines().filter_map(|line| match serde_json::from_str(line) {
            Ok(Message::Trial(trial)) if trial.outcome == Outcome::Failed => Some(trial.name),
            _ => None,
        });
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        Ok((code.ok_or("check was killed")?, failed.collect()))
    }
}
