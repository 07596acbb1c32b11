//! `cargo kopt bindings`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::selection::Packages;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Renew the Rust bindings of kernel headers
///
/// Where libclang is missing, kernel crates are built with the checked-in kernels/<op>.bindings.rs. This makes them
/// anew from the header, which needs libclang; --check only compares digests and needs nothing.
///
/// Example: cargo kopt bindings --workspace --check
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    packages: Packages,
    /// Change nothing; exit with 96 when bindings do not fit their header
    #[arg(long)]
    check: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::bindings::bindings(context, shell, &self.packages.target(manifest_path), self.check)
    }
}
