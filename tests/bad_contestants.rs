//! Contestants that misbehave, and that none of them is accepted: each is found out as what it is, with a message that
//! says what happened, and nothing of it is left behind.
//!
//! `bad-contestants/softmax.c` is an honest kernel with one misdeed, chosen by a macro; [`misdeeds`] says what must come of
//! each. It meets the honest one in a real match: referee, judge and contestants as processes. What the sandbox or the way
//! calls are made ends at once is tried a second time without them (`…-without`): another defence must do. Matches run side
//! by side here and disturb each other; nothing is asserted about times, but that a misdeed gains nothing of what it is for
//! ([`BY_LAYOUT`]). One test a misdeed: `cargo test --test bad_contestants daemon`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/contest.rs"]
mod contest;
#[path = "bad-contestants/misdeeds.rs"]
mod misdeeds;

use std::process::ExitCode;
use std::time::Duration;

use cargo_kopt::context::Context;
use cargo_kopt::gate;
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee;
use cargo_kopt::referee::judge::Judge;
use kopt_schema::bout::{BOUT_VERSION, Bout, Entrant, Forfeit, JudgeReply, JudgeRequest};
use kopt_schema::evidence::{Evidence, Ruling};
use kopt_schema::exit::Exit;
use kopt_schema::message::FailureKind::{self, ForbiddenCall, OutOfBounds};
use kopt_schema::sandbox::{Defence, Force, Guard};
use libtest_mimic::{Arguments, Failed, Trial};

use contest::{Ended, Ring, SHAPES, TIMEOUT_S, compile};
use misdeeds::Found::{self, Faster, InMemory, InRecords, Loses, NoVerdict, NotAccepted, NotFaster, Spoils};
use misdeeds::{MISDEEDS, Misdeed, UNFENCED};

/// Tests at a time: more than cores, since many only wait.
const THREADS: usize = 3;

/// What two builds of the same loop may differ by, as a share, although it lies alike in them: what it calls does not. Where
/// that makes it faster the gain is a true one, and accepting it is right. What such a misdeed is for is worth several times this.
const BY_LAYOUT: f64 = 0.05;

fn main() -> ExitCode {
    if let Some(code) = contest::serve_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let possible = MISDEEDS.iter().filter(|misdeed| misdeed.is_possible());
    let test = |misdeed: &'static Misdeed| {
        let first = Trial::test(misdeed.name, || judge(misdeed, &misdeed.found, &[]).map_err(Failed::from));
        let second = misdeed.second.as_ref().map(|(without, found)| {
            let trial = move || judge(misdeed, found, without).map_err(Failed::from);
            let trial = Trial::test(format!("{}-without", misdeed.name), trial);
            match misdeed.gap {
                Some(why) => trial.with_kind(why).with_ignored_flag(true),
                None => trial,
            }
        });
        [Some(first), second].into_iter().flatten()
    };
    libtest_mimic::run(&arguments, possible.flat_map(test).collect()).exit_code()
}

