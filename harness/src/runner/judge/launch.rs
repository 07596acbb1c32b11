//! One launch: a fresh process for each contestant, through every shape. Orders of start, warm-up, batches and end are
//! random, because the side that came first was slower by 1.6 % in a comparison of equal code.

mod batch;

use std::time::{Duration, Instant};

use kopt_schema::bout::{BlockRecord, CaseRecord, Forfeit, LaunchRecord, Rung};
use kopt_schema::manifest::Backend;
use kopt_schema::message::FailureKind;

use super::clock::Taken;
use super::watch::{self, Watch};
use super::{Entrant, INCUMBENT, Judge, ready};
use crate::runner::backend::gpu::gauge::Gauge;
use crate::runner::contestant::{Contestant, Loss};
use crate::runner::processor;
use crate::tensor::Draw;

/// One batch of four is compared in full; which, nobody can know.
pub(super) const CHECKED_ONE_IN: usize = 4;

/// A call that takes this long is made once to warm up: what only a first call pays for is little of it.
const WARMED_ONCE_S: f64 = 0.002;

/// And of one that takes this long, two show whether the second is free.
const LONG_S: f64 = 0.01;

/// Seconds of timed calls that a contestant's blocks take at most in a launch and shape, if that is more than one block.
const BLOCKS_S: f64 = 0.04;

/// The same where only some shapes are asked for: those that nothing could be said of yet. A machine that is shared can have
/// two speeds (one was seen to change between two, 1.4 apart for products of matrices, several times a second); with
/// many blocks in a launch, those in which that happened are told from the rest.
const LEFT_S: f64 = 0.4;

/// A shorter batch is timed in two blocks at least: calls of some milliseconds that wait for memory differ by 5 % and more
/// from one to the next, and by little more from launch to launch.
const TWICE_S: f64 = 0.015;

/// Calls in the batches that show whether time grows with the number of calls.
const RUNGS: [usize; 4] = [1, 2, 4, 8];

/// Number of the candidate among the contestants.
const CANDIDATE: usize = 1;

/// A GPU is kept busy this long before the first block of a launch: its clocks rise and its first calls are slow.
const WARM: Duration = Duration::from_millis(200);

/// Calls of a batch while it warms up.
const WARM_CALLS: usize = 32;

/// Blocks a launch and shape at most on a GPU. There blocks differ little, a launch begins and ends with half a second of
/// contexts, and launches are what counts.
const DEVICE_BLOCKS: usize = 6;

/// A contestant that runs this long while it is to wait is no longer waiting. Who runs for less is left to the gate, which looks
/// at many launches and compares with the incumbent's: where the host has much to do, the books of honest processes have
/// up to 46 ms a launch for waiting, and nobody is accused by chance.
const IDLE_S: f64 = 0.2;

/// A contestant's process in this launch.
struct Runner {
    contestant: Contestant,
    watch: Watch,
    /// Which file of outputs it has.
    outputs: usize,
}

/// A launch as it goes on.
struct Launch<'a> {
    judge: &'a mut Judge,
    runners: Vec<Runner>,
    /// Where all of them run.
    processor: Option<usize>,
    draw: Draw,
    checked: usize,
    taken: Taken,
    /// Seconds for the blocks of a shape.
    blocks_s: f64,
}

/// Runs a launch through the shapes that are named, or through all.
pub(super) fn run(judge: &mut Judge, seed: &str, number: u64, shapes: &[String]) -> Result<LaunchRecord, Forfeit> {
    let begun = Instant::now();
    let mut draw = Draw::new(number, "launch");
    let count = judge.entrants.len();
    let started = permutation(count, &mut draw);
    let outputs = permutation(count, &mut draw);
    for deck in &mut judge.decks {
        deck.shuffle();
        deck.hand_out(&outputs);
    }
    let (runners, processor) = start(judge, &started, &outputs)?;
    let wanted = |case: &usize| shapes.is_empty() || shapes.contains(&judge.cases[*case].shape.name);
    let wanted: Vec<usize> = (0..judge.cases.len()).filter(wanted).collect();
    let blocks_s = if wanted.len() < judge.cases.len() { LEFT_S } else { BLOCKS_S };
    let mut launch = Launch { judge, runners, processor, draw, checked: 0, taken: Taken::new(count), blocks_s };
    // Nobody has vouched for the candidate: what cannot be told apart is its own.
    launch.sweep(CANDIDATE.min(count - 1), None)?;
    let order = permutation(wanted.len(), &mut launch.draw);
    let mut cases = Vec::new();
    if let Some(first) = order.first() {
        launch.warm_up(wanted[*first])?;
        // Time against the number of calls is looked at on one shape a launch.
        let ladder = launch.draw.between(0, order.len() - 1);
        for (position, index) in order.into_iter().enumerate() {
            cases.push(launch.case(wanted[index], position == ladder)?);
        }
    }
    launch.end(begun, seed, started, outputs, cases)
}

