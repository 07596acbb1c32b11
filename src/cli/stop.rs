//! `cargo kopt stop`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::campaigns::Named;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Bring a campaign to its end
///
/// A campaign that runs ends after the round it is in; one that does not is ended here. The report follows either way.
/// Ctrl-C in its terminal only pauses it.
///
/// Example: cargo kopt stop softmax_cpu
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::resume::stop(context, shell, &self.campaign.which(manifest_path))
    }
}
