//! The campaign's own folder: a git worktree, made, checked and removed.
//!
//! A registration is three small files (gitrepository-layout(5)). They are written here and not by the library, which
//! can make no worktree without a branch, and cannot see one whose making was interrupted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use git2::{Oid, Repository};
use kopt_schema::campaign::target::ExecutionMode;
use kopt_schema::exit::Exit;

use super::survey::Around;
use super::{Lineage, Place, references, unusable};
use crate::error::{Error, Result};

/// A lock that is older than this is that of a process that is gone: git holds one for milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// `.kopt` of a workspace, made if need be, and invisible to git.
///
/// # Errors
/// When it cannot be written.
pub fn own_folder(workspace: &Utf8Path) -> Result<Utf8PathBuf> {
    let folder = workspace.join(".kopt");
    let failed = |path: &Utf8Path, error: &std::io::Error| {
        Error::new(Exit::Output, format!("cannot write `{path}`"))
            .because(error)
            .hint("campaigns are kept there: make room, or put the permissions right")
    };
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let ignore = folder.join(".gitignore");
    match fs::OpenOptions::new().write(true).create_new(true).open(&ignore) {
        Ok(mut file) => std::io::Write::write_all(&mut file, b"*\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| failed(&ignore, &error))?;
    Ok(folder)
}

/// The folder of the worktree.
pub(super) fn folder_of(place: &Place<'_>) -> Utf8PathBuf {
    let folder = place.workspace.join(place.folder);
    // As git will tell it; the folder itself may not be there yet.
    match (folder.parent().and_then(|parent| parent.canonicalize_utf8().ok()), folder.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => folder,
    }
}

fn registration(repository: &Repository, campaign: &str) -> PathBuf {
    repository.commondir().join("worktrees").join(format!("kopt-{campaign}"))
}

/// Makes the worktree if it is not there, and again if it is not whole. Its files are not yet written. Returns what was
/// repaired; nothing if it stood.
pub(super) fn ensure(around: &Around, place: &Place<'_>, commit: Oid) -> Result<Vec<String>> {
    let parent = place.workspace.join(place.folder);
    let parent = parent.parent().unwrap_or(place.workspace);
    fs::create_dir_all(parent).map_err(|error| unusable("make the folder", parent, &error))?;
    let folder = folder_of(place);
    let registration = registration(&around.repository, place.campaign);
    if is_whole(&registration, &folder) {
        return Ok(Vec::new());
    }
    if let Some(other) = other_user(&registration, &folder) {
        return Err(Error::new(Exit::Locked, format!("a campaign `{}` is at work elsewhere", place.campaign))
            .cause(format!("its worktree is `{}`", other.display()))
            .hint("go on with it there, or choose another name"));
    }
    let mut repaired = vec![format!("the worktree `{folder}` was made again")];
    remove_if_there(&registration)?;
    if let Some(aside) = move_aside(&folder)? {
        repaired.push(format!("the folder that stood there was no worktree any more; it was moved to `{aside}`"));
    }
    let head = match place.branch {
        Some(branch) => format!("ref: refs/heads/{branch}\n"),
        None => format!("{commit}\n"),
    };
    make(&registration, &folder, &head)?;
    Ok(repaired)
}

fn make(registration: &Path, folder: &Utf8Path, head: &str) -> Result<()> {
    fs::create_dir_all(registration).map_err(|error| unusable("make the folder", registration, &error))?;
    fs::create_dir_all(folder).map_err(|error| unusable("make the folder", folder, &error))?;
    let full = registration.canonicalize().map_err(|error| unusable("find", registration, &error))?;
    let files = [
        (registration.join("HEAD"), head.to_owned()),
        (registration.join("commondir"), "../..\n".to_owned()),
        (registration.join("gitdir"), format!("{}\n", folder.join(".git"))),
        (folder.join(".git").into_std_path_buf(), format!("gitdir: {}\n", full.display())),
    ];
    for (path, text) in files {
        fs::write(&path, text).map_err(|error| unusable("write", &path, &error))?;
    }
    Ok(())
}

/// Whether registration and folder know each other, and git takes them for a worktree.
fn is_whole(registration: &Path, folder: &Utf8Path) -> bool {
    let same =
        |one: &Path, other: &Path| one.canonicalize().ok().is_some_and(|one| other.canonicalize().ok() == Some(one));
    let is_file = folder.join(".git").symlink_metadata().is_ok_and(|found| found.is_file());
    is_file
        && Repository::open(folder).is_ok_and(|repository| {
            repository.is_worktree()
                && same(repository.path(), registration)
                && repository.workdir().is_some_and(|top| same(top, folder.as_std_path()))
        })
}

/// The link that a registration names. Newer versions of git may name it as seen from the registration.
pub(super) fn link_of(registration: &Path) -> Option<PathBuf> {
    let link = fs::read_to_string(registration.join("gitdir")).ok()?;
    Some(registration.join(link.trim_end()))
}

/// Another folder that the registration belongs to, and that is there.
fn other_user(registration: &Path, folder: &Utf8Path) -> Option<PathBuf> {
    let other = link_of(registration)?.parent()?.to_owned();
    let is_theirs =
        other.join(".git").exists() && other.canonicalize().ok() != folder.as_std_path().canonicalize().ok();
    is_theirs.then_some(other)
}

/// Moves a folder out of the way, unless it holds nothing but our own link.
fn move_aside(folder: &Utf8Path) -> Result<Option<Utf8PathBuf>> {
    match folder.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable("look at", folder, &error)),
        Ok(_) => {}
    }
    let link = folder.join(".git");
    let only_link = folder.read_dir_utf8().is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == ".git" && entry.path().is_file()))
    });
    if only_link {
        fs::remove_file(&link)
            .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .map_err(|error| unusable("remove", &link, &error))?;
        return Ok(None);
    }
    let aside = free_name(folder);
    fs::rename(folder, &aside).map_err(|error| unusable("move aside", folder, &error))?;
    Ok(Some(aside))
}

