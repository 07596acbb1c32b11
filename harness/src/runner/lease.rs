//! Who times on a GPU takes turns with others of this tool who do, a launch or a shape of a bench at a time. Kernels that are
//! only checked take no turn: they can still disturb a launch, which the statistics must bear, as they must other programs.
//!
//! A device is known by what the driver was told to show: two who name it differently do not wait for each other. The system
//! gives back what a process held that died.

use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

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
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = match made {
            Ok(file) => {
                // For other users too. Who cannot have it so has it alone.
                let _ = file.set_permissions(Permissions::from_mode(0o666));
                file
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
                let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
                file.map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
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
