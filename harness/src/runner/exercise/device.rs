//! The calls, made on the device: a tool of its vendor watches this process, and knows where every buffer ends because each
//! has an allocation of its own. What is written is left as it comes, so that a kernel that reads it first is seen. The tool
//! tells what it found; this process says that it made the calls, or at which the device stopped.

use std::ffi::OsStr;

use camino::Utf8Path;
use kopt_schema::bout::{EXERCISE_DONE, EXERCISE_FAULT};
use kopt_schema::manifest::Class;

use super::{Bounds, Failure, each};
use crate::kernel::Kernel;
use crate::package::Package;
use crate::runner::backend::gpu::{Gpu, driver_of};
use crate::runner::backend::{Backend as _, BackendError};
use crate::runner::candidate::{Absent, Loaded};
use crate::runner::lease::Lease;
use crate::runner::{arguments, cases};

/// Elements of a case's largest buffer: enough for most paths that begin at some size.
const ELEMENTS: usize = 1 << 24;

/// Makes the calls with the candidate whose `candidate.json` is `file`.
#[allow(clippy::print_stdout, reason = "what the tool's reader looks for")]
pub(super) fn run(package: &'static Package, kernel: &dyn Kernel, file: &OsStr, flops: f64) -> Result<(), Failure> {
    let file = file.to_str().map(Utf8Path::new).ok_or_else(|| "the file's name is no text".to_owned())?;
    let manifest = package.manifest();
    let loaded = Loaded::read(file, None, package, &manifest).map_err(|absent| match absent {
        Absent::NotCompiled(why) => Failure::NoDevice(why),
        Absent::Wrong(why) => Failure::Wrong(why),
    })?;
    // Only while the device is at work: contents take longer to draw, and others wait to time.
    let lease = Lease::share(manifest.backend);
    let mut gpu = Gpu::open(driver_of(manifest.backend)?)?;
    if loaded.class == Class::Launcher {
        let entries =
            cases::entries(package, kernel)?.iter().map(|layout| layout.symbol.to_owned()).collect::<Vec<_>>();
        gpu.load_launcher(loaded.object.as_str(), &entries)?;
    } else {
        gpu.load(loaded.object.as_str(), &loaded.kernels)?;
    }
    drop(lease);
    each(package, kernel, Bounds { elements: ELEMENTS, flops }, |one| {
        let (plan, knobs) = (loaded.plan.as_ref(), &loaded.knobs);
        let entry = arguments::entry_call(kernel, one.layout, &one.case, 0, None, plan, knobs)?;
        let content = one.buffers.iter().map(|buffer| match buffer.written {
            true => (buffer.bytes(), None),
            false => (buffer.bytes(), Some(one.content(buffer))),
        });
        let content: Vec<_> = content.collect();
        let lease = Lease::share(manifest.backend);
        let called = gpu.call_apart(&entry, &content);
        drop(lease);
        let place = format!("{}/{}", one.layout.symbol, one.case.shape.name);
        match called {
            Ok(()) => Ok(()),
            Err(BackendError::Fault(what)) => {
                println!("{EXERCISE_FAULT} {place}: {what}");
                Err(Failure::Wrong(format!("{place}: {what}")))
            }
            Err(error) => Err(Failure::Wrong(format!("{place}: {error}"))),
        }
    })?;
    // What it has there goes back as it came: while nobody times.
    let lease = Lease::share(manifest.backend);
    drop(gpu);
    drop(lease);
    println!("{EXERCISE_DONE}");
    Ok(())
}
