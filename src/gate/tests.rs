//! Evidence made by hand, and what must follow from it.

mod looks;
mod slowdown;

use std::collections::BTreeMap;

use kopt_schema::audit::{Audit, Finding, Severity, Stateless};
use kopt_schema::bout::{Arrangement, BlockRecord, CaseInfo, CaseRecord, Forfeit, LaunchRecord, Rung};
use kopt_schema::evidence::{Ceilings, Direction, Evidence, Machine, Ruling, Side, Stage, StageKind, Terms};
use kopt_schema::manifest::{Backend, Class};
use kopt_schema::message::{Cost, FailureKind};
use kopt_schema::sandbox::Sandbox;
use kopt_stats::Effect;

use super::{
    CANDIDATE, Next, below_floor, gate_terms, is_half_confirmed, is_refused, next, placeholder, terms, unsettled,
    verdict, words,
};

/// Times of incumbent, candidate and control on one shape, in nanoseconds a batch: by its own clock, the judge's, and in
/// processor time.
#[derive(Clone, Copy)]
pub(super) struct Times {
    device: [u64; 3],
    wall: [u64; 3],
    cpu: [u64; 3],
}

impl Times {
    /// All clocks agree up to a constant.
    pub(super) fn honest(device: [u64; 3]) -> Self {
        Self { device, wall: device.map(|ns| ns + 300_000), cpu: device.map(|ns| ns + 100_000) }
    }
}

fn side() -> Side {
    Side {
        prepares: false,
        revision: "working tree".to_owned(),
        name: ".".to_owned(),
        object: "00".to_owned(),
        code: "00".to_owned(),
        compiler: "cc".to_owned(),
        flags: Vec::new(),
        knobs: BTreeMap::new(),
        audit: None,
    }
}

/// Evidence on two shapes without a launch.
pub(super) fn empty() -> Evidence {
    let case = |name: &str| CaseInfo {
        name: name.to_owned(),
        cost: Cost { bytes_read: 1e6, bytes_written: 1e6, flops: 1e6 },
        places: 16,
        contents: 1000,
        routing: None,
    };
    Evidence {
        format: 1,
        tool: "0".to_owned(),
        kernel: "k".to_owned(),
        op: "softmax".to_owned(),
        backend: Backend::Cpu,
        class: Class::Native,
        started: "2000-01-01 00:00".to_owned(),
        seconds: 0.0,
        incumbent: side(),
        candidate: side(),
        machine: Machine::default(),
        terms: Terms { trace: false, ..terms("default", None, false).unwrap() },
        seed: "0".to_owned(),
        injected: Vec::new(),
        without: Vec::new(),
        identical: false,
        arrangement: Some(Arrangement {
            device: "d".to_owned(),
            huge_pages: true,
            sandbox: Sandbox::default(),
            cases: vec![case("small"), case("large")],
        }),
        left_out: Vec::new(),
        trials: 0,
        ceilings: None,
        stages: Vec::new(),
        trace: Vec::new(),
        forfeit: None,
        called_off: None,
        verdict: placeholder(),
    }
}

/// A launch in which the noise of launch `number` (some 0.1 %) is on the candidate's times.
fn launch(number: usize, small: Times, large: Times) -> LaunchRecord {
    let jitter = |ns: u64| ns + ns * (number as u64 % 3) / 1000;
    let case = |name: &str, times: Times| {
        let both = |ns: [u64; 3]| {
            vec![
                [ns[0]; 2],
                [jitter(ns[1]); 2],
                [if number.is_multiple_of(2) { ns[2] + ns[2] / 2000 } else { ns[2] - ns[2] / 2000 }; 2],
            ]
        };
        let block = BlockRecord {
            order: vec![0, 1, 2],
            device_ns: both(times.device),
            wall_ns: both(times.wall),
            cpu_ns: both(times.cpu),
        };
        CaseRecord {
            case: name.to_owned(),
            warmed_up: vec![0, 1, 2],
            calls: 10,
            ladder: Vec::new(),
            blocks: vec![block; 3],
            throttled: 0,
            stood_still: 0,
            megahertz: None,
            checked: 5,
        }
    };
    LaunchRecord {
        seed: format!("{number:x}"),
        started: vec![0, 1, 2],
        ended: vec![0, 1, 2],
        outputs: vec![0, 1, 2],
        processor: Some(1),
        wall_s: 0.1,
        idle_s: vec![0.0; 3],
        cases: vec![case("small", small), case("large", large)],
    }
}

