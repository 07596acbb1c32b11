//! `cargo kopt completions`

use kopt_schema::exit::Exit;

use crate::error::Result;
use crate::shell::Shell;

/// The name in bash's script: with a hyphen in it, nothing behind a command is completed (clap-rs/clap#6421).
const IN_BASH: &str = "cargo_kopt";

/// What completes `cargo kopt` in bash, for which cargo's own script leaves no room.
const AFTER_CARGO: &str = include_str!("completions/cargo.bash");

/// Print a completion script for a shell
///
/// The script completes `cargo-kopt`; the one for bash completes `cargo kopt`, too, and leaves the rest of cargo to what
/// completed it before. In zsh, save it as `_cargo-kopt` in a folder of `$fpath`: cargo's own completion asks it.
///
/// Example, at the end of ~/.bashrc: source <(cargo kopt completions bash)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub fn run(self, shell: &mut Shell) -> Result<Exit> {
        shell.document(&script(self.shell))?;
        Ok(Exit::Ok)
    }
}

fn script(shell: clap_complete::Shell) -> String {
    let of = |name: &str| {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut super::command(), name, &mut script);
        String::from_utf8_lossy(&script).into_owned()
    };
    match shell {
        clap_complete::Shell::Bash => {
            // The command itself has the hyphen: it stands at the end of the lines that register the function.
            let own = of(IN_BASH).replace(&format!(" {IN_BASH}\n"), " cargo-kopt\n");
            format!("{own}{AFTER_CARGO}")
        }
        _ => of("cargo-kopt"),
    }
}
