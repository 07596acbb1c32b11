//! `cargo kopt doctor`

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::Result;
use crate::ops;
use crate::ops::doctor::install::Compilers;
use crate::shell::Shell;

/// Look at this machine: compilers, devices, ceilings, noise, and a self-test
///
/// Says which compilers the kernels of the workspace need and how to get those that are missing, which devices there
/// are, what they can do at most, how much equal code differs from itself, and what gain that lets a comparison show.
/// Then known slowdowns of 1, 2 and 5 % are injected and real decisions made. What is measured is kept in
/// target/kopt/machine.json for comparisons. Exit code 96 when a compiler that a kernel needs is missing, 104 when the
/// 5 % were not found.
///
/// With --install nothing is looked at: the commands that fetch a compiler are printed, and run with --yes.
///
/// Example: cargo kopt doctor -p softmax-cpu --quick
///
/// Example: cargo kopt doctor --install cuda --yes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Look at what this kernel needs, and measure with it; if left out, at all, with the one it is started in or the first on the processor
    #[arg(short, long = "package", value_name = "NAME")]
    package: Option<String>,
    /// Six launches of each, and only the injection of 5 %
    #[arg(long)]
    quick: bool,
    /// Print the commands that fetch this compiler
    #[arg(long, value_name = "COMPILER", conflicts_with_all = ["package", "quick"])]
    install: Option<Compilers>,
    /// Run them
    #[arg(short, long, requires = "install")]
    yes: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        if let Some(compilers) = self.install {
            return ops::doctor::install::install(context, shell, compilers, self.yes).map(|()| Exit::Ok);
        }
        let request = ops::doctor::Request { manifest_path, package: self.package, quick: self.quick };
        ops::doctor::doctor(context, shell, &request)
    }
}
