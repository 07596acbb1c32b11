//! `cargo kopt certify`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::selection::Packages;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Check that checks refuse what is wrong
///
/// Hands cheap wrong results, mutants of the crate's own reference, to its own comparison on every listed shape: zeros,
/// row means, a copy of an input, the last tile dropped, the last terms of sums dropped, operands rounded to the next
/// lower precision, the result of another call. Each must be refused on each shape. If one passes, the bounds are too
/// wide to tell a gain from a cheat: it is named, with bounds that would refuse it, fitted between the error of the
/// crate's own kernel and that of the mutant. Exit code 96 then. `optimize` does the same before a campaign, unless it was
/// done for the same judge.
///
/// Example: cargo kopt certify -p softmax-cpu
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    packages: Packages,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::certify::certify(context, shell, &self.packages.target(manifest_path))
    }
}