/// Runs the referee's loop on launches that are always the same but for a little noise.
pub(super) fn play(evidence: Evidence, small: Times, large: Times) -> Evidence {
    play_each(evidence, |number| launch(number, small, large))
}

/// The same on launches that differ.
fn play_each(mut evidence: Evidence, launched: impl Fn(usize) -> LaunchRecord) -> Evidence {
    for number in 0.. {
        match next(&evidence) {
            Next::Done => break,
            Next::Confirm => evidence.stages.push(Stage { kind: StageKind::Confirmation, launches: Vec::new() }),
            Next::Measure if evidence.stages.is_empty() => {
                evidence.stages.push(Stage { kind: StageKind::Screen, launches: Vec::new() });
            }
            Next::Measure => {}
        }
        let (mut launch, asked) = (launched(number), unsettled(&evidence));
        launch.cases.retain(|case| asked.is_empty() || asked.contains(&case.case));
        evidence.stages.last_mut().unwrap().launches.push(launch);
    }
    evidence.verdict = verdict(&evidence);
    evidence
}

pub(super) const MS: u64 = 1_000_000;

#[test]
fn a_clear_gain_is_screened_in_six_launches_confirmed_in_five_and_accepted() {
    let evidence = play(empty(), Times::honest([MS, MS * 9 / 10, MS]), Times::honest([MS, MS * 9 / 10, MS]));
    assert_eq!(evidence.stages.iter().map(|stage| stage.launches.len()).collect::<Vec<_>>(), [6, 5]);
    let verdict = &evidence.verdict;
    assert_eq!((verdict.ruling, verdict.direction), (Ruling::Accepted, Direction::Faster));
    let aggregate = verdict.aggregate.unwrap();
    assert!((aggregate.gain - 0.111).abs() < 0.002 && aggregate.low > 0.10 && aggregate.high < 0.12, "{aggregate:?}");
    assert!((verdict.false_accept - 0.0004).abs() < 1e-9);
    assert_eq!(verdict.shapes.iter().map(|shape| shape.direction).collect::<Vec<_>>(), [Direction::Faster; 2]);
    assert!((verdict.shapes[0].incumbent_s - 1e-4).abs() < 1e-9);
    // Once it is under way a confirmation is brought to its first look.
    let cut = |launches: usize| {
        let mut evidence = evidence.clone();
        evidence.stages[1].launches.truncate(launches);
        is_half_confirmed(&evidence)
    };
    assert_eq!([0, 1, 4, 5].map(cut), [false, true, true, false]);
    let screen = Evidence { stages: evidence.stages[..1].to_vec(), ..evidence.clone() };
    assert!(!is_half_confirmed(&screen));
    let mut gate = Evidence { terms: gate_terms(0.02).unwrap(), ..evidence };
    gate.stages[1].launches.truncate(1);
    assert!(!is_half_confirmed(&gate), "a gate shares its time among kernels, and goes on later");
}

#[test]
fn a_disturbed_launch_of_a_confirmation_gets_it_a_second_look() {
    let (small, large) = (Times::honest([MS, MS * 9 / 10, MS]), Times::honest([MS, MS * 9 / 10, MS]));
    let mut evidence = play(empty(), small, large);
    // Somebody else had the processor while the candidate had its turn.
    for block in &mut evidence.stages[1].launches[3].cases[1].blocks {
        for times in [&mut block.device_ns, &mut block.wall_ns, &mut block.cpu_ns] {
            times[1] = [MS * 14 / 10; 2];
        }
    }
    assert_eq!((next(&evidence), verdict(&evidence).ruling), (Next::Measure, Ruling::RolledBackNoise));
    let mut older = evidence.clone();
    older.terms.confirmation_looks = 1;
    assert_eq!((next(&older), verdict(&older).ruling), (Next::Done, Ruling::RolledBackNoise));
    let further = play(evidence, small, large);
    assert_eq!(further.stages[1].launches.len(), 15);
    assert_eq!(further.verdict.ruling, Ruling::Accepted, "{:?}", further.verdict.reasons);
}

