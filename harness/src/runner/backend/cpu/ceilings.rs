//! What one core can do at most: copy, read and write bandwidth of memory, and the rate of fused multiply-adds. Best of several
//! runs, since noise only ever slows down; the memory is laid out as that of timed kernels is.

use std::time::Instant;

use super::super::Ceilings;
use super::flush::flush;
use crate::runner::memory::Shared;

/// Bytes read or written by one run: beyond the second-level cache, short enough to repeat often.
const MOVED: usize = 32 << 20;

/// Each kind of run is repeated until this much time has gone, and at least this often.
const MOVING_SECONDS: f64 = 0.6;
const LEAST_RUNS: usize = 12;

pub(super) fn measure() -> std::io::Result<Ceilings> {
    let (mut from, mut to) = (Shared::new(MOVED)?, Shared::new(MOVED)?);
    from.bytes_mut().fill(1);
    to.bytes_mut().fill(2);
    let copied = best(&mut from, &mut to, &mut |from, to| stream(from.bytes(), to.bytes_mut()));
    // From one place and from several at a time, whichever is faster: kernels do both.
    let mut reading = |sum: fn(&[u8]) -> u64| {
        best(&mut from, &mut to, &mut |from, _| {
            std::hint::black_box(sum(from.bytes()));
        })
    };
    let read = reading(sum::<1>).min(reading(sum::<4>));
    let written = best(&mut from, &mut to, &mut |_, to| fill(to.bytes_mut()));
    Ok(Ceilings {
        copy_bytes_per_s: 2.0 * MOVED as f64 / copied,
        read_bytes_per_s: Some(MOVED as f64 / read),
        write_bytes_per_s: Some(MOVED as f64 / written),
        fma_flops_per_s: Some(fma()),
    })
}

/// Seconds of the best run, both ranges out of the caches before each.
fn best(from: &mut Shared, to: &mut Shared, run: &mut dyn FnMut(&Shared, &mut Shared)) -> f64 {
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    let mut done = 0;
    while done < LEAST_RUNS || begun.elapsed().as_secs_f64() < MOVING_SECONDS {
        flush(&from.bytes()[..MOVED]);
        flush(&to.bytes()[..MOVED]);
        let start = Instant::now();
        run(from, to);
        best = best.min(start.elapsed().as_secs_f64());
        done += 1;
    }
    std::hint::black_box(to.bytes());
    best
}

/// Reads every byte, `PLACES` parts side by side. Eight sums at a time keep more loads in flight than the memory can answer.
fn sum<const PLACES: usize>(bytes: &[u8]) -> u64 {
    let part = bytes.len() / PLACES;
    let parts: [&[[u8; 64]]; PLACES] = std::array::from_fn(|place| bytes[place * part..][..part].as_chunks::<64>().0);
    let mut sums = [0u64; 8];
    for index in 0..part / 64 {
        for part in parts {
            for (sum, word) in sums.iter_mut().zip(part[index].as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// Writes every byte, past the caches where the machine can.
#[cfg(target_arch = "x86_64")]
fn fill(to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_set1_epi8, _mm_sfence, _mm_stream_si128};
    #[target_feature(enable = "avx512f")]
    fn wide(to: &mut [u8]) {
        use std::arch::x86_64::{_mm512_set1_epi32, _mm512_stream_si512};
        for target in to.chunks_exact_mut(64) {
            // SAFETY: the chunk is 64 bytes, and whole mappings are aligned to pages.
            unsafe { _mm512_stream_si512(target.as_mut_ptr().cast(), _mm512_set1_epi32(3)) };
        }
    }
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature is there.
        unsafe { wide(to) };
    } else {
        for target in to.chunks_exact_mut(16) {
            // SAFETY: the chunk is 16 bytes, and whole mappings are aligned to pages; SSE2 is part of x86-64.
            unsafe { _mm_stream_si128(target.as_mut_ptr().cast::<__m128i>(), _mm_set1_epi8(3)) };
        }
    }
    // SAFETY: a fence.
    unsafe { _mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn fill(to: &mut [u8]) {
    to.fill(3);
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
