//! `kopt-train`, found in the workspace and built: nobody who does not ask for a training step compiles it.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Message, MetadataCommand, TargetKind};
use kopt_schema::exit::Exit;

use crate::build::{self, Place};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process;
use crate::referee::trusted;
use crate::revision::Export;
use crate::shell::{Manner, Shell, Verbosity};
use crate::workspace::Workspace;

/// The package.
const PACKAGE: &str = "kopt-train";

/// How a trainer is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trainer {
    /// The program.
    pub program: Utf8PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Trainer {
    /// Builds the workspace's `kopt-train`, or the one that lies beside the harness which the workspace uses.
    ///
    /// # Errors
    /// When there is none, or it does not build.
    pub fn build(context: &Context, manner: Manner, workspace: &Workspace) -> Result<Self> {
        let found = Sources::find(context, workspace)?;
        // A workspace of its own is not built into the user's folder, where it would push out what is there.
        let aside = workspace.target.join("kopt/trainer");
        let target = found.is_foreign.then_some(aside.as_path());
        found.build(context, manner, &["--release"], Place { target, ..Place::default() })
    }

    /// Builds the one of a campaign's base where the judge of package `name` was built. The judge is named beside it: features are
    /// then the same, and all but the trainer itself is there already. `folder` and `user` are those of
    /// [`trusted::Trusted::build`].
    ///
    /// # Errors
    /// As [`Trainer::build`].
    pub fn of_base(
        context: &Context,
        shell: &mut Shell,
        base: &Export,
        name: &str,
        folder: &Utf8Path,
        user: &Utf8Path,
    ) -> Result<Self> {
        let _lock = trusted::lock(shell, folder)?;
        let (root, has_lock) = trusted::settle(base, folder, user)?;
        let found = Sources::find(context, &Workspace::find(context, Some(&root.join("Cargo.toml")))?)?;
        let (judge, aside) = (folder.join("judge"), folder.join("trainer"));
        if found.is_foreign {
            return found.build(
                context,
                shell.manner(),
                &["--release"],
                Place { target: Some(&aside), ..Place::default() },
            );
        }
        let text = std::fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
        let mut lean = build::lean(&[name], &text);
        lean.push(format!("--config=profile.bench.package.{PACKAGE}.opt-level=3"));
        let place = Place { target: Some(&judge), locked: has_lock, arguments: &lean };
        let both = ["--profile", "bench", "--package", name, "--bench", "latency", "--package", PACKAGE];
        let built = found.build(context, shell.manner(), &both, place);
        trusted::note_end(folder)?;
        built
    }
}

/// Where `kopt-train` lies.
struct Sources {
    manifest: Utf8PathBuf,
    /// It is no member of the user's workspace.
    is_foreign: bool,
}

impl Sources {
    fn find(context: &Context, workspace: &Workspace) -> Result<Self> {
        if let Some(member) = workspace.member(PACKAGE) {
            return Ok(Self { manifest: member.folder.join("Cargo.toml"), is_foreign: false });
        }
        match beside_harness(context, workspace) {
            Some(manifest) => Ok(Self { manifest, is_foreign: true }),
            None => Err(Error::setup(format!(
                "the training step cannot be run here: there is no `{PACKAGE}` in the workspace, nor beside its kopt-harness"
            ))
            .hint(
                "give a training script of your own: [package.metadata.kopt.transfer] command = \"…\", which prints \
                 `METRIC step_ms=…` and `METRIC loss=…` lines",
            )),
        }
    }

    fn build(&self, context: &Context, manner: Manner, profile: &[&str], place: Place<'_>) -> Result<Trainer> {
        let mut command = Command::new(&context.cargo);
        process::withhold(&mut command, context);
        command.current_dir(self.manifest.parent().unwrap_or(&self.manifest)).arg("build").args(profile);
        command.args(["--manifest-path", self.manifest.as_str(), "--bin", PACKAGE]);
        command.args(["--message-format", "json-render-diagnostics", "--color", manner.color.name()]);
        if manner.verbosity == Verbosity::Quiet {
            command.arg("--quiet");
        }
        if let Some(target) = place.target {
            command.env("CARGO_TARGET_DIR", target);
        }
        if place.locked {
            command.arg("--locked");
        }
        command.args(place.arguments);
        let mut built = None;
        let status = process::lines(command, |line| {
            if let Ok(Message::CompilerArtifact(artifact)) = serde_json::from_str(line)
                && artifact.target.name == PACKAGE
                && artifact.target.kind.contains(&TargetKind::Bin)
            {
                built = artifact.executable;
            }
            Ok(())
        })?;
        match built.filter(|_| status.success()) {
            Some(program) => Ok(Trainer { program, arguments: Vec::new() }),
            None => Err(Error::new(Exit::BuildFailed, format!("`{PACKAGE}` does not build"))
                .hint("cargo says above what is wrong")),
        }
    }
}

/// The manifest of the one that lies in the folder of the workspace's kopt-harness: a checkout by path or by git has it.
fn beside_harness(context: &Context, workspace: &Workspace) -> Option<Utf8PathBuf> {
    let mut asked = MetadataCommand::new();
    asked.cargo_path(&context.cargo).manifest_path(workspace.root.join("Cargo.toml"));
    let mut command = asked.cargo_command();
    process::withhold(&mut command, context);
    let answer = process::capture(command).ok().filter(|answer| answer.status.success())?;
    let packages = MetadataCommand::parse(&answer.stdout).ok()?.packages;
    let harness = packages.iter().find(|package| package.name.as_str() == "kopt-harness")?;
    let manifest = harness.manifest_path.parent()?.join("train/Cargo.toml");
    manifest.exists().then_some(manifest)
}
