//! `cargo kopt check`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::selection::Packages;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Check that kernels are right
///
/// Builds and runs tests/correctness.rs of each kernel crate: every element of every output against a reference in f64,
/// over shapes and input distributions, with fresh secret seeds at each run. A failure comes with the command that
/// repeats it. Exit code 103 when a trial failed, 97 when none could be run because a device is missing.
///
/// Example: cargo kopt check -p softmax-cpu denormal
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    packages: Packages,
    /// Only trials whose names contain this
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// The filter is the whole name of a trial
    #[arg(long, requires = "filter")]
    exact: bool,
    /// Use this seed, as a failure prints it, instead of secret ones
    #[arg(long, value_name = "HEX", value_parser = seed)]
    seed: Option<String>,
    /// Secret seeds a trial, instead of the manifest's number
    #[arg(long, value_name = "N", conflicts_with = "seed", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Trials at the same time
    #[arg(long, value_name = "N")]
    test_threads: Option<std::num::NonZeroUsize>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let request = ops::check::Request {
            target: self.packages.target(manifest_path),
            filter: self.filter,
            exact: self.exact,
            seed: self.seed,
            seeds: self.seeds,
            test_threads: self.test_threads.map(std::num::NonZeroUsize::get),
        };
        ops::check::check(context, shell, &request)
    }
}

/// A seed is handed on as it was written, so that what was printed can be pasted.
fn seed(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match u64::from_str_radix(digits, 16) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("a seed is up to 16 hexadecimal digits: {error}")),
    }
}
