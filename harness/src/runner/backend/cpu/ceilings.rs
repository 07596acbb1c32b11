//! What one core can do at most: copy bandwidth out of memory, and the rate of fused multiply-adds. Best of several
//! runs, since noise only ever slows down; the memory is laid out as that of timed kernels is.

use std::time::Instant;

use super::super::Ceilings;
use super::flush::flush;
use crate::runner::memory::Shared;

/// Bytes read, and as many written, by one copy: beyond the second-level cache, short enough to repeat often.
const COPIED: usize = 32 << 20;

/// Copies until this much time has gone, and at least this often.
const COPY_SECONDS: f64 = 0.6;
const LEAST_COPIES: usize = 12;

pub(super) fn measure() -> std::io::Result<Ceilings> {
    Ok(Ceilings { copy_bytes_per_s: copy()?, fma_flops_per_s: Some(fma()) })
}

fn copy() -> std::io::Result<f64> {
    let (mut from, mut to) = (Shared::new(COPIED)?, Shared::new(COPIED)?);
    from.bytes_mut().fill(1);
    to.bytes_mut().fill(2);
    from.collapse();
    to.collapse();
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    let mut done = 0;
    while done < LEAST_COPIES || begun.elapsed().as_secs_f64() < COPY_SECONDS {
        flush(from.bytes_mut().as_mut_ptr(), COPIED);
        flush(to.bytes_mut().as_mut_ptr(), COPIED);
        let start = Instant::now();
        stream(from.bytes(), to.bytes_mut());
        best = best.min(start.elapsed().as_secs_f64());
        done += 1;
    }
    std::hint::black_box(to.bytes());
    Ok(2.0 * COPIED as f64 / best)
}

/// A copy with stores that bypass the caches where the machine has them: a plain store would first read its line.
#[cfg(target_arch = "x86_64")]
fn stream(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_sfence, _mm_stream_si128};
    #[target_feature(enable = "avx512f")]
    fn wide(from: &[u8], to: &mut [u8]) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
        for (source, target) in from.chunks_exact(64).zip(to.chunks_exact_mut(64)) {
            // SAFETY: both chunks are 64 bytes, and whole mappings are aligned to pages.
            unsafe { _mm512_stream_si512(target.as_mut_ptr().cast(), _mm512_loadu_si512(source.as_ptr().cast())) };
        }
    }
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is there.
        unsafe { wide(from, to) };
    } else {
        for (source, target) in from.chunks_exact(16).zip(to.chunks_exact_mut(16)) {
            // SAFETY: both chunks are 16 bytes, and whole mappings are aligned to pages; SSE2 is part of x86-64.
            unsafe { _mm_stream_si128(target.as_mut_ptr().cast::<__m128i>(), _mm_load_si128(source.as_ptr().cast())) };
        }
    }
    // SAFETY: a fence.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Independent chains: latency times throughput of the units we know (4 cycles, 2 a cycle) is 8; two more to spare.
const CHAINS: usize = 10;
const STEPS: usize = 20_000;

fn fma() -> f64 {
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    let mut lanes = 1;
    while begun.elapsed().as_secs_f64() < 0.3 {
        let start = Instant::now();
        lanes = chains();
        best = best.min(start.elapsed().as_secs_f64());
    }
    2.0 * (CHAINS * STEPS * lanes) as f64 / best
}

/// Runs the chains once; returns the lanes of a vector.
#[cfg(target_arch = "x86_64")]
fn chains() -> usize {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};
    #[target_feature(enable = "avx512f")]
    fn wide() {
        let (a, b) = (_mm512_set1_ps(std::hint::black_box(0.999)), _mm512_set1_ps(std::hint::black_box(0.001)));
        let mut sums = [a; CHAINS];
        for _ in 0..STEPS {
            sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(*sum, a, b));
        }
        std::hint::black_box(sums);
    }
    #[target_feature(enable = "avx2,fma")]
    fn narrow() {
        let (a, b) = (_mm256_set1_ps(std::hint::black_box(0.999)), _mm256_set1_ps(std::hint::black_box(0.001)));
        let mut sums = [a; CHAINS];
        for _ in 0..STEPS {
            sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(*sum, a, b));
        }
        std::hint::black_box(sums);
    }
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is there.
        unsafe { wide() };
        16
    } else if std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the features are there.
        unsafe { narrow() };
        8
    } else {
        portable_chains()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn chains() -> usize {
    portable_chains()
}

/// Four lanes that the compiler may put into one vector.
fn portable_chains() -> usize {
    let (a, b) = (std::hint::black_box(0.999f32), std::hint::black_box(0.001f32));
    let mut sums = [[a; 4]; CHAINS];
    for _ in 0..STEPS {
        for sum in sums.iter_mut().flatten() {
            *sum = sum.mul_add(a, b);
        }
    }
    std::hint::black_box(sums);
    4
}
