//! The judge's executable: the bench of the base, built in a folder that is kept for it.
//!
//! Cargo tells the packages of a workspace apart by their paths inside it. Two exports of one workspace, built into
//! one target folder, are the same packages to it, and where the files of the second are older than what was built of
//! the first, it takes the first one's executable for fresh (tried: it does). A target folder for each revision would
//! build every dependency again. So there is one folder that switches between revisions as a checkout does: files that
//! differ are rewritten, and so are new to cargo; files that do not stay as they are, and need no new build.
//!
//! Whoever uses it holds a lock until the match is over. Two matches at a time would disturb each other anyway.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;

use super::judge::KEEPS_MEMORY;
use crate::build::{self, Place, Role};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Found;
use crate::process;
use crate::revision::{self, Export};
use crate::shell::{MIND, Shell};
use crate::workspace::Workspace;

/// A judge that can be started, while this is kept.
#[derive(Debug)]
pub struct Trusted {
    /// The executable.
    pub executable: Utf8PathBuf,
    _lock: File,
}

impl Trusted {
    /// Builds the judge of package `name` from the base's files. `folder` is where the tool keeps its own things,
    /// `user` the user's workspace, whose lock file serves where the base has none and git does not know the user's.
    ///
    /// # Errors
    /// When the files cannot be written, or the build fails.
    pub fn build(
        context: &Context,
        shell: &mut Shell,
        base: &Export,
        name: &str,
        folder: &Utf8Path,
        user: &Utf8Path,
    ) -> Result<Self> {
        let mut all = Self::build_all(context, shell, base, &[name], folder, user)?;
        match all.executables.pop() {
            Some(executable) => Ok(Self { executable, _lock: all.lock }),
            None => Err(Error::new(Exit::BuildFailed, format!("cargo built no bench of `{name}`"))),
        }
    }

    /// Builds the judges of several packages by one call of cargo.
    ///
    /// # Errors
    /// As [`build`](Self::build); one that does not build fails all.
    pub fn build_all(
        context: &Context,
        shell: &mut Shell,
        base: &Export,
        names: &[&str],
        folder: &Utf8Path,
        user: &Utf8Path,
    ) -> Result<Several> {
        let lock = lock(shell, folder)?;
        let executables = Self::build_under(&lock, context, shell, base, names, folder, user)?;
        Ok(Several { executables, lock })
    }

    /// The same under a lock that is held already; the executables, in the order of their packages. They are the base's only
    /// as long as it is held.
    ///
    /// # Errors
    /// As [`build`](Self::build); one that does not build fails all.
    pub fn build_under(
        _lock: &File,
        context: &Context,
        shell: &mut Shell,
        base: &Export,
        names: &[&str],
        folder: &Utf8Path,
        user: &Utf8Path,
    ) -> Result<Vec<Utf8PathBuf>> {
        let (root, has_lock) = settle(base, folder, user)?;
        let workspace = Workspace::find(context, Some(&root.join("Cargo.toml")))?;
        let member = |name: &&str| {
            let found = workspace.member(name);
            found.ok_or_else(|| Error::new(Exit::NoKernel, format!("the base has no package `{name}`")))
        };
        let members = names.iter().map(member).collect::<Result<Vec<_>>>()?;
        let found = Found::read(context, &workspace, &members);
        if found.kernels.len() != names.len() {
            found.complain(shell)?;
            return Err(Error::setup(format!("the manifest of `{}` is wrong in the base", names.join("` or `"))));
        }
        let target = folder.join("judge");
        let lean = lean(&root, names);
        let place = Place { target: Some(&target), locked: has_lock, arguments: &lean };
        let built = build::executables_in(context, shell.manner(), &workspace, &found.kernels, Role::Latency, place);
        note_end(folder)?;
        built
    }
}

