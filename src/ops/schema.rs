//! `schema`: JSON schemas of what the tool reads and writes.

use kopt_schema::exit::Exit;
use kopt_schema::manifest::{KernelTable, WorkspaceTable};
use kopt_schema::message::Message;
use kopt_schema::plan::PlanTable;
use schemars::{Schema, schema_for};

use crate::error::{Error, Result};
use crate::shell::Shell;

/// What can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Subject {
    /// `[package.metadata.kopt]` of a kernel crate's Cargo.toml
    Manifest,
    /// `[workspace.metadata.kopt]`, the defaults of a workspace
    Workspace,
    /// A launch plan, `kernels/<op>.launch.toml`
    Plan,
    /// The JSON lines of --message-format json and of the file named by `KOPT_OUT`
    Messages,
}

/// Prints the schema of `subject`.
///
/// # Errors
/// When stdout takes no more.
pub fn schema(shell: &mut Shell, subject: Subject) -> Result<Exit> {
    let mut text = serde_json::to_string_pretty(&schema_of(subject))
        .map_err(|error| Error::new(Exit::Internal, "cannot write a schema as JSON").because(&error))?;
    text.push('\n');
    shell.document(&text)?;
    Ok(Exit::Ok)
}

fn schema_of(subject: Subject) -> Schema {
    match subject {
        Subject::Manifest => schema_for!(KernelTable),
        Subject::Workspace => schema_for!(WorkspaceTable),
        Subject::Plan => schema_for!(PlanTable),
        Subject::Messages => schema_for!(Message),
    }
}
