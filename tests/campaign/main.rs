//! Campaigns of the real binary in real repositories, end to end: queues of patches, agents, edits by hand, and everything
//! that can go wrong in between.
//!
//! The judge is the puppet of `fixtures/bout`: a real match takes seconds a launch, a campaign of ten rounds minutes, and its
//! verdicts are tested elsewhere. What each version takes stands in a constant of its source, and the puppet reads it from
//! the compiled object. Everything else is real: processes, compilers, git, files, locks, signals and kills.

#![allow(clippy::unwrap_used, reason = "a test")]

mod agents;
mod attacks;
mod begin;
mod by_hand;
#[path = "../support/chance.rs"]
mod chance;
mod damage;
mod disk;
mod forget;
#[path = "../support/history.rs"]
mod history;
mod kills;
mod pauses;
mod queue;
#[allow(dead_code, reason = "shared with the tests of other commands")]
#[path = "../cli/sandbox.rs"]
mod sandbox;
mod stage;
mod training;
mod transfer;
