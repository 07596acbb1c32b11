//! Contestants that misbehave, and that none of them is accepted: each is found out as what it is, with a message that
//! says what happened, and nothing of it is left behind.
//!
//! `bad-contestants/softmax.c` is an honest kernel with one misdeed, chosen by a macro. It meets the honest one in a real
//! match: referee, judge and contestants as processes. Matches run side by side here and disturb each other; nothing
//! is asserted about times. One test a misdeed: `cargo test --test bad_contestants daemon`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/contest.rs"]
mod contest;

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
use kopt_schema::message::FailureKind::{
    self, Crashed, Exited, InputModified, LateWrite, MemoryLimit, OutOfBounds, Protocol, ReturnedError, Stray,
    TimedOut, Unwritten, WrongValues,
};
use libtest_mimic::{Arguments, Failed, Trial};

use Found::{Faster, InMemory, InRecords, Loses, NoVerdict, NotAccepted, NotFaster, Spoils};
use contest::{Ended, Ring, SHAPES, TIMEOUT_S, compile};

/// Tests at a time: more than cores, since many only wait.
const THREADS: usize = 3;

/// Launches of each stage. Some misdeeds are looked for on a schedule that nobody can predict: those get more.
const FEW: &[usize] = &[6];
const MANY: &[usize] = &[20];
const ALL: &[usize] = &[6, 9, 14, 21, 32, 48];

/// A misdeed, and what must come of it.
struct Misdeed {
    name: &'static str,
    constant: &'static str,
    found: Found,
    incumbent: &'static str,
    looks: &'static [usize],
    /// Why it is not found yet. Such a test is run by `--ignored` only, and fails.
    gap: Option<&'static str>,
}

