//! One file per command's work: facts and effects put together, results told through the shell. A result that is not
//! what the user hoped for is an [`Exit`], not an error.

pub mod attempt;
pub mod audit;
pub mod bench;
pub mod bindings;
pub mod campaigns;
pub mod certify;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod forget;
pub mod gate;
pub mod list;
pub mod new;
pub mod optimize;
pub mod report;
pub mod resume;
pub mod schema;
pub mod status;
pub mod train_step;
pub mod verdict;
pub mod verify;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::{Found, Kernel};
use crate::shell::{Shell, count};
use crate::workspace::Workspace;
use crate::workspace::selection::Selection;

/// Which kernels, of which workspace.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// `-p`, `--workspace`.
    pub selection: Selection,
}

impl Target {
    /// Where the user stands: the folder of the manifest that was named, or the current one.
    fn here(&self, context: &Context) -> Utf8PathBuf {
        match self.manifest_path.as_deref().map(|path| context.absolute(path)) {
            Some(path) => path.parent().map(Utf8Path::to_owned).unwrap_or(path),
            None => context.cwd.clone(),
        }
    }

    /// The workspace and what its selected manifests say, right or wrong.
    ///
    /// # Errors
    /// When cargo cannot say, or nothing is selected.
    pub fn find(&self, context: &Context) -> Result<(Workspace, Found)> {
        let workspace = Workspace::find(context, self.manifest_path.as_deref())?;
        let members = self.selection.of(&workspace, &self.here(context))?;
        let found = Found::read(context, &workspace, &members);
        Ok((workspace, found))
    }

    /// The selected kernels, all of them with a manifest that is right: nothing slow starts before.
    ///
    /// # Errors
    /// When cargo cannot say, nothing is selected, or a manifest is wrong (after saying how).
    pub fn kernels(&self, context: &Context, shell: &mut Shell) -> Result<(Workspace, Vec<Kernel>)> {
        let (workspace, found) = self.find(context)?;
        if found.findings.is_empty() {
            return Ok((workspace, found.kernels));
        }
        found.complain(shell)?;
        Err(wrong_manifests(&found))
    }
}

/// The closing word on manifests that have been complained about one by one.
fn wrong_manifests(found: &Found) -> Error {
    Error::new(Exit::Setup, format!("{} in kernel manifests", count(found.findings.len(), "mistake")))
        .hint("`cargo kopt schema manifest` describes [package.metadata.kopt]")
}
