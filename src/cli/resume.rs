//! `cargo kopt resume`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::campaigns::Named;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Go on with a campaign
///
/// A campaign that was killed, paused or left in the middle goes on with the step it was in: nothing accepted is lost,
/// nothing is decided twice. What a killed process left behind is put in order first, and told.
///
/// Example: cargo kopt resume softmax_cpu
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::resume::resume(context, shell, &self.campaign.which(manifest_path))
    }
}
