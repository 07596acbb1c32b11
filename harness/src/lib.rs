//! What kernel crates depend on.
//!
//! Light by default: the [`Kernel`] trait, the standard [`operators`] and what a build script made of the crate
//! ([`Package`]). The feature `runner`, which only dev-dependencies turn on, adds what tests and benches need.
//!
//! ```ignore
//! // src/lib.rs of a kernel crate with a standard operator
//! kopt_harness::kernel!();
//! // tests/correctness.rs (harness = false)
//! kopt_harness::correctness_main!(softmax_cpu);
//! // benches/latency.rs (harness = false)
//! kopt_harness::latency_main!(softmax_cpu);
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`mod@kernel`] | the trait that says what an operator computes, and its parts: cases, buffers, roles |
//! | [`operators`] | the standard operators, one file each |
//! | [`distribution`] | kinds of input that trials draw from |
//! | [`tensor`] | values of buffers, rounded to their element type |
//! | [`error_model`] | how far an honest kernel may be from the exact result |
//! | [`mutant`] | wrong results that every check must refuse |
//! | [`product`] | products of matrices in f64, the costly part of some references |
//! | [`package`] | what the build script found and made |
//! | `parallel` | large cases in parts |
//! | `runner` | processes, backends, correctness and latency |
//! | `slot` | a kernel as a function of this process, for the training step (feature `slot`) |

pub mod distribution;
pub mod error_model;
mod exponential;
pub mod kernel;
pub mod mutant;
pub mod operators;
pub mod package;
mod parallel;
pub mod product;
pub mod tensor;

#[cfg(feature = "runner")]
pub mod runner;
#[cfg(feature = "slot")]
pub mod slot;

pub use distribution::Distribution;
pub use error_model::Rounding;
pub use kernel::{Axis, Buffer, Case, Kernel, Role, Symmetry};
pub use kopt_schema::manifest::{Shape, ShapeValue};
pub use kopt_schema::message::Cost;
pub use kopt_schema::operator::{Parameter, ParameterKind};
pub use kopt_schema::{self as schema, DType};
pub use package::{EntryLayout, Field, FieldKind, Package};
pub use tensor::{Draw, Expected, Tensors};

/// The body of a kernel crate's `lib.rs`: bindings, package description and the operator.
///
/// `kernel!()` takes a standard operator by the manifest's `op`; `kernel!(MyOp)` takes a value that implements
/// [`Kernel`].
#[macro_export]
macro_rules! kernel {
    () => {
        $crate::kernel!($crate::operators::standard(PACKAGE.op()));
    };
    ($operator:expr) => {
        include!(concat!(env!("OUT_DIR"), "/kopt/kernel.rs"));

        /// What the kernel computes.
        pub fn kernel() -> impl $crate::Kernel + 'static {
            $operator
        }
    };
}

/// `main` of `tests/correctness.rs`.
#[cfg(feature = "runner")]
#[macro_export]
macro_rules! correctness_main {
    ($kernel_crate:ident) => {
        fn main() -> ::std::process::ExitCode {
            $crate::runner::correctness(&$kernel_crate::PACKAGE, $kernel_crate::kernel())
        }
    };
}

/// `main` of `benches/latency.rs`.
#[cfg(feature = "runner")]
#[macro_export]
macro_rules! latency_main {
    ($kernel_crate:ident) => {
        fn main() -> ::std::process::ExitCode {
            $crate::runner::latency(&$kernel_crate::PACKAGE, $kernel_crate::kernel())
        }
    };
}
