//! The judge's own kernels (`table.cu`), on a device that it shares with the contestants. They are compiled where they are
//! loaded, by CUDA's driver from the checked-in PTX and by HIP's compiler from the source, so that a machine without nvcc builds
//! and runs everything.
//!
//! Calls are queued on one stream; who needs an answer, or lets a contestant go on, waits for it.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use kopt_schema::{DType, manifest};

use super::super::BackendError;
use super::device::Device;
use super::driver::{Driver, Function, Geometry};

/// Where the kernels are, for errors.
const KERNELS: &str = "table";

const THREADS: u32 = 256;
/// Blocks at most: loops go on from there.
const BLOCKS: u64 = 4096;

/// Axes at most, as in the kernels.
const AXES: usize = 6;

/// A device with the judge's kernels.
#[derive(Debug)]
pub(crate) struct Table {
    pub device: Arc<Device>,
    deal: Function,
    check: Function,
    same: Function,
    pattern: Function,
    poison: Function,
}

// SAFETY: functions are handles of the driver; see `Device`.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// How a buffer's axes are turned, as the kernels take it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turned {
    rank: u32,
    extent: [u32; AXES],
    turn: [u32; AXES],
}

impl Turned {
    /// Of axes, outermost first: extent and turn.
    pub(crate) fn new(axes: &[(usize, usize)]) -> Result<Self, BackendError> {
        let len: usize = axes.iter().map(|(extent, _)| extent).product();
        if axes.len() > AXES || i32::try_from(len).is_err() {
            let limit = format!("at most {AXES} axes and {} elements", i32::MAX);
            return Err(BackendError::Failed(format!(
                "a buffer of axes {axes:?} cannot be dealt on a device: {limit}"
            )));
        }
        let mut turned = Self { rank: u32::try_from(axes.len()).unwrap_or(0), ..Self::default() };
        for (axis, (extent, turn)) in axes.iter().enumerate() {
            turned.extent[axis] = u32::try_from(*extent).unwrap_or(0);
            turned.turn[axis] = u32::try_from(*turn).unwrap_or(0);
        }
        Ok(turned)
    }

    fn len(&self) -> u32 {
        self.extent[..self.rank as usize].iter().product()
    }
}

impl Table {
    /// Takes the first device of a backend and loads the kernels.
    pub(crate) fn open(backend: manifest::Backend) -> Result<Self, BackendError> {
        Self::over(super::driver_of(backend)?)
    }

    /// The same over a driver.
    pub(crate) fn over(driver: &'static dyn Driver) -> Result<Self, BackendError> {
        Self::on(&Arc::new(Device::open(driver)?))
    }

    /// The same on a device that is open.
    pub(super) fn on(device: &Arc<Device>) -> Result<Self, BackendError> {
        let driver = device.driver;
        let image = driver.table()?;
        // SAFETY: the image is whole, a text's zero byte included, and the driver copies what it needs.
        let module = unsafe { driver.module(image.as_ptr().cast()) }.map_err(|refused| refused.at(KERNELS))?;
        let function = |name: &str| {
            let symbol = CString::new(name).map_err(|error| BackendError::Failed(error.to_string()))?;
            // SAFETY: the module is loaded, and stays so.
            let function = unsafe { driver.function(module, symbol) };
            Ok::<_, BackendError>(function.map_err(|refused| refused.at(KERNELS))?)
        };
        Ok(Self {
            deal: function("deal")?,
            check: function("check")?,
            same: function("same")?,
            pattern: function("pattern")?,
            poison: function("poison")?,
            device: Arc::clone(device),
        })
    }

    /// Queues the writing of a base under a symmetry; a factor is a power of two.
    pub(crate) fn deal(
        &self,
        to: u64,
        from: u64,
        turned: &Turned,
        dtype: DType,
        factor: Option<f64>,
    ) -> Result<(), BackendError> {
        let (len, kind, scaled) = (turned.len(), number(dtype), u32::from(factor.is_some()));
        let factor = factor.unwrap_or(1.0) as f32;
        let parameters = [at(&to), at(&from), at(&len), at(turned), at(&kind), at(&scaled), at(&factor)];
        // SAFETY: these are the kernel's parameters, in its order and of its types; the caller's ranges are as long as the axes
        // say.
        unsafe { self.launch("deal", self.deal, u64::from(len), parameters) }
    }

    /// Queues the comparison of an output with what is expected of it; `flag` is raised where it is not right.
    pub(crate) fn check(&self, output: &Output<'_>, flag: u64) -> Result<(), BackendError> {
        let Output { got, image, values, bounds, turned, dtype, factor } = output;
        let (len, kind, largest) = (turned.len(), number(*dtype), dtype.largest());
        let parameters = [
            at(got),
            at(image),
            at(values),
            at(bounds),
            at(&len),
            at(*turned),
            at(&kind),
            at(factor),
            at(&largest),
            at(&flag),
        ];
        // SAFETY: as above.
        unsafe { self.launch("check", self.check, u64::from(len), parameters) }
    }

    /// Queues the comparison of two ranges of bytes, both at a multiple of 16; `flag` is raised where they differ.
    pub(crate) fn same(&self, now: u64, then: u64, bytes: usize, flag: u64) -> Result<(), BackendError> {
        let bytes = bytes as u64;
        // SAFETY: as above.
        unsafe { self.launch("same", self.same, bytes.div_ceil(16), [at(&now), at(&then), at(&bytes), at(&flag)]) }
    }

