//! How often the gate is right: whole decisions with real processes, on the CPU examples with their whole queues: the same
//! source built into other code, and that with a slowdown injected in all shapes or in one.
//!
//!     cargo bench --bench gates -- [--minutes 30] [--only same] [--report]
//!
//! Each decision is one row of `gates.jsonl` beside this file, keyed by a digest of everything that measures and judges: a
//! run that is cut off goes on where it was, and rows of another version are never counted. Run it on a quiet machine.
//! The evidence of each decision stays under `target/kopt-gates`, for `cargo kopt verdict` and whoever wonders about one.

#![allow(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../support/bench.rs"]
#[allow(dead_code, reason = "shared with other benchmarks")]
mod bench;
#[path = "../support/measuring.rs"]
mod measuring;
#[path = "../support/queue.rs"]
#[allow(dead_code, reason = "shared with other benchmarks")]
mod queue;
#[path = "../support/resumable.rs"]
mod resumable;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::gate;
use cargo_kopt::machine::Moment;
use cargo_kopt::manifest::{Found, Kernel};
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::entrant::{self, Entrant, Version};
use cargo_kopt::referee::seeds::Master;
use cargo_kopt::referee::{Limits, Match};
use cargo_kopt::workspace::Workspace;
use kopt_schema::bout::Handicap;
use kopt_schema::evidence::{Evidence, Injection, Ruling, Terms};
use kopt_schema::queue::Truth;
use kopt_stats::{clopper_pearson, median};
use resumable::Arguments;
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error>;

const KERNELS: [&str; 4] = ["rmsnorm-cpu", "softmax-cpu", "matmul-cpu", "grouped-matmul-cpu"];

/// The tolerance and the time that are the command's own.
const TOLERANCE: f64 = 0.02;
const TIME_S: f64 = 180.0;

/// What is gated.
struct Kind {
    name: &'static str,
    /// The slowdown that is injected, as a share.
    slower: Option<f64>,
    /// Into one shape only.
    in_one: bool,
    /// Decisions wanted over all kernels.
    wanted: usize,
    /// What must come of it.
    bar: &'static str,
}

const KINDS: [Kind; 4] = [
    kind("same", None, false, 100, "none fails, at most 2 cannot be told"),
    kind("slower-5", Some(0.05), false, 100, "at least 95 fail"),
    kind("slower-5-in-one", Some(0.05), true, 40, "fail"),
    kind("slower-3", Some(0.03), false, 20, "fail, or cannot be told"),
];

const fn kind(name: &'static str, slower: Option<f64>, in_one: bool, wanted: usize, bar: &'static str) -> Kind {
    Kind { name, slower, in_one, wanted, bar }
}

/// A kind of decision on a kernel.
struct Scenario {
    name: String,
    kernel: &'static str,
    kind: &'static Kind,
}

/// What must not come of an honest kernel.
const ACCUSED: &str = "accused";

/// A decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    key: String,
    /// `same softmax-cpu`.
    scenario: String,
    date: String,
    /// `passed`, `failed` or `cannot tell`.
    outcome: String,
    /// Why, in a line.
    why: String,
    launches: usize,
    sigma: f64,
    /// The shape whose launches differ most, and by how much.
    noisiest: String,
    load: f64,
    seconds: f64,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let root = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let key = measuring::key(&root, &measuring::REFEREE)?;
    let file = root.join("tests/benchmarks/gates.jsonl");
    let mut rows: Vec<Row> = resumable::rows(&file, |row: &Row| measuring::rules(&row.key, &key))?;
    if arguments.minutes > 0.0 {
        measure(&root, &key, &file, &mut rows, &arguments)?;
    }
    if arguments.report {
        println!("{}", table(&rows));
    }
    Ok(())
}

