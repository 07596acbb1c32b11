//! What the tool itself costs: `list` over a generated workspace of 200 kernel crates against `cargo metadata`, `check`
//! with nothing to build against its test binary alone, and a cold release build of this workspace.
//!
//!     cargo bench --bench overhead [-- --cold-build]

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark's main")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

const KERNELS: usize = 200;
const RUNS: usize = 9;
const TOOL: &str = env!("CARGO_BIN_EXE_cargo-kopt");

fn main() -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    println!("| what | median of {RUNS} |\n|---|---|");
    let folder = tempfile::tempdir()?;
    generate(folder.path())?;
    let metadata = || quiet("cargo", &["metadata", "--format-version", "1", "--no-deps"], folder.path());
    let list = || quiet(TOOL, &["list"], folder.path());
    let (metadata, list) = (median(metadata)?, median(list)?);
    println!("| `cargo metadata --no-deps`, {KERNELS} kernel crates | {metadata:.3} s |");
    println!("| `cargo kopt list`, the same | {list:.3} s, {:+.3} s |", list - metadata);
    let filter = ["-p", "softmax-cpu", "softmax/odd-3x7/uniform"];
    let check = || quiet(TOOL, &["check", filter[0], filter[1], filter[2]], root);
    check()?;
    let executable = correctness_executable(root)?;
    let alone = median(|| quiet(&executable, &[filter[2]], &root.join("example-kernels/softmax-cpu")))?;
    let check = median(check)?;
    println!("| the test binary of softmax-cpu, one trial | {alone:.3} s |");
    println!("| `cargo kopt check` of the same, nothing to build | {check:.3} s, {:+.3} s |", check - alone);
    if std::env::args().any(|word| word == "--cold-build") {
        let target = tempfile::tempdir()?;
        let target = target.path().to_str().ok_or("not text")?;
        let begun = Instant::now();
        quiet("cargo", &["build", "--release", "--workspace", "--target-dir", target], root)?;
        println!("| cold `cargo build --release --workspace` | {:.0} s, once |", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

fn median(run: impl Fn() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let times: Result<Vec<f64>, Failure> = (0..RUNS).map(|_| run()).collect();
    Ok(kopt_stats::median(&times?))
}

fn quiet(program: &str, arguments: &[&str], folder: &Path) -> Result<f64, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    if status.success() {
        Ok(begun.elapsed().as_secs_f64())
    } else {
        Err(format!("{program} {arguments:?}: {status}").into())
    }
}

fn correctness_executable(root: &Path) -> Result<String, Failure> {
    let arguments = ["test", "--no-run", "--test", "correctness", "-p", "softmax-cpu", "--message-format=json"];
    let output = Command::new("cargo").args(arguments).current_dir(root).stderr(Stdio::null()).output()?;
    let lines = String::from_utf8(output.stdout)?;
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut found = messages.filter(|message| message["target"]["name"] == "correctness");
    found.find_map(|message| message["executable"].as_str().map(str::to_owned)).ok_or_else(|| "no test binary".into())
}

/// A workspace of kernel crates, each with the files that its manifest names.
fn generate(folder: &Path) -> Result<(), Failure> {
    std::fs::write(folder.join("Cargo.toml"), "[workspace]\nmembers = [\"kernels/*\"]\nresolver = \"3\"\n")?;
    for number in 0..KERNELS {
        let package = folder.join(format!("kernels/kernel-{number}"));
        std::fs::create_dir_all(package.join("src"))?;
        std::fs::create_dir_all(package.join("kernels"))?;
        let shapes: Vec<String> = (1..=8).map(|size| format!("{{ rows = {size}, cols = {} }}", 64 * size)).collect();
        let manifest = format!(
            "[package]\nname = \"kernel-{number}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nshapes = [{}]\n",
            shapes.join(", ")
        );
        std::fs::write(package.join("Cargo.toml"), manifest)?;
        std::fs::write(package.join("src/lib.rs"), "")?;
        std::fs::write(package.join("kernels/softmax.h"), "")?;
        std::fs::write(package.join("kernels/softmax.c"), "")?;
    }
    Ok(())
}
