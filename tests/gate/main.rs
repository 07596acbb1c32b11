//! Gates of the real binary over pull requests of known truth, in real repositories: what each must come to, what is
//! written of it, and what is said where there is nothing to gate.
//!
//! The judge is the puppet of `fixtures/bout`, as in `tests/campaign`: what each version takes stands in a constant of its
//! source, and the puppet reads it from the compiled object. Git, cargo, compilers and processes are real.

#![allow(clippy::unwrap_used, reason = "a test")]

mod audits;
mod bad_input;
mod github;
#[path = "../support/history.rs"]
mod history;
mod outputs;
mod pull_requests;
#[allow(dead_code, reason = "shared with the tests of other commands")]
#[path = "../cli/sandbox.rs"]
mod sandbox;
mod stage;
