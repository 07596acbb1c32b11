//! `cargo kopt list`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::Result;
use crate::ops::{self, Target};
use crate::shell::Shell;
use crate::workspace::selection::Selection;

/// List the kernel crates of a workspace
///
/// One row a kernel: operator, backend, class, element type, shapes, the sources that may change, and compiler flags of
/// its own. Mistakes in manifests are shown, all of them, and end in exit code 96.
///
/// Example: cargo kopt list --message-format json | jq -r 'select(.reason == "kernel").kernel'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these, names or patterns such as 'softmax-*'
    #[arg(short, long = "package", value_name = "NAME")]
    package: Vec<String>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let selection = Selection { packages: self.package, workspace: true };
        ops::list::list(context, shell, &Target { manifest_path, selection })
    }
}
