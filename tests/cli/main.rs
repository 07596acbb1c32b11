//! The real binary on real projects, copied before use. Nothing here depends on time, on the network or on a device.

mod bench;
mod check;
mod help;
mod list;
mod new;
mod output;
mod sandbox;
mod schema;
