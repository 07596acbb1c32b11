//! Latency as a criterion main: each listed shape, each entry and, where there are several, the whole step, hot and cold
//! kept apart. The kernel runs in a worker; criterion gets the seconds that the worker measured. kopt's own samples go
//! to `KOPT_OUT`.

use std::process::ExitCode;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use kopt_schema::manifest::{Manifest, Shape};
use kopt_schema::message::{Cache, Ceilings, Cost, Latency, Message, Outcome, Trial, TrialPlan};
use kopt_schema::wire::{Reply, Request};

use super::arena::Arena;
use super::candidate::{Absent, Loaded};
use super::cases;
use super::contestant::{Contestant, Loss};
use super::duel;
use super::lease::Lease;
use super::measurement::DeviceTime;
use super::memory::Layout;
use super::output::Output;
use super::{environment, prepare};
use crate::distribution::Distribution;
use crate::kernel::{Case, Kernel};
use crate::package::{EntryLayout, Package};
use crate::tensor::Draw;

/// Windows of a pool take at most this much memory, and are at most this many.
const POOL: usize = 256 << 20;
const WINDOWS: usize = 8;

/// One timed run, flushing included, may take this long: criterion plans runs of a second or two.
const LIMIT: Duration = Duration::from_secs(300);

/// `main` of a latency binary.
pub(crate) fn main(package: &'static Package, kernel: &'static dyn Kernel) -> Result<ExitCode, String> {
    let manifest = package.manifest();
    let output = Output::open()?;
    if let Some(order) = environment::duel() {
        return duel::run(package, kernel, &manifest, &output, &order);
    }
    let candidate = match Loaded::of(package, &manifest) {
        Ok(candidate) => candidate,
        Err(Absent::Wrong(reason)) => return Err(reason),
        Err(Absent::NotCompiled(reason)) => return Ok(nothing_to_time(package, &output, reason)),
    };
    let bench = Bench { package, kernel, manifest, candidate, output };
    match bench.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(loss) if loss.no_device => Ok(nothing_to_time(package, &bench.output, loss.message)),
        Err(loss) => Err(loss.message),
    }
}

/// No compiler or no device: said, and no failure.
#[allow(clippy::print_stderr, reason = "the main of a bench binary")]
fn nothing_to_time(package: &Package, output: &Output, reason: String) -> ExitCode {
    eprintln!("{}: nothing to time: {reason}", package.name);
    let kernel = package.name.to_owned();
    output.send(&Message::Plan(TrialPlan { kernel: kernel.clone(), trials: 1 }));
    let (name, seconds, seeds) = ("latency".to_owned(), 0.0, Vec::new());
    let detail = Some(reason);
    output.send(&Message::Trial(Trial {
        kernel,
        name,
        outcome: Outcome::Ignored,
        seconds,
        seeds,
        failure: None,
        detail,
    }));
    ExitCode::SUCCESS
}

struct Bench {
    package: &'static Package,
    kernel: &'static dyn Kernel,
    manifest: Manifest,
    candidate: Loaded,
    output: Output,
}

/// What one line of the report times.
struct Timed<'a> {
    name: &'a str,
    entries: Vec<usize>,
    cost: Cost,
}

impl Bench {
    fn run(&self) -> Result<(), Loss> {
        let setup = |error| Loss::new(kopt_schema::message::FailureKind::Setup, error);
        let layouts = cases::entries(self.package, self.kernel).map_err(setup)?;
        let ceilings = {
            let _lease = Lease::take(self.manifest.backend).map_err(setup)?;
            self.ceilings()?
        };
        self.output.send(&Message::Ceilings(ceilings.clone()));
        let lines = layouts.len() + usize::from(self.has_step(&layouts));
        let trials = self.manifest.shapes.len() * lines * 2;
        self.output.send(&Message::Plan(TrialPlan { kernel: self.package.name.to_owned(), trials }));
        // The report's bootstrap is for looking at; kopt takes its own samples. 100,000 resamples cost two seconds a case.
        let criterion = Criterion::default().with_measurement(DeviceTime).nresamples(5000);
        let criterion = if environment::quick_bench() { criterion.without_plots() } else { criterion };
        let mut criterion = criterion.configure_from_args();
        for shape in &self.manifest.shapes {
            let _lease = Lease::take(self.manifest.backend).map_err(setup)?;
            self.shape(shape, &layouts, &ceilings, &mut criterion)?;
        }
        criterion.final_summary();
        Ok(())
    }