/// `<folder>.saved-<n>` with the first number that is free.
pub(super) fn free_name(folder: &Utf8Path) -> Utf8PathBuf {
    let names = (1_u32..).map(|number| Utf8PathBuf::from(format!("{folder}.saved-{number}")));
    let mut free = names.filter(|name| name.symlink_metadata().is_err());
    free.next().unwrap_or_else(|| Utf8PathBuf::from(format!("{folder}.saved")))
}

fn remove_if_there(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable("remove", folder, &error)),
        _ => Ok(()),
    }
}

/// Removes the worktree of a beginning that went no further; `false` where the name is that of a campaign at work elsewhere.
/// Nobody was told of it, so that it holds nobody's edit. A folder that is not this worktree stays, unless it is empty.
pub(super) fn abandon(repository: &Repository, place: &Place<'_>) -> Result<bool> {
    let (folder, registration) = (folder_of(place), registration(repository, place.campaign));
    if other_user(&registration, &folder).is_some() {
        return Ok(false);
    }
    release(repository, place)?;
    let removed = Utf8PathBuf::from(format!("{folder}.removed"));
    remove_if_there(removed.as_std_path())?;
    if is_linked_to(&folder, &registration) {
        // First out of sight as a whole, as at the end of a campaign.
        fs::rename(&folder, &removed).map_err(|error| unusable("remove", &folder, &error))?;
    } else {
        let _ = fs::remove_dir(&folder);
    }
    if registration.is_dir() {
        remove_if_there(&registration)?;
    }
    remove_if_there(removed.as_std_path())?;
    Ok(true)
}

/// Whether a folder says of itself that it is the worktree of that registration.
fn is_linked_to(folder: &Utf8Path, registration: &Path) -> bool {
    let link = fs::read_to_string(folder.join(".git")).unwrap_or_default();
    let Some(named) = link.strip_prefix("gitdir: ") else { return false };
    let named = folder.as_std_path().join(named.trim_end()).canonicalize().ok();
    named.is_some() && named == registration.canonicalize().ok()
}

