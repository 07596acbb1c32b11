//! The catalogue of what is known about making kernels faster: techniques that helped, and anti-patterns that did not
//! or that only fooled a benchmark. It is data, one TOML file an entry, so that a finding is added, changed or turned
//! into its opposite without touching code.
//!
//! | module, folder | what |
//! |---|---|
//! | `entries/<id>.toml` | the entries; the file's name is the entry's id |
//! | [`entry`] | what an entry says, how it is read, and what makes one invalid |
//! | [`catalogue`] | all entries, and those that apply to a kernel |
//!
//! An entry keeps apart what was measured (`evidence`: device, toolchain, shapes, gain with interval) and what is
//! concluded from it (`takeaway`). No entry recommends what only a benchmark rewards: a technique of bucket W2 or W3,
//! or one that depends on how rows are routed, is refused; those stand here as anti-patterns, "do not retry".
//!
//! The entries are embedded: nothing here touches a file, a clock or the environment.

pub mod catalogue;
pub mod entry;

pub use catalogue::{all, select};
pub use entry::{Applicability, Bucket, Category, Entry, Evidence, Kind, Signal};
