//! `cargo kopt report`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::campaigns::Named;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// What came of a campaign
///
/// Markdown for people, or one JSON document with --message-format json. The files stand in the campaign's folder,
/// report.md and report.json.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        ops::report::report(context, shell, &self.campaign.which(manifest_path))
    }
}
