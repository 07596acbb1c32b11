//! `report`: what came of a campaign, or has come of it so far.

use kopt_schema::exit::Exit;

use super::campaigns::Which;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::shell::{Format, Shell};

/// Shows the report: for people as Markdown, for programs as one JSON document.
///
/// # Errors
/// When there is none yet.
pub fn report(context: &Context, shell: &mut Shell, which: &Which) -> Result<Exit> {
    let chosen = which.one(context, false)?;
    let [markdown, json] = chosen.folder.report();
    let path = if shell.manner().format == Format::Json { json } else { markdown };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let error =
            Error::new(Exit::Locked, format!("campaign {} has no report yet", chosen.folder.name)).because(&error);
        match chosen.state.phase() {
            Phase::Over => error,
            _ => error.hint("`cargo kopt resume` goes on with it, `cargo kopt stop` brings it to its report"),
        }
    })?;
    shell.document(&text)?;
    Ok(Exit::Ok)
}