#[test]
fn where_nothing_is_to_be_confirmed_a_gain_ends_the_screen_and_is_not_accepted() {
    let gain = Times::honest([MS, MS * 9 / 10, MS]);
    let mut evidence = empty();
    evidence.terms.confirmation_looks = 0;
    let played = play(evidence, gain, gain);
    assert_eq!((played.stages.len(), played.stages[0].launches.len()), (1, 6));
    assert_eq!(played.verdict.ruling, Ruling::RolledBackNoise);
    assert_eq!(played.verdict.reasons, [words::screened()]);
    let mut confirmed = play(empty(), gain, gain);
    confirmed.terms.confirmation_looks = 0;
    assert_eq!(verdict(&confirmed).ruling, Ruling::RolledBackNoise, "not by a confirmation that nobody asked for");
    assert_eq!(play(empty(), gain, gain).verdict.ruling, Ruling::Accepted, "the same, confirmed");
}

#[test]
fn a_no_op_is_rolled_back_as_the_same() {
    let evidence = play(empty(), Times::honest([MS; 3]), Times::honest([MS; 3]));
    assert_eq!((evidence.verdict.ruling, evidence.verdict.direction), (Ruling::RolledBack, Direction::Same));
    assert_eq!(evidence.verdict.reasons, ["a gain of 1.0 % or more is ruled out at 90 %"]);
    assert!(evidence.verdict.losing(evidence.terms.max_regression).is_empty());
}

#[test]
fn a_slower_core_shape_rolls_back_whatever_the_aggregate() {
    let evidence = play(empty(), Times::honest([MS, MS * 12 / 10, MS]), Times::honest([MS, MS / 2, MS]));
    assert_eq!(evidence.verdict.ruling, Ruling::RolledBack);
    assert_eq!(evidence.verdict.reasons, ["small is slower by 5 % or more"]);
    let losing: Vec<&str> =
        evidence.verdict.losing(evidence.terms.max_regression).iter().map(|shape| shape.shape.as_str()).collect();
    assert_eq!(losing, ["small"]);
    let mut lenient = empty();
    lenient.terms.core = vec!["large".to_owned()];
    let evidence = play(lenient, Times::honest([MS, MS * 12 / 10, MS]), Times::honest([MS, MS / 2, MS]));
    assert_eq!(evidence.verdict.ruling, Ruling::AcceptedTradeOff);
    assert!(evidence.verdict.reasons[0].ends_with("slower all the same: small"), "{:?}", evidence.verdict.reasons);
}

#[test]
fn an_incumbent_that_differs_from_itself_leaves_no_verdict() {
    let times = Times::honest([MS, MS * 9 / 10, MS * 98 / 100]);
    let evidence = play(empty(), times, times);
    assert_eq!(evidence.verdict.ruling, Ruling::Contaminated);
    assert!(evidence.verdict.reasons[0].contains("differs from itself by +2.0"), "{:?}", evidence.verdict.reasons);
}

#[test]
fn time_that_only_its_own_clock_saves_is_a_violation() {
    let moved = Times { wall: [2 * MS; 3], ..Times::honest([MS, MS * 8 / 10, MS]) };
    let evidence = play(empty(), moved, Times::honest([MS; 3]));
    assert_eq!(evidence.verdict.ruling, Ruling::IntegrityViolation);
    assert!(
        evidence.verdict.reasons[0].starts_with("small: it claims to save 19.9 %"),
        "{:?}",
        evidence.verdict.reasons
    );
    let threads = Times { cpu: [MS, 2 * MS, MS], ..Times::honest([MS, MS * 8 / 10, MS]) };
    let evidence = play(empty(), threads, threads);
    assert_eq!(evidence.verdict.ruling, Ruling::IntegrityViolation);
    assert!(evidence.verdict.reasons[0].contains("processor time"), "{:?}", evidence.verdict.reasons);
}

#[test]
fn a_clock_that_runs_slow_by_a_little_is_a_violation() {
    let shaded = Times { cpu: [MS + 100_000; 3], ..Times::honest([MS, MS * 985 / 1000, MS]) };
    let evidence = play(empty(), shaded, shaded);
    assert_eq!(evidence.verdict.ruling, Ruling::IntegrityViolation, "{:?}", evidence.verdict.reasons);
}

