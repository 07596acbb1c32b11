//! Digests of the code that a benchmark's rows rest on: rows of another version are never counted.

#[path = "versions.rs"]
pub mod versions;

use camino::{Utf8Path, Utf8PathBuf};
use versions::Earlier;

type Failure = Box<dyn std::error::Error>;

/// Everything that measures and judges.
pub const REFEREE: [&str; 22] = [
    "harness/src/runner/arena.rs",
    "harness/src/runner/attempt.rs",
    "harness/src/runner/compare.rs",
    "harness/src/runner/prepare.rs",
    "harness/src/runner/judge",
    "harness/src/runner/processor.rs",
    "harness/src/runner/contestant.rs",
    "harness/src/runner/worker.rs",
    "harness/src/runner/memory.rs",
    "harness/src/runner/blueprint.rs",
    "harness/src/runner/sandbox",
    "harness/src/runner/backend/cpu.rs",
    "harness/src/runner/backend/cpu/ceilings.rs",
    "harness/src/runner/backend/cpu/fence.rs",
    "harness/src/runner/backend/cpu/flush.rs",
    "harness/src/runner/backend/cpu/stack.rs",
    "harness/src/runner/backend/cpu/stack",
    "harness/stats/src",
    "src/gate",
    "src/referee/ceilings.rs",
    "src/referee/mod.rs",
    "src/referee/course.rs",
];

/// And what more does where kernels run on a GPU.
const CUDA: [&str; 18] = [
    "harness/src/runner/backend/gpu/ceilings.rs",
    "harness/src/runner/backend/gpu/clock.rs",
    "harness/src/runner/backend/gpu/cuda.rs",
    "harness/src/runner/backend/gpu/cuda",
    "harness/src/runner/backend/gpu/device.rs",
    "harness/src/runner/backend/gpu/driver.rs",
    "harness/src/runner/backend/gpu/gauge.rs",
    "harness/src/runner/backend/gpu/launch.rs",
    "harness/src/runner/backend/gpu/matrix.cu",
    "harness/src/runner/backend/gpu/matrix.ptx",
    "harness/src/runner/backend/gpu/memory.rs",
    "harness/src/runner/backend/gpu/mod.rs",
    "harness/src/runner/backend/gpu/object.rs",
    "harness/src/runner/backend/gpu/recording.rs",
    "harness/src/runner/backend/gpu/table.cu",
    "harness/src/runner/backend/gpu/table.ptx",
    "harness/src/runner/backend/gpu/table.rs",
    "harness/src/runner/backend/gpu/tiles.rs",
];

/// And what more refuses exploits.
const AUDITS: [&str; 3] = ["src/audit", "src/sanitizer", "tests/exploits"];

/// What decisions on a GPU rest on.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn on_gpu() -> Vec<&'static str> {
    [&REFEREE[..], &CUDA].concat()
}

/// What the refusal of exploits rests on.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn of_exploits() -> Vec<&'static str> {
    [&REFEREE[..], &AUDITS].concat()
}

/// The same where they run on a GPU.
#[allow(dead_code, reason = "shared with benchmarks that have none")]
pub fn of_exploits_on_gpu() -> Vec<&'static str> {
    [&REFEREE[..], &CUDA, &AUDITS].concat()
}

/// Whether the row of a campaign or a gate with the key `row` counts where the code has the key `now`.
#[allow(dead_code, reason = "shared with benchmarks of single decisions")]
pub fn rules(row: &str, now: &str) -> bool {
    row == now || earlier(row, now).is_some_and(|earlier| earlier.campaigns.is_some())
}

/// Whether the row of a decision with the key `row` counts where the code has the key `now`.
#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
pub fn counts(row: &str, now: &str) -> bool {
    row == now || earlier(row, now).is_some()
}

#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
fn earlier(row: &str, now: &str) -> Option<&'static Earlier> {
    let kinds = [versions::PROCESSOR, versions::GPU, versions::EXPLOITS, versions::EXPLOITS_ON_GPU];
    kinds.into_iter().filter(|kind| kind.now == now).flat_map(|kind| kind.earlier).find(|earlier| earlier.key == row)
}

/// Digest of `code`, comments and tests aside: these change nothing.
pub fn key(root: &Utf8Path, code: &[&str]) -> Result<String, Failure> {
    let mut files = Vec::new();
    for path in code {
        gather(&root.join(path), &mut files)?;
    }
    files.sort();
    let mut all = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty());
        lines.for_each(|line| all.push_str(line));
    }
    Ok(kopt_build::digest_of_bytes(all.as_bytes())[..12].to_owned())
}

fn gather(path: &Utf8Path, files: &mut Vec<Utf8PathBuf>) -> Result<(), Failure> {
    let apart = ["tests", "tests.rs", "simulation.rs", "slowdown_simulation.rs", "words.rs"];
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in path.read_dir_utf8()? {
        let entry = entry?;
        if !apart.contains(&entry.file_name()) {
            gather(entry.path(), files)?;
        }
    }
    Ok(())
}
