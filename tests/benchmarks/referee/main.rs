//! How often the referee is right: whole decisions with real processes, over equal code, injected gains and losses, and
//! the patches of the example queues; and what the rules of other tools say of the same recorded launches.
//!
//!     cargo bench --bench referee -- [--minutes 30] [--only aa] [--report] [--own]
//!
//! Those on a GPU are taken where there is one, or where `--only` names their crate: `--only softmax-cuda`.
//!
//! Each decision is one row of `referee.jsonl` beside this file, keyed by a digest of everything that measures and judges:
//! a run that is cut off goes on where it was, and rows of another version are never counted. `--report` prints the
//! tables of `harness/README.md`. With `--own` the rows of other versions that are said to be as good do not count. Run it on
//! a quiet machine, never beside a build. Two runs at a time, of different crates, need a processor each: `taskset -c 0 cargo
//! bench …`; their rows say so.

#![allow(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark's main")]

#[path = "../../support/bench.rs"]
#[allow(dead_code, reason = "shared with other benchmarks")]
mod bench;
#[path = "../../support/measuring.rs"]
mod measuring;
mod peers;
#[path = "../../support/queue.rs"]
#[allow(dead_code, reason = "shared with other benchmarks")]
mod queue;
mod report;
#[path = "../../support/resumable.rs"]
#[allow(dead_code, reason = "shared with other benchmarks")]
mod resumable;
mod rows;
mod scenario;
#[path = "../../support/worth.rs"]
mod worth;

use std::collections::BTreeMap;
use std::time::Instant;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::gate;
use cargo_kopt::manifest::{Found, Kernel};
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::entrant::{self, Entrant, Version};
use cargo_kopt::referee::seeds::Master;
use cargo_kopt::referee::{Limits, Match};
use cargo_kopt::workspace::Workspace;
use kopt_schema::evidence::Evidence;
use queue::Failure;
use resumable::Arguments;
use rows::{Row, Rows};
use scenario::{Scenario, Versions};

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let root = Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut rows = Rows::open(&root, arguments.own)?;
    if arguments.minutes > 0.0 {
        measure(&root, &mut rows, &arguments)?;
    }
    if arguments.report {
        println!("{}", report::tables(&root, &rows)?);
    }
    Ok(())
}

/// Makes decisions until the time is up, always of the scenario that has least of those it wants.
fn measure(root: &Utf8Path, rows: &mut Rows, arguments: &Arguments) -> Result<(), Failure> {
    let until = arguments.until();
    let context = Context::of_process().map_err(|error| error.to_string())?;
    let interrupts = Interrupts::watch().map_err(|error| error.to_string())?;
    let scratch = tempfile::tempdir()?;
    let scratch = Utf8Path::from_path(scratch.path()).ok_or("the temporary folder's name is not text")?;
    let machine = kopt_schema::machine::processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let wanted = |scenario: &Scenario| scenario.is_wanted(arguments.only.as_deref(), &machine);
    let scenarios: Vec<Scenario> = scenario::all(root)?.into_iter().filter(wanted).collect();
    if scenarios.is_empty() {
        eprintln!(
            "nothing can be decided on {machine}; what patches are worth there `cargo bench --bench truth` finds"
        );
    }
    let mut arenas = BTreeMap::new();
    while Instant::now() < until {
        let share = |scenario: &Scenario| rows.of(scenario).count() as f64 / scenario.goal as f64;
        let Some(scenario) = scenarios.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else { break };
        if share(scenario) >= 1.0 {
            eprintln!("every scenario has the decisions it wants");
            break;
        }
        if !arenas.contains_key(&scenario.package) {
            let arena = Arena::open(root, &scenario.package, &context, scratch)?;
            arenas.insert(scenario.package.clone(), arena);
        }
        let arena = &arenas[&scenario.package];
        let row = arena.decide(scenario, &context, &interrupts)?;
        eprintln!(
            "{:28} {:24} {:+.2} % [{:+.2}, {:+.2}], {} launches, {:.1} s",
            row.scenario,
            row.ruling,
            100.0 * row.gain,
            100.0 * row.low,
            100.0 * row.high,
            row.launches.iter().sum::<usize>(),
            row.seconds
        );
        rows.append(row)?;
        if let Some(signal) = interrupts.signal() {
            Interrupts::obey(signal);
        }
    }
    Ok(())
}

