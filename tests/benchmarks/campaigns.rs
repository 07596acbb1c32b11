//! Whole campaigns on the examples, each with the crate's own queue in a clone of this repository: which patches were
//! accepted, beside what each is really worth on that machine (`patches/truth.toml`). One that needs a
//! device is held where it is named.
//!
//!     cargo bench --bench campaigns -- [--minutes 30] [--only softmax-cpu] [--report]
//!
//! Each campaign is one row of `campaigns.jsonl` beside this file, keyed by a digest of everything that measures and judges:
//! a run that is cut off goes on where it was. The clone is of the last commit: commit first. Run it on a quiet machine.

#![allow(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../support/measuring.rs"]
mod measuring;
#[path = "../support/resumable.rs"]
mod resumable;
#[path = "../support/worth.rs"]
mod worth;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::campaign::folder::Home;
use cargo_kopt::campaign::journal;
use cargo_kopt::ledger::{Round, State};
use kopt_schema::queue::{PatchHeader, PatchTruth};
use resumable::Arguments;
use serde::{Deserialize, Serialize};
use worth::Wanted;

type Failure = Box<dyn std::error::Error>;

const KERNELS: [&str; 4] = ["rmsnorm-cpu", "softmax-cpu", "matmul-cpu", "grouped-matmul-cpu"];

const ON_A_GPU: [&str; 7] = [
    "rmsnorm-cuda",
    "softmax-cuda",
    "cross-entropy-cuda",
    "decode-attention-cuda",
    "matmul-cuda",
    "grouped-matmul-cuda",
    "softmax-triton",
];

/// Campaigns that each kernel wants, and each on a GPU.
const WANTED: usize = 5;
const WANTED_ON_A_GPU: usize = 1;

/// A campaign.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    key: String,
    kernel: String,
    date: String,
    /// Where the kernel ran.
    #[serde(default)]
    device: String,
    /// Seconds of the campaign, the judge's build among them.
    seconds: f64,
    /// Of these, until the baseline was measured.
    baseline_s: f64,
    /// The longest from an accept by the referee to its commit: compiling anew, sanitizers, the training step, `cargo test`.
    #[serde(default)]
    accepting_s: f64,
    /// The whole gain, measured.
    total: Option<f64>,
    /// Each patch and what became of it.
    patches: BTreeMap<String, String>,
    /// Digest of the queue; rows of before it was written down have none, and are known by the names of their patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// What else ran on the machine meanwhile, where somebody knows: such a row is told, and does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disturbed: Option<String>,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let root = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let keys = [measuring::key(&root, &measuring::REFEREE)?, measuring::key(&root, &measuring::on_gpu())?];
    let key = |kernel: &str| &keys[usize::from(ON_A_GPU.contains(&kernel))];
    let named = |kernel: &&str| arguments.only.as_deref() == Some(*kernel);
    let kernels: Vec<&str> = KERNELS
        .into_iter()
        .filter(|kernel| arguments.wants(kernel))
        .chain(ON_A_GPU.into_iter().filter(named))
        .collect();
    let file = root.join("tests/benchmarks/campaigns.jsonl");
    let mut rows: Vec<Row> = resumable::rows(&file, |row: &Row| measuring::rules(&row.key, key(&row.kernel)))?;
    rows.iter_mut().try_for_each(|row| mark_elsewhere(&root, row))?;
    let until = arguments.until();
    // Those of another machine stand beside the ones of this, and do not replace them.
    let here = kopt_schema::machine::processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let (mut machines, mut queues) = (BTreeMap::new(), BTreeMap::new());
    for kernel in &kernels {
        queues.insert(*kernel, queue(&root, kernel)?);
        let mut devices: Vec<String> = worth::truths(&root, kernel)?.into_iter().map(|truth| truth.device).collect();
        let own = devices.iter().position(|device| *device == here).unwrap_or(0);
        machines.insert(*kernel, (!devices.is_empty()).then(|| devices.swap_remove(own)));
    }
    while Instant::now() < until {
        let missing = |kernel: &str| {
            let wanted = if ON_A_GPU.contains(&kernel) { WANTED_ON_A_GPU } else { WANTED };
            let there = |row: &Row| machines[kernel].as_ref().is_none_or(|device| *device == row.device);
            // A queue that has changed has had no campaign yet.
            let of_today = |row: &Row| match (&row.queue, &queues[kernel]) {
                (Some(digest), (today, _)) => digest == today,
                (None, (_, names)) => row.patches.keys().eq(names.iter()),
            };
            let counts = |row: &&Row| row.kernel == kernel && row.disturbed.is_none() && there(row) && of_today(row);
            wanted.saturating_sub(rows.iter().filter(counts).count())
        };
        let next = kernels.iter().rev().max_by_key(|kernel| missing(kernel));
        let Some(kernel) = next.filter(|kernel| missing(kernel) > 0) else {
            eprintln!("every kernel has the campaigns it wants");
            break;
        };
        let queue = Some(queues[kernel].0.clone());
        let row = Row { key: key(kernel).clone(), queue, ..campaign(&root, kernel)? };
        eprintln!("{kernel}: {:.0} s, total {:+.1} %", row.seconds, 100.0 * row.total.unwrap_or(0.0));
        resumable::append(&file, &row)?;
        rows.push(row);
        rows.iter_mut().try_for_each(|row| mark_elsewhere(&root, row))?;
    }
    if arguments.report {
        println!("{}", tables(&root, &kernels, &rows)?);
    }
    Ok(())
}

