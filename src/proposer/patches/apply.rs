//! A patch applied to the files of a worktree: exactly, or not at all.
//!
//! libgit2 can apply a diff too. It takes the index's lock, stores blobs, sends what it writes through the user's filters
//! (`core.autocrlf` changes the bytes that were proposed), and says of a hunk only that it did not apply. What is needed
//! is less: lines that stand where the patch says they stand, or at one other place, are replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::event::Reason;
use kopt_schema::exit::Exit;
use rustix::io::Errno;

use super::diff::{FileChange, Hunk};
use crate::error::Error;

/// Why nothing was changed.
#[derive(Debug, Clone)]
pub enum Unapplied {
    /// The patch does not fit, or may not do what it does.
    Refused(Refusal),
    /// The machine could not do it: that is no fault of the patch.
    Failed(Error),
}

impl From<Refusal> for Unapplied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What is wrong with a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

/// A file as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    text: String,
    executable: bool,
}

/// Files by their path in the repository; none where there is no such file.
type Files = BTreeMap<Utf8PathBuf, Option<Content>>;

/// Applies `changes`, whose paths are relative to the folder `inside` of the repository in `top`.
///
/// # Errors
/// When they do not fit. Then no file has changed. When the machine cannot write them: then some may have.
pub fn apply(changes: &[FileChange], top: &Utf8Path, inside: &Utf8Path) -> Result<(), Unapplied> {
    let (mut before, mut after) = (Files::new(), Files::new());
    for change in changes {
        let place = |path: &Option<Utf8PathBuf>| path.as_ref().map(|path| placed(top, inside, path)).transpose();
        let (old, new) = (place(&change.old)?, place(&change.new)?);
        for path in [&old, &new].into_iter().flatten() {
            if !before.contains_key(path) {
                let found = load(top, path)?;
                after.insert(path.clone(), found.clone());
                before.insert(path.clone(), found);
            }
        }
        one(change, old.as_deref(), new.as_deref(), &mut after)?;
    }
    after.retain(|path, content| before.get(path) != Some(content));
    for (path, content) in &after {
        if let Err(error) = store(top, path, content.as_ref()) {
            // As far as it got, put back; what cannot be put back the engine's own clean-up will.
            for path in after.keys() {
                let _ = store(top, path, before.get(path).and_then(Option::as_ref));
            }
            return Err(unapplied(path, "written", &error));
        }
    }
    Ok(())
}

/// One file's change, among the files as they are by then.
fn one(change: &FileChange, old: Option<&Utf8Path>, new: Option<&Utf8Path>, files: &mut Files) -> Result<(), Refusal> {
    let mut content = match old {
        None => Content { text: String::new(), executable: false },
        Some(path) => files.get(path).cloned().flatten().ok_or_else(|| {
            does_not_apply(format!("there is no file `{path}`; paths of a patch are relative to the crate"))
        })?,
    };
    if let Some(path) = new
        && old != Some(path)
        && files.get(path).is_some_and(Option::is_some)
    {
        return Err(does_not_apply(format!("`{path}` is there already")));
    }
    let shown = old.or(new).unwrap_or(Utf8Path::new(""));
    content.text = patched(&content.text, &change.hunks, shown)?;
    content.executable = change.executable.unwrap_or(content.executable);
    if let Some(path) = old
        && !change.copies
    {
        files.insert(path.to_owned(), None);
    }
    match new {
        Some(path) => drop(files.insert(path.to_owned(), Some(content))),
        None if content.text.is_empty() => {}
        None => return Err(does_not_apply(format!("`{shown}` has more lines than those that are removed with it"))),
    }
    Ok(())
}

/// The text with every hunk in place. A hunk goes where it says, moved as far as the one before it was; else to the one
/// other place that has its lines. Two such places would be a guess.
fn patched(text: &str, hunks: &[Hunk], path: &Utf8Path) -> Result<String, Refusal> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut out, mut next, mut moved) = (String::with_capacity(text.len()), 0, 0_isize);
    for (index, hunk) in hunks.iter().enumerate() {
        let wrong = |what: String| {
            does_not_apply(format!("hunk {} (line {} of the patch) of `{path}`: {what}", index + 1, hunk.at))
        };
        let said = hunk.start.saturating_sub(1);
        let expected = said.saturating_add_signed(moved);
        let at = match places(&lines, hunk, next, expected)[..] {
            [at] => at,
            [] if hunk.old.is_empty() => return Err(wrong("it has no lines to find its place by".to_owned())),
            [] if hunk.trailing == 0 => {
                return Err(wrong(
                    "its lines do not end the file, where a hunk belongs that has no line after its changes".to_owned(),
                ));
            }
            [] => return Err(wrong(format!("its lines are not at {} nor elsewhere", expected + 1))),
            [first, second, ..] => {
                let (first, second) = (first + 1, second + 1);
                return Err(wrong(format!("its lines are not at {}, but at {first} and {second}", expected + 1)));
            }
        };
        moved = at.cast_signed() - said.cast_signed();
        out.extend(lines[next..at].iter().copied());
        out.extend(hunk.new.iter().map(String::as_str));
        next = at + hunk.old.len();
        if next < lines.len() && hunk.new.last().is_some_and(|line| !line.ends_with('\n')) {
            return Err(wrong("it ends the file in the middle of it".to_owned()));
        }
    }
    out.extend(lines[next..].iter().copied());
    Ok(out)
}