/// Makes decisions until the time is up, always of the scenario that has least of those it wants.
fn measure(
    root: &Utf8Path,
    key: &str,
    file: &Utf8Path,
    rows: &mut Vec<Row>,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let until = arguments.until();
    let context = Context::of_process().map_err(|error| error.to_string())?;
    let interrupts = Interrupts::watch().map_err(|error| error.to_string())?;
    let scratch = tempfile::tempdir()?;
    let scratch = Utf8Path::from_path(scratch.path()).ok_or("the temporary folder's name is not text")?;
    let mut halls: BTreeMap<&str, Hall> = BTreeMap::new();
    let all = KERNELS.into_iter().flat_map(|kernel| {
        KINDS.iter().map(move |kind| Scenario { name: format!("{} {kernel}", kind.name), kernel, kind })
    });
    let scenarios: Vec<Scenario> = all.filter(|one| arguments.wants(&one.name)).collect();
    while Instant::now() < until {
        let share = |scenario: &&Scenario| {
            let goal = scenario.kind.wanted.div_ceil(KERNELS.len());
            rows.iter().filter(|row| row.scenario == scenario.name).count() as f64 / goal as f64
        };
        let Some(next) = scenarios.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else { break };
        if share(&next) >= 1.0 {
            eprintln!("every scenario has the decisions it wants");
            break;
        }
        let Scenario { name, kernel, kind } = next;
        if !halls.contains_key(kernel) {
            halls.insert(kernel, Hall::open(root, kernel, &context, scratch)?);
        }
        let evidence = halls[kernel].decide(kind, &context, &interrupts)?;
        let row = Row { key: key.to_owned(), scenario: name.clone(), ..row(&evidence) };
        let kept = root.join("target/kopt-gates");
        std::fs::create_dir_all(&kept)?;
        let moment = Moment::now().compact();
        let path = kept.join(format!("{}-{moment}.json", name.replace(' ', "-")));
        std::fs::write(path, serde_json::to_vec(&evidence)?)?;
        eprintln!(
            "{:32} {:12} {} launches, {:.1} s, noisiest {}: {}",
            row.scenario, row.outcome, row.launches, row.seconds, row.noisiest, row.why
        );
        if row.outcome == ACCUSED {
            return Err(format!("an honest kernel is accused: {}", row.why).into());
        }
        resumable::append(file, &row)?;
        rows.push(row);
        if let Some(signal) = interrupts.signal() {
            Interrupts::obey(signal);
        }
    }
    Ok(())
}

fn row(evidence: &Evidence) -> Row {
    let outcome = match evidence.verdict.ruling {
        Ruling::Accepted | Ruling::AcceptedTradeOff => "passed",
        Ruling::RolledBack | Ruling::Overfit => "failed",
        Ruling::RolledBackNoise | Ruling::Contaminated => "cannot tell",
        Ruling::Incorrect | Ruling::IntegrityViolation => ACCUSED,
    };
    Row {
        key: String::new(),
        scenario: String::new(),
        date: Moment::now().minute().split(' ').next().unwrap_or_default().to_owned(),
        outcome: outcome.to_owned(),
        why: evidence.verdict.reasons.first().cloned().unwrap_or_default(),
        launches: evidence.verdict.launches,
        sigma: evidence.verdict.aggregate.map_or(0.0, |aggregate| (1e6 * aggregate.launch_sigma).round() / 1e6),
        noisiest: noisiest(evidence),
        load: evidence.machine.load_before,
        seconds: (100.0 * evidence.seconds).round() / 100.0,
    }
}

fn noisiest(evidence: &Evidence) -> String {
    let shapes = evidence.verdict.shapes.iter();
    let most = shapes.max_by(|a, b| a.estimate.launch_sigma.total_cmp(&b.estimate.launch_sigma));
    most.map_or_else(String::new, |shape| format!("{} {:.2} %", shape.shape, 100.0 * shape.estimate.launch_sigma))
}

/// A kernel crate with its judge and two builds of its source.
struct Hall {
    kernel: Kernel,
    judge: Utf8PathBuf,
    versions: [Entrant; 2],
}

