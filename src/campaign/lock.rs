//! One campaign at a time works on a kernel. The system releases the lock of a process that dies, however it dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::folder::Home;
use crate::error::{Error, Result};

/// Held while a campaign works.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Who holds a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process, and the campaign: as it wrote it.
    pub words: String,
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
    let failed = |error: &std::io::Error| Error::new(Exit::Output, format!("cannot lock `{path}`")).because(error);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut words = String::new();
            let _ = file.read_to_string(&mut words);
            return Err(Error::new(Exit::Locked, format!("another campaign works on `{kernel}`"))
                .cause(words.trim())
                .hint("`cargo kopt status` shows it, `cargo kopt stop` ends it after its round"));
        }
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    let words = format!("campaign {campaign}, process {}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(words.as_bytes()))
        .map_err(|error| failed(&error))?;
    Ok(Lock { _file: file })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_one_campaign_at_a_time_and_another_kernel_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { path: Utf8PathBuf::from_path_buf(folder.path().join(".kopt")).unwrap() };
        let held = take(&home, "softmax", "one").unwrap();
        let refused = take(&home, "softmax", "two").unwrap_err();
        assert_eq!(refused.exit(), Exit::Locked);
        assert!(refused.failure().causes[0].starts_with("campaign one, process "), "{refused:?}");
        assert!(holder(&home, "softmax").unwrap().words.contains("one"));
        let _other = take(&home, "matmul", "three").unwrap();
        drop(held);
        assert_eq!(holder(&home, "softmax"), None);
        // What a dead process left in the file does not matter.
        take(&home, "softmax", "two").unwrap();
    }
}
