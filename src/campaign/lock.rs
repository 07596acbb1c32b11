//! One campaign at a time works on a kernel. The system releases the lock of a process that dies, however it dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::Target;
use kopt_schema::exit::Exit;

use super::folder::Home;
use crate::error::{Error, Result};

/// Held while a campaign works.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: Utf8PathBuf,
}

impl Lock {
    /// Writes down whose it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name(&mut self, campaign: &str) -> Result<()> {
        let words = format!("{START}{campaign}{MIDDLE}{}\n", std::process::id());
        // Never empty in between: others read it meanwhile.
        self.file
            .rewind()
            .and_then(|()| self.file.write_all(words.as_bytes()))
            .and_then(|()| self.file.set_len(words.len() as u64))
            .map_err(|error| failed(&self.path, &error))
    }
}

/// Before the campaign's name, in the words of who holds a lock.
const START: &str = "campaign ";
/// Between that name, which has no comma in it, and the number of the process.
const MIDDLE: &str = ", process ";

/// Who holds a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process, and the campaign: as it wrote it.
    pub words: String,
}

impl Holder {
    /// Whether it works on that campaign, and not on one whose name only begins so.
    #[must_use]
    pub fn is_of(&self, campaign: &str) -> bool {
        let rest = self.words.strip_prefix(START).and_then(|rest| rest.strip_prefix(campaign));
        rest.is_some_and(|rest| rest.starts_with(MIDDLE))
    }
}

fn path(home: &Home, kernel: &str) -> Utf8PathBuf {
    home.path.join("campaigns").join(format!("{kernel}.lock"))
}

/// Takes the lock of `kernel` for `campaign`.
///
/// # Errors
/// When another process holds it, with its own words for who it is.
pub fn take(home: &Home, kernel: &str, campaign: &str) -> Result<Lock> {
    home.make()?;
    let path = path(home, kernel);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| failed(&path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut words = String::new();
            let _ = file.read_to_string(&mut words);
            return Err(Error::new(Exit::Locked, format!("another campaign works on `{kernel}`"))
                .cause(words.trim())
                .hint("`cargo kopt status` shows it, `cargo kopt stop` ends it after its round"));
        }
        Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
    }
    let mut lock = Lock { file, path };
    lock.name(campaign)?;
    Ok(lock)
}

fn failed(path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot lock `{path}`")).because(error)
}

/// Who holds the lock of `kernel`, if somebody does.
#[must_use]
pub fn holder(home: &Home, kernel: &str) -> Option<Holder> {
    let path = path(home, kernel);
    let file = File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            Some(Holder { words: fs::read_to_string(&path).unwrap_or_default().trim().to_owned() })
        }
        _ => None,
    }
}

/// Whether a process works on that campaign now.
#[must_use]
pub fn is_at_work(home: &Home, target: &Target) -> bool {
    holder(home, &target.kernel).is_some_and(|holder| holder.is_of(&target.campaign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_one_campaign_at_a_time_and_another_kernel_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { path: Utf8PathBuf::from_path_buf(folder.path().join(".kopt")).unwrap() };
        let mut held = take(&home, "softmax", "one").unwrap();
        let refused = take(&home, "softmax", "two").unwrap_err();
        assert_eq!(refused.exit(), Exit::Locked);
        assert!(refused.failure().causes[0].starts_with("campaign one, process "), "{refused:?}");
        assert!(holder(&home, "softmax").unwrap().is_of("one"));
        held.name("one-2").unwrap();
        let found = holder(&home, "softmax").unwrap();
        assert!(found.is_of("one-2") && !found.is_of("one") && !found.is_of("one-22"), "{found:?}");
        let _other = take(&home, "matmul", "three").unwrap();
        drop(held);
        assert_eq!(holder(&home, "softmax"), None);
        // What a dead process left in the file does not matter.
        take(&home, "softmax", "two").unwrap();
    }
}