    /// Queues the writing of a pattern over whole words.
    pub(crate) fn pattern(&self, to: u64, bytes: usize, noise: u64) -> Result<(), BackendError> {
        let words = bytes as u64 / 8;
        // SAFETY: as above.
        unsafe { self.launch("pattern", self.pattern, words, [at(&to), at(&words), at(&noise)]) }
    }

    /// Queues the poisoning of an output.
    pub(crate) fn poison(&self, to: u64, len: usize, dtype: DType, noise: u64, turn: u64) -> Result<(), BackendError> {
        let len = u32::try_from(len).map_err(|error| BackendError::Failed(error.to_string()))?;
        let kind = number(dtype);
        // SAFETY: as above.
        unsafe {
            self.launch("poison", self.poison, u64::from(len), [at(&to), at(&len), at(&kind), at(&noise), at(&turn)])
        }
    }

    /// Queues a copy within the device.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), BackendError> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.here()?;
        // SAFETY: the caller's ranges are this long, and do not overlap.
        Ok(unsafe { self.device.driver.copy(to, from, bytes, self.device.stream) }?)
    }

    /// Queues zeros.
    pub(crate) fn clear(&self, to: u64, bytes: usize) -> Result<(), BackendError> {
        self.device.here()?;
        // SAFETY: the caller's range is this long.
        Ok(unsafe { self.device.driver.set(to, 0, bytes, self.device.stream) }?)
    }

    /// # Safety
    /// `parameters` are those of the kernel, in its order, and what they say of ranges is true.
    unsafe fn launch<const N: usize>(
        &self,
        name: &str,
        function: Function,
        count: u64,
        mut parameters: [*mut c_void; N],
    ) -> Result<(), BackendError> {
        if count == 0 {
            return Ok(());
        }
        self.device.here()?;
        let blocks = u32::try_from(count.div_ceil(u64::from(THREADS)).min(BLOCKS)).unwrap_or(1);
        let geometry = Geometry { grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared: 0 };
        // SAFETY: the function is of the loaded module; the driver copies the parameters before it returns.
        let launched = unsafe { self.device.driver.launch(function, &geometry, self.device.stream, &mut parameters) };
        Ok(launched.map_err(|refused| refused.at(name))?)
    }
}

/// An output on the device, and what is expected of it there.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub got: u64,
    /// What it held before the call.
    pub image: u64,
    pub values: u64,
    pub bounds: u64,
    pub turned: &'a Turned,
    pub dtype: DType,
    pub factor: f64,
}

/// An argument as a launch takes it.
pub(super) fn at<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// The kernels' number of an element type.
fn number(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::Bf16 => 1,
        DType::F16 => 2,
        DType::I32 => 3,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use sha2::{Digest as _, Sha256};

    use super::super::cuda::{MATRIX, PTX};
    use super::*;

    /// A file of kernels, what nvcc makes of it, and what more it is told.
    struct Source {
        name: &'static str,
        text: &'static str,
        ptx: &'static str,
        arguments: &'static [&'static str],
        kernels: &'static [&'static str],
    }

    const SOURCES: [Source; 2] = [
        Source {
            name: "table",
            text: include_str!("table.cu"),
            ptx: PTX,
            // The oldest devices that nvcc compiles for; products and sums are each rounded, as on the host.
            arguments: &["-arch=compute_75", "-fmad=false"],
            kernels: &["deal", "check", "same", "pattern", "poison"],
        },
        Source {
            name: "matrix",
            text: include_str!("matrix.cu"),
            ptx: MATRIX,
            arguments: &["-arch=compute_90a"],
            kernels: &["multiply"],
        },
    ];
    const DIGEST: &str = "// source digest: ";

    fn digest(source: &str) -> String {
        Sha256::digest(source).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_ptx_is_that_of_the_source() {
        for Source { name, text, ptx, kernels, .. } in SOURCES {
            let first = ptx.lines().next().unwrap();
            assert_eq!(first.strip_prefix(DIGEST), Some(digest(text).as_str()), "renew it; {name}.cu says how");
            for kernel in kernels {
                assert!(ptx.contains(&format!(".visible .entry {kernel}(")), "{kernel}");
            }
        }
    }

    #[test]
    fn axes_are_told_as_the_kernels_take_them() {
        let turned = Turned::new(&[(2, 0), (3, 2)]).unwrap();
        assert_eq!((turned.rank, turned.len()), (2, 6));
        assert_eq!((turned.extent, turned.turn), ([2, 3, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0]));
        assert_eq!(size_of::<Turned>(), 52);
        assert!(Turned::new(&[(1, 0); AXES + 1]).is_err() && Turned::new(&[(1 << 16, 0), (1 << 16, 0)]).is_err());
        assert_eq!(Turned::new(&[(0, 0)]).unwrap().len(), 0);
    }

    /// Not a test: writes the PTX files. Needs nvcc.
    #[test]
    #[ignore = "renews files of the repository"]
    fn renew_the_ptx() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/runner/backend/gpu");
        let scratch = tempfile::tempdir().unwrap();
        for Source { name, text, arguments, .. } in SOURCES {
            let out = scratch.path().join(name);
            let mut nvcc = Command::new("nvcc");
            nvcc.arg("-ptx").args(arguments).arg("-o").arg(&out).arg(folder.join(format!("{name}.cu")));
            assert!(nvcc.status().unwrap().success());
            let text = format!("{DIGEST}{}\n{}", digest(text), std::fs::read_to_string(&out).unwrap());
            std::fs::write(folder.join(format!("{name}.ptx")), text).unwrap();
        }
    }
}
