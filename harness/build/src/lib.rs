//! Compiles kernels. The one place that knows compilers (cc, nvcc, hipcc, Triton) and bindgen; used by the `build.rs` of every kernel
//! crate, and by the tool to compile candidates outside cargo.
//!
//! ```no_run
//! // The body of `main` in the build.rs of a kernel crate.
//! kopt_build::build();
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`manifest`] | the crate's table, read from disk, and the files it names |
//! | [`compile`] | sources to a candidate: one object, always optimised, whatever the cargo profile |
//! | `recipe` | which compiler, architecture and flags a manifest asks for |
//! | `asks` | whether a crate's text could ask which files are there |
//! | `triton` | Python sources to device code, and the launch plan that fits it |
//! | `plan` | the launch plan, held against what it may name and what its launches can be |
//! | `parameters` | what kernels take, by their PTX, against what a plan passes them |
//! | `resources` | registers, spills and memory of device functions, as compilers tell them |
//! | [`cache`] | the same outside cargo: in parallel, keyed by sources, headers, flags and compiler |
//! | [`code`] | what of an object runs: equal code needs no clock |
//! | `site` | the commands that compilers are given, and where they work |
//! | `end` | how a command ended that failed, and whose doing it is |
//! | `sandbox` | what a compiler may touch while it runs, and a program of a candidate's own code |
//! | [`sanitize`] | the same sources, preprocessed as for the measured object, under the sanitizers, with a driver |
//! | [`scratch`] | temporary folders, and those that killed processes have left |
//! | [`toolchain`] | which compilers are here |
//! | [`bindings`] | the args structs: bindgen, or the checked-in file where libclang is missing |
//! | [`script`] | what `build.rs` does with all that |
//!
//! What is checked is what is timed: the object that tests and benches load is the one that is linked into (class
//! `native`) or embedded in (class `device`) whoever depends on the crate.

mod asks;
pub mod bindings;
pub mod cache;
pub mod code;
pub mod compile;
mod digest;
mod end;
mod environment;
mod error;
pub mod manifest;
mod parameters;
mod plan;
mod recipe;
mod resources;
mod sandbox;
pub mod sanitize;
pub mod scratch;
pub mod script;
mod site;
pub mod toolchain;
mod triton;

pub use digest::{of_bytes as digest_of_bytes, of_file as digest_of_file};
pub use error::{Blame, BuildError};
pub use script::build;
