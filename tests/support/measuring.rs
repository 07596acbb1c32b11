//! Digests of the code that a benchmark's rows rest on: rows of another version are never counted.

use camino::{Utf8Path, Utf8PathBuf};

type Failure = Box<dyn std::error::Error>;

/// Everything that measures and judges.
pub const REFEREE: [&str; 14] = [
    "harness/src/runner/judge",
    "harness/src/runner/contestant.rs",
    "harness/src/runner/worker.rs",
    "harness/src/runner/memory.rs",
    "harness/src/runner/blueprint.rs",
    "harness/src/runner/sandbox",
    "harness/src/runner/backend/cpu.rs",
    "harness/src/runner/backend/cpu/fence.rs",
    "harness/src/runner/backend/cpu/stack.rs",
    "harness/src/runner/backend/cpu/stack",
    "harness/stats/src",
    "src/gate",
    "src/referee/mod.rs",
    "src/referee/course.rs",
];

/// And what more does where kernels run on a GPU.
const CUDA: [&str; 13] = [
    "harness/src/runner/backend/gpu/clock.rs",
    "harness/src/runner/backend/gpu/cuda.rs",
    "harness/src/runner/backend/gpu/device.rs",
    "harness/src/runner/backend/gpu/driver.rs",
    "harness/src/runner/backend/gpu/gauge.rs",
    "harness/src/runner/backend/gpu/launch.rs",
    "harness/src/runner/backend/gpu/memory.rs",
    "harness/src/runner/backend/gpu/mod.rs",
    "harness/src/runner/backend/gpu/object.rs",
    "harness/src/runner/backend/gpu/recording.rs",
    "harness/src/runner/backend/gpu/table.cu",
    "harness/src/runner/backend/gpu/table.ptx",
    "harness/src/runner/backend/gpu/table.rs",
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

/// Versions whose rows count for this one: their key, this one's, and why. What differs must not reach what the rows rest on.
#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
pub const AS_GOOD_AS: [(&str, &str, &str); 15] = [
    (
        "bce47da87269",
        "2047c349ecb2",
        "decisions on the CPU: since then a gate needs two launches to call a slowdown gross, a judge compares the digest of an object with the one \
         that the referee names, and may take longer to check a candidate; none of these is a gate's; and as below",
    ),
    (
        "29dca9de40e6",
        "2047c349ecb2",
        "decisions on the CPU: since then calls find contents of several distributions instead of one and their memory mapped before, may not return from \
         signals, and find more of the processor's state as it was at first, for both versions alike; rows of this version stand beside those",
    ),
    (
        "d4fab778542a",
        "417c1fc0a6df",
        "decisions on a GPU: since then a process that sanitizers watch can make calls whose buffers are apart, which no worker does; and as above",
    ),
    (
        "139a10e86a81",
        "c8789a7f30b3",
        "exploits: since then the sanitizers have a part for device code and see calls on more shapes, and an object that cannot be read is refused: \
         what was refused is, for the same reasons or for one more",
    ),
    (
        "0946c665c16c",
        "417c1fc0a6df",
        "decisions on a GPU: since then a judge on the CPU flushes the caches and asks for one call at a time, and a gain there that the books of \
         processor time leave in doubt gets more launches; a GPU's batches are one request as before, and nobody books them. A confirmation may be \
         shorter where a screen was clear, by a rule that was simulated; equal code that passes no screen has none",
    ),
    (
        "927984a444f3",
        "c8789a7f30b3",
        "exploits: since then the judge flushes the caches where the worker did, and asks for one call at a time; contents, orders and what is compared \
         are the same, and the books count less beside the calls. `tests/exploits.rs` refuses each, with and without the audit, in this version too",
    ),
    (
        "8d10f9302eb4",
        "417c1fc0a6df",
        "decisions on a GPU: since then a judge compares on the host by bounds in f32, and asks for huge pages of the host earlier; these have device memory",
    ),
    (
        "f22c2ade1849",
        "c8789a7f30b3",
        "exploits: since then the judge deals and compares with fewer passes over its memory, and asks for huge pages earlier; what is dealt, and what is right, is the same",
    ),
    (
        "9d6c94dd36e6",
        "417c1fc0a6df",
        "decisions on a GPU: since then a gate looks at its confirmation up to three times; none of these is a gate's",
    ),
    (
        "169c70a64769",
        "c8789a7f30b3",
        "exploits: since then a gate looks at its confirmation up to three times; these are comparisons for gains",
    ),
    (
        "cd7594c74685",
        "417c1fc0a6df",
        "decisions on a GPU: since then memory of the host is moved by several threads, batches of 5 to 15 ms are timed twice a \
         launch, gates leave out shapes, an accept is traced less, and ceilings are doubted before the trace instead of after it; \
         these have device memory and batches of a millisecond, and none is a gate's or was traced; and as below",
    ),
    (
        "b355adbca461",
        "417c1fc0a6df",
        "decisions on a GPU: since then CUDA's driver is called through a trait that HIP's implements too, with the same calls in the \
         same order, the judge's PTX is the same but for its digest, and batches above 15 ms, which these do not have, are timed once; and as below",
    ),
    (
        "e5d640d58909",
        "417c1fc0a6df",
        "decisions on a GPU: since then what looks like memory in a trace is looked at again from 2 % on instead of 1 %; none of these \
         was traced; and as above",
    ),
    (
        "68120f3e710e",
        "c8789a7f30b3",
        "exploits: since then a trace that leaves a doubt is repeated, and these are decided without a trace; and as below",
    ),
    (
        "6cd05a50dc07",
        "c8789a7f30b3",
        "exploits: since then the judge has another path for the module of GPUs, and one block instead of two for batches above 15 ms, \
         which these, of one small shape each, do not have; none was traced",
    ),
];

/// Whether a row with the key `row` counts where the code has the key `now`.
#[allow(dead_code, reason = "shared with benchmarks whose rows are of one version")]
pub fn counts(row: &str, now: &str) -> bool {
    row == now || AS_GOOD_AS.iter().any(|(then, since, _)| (*then, *since) == (row, now))
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
