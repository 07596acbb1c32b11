//! Two candidates in lock step: launches of fresh process pairs, blocks of ABBA or BAAB by coin, order of start and of
//! shapes random. Ordered by a JSON file named by `KOPT_DUEL`; one `launch` message a pair goes to `KOPT_OUT`.
//!
//! It measures and judges nothing: `patches/truth.toml` of the examples is made from its rows.

use std::process::ExitCode;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Backend, Manifest};
use kopt_schema::message::{FailureKind, Launch, LaunchCase, Message};
use kopt_schema::wire::Request;
use serde::Deserialize;

use super::candidate::{Absent, Loaded};
use super::cases;
use super::contestant::{Contestant, Loss};
use super::latency::Pool;
use super::lease::Lease;
use super::output::Output;
use super::{prepare, processor};
use crate::kernel::{Case, Kernel};
use crate::package::{EntryLayout, Package};
use crate::tensor::Draw;

/// What to measure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    /// `candidate.json` of one side.
    a: Utf8PathBuf,
    /// And of the other.
    b: Utf8PathBuf,
    /// Pairs of processes.
    launches: usize,
    /// Blocks a launch and shape.
    blocks: usize,
    /// Seconds of timed calls in each quarter of a block.
    batch_s: f64,
}

/// One request may take this long.
const LIMIT: Duration = Duration::from_secs(120);

/// More calls than this in a batch bring nothing: the clock reads in tens of nanoseconds.
const MOST_CALLS: f64 = 256.0;

pub(crate) fn run(
    package: &'static Package,
    kernel: &'static dyn Kernel,
    manifest: &Manifest,
    output: &Output,
    order: &Utf8Path,
) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(order).map_err(|error| format!("{order}: {error}"))?;
    let order: Order = serde_json::from_str(&text).map_err(|error| format!("{order}: {error}"))?;
    let load = |file: &Utf8Path| {
        Loaded::read(file, None, package, manifest).map_err(|absent| match absent {
            Absent::NotCompiled(reason) | Absent::Wrong(reason) => reason,
        })
    };
    let sides = [load(&order.a)?, load(&order.b)?];
    let layouts = cases::entries(package, kernel)?;
    let cases: Vec<Case> =
        manifest.shapes.iter().map(|shape| Case { shape: shape.clone(), dtype: manifest.dtype }).collect();
    let room = |side: &Loaded| prepare::sizes(kernel, manifest.backend, layouts[0], side, &cases);
    let rooms = [room(&sides[0]), room(&sides[1])].map(|rooms| rooms.map_err(|loss| loss.message));
    let [a, b] = rooms;
    let rooms = a?.into_iter().zip(b?).map(|(a, b)| a.max(b));
    let pools: Result<Vec<Pool>, Loss> =
        cases.iter().zip(rooms).map(|(case, room)| Pool::new(kernel, &layouts, case, room)).collect();
    let pools = pools.map_err(|loss| loss.message)?;
    let seed = getrandom::u64().map_err(|error| error.to_string())?;
    let manifest = manifest.clone();
    let duel = Duel { package, kernel, manifest, layouts, cases, pools, sides, order };
    let mut draw = Draw::new(seed, "order");
    for launch in 0..duel.order.launches {
        let row = duel.launch(launch, &mut draw).map_err(|loss| loss.message)?;
        output.send(&Message::Launch(row));
    }
    Ok(ExitCode::SUCCESS)
}

struct Duel {
    package: &'static Package,
    kernel: &'static dyn Kernel,
    manifest: Manifest,
    layouts: Vec<&'static EntryLayout>,
    cases: Vec<Case>,
    pools: Vec<Pool>,
    sides: [Loaded; 2],
    order: Order,
}

