//! How far each step of an example queue gets against the machine: baseline, then every helping patch on top, cold, as
//! a share of the ceilings that the same run measured. Prints the Markdown table of example-kernels/README.md.
//!
//!     cargo bench --bench ladder -- -p rmsnorm-cpu --shape 1024x4096 [--shape …]
//!
//! The memory of a shared machine is not the same from one minute to the next (its copy rate was seen between 17 and 21
//! GB/s), so each of five runs measures the ceilings and the kernel in the same seconds, both by their best, and the
//! median of the five shares is shown. Run it on a quiet machine, never beside a build.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../support/bench.rs"]
mod bench;
#[path = "../support/queue.rs"]
mod queue;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_schema::message::{Ceilings, Latency, Message};
use kopt_schema::queue::Truth;
use queue::Failure;

const RUNS: usize = 5;

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
        eprintln!("ladder: nothing to do; name a crate and a shape: -p rmsnorm-cpu --shape 1024x4096");
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
    let baseline = applied.first().map(|patch| ("baseline".to_owned(), patch.before.clone()));
    let mut steps: Vec<_> = baseline.into_iter().collect();
    let helping = applied.into_iter().filter(|patch| patch.truth == Truth::Helps);
    steps.extend(helping.map(|patch| (patch.name.trim_end_matches(".patch").to_owned(), patch.after)));
    println!("| step | entry | shape | cold | rate | ceiling | share |\n|---|---|---|---:|---:|---:|---:|");
    for (name, folder) in steps {
        let candidate = cache.candidate(&Order { folder, manifest: manifest.clone() })?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(measure(&executable, &candidate, shapes)?);
        }
        for index in 0..runs[0].1.len() {
            row(&name, &runs, index);
        }
    }
    Ok(())
}

/// One line: the case `index` of every run.
fn row(step: &str, runs: &[(Ceilings, Vec<Latency>)], index: usize) {
    let first = &runs[0].1[index];
    let computes = first.cost.flops > 10.0 * first.cost.bytes();
    let (amount, unit) = if computes { (first.cost.flops, "GFLOP/s") } else { (first.cost.bytes(), "GB/s") };
    let best = |latency: &Latency| latency.samples.iter().copied().fold(f64::INFINITY, f64::min);
    let ceiling = |ceilings: &Ceilings| {
        if computes { ceilings.fma_flops_per_s.unwrap_or(f64::NAN) } else { ceilings.copy_bytes_per_s }
    };
    let of_runs = |figure: &dyn Fn(&Ceilings, &Latency) -> f64| {
        kopt_stats::median(&runs.iter().map(|(ceilings, cases)| figure(ceilings, &cases[index])).collect::<Vec<_>>())
    };
    println!(
        "| {step} | {} | {} | {:.3} ms | {:.1} {unit} | {:.1} | {:.0} % |",
        first.entry,
        first.case,
        1e3 * of_runs(&|_, latency| best(latency)),
        of_runs(&|_, latency| amount / best(latency) / 1e9),
        of_runs(&|ceilings, _| ceiling(ceilings) / 1e9),
        of_runs(&|ceilings, latency| 100.0 * amount / best(latency) / ceiling(ceilings)),
    );
}

fn measure(
    executable: &Utf8Path,
    candidate: &Utf8Path,
    shapes: &[String],
) -> Result<(Ceilings, Vec<Latency>), Failure> {
    let filter = format!("cold/({})$", shapes.join("|"));
    let variables = [("KOPT_CANDIDATE", candidate.as_str()), ("KOPT_BENCH", "quick")];
    let (mut ceilings, mut cases) = (None, Vec::new());
    for message in bench::run(executable, &["--bench", &filter], &variables)? {
        match message {
            Message::Ceilings(measured) => ceilings = Some(measured),
            Message::Latency(latency) if latency.entry != "step" => cases.push(latency),
            _ => {}
        }
    }
    Ok((ceilings.ok_or("no ceilings")?, cases))
}
