//! A queue of patches: files `*.patch` in the order of their names, each with the header of `kopt_schema::queue` and a
//! diff whose paths are relative to the crate. All of them are read when the queue is opened, so that a typo in the last
//! one is found before the first one is measured.

mod apply;
mod diff;

use std::fs;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use git2::Repository;
use kopt_schema::campaign::Proposal;
use kopt_schema::queue::PatchHeader;

use super::answer::{self, TEXT, TITLE, cleaned};
use super::{Answer, Brief, Outcome, Proposer};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::Interrupts;
use apply::Unapplied;
use diff::FileChange;

/// Larger than any patch that a person has read.
const LARGEST: u64 = 16 << 20;

/// Patches, of which each is proposed once.
#[derive(Debug)]
pub struct Patches {
    name: String,
    patches: Vec<Patch>,
}

#[derive(Debug)]
struct Patch {
    /// The file's name, by which it is known to have been tried.
    file: String,
    proposal: Proposal,
    changes: Vec<FileChange>,
}

impl Patches {
    /// Opens the queue in `folder`; people know it as `name`.
    ///
    /// # Errors
    /// When there is no patch, or any of them cannot be read; all that is wrong is told at once.
    pub fn new(folder: Utf8PathBuf, name: String) -> Result<Self> {
        let unreadable = |error: std::io::Error| {
            let wrong = Error::setup(format!("cannot read the patches of `{folder}`"));
            wrong.because(&error).hint("a queue is a folder of files `*.patch`")
        };
        let mut files = Vec::new();
        for entry in folder.read_dir_utf8().map_err(unreadable)? {
            files.push(entry.map_err(unreadable)?.into_path());
        }
        files.retain(|path| path.extension() == Some("patch"));
        files.sort();
        if files.is_empty() {
            return Err(
                Error::setup(format!("`{folder}` has no patches")).hint("a queue is a folder of files `*.patch`")
            );
        }
        Self::open(&files, name)
    }

    /// Opens a single patch.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn one(file: Utf8PathBuf, name: String) -> Result<Self> {
        if let Err(error) = fs::metadata(&file) {
            return Err(Error::setup(format!("cannot read the patch `{file}`")).because(&error));
        }
        Self::open(&[file], name)
    }

    fn open(files: &[Utf8PathBuf], name: String) -> Result<Self> {
        let (mut patches, mut wrong) = (Vec::new(), Vec::new());
        for file in files {
            match read(file) {
                Ok(patch) => patches.push(patch),
                Err(what) => wrong.push(format!("`{file}`: {what}")),
            }
        }
        match &wrong[..] {
            [] => Ok(Self { name, patches }),
            [one] => Err(hinted(Error::setup(format!("a patch cannot be used: {one}")))),
            [..] => {
                let heading = format!("{} patches cannot be used", wrong.len());
                Err(hinted(wrong.iter().fold(Error::setup(heading), |error, one| error.cause(one))))
            }
        }
    }
}

impl Proposer for Patches {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn propose(&mut self, _: &Context, _: &Interrupts, brief: &Brief<'_>) -> Result<Answer> {
        let started = Instant::now();
        let next = self.patches.iter().find(|patch| !brief.used.contains(&patch.file));
        let outcome = match next {
            None => Outcome::Nothing,
            Some(patch) => {
                let (top, inside) = place(brief.crate_folder)?;
                match apply::apply(&patch.changes, &top, &inside) {
                    Ok(()) => Outcome::Change(patch.proposal.clone()),
                    Err(Unapplied::Refused(refusal)) => Outcome::Failed {
                        reason: refusal.reason,
                        message: format!("{}: {}", patch.file, refusal.message),
                    },
                    Err(Unapplied::Failed(error)) => return Err(error),
                }
            }
        };
        let (seconds, source) = (started.elapsed().as_secs_f64(), next.map(|patch| patch.file.clone()));
        let said = next.map(|patch| patch.proposal.clone());
        Ok(Answer { outcome, usage: None, seconds, source, said, notes: Vec::new() })
    }

    fn has_more(&self, used: &[String]) -> bool {
        self.patches.iter().any(|patch| !used.contains(&patch.file))
    }

    fn can_retry(&self) -> bool {
        false
    }
}

/// The repository's folder, and the crate's in it.
fn place(crate_folder: &Utf8Path) -> Result<(Utf8PathBuf, Utf8PathBuf)> {
    let outside = || Error::setup(format!("`{crate_folder}` is not among the files of a git repository"));
    let repository = Repository::discover(crate_folder).map_err(|error| outside().because(&error))?;
    let top =
        repository.workdir().and_then(|top| Utf8PathBuf::from_path_buf(top.to_owned()).ok()).ok_or_else(outside)?;
    let real = |path: &Utf8Path| path.canonicalize_utf8().map_err(|error| outside().because(&error));
    let (top, folder) = (real(&top)?, real(crate_folder)?);
    let inside = folder.strip_prefix(&top).map_err(|_| outside())?.to_owned();
    Ok((top, inside))
}

/// One patch, or what is wrong with it.
fn read(path: &Utf8Path) -> Result<Patch, String> {
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_file() || facts.len() > LARGEST {
        return Err(format!("no plain file of at most {} MiB", LARGEST >> 20));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        format!("line {line} is not UTF-8")
    })?;
    // Content may end its lines in CR LF; where the patch's own lines do, somebody has converted the whole file.
    let own = ["Title:", "Hypothesis:", "diff --git ", "@@ -"];
    if text.split('\n').any(|line| line.ends_with('\r') && own.iter().any(|start| line.starts_with(start))) {
        return Err("its lines end in CR LF, and a diff is exact about ends of lines; store it with LF".to_owned());
    }
    let header = PatchHeader::parse(&text)?;
    let changes = diff::parse(&text)?;
    let file = path.file_name().unwrap_or(path.as_str()).to_owned();
    let proposal = Proposal {
        title: cleaned(&header.title, TITLE),
        hypothesis: cleaned(&header.hypothesis, TEXT),
        category: header.category.as_deref().map(answer::category).transpose()?,
        bucket: header.bucket.as_deref().map(answer::bucket).transpose()?,
        expected_gain: header.expected_gain.map(|text| cleaned(&text, TITLE)),
        different: None,
        next: None,
        source: Some(file.clone()),
    };
    Ok(Patch { file, proposal, changes })
}

fn hinted(error: Error) -> Error {
    error.hint("a patch is what `git format-patch --relative` writes; or it starts with `Title:` and `Hypothesis:` lines, and after an empty line comes what `git diff --relative` prints")
}

#[cfg(test)]
mod tests;
