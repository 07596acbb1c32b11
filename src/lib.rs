//! `cargo kopt`: kernels as crates, correctness as `cargo test`, latency as `cargo bench`.
//!
//! This crate is the subcommand. It links no GPU library and never `kopt-harness`: what it knows of a kernel it reads
//! from the manifest, and what it knows of a run it is told by the crate's own test and bench binaries, as the messages
//! of `kopt-schema`.
//!
//! # Layers
//!
//! A lower layer never names a higher one; `tests/layers.rs` holds the table and fails when one does.
//!
//! | layer | modules | what |
//! |---|---|---|
//! | 0 foundation | [`context`] | the only reader of environment, arguments and current folder |
//! | | [`shell`] | the only printer: JSON lines on stdout, text for people on stderr, tables, progress |
//! | | [`process`] | child processes: capture, lines, groups that can be ended whole |
//! | | [`error`] | an error for people: message, causes, hint, exit code |
//! | | [`replacement`] | files replaced in one step |
//! | 1 facts | [`workspace`] | packages as cargo sees them, and which of them are meant |
//! | | [`manifest`] | kernel crates and their `[package.metadata.kopt]`, with everything wrong in it |
//! | | [`machine`] | the machine and the time, and the figures that are kept of the machine |
//! | 2 judgement | [`audit`] | from the bytes of a built object to what it can remember and reach: pure functions |
//! | | [`gate`] | from evidence to verdict: pure functions |
//! | | [`ledger`] | from a campaign's events to its state, and the rules that say what comes next: pure functions |
//! | | [`page`] | campaigns, comparisons and gates as pages for a browser: pure functions |
//! | | [`reach`] | which kernels a change can reach, and why: pure functions |
//! | | [`records`] | every text that a round, a campaign or a gate leaves behind: pure functions |
//! | 3 effects | [`build`] | test and bench executables, built by one call of cargo |
//! | | [`runner`] | one run of such an executable, heard through `KOPT_OUT` |
//! | | [`revision`] | versions of the workspace, as git has them |
//! | | [`referee`] | two versions compared: judge, seeds, clock; evidence comes of it |
//! | | [`sanitizer`] | a version of a kernel under the sanitizers of its compiler or device |
//! | | [`transfer`] | two versions inside a training step: the harness's model, or the user's script |
//! | | [`lineage`] | a campaign in git: worktree, branch, candidates, commits, evidence |
//! | | [`proposer`] | who proposes changes: a queue of patches, an agent's command |
//! | | [`experience`] | what this repository has learned, and what the catalogue knows |
//! | 4 engine | [`campaign`] | the loop: define, prepare, read, baseline, rounds, report |
//! | 5 use cases | [`ops`] | one file per command's work |
//! | 6 edges | [`cli`] | one file per command: arguments, help text, one call into `ops` |
//!
//! What is written where, by which command, stands in `src/README.md`, *Files on disk*.

pub mod audit;
pub mod build;
pub mod campaign;
pub mod cli;
pub mod context;
pub mod error;
pub mod experience;
pub mod gate;
pub mod ledger;
pub mod lineage;
pub mod machine;
pub mod manifest;
pub mod ops;
pub mod page;
pub mod process;
pub mod proposer;
pub mod reach;
pub mod records;
pub mod referee;
pub mod replacement;
pub mod revision;
pub mod runner;
pub mod sanitizer;
pub mod shell;
pub mod transfer;
pub mod workspace;