    /// Whether there is a step beside the entries: several of them, or one and its preparation.
    fn has_step(&self, layouts: &[&'static EntryLayout]) -> bool {
        layouts.len() > 1 || self.candidate.prepares.is_some()
    }

    fn start(&self, layouts: &[&'static EntryLayout], arenas: &[&Arena]) -> Result<Contestant, Loss> {
        let symbols: Vec<String> = layouts.iter().map(|layout| layout.symbol.to_owned()).collect();
        Contestant::start(&self.candidate, self.manifest.backend, &symbols, arenas)
    }

    /// What the device can do, measured in a process of its own.
    fn ceilings(&self) -> Result<Ceilings, Loss> {
        match Contestant::ceilings(self.manifest.backend, LIMIT)? {
            Reply::Ceilings { device, copy_bytes_per_s, read_bytes_per_s, write_bytes_per_s, fma_flops_per_s } => {
                let kernel = self.package.name.to_owned();
                Ok(Ceilings { kernel, device, copy_bytes_per_s, read_bytes_per_s, write_bytes_per_s, fma_flops_per_s })
            }
            other => {
                Err(Loss::new(kopt_schema::message::FailureKind::Protocol, format!("answered out of turn: {other:?}")))
            }
        }
    }

    fn shape(
        &self,
        shape: &Shape,
        layouts: &[&'static EntryLayout],
        ceilings: &Ceilings,
        criterion: &mut Criterion<DeviceTime>,
    ) -> Result<(), Loss> {
        let case = Case { shape: shape.clone(), dtype: self.manifest.dtype };
        let room = prepare::sizes(
            self.kernel,
            self.manifest.backend,
            layouts[0],
            &self.candidate,
            std::slice::from_ref(&case),
        )?;
        let pool = Pool::new(self.kernel, layouts, &case, room[0])?;
        let mut worker = self.start(layouts, &[&pool.arena])?;
        worker.attach(pool.arena.wire(pool.calls(self.kernel, layouts, &case, &self.candidate)?))?;
        // A preparation comes before the entries; those that are timed alone find it made.
        let prepares = usize::from(self.candidate.prepares.is_some());
        for window in 0..prepares * pool.windows {
            worker.call(0, 0, window, LIMIT)?;
        }
        let cost = |layout: &&'static EntryLayout| self.kernel.cost(layout.symbol, &case);
        let mut lines: Vec<Timed<'_>> = layouts
            .iter()
            .enumerate()
            .map(|(index, layout)| Timed { name: layout.symbol, entries: vec![index + prepares], cost: cost(layout) })
            .collect();
        if self.has_step(layouts) {
            let total = layouts.iter().map(cost).fold(Cost::default(), |sum, cost| sum + cost);
            lines.push(Timed { name: "step", entries: (0..layouts.len() + prepares).collect(), cost: total });
        }
        let mut failure = None;
        for line in &lines {
            let mut group = criterion.benchmark_group(format!("{}/{}", self.package.name, line.name));
            let (samples, warm_up, seconds) =
                if environment::quick_bench() { (10, 0.05, 0.15) } else { (20, 0.3, 1.0) };
            group.sampling_mode(SamplingMode::Flat).sample_size(samples);
            group.warm_up_time(Duration::from_secs_f64(warm_up)).measurement_time(Duration::from_secs_f64(seconds));
            group.throughput(throughput(&line.cost));
            for cache in [Cache::Cold, Cache::Hot] {
                let windows: Vec<usize> = if cache == Cache::Cold { (0..pool.windows).collect() } else { vec![0] };
                let mut taken: Vec<(u64, f64)> = Vec::new();
                group.bench_function(BenchmarkId::new(cache.name(), &shape.name), |bencher| {
                    bencher.iter_custom(|calls| {
                        let (entries, windows) = (line.entries.clone(), windows.clone());
                        let cold = cache == Cache::Cold;
                        let request =
                            Request::Time { arena: 0, entries, windows, cold, calls, processor: false, handicap: 0.0 };
                        // A lost worker ends the bench below; criterion has no way to be told in here.
                        let seconds = if failure.is_some() { Ok(0.0) } else { worker.time(&request, LIMIT) };
                        let seconds = seconds.unwrap_or_else(|loss| {
                            failure = Some(loss);
                            0.0
                        });
                        taken.push((calls, seconds));
                        seconds
                    });
                });
                if let Some(loss) = failure.take() {
                    return Err(Loss { message: format!("{} at {}: {}", line.name, shape.name, loss.message), ..loss });
                }
                // Warm-up comes first; a filter leaves nothing.
                let measured = &taken[taken.len().saturating_sub(samples)..];
                if !measured.is_empty() {
                    self.report(shape, line, cache, measured, ceilings);
                }
            }
            group.finish();
        }
        Ok(())
    }

    fn report(&self, shape: &Shape, line: &Timed<'_>, cache: Cache, measured: &[(u64, f64)], ceilings: &Ceilings) {
        let samples: Vec<f64> = measured.iter().map(|(calls, seconds)| seconds / *calls as f64).collect();
        let median_s = kopt_stats::median(&samples);
        let (low_s, high_s) = kopt_stats::median_interval(&samples);
        // Out of the cache the memory's ceiling says nothing.
        let roofline_share = (cache == Cache::Cold).then(|| {
            let moving = line.cost.bytes() / ceilings.copy_bytes_per_s;
            let computing = ceilings.fma_flops_per_s.map_or(0.0, |rate| line.cost.flops / rate);
            moving.max(computing) / median_s
        });
        self.output.send(&Message::Latency(Latency {
            kernel: self.package.name.to_owned(),
            entry: line.name.to_owned(),
            case: shape.name.clone(),
            cache,
            device: ceilings.device.clone(),
            object: self.candidate.digest.clone(),
            calls: measured.iter().map(|(calls, _)| *calls).collect(),
            samples,
            median_s,
            low_s,
            high_s,
            cost: line.cost,
            roofline_share,
        }));
    }
}

/// Compute-bound cases are told in flops, the others in bytes.
fn throughput(cost: &Cost) -> Throughput {
    let whole = |value: f64| value as u64;
    if cost.flops > 10.0 * cost.bytes() {
        Throughput::Elements(whole(cost.flops))
    } else {
        Throughput::BytesDecimal(whole(cost.bytes()))
    }
}

/// The memory of one timed case: every entry's buffers, several windows.
pub(crate) struct Pool {
    pub arena: Arena,
    pub windows: usize,
    firsts: Vec<usize>,
}

impl Pool {
    /// Memory filled with fresh values, with room for what is prepared.
    pub(crate) fn new(
        kernel: &dyn Kernel,
        layouts: &[&'static EntryLayout],
        case: &Case,
        prepared: usize,
    ) -> Result<Self, Loss> {
        let setup = |error: String| Loss::new(kopt_schema::message::FailureKind::Setup, error);
        let (mut buffers, mut firsts) = (Vec::new(), Vec::new());
        for layout in layouts {
            firsts.push(buffers.len());
            buffers.extend(kernel.buffers(layout.symbol, case));
        }
        buffers.extend(prepare::buffer(prepared));
        let bytes: usize = buffers.iter().map(crate::kernel::Buffer::bytes).sum();
        let windows = (POOL / bytes.max(1)).clamp(1, WINDOWS);
        let seed = getrandom::u64().map_err(|error| setup(error.to_string()))?;
        let mut arena =
            Arena::new(buffers, windows, Layout::Packed, seed, 0).map_err(|error| setup(format!("memory: {error}")))?;
        let mut draw = Draw::new(seed, "inputs");
        for window in 0..windows {
            for (layout, first) in layouts.iter().zip(&firsts) {
                arena.fill(window, *first, &kernel.inputs(layout.symbol, case, Distribution::Normal, &mut draw));
            }
            arena.poison(window);
        }
        Ok(Self { arena, windows, firsts })
    }

    /// The calls of a candidate on this memory.
    pub(crate) fn calls(
        &self,
        kernel: &dyn Kernel,
        layouts: &[&'static EntryLayout],
        case: &Case,
        candidate: &Loaded,
    ) -> Result<Vec<kopt_schema::wire::EntryCall>, Loss> {
        let entries: Vec<_> = layouts.iter().copied().zip(self.firsts.iter().copied()).collect();
        prepare::step(kernel, layouts[0], &entries, case, candidate, &self.arena.blueprint.buffers)
            .map_err(|error| Loss::new(kopt_schema::message::FailureKind::Setup, error))
    }
}
