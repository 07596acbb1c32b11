//! The judge of a bout: a test or bench binary of the trusted base, started by the referee with `--kopt-judge`. It owns the
//! memory and what is expected of it, starts the contestants, and measures what it is asked to; it decides nothing.
//!
//! | module | what |
//! |---|---|
//! | `check` | every trial of the crate on one contestant, before any time is taken |
//! | `clock` | whether a time is possible, and whether a contestant takes far too long |
//! | `deal` | a content under the operator's symmetries |
//! | `deck` | the memory of a shape, fresh contents with known results, and what must not change |
//! | `launch` | one launch: fresh processes through every shape, in random orders |
//! | `ready` | a process with its candidate and its memory |
//! | `trace` | steps of a training run, and what repetition is worth |
//! | `watch` | what a contestant's process does besides answering |
//!
//! The contestants never learn a seed or an expected value, and whatever they do, it is one of them that loses.

#![allow(unsafe_code, reason = "owns the descriptor that it answers on")]

mod check;
mod clock;
mod deal;
mod deck;
mod launch;
mod ready;
mod trace;
mod watch;

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use camino::Utf8Path;
use kopt_schema::bout::{
    Arrangement, BOUT_VERSION, Bout, CaseInfo, Forfeit, Handicap, JUDGE_ARGUMENT, JUDGE_FD, JudgeReply, JudgeRequest,
};
use kopt_schema::json::Json as _;
use kopt_schema::manifest::{Backend, Manifest};
use kopt_schema::sandbox::Sandbox;
use kopt_schema::wire::Reply;

use self::deck::Deck;
use super::backend::gpu::gauge::Gauge;
use super::backend::gpu::table::Table;
use super::candidate::{Absent, Loaded};
use super::cases;
use super::contestant::{Contestant, Loss};
use super::lease::Lease;
use super::prepare;
use crate::kernel::{Case, Kernel};
use crate::package::{EntryLayout, Package};
use crate::tensor::Draw;

/// Measuring ceilings takes a few seconds.
const CEILINGS: std::time::Duration = std::time::Duration::from_secs(120);

/// Number of the incumbent among the contestants.
const INCUMBENT: usize = 0;

/// A side of the bout.
struct Entrant {
    candidate: Loaded,
    handicaps: Vec<Handicap>,
}

/// A bout that was opened.
struct Judge {
    kernel: &'static dyn Kernel,
    manifest: Manifest,
    layouts: Vec<&'static EntryLayout>,
    cases: Vec<Case>,
    decks: Vec<Deck>,
    /// The shape that was traced last, and its memory.
    traced: Option<(usize, Deck)>,
    entrants: Vec<Entrant>,
    bout: Bout,
    /// Of the device, where there is one that can tell.
    gauge: Option<Gauge>,
}

/// If this process was started as a judge, serves until the channel closes.
pub(crate) fn serve_if_asked(package: &'static Package, kernel: &'static dyn Kernel) -> Option<ExitCode> {
    std::env::args_os().nth(1).filter(|argument| argument == JUDGE_ARGUMENT)?;
    Some(serve(package, kernel))
}