/// Judges that can be started, while this is kept.
#[derive(Debug)]
pub struct Several {
    /// The executables, in the order in which their packages were named.
    pub executables: Vec<Utf8PathBuf>,
    lock: File,
}

/// Runs the crate's own tests as a person would, by `cargo test`, on the files of a version, in the judge's folder, where
/// everything but the crate itself is built already.
///
/// # Errors
/// [`Exit::Incorrect`] when a test fails, [`Exit::BuildFailed`] when the crate does not build.
pub fn plain_test(
    context: &Context,
    shell: &mut Shell,
    version: &Export,
    name: &str,
    folder: &Utf8Path,
    user: &Utf8Path,
) -> Result<()> {
    let _lock = lock(shell, folder)?;
    let (root, has_lock) = settle(version, folder, user)?;
    let cargo = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&context.cargo);
        process::withhold(&mut command, context);
        // One seed: the judge has run every trial of the same object with a secret one, and launches look again.
        command
            .current_dir(&root)
            .envs([KEEPS_MEMORY])
            .env("KOPT_SEEDS", "1")
            .env("KOPT_TRIALS", "few")
            .env("CARGO_TARGET_DIR", folder.join("judge"))
            .args(["test", "--profile", "bench", "--quiet"]);
        command.args(["--package", name, "--test", "correctness"]).args(lean(&root, &[name])).args(arguments);
        if has_lock {
            command.arg("--locked");
        }
        process::capture(command)
    };
    let said = |captured: &process::Captured| {
        let text = format!("{}\n{}", captured.stdout.trim_end(), captured.stderr.trim_end());
        let from = text.lines().count().saturating_sub(LAST_LINES);
        text.lines().skip(from).collect::<Vec<_>>().join("\n")
    };
    let built = cargo(&["--no-run"])?;
    note_end(folder)?;
    if !built.status.success() {
        return Err(Error::new(Exit::BuildFailed, format!("`cargo test` does not build `{name}`")).cause(said(&built)));
    }
    let tested = cargo(&[])?;
    match tested.status.success() {
        true => Ok(()),
        false => Err(Error::new(Exit::Incorrect, format!("`cargo test` of `{name}` fails")).cause(said(&tested))),
    }
}

/// How the judges of packages `names` are built.
fn lean(root: &Utf8Path, names: &[&str]) -> Vec<String> {
    build::lean(names, &fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default())
}

/// Lines of a program's output that an error carries.
const LAST_LINES: usize = 40;

/// Puts the files of a version into the judge's folder; the workspace's root there, and whether it has a lock file of its
/// own.
///
/// # Errors
/// When they cannot be written.
pub fn settle(version: &Export, folder: &Utf8Path, user: &Utf8Path) -> Result<(Utf8PathBuf, bool)> {
    let tree = folder.join("trusted");
    let inside = version.workspace.strip_prefix(&version.root).unwrap_or(Utf8Path::new(""));
    let (root, lock_file) = (tree.join(inside), version.workspace.join("Cargo.lock"));
    let has_lock = lock_file.exists();
    let failed = |error: io::Error| Error::new(Exit::Output, format!("cannot write files to `{tree}`")).because(&error);
    // One that a version brought must not outlast it: it says which code judges others.
    let (place, mark) = (root.join("Cargo.lock"), folder.join(UNLOCKED));
    let kept = (!has_lock && mark.exists()).then_some(place.as_std_path());
    if has_lock {
        remove(mark.as_std_path()).map_err(failed)?;
    }
    let at = SystemTime::now().max(last_end(folder));
    mirror(version.root.as_std_path(), tree.as_std_path(), kept, at).map_err(failed)?;
    if !has_lock {
        let lent = user.join("Cargo.lock");
        // Where git knows the user's, it is another version's, as a rule the one that is judged: cargo resolves anew.
        if !place.exists() && lent.exists() && !revision::is_tracked(&lent) {
            fs::copy(lent, place).map_err(failed)?;
        }
        File::create(mark).map_err(failed)?;
    }
    Ok((root, has_lock))
}