impl Duel {
    /// A pair of fresh processes through every shape.
    fn launch(&self, number: usize, draw: &mut Draw) -> Result<Launch, Loss> {
        let first = draw.between(0, 1);
        let _lease = Lease::take(self.manifest.backend).map_err(|error| Loss::new(FailureKind::Setup, error))?;
        let files: Vec<_> = self.pools.iter().map(|pool| pool.arena.files()).collect();
        let mut started = Vec::new();
        for side in [first, 1 - first] {
            started.push((side, Contestant::spawn(&files)?));
        }
        started.sort_by_key(|(side, _)| *side);
        // Both get ready at once: loading is slow on a GPU.
        let lost = |_| Err(Loss::new(FailureKind::Setup, "a starting thread was lost"));
        let ready: Result<Vec<()>, Loss> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                started.iter_mut().map(|(side, contestant)| scope.spawn(|| self.prepare(*side, contestant))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        });
        ready?;
        let mut contestants: Vec<Contestant> = started.into_iter().map(|(_, contestant)| contestant).collect();
        if self.manifest.backend == Backend::Cpu {
            processor::keep_here(&contestants.iter().map(Contestant::id).collect::<Vec<_>>());
        }
        let mut order: Vec<usize> = (0..self.cases.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, draw.between(0, index));
        }
        let mut rows = Vec::new();
        for case in order {
            rows.push((case, self.case(case, &mut contestants, draw)?));
        }
        rows.sort_by_key(|(case, _)| *case);
        let cases = rows.into_iter().map(|(_, row)| row).collect();
        let (kernel, device) = (self.package.name.to_owned(), contestants[0].device.clone());
        Ok(Launch { kernel, device, launch: number, first: ["a", "b"][first].to_owned(), cases })
    }

    /// Loads a side's candidate and maps the memory of every shape.
    fn prepare(&self, side: usize, contestant: &mut Contestant) -> Result<(), Loss> {
        let symbols: Vec<String> = self.layouts.iter().map(|layout| layout.symbol.to_owned()).collect();
        let candidate = &self.sides[side];
        contestant.load(candidate, self.manifest.backend, &symbols)?;
        for (pool, case) in self.pools.iter().zip(&self.cases) {
            contestant.attach(pool.arena.wire(pool.calls(self.kernel, &self.layouts, case, candidate)?))?;
        }
        Ok(())
    }

    /// Blocks of one shape.
    fn case(&self, case: usize, contestants: &mut [Contestant], draw: &mut Draw) -> Result<LaunchCase, Loss> {
        let pool = &self.pools[case];
        let time = |contestants: &mut [Contestant], side: usize, calls: u64, draw: &mut Draw| {
            let start = draw.between(0, pool.windows - 1);
            let windows = (0..pool.windows).map(|window| (start + window) % pool.windows).collect();
            let prepares = usize::from(self.sides[side].prepares.is_some());
            let entries = (0..self.layouts.len() + prepares).collect();
            // Who else has had the processor meanwhile is not timed.
            let processor = self.manifest.backend == Backend::Cpu;
            let request = Request::Time { arena: case, entries, windows, cold: true, calls, processor, handicap: 0.0 };
            contestants[side].time(&request, LIMIT).map(|seconds| seconds / calls as f64)
        };
        // Warm-up, first side by coin; its second call sets the size of a batch.
        let coin = draw.between(0, 1);
        let mut fastest = f64::INFINITY;
        for side in [coin, 1 - coin] {
            time(contestants, side, 1, draw)?;
            fastest = fastest.min(time(contestants, side, 1, draw)?);
        }
        let calls = (self.order.batch_s / fastest).ceil().clamp(1.0, MOST_CALLS) as u64;
        let (mut log_ratios, mut all) = (Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..self.order.blocks {
            let coin = draw.between(0, 1);
            let mut seconds = [0.0; 2];
            for side in [coin, 1 - coin, 1 - coin, coin] {
                let measured = time(contestants, side, calls, draw)?;
                seconds[side] += measured / 2.0;
                all[side].push(measured);
            }
            log_ratios.push((seconds[0] / seconds[1]).ln());
        }
        let name = self.cases[case].shape.name.clone();
        Ok(LaunchCase { case: name, log_ratios, a_s: kopt_stats::median(&all[0]), b_s: kopt_stats::median(&all[1]) })
    }
}
