//! `report`: what came of a campaign, or has come of it so far.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::event::Level;
use kopt_schema::exit::Exit;

use super::campaigns::{Chosen, Which};
use crate::campaign::folder::{Home, digest, write};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::Phase;
use crate::page::{self, CampaignFacts, Filed};
use crate::records::Report;
use crate::referee::evidence;
use crate::shell::{Format, GOOD, Shell};

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
            _ => error.hint(
                "`cargo kopt resume` goes on with it, `cargo kopt stop` brings it to its report; --html shows how it stands",
            ),
        }
    })?;
    shell.document(&text)?;
    Ok(Exit::Ok)
}

/// Writes the campaign as a page, to `file` or beside its other reports. A campaign that is not over has one too.
///
/// # Errors
/// When it cannot be written. Evidence that cannot be read is no error: the page says so.
pub fn html(context: &Context, shell: &mut Shell, which: &Which, file: Option<&Utf8Path>) -> Result<Exit> {
    let chosen = which.one(context, false)?;
    if let Some(name) = file.filter(|_| which.name.is_none())
        && Home::of(&chosen.workspace.root).campaigns().iter().any(|(folder, _)| folder.name.starts_with(name.as_str()))
    {
        return Err(Error::new(Exit::Usage, format!("`{name}` is a campaign, and would be the name of the page"))
            .hint(format!("name the campaign first: `cargo kopt report {name} --html`")));
    }
    let path = file.map_or_else(|| chosen.folder.path.join("report.html"), |file| context.absolute(file));
    let [_, json] = chosen.folder.report();
    let told: Option<Report> = std::fs::read(&json).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let (evidence, total) = evidence_of(&chosen);
    let facts = CampaignFacts {
        target: &chosen.target,
        state: &chosen.state,
        report: told.as_ref(),
        evidence: &evidence,
        total: total.as_ref(),
    };
    let text = page::campaign(&facts);
    save(context, shell, &path, &text)?;
    Ok(Exit::Ok)
}

/// Writes a page and says where it is.
///
/// # Errors
/// When it cannot be written.
pub fn save(context: &Context, shell: &mut Shell, path: &Utf8Path, text: &str) -> Result<()> {
    if path.is_dir() {
        return Err(Error::new(Exit::Output, format!("cannot write `{path}`: it is a folder"))
            .hint("name a file: --html report.html"));
    }
    write(path, text.as_bytes())?;
    shell.status("Page", GOOD, &format!("{}, {} KB", context.shown(path), text.len().div_ceil(1000)));
    Ok(())
}

/// The evidence of every round that was measured, and that of the whole.
fn evidence_of(chosen: &Chosen) -> (BTreeMap<u32, Filed>, Option<Filed>) {
    let state = &chosen.state;
    let file = |path: Utf8PathBuf, digest: &str| filed(&chosen.workspace.root, &path, digest);
    let round = |number: u32, name: &str| chosen.folder.round(number).join(name);
    let mut found = BTreeMap::new();
    if let Some(baseline) = &state.baseline {
        found.insert(1, file(round(1, "evidence.json"), &baseline.evidence));
    }
    for one in &state.rounds {
        if let Some(measured) = one.verdict() {
            let name = if measured.level == Level::Quick { "evidence-quick.json" } else { "evidence.json" };
            found.insert(one.number, file(round(one.number, name), &measured.evidence));
        }
    }
    let digest = state.reported.as_ref().and_then(|reported| reported.evidence.as_deref());
    (found, digest.map(|digest| file(chosen.folder.path.join("evidence-total.json"), digest)))
}

/// A file of evidence. One that is not what the events name is not shown: it would pass for what was measured.
fn filed(root: &Utf8Path, path: &Utf8Path, named: &str) -> Filed {
    let shown = path.strip_prefix(root).unwrap_or(path).to_string();
    let evidence = match std::fs::read(path) {
        Err(error) => Err(format!("cannot read {shown}: {error}")),
        Ok(bytes) if digest(&bytes) != named => {
            Err(format!("{shown} was changed: its SHA-256 is not the one that the events name"))
        }
        Ok(bytes) => evidence::read(&shown, &bytes).map_err(|error| {
            let failure = error.failure();
            std::iter::once(&failure.message).chain(&failure.causes).cloned().collect::<Vec<_>>().join(": ")
        }),
    };
    Filed { file: shown, digest: named.to_owned(), evidence }
}