/// Holds the match; the error says what came of it instead.
fn judge(misdeed: &Misdeed, wanted: &Found, without: &[Defence]) -> Result<(), String> {
    let (incumbent, candidate) = (compile(misdeed.incumbent), compile(misdeed.constant));
    let ring = match wanted {
        Loses(_, words) if words.iter().any(|words| words.starts_with("no answer")) => Ring::new().impatient(),
        _ => Ring::new(),
    };
    let found = if let InMemory(limit, kinds, words) = wanted {
        let forfeit = launch(&ring, [&incumbent, &candidate], limit << 20, without);
        forfeit.ok_or("it did not lose".to_owned()).and_then(|forfeit| lost(&forfeit, kinds, words))
    } else {
        // One that loses by what it does needs no other shape to do it.
        let shapes = if matches!(wanted, Loses(..) | Spoils(_) | NoVerdict(_)) { &SHAPES[..1] } else { &SHAPES };
        let hold = || ring.start(&incumbent, &candidate, shapes, misdeed.looks, without).wait();
        let undecided = |ended: &Ended| {
            let ruling = ended.evidence.as_ref().map(|evidence| evidence.verdict.ruling);
            matches!(ruling, Some(Ruling::Contaminated | Ruling::RolledBackNoise))
        };
        let accused = |ended: &Ended| {
            let of_records = |evidence: &Evidence| {
                evidence.verdict.ruling == Ruling::IntegrityViolation && evidence.forfeit.is_none()
            };
            ended.evidence.as_ref().is_some_and(of_records)
        };
        let mut ended = hold();
        // Matches side by side may disturb each other. A gain that is there is found in one of three; and one launch in thousands
        // looks like work outside of what is timed, but not twice.
        for _ in 0..2 {
            let again = match wanted {
                Faster => undecided(&ended),
                NotFaster => accused(&ended),
                _ => false,
            };
            if again {
                ended = hold();
            }
        }
        let wanted = match &misdeed.second {
            Some((without, otherwise)) if *without == UNFENCED && lacks_keys(&ended) => otherwise,
            _ => wanted,
        };
        as_expected(&ended, wanted).map_err(|wrong| format!("{wrong}\n{}", told(&ended)))
    };
    let left = ring.left_behind();
    match (found, left.is_empty()) {
        (found, true) => found,
        (found, false) => Err(format!("{}\nleft behind: {}", found.err().unwrap_or_default(), left.join(", "))),
    }
}

fn as_expected(ended: &Ended, found: &Found) -> Result<(), String> {
    if let NoVerdict(words) = found {
        ensure(ended.code == Some(i32::from(Exit::Internal.code())), "another exit code than 70")?;
        ensure(ended.evidence.is_none(), "there is evidence")?;
        return ensure(ended.said.contains(words), &format!("no `{words}` in what it said"));
    }
    let evidence = ended.evidence.as_ref().ok_or("no evidence")?;
    let ruling = evidence.verdict.ruling;
    ensure(ended.code == Some(i32::from(ruling.exit().code())), "the exit code is not the ruling's")?;
    ensure(gate::verdict(evidence) == evidence.verdict, "the verdict does not follow from the evidence")?;
    ensure(!evidence.without.is_empty() || is_confined(evidence), "a contestant was not confined")?;
    let reason = evidence.verdict.reasons.first().ok_or("no reason")?;
    match (found, &evidence.forfeit) {
        (Faster, None) => ensure(ruling == Ruling::Accepted, "a true gain is not accepted"),
        (NotAccepted, _) => ensure(!ruling.is_accepted(), "it was accepted"),
        (NotFaster, None) => {
            // Matches beside it may disturb it.
            let rulings = [Ruling::RolledBack, Ruling::RolledBackNoise, Ruling::Contaminated];
            let judged = rulings.contains(&ruling) || ruling.is_accepted();
            ensure(judged && !has_gained(evidence), "another ruling")
        }
        (Loses(kinds, words), Some(forfeit)) => {
            lost(forfeit, kinds, words)?;
            ensure(ruling == Ruling::of_forfeit(forfeit.kind), "the ruling is not that of the forfeit")?;
            ensure(reason.starts_with("the candidate") && reason.contains(&forfeit.message), "the reason is another")
        }
        (InRecords(words), None) => {
            ensure(ruling == Ruling::IntegrityViolation, "another ruling")?;
            ensure(reason.contains(words), &format!("no `{words}` in the reason"))
        }
        (Spoils(kinds), Some(forfeit)) => {
            ensure(forfeit.contestant != 1 && kinds.contains(&forfeit.kind), "another one loses")?;
            ensure(ruling == Ruling::Contaminated, "another ruling")
        }
        _ => Err("lost, or did not".to_owned()),
    }
}