/// Marks a row of a machine that no truth is of: what a patch is worth on one need not be what it is worth on another.
fn mark_elsewhere(root: &Utf8Path, row: &mut Row) -> Result<(), Failure> {
    let truths = worth::truths(root, &row.kernel)?;
    if !truths.is_empty() && truths.iter().all(|truth| truth.device != row.device) {
        row.disturbed.get_or_insert(format!("on {}, where truth was not measured", row.device));
    }
    Ok(())
}

/// Runs one in a clone that is kept for the next, with what was built in it.
fn campaign(root: &Utf8Path, kernel: &str) -> Result<Row, Failure> {
    // Those on a device may be held beside each other, which one clone would not bear.
    let place = match ON_A_GPU.contains(&kernel) {
        true => root.join(format!("target/kopt-campaigns-{kernel}")),
        false => root.join("target/kopt-campaigns"),
    };
    let head = git2::Repository::open(root)?.head()?.peel_to_commit()?.id();
    let repository = match git2::Repository::open(&place) {
        Ok(repository) => repository,
        Err(_) => git2::Repository::clone(root.as_str(), place.as_std_path())?,
    };
    repository.remote_anonymous(root.as_str())?.fetch(&["+refs/heads/*:refs/remotes/origin/*"], None, None)?;
    repository.set_head_detached(head)?;
    repository.checkout_head(Some(git2::build::CheckoutBuilder::new().force()))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kopt"));
    command.args(["optimize", "-p", kernel, "--yes", "--new", "-q"]).current_dir(&place);
    for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"] {
        command.env_remove(name);
    }
    let status = command.status()?;
    if !status.success() {
        return Err(format!("the campaign on {kernel} ended with {status}").into());
    }
    let campaigns = Home::of(&place).campaigns();
    let (folder, target) =
        campaigns.iter().rev().find(|(_, target)| target.kernel == kernel).ok_or("there is no campaign")?;
    eprintln!("`cargo kopt verify kopt/{} --all` in {place} measures its commits once more", target.campaign);
    let state = journal::look(&folder.events()).map_err(|error| error.to_string())?;
    Ok(Row {
        key: String::new(),
        kernel: kernel.to_owned(),
        date: target.created[..10].to_owned(),
        device: target.target_device.clone(),
        seconds: (10.0 * state.elapsed_s).round() / 10.0,
        baseline_s: (10.0 * state.rounds.first().map_or(0.0, |round| round.began_s)).round() / 10.0,
        accepting_s: accepting(&std::fs::read_to_string(folder.events())?),
        total: state.reported.as_ref().and_then(|reported| reported.total).map(|total| total.gain),
        patches: patches(&state),
        queue: None,
        disturbed: None,
    })
}

/// The longest from a measurement to the accept that follows on it, in a campaign's events.
fn accepting(events: &str) -> f64 {
    let (mut measured, mut longest) = (None, 0.0_f64);
    for event in events.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        match (event["event"].as_str(), event["elapsed_s"].as_f64(), measured) {
            (Some("measured"), at, _) => measured = at,
            (Some("accepted"), Some(at), Some(since)) => longest = longest.max(at - since),
            _ => {}
        }
    }
    (10.0 * longest).round() / 10.0
}

fn patches(state: &State) -> BTreeMap<String, String> {
    let source = |round: &Round| {
        let refused = round.attempts.iter().find_map(|attempt| attempt.refused.as_ref()?.source.clone());
        round.proposal().and_then(|proposal| proposal.source.clone()).or(refused)
    };
    state.rounds.iter().filter_map(|round| Some((source(round)?, round.name()))).collect()
}

/// The digest of a kernel's queue, and the names of its patches, in order.
fn queue(root: &Utf8Path, kernel: &str) -> Result<(String, Vec<String>), Failure> {
    let folder = root.join("example-kernels").join(kernel).join("patches");
    let files: Result<Vec<_>, _> = folder.read_dir_utf8()?.collect();
    let mut names: Vec<String> = files?.iter().map(|file| file.file_name().to_owned()).collect();
    names.retain(|name| name.ends_with(".patch"));
    names.sort();
    let mut text = Vec::new();
    for name in &names {
        text.extend(std::fs::read(folder.join(name))?);
    }
    Ok((kopt_build::digest_of_bytes(&text)[..12].to_owned(), names))
}

