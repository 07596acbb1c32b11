//! Names of references, who commits, and git's errors in words.

use camino::Utf8Path;
use git2::{Branch, Commit, ErrorCode, ObjectType, Oid, Reference, Repository, Signature, Tree};
use kopt_schema::exit::Exit;

use crate::error::{Error, Result};

/// Under which every campaign has its references.
pub(super) const ROOT: &str = "refs/kopt/";

/// What a campaign calls the reference that stands for its branch having been made for it: one without it was there before.
pub(super) const MADE: &str = "branch";

/// The full name of one of a campaign's references.
pub(super) fn name(campaign: &str, what: &str) -> String {
    format!("{ROOT}{campaign}/{what}")
}

/// Refuses names that git, or a file system, would refuse later or take for something else.
pub(super) fn check_names(campaign: &str, branch: Option<&str>) -> Result<()> {
    // The name is that of a folder, of a registration and part of references: what all of them take, and no pattern.
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let valid = campaign.chars().all(plain) && Reference::is_valid_name(&name(campaign, "evidence"));
    if campaign.is_empty() || !valid {
        return Err(Error::setup(format!("`{campaign}` cannot be the name of a campaign"))
            .hint("letters, digits, `.`, `_` and `-`, with a letter or digit first"));
    }
    match branch {
        Some(branch) if !Branch::name_is_valid(branch).unwrap_or(false) => {
            Err(Error::setup(format!("`{branch}` cannot be the name of a branch"))
                .hint("`git check-ref-format --help` tells what git takes; without `git_branch` one is chosen"))
        }
        _ => Ok(()),
    }
}

/// What an error of git comes to, of the step that `doing` tells.
pub(super) fn failed(doing: impl Into<String>) -> impl FnOnce(git2::Error) -> Error {
    let doing = doing.into();
    move |error| match error.code() {
        ErrorCode::Locked => Error::new(Exit::Locked, doing)
            .because(&error)
            .hint("another git process is at work, or was killed: when none runs, remove the lock file that is named"),
        ErrorCode::Owner => Error::setup(doing)
            .because(&error)
            .hint("the repository belongs to another user: `git config --global --add safe.directory <folder>`"),
        _ => Error::setup(doing).because(&error).hint("`git fsck` says what is wrong with the repository"),
    }
}

/// The commit of that number.
pub(super) fn commit<'a>(repository: &'a Repository, id: &str) -> Result<Commit<'a>> {
    Oid::from_str(id).and_then(|id| repository.find_commit(id)).map_err(|error| {
        Error::setup(format!("there is no commit `{id}` in the repository"))
            .because(&error)
            .hint("fetch it; or is this another clone than the campaign began in?")
    })
}

/// What a reference points to, if it is there.
pub(super) fn target(repository: &Repository, name: &str) -> Result<Option<Oid>> {
    match repository.refname_to_id(name) {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(failed(format!("cannot read the reference `{name}`"))(error)),
    }
}

/// Points a reference to `id` if it still points to `expected`; nothing means that it is not there. Returns whether it did.
pub(super) fn swap(
    repository: &Repository,
    name: &str,
    id: Oid,
    expected: Option<Oid>,
    why: &str,
) -> Result<bool, git2::Error> {
    // To git the number zero is a reference that does not exist: so a first write is compared, too.
    let expected = expected.unwrap_or(Oid::ZERO_SHA1);
    match repository.reference_matching(name, id, true, expected, why) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code(), ErrorCode::Modified | ErrorCode::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Points a reference of the campaign's own to `id`, whatever it pointed to.
pub(super) fn point(repository: &Repository, name: &str, id: Oid, why: &str) -> Result<()> {
    repository.reference(name, id, true, why).map_err(failed(format!("cannot write the reference `{name}`")))?;
    Ok(())
}

/// Deletes a reference, if it is there and stands at that commit.
pub(super) fn delete_at(repository: &Repository, name: &str, commit: Oid) -> Result<()> {
    let mut found = match repository.find_reference(name) {
        Ok(found) => found,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(()),
        Err(error) => return Err(failed(format!("cannot read the reference `{name}`"))(error)),
    };
    if found.target() != Some(commit) {
        return Ok(());
    }
    found.delete().map_err(failed(format!("cannot delete the reference `{name}`")))
}

/// The bytes of a file of a tree. Anything but a file, such as a link, is not one.
pub(super) fn blob(repository: &Repository, tree: &Tree<'_>, path: &Utf8Path) -> Result<Option<Vec<u8>>> {
    let entry = match tree.get_path(path.as_std_path()) {
        Ok(entry) => entry,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(error) => return Err(failed(format!("cannot look for `{path}`"))(error)),
    };
    if entry.kind() != Some(ObjectType::Blob) || entry.filemode() == i32::from(git2::FileMode::Link) {
        return Ok(None);
    }
    let blob = repository.find_blob(entry.id()).map_err(failed(format!("cannot read `{path}`")))?;
    Ok(Some(blob.content().to_vec()))
}

/// Who commits what no person has a part in.
pub(super) fn tool() -> Result<Signature<'static>> {
    Signature::now("cargo kopt", "cargo-kopt@localhost").map_err(failed("cannot tell the time of a commit"))
}

/// Who commits what is accepted: the user, where git knows one.
pub(super) fn user(repository: &Repository) -> Result<Signature<'static>> {
    repository.signature().or_else(|_| tool())
}
