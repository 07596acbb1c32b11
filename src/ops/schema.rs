//! `schema`: JSON schemas of what the tool reads and writes.

use kopt_schema::audit::Audit;
use kopt_schema::campaign::{Entry, Proposal, Target};
use kopt_schema::evidence::Evidence;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{KernelTable, WorkspaceTable};
use kopt_schema::message::Message;
use kopt_schema::plan::PlanTable;
use schemars::{Schema, schema_for};

use crate::error::{Error, Result};
use crate::records::Report;
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
    /// The evidence of a verdict, `evidence.json`
    Evidence,
    /// The audit of a compiled kernel, part of `evidence.json`
    Audit,
    /// The target of a campaign, `manifest.toml` and --target
    Target,
    /// What an agent says of its change, `proposal.toml`
    Proposal,
    /// A line of a campaign's `events.jsonl`
    Events,
    /// What came of a campaign, `report.json`
    Report,
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
        Subject::Evidence => schema_for!(Evidence),
        Subject::Audit => schema_for!(Audit),
        Subject::Target => schema_for!(Target),
        Subject::Proposal => schema_for!(Proposal),
        Subject::Events => schema_for!(Entry),
        Subject::Report => schema_for!(Report),
    }
}