/// Is there while the lock file in the judge's folder is no version's own.
const UNLOCKED: &str = "judge.unlocked";

/// Takes the lock that keeps two matches apart, and says so when it has to wait.
///
/// # Errors
/// When there can be none.
pub fn lock(shell: &mut Shell, folder: &Utf8Path) -> Result<File> {
    let path = folder.join("judge.lock");
    let failed =
        |error: &dyn std::error::Error| Error::new(Exit::Output, format!("cannot lock `{path}`")).because(error);
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let file = File::create(&path).map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => shell.status("Blocking", MIND, "waiting for another comparison to end"),
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    file.lock().map_err(|error| failed(&error))?;
    Ok(file)
}

/// When the last build ended, by the clock as it was then.
fn last_end(folder: &Utf8Path) -> SystemTime {
    let noted = fs::metadata(folder.join(ENDED)).and_then(|facts| facts.modified());
    noted.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Notes that a build in the judge's folder ended.
///
/// # Errors
/// When that cannot be written.
pub fn note_end(folder: &Utf8Path) -> Result<()> {
    let path = folder.join(ENDED);
    // The clock may have been set back since an earlier one ended.
    let at = SystemTime::now().max(last_end(folder));
    File::create(&path)
        .and_then(|file| file.set_modified(at))
        .map_err(|error| Error::new(Exit::Output, format!("cannot write `{path}`")).because(&error))
}

/// Whose time is that of the last build's end.
const ENDED: &str = "judge.ended";

/// Makes `to` hold what `from` holds, and touches nothing that is right already. `kept` may stay though `from` has it
/// not. What is written is of the time `at`: not before the end of any build, also where the clock was set back since.
pub fn mirror(from: &Path, to: &Path, kept: Option<&Path>, at: SystemTime) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(facts) if facts.is_dir() => {}
        Ok(_) => fs::remove_file(to).and_then(|()| fs::create_dir(to))?,
        Err(_) => fs::create_dir_all(to)?,
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let gone = fs::symlink_metadata(from.join(entry.file_name())).is_err();
        match entry.file_type()?.is_dir() {
            _ if !gone || Some(entry.path().as_path()) == kept => {}
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            mirror(&source, &place, kept, at)?;
        } else if !is_same(&source, &place, kind.is_symlink())? {
            remove(&place)?;
            match kind.is_symlink() {
                true => std::os::unix::fs::symlink(fs::read_link(&source)?, &place)?,
                // Written anew and not copied with its time: it must be newer than whatever was built before.
                false => {
                    let mut file = File::create(&place)?;
                    file.write_all(&fs::read(&source)?)?;
                    file.set_modified(at)?;
                    fs::set_permissions(&place, fs::metadata(&source)?.permissions())?;
                }
            }
        }
    }
    Ok(())
}

fn is_same(source: &Path, place: &Path, link: bool) -> io::Result<bool> {
    let Ok(facts) = fs::symlink_metadata(place) else { return Ok(false) };
    if link {
        return Ok(facts.is_symlink() && fs::read_link(source)? == fs::read_link(place)?);
    }
    let wanted = fs::metadata(source)?;
    let alike = facts.is_file() && facts.len() == wanted.len() && facts.permissions() == wanted.permissions();
    Ok(alike && fs::read(source)? == fs::read(place)?)
}

