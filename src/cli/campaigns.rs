//! Which campaign is meant, the same in every command that takes one.

use camino::Utf8PathBuf;

use crate::ops::campaigns::Which;

#[derive(Debug, clap::Args)]
pub struct Named {
    /// The campaign, or the beginning of its name; if left out the newest, or for `status` all (of the crate, inside of one), and for `try`, `resume` and `stop` the newest that is not over
    #[arg(value_name = "CAMPAIGN")]
    name: Option<String>,
    /// Only campaigns on this kernel
    #[arg(short, long = "package", value_name = "KERNEL")]
    package: Option<String>,
}

impl Named {
    pub fn which(self, manifest_path: Option<Utf8PathBuf>) -> Which {
        Which { manifest_path, name: self.name, package: self.package }
    }
}