/// Starts the processes in the order given, and gets all of them ready at once.
/// Then they stay on one processor, which is returned, where that can be had.
fn start(judge: &Judge, started: &[usize], outputs: &[usize]) -> Result<(Vec<Runner>, Option<usize>), Forfeit> {
    let forfeit = |contestant: usize| move |loss: Loss| super::forfeit(contestant, None, loss);
    let mut runners = Vec::new();
    for contestant in started {
        let files: Vec<_> = judge.decks.iter().map(|deck| deck.files(outputs[*contestant])).collect();
        let mut process = Contestant::spawn(&files).map_err(forfeit(*contestant))?;
        process.memory = judge.bout.memory;
        let watch = Watch::new(process.id());
        runners.push((*contestant, Runner { contestant: process, watch, outputs: outputs[*contestant] }));
    }
    runners.sort_by_key(|(contestant, _)| *contestant);
    let ready = ready::at_once(&mut runners, |contestant, runner| {
        let shapes = judge.decks.iter().zip(&judge.cases);
        ready::prepare(judge, shapes, &judge.entrants[contestant], &mut runner.contestant)
    });
    ready.map_err(|(contestant, loss)| forfeit(contestant)(loss))?;
    // What loading and mapping took is no work while it was to wait.
    runners.iter_mut().for_each(|(_, runner)| runner.watch = Watch::new(runner.contestant.id()));
    let mut processor = None;
    if judge.halts() {
        let ids: Vec<u32> = runners.iter().map(|(_, runner)| runner.contestant.id()).collect();
        processor = processor::keep_here(&ids);
        runners.iter().for_each(|(_, runner)| runner.contestant.halt());
    }
    Ok((runners.into_iter().map(|(_, runner)| runner).collect(), processor))
}

