//! Who times on a GPU has it alone among processes of this tool, a launch or a shape of a bench at a time. Kernels that are
//! only checked share it with each other, and never with one that is timed: campaigns beside each other, and tests, do not
//! disturb a measurement. Other programs can, which the statistics must bear.
//!
//! Everybody waits in one queue for the device: who times would never find it free if those who check could pass it by.
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

/// The right to use a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease(#[allow(dead_code, reason = "held for its lock")] Option<File>);

/// What a device is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Timing,
    Checking,
}

impl Lease {
    /// Waits for the right to time. Processors need none: every process of the machine shares them anyway.
    pub(crate) fn take(backend: Backend) -> Result<Self, String> {
        Self::for_use(backend, Use::Timing)
    }

    /// Waits until nobody times, and keeps those who want to from it. Where that cannot be had, nobody can time either.
    pub(crate) fn share(backend: Backend) -> Self {
        Self::for_use(backend, Use::Checking).unwrap_or(Self(None))
    }

    fn for_use(backend: Backend, purpose: Use) -> Result<Self, String> {
        if backend == Backend::Cpu {
            return Ok(Self(None));
        }
        Self::of(Utf8Path::new(PLACE), &environment::visible_devices(backend), purpose).map(|file| Self(Some(file)))
    }

    fn of(place: &Utf8Path, device: &str, purpose: Use) -> Result<File, String> {
        let name: String =
            device.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let path = |what: &str| place.join(format!("kopt-device-{name}.{what}"));
        let (queue, lock) = (path("queue"), path("lock"));
        let waiting = open(&queue)?;
        waiting.lock().map_err(|error| failed(&queue, &error))?;
        let file = open(&lock)?;
        match purpose {
            Use::Timing => file.lock(),
            Use::Checking => file.lock_shared(),
        }
        .map_err(|error| failed(&lock, &error))?;
        Ok(file)
    }
}

fn failed(path: &Utf8Path, error: &std::io::Error) -> String {
    format!("cannot lock `{path}`, which keeps others from this device while it is timed: {error}")
}

/// A file that everybody may lock.
fn open(path: &Utf8Path) -> Result<File, String> {
    // Somebody else's file can be locked, but not made again, where everybody may write.
    match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Ok(file) => {
            // For other users too. Who cannot have it so has it alone.
            let _ = file.set_permissions(Permissions::from_mode(0o666));
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
            file.map_err(|error| failed(path, &error))
        }
        Err(error) => Err(failed(path, &error)),
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
        let first = Lease::of(place, "cuda 0", Use::Timing).unwrap();
        let _other = Lease::of(place, "cuda 1", Use::Timing).unwrap();
        let again = File::open(place.join("kopt-device-cuda-0.lock")).unwrap();
        assert!(again.try_lock_shared().is_err());
        drop(first);
        assert!(again.try_lock().is_ok());
    }

    #[test]
    fn who_checks_shares_it_and_does_not_pass_one_by_who_waits_to_time() {
        let folder = tempfile::tempdir().unwrap();
        let place = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        let checks: Vec<File> = (0..2).map(|_| Lease::of(&place, "cuda 0", Use::Checking).unwrap()).collect();
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _timing = Lease::of(&place, "cuda 0", Use::Timing).unwrap();
                order.lock().unwrap().push("timed");
            });
            // Until it waits for the device, it is not at the head of the queue.
            let queue = File::open(place.join("kopt-device-cuda-0.queue")).unwrap();
            while queue.try_lock().is_ok() {
                queue.unlock().unwrap();
                std::thread::yield_now();
            }
            scope.spawn(|| {
                let _check = Lease::of(&place, "cuda 0", Use::Checking).unwrap();
                order.lock().unwrap().push("checked");
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(order.lock().unwrap().is_empty());
            drop(checks);
        });
        assert_eq!(order.into_inner().unwrap(), ["timed", "checked"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let error = Lease::of(Utf8Path::new("/nowhere/at/all"), "cuda 0", Use::Timing).unwrap_err();
        assert!(error.contains("kopt-device-cuda-0."), "{error}");
    }
}
