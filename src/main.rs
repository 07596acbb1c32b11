//! The `cargo kopt` subcommand. Everything is in the library, so that tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_kopt::cli::main()
}
