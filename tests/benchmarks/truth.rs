//! What each patch of an example queue is really worth: `patches/truth.toml`, from a long interleaved measurement. It keeps the
//! figures of every machine.
//!
//!     cargo bench --bench truth -- -p rmsnorm-cpu [--launches 60] [--batch-ms 1.0] [--patch 04] [--also KEY]…
//!
//! Each patch is timed against the helping patches before it, in launches of fresh process pairs (see the harness's
//! `duel`). Rows are appended to `patches/truth.jsonl`, keyed by a digest of the measuring code and of both objects, so
//! that a run that is cut off goes on where it was, and rows of another version are never mixed in, unless somebody vouches
//! for it: `--also` names the measuring code (the key's first part) of rows that count too, and `truth.toml` says so. Run
//! it on a quiet machine, never beside a build.

#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../support/bench.rs"]
mod bench;
#[path = "../support/measuring.rs"]
#[allow(dead_code, reason = "shared with benchmarks of decisions")]
mod measuring;
#[path = "../support/queue.rs"]
mod queue;

use std::io::Write as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Backend, Manifest};
use kopt_schema::message::{Launch, Message};
use kopt_schema::queue::{Gain, MachineTruth, PatchTruth, ShapeTruth, Truth, TruthFile};
use kopt_stats::{gain_of_log, mean_interval};
use queue::{Applied, Failure};
use serde::{Deserialize, Serialize};

/// Launches asked of one run of the bench binary: what is lost at most when it is cut off.
const CHUNK: usize = 30;

/// Blocks a launch and shape.
const BLOCKS: usize = 2;

/// One launch of one patch.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    patch: String,
    /// Of the measuring code and both objects.
    key: String,
    device: String,
    date: String,
    first: String,
    /// What was timed; rows of before it was written down have none.
    #[serde(default)]
    shapes: Vec<String>,
    /// Mean logarithm of the old time over the new one, one number a shape.
    log_ratios: Vec<f64>,
    /// Seconds of the new one, one number a shape.
    seconds: Vec<f64>,
}

struct Arguments {
    packages: Vec<String>,
    launches: usize,
    batch_s: f64,
    /// Only patches whose names contain this; `truth.toml` is then left as it is.
    patch: Option<String>,
    /// Measuring code whose rows count too.
    also: Vec<String>,
}

fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    if arguments.packages.is_empty() {
        // A plain `cargo bench` runs every benchmark; this one wants hours and a quiet machine.
        eprintln!("truth: nothing to do; name a crate: -p rmsnorm-cpu");
    }
    let root = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for package in &arguments.packages {
        Queue::open(&root, package)?.measure(&arguments)?;
    }
    Ok(())
}

