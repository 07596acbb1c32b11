//! Who times on a GPU does so alone, whatever else of this tool runs on the machine: a launch or a shape of a bench at a time,
//! so that two campaigns on one device take turns. Kernels that are only checked do not wait: a device that others time on is
//! slower for them, and no number comes of it.
//!
//! The system gives back what a process held that died.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;

use camino::Utf8Path;
use kopt_schema::manifest::Backend;

use super::environment;

/// Where every user may write, whatever folder for temporary files each of them likes.
const PLACE: &str = "/tmp";

/// The right to time, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease(#[allow(dead_code, reason = "held for its lock")] Option<File>);

impl Lease {
    /// Waits for it. Processors need none: every process of the machine shares them anyway.
    pub(crate) fn take(backend: Backend) -> Result<Self, String> {
        if backend == Backend::Cpu {
            return Ok(Self(None));
        }
        Self::of(Utf8Path::new(PLACE), &environment::visible_devices(backend)).map(|file| Self(Some(file)))
    }

    fn of(place: &Utf8Path, device: &str) -> Result<File, String> {
        let name: String =
            device.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let path = place.join(format!("kopt-device-{name}.lock"));
        let failed = |error: std::io::Error| {
            format!("cannot lock `{path}`, which keeps others from timing on this device: {error}")
        };
        // Somebody else's file can be locked, but not made again, where everybody may write.
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)
            }
            opened => opened,
        };
        let file = file.map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it_and_other_devices_are_others() {
        let folder = tempfile::tempdir().unwrap();
        let place = Utf8Path::from_path(folder.path()).unwrap();
        let first = Lease::of(place, "cuda 0").unwrap();
        let _other = Lease::of(place, "cuda 1").unwrap();
        let again = File::open(place.join("kopt-device-cuda-0.lock")).unwrap();
        assert!(again.try_lock().is_err());
        drop(first);
        assert!(again.try_lock().is_ok());
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let error = Lease::of(Utf8Path::new("/nowhere/at/all"), "cuda 0").unwrap_err();
        assert!(error.contains("kopt-device-cuda-0.lock"), "{error}");
    }
}
