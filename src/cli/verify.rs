//! `cargo kopt verify`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::quantity;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Check a commit of a campaign again, or all of them
///
/// Its evidence must be the one that the commit names, and its verdict must follow from its data. Then the commit and its
/// parent are rebuilt and the referee compares them once more, with new processes and seeds. Exit code 0 when the gain is
/// found again, 100 or 104 when it is not, 106 when the evidence was changed. In a clone, get the evidence first:
/// git fetch origin 'refs/kopt/*:refs/kopt/*'
///
/// Example: cargo kopt verify kopt/softmax_cpu_intel-xeon_20261115-050107 --all
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The commit: a branch, a tag, HEAD~1, a number
    #[arg(value_name = "COMMIT")]
    commit: String,
    /// Every accepted round of its campaign up to it, the oldest first; exit code 0 when all gains are found again
    #[arg(long)]
    all: bool,
    /// Judge the evidence again, and measure nothing
    #[arg(long)]
    evidence_only: bool,
    /// Time that measuring may take for a commit, such as 90s or 2m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = quantity::seconds)]
    max_time: f64,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let request = ops::verify::Request {
            manifest_path,
            commit: self.commit,
            all: self.all,
            evidence_only: self.evidence_only,
            max_time_s: self.max_time,
        };
        ops::verify::verify(context, shell, &request)
    }
}
