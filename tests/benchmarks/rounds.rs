//! What a long campaign costs beside building and measuring: how `status` and `resume` start after many rounds, how much memory
//! the tool takes, and its own time a round. The judge is the puppet of `fixtures/bout`, whose launches take no time.
//!
//!     cargo bench --bench rounds [-- --rounds 100]

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark's main")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use git2::{IndexAddOption, Repository, Signature};
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

const RUNS: usize = 9;
const TOOL: &str = env!("CARGO_BIN_EXE_cargo-kopt");

/// Every third round gains one and a half per cent, the others lose as much.
const AGENT: &str = r#"
n=$(($1 - 1)); gains=$(((n + 2) / 3))
now=$(awk "BEGIN { print 0.985 ^ ($gains - 1) }")
if [ $((n % 3)) = 1 ]; then time=$(awk "BEGIN { print $now * 0.985 }"); else time=$(awk "BEGIN { print $now * 1.0$n }"); fi
sed -i "s/TIME=[^\"]*/TIME=$time;/" kernels/softmax.c
words=$(printf 'step%d idea%d thing%d way%d' "$n" "$n" "$n" "$n")
printf 'title = "%s"\nhypothesis = "%s"\n' "$words" "$words" > "$KOPT_ROUND_DIR/proposal.toml"
"#;

fn main() -> Result<(), Failure> {
    let rounds = rounds()?;
    let folder = tempfile::tempdir()?;
    let crate_folder = folder.path().join("bout");
    prepare(&crate_folder)?;
    let agent = folder.path().join("agent.sh");
    fs::write(&agent, AGENT)?;
    let agent = format!("sh {} {{round}}", agent.display());
    let all = rounds.to_string();
    let (seconds, peak) = watched(&crate_folder, &["optimize", "--yes", "--agent", &agent, "--max-rounds", &all])?;
    let campaigns = fs::read_dir(crate_folder.join(".kopt/campaigns"))?.flatten();
    let campaign = campaigns.map(|entry| entry.path()).find(|path| path.is_dir()).ok_or("no campaign")?;
    let text = fs::read_to_string(campaign.join("events.jsonl"))?;
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let count = |event: &str| events.iter().filter(|one| one["event"] == event).count();
    let sum = |event: &str| -> f64 {
        events.iter().filter(|one| one["event"] == event).filter_map(|one| one["seconds"].as_f64()).sum()
    };
    let (measured, proposed) = (sum("measured"), sum("proposed"));
    println!("| what | {rounds} rounds, {} accepted |\n|---|---|", count("accepted"));
    println!("| the campaign | {seconds:.1} s |");
    println!("| of it: the judge and its launches | {measured:.1} s |");
    println!("| of it: the agent | {proposed:.1} s |");
    let each = (seconds - measured - proposed) / rounds as f64;
    println!("| the rest, a round: compiling, `cargo test` of what is accepted, git, records | {each:.3} s |");
    for (what, share) in steps(&events) {
        println!("| of it: {what} | {share:.3} s |");
    }
    println!("| largest memory of the tool | {:.1} MiB |", peak as f64 / 1024.0);
    println!("| `events.jsonl` | {} events, {:.0} KiB |", events.len(), text.len() as f64 / 1024.0);
    let status = median(|| Ok(watched(&crate_folder, &["status"])?.0))?;
    println!("| `cargo kopt status`, median of {RUNS} | {status:.3} s |");
    println!("| the same in a workspace without campaigns | {:.3} s |", without(&crate_folder)?);
    println!("| `cargo kopt resume` until it has resumed, once | {:.3} s |", resumed(&crate_folder, &campaign, &text)?);
    Ok(())
}

fn rounds() -> Result<u32, Failure> {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().position(|word| word == "--rounds") {
        Some(index) => Ok(words.get(index + 1).ok_or("--rounds wants a number")?.parse()?),
        None => Ok(100),
    }
}

