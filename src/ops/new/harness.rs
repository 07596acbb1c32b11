//! Where the new crate finds the harness: a member of its workspace, the folder the user names, or the sources this tool
//! was built from.

use camino::{Utf8Path, Utf8PathBuf};

use super::place::Place;
use crate::context::Context;
use crate::error::{Error, Result};

/// The sources this tool was built from, if they are still there.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/harness");

/// What stands behind `kopt-harness =` and `kopt-build =`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harness {
    /// `path = "../harness"` or `version = "0.1.0"`.
    pub harness: String,
    /// The same for kopt-build.
    pub build: String,
    /// Its folder, where only this machine has it, and nobody said so.
    pub found: Option<Utf8PathBuf>,
}

impl Harness {
    /// Looks for it, nearest first.
    ///
    /// # Errors
    /// When the folder that the user names is not the harness, or there is none.
    pub fn find(context: &Context, given: Option<&Utf8Path>, place: &Place) -> Result<Self> {
        if let Some(given) = given {
            let folder = harness_in(&context.absolute(given))?;
            let build = folder.join("build");
            return Ok(match (given.is_absolute(), is_together(place, &folder)) {
                (true, _) => Self::at(folder, build),
                (false, true) => Self::at(relative(&place.folder, &folder), relative(&place.folder, &build)),
                (false, false) => Self { found: Some(folder.clone()), ..Self::at(folder, build) },
            });
        }
        let member = |name: &str| place.workspace.as_ref().and_then(|workspace| workspace.member(name));
        if let (Some(harness), Some(build)) = (member("kopt-harness"), member("kopt-build")) {
            return Ok(Self::at(relative(&place.folder, &harness.folder), relative(&place.folder, &build.folder)));
        }
        let sources = Utf8Path::new(BUILT_FROM);
        if is_harness(sources) {
            let found = Some(sources.to_owned());
            return Ok(Self { found, ..Self::at(sources.to_owned(), sources.join("build")) });
        }
        Err(Error::setup("the crate's harness is not found: the checkout that this tool was built from is gone")
            .hint("--harness DIR names another checkout of cargo kopt"))
    }

    fn at(harness: Utf8PathBuf, build: Utf8PathBuf) -> Self {
        // As a TOML text: a folder's name may hold quotes and backslashes.
        let path = |folder: Utf8PathBuf| format!("path = {}", toml_edit::Value::from(folder.as_str()));
        Self { harness: path(harness), build: path(build), found: None }
    }
}

/// Whether the harness in `folder` goes wherever the new crate goes: versions of a crate are exported from its repository, where a
/// relative path out of it leads elsewhere. Before there is a repository, the workspace will be in one.
fn is_together(place: &Place, folder: &Utf8Path) -> bool {
    let there = place.folder.ancestors().find(|folder| folder.is_dir());
    let repository = there.and_then(|there| git2::Repository::discover(there).ok());
    let top = repository.and_then(|repository| Utf8PathBuf::from_path_buf(repository.workdir()?.to_owned()).ok());
    let top = top.or_else(|| place.workspace.as_ref().map(|workspace| workspace.root.clone()));
    let real = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    top.is_some_and(|top| real(folder).starts_with(real(&top)))
}

/// The folder of kopt-harness: `folder` itself, or the `harness` of a checkout.
fn harness_in(folder: &Utf8Path) -> Result<Utf8PathBuf> {
    let inner = folder.join("harness");
    [folder, &inner].into_iter().find(|folder| is_harness(folder)).map(Utf8Path::to_owned).ok_or_else(|| {
        Error::setup(format!("`{folder}` is not the harness"))
            .hint("--harness takes the folder of kopt-harness, `harness` in a checkout of cargo kopt")
    })
}

fn is_harness(folder: &Utf8Path) -> bool {
    std::fs::read_to_string(folder.join("Cargo.toml"))
        .ok()
        .and_then(|text| text.parse::<toml_edit::DocumentMut>().ok())
        .is_some_and(|document| document.get("package").and_then(|p| p.get("name")?.as_str()) == Some("kopt-harness"))
}

/// The way from one folder to another, both absolute.
fn relative(from: &Utf8Path, to: &Utf8Path) -> Utf8PathBuf {
    let same = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(same).map(|_| "..");
    let way: Utf8PathBuf = up.chain(to.components().skip(same).map(|part| part.as_str())).collect();
    if way.as_str().is_empty() { ".".into() } else { way }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_between_two_folders() {
        let way = |from: &str, to: &str| relative(from.into(), to.into()).into_string();
        assert_eq!(way("/w/kernels/a", "/w/harness"), "../../harness");
        assert_eq!(way("/w", "/w/harness"), "harness");
        assert_eq!(way("/w", "/w"), ".");
    }

    #[test]
    fn a_folder_with_a_quote_in_its_name_is_still_toml() {
        let harness = Harness::at("/it's \"here\"".into(), "/b".into());
        let text = format!("a = {{ {} }}", harness.harness);
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        assert_eq!(document["a"]["path"].as_str(), Some("/it's \"here\""));
    }
}
