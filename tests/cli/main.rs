//! The real binary on real projects, copied before use. Nothing here depends on time, on the network or on a device.

#![allow(clippy::unwrap_used, reason = "a test")]

mod audit;
mod bench;
mod check;
mod compare;
mod completions;
mod doctor;
mod examples;
mod help;
#[path = "../support/history.rs"]
mod history;
mod list;
mod new;
mod output;
mod sandbox;
mod schema;
mod train_step;
mod verdict;