/// What is known of the patches of a queue that nobody has measured: what their headers say.
fn said(root: &Utf8Path, kernel: &str) -> Result<Vec<PatchTruth>, Failure> {
    let folder = root.join("example-kernels").join(kernel).join("patches");
    let mut truths = Vec::new();
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        let patch = entry.file_name().to_owned();
        if patch.ends_with(".patch") {
            let header = PatchHeader::parse(&std::fs::read_to_string(entry.path())?)?;
            let truth = header.truth.ok_or_else(|| format!("{patch}: no Truth"))?;
            truths.push(PatchTruth { patch, truth, launches: 0, date: None, aggregate: None, shapes: Vec::new() });
        }
    }
    truths.sort_by(|one, other| one.patch.cmp(&other.patch));
    Ok(truths)
}

/// A table a kernel and machine, a row a patch: its worth there, and how often it was accepted.
fn tables(root: &Utf8Path, kernels: &[&str], rows: &[Row]) -> Result<String, Failure> {
    let mut text = String::new();
    for kernel in kernels {
        let (of_kernel, disturbed): (Vec<&Row>, Vec<&Row>) =
            rows.iter().filter(|row| row.kernel == *kernel).partition(|row| row.disturbed.is_none());
        let mut truths: Vec<(String, Vec<PatchTruth>)> =
            worth::truths(root, kernel)?.into_iter().map(|truth| (truth.device, truth.patches)).collect();
        if truths.is_empty() {
            let devices: BTreeSet<&String> = of_kernel.iter().map(|row| &row.device).collect();
            let said = said(root, kernel)?;
            truths.extend(devices.into_iter().map(|device| (device.clone(), said.clone())));
        }
        for (device, patches) in truths {
            let there: Vec<&Row> = of_kernel.iter().copied().filter(|row| row.device == device).collect();
            if !there.is_empty() {
                text.push_str(&table(kernel, &device, &patches, &there));
            }
        }
        for row in disturbed {
            let why = row.disturbed.as_deref().unwrap_or_default();
            let accepted = row.patches.iter().filter(|(_, name)| name.starts_with("ACCEPTED"));
            let accepted: Vec<&str> = accepted.map(|(patch, _)| patch.as_str()).collect();
            text.push_str(&format!("\nNot counted, {why}: {:.0} s, accepted {}\n", row.seconds, accepted.join(", ")));
        }
    }
    Ok(text)
}

fn table(kernel: &str, device: &str, patches: &[PatchTruth], rows: &[&Row]) -> String {
    let longest = rows.iter().fold(0.0_f64, |longest, row| longest.max(row.accepting_s));
    let times: Vec<String> = rows.iter().map(|row| format!("{:.0}", row.seconds)).collect();
    let totals: Vec<String> = rows.iter().map(|row| format!("{:+.0} %", 100.0 * row.total.unwrap_or(0.0))).collect();
    let mut text = format!(
        "\n{kernel} on {device}: {} campaigns, seconds {}; longest from an accept to its commit {longest:.1} s; total {}\n\n| patch | is | gain | accepted | otherwise |\n|---|---|---:|---:|---|\n",
        rows.len(),
        times.join(", "),
        totals.join(", ")
    );
    patches.iter().for_each(|patch| text.push_str(&line(patch, rows)));
    text
}

/// A patch's name without its place in the queue, which may have been another when a campaign was held.
fn unnumbered(patch: &str) -> &str {
    patch.split_once('-').map_or(patch, |(_, name)| name)
}

fn line(patch: &PatchTruth, rows: &[&Row]) -> String {
    // One that stands on what was rolled back says nothing of itself.
    let judged = |name: &&String| !name.ends_with("does not apply");
    let is_it = |name: &str| unnumbered(name) == unnumbered(&patch.patch);
    let outcomes = rows.iter().filter_map(|row| row.patches.iter().find(|(name, _)| is_it(name)));
    let outcomes: Vec<&String> = outcomes.map(|(_, outcome)| outcome).filter(judged).collect();
    let accepted = outcomes.iter().filter(|name| name.starts_with("ACCEPTED")).count();
    let mut others: Vec<String> =
        outcomes.iter().filter(|name| !name.starts_with("ACCEPTED")).map(|name| (*name).clone()).collect();
    others.sort();
    others.dedup();
    let gain = patch.aggregate.map_or(f64::NAN, |aggregate| aggregate.gain);
    let wrong = match worth::wanted(patch) {
        Wanted::Never => accepted > 0,
        Wanted::Always => accepted < outcomes.len(),
        Wanted::Mostly | Wanted::Pays | Wanted::Either => false,
    };
    let shown = if gain.is_nan() { String::new() } else { format!("{:+.1} %", 100.0 * gain) };
    let mark = if wrong { " **wrong**" } else { "" };
    format!(
        "| {} | {:?} | {shown} | {accepted} of {}{mark} | {} |\n",
        patch.patch,
        patch.truth,
        outcomes.len(),
        others.join(", ")
    )
}
