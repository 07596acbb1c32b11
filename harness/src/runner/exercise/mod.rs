//! Calls for the sanitizers: small cases of every entry, with secret contents. Nothing is expected of the results here:
//! memory is what is looked at, and a small case has every edge that a large one has. Listed shapes are cut down to what a tool
//! bears, for paths that begin at some size.
//!
//! | module | what |
//! |---|---|
//! | `native` | writes the calls to a file, for the program that kopt-build links with the sanitizers of a C compiler |
//! | `device` | makes the calls, in a process that a tool of the device's vendor watches |

mod device;
mod native;

use std::ffi::OsString;
use std::process::ExitCode;

use kopt_schema::bout::{EXERCISE_ARGUMENT, EXERCISE_DEVICE_ARGUMENT};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Shape;

use super::backend::BackendError;
use super::cases;
use crate::kernel::{Buffer, Case, Kernel};
use crate::package::{EntryLayout, Package};
use crate::tensor::{Draw, Tensors, encode};

/// Shapes that nobody knows beforehand, each under one distribution.
const RANDOM: usize = 8;

/// If this process was started for it, does what it is told to with the file that is named after it.
#[allow(clippy::print_stderr, reason = "the main of a test binary")]
pub(crate) fn serve_if_asked(package: &'static Package, kernel: &'static dyn Kernel) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let argument = arguments.next()?;
    let act = match argument.to_str()? {
        EXERCISE_ARGUMENT => native::write,
        EXERCISE_DEVICE_ARGUMENT => device::run,
        _ => return None,
    };
    Some(match asked(arguments).and_then(|(file, flops)| act(package, kernel, &file, flops)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::NoDevice(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(Exit::NoDevice.code())
        }
        Err(Failure::Wrong(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The file that is named, and the operations that a call may have.
fn asked(mut arguments: impl Iterator<Item = OsString>) -> Result<(OsString, f64), Failure> {
    let file = arguments.next().ok_or_else(|| "no file is named".to_owned())?;
    let flops = match arguments.next() {
        None => f64::INFINITY,
        Some(word) => {
            let number = word.to_str().and_then(|word| word.parse().ok());
            number.ok_or_else(|| format!("`{}` is no number", word.display()))?
        }
    };
    Ok((file, flops))
}

/// Why there are no calls.
#[derive(Debug)]
enum Failure {
    NoDevice(String),
    Wrong(String),
}

impl From<String> for Failure {
    fn from(error: String) -> Self {
        Self::Wrong(error)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::NoDevice(_) => Self::NoDevice(error.to_string()),
            _ => Self::Wrong(error.to_string()),
        }
    }
}

/// One call to make.
struct Exercise<'a> {
    layout: &'a EntryLayout,
    /// The forward entry, whose struct a preparation is given.
    forward: &'a EntryLayout,
    case: Case,
    buffers: Vec<Buffer>,
    tensors: Tensors,
}

impl Exercise<'_> {
    /// What is in a buffer that is read.
    fn content(&self, buffer: &Buffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.bytes()];
        if let Some(values) = self.tensors.get(buffer.name) {
            encode(values, buffer.dtype, &mut bytes);
        }
        bytes
    }
}

/// What a tool bears of a call.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of its largest buffer.
    elements: usize,
    /// By the operator's cost model.
    flops: f64,
}

/// Every call within the bounds, in turn.
fn each(
    package: &'static Package,
    kernel: &dyn Kernel,
    bounds: Bounds,
    mut act: impl FnMut(&Exercise<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let manifest = package.manifest();
    let layouts = cases::entries(package, kernel)?;
    let mut draw = Draw::new(getrandom::u64().map_err(|error| format!("no secret seed: {error}"))?, "exercise");
    for layout in layouts.iter().copied() {
        let fits = |shape: &Shape| {
            let case = Case { shape: shape.clone(), dtype: manifest.dtype };
            kernel.cost(layout.symbol, &case).flops <= bounds.flops
                && kernel.buffers(layout.symbol, &case).iter().all(|buffer| buffer.len <= bounds.elements)
        };
        // Of a listed shape that is too large as many repetitions as fit: its paths are those of its other sizes.
        let listed = manifest.shapes.iter().map(|shape| kernel.fewer(shape, &fits).unwrap_or_else(|| shape.clone()));
        let mut shapes: Vec<Shape> = listed.collect();
        let near: Vec<Shape> = shapes.iter().filter_map(|shape| kernel.near(shape, &mut draw)).collect();
        shapes.extend(near.into_iter().chain(kernel.odd_shapes()));
        shapes.extend((0..RANDOM).map(|_| kernel.random_shape(&mut draw)));
        let distributions = kernel.distributions_of(layout.symbol);
        for (turn, shape) in shapes.into_iter().enumerate() {
            let case = Case { shape, dtype: manifest.dtype };
            if !fits(&case.shape) {
                continue;
            }
            let buffers = kernel.buffers(layout.symbol, &case);
            // Every shape has its turn with one distribution: contents decide nothing of where a kernel reads and writes but
            // for group sizes, which are in every one of them.
            let distribution = distributions[turn % distributions.len()];
            let tensors = kernel.inputs(layout.symbol, &case, distribution, &mut draw);
            act(&Exercise { layout, forward: layouts[0], case, buffers, tensors })?;
        }
    }
    Ok(())
}
