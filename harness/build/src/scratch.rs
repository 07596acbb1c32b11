//! Temporary folders in which something is made before it is moved to its place, and the removal of those that killed processes
//! have left.
//!
//! Who works in one holds a lock on a file in it. The number of a process would not do: containers that share a disk do not
//! share these, so that one would take another's process for gone, or its own for the one that left a folder behind. What is
//! locked is a file that is open for writing: on a disk of the network nothing else can be.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result};

use camino::{Utf8Path, Utf8PathBuf};

/// The file in a folder that is locked while somebody works there.
const HELD: &str = ".held";

/// The file beside the folders that is locked while one is made, or others are swept.
const GATE: &str = "scratch.lock";

/// A temporary folder, gone when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: Utf8PathBuf,
    // In this order: the folder goes first, while nobody else may take it for abandoned.
    _folder: tempfile::TempDir,
    _held: File,
}

impl Scratch {
    /// A new one in `parent`, whose name begins with `prefix`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(parent: &Utf8Path, prefix: &str) -> Result<Self> {
        let gate = gate(parent)?;
        // Between its making and its lock nobody may sweep. Where the disk has no locks, nobody does.
        let _ = gate.lock();
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let path =
            Utf8PathBuf::from_path_buf(folder.path().to_owned()).map_err(|_| Error::other("its path is no text"))?;
        let held = File::create(path.join(HELD))?;
        let _ = held.lock();
        Ok(Self { path, _folder: folder, _held: held })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }
}

/// Removes those in `parent` that nobody works in any more. What cannot be removed is left for the next one.
pub fn sweep(parent: &Utf8Path, prefix: &str) {
    let Ok(gate) = gate(parent) else { return };
    if gate.lock().is_err() {
        return;
    }
    for entry in
        parent.read_dir_utf8().into_iter().flatten().flatten().filter(|entry| entry.file_name().starts_with(prefix))
    {
        let abandoned = match OpenOptions::new().write(true).open(entry.path().join(HELD)) {
            Ok(held) => held.try_lock().is_ok(),
            // Without one its maker was killed before it could make it. Whatever else is wrong says nothing of who works there.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if abandoned {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn gate(parent: &Utf8Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(parent.join(GATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_somebody_works_in_is_not() {
        let ground = tempfile::tempdir().unwrap();
        let parent = Utf8Path::from_path(ground.path()).unwrap();
        let used = Scratch::new(parent, ".making-").unwrap();
        fs::write(used.path().join("half"), "done").unwrap();
        let (left, early, other) = (parent.join(".making-left"), parent.join(".making-early"), parent.join("made"));
        let unknown = parent.join(".making-unknown");
        for folder in [&left, &early, &other, &unknown] {
            fs::create_dir(folder).unwrap();
        }
        // A lock goes with its process; the file stays.
        fs::write(left.join(HELD), "").unwrap();
        // What cannot be opened may be held.
        fs::create_dir(unknown.join(HELD)).unwrap();
        sweep(parent, ".making-");
        assert!(!left.exists() && !early.exists() && other.exists() && unknown.exists());
        assert!(used.path().join("half").exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
        sweep(&parent.join("nowhere"), ".making-");
    }
}