#[test]
fn what_is_slower_is_not_accused_for_what_the_books_count_beyond_its_clock() {
    let slower = Times { cpu: [MS, MS * 145 / 100, MS], ..Times::honest([MS, MS * 142 / 100, MS]) };
    let evidence = play(empty(), slower, slower);
    assert_eq!(evidence.verdict.ruling, Ruling::RolledBack, "{:?}", evidence.verdict.reasons);
    let moved = Times { cpu: [MS, 2 * MS, MS], ..slower };
    let evidence = play(empty(), moved, moved);
    assert_eq!(evidence.verdict.ruling, Ruling::IntegrityViolation, "{:?}", evidence.verdict.reasons);
}

#[test]
fn a_gain_that_the_books_leave_in_doubt_is_not_accepted() {
    let times = Times::honest([MS, MS * 98 / 100, MS]);
    let mut evidence = play(empty(), times, times);
    assert_eq!(evidence.verdict.ruling, Ruling::Accepted);
    let launches = evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches);
    for (number, launch) in launches.enumerate() {
        // On average nothing was saved, and the books are too noisy to prove that.
        let booked = if number % 2 == 0 { MS * 103 / 100 } else { MS * 97 / 100 };
        for block in launch.cases.iter_mut().flat_map(|case| &mut case.blocks) {
            block.cpu_ns = vec![[MS; 2], [booked; 2], [MS; 2]];
        }
    }
    let found = verdict(&evidence);
    assert_eq!(found.ruling, Ruling::RolledBackNoise, "{:?}", found.reasons);
    assert!(found.reasons[0].contains("count of its processor time"), "{:?}", found.reasons);
    // It is measured further, up to as many launches again.
    let confirmed = evidence.stages[1].launches.len();
    let mut doubted = evidence.clone();
    while next(&doubted) == Next::Measure {
        let noisy = doubted.stages[1].launches[doubted.stages[1].launches.len() - 2].clone();
        doubted.stages[1].launches.push(noisy);
    }
    assert_eq!(doubted.stages[1].launches.len(), 2 * confirmed);
    assert_eq!(verdict(&doubted).ruling, Ruling::RolledBackNoise);
    // Books that prove it by then end it.
    for case in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches).flat_map(|launch| &mut launch.cases) {
        case.blocks.iter_mut().for_each(|block| block.cpu_ns.clone_from(&block.device_ns));
    }
    assert_eq!(next(&evidence), Next::Done);
    assert_eq!(verdict(&evidence).ruling, Ruling::Accepted);
}

/// Somebody else did the work, whose processor time is in other books, on a machine whose wall clock proves nothing.
#[test]
fn a_large_gain_that_the_judges_clock_leaves_in_doubt_is_not_accepted() {
    let times = |number: usize, wall: u64| {
        let (device, spread) = ([MS, MS / 4, MS], [0, 3 * MS, 0, MS, 2 * MS, 0][number % 6]);
        let wall = [MS + spread, wall + (3 * MS - spread), MS + spread];
        Times { device, wall, cpu: device.map(|ns| ns + 100_000) }
    };
    let hidden = play_each(empty(), |number| launch(number, times(number, MS), times(number, MS)));
    assert_eq!(hidden.verdict.ruling, Ruling::RolledBackNoise, "{:?}", hidden.verdict.reasons);
    assert!(hidden.verdict.reasons[0].contains("the judge's clock"), "{:?}", hidden.verdict.reasons);
    // Looked at as long again.
    assert!(hidden.stages[1].launches.len() >= 10, "{}", hidden.stages[1].launches.len());
    let honest = Times::honest([MS, MS / 4, MS]);
    assert_eq!(play(empty(), honest, honest).verdict.ruling, Ruling::Accepted);
}

#[test]
fn a_disturbed_block_does_not_hide_a_gain_from_the_books() {
    let times = Times::honest([MS, MS * 98 / 100, MS]);
    let mut evidence = play(empty(), times, times);
    for launch in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches).step_by(3) {
        for case in &mut launch.cases {
            let block = case.blocks[0].clone();
            // Blocks differ a little, and one was interrupted.
            case.blocks = (0..9).map(|_| block.clone()).collect();
            for (number, block) in case.blocks.iter_mut().enumerate() {
                block.cpu_ns[CANDIDATE] = block.cpu_ns[CANDIDATE].map(|ns| ns + 500 * number as u64);
            }
            case.blocks[4].cpu_ns[CANDIDATE][0] += 4 * MS / 10;
        }
    }
    let found = verdict(&evidence);
    assert_eq!(found.ruling, Ruling::Accepted, "{:?}", found.reasons);
}