impl Launch<'_> {
    /// Keeps a GPU busy for a while, all contestants in turn.
    fn warm_up(&mut self, case: usize) -> Result<(), Forfeit> {
        if self.judge.manifest.backend == Backend::Cpu {
            return Ok(());
        }
        let (begun, places) = (Instant::now(), self.judge.decks[case].places());
        while begun.elapsed() < WARM {
            let places = self.deal(case, places.min(WARM_CALLS))?;
            for contestant in permutation(self.runners.len(), &mut self.draw) {
                self.batch(contestant, case, &places)?;
            }
        }
        Ok(())
    }

    /// Every batch of one shape.
    fn case(&mut self, case: usize, ladder: bool) -> Result<CaseRecord, Forfeit> {
        let count = self.runners.len();
        self.checked = 0;
        let warmed_up = permutation(count, &mut self.draw);
        let (mut warm, mut fastest) = (Vec::new(), f64::INFINITY);
        for _ in 0..2 {
            if fastest > WARMED_ONCE_S && fastest.is_finite() {
                break;
            }
            let places = self.deal(case, 1)?;
            for contestant in &warmed_up {
                warm.push(self.batch(*contestant, case, &places)?);
            }
            fastest = batch::fastest(&warm);
        }
        let (places, batch_s) = (self.judge.decks[case].places(), self.judge.bout.batch_s);
        let calls = (batch_s / fastest.max(1e-9)).ceil().clamp(1.0, places as f64) as usize;
        let mut rungs = Vec::new();
        if ladder {
            let most = if fastest > LONG_S { 2 } else { places.min((4 * calls).max(2)) };
            let sizes: Vec<usize> = RUNGS.into_iter().filter(|size| *size <= most).collect();
            for index in permutation(sizes.len(), &mut self.draw) {
                rungs.push(self.rung(case, sizes[index])?);
            }
            rungs.sort_by_key(|rung| rung.calls);
        }
        let mut blocks = Vec::new();
        // Launches are what counts: long calls get fewer blocks in each.
        let one_s = fastest * calls as f64;
        let least = if one_s < TWICE_S { 2.0 } else { 1.0 };
        let affordable = (self.blocks_s / (2.0 * one_s)).max(least) as usize;
        let most = if self.judge.manifest.backend == Backend::Cpu { usize::MAX } else { DEVICE_BLOCKS };
        let wanted = self.judge.bout.blocks.min(affordable).min(most);
        let (mut throttled, mut stood_still) = (0, 0);
        while blocks.len() < wanted {
            let protects_itself = |judge: &Judge| judge.gauge.as_ref().and_then(Gauge::held_back).is_some();
            let before = protects_itself(self.judge);
            let block = self.block(case, calls)?;
            // The clock of an honest thread was seen to stand still for a batch, once, on a host that took its processor away.
            if let Some(contestant) = block.device_ns.iter().position(|halves| halves.contains(&0)) {
                stood_still += 1;
                if stood_still > wanted {
                    let loss = Loss::new(FailureKind::Protocol, "says again and again that its calls took no time");
                    return Err(self.forfeit(contestant, case, loss));
                }
                continue;
            }
            // A device that protects itself is not what is compared; one that does so all the time is what there is.
            let held_back = before || protects_itself(self.judge);
            if held_back && throttled < wanted {
                throttled += 1;
            } else {
                blocks.push(block);
            }
        }
        let megahertz = self.judge.gauge.as_ref().and_then(Gauge::megahertz);
        let name = self.judge.cases[case].shape.name.clone();
        let checked = self.checked;
        Ok(CaseRecord {
            case: name,
            warmed_up,
            calls: calls as u64,
            ladder: rungs,
            blocks,
            throttled,
            stood_still,
            megahertz,
            checked,
        })
    }

    /// A batch of each contestant, all of one size.
    fn rung(&mut self, case: usize, calls: usize) -> Result<Rung, Forfeit> {
        let places = self.deal(case, calls)?;
        let mut device_ns = vec![0; self.runners.len()];
        for contestant in permutation(self.runners.len(), &mut self.draw) {
            device_ns[contestant] = nanoseconds(self.batch(contestant, case, &places)?.device_s);
        }
        Ok(Rung { calls: calls as u64, device_ns })
    }

    /// Every contestant once, and once more in the opposite order, each half on data of its own.
    fn block(&mut self, case: usize, calls: usize) -> Result<BlockRecord, Forfeit> {
        let count = self.runners.len();
        let order = permutation(count, &mut self.draw);
        let nothing = || vec![[0; 2]; count];
        let mut block = BlockRecord { order, device_ns: nothing(), wall_ns: nothing(), cpu_ns: nothing() };
        for half in 0..2 {
            let places = self.deal(case, calls)?;
            for position in 0..count {
                let contestant = block.order[if half == 0 { position } else { count - 1 - position }];
                let batch = self.batch(contestant, case, &places)?;
                block.device_ns[contestant][half] = nanoseconds(batch.device_s);
                block.wall_ns[contestant][half] = nanoseconds(batch.wall_s);
                block.cpu_ns[contestant][half] = nanoseconds(batch.cpu_s);
            }
        }
        Ok(block)
    }

    fn deal(&mut self, case: usize, calls: usize) -> Result<Vec<usize>, Forfeit> {
        let dealt = self.judge.decks[case].deal(calls, &mut self.draw);
        dealt.map_err(|loss| self.trouble(case, loss))
    }

    /// The judge's own memory failed: of the candidate nothing was learned.
    fn trouble(&self, case: usize, loss: Loss) -> Forfeit {
        self.forfeit(INCUMBENT, case, loss)
    }

    /// Looks at all that a contestant may not do.
    fn look(&mut self, contestant: usize, case: usize, used: &[usize]) -> Result<(), Forfeit> {
        let late = self.judge.decks[case].still(self.runners[contestant].outputs, used);
        let late = late.map_err(|loss| self.trouble(case, loss))?;
        let runner = &self.runners[contestant];
        // A GPU's driver has threads of its own.
        let strays = || {
            let strays = runner.watch.strays().filter(|_| self.judge.manifest.backend == Backend::Cpu)?;
            Some(Loss::new(FailureKind::Stray, strays))
        };
        let loss = late
            .or_else(strays)
            .or_else(|| idle(&runner.watch, self.judge.manifest.backend))
            .or_else(|| runner.contestant.takes_too_much());
        loss.map_or(Ok(()), |loss| Err(self.forfeit(contestant, case, loss)))
    }

    /// Ends what is below this process and is no contestant. It belongs to the contestant whose object it has mapped; else to
    /// `contestant`, which ran last.
    fn sweep(&self, contestant: usize, case: Option<usize>) -> Result<(), Forfeit> {
        let known: Vec<u32> = self.runners.iter().map(|runner| runner.contestant.id()).collect();
        let Some(maps) = watch::sweep(&known) else { return Ok(()) };
        let has = |entrant: &Entrant| maps.contains(entrant.candidate.object.as_str());
        let owner = if has(&self.judge.entrants[contestant]) { None } else { self.judge.entrants.iter().position(has) };
        let case = case.map(|case| self.judge.cases[case].shape.name.clone());
        let loss = Loss::new(FailureKind::Stray, "it left a process behind that it had started");
        Err(super::forfeit(owner.unwrap_or(contestant), case, loss))
    }

    fn forfeit(&self, contestant: usize, case: usize, loss: Loss) -> Forfeit {
        super::forfeit(contestant, Some(self.judge.cases[case].shape.name.clone()), loss)
    }

    /// Outside of calls no byte of the outputs may change, and nobody is left who could. Comparing all of them takes as long
    /// as a batch on the host: there one file in four. Who had it before, since it was last compared, may have changed it
    /// too; then it was the one that nobody has vouched for.
    fn take_back(&mut self, outputs: &[usize]) -> Result<(), Forfeit> {
        for case in 0..self.judge.cases.len() {
            for (contestant, file) in outputs.iter().enumerate() {
                let drawn = self.draw.between(0, CHECKED_ONE_IN - 1) == 0;
                if !drawn && self.judge.manifest.backend == Backend::Cpu {
                    continue;
                }
                let returned = self.judge.decks[case].returned(*file);
                if let Some((holders, loss)) = returned.map_err(|loss| self.trouble(case, loss))? {
                    let culprit = if holders.contains(&CANDIDATE) { CANDIDATE } else { contestant };
                    return Err(self.forfeit(culprit, case, loss));
                }
            }
        }
        Ok(())
    }

    /// Ends the processes in random order, and sees that nothing is left of them.
    fn end(
        mut self,
        begun: Instant,
        seed: &str,
        started: Vec<usize>,
        outputs: Vec<usize>,
        cases: Vec<CaseRecord>,
    ) -> Result<LaunchRecord, Forfeit> {
        for (contestant, runner) in self.runners.iter_mut().enumerate() {
            runner.watch.asked();
            let moved = self.processor.filter(|processor| !processor::is_kept(runner.contestant.id(), *processor));
            let moved =
                moved.map(|_| Loss::new(FailureKind::ForbiddenCall, "it left the processor that it was kept on"));
            if let Some(loss) = idle(&runner.watch, self.judge.manifest.backend).or(moved) {
                return Err(super::forfeit(contestant, None, loss));
            }
        }
        let idle_s = self.runners.iter().map(|runner| runner.watch.idle_s).collect();
        let ended = permutation(self.runners.len(), &mut self.draw);
        let mut runners: Vec<Option<Runner>> = self.runners.drain(..).map(Some).collect();
        if self.judge.manifest.backend != Backend::Cpu {
            // Contexts take long to end: all are told in that order, and end at the same time.
            ended.iter().filter_map(|contestant| runners[*contestant].as_ref()).for_each(|one| one.contestant.kill());
        }
        for contestant in &ended {
            runners[*contestant] = None;
            let known: Vec<u32> = runners.iter().flatten().map(|runner| runner.contestant.id()).collect();
            if watch::sweep(&known).is_some() {
                let loss = Loss::new(FailureKind::Stray, "it left a process behind that it had started");
                return Err(super::forfeit(*contestant, None, loss));
            }
        }
        self.take_back(&outputs)?;
        let wall_s = begun.elapsed().as_secs_f64();
        let (seed, processor) = (seed.to_owned(), self.processor);
        Ok(LaunchRecord { seed, started, ended, outputs, processor, wall_s, idle_s, cases })
    }
}

/// A contestant that used the processor while it was to wait. A GPU's driver may.
fn idle(watch: &Watch, backend: Backend) -> Option<Loss> {
    (backend == Backend::Cpu && watch.idle_s > IDLE_S).then(|| {
        let message = format!("it ran for {:.0} ms while it was to wait", watch.idle_s * 1e3);
        Loss::new(FailureKind::Stray, message)
    })
}

fn permutation(count: usize, draw: &mut Draw) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for index in (1..count).rev() {
        order.swap(index, draw.between(0, index));
    }
    order
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
