//! What the parts of `cargo kopt` say to each other, and nothing else: data types, their text forms and the checks
//! that need no file system. Build scripts, test and bench binaries, the tool and its tests all agree through this crate.
//!
//! | module | what |
//! |---|---|
//! | [`manifest`] | `[package.metadata.kopt]`, with inheritance from `[workspace.metadata.kopt]` |
//! | [`plan`] | `kernels/<op>.launch.toml`: which device kernels one call launches |
//! | [`expression`] | the expression language of launch plans and knob constraints |
//! | [`knobs`] | chosen knob values, `#define`s of `kernels/<op>_knobs.h` |
//! | [`operator`] | names and parameters of the standard operators (their mathematics is in `kopt-harness`) |
//! | [`queue`] | headers of patch files and `truth.toml` |
//! | [`campaign`] | a campaign: target, events, proposals |
//! | [`candidate`] | what a kernel compiles to: object, digest, plan, knobs |
//! | [`message`] | JSON lines on stdout and in the file named by `KOPT_OUT` |
//! | [`wire`] | requests and replies between judge and worker |
//! | [`bout`] | requests and replies between referee and judge, and the raw record of a launch |
//! | [`sandbox`] | what confines a contestant, and how far that is in force |
//! | [`audit`] | what an audit of a built object found |
//! | [`evidence`] | everything a verdict rests on, and the verdict |
//! | [`training`] | requests and replies of `kopt-train`, and what a training step said of two versions |
//! | [`machine`] | figures that are kept of a machine |
//! | [`exit`] | exit codes |
//! | [`diagnostic`] | an error that points into a file |
//! | [`json`] | text of what a judge reads and writes now and then |
//!
//! It knows no other crate of the workspace, does no I/O, and reads no clock and no environment.

pub mod audit;
pub mod bout;
pub mod campaign;
pub mod candidate;
pub mod diagnostic;
pub mod dtype;
pub mod evidence;
pub mod exit;
pub mod expression;
pub mod json;
pub mod knobs;
pub mod machine;
pub mod manifest;
pub mod message;
pub mod operator;
pub mod plan;
pub mod queue;
pub mod sandbox;
mod spelling;
pub mod training;
pub mod wire;

pub use diagnostic::Diagnostic;
pub use dtype::DType;
pub use spelling::nearest;

/// Version of the messages and of every file the tool writes. A reader refuses a newer one.
pub const FORMAT_VERSION: u32 = 1;
