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
///
/// --html writes a page instead: score over rounds, shapes by rounds, and behind every point its evidence with
/// intervals, launches and roofline. It is one file without a script that loads nothing, and it can be made at any time,
/// also while the campaign is at work. Without a FILE it is report.html in the campaign's folder.
///
/// Example: cargo kopt report softmax_cpu --html softmax.html
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    campaign: Named,
    /// Write a page for a browser to FILE, or to report.html in the campaign's folder; name the campaign before it
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    html: Option<Option<Utf8PathBuf>>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let which = self.campaign.which(manifest_path);
        match self.html {
            None => ops::report::report(context, shell, &which),
            Some(file) => ops::report::html(context, shell, &which, file.as_deref()),
        }
    }
}
