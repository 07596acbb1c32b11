//! `cargo kopt verdict`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Judge the evidence of a comparison again
///
/// Computes the verdict from the raw data of an evidence file, shows it as `compare` does, and says whether it is the
/// one that stands in the file. Exit code 106 when it is not; otherwise that of the verdict, as with `compare`.
///
/// --html also writes it as a page for a browser: intervals, every launch, roofline, machine, seeds and digests.
///
/// Example: cargo kopt verdict target/kopt/evidence/softmax-cpu-20261115-050107.json
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The evidence; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: Utf8PathBuf,
    /// Write a page for a browser to PAGE
    #[arg(long, value_name = "PAGE")]
    html: Option<Utf8PathBuf>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell) -> Result<Exit> {
        ops::verdict::verdict(context, shell, &self.file, self.html.as_deref())
    }
}
