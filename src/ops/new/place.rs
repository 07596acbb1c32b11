//! Where the new crate goes, and the way there that can be taken back.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;
use toml_edit::DocumentMut;

use super::Request;
use super::members::{self, Standing};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::replacement::Replacement;
use crate::workspace::Workspace;

/// A file of the new crate: path in it, and text.
pub type NewFile = (Utf8PathBuf, String);

/// Where a crate goes.
#[derive(Debug)]
pub struct Place {
    /// The crate's folder: empty, or not there yet.
    pub folder: Utf8PathBuf,
    /// The workspace it will belong to, where cargo can say.
    pub workspace: Option<Workspace>,
    /// It is the root of its own workspace, with a lock file, a target folder and profiles of its own.
    pub is_root: bool,
    /// The workspace's manifest, and its text with the new member, where it has to be entered.
    entry: Option<(Utf8PathBuf, String)>,
}

impl Place {
    /// Finds the place and makes sure that it is free.
    ///
    /// # Errors
    /// When it is taken, or the workspace around it cannot be read.
    pub fn find(context: &Context, request: &Request) -> Result<Self> {
        let named = Utf8Path::new(&request.name);
        let folder = context.absolute(request.path.as_deref().unwrap_or(named));
        must_be_free(context, &folder)?;
        let around = folder.parent().and_then(kopt_build::manifest::workspace_root);
        let Some(root) = around else { return Ok(Self { folder, workspace: None, is_root: true, entry: None }) };
        let manifest = root.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| cannot("read", &manifest, &error))?;
        let mut document: DocumentMut = text.parse().map_err(|error| {
            Error::setup(format!("`{manifest}` is no TOML")).because(&error as &toml_edit::TomlError)
        })?;
        let inside = folder.strip_prefix(&root).unwrap_or(&folder).to_owned();
        let entry = match members::standing(&document, &inside) {
            Standing::Excluded => return Ok(Self { folder, workspace: None, is_root: true, entry: None }),
            Standing::Member => None,
            Standing::Unmentioned => {
                members::add(&mut document, &inside)
                    .ok_or_else(|| Error::setup(format!("`{manifest}`: `workspace.members` is no list")))?;
                // Lines come back with plain ends.
                let new = document.to_string();
                let new = if text.contains("\r\n") { new.replace('\n', "\r\n") } else { new };
                Some((manifest.clone(), new))
            }
        };
        // Cargo refuses a workspace whose globs match nothing yet: the new crate may be what it waits for. A workspace
        // that is wrong in another way is still refused once the crate is there, and the crate taken back.
        let workspace = Workspace::find(context, Some(&manifest)).ok();
        if workspace.as_ref().is_some_and(|workspace| workspace.member(&request.name).is_some()) {
            return Err(Error::setup(format!("`{root}` has a package named `{}` already", request.name)));
        }
        Ok(Self { folder, workspace, is_root: false, entry })
    }

    /// The workspace manifest that gains a member.
    pub fn joins(&self) -> Option<&Utf8Path> {
        self.entry.as_ref().map(|(manifest, _)| manifest.as_path())
    }

    /// Puts the files there, all or none, and enters the crate in its workspace.
    ///
    /// # Errors
    /// When a file cannot be written; then everything is as it was.
    pub fn make(&self, files: &[NewFile]) -> Result<Made> {
        let existing = self.folder.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Utf8Path::new("/"));
        let staging = tempfile::Builder::new()
            .prefix(".cargo-kopt-new-")
            .tempdir_in(existing)
            .map_err(|error| cannot("write to", existing, &error))?;
        // A folder inside the private one gets the usual permissions.
        let whole = Utf8PathBuf::try_from(staging.path().join("crate"))
            .map_err(|error| Error::setup("a folder's name is not UTF-8").because(&error))?;
        for (path, text) in files {
            let file = whole.join(path);
            let parent = file.parent().unwrap_or(&whole);
            fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
            fs::write(&file, text).map_err(|error| cannot("write", &file, &error))?;
        }
        let mut made = Made::before(&self.folder);
        let parent = self.folder.parent().unwrap_or(existing);
        fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
        if made.was_there {
            // Somebody may stand in it: it stays, and gets what is in the other.
            made.moved = true;
            empty(&whole, Some(&self.folder)).map_err(|error| cannot("write to", &self.folder, &error))?;
        } else {
            fs::rename(&whole, &self.folder).map_err(|error| cannot("create", &self.folder, &error))?;
            made.moved = true;
        }
        if let Some((manifest, text)) = &self.entry {
            let before = fs::read_to_string(manifest).map_err(|error| cannot("read", manifest, &error))?;
            replace(manifest, text)?;
            made.replaced = Some((manifest.clone(), before));
        }
        Ok(made)
    }
}

/// What has been done, taken back when dropped unless it is kept.
#[derive(Debug)]
pub struct Made {
    folder: Utf8PathBuf,
    /// The folder was there, and empty.
    was_there: bool,
    moved: bool,
    /// The outermost folder that did not exist.
    created: Option<Utf8PathBuf>,
    replaced: Option<(Utf8PathBuf, String)>,
    kept: bool,
}

impl Made {
    fn before(folder: &Utf8Path) -> Self {
        let created = folder.ancestors().skip(1).take_while(|parent| !parent.exists()).last();
        Self {
            folder: folder.to_owned(),
            was_there: folder.exists(),
            moved: false,
            created: created.map(Utf8Path::to_owned),
            replaced: None,
            kept: false,
        }
    }

    /// All went well.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Already on the way out with an error: what cannot be taken back is what that error is about.
        if self.moved {
            let _ = if self.was_there { empty(&self.folder, None) } else { fs::remove_dir_all(&self.folder) };
        }
        if let Some(created) = &self.created {
            let _ = fs::remove_dir_all(created);
        }
        if let Some((manifest, before)) = &self.replaced {
            let _ = replace(manifest, before);
        }
    }
}

/// Moves everything in a folder to another one, or removes it.
fn empty(folder: &Utf8Path, to: Option<&Utf8Path>) -> std::io::Result<()> {
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        match to {
            Some(to) => fs::rename(entry.path(), to.join(entry.file_name()))?,
            None if entry.file_type()?.is_dir() => fs::remove_dir_all(entry.path())?,
            None => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn must_be_free(context: &Context, folder: &Utf8Path) -> Result<()> {
    let taken = match fs::symlink_metadata(folder) {
        Err(_) => false,
        Ok(found) if found.is_dir() => fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some()),
        Ok(_) => true,
    };
    if !taken {
        return Ok(());
    }
    Err(Error::setup(format!("`{}` exists already", context.shown(folder)))
        .hint("choose another name, or another folder with --path; nothing was touched"))
}

/// Replaces a manifest in one step, so that no half of it can ever be read.
fn replace(file: &Utf8Path, text: &str) -> Result<()> {
    // Through a link to the file itself, which a rename would otherwise replace.
    let file = file.canonicalize_utf8().unwrap_or_else(|_| file.to_owned());
    Replacement::alike(&file).write(text.as_bytes()).map_err(|error| cannot("write", &file, &error))
}

fn cannot(what: &str, path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Setup, format!("cannot {what} `{path}`")).because(error)
}
