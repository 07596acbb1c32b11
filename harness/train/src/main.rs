//! Answers requests of `cargo kopt` until they end; see [`kopt_train::serve`].

use std::process::ExitCode;

fn main() -> ExitCode {
    kopt_train::serve::serve()
}