/// Where a hunk can go, from line `from` on: where it is expected, or else everywhere that has its lines. As with git, a
/// hunk of the first line stays at the start of the file, and one without a line after its changes at the end.
fn places(lines: &[&str], hunk: &Hunk, from: usize, expected: usize) -> Vec<usize> {
    let length = hunk.old.len();
    let Some(last) = lines.len().checked_sub(length) else { return Vec::new() };
    let fits = |at: usize| {
        at >= from
            && at <= last
            && (hunk.start > 1 || at == 0)
            && (hunk.trailing > 0 || at == last)
            && lines[at..at + length].iter().eq(&hunk.old)
    };
    if hunk.old.is_empty() && !lines.is_empty() {
        return Vec::new();
    }
    if fits(expected) {
        return vec![expected];
    }
    (from..=last).filter(|at| fits(*at)).collect()
}

/// The path in the repository. What leads out of it, or into git's own files, is refused.
fn placed(top: &Utf8Path, inside: &Utf8Path, path: &Utf8Path) -> Result<Utf8PathBuf, Refusal> {
    let forbidden = |what: &str| Refusal { reason: Reason::Forbidden, message: format!("`{path}` {what}") };
    let mut whole = Utf8PathBuf::new();
    for part in inside.components().chain(path.components()) {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if whole.pop() => {}
            Utf8Component::Normal(name) if name.eq_ignore_ascii_case(".git") => {
                return Err(forbidden("belongs to git itself"));
            }
            Utf8Component::Normal(name) => whole.push(name),
            _ => return Err(forbidden("lies outside of the repository")),
        }
    }
    if whole.as_str().is_empty() {
        return Err(forbidden("is no file"));
    }
    let mut folder = top.to_owned();
    for part in whole.parent().unwrap_or(Utf8Path::new("")).components() {
        folder.push(part);
        if folder.is_symlink() {
            return Err(forbidden("goes through a symbolic link"));
        }
    }
    Ok(whole)
}

fn load(top: &Utf8Path, path: &Utf8Path) -> Result<Option<Content>, Unapplied> {
    let Ok(facts) = fs::symlink_metadata(top.join(path)) else { return Ok(None) };
    if !facts.is_file() {
        return Err(does_not_apply(format!("`{path}` is no plain file")).into());
    }
    let bytes = fs::read(top.join(path)).map_err(|error| unapplied(path, "read", &error))?;
    let text = String::from_utf8(bytes).map_err(|_| does_not_apply(format!("`{path}` is not UTF-8")))?;
    Ok(Some(Content { text, executable: facts.permissions().mode() & 0o100 != 0 }))
}

fn store(top: &Utf8Path, path: &Utf8Path, content: Option<&Content>) -> std::io::Result<()> {
    let whole = top.join(path);
    let Some(content) = content else {
        return match fs::remove_file(&whole) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    if let Some(folder) = whole.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&whole, &content.text)?;
    let mode = fs::metadata(&whole)?.permissions().mode();
    let wanted = if content.executable { mode | 0o111 } else { mode & !0o111 };
    if mode != wanted { fs::set_permissions(&whole, fs::Permissions::from_mode(wanted)) } else { Ok(()) }
}

fn does_not_apply(message: String) -> Refusal {
    Refusal { reason: Reason::DoesNotApply, message }
}

/// A file could not be read or written.
fn unapplied(path: &Utf8Path, how: &str, error: &std::io::Error) -> Unapplied {
    if is_of_the_machine(error) {
        return Unapplied::Failed(Error::new(Exit::Output, format!("`{path}` cannot be {how}")).because(error));
    }
    does_not_apply(format!("`{path}` cannot be {how}: {error}")).into()
}

/// Whether no patch could do better: a disk that is full or broken, or that nobody may write to.
pub fn is_of_the_machine(error: &std::io::Error) -> bool {
    let of_the_machine = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS, Errno::FBIG];
    Errno::from_io_error(error).is_some_and(|found| of_the_machine.contains(&found))
}