fn serve(package: &'static Package, kernel: &'static dyn Kernel) -> ExitCode {
    // A referee that is killed must not leave a judge, and what contestants leave behind must come to the judge.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    // Nor may they look into it or write to what it answers on, through /proc. (The superuser still may.)
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: the referee opened this descriptor for the judge, and nothing else in this process uses it.
    let mut replies = unsafe { File::from_raw_fd(JUDGE_FD) };
    // Contestants must not inherit it.
    let _ = rustix::io::fcntl_setfd(&replies, rustix::io::FdFlags::CLOEXEC);
    let mut judge = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let reply = match JudgeRequest::from_json(line.as_bytes()) {
            Ok(request) => obey(package, kernel, &mut judge, request),
            Err(error) => failed(format!("not a request: {error}")),
        };
        // However it ended, nothing of it goes on.
        watch::sweep(&[]);
        let Ok(mut text) = reply.to_json() else { break };
        text.push('\n');
        if replies.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn failed(message: impl Into<String>) -> JudgeReply {
    JudgeReply::Failed { message: message.into(), no_device: false }
}

fn obey(
    package: &'static Package,
    kernel: &'static dyn Kernel,
    judge: &mut Option<Judge>,
    request: JudgeRequest,
) -> JudgeReply {
    let times = matches!(request, JudgeRequest::Launch { .. } | JudgeRequest::Trace { .. } | JudgeRequest::Ceilings);
    let _lease = match judge.as_ref().filter(|_| times).map(|judge| Lease::take(judge.manifest.backend)) {
        Some(Err(error)) => return failed(error),
        lease => lease,
    };
    match (request, judge) {
        (JudgeRequest::Open(bout), judge) => match Judge::open(package, kernel, bout) {
            Ok((opened, arrangement)) => {
                *judge = Some(opened);
                JudgeReply::Opened(arrangement)
            }
            Err((Some(contestant), loss)) => JudgeReply::Lost(forfeit(contestant, None, loss)),
            Err((None, loss)) => JudgeReply::Failed { message: loss.message, no_device: loss.no_device },
        },
        (JudgeRequest::Launch { seed, shapes }, Some(judge)) => match u64::from_str_radix(&seed, 16) {
            Ok(number) => match launch::run(judge, &seed, number, &shapes) {
                Ok(record) => JudgeReply::Launched(record),
                Err(forfeit) => JudgeReply::Lost(forfeit),
            },
            Err(_) => failed(format!("`{seed}` is no seed")),
        },
        (JudgeRequest::Trace { seed, case }, Some(judge)) => match u64::from_str_radix(&seed, 16) {
            Ok(number) => match trace::run(judge, &seed, number, &case) {
                Ok(record) => JudgeReply::Traced(record),
                Err(trace::Stopped::Lost(forfeit)) => JudgeReply::Lost(forfeit),
                Err(trace::Stopped::Failed(message)) => failed(message),
            },
            Err(_) => failed(format!("`{seed}` is no seed")),
        },
        (JudgeRequest::Check { contestant }, Some(judge)) if contestant < judge.entrants.len() => {
            match check::run(package, judge, contestant) {
                Ok(trials) => JudgeReply::Checked { trials },
                Err(forfeit) => JudgeReply::Lost(forfeit),
            }
        }
        (JudgeRequest::Check { contestant }, Some(_)) => failed(format!("there is no contestant {contestant}")),
        (JudgeRequest::Ceilings, Some(judge)) => judge
            .ceilings()
            .unwrap_or_else(|loss| JudgeReply::Failed { message: loss.message, no_device: loss.no_device }),
        (_, None) => failed("no bout is open"),
    }
}

impl Judge {
    /// Whether contestants are stopped while they wait: then no thread, no timer and no child of theirs works ahead or
    /// late. Not on a GPU, whose driver must go on.
    fn halts(&self) -> bool {
        self.manifest.backend == Backend::Cpu
    }

    /// Opens a bout; if it cannot be, why, and which contestant is to blame if one is.
    fn open(
        package: &'static Package,
        kernel: &'static dyn Kernel,
        bout: Bout,
    ) -> Result<(Self, Arrangement), (Option<usize>, Loss)> {
        let setup = |error: String| (None, Loss::new(kopt_schema::message::FailureKind::Setup, error));
        if bout.version != BOUT_VERSION {
            let ours = "rebuild the base with the same version of the harness";
            return Err(setup(format!(
                "the referee speaks version {}, the judge {BOUT_VERSION}: {ours}",
                bout.version
            )));
        }
        let manifest = package.manifest();
        let mut entrants = Vec::new();
        for entrant in &bout.contestants {
            let digest = (!entrant.object.is_empty()).then_some(entrant.object.as_str());
            let candidate = Loaded::read(Utf8Path::new(&entrant.candidate), digest, package, &manifest);
            let mut candidate = candidate.map_err(|absent| match absent {
                Absent::NotCompiled(reason) | Absent::Wrong(reason) => setup(reason),
            })?;
            candidate.without.clone_from(&bout.without);
            entrants.push(Entrant { candidate, handicaps: entrant.handicaps.clone() });
        }
        let layouts = cases::entries(package, kernel).map_err(setup)?;
        let wanted = |name: &String| bout.shapes.is_empty() || bout.shapes.contains(name);
        let shapes = manifest.shapes.iter().filter(|shape| wanted(&shape.name));
        let cases: Vec<Case> = shapes.map(|shape| Case { shape: shape.clone(), dtype: manifest.dtype }).collect();
        let seed = u64::from_str_radix(&bout.seed, 16).map_err(|_| setup(format!("`{}` is no seed", bout.seed)))?;
        if entrants.is_empty() || cases.is_empty() || bout.blocks == 0 {
            return Err(setup("a bout needs contestants, shapes and blocks".to_owned()));
        }
        let mut seeds = Draw::new(seed, "decks");
        // References are what takes long: all shapes at once.
        let seeds: Vec<u64> = cases.iter().map(|_| seeds.bits()).collect();
        let mut room = vec![0; cases.len()];
        for (number, entrant) in entrants.iter().enumerate() {
            let forward = layouts.first().ok_or_else(|| setup("an operator without an entry".to_owned()))?;
            let sizes = prepare::sizes(kernel, manifest.backend, forward, &entrant.candidate, &cases)
                .map_err(|loss| (Some(number), loss))?;
            room.iter_mut().zip(sizes).for_each(|(room, size)| *room = size.max(*room));
        }
        let (layouts_of, count) = (&layouts, entrants.len());
        // Where kernels run on a device of its own memory, so does what is dealt to them.
        let table = match manifest.backend {
            Backend::Cuda | Backend::Hip => {
                Some(Arc::new(Table::open(manifest.backend).map_err(|error| (None, error.into()))?))
            }
            Backend::Cpu => None,
        };
        let table = table.as_ref();
        let place = table.and_then(|table| table.device.driver.place(table.device.id));
        let gauge = place.and_then(|place| Gauge::open(&place));
        let decks: Result<Vec<Deck>, (Option<usize>, Loss)> = std::thread::scope(|scope| {
            let deck = |((case, seed), room)| {
                scope.spawn(move || Deck::new(kernel, layouts_of, case, count, room, seed, table))
            };
            let threads: Vec<_> = cases.iter().zip(seeds).zip(room).map(deck).collect();
            let lost = |_| Err(setup("the reference could not be evaluated".to_owned()));
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Deck, Loss>>| match thread.join() {
                Ok(deck) => deck.map_err(|loss| (None, loss)),
                Err(error) => lost(error),
            };
            threads.into_iter().map(join).collect()
        });
        let judge = Self { kernel, manifest, layouts, cases, decks: decks?, traced: None, entrants, bout, gauge };
        // Which device there is, and whether there is one at all.
        let told = |loss: Loss| {
            (None, Loss { message: format!("the incumbent, when it was loaded: {}", loss.message), ..loss })
        };
        let worker = judge.worker().map_err(told)?;
        let arrangement = judge.arrangement(worker.device.clone(), worker.sandbox.clone());
        Ok((judge, arrangement))
    }

    fn worker(&self) -> Result<Contestant, Loss> {
        let symbols: Vec<String> = self.layouts.iter().map(|layout| layout.symbol.to_owned()).collect();
        Contestant::start(&self.entrants[0].candidate, self.manifest.backend, &symbols, &[])
    }

    /// Calls that a contestant's step takes: one an entry, and one to prepare.
    fn calls(&self, contestant: usize) -> usize {
        self.layouts.len() + usize::from(self.entrants[contestant].candidate.prepares.is_some())
    }

    fn arrangement(&self, device: String, sandbox: Sandbox) -> Arrangement {
        let case = |(case, deck): (&Case, &Deck)| CaseInfo {
            name: case.shape.name.clone(),
            cost: deck.cost,
            places: deck.places(),
            contents: deck.contents(),
            routing: case.shape.routing(),
        };
        let huge_pages = self.decks.iter().all(Deck::huge_pages);
        Arrangement { device, huge_pages, sandbox, cases: self.cases.iter().zip(&self.decks).map(case).collect() }
    }

    /// What the device can do, measured in a process of its own.
    fn ceilings(&self) -> Result<JudgeReply, Loss> {
        match Contestant::ceilings(self.manifest.backend, CEILINGS)? {
            Reply::Ceilings { device, copy_bytes_per_s, read_bytes_per_s, write_bytes_per_s, fma_flops_per_s } => {
                Ok(JudgeReply::Ceilings {
                    device,
                    copy_bytes_per_s,
                    read_bytes_per_s,
                    write_bytes_per_s,
                    fma_flops_per_s,
                })
            }
            other => Ok(failed(format!("the worker answered out of turn: {other:?}"))),
        }
    }
}

/// Who loses by it. Where the judge itself could not go on, nothing was learned of a contestant: that is counted as the
/// incumbent's loss, by which nobody is judged.
fn forfeit(contestant: usize, case: Option<String>, loss: Loss) -> Forfeit {
    let (contestant, message) = match loss.of_judge {
        true => (INCUMBENT, format!("the judge could not go on: {}", loss.message)),
        false => (contestant, loss.message),
    };
    Forfeit { contestant, case, kind: loss.kind, message }
}

#[cfg(test)]
mod tests {
    use kopt_schema::message::FailureKind;

    use super::*;

    #[test]
    fn what_the_judge_could_not_do_is_no_loss_of_the_candidate() {
        let own = forfeit(1, None, Loss::of_judge("memory: none is left"));
        assert_eq!((own.contestant, own.kind), (INCUMBENT, FailureKind::Setup));
        assert!(own.message.contains("none is left"), "{}", own.message);
        let said = Loss::new(FailureKind::Setup, "there is no such symbol");
        assert_eq!(forfeit(1, None, said.clone()).contestant, 1);
        assert_eq!(forfeit(1, None, said).message, "there is no such symbol");
    }
}
