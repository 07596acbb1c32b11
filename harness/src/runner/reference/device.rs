//! Products on the GPU, by the kernel of `product.cu`. The driver compiles the checked-in PTX when it is loaded, so that
//! a machine without nvcc builds and runs it.

#![allow(unsafe_code, reason = "the driver's interface")]

use std::ffi::{CString, c_void};
use std::sync::{Mutex, PoisonError};

use kopt_schema::manifest::Backend;

use super::super::backend::BackendError;
use super::super::backend::gpu::driver::{Function, Geometry};
use super::super::backend::gpu::memory::{self, Buffer};
use super::super::backend::gpu::table::Table;
use super::Multiplies;
use crate::product::Product;

pub(super) const PTX: &str = include_str!("product.ptx");

/// Threads of a block and elements of a tile's side, as in the kernel.
const THREADS: u32 = 256;
const TILE: usize = 64;

/// Blocks at most: loops go on from there.
const BLOCKS: usize = 1 << 20;

/// The kernel's parameter.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrices {
    pub left: u64,
    pub right: u64,
    pub values: u64,
    pub magnitudes: u64,
    pub rows: u64,
    pub inner: u64,
    pub cols: u64,
}

/// The first GPU, with the kernel loaded. One product at a time: a large one fills it, and takes gigabytes.
pub(super) struct Multiplier {
    table: Table,
    product: Function,
    turn: Mutex<()>,
}

// SAFETY: the function is a handle of the driver, which may be used from any thread that has made the context current;
// every use here does so first. The table is `Send` and `Sync` by itself.
unsafe impl Send for Multiplier {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Multiplier {}

impl Multiplier {
    /// Takes the first device and loads the kernel.
    pub(super) fn open() -> Result<Self, BackendError> {
        let table = Table::open(Backend::Cuda)?;
        let text = CString::new(PTX).map_err(|error| BackendError::Failed(format!("product.ptx: {error}")))?;
        table.device.here()?;
        let driver = table.device.driver;
        // SAFETY: the text ends with a zero byte, and the driver copies what it needs.
        let module = unsafe { driver.module(text.as_ptr().cast()) }?;
        // SAFETY: the module is loaded, and stays so.
        let product = unsafe { driver.function(module, c"product".to_owned()) }?;
        Ok(Self { table, product, turn: Mutex::new(()) })
    }

    fn run(&self, left: &[f32], right: &[f32], sizes: [usize; 3]) -> Result<Product, BackendError> {
        let [rows, inner, cols] = sizes;
        let device = &self.table.device;
        let (left, right) = (Buffer::with(device, bytes(left))?, Buffer::with(device, bytes(right))?);
        let len = rows * cols;
        let (values, magnitudes) = (Buffer::new(device, 8 * len)?, Buffer::new(device, 8 * len)?);
        let mut matrices = Matrices {
            left: left.address,
            right: right.address,
            values: values.address,
            magnitudes: magnitudes.address,
            rows: rows as u64,
            inner: inner as u64,
            cols: cols as u64,
        };
        let blocks = (rows.div_ceil(TILE) * cols.div_ceil(TILE)).min(BLOCKS);
        let mut parameters: [*mut c_void; 1] = [std::ptr::from_mut(&mut matrices).cast()];
        let grid = [u32::try_from(blocks).unwrap_or(1), 1, 1];
        let geometry = Geometry { grid, block: [THREADS, 1, 1], shared: 0 };
        // SAFETY: the kernel takes one struct of this layout, by value, and the driver copies it before it returns; the buffers
        // are as long as the sizes say, and live until the stream was waited for.
        unsafe { device.driver.launch(self.product, &geometry, device.stream, &mut parameters) }?;
        let mut product = Product { values: vec![0.0; len], magnitudes: vec![0.0; len] };
        memory::download(device, values.address, bytes_mut(&mut product.values))?;
        memory::download(device, magnitudes.address, bytes_mut(&mut product.magnitudes))?;
        Ok(product)
    }
}

impl Multiplies for Multiplier {
    fn multiply(&self, left: &[f32], right: &[f32], sizes: [usize; 3]) -> Result<Product, String> {
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.table.device.here().and_then(|()| self.run(left, right, sizes)).map_err(|error| error.to_string())
    }
}

fn bytes(values: &[f32]) -> &[u8] {
    // SAFETY: every byte of an f32 is a byte, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn bytes_mut(values: &mut [f64]) -> &mut [u8] {
    // SAFETY: as above, and any eight bytes are an f64.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