/// A kernel crate with its judge and every state of its queue, compiled.
struct Arena {
    kernel: Kernel,
    judge: Utf8PathBuf,
    /// States by name: the baseline, and each patch's.
    states: BTreeMap<String, Entrant>,
    /// The state that each patch changes.
    before: BTreeMap<String, String>,
    tip: String,
}

impl Arena {
    fn open(root: &Utf8Path, package: &str, context: &Context, scratch: &Utf8Path) -> Result<Self, Failure> {
        let judge = bench::executable(root, package)?;
        let manifest = root.join("Cargo.toml");
        let workspace = Workspace::find(context, Some(&manifest)).map_err(|error| error.to_string())?;
        let member = workspace.member(package).ok_or_else(|| format!("no package {package}"))?;
        let kernel = Found::read(context, &workspace, &[member]).kernels.pop().ok_or("not a kernel crate")?;
        let folder = scratch.join(package);
        let (mut states, mut before) = (BTreeMap::new(), BTreeMap::new());
        let mut tip = "baseline".to_owned();
        let applied = queue::apply_all(&kernel.member.folder, &folder)?;
        let compiled = |name: &str, at: &Utf8Path| -> Result<Option<Entrant>, Failure> {
            let mut own = kernel.clone();
            own.member.folder = at.to_owned();
            let (revision, name) = (name.to_owned(), name.to_owned());
            let version = Version { kernel: &own, revision: revision.clone(), name: name.clone(), shown: name };
            // Some patches do not compile, on purpose.
            Ok(entrant::compile(&folder.join("objects"), &[version]).ok().and_then(|mut built| built.pop()))
        };
        states.extend(compiled("baseline", &folder.join("baseline"))?.map(|entrant| ("baseline".to_owned(), entrant)));
        for patch in applied {
            before.insert(patch.name.clone(), tip.clone());
            states.extend(compiled(&patch.name, &patch.after)?.map(|entrant| (patch.name.clone(), entrant)));
            if patch.truth == kopt_schema::queue::Truth::Helps {
                tip.clone_from(&patch.name);
            }
        }
        Ok(Self { kernel, judge, states, before, tip })
    }

    /// One decision, from a new judge to a verdict.
    fn decide(&self, scenario: &Scenario, context: &Context, interrupts: &Interrupts) -> Result<Row, Failure> {
        let (old, new) = match &scenario.versions {
            Versions::Tip => (&self.tip, &self.tip),
            Versions::Patch { patch, .. } => (&self.before[patch], patch),
        };
        let Some(candidate) = self.states.get(new) else { return Ok(Row::not_built(scenario)) };
        let before = own_seconds();
        let found = Match {
            kernel: &self.kernel,
            incumbent: &self.states[old],
            candidate,
            shapes: scenario.shapes.clone(),
            left_out: Vec::new(),
            terms: gate::terms("default", None, false)?,
            seed: Master::secret().map_err(|error| error.to_string())?,
            injected: scenario.injected()?,
            without: Vec::new(),
            ceilings: None,
            even_if_identical: matches!(scenario.versions, Versions::Tip),
            check: matches!(scenario.versions, Versions::Patch { .. }),
            limits: Limits::default(),
        }
        .hold_twice_if_disturbed(context, interrupts, &self.judge, &mut |_| Ok(()));
        let evidence: Evidence = found.map_err(|error| format!("{}: {error}", scenario.name()))?;
        Ok(Row { own_s: rows::rounded(own_seconds() - before), ..Row::of(scenario, &evidence) })
    }
}

/// Processor time of this process.
fn own_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}