#[test]
fn work_while_others_run_is_a_violation() {
    let times = Times::honest([MS, MS * 9 / 10, MS]);
    let mut evidence = play(empty(), times, times);
    for (number, launch) in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches).enumerate() {
        launch.idle_s = vec![0.002, 0.010 + 0.001 * (number % 3) as f64, 0.002];
    }
    assert_eq!(verdict(&evidence).ruling, Ruling::IntegrityViolation);
    for launch in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches) {
        launch.idle_s = vec![0.010, 0.010, 0.010];
    }
    assert_eq!(verdict(&evidence).ruling, Ruling::Accepted);
}

#[test]
fn what_one_test_of_eight_shows_once_in_thousands_accuses_nobody() {
    let times = Times::honest([MS, MS * 9 / 10, MS]);
    let mut evidence = play(empty(), times, times);
    for (number, launch) in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches).enumerate() {
        launch.idle_s = vec![0.002, 0.0033 + 0.001 * (number % 3) as f64, 0.002];
    }
    let launches = evidence.stages.iter().flat_map(|stage| &stage.launches);
    let excesses: Vec<f64> = launches.map(|launch| launch.idle_s[1] - launch.idle_s[0]).collect();
    let by_chance = Effect::of(&excesses).p_above(0.001);
    // Two shapes with three tests each, and two of both.
    assert!(by_chance < 0.001 && by_chance > 0.001 / 8.0, "{by_chance}");
    assert_eq!(verdict(&evidence).ruling, Ruling::Accepted);
}

#[test]
fn a_call_that_is_fast_only_in_company_is_a_violation() {
    let mut evidence = play(empty(), Times::honest([MS, MS / 2, MS]), Times::honest([MS, MS / 2, MS]));
    let rung = |calls: u64, candidate: u64| Rung { calls, device_ns: vec![calls * MS, candidate, calls * MS] };
    for launch in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches) {
        launch.cases[0].ladder = vec![rung(1, 2 * MS), rung(2, 2 * MS), rung(8, 4 * MS)];
    }
    assert_eq!(verdict(&evidence).ruling, Ruling::IntegrityViolation);
    for launch in evidence.stages.iter_mut().flat_map(|stage| &mut stage.launches) {
        launch.cases[0].ladder = vec![rung(1, MS / 2), rung(8, 4 * MS)];
    }
    assert_eq!(verdict(&evidence).ruling, Ruling::Accepted);
}

#[test]
fn faster_than_the_memory_is_impossible_unless_the_incumbent_is_too() {
    let mut evidence = play(empty(), Times::honest([MS, MS / 2, MS]), Times::honest([MS, MS / 2, MS]));
    // 100 and 50 µs a call for a megabyte read.
    let ceilings = |read: f64| Ceilings {
        device: "d".to_owned(),
        measured: String::new(),
        copy_bytes_per_s: 1e12,
        read_bytes_per_s: Some(read),
        write_bytes_per_s: None,
        fma_flops_per_s: None,
    };
    for (read, impossible) in [(2.2e10, false), (1.5e10, true), (0.5e10, false)] {
        evidence.ceilings = Some(ceilings(read));
        assert_eq!(below_floor(&evidence).is_some(), impossible, "{read:e}");
    }
}

#[test]
fn a_forfeit_is_the_losers_fault_unless_it_is_the_incumbents() {
    let lost = |contestant, kind| {
        let forfeit = Forfeit { contestant, case: Some("small".to_owned()), kind, message: "hm".to_owned() };
        let evidence = Evidence { forfeit: Some(forfeit), ..empty() };
        assert_eq!(next(&evidence), Next::Done);
        verdict(&evidence).ruling
    };
    assert_eq!(lost(1, FailureKind::WrongValues), Ruling::Incorrect);
    assert_eq!(lost(1, FailureKind::TimedOut), Ruling::Incorrect);
    assert_eq!(lost(1, FailureKind::TooSlow), Ruling::RolledBack);
    assert_eq!(lost(1, FailureKind::Stray), Ruling::IntegrityViolation);
    assert_eq!(lost(1, FailureKind::LateWrite), Ruling::IntegrityViolation);
    assert_eq!(lost(0, FailureKind::WrongValues), Ruling::Contaminated);
    // Who took the memory is not known.
    assert_eq!(lost(1, FailureKind::NoMemory), Ruling::Contaminated);
}

