//! `kopt-train`, found in the workspace and built: nobody who does not ask for a training step compiles it.

use std::process::Command;

use camino::Utf8PathBuf;
use cargo_metadata::{Message, TargetKind};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::process;
use crate::shell::{Manner, Verbosity};
use crate::workspace::Workspace;

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
    /// Builds the workspace's `kopt-train`.
    ///
    /// # Errors
    /// When the workspace has none, or it does not build.
    pub fn build(context: &Context, manner: Manner, workspace: &Workspace) -> Result<Self> {
        let Some(member) = workspace.member(PACKAGE) else {
            return Err(Error::setup(format!("the training step cannot be run here: the workspace has no `{PACKAGE}`"))
                .hint("give a training script of your own: [package.metadata.kopt.transfer] command = \"…\", which prints `METRIC step_ms=…` and `METRIC loss=…` lines"));
        };
        let mut command = Command::new(&context.cargo);
        process::withhold(&mut command, context);
        command.current_dir(&workspace.root).args(["build", "--release", "--package", &member.id]);
        command.args(["--message-format", "json-render-diagnostics", "--color", manner.color.name()]);
        if manner.verbosity == Verbosity::Quiet {
            command.arg("--quiet");
        }
        let mut built = None;
        let status = process::lines(command, |line| {
            if let Ok(Message::CompilerArtifact(artifact)) = serde_json::from_str(line)
                && artifact.package_id.repr == member.id
                && artifact.target.kind.contains(&TargetKind::Bin)
            {
                built = artifact.executable;
            }
            Ok(())
        })?;
        match built.filter(|_| status.success()) {
            Some(program) => Ok(Self { program, arguments: Vec::new() }),
            None => Err(Error::new(Exit::BuildFailed, format!("`{PACKAGE}` does not build"))
                .hint("cargo says above what is wrong")),
        }
    }
}
