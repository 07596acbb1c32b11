//! What tests and benches of kernel crates need: processes, backends, correctness and latency. Only dev-dependencies
//! turn it on.
//!
//! | module | what |
//! |---|---|
//! | `cases`, `correctness`, `compare` | the trials, and what one finds |
//! | `latency`, `measurement`, `duel` | criterion benches, and two candidates in lock step |
//! | `arena`, `memory`, `arguments` | judge-owned memory and the bytes of a call |
//! | `contestant`, `worker` | the process that runs a kernel, from outside and from inside |
//! | `backend` | where it runs |
//! | `candidate` | what it runs |
//! | `output`, `environment` | `KOPT_OUT`, and every variable that is read |

mod arena;
mod arguments;
mod backend;
mod candidate;
mod cases;
mod compare;
mod contestant;
mod correctness;
mod duel;
mod environment;
mod latency;
mod measurement;
mod memory;
mod output;
mod worker;

use std::process::ExitCode;

use crate::kernel::Kernel;
use crate::package::Package;

/// `main` of `tests/correctness.rs`: libtest-mimic trials.
pub fn correctness(package: &'static Package, kernel: impl Kernel + 'static) -> ExitCode {
    run(|| correctness::main(package, for_ever(kernel)))
}

/// `main` of `benches/latency.rs`: criterion benches.
pub fn latency(package: &'static Package, kernel: impl Kernel + 'static) -> ExitCode {
    run(|| latency::main(package, for_ever(kernel)))
}

/// A process has one operator and keeps it: trials may hold it as long as they like.
fn for_ever(kernel: impl Kernel + 'static) -> &'static dyn Kernel {
    Box::leak(Box::new(kernel))
}

/// A worker serves and returns; anything else does what was asked, and says why if it cannot.
#[allow(clippy::print_stderr, reason = "the main of a test binary")]
fn run(main: impl FnOnce() -> Result<ExitCode, String>) -> ExitCode {
    if let Some(code) = worker::serve_if_asked() {
        return code;
    }
    main().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
