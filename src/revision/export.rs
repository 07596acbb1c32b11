//! Writing a commit's files, whole or not at all: beside their place, then moved there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use git2::build::CheckoutBuilder;
use git2::{ObjectType, Oid, Repository};
use kopt_build::scratch::Scratch;
use kopt_schema::exit::Exit;

use super::tree::{Files, Kind};
use super::{Revision, unreadable};
use crate::error::{Error, Result};

/// Begins the names of exports that are not finished.
pub(super) const UNFINISHED: &str = ".exporting-";

/// The folder with the commit's files under `folder`: the one that is there, if it is whole, or a new one.
pub(super) fn ready(
    repository: &Repository,
    files: &Files,
    revision: &Revision,
    folder: &Utf8Path,
) -> Result<Utf8PathBuf> {
    let place = folder.join(&revision.commit);
    if is_whole(&place, files) {
        return Ok(place);
    }
    let no_room = |error: &dyn std::error::Error| {
        Error::new(Exit::Output, format!("cannot write the files of {} to `{folder}`", revision.shown())).because(error)
    };
    fs::create_dir_all(folder).map_err(|error| no_room(&error))?;
    let scratch = Scratch::new(folder, UNFINISHED).map_err(|error| no_room(&error))?;
    let fresh = scratch.path().as_std_path().join("tree");
    fs::create_dir(&fresh).map_err(|error| no_room(&error))?;
    check_out(repository, revision, &fresh).map_err(|error| match is_here(repository, files) {
        true => no_room(&error),
        false => unreadable(repository, revision, &error),
    })?;
    drop_outward(&fresh, files).map_err(|error| no_room(&error))?;
    if let Some((path, contents)) = &files.sealed {
        fs::write(fresh.join(path), contents).map_err(|error| no_room(&error))?;
    }
    if fs::rename(&fresh, &place).is_err() && !is_whole(&place, files) {
        // What stands in the way is damaged. It is moved first: others may be looking at it, and a half-removed one
        // must not be taken for an export.
        fs::rename(&place, scratch.path().join("damaged")).map_err(|error| no_room(&error))?;
        fs::rename(&fresh, &place).map_err(|error| no_room(&error))?;
    }
    Ok(place)
}

/// Whether this clone has what is in the files.
fn is_here(repository: &Repository, files: &Files) -> bool {
    let Ok(objects) = repository.odb() else { return true };
    let sealed = files.sealed.as_ref().map(|(path, _)| path);
    files.kept.iter().all(|(path, kind)| match kind {
        // What is sealed is written here, and git never had it.
        Kind::File(id) => sealed == Some(path) || objects.exists(*id),
        Kind::Link(_) => true,
    })
}

/// Writes the tree's own bytes (no filter of the user's configuration applies) and touches neither index nor
/// references.
fn check_out(repository: &Repository, revision: &Revision, to: &Path) -> Result<(), git2::Error> {
    let commit = repository.find_object(Oid::from_str(&revision.commit)?, Some(ObjectType::Commit))?;
    let mut how = CheckoutBuilder::new();
    how.target_dir(to).force().recreate_missing(true).update_index(false).refresh(false).disable_filters(true);
    how.remove_untracked(false).disable_pathspec_match(true);
    repository.checkout_tree(&commit, Some(&mut how))
}

/// Removes links that lead out of the tree: by their own words, or through a link to a folder.
fn drop_outward(root: &Path, files: &Files) -> std::io::Result<()> {
    for (path, _) in &files.outward {
        fs::remove_file(root.join(path))?;
    }
    let root = root.canonicalize()?;
    for (path, kind) in &files.kept {
        let path = root.join(path);
        let leads_out = || path.canonicalize().is_ok_and(|end| !end.starts_with(&root));
        if matches!(kind, Kind::Link(_)) && leads_out() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Whether `place` holds exactly the commit's files, byte for byte. Links may be missing: see [`drop_outward`].
fn is_whole(place: &Utf8Path, files: &Files) -> bool {
    let mut found = BTreeSet::new();
    if collect(place.as_std_path(), Path::new(""), &mut found).is_err() {
        return false;
    }
    let all_known = found.iter().all(|path| files.kept.contains_key(path));
    all_known
        && files.kept.iter().all(|(path, kind)| {
            let file = place.as_std_path().join(path);
            match kind {
                Kind::Link(target) => !found.contains(path) || fs::read_link(file).is_ok_and(|is| is == *target),
                Kind::File(id) => {
                    let is_file = fs::symlink_metadata(&file).is_ok_and(|facts| facts.is_file());
                    is_file && Oid::hash_file(ObjectType::Blob, &file).is_ok_and(|is| is == *id)
                }
            }
        })
}

fn collect(root: &Path, inside: &Path, into: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let path = inside.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => collect(root, &path, into)?,
            false => drop(into.insert(path)),
        }
    }
    Ok(())
}
