//! `cargo kopt bench`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::selection::Packages;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Measure how fast kernels are
///
/// Builds and runs benches/latency.rs of each kernel crate. One row a shape and entry: the time with data in the cache
/// (hot) and out of it (cold), each a median with its 95 % interval, the rate of the cold time, and its share of what
/// the measured ceilings of this machine allow. Criterion's report is kept under target/criterion.
///
/// Example: cargo kopt bench -p rmsnorm-cpu --quick
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    packages: Packages,
    /// Only cases whose names contain one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Few samples: enough to see a number, not to compare two
    #[arg(long)]
    quick: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let target = self.packages.target(manifest_path);
        ops::bench::bench(context, shell, &ops::bench::Request { target, filters: self.filters, quick: self.quick })
    }
}