/// Removes locks that a dead process left on what is the campaign's own, and says which.
pub(super) fn release(repository: &Repository, place: &Place<'_>) -> Result<Vec<String>> {
    let mut locks = reference_locks(repository, place.campaign, place.branch);
    if place.mode == ExecutionMode::Worktree {
        locks.extend(own_locks(&registration(repository, place.campaign)));
    }
    remove_locks(locks)
}

/// The same, from inside the worktree: an agent that was ended in the middle of a `git add` leaves one, too.
pub(super) fn release_own(worktree: &Repository, campaign: &str, branch: Option<&str>) -> Result<Vec<String>> {
    let locks = reference_locks(worktree, campaign, branch).into_iter().chain(own_locks(worktree.path()));
    remove_locks(locks.collect())
}

fn own_locks(registration: &Path) -> Vec<PathBuf> {
    vec![registration.join("index.lock"), registration.join("HEAD.lock")]
}

/// Locks of the campaign's references. A branch that the user named may be used by others; its lock is theirs to judge.
fn reference_locks(repository: &Repository, campaign: &str, branch: Option<&str>) -> Vec<PathBuf> {
    let common = repository.commondir();
    let entries = fs::read_dir(common.join(references::ROOT).join(campaign)).into_iter().flatten().flatten();
    let mut locks: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    locks.retain(|path| path.extension().is_some_and(|extension| extension == "lock"));
    if branch.is_some_and(|branch| branch == format!("kopt/{campaign}")) {
        locks.push(common.join("refs/heads/kopt").join(format!("{campaign}.lock")));
    }
    locks
}

fn remove_locks(locks: Vec<PathBuf>) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for path in locks {
        if !is_of_the_dead(&path) {
            continue;
        }
        match fs::remove_file(&path) {
            Ok(()) => removed.push(format!("`{}` was left by a process that is gone; it was removed", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unusable("remove", &path, &error)),
        }
    }
    Ok(removed)
}

/// Waits until a lock is gone, which is the answer `false`, or has stood for as long as no living process holds one. Asked of
/// each right before it is removed: while one was waited for, another may have been let go and taken again.
fn is_of_the_dead(lock: &Path) -> bool {
    // By another clock a lock may be from the future: that one is watched, and what stays the same file has its age from here.
    let mut watched: Option<((u64, SystemTime), Instant)> = None;
    loop {
        let Ok(found) = lock.symlink_metadata() else { return false };
        let Ok(modified) = found.modified() else { return true };
        let same = (found.ino(), modified);
        let since = match watched {
            Some((seen, since)) if seen == same => since,
            _ => watched.insert((same, Instant::now())).1,
        };
        if modified.elapsed().unwrap_or_default().max(since.elapsed()) >= PATIENCE {
            return true;
        }
        sleep(PATIENCE / 20);
    }
}

impl Lineage {
    /// Removes the worktree at the end of a campaign. The branch and everything under the campaign's references stay; an
    /// unfinished edit is kept first. In place there is nothing to remove.
    ///
    /// # Errors
    /// When the user has locked the worktree, or it cannot be removed.
    pub fn remove_worktree(&self) -> Result<()> {
        if self.mode == ExecutionMode::InPlace {
            return Ok(());
        }
        let registration = self.repository.path();
        if registration.join("locked").exists() {
            return Err(Error::new(Exit::Locked, format!("the worktree `{}` is locked", self.folder))
                .hint(format!("`git worktree unlock '{}'`, or leave it there", self.folder)));
        }
        // Of a worktree that is gone nothing is left to keep.
        let removed = Utf8PathBuf::from(format!("{}.removed", self.folder));
        remove_if_there(removed.as_std_path())?;
        if self.folder.join(".git").exists() {
            let standing = self.tip_id()?.unwrap_or(self.base);
            let standing = self.commit(&standing.to_string())?;
            self.keep_edit(&standing)?;
            self.set_aside_what_git_cannot_keep(&standing)?;
            // First out of sight as a whole: a kill in between leaves no half of a worktree.
            fs::rename(&self.folder, &removed).map_err(|error| unusable("remove", &self.folder, &error))?;
        }
        remove_if_there(registration)?;
        remove_if_there(removed.as_std_path())
    }
}