fn arguments() -> Result<Arguments, Failure> {
    let mut arguments = Arguments { packages: Vec::new(), launches: 60, batch_s: 1e-3, patch: None, also: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "-p" => arguments.packages.push(value()?),
            "--launches" => arguments.launches = value()?.parse()?,
            "--patch" => arguments.patch = Some(value()?),
            "--also" => arguments.also.push(value()?),
            "--batch-ms" => arguments.batch_s = value()?.parse::<f64>()? * 1e-3,
            // cargo bench says so itself.
            "--bench" => {}
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(arguments)
}

struct Queue {
    package: String,
    folder: Utf8PathBuf,
    manifest: Manifest,
    bench: Utf8PathBuf,
    code: String,
}

impl Queue {
    fn open(root: &Utf8Path, package: &str) -> Result<Self, Failure> {
        let (folder, manifest) = queue::example(root, package)?;
        let bench = bench::executable(root, package)?;
        let code = measuring_code(root, manifest.backend.name())?;
        Ok(Self { package: package.to_owned(), folder, manifest, bench, code })
    }

    fn measure(&self, arguments: &Arguments) -> Result<(), Failure> {
        let scratch = tempfile::tempdir()?;
        let scratch = Utf8Path::from_path(scratch.path()).ok_or("the temporary folder's name is not text")?;
        let cache = Cache::new(scratch.join("objects"));
        let order = |folder: &Utf8Path| Order { folder: folder.to_owned(), manifest: self.manifest.clone() };
        let mut truths = Vec::new();
        let (mut device, mut date) = (String::new(), String::new());
        for patch in queue::apply_all(&self.folder, scratch)? {
            let truth = patch.truth;
            let mut row = PatchTruth {
                patch: patch.name.clone(),
                truth,
                launches: 0,
                date: None,
                aggregate: None,
                shapes: Vec::new(),
            };
            let wanted = arguments.patch.as_deref().is_none_or(|part| row.patch.contains(part));
            if wanted && matches!(truth, Truth::Helps | Truth::Slower | Truth::NoOp) {
                let (old, new) = (cache.candidate(&order(&patch.before))?, cache.candidate(&order(&patch.after))?);
                let rows = self.rows(&patch, &old, &new, arguments)?;
                device = rows.last().map(|row| row.device.clone()).unwrap_or_default();
                // The day of the latest launch: all of them may be on file.
                row.date = rows.iter().map(|row| row.date.clone()).max();
                date = row.date.clone().into_iter().chain([date]).max().unwrap_or_default();
                self.summarise(&rows, &mut row);
            }
            if let Some(gain) = row.aggregate {
                eprintln!(
                    "{} {}: {:+.1} % [{:+.1}, {:+.1}] over {} launches ({truth:?})",
                    self.package,
                    row.patch,
                    100.0 * gain.gain,
                    100.0 * gain.low,
                    100.0 * gain.high,
                    row.launches
                );
            }
            truths.push(row);
        }
        if arguments.patch.is_some() {
            return Ok(());
        }
        let also: String = arguments.also.iter().map(|key| format!(" --also {key}")).collect();
        for row in &mut truths {
            row.date.take_if(|day| *day == date);
        }
        let (package, launches) = (&self.package, arguments.launches);
        let here = MachineTruth {
            device,
            date,
            command: format!("cargo bench --bench truth -- -p {package} --launches {launches}{also}"),
            note: None,
            patches: truths,
        };
        let path = self.folder.join("patches/truth.toml");
        let mut file: TruthFile = match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)?,
            Err(_) => TruthFile { format: kopt_schema::FORMAT_VERSION, machines: Vec::new() },
        };
        match file.machines.iter_mut().find(|machine| machine.device == here.device) {
            Some(machine) => *machine = here,
            None => file.machines.push(here),
        }
        // It has the figures of other machines, too: whole, or as it was.
        let new = path.with_extension("new");
        std::fs::write(&new, toml::to_string(&file)?)?;
        Ok(std::fs::rename(new, path)?)
    }

    /// All rows of a patch, measured until there are enough.
    fn rows(
        &self,
        patch: &Applied,
        old: &Utf8Path,
        new: &Utf8Path,
        arguments: &Arguments,
    ) -> Result<Vec<Row>, Failure> {
        let (old_key, new_key) = (source_digest(&patch.before, old)?, source_digest(&patch.after, new)?);
        let objects = format!("{}-{}", &old_key[..12], &new_key[..12]);
        let key = format!("{}-{objects}", self.code);
        let older: Vec<String> = arguments.also.iter().map(|code| format!("{code}-{objects}")).collect();
        let file = self.folder.join("patches/truth.jsonl");
        // A patch is worth something else on another processor.
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let here = (self.manifest.backend == Backend::Cpu).then(|| kopt_schema::machine::processor(&cpuinfo));
        let shapes: Vec<String> = self.manifest.shapes.iter().map(|shape| shape.name.clone()).collect();
        let mut rows = Vec::new();
        for line in std::fs::read_to_string(&file).unwrap_or_default().lines() {
            let row: Row = serde_json::from_str(line)?;
            let same_shapes = row.shapes.is_empty() || row.shapes == shapes;
            let counts = same_shapes && (row.key == key || older.contains(&row.key));
            if row.patch == patch.name && counts && here.as_ref().is_none_or(|here| *here == row.device) {
                rows.push(row);
            }
        }
        eprintln!("{} {}: {} launches are on file under {key}", self.package, patch.name, rows.len());
        while rows.len() < arguments.launches {
            let chunk = CHUNK.min(arguments.launches - rows.len());
            let launches = self.duel(old, new, chunk, arguments.batch_s)?;
            let mut out = std::fs::OpenOptions::new().create(true).append(true).open(&file)?;
            for launch in launches {
                let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                let row = Row {
                    patch: patch.name.clone(),
                    key: key.clone(),
                    device: launch.device,
                    date: today(),
                    first: launch.first,
                    shapes: shapes.clone(),
                    log_ratios: launch.cases.iter().map(|case| rounded(mean(&case.log_ratios), 1e6)).collect(),
                    seconds: launch.cases.iter().map(|case| rounded(case.b_s, 1e9)).collect(),
                };
                writeln!(out, "{}", serde_json::to_string(&row)?)?;
                rows.push(row);
            }
            eprintln!("{} {}: {} of {} launches", self.package, patch.name, rows.len(), arguments.launches);
        }
        Ok(rows)
    }

    fn duel(&self, a: &Utf8Path, b: &Utf8Path, launches: usize, batch_s: f64) -> Result<Vec<Launch>, Failure> {
        let order = tempfile::NamedTempFile::new()?;
        let text = serde_json::json!({ "a": a, "b": b, "launches": launches, "blocks": BLOCKS, "batch_s": batch_s });
        std::fs::write(&order, text.to_string())?;
        let order = order.path().to_str().ok_or("the temporary file's name is not text")?;
        let launch = |message| match message {
            Message::Launch(launch) => Some(launch),
            _ => None,
        };
        Ok(bench::run(&self.bench, &["--bench"], &[("KOPT_DUEL", order)])?.into_iter().filter_map(launch).collect())
    }

    fn summarise(&self, rows: &[Row], into: &mut PatchTruth) {
        let percent = |value: f64| rounded(value, 1e4);
        let interval = |logs: &[f64]| mean_interval(logs, 0.95).map(|log| percent(gain_of_log(log)));
        let mean = |row: &Row| row.log_ratios.iter().sum::<f64>() / row.log_ratios.len() as f64;
        let all = interval(&rows.iter().map(mean).collect::<Vec<_>>());
        into.launches = rows.len();
        into.aggregate = Some(Gain { gain: all.estimate, low: all.low, high: all.high });
        for (index, shape) in self.manifest.shapes.iter().enumerate() {
            let one = interval(&rows.iter().map(|row| row.log_ratios[index]).collect::<Vec<_>>());
            into.shapes.push(ShapeTruth {
                shape: shape.name.clone(),
                gain: one.estimate,
                low: one.low,
                high: one.high,
            });
        }
    }
}

