//! What the packages of a workspace depend on, as their manifests say. Nothing is resolved: no lock file and no registry is
//! needed.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::metadata;
use crate::context::Context;
use crate::error::Result;

/// What a package depends on, for tests and builds too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Names.
    pub names: Vec<String>,
    /// Folders of those that are named by their path.
    pub folders: Vec<Utf8PathBuf>,
}

/// Links of every package of the workspace of `manifest`, by name.
///
/// # Errors
/// When cargo refuses.
pub fn links(context: &Context, manifest: &Utf8Path) -> Result<BTreeMap<String, Links>> {
    let found = metadata(context, Some(manifest))?;
    let of = |package: &cargo_metadata::Package| Links {
        names: package.dependencies.iter().map(|one| one.name.clone()).collect(),
        folders: package.dependencies.iter().filter_map(|one| one.path.clone()).collect(),
    };
    Ok(found.packages.iter().map(|package| (package.name.to_string(), of(package))).collect())
}
