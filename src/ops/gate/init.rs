//! `gate --init github`: the workflows that run the gate on pull requests, and post what it found.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;

use super::repository_root;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::shell::{GOOD, Shell, quoted};

/// A system that runs workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// GitHub Actions
    Github,
}

/// The files, relative to the repository.
const FILES: [(&str, &str); 2] = [
    (".github/workflows/kopt-gate.yml", include_str!("workflows/gate.yml")),
    (".github/workflows/kopt-gate-comment.yml", include_str!("workflows/comment.yml")),
];

/// Writes the workflows; those that are there already only with `force`.
///
/// # Errors
/// When there is no repository, a file is there already, or cannot be written.
pub fn init(context: &Context, shell: &mut Shell, manifest: Option<&Utf8Path>, force: bool) -> Result<Exit> {
    let (root, inside) = repository_root(context, manifest)?;
    let places = FILES.map(|(path, text)| (root.join(path), text_for(text, &inside)));
    // One that is as it would be written is no reason to refuse.
    let other = |(path, text): &&(Utf8PathBuf, String)| {
        path.symlink_metadata().is_ok() && std::fs::read_to_string(path).ok().as_ref() != Some(text)
    };
    if let Some((path, _)) = places.iter().find(other).filter(|_| !force) {
        return Err(Error::setup(format!("`{}` is there already, and is another", context.shown(path)))
            .hint("--force replaces it"));
    }
    for (path, text) in &places {
        let failed = |error: &std::io::Error| {
            Error::new(Exit::Output, format!("cannot write `{}`", context.shown(path))).because(error)
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        std::fs::write(path, text).map_err(|error| failed(&error))?;
        shell.status("Wrote", GOOD, context.shown(path).as_str());
    }
    shell.note(
        "say in kopt-gate.yml how cargo kopt is installed, and commit both; the comment works from the default branch",
    );
    Ok(Exit::Ok)
}

/// A workflow for the workspace in the folder `inside` of the repository: steps begin at its top.
fn text_for(text: &str, inside: &Utf8Path) -> String {
    if inside == "" {
        return text.to_owned();
    }
    let manifest = quoted(inside.join("Cargo.toml").as_str());
    text.replace("cargo kopt gate ", &format!("cargo kopt gate --manifest-path {manifest} "))
        .replace(" target/kopt", &format!(" {inside}/target/kopt"))
}
