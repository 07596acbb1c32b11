//! `cargo kopt completions`

use kopt_schema::exit::Exit;

use crate::error::Result;
use crate::shell::Shell;

/// Print a completion script for a shell
///
/// The script completes `cargo-kopt`. Example: cargo kopt completions bash > ~/.local/share/bash-completion/completions/cargo-kopt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub fn run(self, shell: &mut Shell) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "cargo-kopt", &mut script);
        shell.document(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Ok)
    }
}
