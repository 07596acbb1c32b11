//! `-p` and `--workspace`, the same in every command that takes them.

use camino::Utf8PathBuf;

use crate::ops::Target;
use crate::workspace::selection::Selection;

#[derive(Debug, clap::Args)]
pub struct Packages {
    /// Kernel crate to work on, a name or a pattern such as 'softmax-*'; may be given more than once
    #[arg(short, long = "package", value_name = "NAME")]
    package: Vec<String>,
    /// All kernel crates of the workspace; the default outside of a kernel crate
    #[arg(long, conflicts_with = "package")]
    workspace: bool,
}

impl Packages {
    pub fn target(self, manifest_path: Option<Utf8PathBuf>) -> Target {
        Target { manifest_path, selection: Selection { packages: self.package, workspace: self.workspace } }
    }
}
