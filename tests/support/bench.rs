//! The bench binary of an example crate, run for real.

use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::message::Message;

type Failure = Box<dyn std::error::Error>;

/// Builds and finds it.
pub fn executable(root: &Utf8Path, package: &str) -> Result<Utf8PathBuf, Failure> {
    let output = Command::new("cargo")
        .args(["bench", "--no-run", "--bench", "latency", "-p", package, "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    let lines = String::from_utf8(output.stdout)?;
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter(|message| message["target"]["name"] == "latency");
    let found = executables.find_map(|message| message["executable"].as_str().map(Utf8PathBuf::from));
    found.ok_or_else(|| format!("{package} has no bench executable").into())
}

/// Runs it and returns its messages.
pub fn run(executable: &Utf8Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Vec<Message>, Failure> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out.jsonl");
    let mut command = Command::new(executable);
    command.args(arguments).env("KOPT_OUT", &out).env("CRITERION_HOME", folder.path()).stdout(Stdio::null());
    let output = command.envs(variables.iter().copied()).stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{executable}: {}\n{}", output.status, said.trim_end()).into());
    }
    std::fs::read_to_string(&out)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
