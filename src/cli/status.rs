//! `cargo kopt status`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::campaigns::Named;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Where campaigns stand
///
/// A row a campaign: what comes next, rounds, what was accepted, the gain so far with its interval, time and cost.
/// A campaign that is not over and not running goes on with `resume`.
///
/// Example: cargo kopt status -p softmax-cpu
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::status::status(context, shell, &self.campaign.which(manifest_path))
    }
}
