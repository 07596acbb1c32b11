//! What a gate leaves behind where it is asked to: Markdown, JUnit, GitHub's annotations and summary, and the page for a
//! browser.

use std::collections::BTreeMap;
use std::io::Write as _;

use camino::Utf8Path;
use kopt_schema::exit::Exit;

use super::{Measured, Request};
use crate::campaign::folder::digest;
use crate::context::Context;
use crate::context::github::GitHub;
use crate::error::{Error, Result};
use crate::ops::report::save;
use crate::page::{self, Exhibit, GatePage};
use crate::records::gate::{GateReport, annotations, junit, markdown};
use crate::shell::{Format, Shell};

/// Markdown, JUnit, annotations and the step's summary.
pub fn write(
    context: &Context,
    shell: &mut Shell,
    github: &GitHub,
    request: &Request,
    report: &GateReport<'_>,
) -> Result<()> {
    let text = markdown::markdown(report);
    if let Some(path) = &request.markdown {
        put(&context.absolute(path), &text, false)?;
    }
    if let Some(path) = &github.step_summary {
        put(path, &format!("{text}\n"), true)?;
    }
    if let Some(path) = &request.junit {
        let text =
            junit::junit(report).map_err(|error| Error::new(Exit::Internal, "cannot write JUnit").cause(error))?;
        put(&context.absolute(path), &text, false)?;
    }
    if github.actions {
        let lines: String = annotations::annotations(report).iter().map(|line| format!("{line}\n")).collect();
        // The runner reads both outputs; a program that reads stdout expects JSON there.
        match shell.manner().format {
            Format::Human => shell.document(&lines)?,
            Format::Json => shell.tell(&lines),
        }
    }
    Ok(())
}

/// The page, with the evidence of everything that came before a judge.
pub fn page(
    context: &Context,
    shell: &mut Shell,
    request: &Request,
    report: &GateReport<'_>,
    measured: &Measured,
) -> Result<()> {
    let Some(path) = &request.html else { return Ok(()) };
    let file = |name: &str| {
        let kernel = report.kernels.iter().find(|kernel| kernel.kernel == name);
        let file = kernel.and_then(|kernel| kernel.evidence.as_deref()).unwrap_or_default();
        let bytes = std::fs::read(context.absolute(Utf8Path::new(file))).unwrap_or_default();
        (file, digest(&bytes))
    };
    let files: BTreeMap<&str, _> = measured.keys().map(|name| (name.as_str(), file(name))).collect();
    let exhibit = |(name, evidence)| {
        let (file, digest) = &files[String::as_str(name)];
        // The gate has its own word for what came of it.
        (name.as_str(), Exhibit { evidence, file, digest: Some(digest), differences: &[], ruled: false })
    };
    let exhibits = measured.iter().map(exhibit).collect();
    let text = page::gate(&GatePage { report: *report, exhibits: &exhibits });
    save(context, shell, &context.absolute(path), &text)
}

/// Whether a file can be written there: asked before the work.
pub fn has_room(path: &Utf8Path) -> Result<()> {
    let failed = |error: &dyn std::error::Error| cannot(path).because(error);
    if path.is_dir() {
        return Err(cannot(path).cause("it is a folder"));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let known = path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| failed(&error))?;
    if !known {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn put(path: &Utf8Path, text: &str, append: bool) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true);
    if append {
        options.append(true)
    } else {
        options.write(true).truncate(true)
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| cannot(path).because(&error))
}

fn cannot(path: &Utf8Path) -> Error {
    Error::new(Exit::Output, format!("cannot write `{path}`"))
}