fn remove(place: &Path) -> io::Result<()> {
    match fs::symlink_metadata(place) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_what_differs_is_written_and_what_is_gone_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        for (path, text) in [("same", "1"), ("a/changed", "new"), ("a/b/added", "3"), ("was-a-folder", "4")] {
            write(&from, path, text);
        }
        for (path, text) in [
            ("same", "1"),
            ("a/changed", "old"),
            ("gone/x", "5"),
            ("was-a-folder/y", "6"),
            ("Cargo.lock", "7"),
            ("z", "8"),
        ] {
            write(&to, path, text);
        }
        std::os::unix::fs::symlink("a/changed", from.join("link")).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(to.join("same")).unwrap().set_modified(long_ago).unwrap();
        File::open(from.join("a/changed")).unwrap().set_modified(long_ago).unwrap();
        mirror(&from, &to, Some(&to.join("Cargo.lock")), SystemTime::now()).unwrap();
        let read = |path: &str| fs::read_to_string(to.join(path)).unwrap();
        assert_eq!(
            ["same", "a/changed", "a/b/added", "was-a-folder", "link", "Cargo.lock"].map(read),
            ["1", "new", "3", "4", "new", "7"]
        );
        assert!(!to.join("gone").exists() && !to.join("z").exists());
        let modified = |path: &str| fs::metadata(to.join(path)).unwrap().modified().unwrap();
        assert_eq!(modified("same"), long_ago);
        assert!(modified("a/changed") > long_ago, "cargo must see that it changed");
        let before = modified("a/changed");
        mirror(&from, &to, None, SystemTime::now()).unwrap();
        assert_eq!(modified("a/changed"), before);
        assert!(!to.join("Cargo.lock").exists());
        // A build that ended later, by a clock that was set back since.
        let later = SystemTime::now() + Duration::from_secs(3600);
        write(&from, "a/changed", "newer");
        mirror(&from, &to, None, later).unwrap();
        assert!(modified("a/changed") >= later && modified("same") == long_ago);
    }

    #[test]
    fn what_is_settled_is_newer_than_the_last_build_whatever_the_clock_says() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(scratch.path()).unwrap();
        assert_eq!(last_end(folder), SystemTime::UNIX_EPOCH);
        note_end(folder).unwrap();
        let ended = SystemTime::now() + Duration::from_secs(3600);
        File::open(folder.join(ENDED)).unwrap().set_modified(ended).unwrap();
        let root = folder.join("version");
        let version = Export { workspace: root.clone(), root, left_out: Vec::new() };
        write(version.root.as_std_path(), "Cargo.toml", "");
        let (root, _) = settle(&version, folder, folder).unwrap();
        assert!(fs::metadata(root.join("Cargo.toml")).unwrap().modified().unwrap() >= ended);
    }

    #[test]
    fn a_version_without_a_lock_file_gets_none_of_another_version() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch = Utf8Path::from_path(scratch.path()).unwrap();
        let (folder, user) = (scratch.join("own"), scratch.join("user"));
        let version = |name: &str, lock: Option<&str>| {
            let root = scratch.join(name);
            write(root.as_std_path(), "Cargo.toml", "");
            lock.iter().for_each(|text| write(root.as_std_path(), "Cargo.lock", text));
            Export { workspace: root.clone(), root, left_out: Vec::new() }
        };
        let (base, head) = (version("base", None), version("head", Some("of the head")));
        write(user.as_std_path(), "Cargo.lock", "the user's");
        let repository = git2::Repository::init(&user).unwrap();
        let settled = |version: &Export| {
            let (root, has_lock) = settle(version, &folder, &user).unwrap();
            (fs::read_to_string(root.join("Cargo.lock")).ok(), has_lock)
        };
        // One that git does not know is the machine's own.
        assert_eq!(settled(&base), (Some("the user's".to_owned()), false));
        assert_eq!(settled(&head), (Some("of the head".to_owned()), true));
        let mut index = repository.index().unwrap();
        index.add_path(Path::new("Cargo.lock")).unwrap();
        index.write().unwrap();
        // Neither the one that the head left here nor the one that is checked out.
        assert_eq!(settled(&base), (None, false));
        // What cargo then resolved stays.
        write(folder.as_std_path(), "trusted/Cargo.lock", "resolved");
        assert_eq!(settled(&base), (Some("resolved".to_owned()), false));
    }
}
