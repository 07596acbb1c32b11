//! What is in a commit: its files with their contents' digests, and what of it cannot be exported.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use camino::Utf8Path;
use git2::{FileMode, ObjectType, Oid, Repository};
use toml_edit::DocumentMut;

use super::{Revision, unreadable};
use crate::error::Result;

/// What a path of a commit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file with these contents.
    File(Oid),
    /// A link to there.
    Link(PathBuf),
}

/// The files of a commit.
#[derive(Debug)]
pub(super) struct Files {
    /// By path, links that lead out of the tree left out.
    pub kept: BTreeMap<PathBuf, Kind>,
    /// Links that lead out of the tree, and where to.
    pub outward: Vec<(PathBuf, PathBuf)>,
    /// A manifest that is written with other contents than the commit's: see [`Files::seal`].
    pub sealed: Option<(PathBuf, Vec<u8>)>,
    submodules: Vec<PathBuf>,
}

impl Files {
    pub(super) fn of(repository: &Repository, revision: &Revision) -> Result<Self> {
        let broken = |error: git2::Error| unreadable(repository, revision, &error);
        let commit = Oid::from_str(&revision.commit).and_then(|id| repository.find_commit(id)).map_err(broken)?;
        let tree = commit.tree().map_err(broken)?;
        let mut files = Self { kept: BTreeMap::new(), outward: Vec::new(), sealed: None, submodules: Vec::new() };
        // The library's own walk takes only names that are text.
        let mut pending = vec![(PathBuf::new(), tree.id())];
        while let Some((folder, id)) = pending.pop() {
            for entry in &repository.find_tree(id).map_err(broken)? {
                let path = folder.join(OsStr::from_bytes(entry.name_bytes()));
                match entry.filemode() {
                    mode if mode == i32::from(FileMode::Commit) => files.submodules.push(path),
                    mode if mode == i32::from(FileMode::Tree) => pending.push((path, entry.id())),
                    mode if mode == i32::from(FileMode::Link) => {
                        let blob = repository.find_blob(entry.id()).map_err(broken)?;
                        let target = PathBuf::from(OsStr::from_bytes(blob.content()));
                        match leads_out(&path, &target) {
                            true => files.outward.push((path, target)),
                            false => drop(files.kept.insert(path, Kind::Link(target))),
                        }
                    }
                    _ => drop(files.kept.insert(path, Kind::File(entry.id()))),
                }
            }
        }
        // Folders are taken from the end of a list: what is told of them has the order of their names.
        files.submodules.sort();
        files.outward.sort();
        Ok(files)
    }

    /// Makes a package that is its own workspace say so. An export lies below the user's workspace, to which cargo
    /// would otherwise count it; a lone package with an empty `[workspace]` is the same package.
    pub(super) fn seal(&mut self, repository: &Repository, workspace: &Utf8Path) {
        let manifest = workspace.join("Cargo.toml").into_std_path_buf();
        let text = |path: &Path| match self.kept.get(path) {
            Some(Kind::File(id)) => String::from_utf8(repository.find_blob(*id).ok()?.content().to_vec()).ok(),
            _ => None,
        };
        let table = |path: &Path| text(path)?.parse::<DocumentMut>().ok();
        let above = workspace.ancestors().map(|folder| folder.join("Cargo.toml").into_std_path_buf());
        let is_root = |path: PathBuf| table(&path).is_some_and(|table| table.contains_key("workspace"));
        let package = table(&manifest).and_then(|table| table.get("package").cloned());
        if package.is_none_or(|package| package.get("workspace").is_some()) || above.into_iter().any(is_root) {
            return;
        }
        let Some(sealed) = text(&manifest).map(|text| (text + "\n[workspace]\n").into_bytes()) else { return };
        if let Ok(id) = Oid::hash_object(ObjectType::Blob, &sealed) {
            self.kept.insert(manifest.clone(), Kind::File(id));
            self.sealed = Some((manifest, sealed));
        }
    }

    pub(super) fn has(&self, path: &Utf8Path) -> bool {
        self.kept.contains_key(path.as_std_path())
    }

    /// What an export lacks, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        let submodules =
            self.submodules.iter().map(|path| format!("`{}` is a submodule: not supported", path.display()));
        let links = self.outward.iter().map(|(path, target)| {
            format!("`{}` is a link out of the repository, to `{}`: not followed", path.display(), target.display())
        });
        submodules.chain(links).collect()
    }
}

/// Whether a link at `path`, both inside the tree, leads out of it by its own words. What it passes through may be a
/// link itself: see [`super::export`], which asks the file system too.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut depth = path.parent().map_or(0, |folder| folder.components().count());
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_out_when_it_is_absolute_or_climbs_past_the_root() {
        for (path, target, out) in [
            ("a/b/link", "../../c", false),
            ("a/b/link", "../../../c", true),
            ("a/b/link", "x/../../../../c", true),
            ("link", "/etc/passwd", true),
            ("link", "./a/../b", false),
            ("link", "..", true),
        ] {
            assert_eq!(leads_out(Path::new(path), Path::new(target)), out, "{path} -> {target}");
        }
    }
}
