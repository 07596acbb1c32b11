//! Where campaigns are kept: `.kopt/campaigns/<name>/` in the workspace, a folder each. It ignores itself for git.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::lineage::own_folder;
use crate::replacement::{Replacement, folder_of};

/// `.kopt` of a workspace.
#[derive(Debug, Clone)]
pub struct Home {
    /// The folder.
    pub path: Utf8PathBuf,
}

/// The folder of one campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder.
    pub path: Utf8PathBuf,
    /// The campaign's name.
    pub name: String,
}

impl Home {
    /// That of the workspace in `root`.
    #[must_use]
    pub fn of(root: &Utf8Path) -> Self {
        Self { path: root.join(".kopt") }
    }

    /// Makes it, with a file that keeps it out of `git status`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn make(&self) -> Result<()> {
        own_folder(self.path.parent().unwrap_or(&self.path))?;
        fs::create_dir_all(self.path.join("campaigns")).map_err(|error| cannot_write(&self.path, &error))
    }

    /// The folder of a campaign, whether it exists or not.
    #[must_use]
    pub fn campaign(&self, name: &str) -> Folder {
        Folder { path: self.path.join("campaigns").join(name), name: name.to_owned() }
    }

    /// Every campaign, by when it was made; those without a readable target are left out.
    #[must_use]
    pub fn campaigns(&self) -> Vec<(Folder, Target)> {
        self.folders(Folder::has_begun)
    }

    /// Those that never began: whoever made them was killed before the first event, or is about to write it.
    #[must_use]
    pub fn unbegun(&self) -> Vec<(Folder, Target)> {
        self.folders(|folder| !folder.has_begun())
    }

    fn folders(&self, wanted: impl Fn(&Folder) -> bool) -> Vec<(Folder, Target)> {
        let entries = fs::read_dir(self.path.join("campaigns")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<(Folder, Target)> = names
            .map(|name| self.campaign(&name))
            .filter(wanted)
            .filter_map(|folder| folder.target().ok().map(|target| (folder, target)))
            .collect();
        found.sort_by(|a, b| (&a.1.created, &a.0.name).cmp(&(&b.1.created, &b.0.name)));
        found
    }

    /// What is wrong with the target of a campaign whose name begins so, where one cannot be read.
    #[must_use]
    pub fn unreadable(&self, name: Option<&str>) -> Option<Error> {
        let entries = fs::read_dir(self.path.join("campaigns")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|found| name.is_none_or(|name| found.starts_with(name)));
        names.sort();
        let begun = names.iter().map(|name| self.campaign(name)).filter(Folder::has_begun);
        begun.rev().find_map(|folder| folder.target().err())
    }

    /// Whether the worktree of a campaign is gone; while it is not, one that is over was killed before it had tidied up.
    #[must_use]
    pub fn is_tidy(&self, campaign: &str) -> bool {
        let worktree = self.worktree(campaign);
        !worktree.exists() && !Utf8PathBuf::from(format!("{worktree}.removed")).exists()
    }

    /// The campaign in whose worktree `folder` is, and the workspace that it is of.
    #[must_use]
    pub fn around(folder: &Utf8Path) -> Option<(Utf8PathBuf, String)> {
        folder.ancestors().find_map(|worktree| {
            let (name, root) = (worktree.file_name()?, worktree.ancestors().nth(3)?);
            let home = Self::of(root);
            (home.worktree(name) == worktree && home.campaign(name).manifest().exists())
                .then(|| (root.to_owned(), name.to_owned()))
        })
    }

    /// The worktree of a campaign.
    #[must_use]
    pub fn worktree(&self, campaign: &str) -> Utf8PathBuf {
        self.path.join("worktrees").join(campaign)
    }
}

impl Folder {
    /// Whether there was ever an event: a process that was killed before it had written the first one leaves a folder with a
    /// target.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let has_line = || fs::read(self.events()).is_ok_and(|events| events.contains(&b'\n'));
        self.path.join("rounds").exists() || has_line()
    }

    /// `manifest.toml`.
    #[must_use]
    pub fn manifest(&self) -> Utf8PathBuf {
        self.path.join("manifest.toml")
    }

    /// `events.jsonl`.
    #[must_use]
    pub fn events(&self) -> Utf8PathBuf {
        self.path.join("events.jsonl")
    }

    /// Stands there when somebody has asked for the end.
    #[must_use]
    pub fn stop(&self) -> Utf8PathBuf {
        self.path.join("stop")
    }

    /// The folder of a round.
    #[must_use]
    pub fn round(&self, round: u32) -> Utf8PathBuf {
        self.path.join("rounds").join(format!("round-{round}"))
    }

    /// `report.md` and `report.json`.
    #[must_use]
    pub fn report(&self) -> [Utf8PathBuf; 2] {
        [self.path.join("report.md"), self.path.join("report.json")]
    }

    /// `logs/<name>`.
    #[must_use]
    pub fn log(&self, name: &str) -> Utf8PathBuf {
        self.path.join("logs").join(name)
    }

    /// The target as it was confirmed.
    ///
    /// # Errors
    /// When the file is missing, wrong, or of a newer format.
    pub fn target(&self) -> Result<Target> {
        let path = self.manifest();
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::setup(format!("cannot read the target `{path}`")).because(&error))?;
        read_target(path.as_str(), &text)
    }

    /// Writes the target; returns the digest of the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_target(&self, target: &Target) -> Result<String> {
        let text = toml::to_string_pretty(target)
            .map_err(|error| Error::new(Exit::Internal, "cannot write the target as TOML").because(&error))?;
        let head = "# The target of this campaign, as it was confirmed. Events name its digest: do not edit.\n\n";
        let text = format!("{head}{text}");
        write(&self.manifest(), text.as_bytes())?;
        Ok(digest(text.as_bytes()))
    }
}

/// A target from a file's text.
///
/// # Errors
/// When it is no target, or of a newer format.
pub fn read_target(shown: &str, text: &str) -> Result<Target> {
    let value: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::setup(format!("`{shown}` is not TOML")).because(&error))?;
    let format = value.get("format").and_then(toml::Value::as_integer).unwrap_or(0);
    if format > i64::from(FORMAT_VERSION) {
        return Err(Error::setup(format!("`{shown}` has format {format}; this version knows up to {FORMAT_VERSION}"))
            .hint("a newer cargo kopt has written it: update this one"));
    }
    toml::from_str(text).map_err(|error| Error::setup(format!("`{shown}` is no target of a campaign")).because(&error))
}

/// Writes a file in one step, and its folder where it is missing: a reader sees all of it or what was there before.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: &std::io::Error| cannot_write(path, error);
    fs::create_dir_all(folder_of(path)).map_err(|error| failed(&error))?;
    Replacement::shared(path).synced().write(bytes).map_err(|error| failed(&error))
}

/// SHA-256, in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cannot_write(path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot write `{path}`"))
        .because(error)
        .hint("nothing that was recorded is lost: make room or put the permissions right, then `cargo kopt resume`")
}