/// Whether it was accepted for more than its layout can explain.
fn has_gained(evidence: &Evidence) -> bool {
    evidence.verdict.ruling.is_accepted() && evidence.verdict.aggregate.is_none_or(|all| all.gain > BY_LAYOUT)
}

/// Whether everything was in force that this machine has; the others say what is missing.
fn is_confined(evidence: &Evidence) -> bool {
    let sandbox = evidence.arrangement.as_ref().map(|arrangement| &arrangement.sandbox);
    // Not every processor has memory keys.
    let others = |guard: &Guard| guard.defence != Defence::Memory;
    sandbox.is_some_and(|sandbox| !sandbox.guards.is_empty() && !sandbox.lacking().any(others))
}

/// Whether this machine cannot fence in memory.
fn lacks_keys(ended: &Ended) -> bool {
    let arrangement = ended.evidence.as_ref().and_then(|evidence| evidence.arrangement.as_ref());
    let lacking = |guard: &Guard| guard.defence == Defence::Memory && guard.force == Force::None;
    arrangement.is_some_and(|arrangement| arrangement.sandbox.guards.iter().any(lacking))
}

fn lost(forfeit: &Forfeit, kinds: &[FailureKind], words: &[&str]) -> Result<(), String> {
    // The library's part of a forbidden call may write to the library's memory first.
    let fenced = kinds.contains(&ForbiddenCall) && forfeit.message.contains("that is not its own");
    if forfeit.contestant == 1 && fenced && forfeit.kind == OutOfBounds {
        return Ok(());
    }
    let right = forfeit.contestant == 1 && kinds.contains(&forfeit.kind);
    ensure(right && words.iter().any(|words| forfeit.message.contains(words)), &format!("{forfeit:?}"))
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// What came of it, for people.
fn told(ended: &Ended) -> String {
    let verdict = |evidence: &Evidence| {
        let verdict = &evidence.verdict;
        let gain = verdict.aggregate.map(|aggregate| aggregate.gain);
        format!("{:?}, gain {gain:?}, {:?}, {:#?}", verdict.ruling, evidence.forfeit, verdict.reasons)
    };
    let verdict = ended.evidence.as_ref().map_or_else(|| "no evidence".to_owned(), verdict);
    format!("code {:?}, signal {:?}: {verdict}\n{}", ended.code, ended.signal, ended.said)
}

/// Up to eight launches before the judge, without a referee: for what a referee does not let one choose.
fn launch(
    ring: &Ring,
    [incumbent, candidate]: [&referee::entrant::Entrant; 2],
    memory: u64,
    without: &[Defence],
) -> Option<Forfeit> {
    let (context, interrupts) = (Context::of_process().unwrap(), Interrupts::watch().unwrap());
    let mut judge = Judge::start(&context, &interrupts, &ring.judge(), &ring.path("work")).unwrap();
    let entrant = |one: &referee::entrant::Entrant| Entrant {
        candidate: one.file.to_string(),
        object: one.side.object.clone(),
        handicaps: Vec::new(),
    };
    let bout = Bout {
        version: BOUT_VERSION,
        contestants: vec![entrant(incumbent), entrant(candidate), entrant(incumbent)],
        shapes: SHAPES.map(str::to_owned).to_vec(),
        seed: "5eed".to_owned(),
        blocks: 3,
        batch_s: 0.001,
        timeout_s: 10.0 * TIMEOUT_S,
        memory,
        without: without.to_vec(),
    };
    let patience = Duration::from_secs(60);
    let opened = judge.ask(&JudgeRequest::Open(bout), patience).unwrap();
    assert!(matches!(opened, JudgeReply::Opened(_)), "{opened:?}");
    // What it takes is looked at now and then, and nobody knows when.
    (1..=8).find_map(|seed: u32| {
        let request = JudgeRequest::Launch { seed: seed.to_string(), shapes: Vec::new() };
        match judge.ask(&request, patience).unwrap() {
            JudgeReply::Lost(forfeit) => Some(forfeit),
            _ => None,
        }
    })
}
