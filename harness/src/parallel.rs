//! Work that falls into parts, on all processors: drawing and evaluating a large case, or putting its memory in order,
//! takes seconds on one.

use std::sync::{Mutex, PoisonError};

#[cfg(feature = "runner")]
pub(crate) use bytes::{all, copy, equal};

/// Elements of a part.
pub(crate) const PART: usize = 1 << 20;

/// Does `work` on every part.
pub(crate) fn each<T: Send>(parts: impl ExactSizeIterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    if parts.len() <= 1 {
        return parts.for_each(work);
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(parts.len());
    let parts = Mutex::new(parts);
    on_threads(threads, &|| {
        let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(part) = next() {
            work(part);
        }
    });
}

/// Does `work` on so many threads at once. Apart, because what starts a thread is much code, and would be there for every work.
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

/// What only a judge does.
#[cfg(feature = "runner")]
mod bytes {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::each;

    /// Bytes of a part when bytes are moved; fewer are not worth a thread.
    pub(super) const BYTES: usize = 2 << 20;

    /// Copies bytes between slices of equal length.
    pub(crate) fn copy(from: &[u8], into: &mut [u8]) {
        each(into.chunks_mut(BYTES).zip(from.chunks(BYTES)), |(into, from)| into.copy_from_slice(from));
    }

    /// Whether slices of equal length hold the same bytes.
    pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
        all(one.chunks(BYTES).zip(other.chunks(BYTES)), |(one, other)| one == other)
    }

    /// Whether something holds for every part.
    pub(crate) fn all<T: Send>(
        parts: impl ExactSizeIterator<Item = T> + Send,
        holds: impl Fn(T) -> bool + Sync,
    ) -> bool {
        let all = AtomicBool::new(true);
        each(parts, |part| {
            if !holds(part) {
                all.store(false, Relaxed);
            }
        });
        all.into_inner()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_part_is_worked_on_once() {
        let mut numbers = vec![0; 1000];
        super::each(numbers.chunks_mut(7).enumerate(), |(part, chunk)| {
            chunk.iter_mut().for_each(|one| *one += part + 1)
        });
        assert!(numbers.iter().enumerate().all(|(index, number)| *number == index / 7 + 1));
    }

    #[cfg(feature = "runner")]
    #[test]
    fn bytes_are_copied_and_compared_to_the_last() {
        for len in [0, 1, super::bytes::BYTES, 3 * super::bytes::BYTES + 5] {
            let from: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut into = vec![0; len];
            super::copy(&from, &mut into);
            assert_eq!(from, into);
            assert!(super::equal(&from, &into));
            for at in [0, len / 2, len.wrapping_sub(1)].into_iter().filter(|at| *at < len) {
                into[at] ^= 1;
                assert!(!super::equal(&from, &into), "byte {at} of {len}");
                into[at] ^= 1;
            }
        }
    }
}