/// The crate in a repository of its own, with one commit.
fn prepare(place: &Path) -> Result<(), Failure> {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bout"), place)?;
    let source = place.join("kernels/softmax.c");
    let text = fs::read_to_string(&source)?;
    let mark = "#include \"softmax.h\"\n\n__attribute__((used)) static const char mark[] = \"TIME=1.000;\";\n";
    fs::write(&source, text.replace("#include \"softmax.h\"\n", mark))?;
    fs::write(place.join("judge"), "marked\nnoise 0.001\n")?;
    fs::write(place.join(".gitignore"), "target\n")?;
    let repository = Repository::init(place)?;
    let mut index = repository.index()?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None)?;
    index.write()?;
    let tree = repository.find_tree(index.write_tree()?)?;
    let who = Signature::now("Somebody", "somebody@example.org")?;
    repository.commit(Some("HEAD"), &who, &who, "first", &tree, &[])?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

fn start(folder: &Path, arguments: &[&str]) -> Result<Child, Failure> {
    let mut command = Command::new(TOOL);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.env_remove("CARGO_TARGET_DIR").spawn()?)
}

/// Seconds that the tool ran, and its largest memory in KiB. The system tells the latter of a process that is still there.
fn watched(folder: &Path, arguments: &[&str]) -> Result<(f64, u64), Failure> {
    let begun = Instant::now();
    let mut tool = start(folder, arguments)?;
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", tool.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        if let Some(status) = tool.try_wait()? {
            let seconds = begun.elapsed().as_secs_f64();
            return if status.success() { Ok((seconds, peak)) } else { Err(format!("{arguments:?}: {status}").into()) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Median time from one event to the next, by which two they are, where that is no measurement.
fn steps(events: &[Value]) -> Vec<(String, f64)> {
    let pairs = [
        ("round-began", "proposed", "asking, and storing the candidate (with the agent)"),
        ("measured", "accepted", "accepting: compiled anew, `cargo test`, commit"),
        ("rolled-back", "learned", "a rollback's summary"),
        ("learned", "round-began", "records stored, worktree put back"),
    ];
    let elapsed = |one: &Value| one["elapsed_s"].as_f64().unwrap_or(0.0);
    let step = |(from, to, what): (&str, &str, &str)| {
        let both = events.windows(2).filter(|pair| pair[0]["event"] == from && pair[1]["event"] == to);
        let times: Vec<f64> = both.map(|pair| elapsed(&pair[1]) - elapsed(&pair[0])).collect();
        (!times.is_empty()).then(|| (format!("{what}, median"), kopt_stats::median(&times)))
    };
    pairs.into_iter().filter_map(step).collect()
}

fn without(folder: &Path) -> Result<f64, Failure> {
    let aside = folder.join("kopt-aside");
    fs::rename(folder.join(".kopt"), &aside)?;
    let time = median(|| Ok(watched(folder, &["status"])?.0));
    fs::rename(aside, folder.join(".kopt"))?;
    time
}

/// As if the process had ended before the last round's lesson was stored: the time until `resumed` is written.
fn resumed(folder: &Path, campaign: &Path, text: &str) -> Result<f64, Failure> {
    let end = text.find("\"event\":\"ended\"").ok_or("it has not ended")?;
    let end = text[..end].rfind('\n').map_or(0, |place| place + 1);
    fs::write(campaign.join("events.jsonl"), &text[..end])?;
    let name = campaign.file_name().and_then(|name| name.to_str()).ok_or("not text")?;
    // The events that git has are more than these: with them, the file would be called damaged.
    Repository::open(folder)?.find_reference(&format!("refs/kopt/{name}/evidence"))?.delete()?;
    let begun = Instant::now();
    let mut tool = start(folder, &["resume", name])?;
    let seconds = loop {
        if fs::read_to_string(campaign.join("events.jsonl"))?.contains("\"event\":\"resumed\"") {
            break begun.elapsed().as_secs_f64();
        }
        if let Some(status) = tool.try_wait()? {
            return Err(format!("resume: {status}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    tool.wait()?;
    Ok(seconds)
}

fn median(run: impl Fn() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let times: Result<Vec<f64>, Failure> = (0..RUNS).map(|_| run()).collect();
    Ok(kopt_stats::median(&times?))
}
