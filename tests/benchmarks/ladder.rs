//! How far each step of an example queue gets against the machine: baseline, then every helping patch on top, cold, as
//! a share of the ceilings that the same run measured. Prints the Markdown table of example-kernels/README.md.
//!
//!     cargo bench --bench ladder -- -p rmsnorm-cpu --shape 2048x4096 [--shape …]
//!
//! Each step is measured three times in runs of their own, and the median run is shown: neighbours on a shared machine
//! disturb single runs. Run it on a quiet machine, never beside a build.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../support/bench.rs"]
mod bench;
#[path = "../support/queue.rs"]
mod queue;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_schema::message::{Cache as Temperature, Latency, Message};
use kopt_schema::queue::Truth;
use queue::Failure;

const RUNS: usize = 3;

fn main() -> Result<(), Failure> {
    let (mut packages, mut shapes) = (Vec::new(), Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-p" => packages.extend(words.next()),
            "--shape" => shapes.extend(words.next()),
            "--bench" => {}
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    if packages.is_empty() || shapes.is_empty() {
        eprintln!("ladder: nothing to do; name a crate and a shape: -p rmsnorm-cpu --shape 2048x4096");
    }
    let root = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    packages.iter().try_for_each(|package| ladder(&root, package, &shapes))
}

fn ladder(root: &Utf8Path, package: &str, shapes: &[String]) -> Result<(), Failure> {
    let (folder, manifest) = queue::example(root, package)?;
    let executable = bench::executable(root, package)?;
    let scratch = tempfile::tempdir()?;
    let scratch = Utf8Path::from_path(scratch.path()).ok_or("the temporary folder's name is not text")?;
    let cache = Cache::new(scratch.join("objects"));
    let applied = queue::apply_all(&folder, scratch)?;
    let mut steps = vec![("baseline".to_owned(), scratch.join("baseline"))];
    let helping = applied.into_iter().filter(|patch| patch.truth == Truth::Helps);
    steps.extend(helping.map(|patch| (patch.name.trim_end_matches(".patch").to_owned(), patch.after)));
    println!("| step | entry | shape | cold | rate | of the ceiling |\n|---|---|---|---|---|---|");
    for (name, folder) in steps {
        let candidate = cache.candidate(&Order { folder, manifest: manifest.clone() })?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(measure(&executable, &candidate, shapes)?);
        }
        for index in 0..runs[0].len() {
            let mut same: Vec<&Latency> = runs.iter().map(|run| &run[index]).collect();
            same.sort_by(|a, b| a.roofline_share.unwrap_or(0.0).total_cmp(&b.roofline_share.unwrap_or(0.0)));
            row(&name, same[RUNS / 2]);
        }
    }
    Ok(())
}

fn row(step: &str, latency: &Latency) {
    let rate = if latency.cost.flops > 10.0 * latency.cost.bytes() {
        format!("{:.1} GFLOP/s", latency.cost.flops / latency.median_s / 1e9)
    } else {
        format!("{:.1} GB/s", latency.cost.bytes() / latency.median_s / 1e9)
    };
    println!(
        "| {step} | {} | {} | {:.3} ms | {rate} | {:.0} % |",
        latency.entry,
        latency.case,
        latency.median_s * 1e3,
        100.0 * latency.roofline_share.unwrap_or(f64::NAN)
    );
}

fn measure(executable: &Utf8Path, candidate: &Utf8Path, shapes: &[String]) -> Result<Vec<Latency>, Failure> {
    let filter = format!("cold/({})$", shapes.join("|"));
    let messages = bench::run(executable, &["--bench", &filter], &[("KOPT_CANDIDATE", candidate.as_str()), ("KOPT_BENCH", "quick")])?;
    let latency = |message| match message {
        Message::Latency(latency) if latency.cache == Temperature::Cold && latency.entry != "step" => Some(latency),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(latency).collect())
}