/// What must come of a misdeed. Lists of kinds and words are exhaustive: anything else fails the test.
enum Found {
    /// A true gain, and accepted: the tests could not fail otherwise.
    Faster,
    /// Harmless: judged as any other version, and no faster.
    NotFaster,
    /// Seen at once, or in the records, or of no use to it: whichever comes first. Not accepted.
    NotAccepted,
    /// The candidate loses, as one of these, with one of these in the message.
    Loses(&'static [FailureKind], &'static [&'static str]),
    /// The same, under a memory limit in MiB.
    InMemory(u64, &'static [FailureKind], &'static [&'static str]),
    /// Nothing is seen at once, but the records cannot be an honest contestant's.
    InRecords(&'static str),
    /// It makes another one lose: no verdict.
    Spoils(&'static [FailureKind]),
    /// It ends the judge: the tool fails, and says so.
    NoVerdict(&'static str),
}

const fn misdeed(name: &'static str, constant: &'static str, found: Found) -> Misdeed {
    Misdeed { name, constant, found, incumbent: "NOTHING", looks: FEW, gap: None }
}

const LATE: &[&str] =
    &["after the call had returned", "threads, and may run one", "elements are wrong", "while it was to wait"];

const MISDEEDS: &[Misdeed] = &[
    // Those that wait for a time limit first: the others run meanwhile.
    misdeed("stops-itself", "STOPS", Loses(&[TimedOut], &["no answer within 2.0 s"])),
    misdeed("hangs", "HANGS", Loses(&[TimedOut], &["no answer within 2.0 s"])),
    misdeed("stops-the-others", "STOPS_OTHERS", NotFaster),
    // Guards of the tests themselves.
    misdeed("honest", "NOTHING", NotFaster),
    Misdeed { incumbent: "SLOW", ..misdeed("honest-and-faster", "NOTHING", Faster) },
    // How the process ends.
    misdeed("exits-in-a-call", "EXITS", Loses(&[Exited], &["exited with code 0 instead of answering"])),
    misdeed("exits-while-loading", "EXITS_LOADING", Loses(&[Exited], &["exited with code 0 instead of answering"])),
    misdeed("crashes", "CRASHES", Loses(&[Crashed], &["died of SIGSEGV at address 0x0"])),
    misdeed("aborts", "ABORTS", Loses(&[Crashed], &["died of SIGABRT"])),
    misdeed("returns-an-error", "RETURNS_AN_ERROR", Loses(&[ReturnedError], &["returned 7"])),
    // What it leaves running.
    misdeed("forks", "FORKS", Loses(&[Stray], &["it started 1 process"])),
    misdeed("leaves-a-daemon", "DAEMON", Loses(&[Stray], &["it left a process behind"])),
    misdeed("leaves-a-daemon-and-crashes", "DAEMON_AND_CRASH", Loses(&[Crashed], &["died of SIGABRT"])),
    misdeed("spins-a-thread", "SPINS", Loses(&[Stray], &["2 threads, and may run one", "while it was to wait"])),
    misdeed("works-by-a-timer", "TIMER_WORK", NotAccepted),
    // When it works.
    misdeed("sleeps-in-warm-up", "SLEEPS", NotFaster),
    misdeed("thread-a-call", "THREAD_A_CALL", InRecords("work was moved out of what is timed")),
    misdeed("hides-in-a-child", "HIDES_IN_A_CHILD", InRecords("work was moved out of what is timed")),
    misdeed("lazy-by-a-thread", "LAZY_THREAD", Loses(&[Unwritten, WrongValues, Stray, LateWrite], LATE)),
    misdeed("lazy-by-a-timer", "LAZY_TIMER", Loses(&[Unwritten, WrongValues, Stray, LateWrite], LATE)),
    misdeed("late-by-a-thread", "LATE_THREAD", Loses(&[Stray, LateWrite], LATE)),
    Misdeed { looks: MANY, ..misdeed("late-by-a-timer", "LATE_TIMER", Loses(&[LateWrite, WrongValues], LATE)) },
    // What it says.
    misdeed("fakes-a-reply", "FAKE_REPLY", Loses(&[Protocol], &["a question that it was not asked"])),
    misdeed(
        "fakes-a-reply-later",
        "FAKE_REPLY_LATER",
        Loses(&[Protocol, Stray], &["a question that it was not asked", "threads, and may run one"]),
    ),
    misdeed("answers-twice", "ANSWERS_TWICE", Loses(&[Protocol], &["a question that it was not asked"])),
    misdeed(
        "closes-its-channel",
        "CLOSES_CHANNEL",
        Loses(&[Exited, Crashed], &["instead of answering", "died of SIGABRT"]),
    ),
    misdeed("sends-no-newline", "NO_NEWLINE", Loses(&[Protocol], &["reply has no end"])),
    misdeed("rewrites-replies", "REWRITES_REPLIES", InRecords("work was moved out of what is timed")),
    misdeed("prints-megabytes", "PRINTS", NotFaster),
    misdeed("prints-a-verdict", "FAKE_VERDICT", NotFaster),
    // What it touches.
    Misdeed {
        looks: MANY,
        ..misdeed("scribbles", "SCRIBBLES", Loses(&[OutOfBounds], &["memory that it was not given to write to"]))
    },
    misdeed("writes-to-an-input", "WRITES_INPUT", Loses(&[InputModified], &["wrote to an input, byte 0 of `x`"])),
    misdeed("unprotects-an-input", "UNPROTECTS_INPUT", Loses(&[InputModified], &["wrote to an input, byte 0 of `x`"])),
    misdeed("reopens-an-input", "REOPENS_INPUT", NotFaster),
    misdeed("shrinks-the-memory", "SHRINKS_MEMORY", NotFaster),
    // What it takes.
    misdeed("eats-memory", "EATS_MEMORY", InMemory(512, &[MemoryLimit], &["MiB of memory, and may take 512"])),
    misdeed(
        "eats-shared-memory",
        "EATS_SHARED_MEMORY",
        InMemory(512, &[MemoryLimit], &["MiB of memory, and may take 512"]),
    ),
    misdeed("leaks-memory", "LEAKS", InMemory(64, &[MemoryLimit], &["MiB of memory, and may take 64"])),
    // What it does not compute.
    misdeed("caches-by-pointer", "STALE", Loses(&[WrongValues], &["elements are wrong"])),
    misdeed("caches-by-a-sample", "CACHES", NotFaster),
    misdeed("caches-rows", "CACHES_ROWS", NotFaster),
    misdeed("skips-every-second-call", "SKIPS", Loses(&[Unwritten], &["of them never written"])),
    misdeed("computes-the-first-row", "FIRST_ROW", Loses(&[Unwritten], &["of them never written"])),
    // What it does to clocks.
    misdeed("patches-the-clock", "PATCHES_CLOCK", InRecords("work was moved out of what is timed")),
    misdeed("interposes-the-clock", "INTERPOSES_CLOCK", NotFaster),
    misdeed("flushes-denormals", "FLUSHES_DENORMALS", NotFaster),
    // What it does to others.
    misdeed("kills-the-judge", "KILLS_JUDGE", NoVerdict("the judge died of signal 9")),
    misdeed("kills-the-others", "KILLS_OTHERS", Spoils(&[Crashed])),
    Misdeed { gap: Some("needs a sandbox"), ..misdeed("fakes-a-loss", "FAKES_A_LOSS", NotFaster) },
    Misdeed { gap: Some("needs a sandbox"), ..misdeed("leaves-files", "LEAVES_FILES", NotFaster) },
    Misdeed { gap: Some("needs the state audit"), ..misdeed("caches-turned-rows", "CACHES_TURNED_ROWS", NotFaster) },
    Misdeed { looks: ALL, gap: Some("takes a minute"), ..misdeed("works-ahead", "WORKS_AHEAD", NotAccepted) },
    Misdeed { looks: ALL, ..misdeed("shades-the-clock", "SHADES_CLOCK", NotAccepted) },
];

fn main() -> ExitCode {
    if let Some(code) = contest::serve_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let possible = MISDEEDS.iter().filter(|misdeed| misdeed.is_possible());
    let test = |misdeed: &'static Misdeed| {
        let trial = Trial::test(misdeed.name, || judge(misdeed).map_err(Failed::from));
        match misdeed.gap {
            Some(why) => trial.with_kind(why).with_ignored_flag(true),
            None => trial,
        }
    };
    libtest_mimic::run(&arguments, possible.map(test).collect()).exit_code()
}

impl Misdeed {
    /// Some are written in one processor's instructions.
    fn is_possible(&self) -> bool {
        let native = ["ANSWERS_TWICE", "REWRITES_REPLIES", "PATCHES_CLOCK", "SHADES_CLOCK", "FLUSHES_DENORMALS"];
        cfg!(target_arch = "x86_64") || !native.contains(&self.constant)
    }
}

/// Holds the match; the error says what came of it instead.
fn judge(misdeed: &Misdeed) -> Result<(), String> {
    let (incumbent, candidate) = (compile(misdeed.incumbent), compile(misdeed.constant));
    let ring = Ring::new();
    let found = if let InMemory(limit, kinds, words) = &misdeed.found {
        let forfeit = launch(&ring, [&incumbent, &candidate], limit << 20);
        forfeit.ok_or("it did not lose".to_owned()).and_then(|forfeit| lost(&forfeit, kinds, words))
    } else {
        // One that loses by what it does needs no other shape to do it.
        let shapes = if matches!(misdeed.found, Loses(..) | Spoils(_) | NoVerdict(_)) { &SHAPES[..1] } else { &SHAPES };
        let hold = || ring.start(&incumbent, &candidate, shapes, misdeed.looks).wait();
        let undecided = |ended: &Ended| {
            let ruling = ended.evidence.as_ref().map(|evidence| evidence.verdict.ruling);
            matches!(ruling, Some(Ruling::Contaminated | Ruling::RolledBackNoise))
        };
        let mut ended = hold();
        // Matches side by side may disturb each other. A gain that is there is found in one of three.
        for _ in 0..2 {
            if matches!(misdeed.found, Faster) && undecided(&ended) {
                ended = hold();
            }
        }
        as_expected(&ended, &misdeed.found).map_err(|wrong| format!("{wrong}\n{}", told(&ended)))
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
    let reason = evidence.verdict.reasons.first().ok_or("no reason")?;
    match (found, &evidence.forfeit) {
        (Faster, None) => ensure(ruling == Ruling::Accepted, "a true gain is not accepted"),
        (NotAccepted, _) => ensure(!matches!(ruling, Ruling::Accepted | Ruling::AcceptedTradeOff), "it was accepted"),
        (NotFaster, None) => {
            // Matches beside it may disturb it.
            let rulings = [Ruling::RolledBack, Ruling::RolledBackNoise, Ruling::Contaminated];
            ensure(rulings.contains(&ruling), "another ruling")
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

fn lost(forfeit: &Forfeit, kinds: &[FailureKind], words: &[&str]) -> Result<(), String> {
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

/// One launch before the judge, without a referee: for what a referee does not let one choose.
fn launch(ring: &Ring, [incumbent, candidate]: [&referee::entrant::Entrant; 2], memory: u64) -> Option<Forfeit> {
    let (context, interrupts) = (Context::of_process().unwrap(), Interrupts::watch().unwrap());
    let mut judge = Judge::start(&context, &interrupts, &ring.judge(), &ring.path("work")).unwrap();
    let entrant = |one: &referee::entrant::Entrant| Entrant { candidate: one.file.to_string(), handicaps: Vec::new() };
    let bout = Bout {
        version: BOUT_VERSION,
        contestants: vec![entrant(incumbent), entrant(candidate), entrant(incumbent)],
        shapes: SHAPES.map(str::to_owned).to_vec(),
        seed: "5eed".to_owned(),
        blocks: 3,
        batch_s: 0.001,
        timeout_s: 10.0 * TIMEOUT_S,
        memory,
    };
    let patience = Duration::from_secs(60);
    let opened = judge.ask(&JudgeRequest::Open(bout), patience).unwrap();
    assert!(matches!(opened, JudgeReply::Opened(_)), "{opened:?}");
    match judge.ask(&JudgeRequest::Launch { seed: "1".to_owned() }, patience).unwrap() {
        JudgeReply::Lost(forfeit) => Some(forfeit),
        _ => None,
    }
}
