//! What the device can do at most: bytes that it copies, writes and reads a second, and products of its matrix units, where
//! it is known which of its instructions is the fastest. Whatever disturbs makes a run slower, so that of some the best
//! counts.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::super::{BackendError, Ceilings};
use super::clock::Clock;
use super::device::Device;
use super::driver::{Function, Geometry};
use super::memory::Buffer;
use super::table::{Table, at};

/// Bytes of each buffer: far more than any cache. Tests ask whether they are measured at all, by drivers that stand in, too.
const BYTES: usize = if cfg!(test) { 16 << 20 } else { 1 << 30 };

/// Runs of each kind.
const RUNS: usize = 12;

/// As in `matrix.cu`: threads of a block, and the operations of what a block multiplies in a round: two groups, sixteen
/// tiles, 64 x 128 x 16 products and as many sums.
const THREADS: u32 = 256;
const BLOCK_ROUND: u64 = 2 * 16 * 2 * 64 * 128 * 16;

/// More blocks than any device holds at once, so that hardly any of it idles at the end, and rounds of each: some
/// milliseconds.
const BLOCKS: u32 = 1 << 16;
const ROUNDS: u32 = 16;

/// Measures them.
pub(super) fn measure(device: &Arc<Device>) -> Result<Ceilings, BackendError> {
    let clock = Clock::new(device)?;
    let table = Table::on(device)?;
    let (one, other) = (Buffer::new(device, BYTES)?, Buffer::new(device, BYTES)?);
    let flag = Buffer::new(device, size_of::<u32>())?;
    for buffer in [&one, &other] {
        table.clear(buffer.address, buffer.len)?;
    }
    let rate = |bytes: usize, run: &dyn Fn() -> Result<(), BackendError>| best(&clock, bytes as f64, run);
    let copy = rate(2 * BYTES, &|| table.copy(other.address, one.address, BYTES))?;
    let write = rate(BYTES, &|| table.clear(other.address, BYTES))?;
    // Both are zeros: nothing is written.
    let read = rate(2 * BYTES, &|| table.same(one.address, other.address, BYTES, flag.address))?;
    Ok(Ceilings {
        copy_bytes_per_s: copy,
        read_bytes_per_s: Some(read.max(copy)),
        write_bytes_per_s: Some(write.max(copy)),
        fma_flops_per_s: products(device, &clock, flag.address)?,
    })
}

/// Operations of the matrix units a second, where there is a kernel that tells.
fn products(device: &Arc<Device>, clock: &Clock, sink: u64) -> Result<Option<f64>, BackendError> {
    let driver = device.driver;
    let Some(image) = driver.matrix(device.id)? else { return Ok(None) };
    // SAFETY: the image is whole, a text's zero byte included, and the driver copies what it needs.
    let module = unsafe { driver.module(image.as_ptr().cast()) }.map_err(|refused| refused.at("matrix"))?;
    let name = CString::new("multiply").map_err(|error| BackendError::Failed(error.to_string()))?;
    // SAFETY: the module is loaded, and stays so.
    let function: Function = unsafe { driver.function(module, name) }.map_err(|refused| refused.at("matrix"))?;
    let geometry = Geometry { grid: [BLOCKS, 1, 1], block: [THREADS, 1, 1], shared: 0 };
    let run = || {
        let mut parameters: [*mut c_void; 2] = [at(&sink), at(&ROUNDS)];
        // SAFETY: these are the kernel's parameters, in its order and of its types; `sink` is an allocation of a number.
        Ok(unsafe { driver.launch(function, &geometry, device.stream, &mut parameters) }?)
    };
    let operations = BLOCK_ROUND * u64::from(BLOCKS) * u64::from(ROUNDS);
    best(clock, operations as f64, &run).map(Some)
}

/// The best of some runs, in `amount` a second.
fn best(clock: &Clock, amount: f64, run: &dyn Fn() -> Result<(), BackendError>) -> Result<f64, BackendError> {
    let mut seconds = f64::INFINITY;
    for _ in 0..RUNS {
        seconds = seconds.min(clock.cold(1, |_| Ok(()), |_| run())?);
    }
    Ok(amount / seconds)
}
