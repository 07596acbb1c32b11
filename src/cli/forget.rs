//! `cargo kopt forget`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::ops::campaigns::Which;
use crate::shell::Shell;

/// Remove a campaign that is over, with all that it left
///
/// Its folder under .kopt, its candidates and evidence under refs/kopt, and what was compiled for it. The branch of accepted
/// commits stays unless --branch is given, and so does what was learned (.kopt/experience). It is shown first, and
/// asked for. `cargo kopt stop` ends a campaign that is not over.
///
/// Example: cargo kopt forget softmax_cpu_intel-xeon_20261115-050107 --branch
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The campaign, or the beginning of its name if no other one begins so
    #[arg(value_name = "CAMPAIGN")]
    name: String,
    /// The branch of its accepted commits, too
    #[arg(long)]
    branch: bool,
    /// Without asking
    #[arg(short, long)]
    yes: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let which = Which { manifest_path, name: Some(self.name), package: None };
        ops::forget::forget(context, shell, &ops::forget::Request { which, branch: self.branch, yes: self.yes })
    }
}
