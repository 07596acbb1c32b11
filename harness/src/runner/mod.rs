//! What tests and benches of kernel crates need: processes, backends, correctness and latency. Only dev-dependencies
//! turn it on.
//!
//! | module | what |
//! |---|---|
//! | `cases`, `correctness`, `attempt`, `compare` | the trials, one seed of one, and what it finds |
//! | `batch` | trials that share a process |
//! | `reference` | what is expected of large products, by the device |
//! | `certify` | wrong results handed to the crate's own check |
//! | `latency`, `measurement`, `duel` | criterion benches, and two candidates in lock step |
//! | `lease`, `processor` | who times on a GPU has it alone; contestants take turns on one processor |
//! | `blueprint`, `arena`, `memory`, `arguments` | judge-owned memory and the bytes of a call |
//! | `prepare` | weights that are prepared once a step, the only legal cache |
//! | `judge` | the judge of a bout: memory, launches, and what contestants may not do |
//! | `exercise` | calls for the sanitizers |
//! | `contestant`, `worker` | the process that runs a kernel, from outside and from inside |
//! | `sandbox` | what confines it |
//! | `backend` | where it runs |
//! | `candidate` | what it runs |
//! | `output`, `environment` | `KOPT_OUT`, and every variable that is read |

mod arena;
mod arguments;
mod attempt;
mod backend;
mod batch;
mod blueprint;
mod candidate;
mod cases;
mod certify;
mod compare;
mod contestant;
mod correctness;
mod duel;
mod environment;
mod exercise;
mod judge;
mod latency;
mod lease;
mod measurement;
mod memory;
mod output;
mod prepare;
mod processor;
mod reference;
mod room;
mod sandbox;
mod worker;

use std::process::ExitCode;

use crate::kernel::Kernel;
use crate::package::Package;

/// `main` of `tests/correctness.rs`: libtest-mimic trials.
pub fn correctness(package: &'static Package, kernel: impl Kernel + 'static) -> ExitCode {
    run(package, kernel, correctness::main)
}

/// `main` of `benches/latency.rs`: criterion benches.
pub fn latency(package: &'static Package, kernel: impl Kernel + 'static) -> ExitCode {
    run(package, kernel, latency::main)
}

type Main = fn(&'static Package, &'static dyn Kernel) -> Result<ExitCode, String>;

/// A worker or a judge serves and returns; anything else does what was asked, and says why if it cannot.
#[allow(clippy::print_stderr, reason = "the main of a test binary")]
fn run(package: &'static Package, kernel: impl Kernel + 'static, main: Main) -> ExitCode {
    if let Some(code) = worker::serve_if_asked() {
        return code;
    }
    // A process has one operator and keeps it: trials may hold it as long as they like.
    let kernel: &'static dyn Kernel = Box::leak(Box::new(kernel));
    if let Some(code) = judge::serve_if_asked(package, kernel) {
        return code;
    }
    if let Some(code) = exercise::serve_if_asked(package, kernel) {
        return code;
    }
    let main = if certify::is_asked() { certify::main } else { main };
    main(package, kernel).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
