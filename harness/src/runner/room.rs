//! Memory for trials that run side by side. A large one holds gigabytes, and a machine has many threads: where they would not fit
//! beside each other, they wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::kernel::{Case, Kernel};

/// Bytes that an element takes while a trial runs: the inputs as drawn, the memory of the call, what is expected in f64, and a copy
/// on its way to a device.
const PER_ELEMENT: u64 = 24;

/// Bytes that are taken to be free where the system does not tell. It tells of the whole machine, also where a container has less.
const UNKNOWN: u64 = 4 << 30;

/// What trials may hold together.
#[derive(Debug)]
pub(crate) struct Room {
    all: u64,
    free: Mutex<u64>,
    given_back: Condvar,
}

impl Room {
    /// Half of what the machine has free now.
    pub(crate) fn here() -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self::of(available(&text).unwrap_or(UNKNOWN) / 2)
    }

    fn of(all: u64) -> Self {
        Self { all, free: Mutex::new(all), given_back: Condvar::new() }
    }

    /// Waits until there are so many bytes. Who needs more than all waits until nobody else has any.
    pub(crate) fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.all);
        let free = self.free();
        let mut free = self.given_back.wait_while(free, |free| *free < bytes).unwrap_or_else(PoisonError::into_inner);
        *free -= bytes;
        Taken { room: self, bytes }
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.free() += self.bytes;
        self.room.given_back.notify_all();
    }
}

/// What a trial of this case holds.
pub(crate) fn needed(kernel: &dyn Kernel, entry: &str, case: &Case) -> u64 {
    kernel.buffers(entry, case).iter().map(|buffer| buffer.len as u64 * PER_ELEMENT).sum()
}

/// What `/proc/meminfo` says is free, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn nobody_has_more_than_there_is_and_everybody_comes_to_it() {
        let (room, held, done) = (Room::of(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [3, 4, 5, 6, 20, 1, 10, 2] {
                let (room, held, done) = (&room, &held, &done);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let taken = room.take(bytes);
                        let now = held.fetch_add(bytes.min(10), Ordering::SeqCst) + bytes.min(10);
                        assert!(now <= 10, "{now}");
                        std::thread::yield_now();
                        held.fetch_sub(bytes.min(10), Ordering::SeqCst);
                        drop(taken);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), *room.free()), (400, 10));
    }

    #[test]
    fn what_is_free_is_what_the_system_says() {
        assert_eq!(available("MemTotal:  16 kB\nMemAvailable:    1024 kB\n"), Some(1 << 20));
        assert_eq!(available("MemTotal:  16 kB\n"), None);
    }
}
