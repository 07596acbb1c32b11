//! Processes of a match that are killed at random moments: the referee, the judge, a contestant. The survivors end by
//! themselves, nothing is left behind, what came of it is clear, and the next match in the same folders is none the worse.
//! And `cargo kopt compare` itself, killed while it exports, compiles, builds or measures: the next one gets on with it.
//!
//! Ten kills, or as many as `KOPT_KILLS` says. The seed of the moments is printed; `KOPT_KILL_SEED` gives it again.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/chance.rs"]
mod chance;

#[path = "support/contest.rs"]
mod contest;

#[path = "support/command.rs"]
mod command;

#[path = "support/history.rs"]
mod history;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cargo_kopt::referee::entrant::Entrant;
use cargo_kopt::replacement::PREFIX;
use kopt_schema::evidence::Ruling;
use kopt_schema::exit::Exit;
use kopt_schema::message::FailureKind;
use libtest_mimic::{Arguments, Failed, Trial};

use chance::Chance;
use contest::{Ended, Process, Referee, Ring, SHAPES, compile};

/// Kills, if not asked for another number.
const KILLS: u64 = 10;

/// Launches of a match. One takes about this long; kills come within it.
const LOOKS: &[usize] = &[6];
const MATCH: Duration = Duration::from_millis(2500);

/// A victim that is not there yet, or not at this moment, is waited for no longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kill that comes when the match is over is none: it is made again, sooner, this many times at most.
const TRIES: i32 = 6;
const TOO_LATE: &str = "too late";

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Referee,
    Judge,
    Contestant,
}

/// Those of a match; the command is another matter.
const VICTIMS: [Victim; 3] = [Victim::Referee, Victim::Judge, Victim::Contestant];

#[allow(clippy::print_stderr, reason = "whoever runs the test wants to be able to repeat it")]
fn main() -> ExitCode {
    if let Some(code) = contest::serve_if_asked() {
        return code;
    }
    let (kills, seed) = (chance::kills(KILLS), chance::seed());
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(VICTIMS.len() + 1);
    if !arguments.list {
        eprintln!("{kills} kills, KOPT_KILL_SEED={seed:016x}");
    }
    let share = move |number: u64| (kills + number) / (VICTIMS.len() as u64 + 1);
    let trial = |(number, victim): (u64, Victim)| {
        let name = format!("{victim:?}").to_lowercase();
        Trial::test(name, move || rounds_of(victim, share(number), seed ^ number).map_err(Failed::from))
    };
    let command = Trial::test("command", move || command::rounds(share(3), seed ^ 3).map_err(Failed::from));
    let trials = (0..).zip(VICTIMS).map(trial).chain([command]);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Kills the victim this many times, each time in a match of its own; the error says what came of it instead.
#[allow(clippy::print_stderr, reason = "what the kills came to is worth knowing when there are many")]
fn rounds_of(victim: Victim, rounds: u64, seed: u64) -> Result<(), String> {
    let (incumbent, candidate) = (compile("NOTHING"), compile("HONEST_TOO"));
    let mut chance = Chance(seed);
    let mut outcomes: Vec<(String, usize)> = Vec::new();
    let ring = Ring::new();
    for round in 0..rounds {
        let killed = kill_in_time(&ring, [&incumbent, &candidate], victim, &mut chance);
        let outcome = killed.map_err(|wrong| format!("kill {round} {wrong}"))?;
        match outcomes.iter_mut().find(|(name, _)| *name == outcome) {
            Some((_, count)) => *count += 1,
            None => outcomes.push((outcome, 1)),
        }
    }
    // Nothing that was left behind stands in the way of a whole match.
    let ended = ring.start(&incumbent, &candidate, &SHAPES, LOOKS, &[]).wait();
    let whole = ended.evidence.as_ref().is_some_and(|evidence| evidence.forfeit.is_none());
    ensure(whole, || format!("the match after the kills: code {:?}\n{}", ended.code, ended.said))?;
    ensure(ring.left_behind().is_empty(), || "the match after the kills left something behind".to_owned())?;
    for (outcome, count) in outcomes {
        eprintln!("{victim:?} killed: {count} times {outcome}");
    }
    Ok(())
}

/// One kill of somebody who was still at it; what came of it, in words.
fn kill_in_time(ring: &Ring, entrants: [&Entrant; 2], victim: Victim, chance: &mut Chance) -> Result<String, String> {
    for late in 0..TRIES {
        let moment = MATCH.mul_f64(chance.share() * 0.5f64.powi(late));
        let outcome = kill(ring, entrants, victim, moment, chance);
        let outcome = outcome.map_err(|wrong| format!("after {moment:?}: {wrong}"))?;
        if outcome != TOO_LATE {
            return Ok(outcome);
        }
    }
    Err(format!("came too late {TRIES} times"))
}

/// One kill; what came of it, in words.
fn kill(
    ring: &Ring,
    entrants: [&Entrant; 2],
    victim: Victim,
    moment: Duration,
    chance: &mut Chance,
) -> Result<String, String> {
    let mut referee = ring.start(entrants[0], entrants[1], &SHAPES, LOOKS, &[]);
    std::thread::sleep(moment);
    let struck = strike(ring, entrants, victim, &mut referee, chance);
    let ended = referee.wait();
    let outcome = outcome(&ended, victim, struck).map_err(|wrong| {
        format!("{wrong} ({struck:?})\ncode {:?}, signal {:?}\n{}", ended.code, ended.signal, ended.said)
    });
    let left = ring.left_behind();
    ensure(left.is_empty(), || format!("left behind: {}", left.join(", ")))?;
    let mut evidence: Vec<_> = fs::read_dir(ring.path("evidence")).unwrap().flatten().collect();
    // Where a file system knows no files without names, one is written beside its place: who is killed before it is moved leaves it.
    evidence.retain(|entry| !entry.file_name().to_string_lossy().starts_with(PREFIX));
    ensure(evidence.is_empty(), || format!("left behind with the evidence: {evidence:?}"))?;
    outcome
}

/// Whose process was killed, as far as one can tell from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Struck {
    /// Nobody's: the match was over.
    None,
    Referee,
    Judge,
    /// The incumbent's or its twin's.
    Incumbent,
    Candidate,
    /// One that had loaded nothing yet.
    Somebody,
}