impl Hall {
    fn open(root: &Utf8Path, package: &str, context: &Context, scratch: &Utf8Path) -> Result<Self, Failure> {
        let judge = bench::executable(root, package)?;
        let workspace = Workspace::find(context, Some(&root.join("Cargo.toml"))).map_err(|error| error.to_string())?;
        let member = workspace.member(package).ok_or_else(|| format!("no package {package}"))?;
        let kernel = Found::read(context, &workspace, &[member]).kernels.pop().ok_or("not a kernel crate")?;
        let applied = queue::apply_all(&kernel.member.folder, &scratch.join(package).join("queue"))?;
        let tip = applied.into_iter().rfind(|patch| patch.truth == Truth::Helps).ok_or("no patch helps")?.after;
        let mut kernel = kernel;
        kernel.member.folder.clone_from(&tip);
        let other = scratch.join(package).join("head");
        std::fs::create_dir_all(other.join("kernels"))?;
        for entry in tip.join("kernels").read_dir_utf8()? {
            let entry = entry?;
            std::fs::copy(entry.path(), other.join("kernels").join(entry.file_name()))?;
        }
        // A function that nobody calls, behind the others: other code, and not one instruction of the kernel's differs.
        let source = other.join(kernel.manifest.compiled().next().ok_or("no source")?);
        let text = std::fs::read_to_string(&source)?;
        let more = "\n__attribute__((used)) static int bystander(int value) { return value * 3 + 1; }\n";
        std::fs::write(&source, text + more)?;
        let mut changed = kernel.clone();
        changed.member.folder = other;
        let version = |kernel, name: &str| {
            let name = name.to_owned();
            Version { kernel, revision: name.clone(), name: name.clone(), shown: name }
        };
        let both = [version(&kernel, "base"), version(&changed, "head")];
        let built = entrant::compile(&scratch.join("objects"), &both).map_err(|error| error.to_string())?;
        let versions: [Entrant; 2] = built.try_into().map_err(|_| "two versions did not compile to two")?;
        if versions[0].side.code == versions[1].side.code {
            return Err("both compile to the same code".into());
        }
        Ok(Self { kernel, judge, versions })
    }

    fn decide(&self, kind: &Kind, context: &Context, interrupts: &Interrupts) -> Result<Evidence, Failure> {
        let shapes: Vec<String> = self.kernel.manifest.shapes.iter().map(|shape| shape.name.clone()).collect();
        let one = getrandom::u64()? as usize % shapes.len();
        let case = kind.in_one.then(|| shapes[one].clone());
        let injected = kind.slower.map(|share| Injection { contestant: 1, handicap: Handicap { case, share } });
        let found = Match {
            kernel: &self.kernel,
            incumbent: &self.versions[0],
            candidate: &self.versions[1],
            shapes,
            left_out: Vec::new(),
            terms: Terms { max_time_s: TIME_S, ..gate::gate_terms(TOLERANCE)? },
            seed: Master::secret().map_err(|error| error.to_string())?,
            check: false,
            injected: injected.into_iter().collect(),
            without: Vec::new(),
            ceilings: None,
            even_if_identical: false,
            limits: Limits::default(),
        }
        .hold(context, interrupts, &self.judge, &mut |_| Ok(()));
        found.map_err(|error| error.to_string().into())
    }
}

/// The table of the README.
fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what | bar | failed | cannot tell | passed | median launches | median seconds |\n|---|---|---|---|---|---|---|\n",
    );
    for Kind { name: kind, bar, .. } in &KINDS {
        let of: Vec<&Row> = rows.iter().filter(|row| row.scenario.split(' ').next() == Some(*kind)).collect();
        let share = |outcome: &str| {
            let count = of.iter().filter(|row| row.outcome == outcome).count();
            let (low, high) = clopper_pearson(count as u64, of.len() as u64, 0.95);
            format!("{count} of {} ({:.1} to {:.1} %)", of.len(), 100.0 * low, 100.0 * high)
        };
        let middle = |value: fn(&Row) -> f64| median(&of.iter().map(|row| value(row)).collect::<Vec<_>>());
        let (launches, seconds) = (middle(|row| row.launches as f64), middle(|row| row.seconds));
        let counts = format!("{} | {} | {}", share("failed"), share("cannot tell"), share("passed"));
        let _ = writeln!(text, "| {kind} | {bar} | {counts} | {launches:.0} | {seconds:.0} |");
    }
    text
}
