//! Test and bench executables, built by one call of cargo for all kernels: cargo schedules better than we would, and
//! pays for its own start only once. Its progress and diagnostics go to the user as they are.

use std::collections::HashMap;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Message, TargetKind};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Kernel;
use crate::process;
use crate::shell::{Manner, Verbosity};
use crate::workspace::Workspace;

/// Which executable of a kernel crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `tests/correctness.rs`, built by `cargo test`.
    Correctness,
    /// `benches/latency.rs`, built by `cargo bench`.
    Latency,
}

impl Role {
    const fn target(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Latency => "latency",
        }
    }

    const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Correctness => ["test", "--no-run", "--test", "correctness"],
            Self::Latency => ["bench", "--no-run", "--bench", "latency"],
        }
    }

    const fn kind(self) -> TargetKind {
        match self {
            Self::Correctness => TargetKind::Test,
            Self::Latency => TargetKind::Bench,
        }
    }
}

/// Where cargo builds, and how strictly.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place<'a> {
    /// The target folder, if not the workspace's own.
    pub target: Option<&'a Utf8Path>,
    /// The lock file must do as it is.
    pub locked: bool,
    /// Further arguments, such as those of [`lean`].
    pub arguments: &'a [String],
}

/// Packages whose speed a judge's own depends on: what fills inputs, evaluates references and compares.
const FAST: [&str; 7] = ["kopt-harness", "chacha20", "half", "libm", "rand", "rand_core", "rand_distr"];

/// Packages that a workspace may optimise for itself, and a judge hardly runs: derived code, much of it.
const PLAIN: [&str; 1] = ["kopt-schema"];

/// Arguments that optimise the packages `names` and what a judge spends its time in, and nothing else: most of what it links
/// (parsers, plots, bindings) runs for a moment, and takes half of the build. `lock` is the text of the lock file: a
/// package that is not there must not be named. Where there is none yet, nothing is said, and the workspace's own profile holds:
/// a judge that is not optimised would be slow, and find the machine slow.
#[must_use]
pub fn lean(names: &[&str], lock: &str) -> Vec<String> {
    let there = |package: &&str| lock.lines().any(|line| line == format!("name = \"{package}\""));
    if !there(&"kopt-harness") {
        return Vec::new();
    }
    let fast = FAST.into_iter().filter(there).chain(names.iter().copied()).map(|package| (package, 3));
    let plain = PLAIN.into_iter().filter(there).map(|package| (package, 0));
    let mut arguments = vec!["--config=profile.bench.opt-level=0".to_owned()];
    let package = |(package, level)| format!("--config=profile.bench.package.{package}.opt-level={level}");
    arguments.extend(fast.chain(plain).map(package));
    arguments
}

/// Builds the executables of `kernels`, in their order.
///
/// # Errors
/// When a crate has no such target, the build fails, or cargo names no executable.
pub fn executables(
    context: &Context,
    manner: Manner,
    workspace: &Workspace,
    kernels: &[Kernel],
    role: Role,
) -> Result<Vec<Utf8PathBuf>> {
    executables_in(context, manner, workspace, kernels, role, Place::default())
}

/// The same, in a place of its own.
///
/// # Errors
/// As [`executables`].
pub fn executables_in(
    context: &Context,
    manner: Manner,
    workspace: &Workspace,
    kernels: &[Kernel],
    role: Role,
    place: Place<'_>,
) -> Result<Vec<Utf8PathBuf>> {
    kernels.iter().try_for_each(|kernel| has_target(context, kernel, role))?;
    let mut built: HashMap<String, Utf8PathBuf> = HashMap::new();
    let mut command = cargo(context, manner, workspace, kernels, role);
    if let Some(target) = place.target {
        command.env("CARGO_TARGET_DIR", target);
    }
    if place.locked {
        command.arg("--locked");
    }
    command.args(place.arguments);
    let status = process::lines(command, |line| {
        if let Ok(Message::CompilerArtifact(artifact)) = serde_json::from_str(line)
            && let Some(executable) = artifact.executable
            && artifact.target.kind.contains(&role.kind())
            && artifact.target.name == role.target()
        {
            built.insert(artifact.package_id.repr, executable);
        }
        Ok(())
    })?;
    if !status.success() {
        let error = Error::new(Exit::BuildFailed, format!("`cargo {}` failed", role.words()[0]));
        return Err(match status.code() {
            Some(101) => error.hint("cargo says above what is wrong"),
            Some(code) => error.cause(format!("cargo exited with {code}")),
            None => error.cause(format!("cargo: {status}")),
        });
    }
    let executable = |kernel: &Kernel| {
        built.remove(&kernel.member.id).ok_or_else(|| {
            Error::new(Exit::BuildFailed, format!("cargo built no `{}` for {}", role.target(), kernel.member.name))
        })
    };
    kernels.iter().map(executable).collect()
}

fn cargo(context: &Context, manner: Manner, workspace: &Workspace, kernels: &[Kernel], role: Role) -> Command {
    let mut command = Command::new(&context.cargo);
    process::withhold(&mut command, context);
    command.current_dir(&workspace.root).args(role.words());
    command.args(["--message-format", "json-render-diagnostics", "--color", manner.color.name()]);
    match manner.verbosity {
        Verbosity::Quiet => command.arg("--quiet"),
        Verbosity::Normal => &mut command,
        Verbosity::Verbose => command.arg("--verbose"),
    };
    for kernel in kernels {
        // The full identity: a name alone may also be that of a dependency.
        command.args(["--package", &kernel.member.id]);
    }
    command
}

/// Cargo would only say that no package has the target; this says which crate lacks it, and what to write.
fn has_target(context: &Context, kernel: &Kernel, role: Role) -> Result<()> {
    let (targets, table, folder) = match role {
        Role::Correctness => (&kernel.member.tests, "[[test]]", "tests"),
        Role::Latency => (&kernel.member.benches, "[[bench]]", "benches"),
    };
    let target = role.target();
    if targets.iter().any(|name| name == target) {
        return Ok(());
    }
    let manifest = kernel.member.folder.join("Cargo.toml");
    Err(Error::setup(format!("{}: no {table} named `{target}`", context.shown(&manifest)))
        .hint(format!("add `{folder}/{target}.rs`, and to Cargo.toml: {table} name = \"{target}\", harness = false")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lock_file_names_is_optimised_and_without_one_nothing_is_said() {
        let lock = "[[package]]\nname = \"kopt-harness\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"half\"\n";
        let lines = lean(&["mine"], lock);
        assert_eq!(lines, lean(&["mine"], &lock.replace('\n', "\r\n")));
        let package = |name: &str| format!("--config=profile.bench.package.{name}.opt-level=3");
        assert!(["kopt-harness", "half", "mine"].iter().all(|name| lines.contains(&package(name))), "{lines:?}");
        assert!(!lines.contains(&package("rand")), "it is not there: {lines:?}");
        // It would be built as if it were none of these.
        assert_eq!(lean(&["mine"], ""), Vec::<String>::new());
    }
}
