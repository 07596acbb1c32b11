//! Writing a commit's files, whole or not at all: beside their place, then moved there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use git2::build::CheckoutBuilder;
use git2::{ObjectType, Oid, Repository};
use kopt_schema::exit::Exit;

use super::Revision;
use super::tree::{Files, Kind};
use crate::error::{Error, Result};
use crate::process;

/// Begins the names of exports that are not finished; the number of their process follows.
const UNFINISHED: &str = ".exporting-";
/// No export takes this long: what is older was left behind, whoever has its process number now.
const ABANDONED: Duration = Duration::from_secs(3600);

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
    let scratch = tempfile::Builder::new()
        .prefix(&format!("{UNFINISHED}{}-", std::process::id()))
        .tempdir_in(folder)
        .map_err(|error| no_room(&error))?;
    let fresh = scratch.path().join("tree");
    fs::create_dir(&fresh).map_err(|error| no_room(&error))?;
    check_out(repository, revision, &fresh).map_err(|error| no_room(&error))?;
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

/// Removes what killed runs have left in `folder`. What cannot be removed is left for the next run.
pub(super) fn sweep(folder: &Utf8Path) {
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        let Some(rest) = entry.file_name().strip_prefix(UNFINISHED) else { continue };
        let gone = rest.split('-').next().is_none_or(process::is_gone);
        let age = entry.metadata().ok().and_then(|facts| facts.modified().ok()?.elapsed().ok());
        if gone || age.is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
