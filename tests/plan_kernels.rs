//! Kernels whose launch plans ask for more than a grid, checked by the real binary: all blocks on the device at once, and tensor
//! maps, which not every shape can have.
//!
//! `plan-kernels/<name>.cu` and its plan are compiled in place of softmax-cuda's own. Ignored where there is no compiler or no
//! device.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/check.rs"]
mod check;

use std::fs;
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_build::manifest;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Manifest;
use kopt_schema::message::Outcome;
use libtest_mimic::{Arguments, Completion, Failed};

use check::{Checked, check};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Rows of whole tiles, rows that end within one, and rows that no tensor map can have.
const SHAPES: [&str; 3] = ["64x1024", "8192x1000", "odd-7x33"];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One at a time on a device.
    arguments.test_threads.get_or_insert(1);
    let test = |name: &'static str| libtest_mimic::Trial::ignorable_test(name, move || test(name));
    libtest_mimic::run(&arguments, ["together", "tiles"].map(test).into()).exit_code()
}

fn test(name: &str) -> Result<Completion, Failed> {
    let root = Utf8Path::new(ROOT);
    let example = root.join("example-kernels/softmax-cuda");
    let manifest = manifest::load(&example, Some(root), root).unwrap().unwrap();
    if let Some(reason) = kopt_build::compile::lacking(&manifest) {
        return Ok(Completion::ignored_with(reason));
    }
    let candidate = compile(name, &example, manifest);
    for shape in SHAPES {
        let Checked { code, trials, said } = check("softmax-cuda", &candidate, &format!("/{shape}/"), 60);
        if code == Some(Exit::NoDevice.code().into()) {
            return Ok(Completion::ignored_with("it compiles, and there is no device to run it"));
        }
        let wrong = trials.iter().find(|trial| trial.outcome != Outcome::Passed);
        if code != Some(Exit::Ok.code().into()) || trials.is_empty() || wrong.is_some() {
            return Err(format!("{shape}: exit code {code:?}, {wrong:#?}\n{said}").into());
        }
    }
    Ok(Completion::Completed)
}

/// Compiles the kernel with its plan; gives its `candidate.json`.
fn compile(name: &str, example: &Utf8Path, manifest: Manifest) -> Utf8PathBuf {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    let kernels = folder.join("kernels");
    fs::create_dir(&kernels).unwrap();
    let fixtures = Utf8Path::new(ROOT).join("tests/plan-kernels");
    // The bindings for where libclang is not installed: the plan is checked against them.
    for file in ["softmax.h", "softmax.bindings.rs"] {
        fs::copy(example.join("kernels").join(file), kernels.join(file)).unwrap();
    }
    for ending in ["cu", "launch.toml"] {
        fs::copy(fixtures.join(format!("{name}.{ending}")), kernels.join(format!("softmax.{ending}"))).unwrap();
    }
    let cache = Cache::new(Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("plan-kernels"));
    cache.candidate(&Order { folder: folder.to_owned(), manifest }).unwrap()
}
