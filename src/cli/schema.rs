//! `cargo kopt schema`

use kopt_schema::exit::Exit;

use crate::error::Result;
use crate::ops;
use crate::shell::Shell;

/// Print the JSON schema of what the tool reads or writes
///
/// Example: cargo kopt schema manifest > kopt.schema.json
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to describe
    subject: ops::schema::Subject,
}

impl Args {
    pub fn run(self, shell: &mut Shell) -> Result<Exit> {
        ops::schema::schema(shell, self.subject)
    }
}
