//! `cargo kopt check` by the real binary, on an example with another candidate in its kernel's place.

use std::process::Command;

use camino::Utf8Path;
use kopt_schema::message::{Message, Trial};

/// What `check` found.
pub struct Checked {
    pub code: Option<i32>,
    pub trials: Vec<Trial>,
    /// What it told people.
    pub said: String,
}

/// Runs the trials whose names contain `filter`. A kernel that takes longer than `timeout_s` in one hangs.
pub fn check(package: &str, candidate: &Utf8Path, filter: &str, timeout_s: u32) -> Checked {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kopt"));
    command.args(["check", "-p", package, "--message-format", "json", filter]);
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("KOPT_SEED")
        .env_remove("KOPT_SEEDS")
        .env("KOPT_CANDIDATE", candidate)
        .env("KOPT_TIMEOUT", timeout_s.to_string())
        .output()
        .unwrap();
    let messages = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let trial = |line: &[u8]| match serde_json::from_slice(line).unwrap() {
        Message::Trial(trial) => Some(trial),
        _ => None,
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Checked { code: output.status.code(), trials: messages.filter_map(trial).collect(), said }
}
