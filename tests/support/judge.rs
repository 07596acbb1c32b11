//! The judge of an example: its correctness executable, built for real.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::build::{self, Role};
use cargo_kopt::context::Context;
use cargo_kopt::manifest::{Found, Kernel};
use cargo_kopt::shell::{Manner, Verbosity};
use cargo_kopt::workspace::Workspace;

/// The example's crate, and its judge.
pub fn of(package: &str) -> (Kernel, Utf8PathBuf) {
    let context = Context::of_process().unwrap();
    let manifest = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let workspace = Workspace::find(&context, Some(&manifest)).unwrap();
    let member = workspace.member(package).unwrap();
    let kernel = Found::read(&context, &workspace, &[member]).kernels.remove(0);
    let manner = Manner { verbosity: Verbosity::Quiet, ..Manner::default() };
    let built = build::executables(&context, manner, &workspace, std::slice::from_ref(&kernel), Role::Correctness);
    (kernel, built.unwrap().remove(0))
}