fn rounded(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}

fn today() -> String {
    let output = Command::new("date").arg("+%Y-%m-%d").output().ok();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Digest of everything under `kernels` and of the compiler. Not of the object: a cubin names the folder it was compiled
/// in, and that is a new one in every run.
fn source_digest(folder: &Utf8Path, candidate: &Utf8Path) -> Result<String, Failure> {
    let candidate: Candidate = serde_json::from_slice(&std::fs::read(candidate)?)?;
    let mut files: Vec<Utf8PathBuf> = folder
        .join("kernels")
        .read_dir_utf8()?
        .map(|entry| Ok(entry?.into_path()))
        .collect::<Result<_, std::io::Error>>()?;
    files.sort();
    let mut digests = candidate.compiler;
    for file in files {
        digests += &kopt_build::digest_of_file(&file)?;
    }
    Ok(kopt_build::digest_of_bytes(digests.as_bytes()))
}

/// Digest of everything that decides a time: the lock step, the memory, the worker and the backend.
fn measuring_code(root: &Utf8Path, backend: &str) -> Result<String, Failure> {
    let common = ["duel.rs", "processor.rs", "memory.rs", "blueprint.rs", "arena.rs", "worker.rs", "contestant.rs"];
    let own = match backend {
        "cpu" => vec!["backend/cpu.rs", "backend/cpu/flush.rs"],
        _ => vec![
            "backend/gpu/mod.rs",
            "backend/gpu/device.rs",
            "backend/gpu/memory.rs",
            "backend/gpu/launch.rs",
            "backend/gpu/clock.rs",
            "backend/gpu/driver.rs",
            "backend/gpu/cuda.rs",
        ],
    };
    let files: Vec<String> = common.into_iter().chain(own).map(|file| format!("harness/src/runner/{file}")).collect();
    measuring::key(root, &files.iter().map(String::as_str).collect::<Vec<_>>())
}