#[test]
fn identical_code_is_the_same_at_once() {
    let evidence = Evidence { identical: true, ..empty() };
    let verdict = verdict(&evidence);
    assert_eq!((next(&evidence), verdict.ruling, verdict.direction), (Next::Done, Ruling::RolledBack, Direction::Same));
    let service = Evidence { terms: terms("service", None, false).unwrap(), ..evidence };
    assert_eq!(super::verdict(&service).ruling, Ruling::Accepted);
}

#[test]
fn what_was_cut_off_decides_nothing() {
    let mut evidence = play(empty(), Times::honest([MS, MS / 2, MS]), Times::honest([MS, MS / 2, MS]));
    evidence.stages[1].launches.truncate(4);
    let cut = verdict(&evidence);
    assert_eq!((cut.ruling, cut.direction), (Ruling::RolledBackNoise, Direction::Faster));
    evidence.stages.truncate(1);
    evidence.stages[0].launches.truncate(5);
    assert_eq!(verdict(&evidence).ruling, Ruling::RolledBackNoise);
    evidence.stages[0].launches[0].cases.clear();
    evidence.stages[0].launches[1].cases[0].blocks.clear();
    evidence.stages[0].launches[2].cases[1].blocks[0].device_ns.truncate(1);
    assert_eq!(verdict(&evidence).ruling, Ruling::RolledBackNoise);
}

#[test]
fn policies_and_gains_that_do_not_exist_are_refused() {
    assert!(terms("Default", None, false).unwrap_err().contains("no policy is called"));
    assert!(terms("default", Some(1.5), false).is_err() && terms("default", Some(f64::NAN), false).is_err());
    assert_eq!(terms("tile", Some(0.03), true).unwrap().looks, [6, 9, 14]);
}

/// An audit that found this of the named rules.
fn audit(found: &[(&str, &str, Severity)]) -> Audit {
    let finding = |(rule, what, severity): &(&str, &str, Severity)| Finding {
        rule: (*rule).to_owned(),
        severity: *severity,
        keeps: false,
        what: (*what).to_owned(),
        symbol: Some("softmax".to_owned()),
        section: Some(".text".to_owned()),
        offset: Some(28),
        instruction: None,
        source: None,
        more: 0,
    };
    Audit {
        class: Class::Native,
        stateless: Stateless::Presumed,
        scope: String::new(),
        findings: found.iter().map(finding).collect(),
        allowed: Vec::new(),
    }
}

#[test]
fn a_violation_that_only_the_candidate_has_is_the_ruling_and_needs_no_clock() {
    use Severity::{Note, Violation};
    let syscall = ("system-call", "syscall", Violation);
    let malloc = ("import-memory", "malloc", Violation);
    let cases: [(&[_], &[_], bool); 6] = [
        (&[], &[syscall], true),
        (&[syscall], &[syscall], false),
        (&[syscall], &[syscall, malloc], true),
        (&[malloc], &[("import-memory", "free", Violation)], true),
        (&[], &[("export", "helper", Note)], false),
        (&[syscall], &[], false),
    ];
    for (incumbent, candidate, refused) in cases {
        let mut evidence = empty();
        evidence.incumbent.audit = Some(audit(incumbent));
        evidence.candidate.audit = Some(audit(candidate));
        // What it did in the end is explained by what it has.
        evidence.forfeit =
            Some(Forfeit { contestant: 1, kind: FailureKind::Crashed, case: None, message: "it died".to_owned() });
        assert_eq!(is_refused(&evidence), refused, "{incumbent:?} {candidate:?}");
        let found = verdict(&evidence);
        assert_eq!(found.ruling == Ruling::IntegrityViolation, refused, "{found:?}");
        assert_eq!(next(&evidence), Next::Done);
        if refused {
            let said = &found.reasons[0];
            assert!(said.contains("softmax+0x1c in .text") && said.contains("--explain"), "{said}");
        }
    }
}
