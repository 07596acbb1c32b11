//! `cargo kopt audit`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use super::selection::Packages;
use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Read what kernels can remember and reach
///
/// Builds the object of each kernel and reads it: imports, exports, constructors, writable memory and every instruction.
/// A kernel that can keep something between two calls, or reach anything but its arguments, is refused by `compare`,
/// `optimize`, `try`, `gate` and `verify` before any clock starts; this shows what they would say, with rule and place. Exit code 106
/// when a kernel breaks a rule. Objects that cannot be read (other processors, HIP, class launcher) are said to be not audited.
///
/// Example: cargo kopt audit -p softmax-cpu --base origin/main
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    packages: Packages,
    /// Only kernels whose code differs from this revision, and only violations that it does not have
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// List all rules
    #[arg(long, conflicts_with_all = ["base", "explain"])]
    list: bool,
    /// Explain a rule: what it finds, why, what to do instead
    #[arg(long, value_name = "RULE", conflicts_with = "base")]
    explain: Option<String>,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        match self.explain {
            Some(id) => ops::audit::explain(shell, &id),
            None if self.list => ops::audit::list(shell),
            None => {
                let request = ops::audit::Request { target: self.packages.target(manifest_path), base: self.base };
                ops::audit::audit(context, shell, &request)
            }
        }
    }
}