fn strike(ring: &Ring, entrants: [&Entrant; 2], victim: Victim, referee: &mut Referee, chance: &mut Chance) -> Struck {
    let role = match victim {
        Victim::Referee => {
            referee.kill();
            return Struck::Referee;
        }
        Victim::Judge => "--kopt-judge",
        Victim::Contestant => "--kopt-worker",
    };
    // A judge first asks a contestant of its own about the device; that one alone would be killed too often.
    let least = if victim == Victim::Contestant && chance.below(4) > 0 { 2 } else { 1 };
    // The first launch begins at about the same time in every match: not all kills shall come then.
    let mut pause = MATCH.mul_f64(0.4 * chance.share());
    let deadline = Instant::now() + PATIENCE;
    while !referee.has_ended() && Instant::now() < deadline {
        let mut found: Vec<Process> =
            Process::below(&ring.path("")).into_iter().filter(|process| process.role == role).collect();
        // A contestant has its judge's words until it is itself: of these, the judge is the one that no other has started.
        let ids: Vec<_> = found.iter().map(|process| process.id).collect();
        found.retain(|process| !ids.contains(&process.parent));
        if least > 1 && found.len() >= least && !pause.is_zero() {
            std::thread::sleep(std::mem::take(&mut pause));
            continue;
        }
        if let Some(process) = found.get(chance.below(found.len())).filter(|_| found.len() >= least) {
            let maps = fs::read_to_string(format!("/proc/{}/maps", process.id)).unwrap_or_default();
            process.kill();
            let has = |entrant: &Entrant| maps.contains(entrant.file.parent().unwrap().as_str());
            return match (victim, has(entrants[0]), has(entrants[1])) {
                (Victim::Judge, ..) => Struck::Judge,
                (_, true, _) => Struck::Incumbent,
                (_, _, true) => Struck::Candidate,
                _ => Struck::Somebody,
            };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Struck::None
}

/// What came of a kill, in words, if it is one of the things that may.
fn outcome(ended: &Ended, victim: Victim, struck: Struck) -> Result<String, String> {
    if victim == Victim::Referee {
        let over = ended.code.is_some() && ended.evidence.is_some();
        ensure(ended.signal == Some(9) || over, || "the referee did not die".to_owned())?;
        return Ok(if over { TOO_LATE } else { "and all below it" }.to_owned());
    }
    let Some(evidence) = &ended.evidence else {
        let exit = if struck == Struck::Judge { Exit::Internal } else { Exit::Setup };
        let words = if struck == Struck::Judge { "the judge died of signal 9" } else { "died of SIGKILL" };
        ensure(ended.code == Some(i32::from(exit.code())), || "another exit code".to_owned())?;
        ensure(ended.said.contains(words), || format!("no `{words}` in what was said"))?;
        return Ok(format!("no verdict, exit {}", exit.code()));
    };
    let ruling = evidence.verdict.ruling;
    ensure(ended.code == Some(i32::from(ruling.exit().code())), || "the exit code is not the ruling's".to_owned())?;
    let accepted = matches!(ruling, Ruling::Accepted | Ruling::AcceptedTradeOff | Ruling::IntegrityViolation);
    ensure(!accepted, || format!("ruled {ruling:?}"))?;
    let Some(forfeit) = &evidence.forfeit else {
        // The process was about to be ended, or the judge's work was done: nothing that counts was lost.
        return Ok(TOO_LATE.to_owned());
    };
    ensure(forfeit.kind == FailureKind::Crashed && forfeit.message.contains("SIGKILL"), || format!("{forfeit:?}"))?;
    let right = match forfeit.contestant {
        1 => ruling == Ruling::Incorrect && struck != Struck::Incumbent,
        _ => ruling == Ruling::Contaminated && struck != Struck::Candidate,
    };
    ensure(right && victim == Victim::Contestant, || format!("ruled {ruling:?}: {forfeit:?}"))?;
    Ok(format!("{struck:?} lost: {}, exit {}", ruling.name(), ruling.exit().code()))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
