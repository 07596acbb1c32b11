//! Work that falls into parts, on all processors: drawing and evaluating a large case takes seconds on one.

use std::sync::{Mutex, PoisonError};

/// Elements of a part.
pub(crate) const PART: usize = 1 << 20;

/// Does `work` on every part.
pub(crate) fn each<T: Send>(parts: impl ExactSizeIterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    if parts.len() <= 1 {
        return parts.for_each(work);
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(parts.len());
    let parts = Mutex::new(parts);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(part) = next() {
                    work(part);
                }
            });
        }
    });
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
}
