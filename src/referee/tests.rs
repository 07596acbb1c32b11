//! Matches before a judge that is a shell script: what a broken one would do cannot be had otherwise.

use std::fs;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::bout::{BlockRecord, CaseRecord, Handicap, LaunchRecord, Rung};
use kopt_schema::evidence::{Ruling, Side};
use kopt_schema::exit::Exit;
use kopt_schema::message::{Cost, FailureKind};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::Interrupts;
use crate::workspace::Member;

/// Opens, checks, and measures the launch in the file for every seed.
const HONEST: &str = "read open; cat opened >&3\nwhile read -r request; do case $request in\n*check*) echo '{\"reply\":\"checked\",\"trials\":7}' >&3 ;;\n*) seed=${request##*seed\\\":\\\"}; seed=${seed%%\\\"*}; sed \"s/SEED/$seed/\" launch >&3 ;;\nesac; done\n";

struct Ring {
    scratch: TempDir,
    kernel: Kernel,
    entrants: [Entrant; 2],
}

impl Ring {
    /// A judge that follows `script`; the candidate takes `share` of the incumbent's time.
    fn new(script: &str, share: f64) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(scratch.path().to_owned()).unwrap();
        let text = "[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nshapes = [{ rows = 1, cols = 8 }, { rows = 2, cols = 8 }]\n";
        let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
        let member = Member {
            name: "softmax-cpu".to_owned(),
            version: "0.1.0".to_owned(),
            id: String::new(),
            folder: folder.clone(),
            is_kernel: true,
            tests: Vec::new(),
            benches: Vec::new(),
        };
        let side = |code: &str| Side {
            prepares: false,
            revision: code.repeat(40),
            name: code.to_owned(),
            object: String::new(),
            code: code.to_owned(),
            compiler: "cc".to_owned(),
            flags: Vec::new(),
            knobs: Default::default(),
            audit: None,
        };
        let entrants = ["a", "b"].map(|code| Entrant { file: folder.join(code), side: side(code) });
        let ring = Self { kernel: Kernel { member, manifest, path: ".".into() }, entrants, scratch };
        ring.write("judge.sh", script);
        let names = ["1x8", "2x8"];
        let cost = Cost { bytes_read: 1.0, bytes_written: 1.0, flops: 1.0 };
        let cases: Vec<_> =
            names.map(|name| json!({ "name": name, "cost": cost, "places": 8, "contents": 512 })).into();
        ring.write(
            "opened",
            &json!({ "reply": "opened", "device": "cpu", "huge_pages": true, "cases": cases }).to_string(),
        );
        let mut record = serde_json::to_value(launch(&names, share)).unwrap();
        record["reply"] = "launched".into();
        ring.write("launch", &record.to_string());
        ring
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.scratch.path().join(name), format!("{text}\n")).unwrap();
    }

    fn bout(&self) -> Match<'_> {
        Match {
            kernel: &self.kernel,
            incumbent: &self.entrants[0],
            candidate: &self.entrants[1],
            shapes: vec!["1x8".to_owned(), "2x8".to_owned()],
            left_out: Vec::new(),
            terms: gate::terms("default", None, true).unwrap(),
            seed: Master::given("beef").unwrap(),
            check: true,
            injected: Vec::new(),
            without: Vec::new(),
            ceilings: None,
            even_if_identical: false,
            limits: Limits {
                open: Duration::from_secs(20),
                check: Duration::from_secs(20),
                launch: Duration::from_secs(20),
            },
        }
    }

    fn hold(&self, bout: &Match<'_>) -> Result<Evidence> {
        let executable = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/judge/judge");
        let context = Context { cwd: "/".into(), cargo: "cargo".into(), criterion_home: None, withheld: Vec::new() };
        bout.hold(&context, &Interrupts::watch().unwrap(), &executable, &mut |_| Ok(()))
    }

    fn fails(&self) -> Error {
        self.hold(&self.bout()).unwrap_err()
    }
}

fn launch(names: &[&str], share: f64) -> LaunchRecord {
    let times = |scale: f64| [0, 1, 2].map(|who| [((if who == 1 { share } else { 1.0 }) * scale) as u64; 2]).to_vec();
    let block = BlockRecord { order: vec![2, 0, 1], device_ns: times(1e6), wall_ns: times(2e6), cpu_ns: times(1e6) };
    let case = |name: &&str| CaseRecord {
        case: (*name).to_owned(),
        warmed_up: vec![0, 1, 2],
        calls: 10,
        ladder: vec![Rung { calls: 1, device_ns: times(1e5).iter().map(|both| both[0]).collect() }],
        blocks: vec![block.clone(); 3],
        throttled: 0,
        stood_still: 0,
        megahertz: None,
        checked: 1,
    };
    LaunchRecord {
        seed: "SEED".to_owned(),
        started: vec![0, 1, 2],
        ended: vec![2, 1, 0],
        outputs: vec![1, 0, 2],
        processor: Some(1),
        wall_s: 0.1,
        idle_s: vec![0.0; 3],
        cases: names.iter().map(case).collect(),
    }
}

fn replied(error: &Error) -> String {
    let failure = error.failure();
    format!("{}\n{}\n{}", failure.message, failure.causes.join("\n"), failure.hint.unwrap_or_default())
}

#[test]
fn a_faster_candidate_is_checked_screened_and_confirmed() {
    let ring = Ring::new(HONEST, 0.8);
    let evidence = ring.hold(&ring.bout()).unwrap();
    assert_eq!(evidence.verdict.ruling, Ruling::Accepted, "{:?}", evidence.verdict.reasons);
    assert_eq!(evidence.trials, 7);
    let kinds: Vec<StageKind> = evidence.stages.iter().map(|stage| stage.kind).collect();
    assert_eq!(kinds, [StageKind::Screen, StageKind::Confirmation]);
    let seeds: Vec<&String> = evidence.stages.iter().flat_map(|stage| &stage.launches).map(|one| &one.seed).collect();
    let master = Master::given("beef").unwrap();
    assert!(seeds.iter().enumerate().all(|(number, seed)| **seed == master.launch(number)));
    assert!((evidence.verdict.aggregate.unwrap().gain - 0.25).abs() < 1e-6);
    assert!(record::contradictions(&evidence).is_empty());
    let text = serde_json::to_vec(&evidence).unwrap();
    assert_eq!(evidence::read("it", &text).unwrap(), evidence);
}

#[test]
fn ceilings_are_measured_where_they_are_not_known_and_again_before_anyone_is_accused() {
    let rate = |device: &str, rate: f64| {
        let text = format!(r#"{{"device":"{device}","measured":"","copy_bytes_per_s":{rate},"fma_flops_per_s":1e12}}"#);
        serde_json::from_str::<Ceilings>(&text).unwrap()
    };
    let fast = HONEST.replace("*check*)", "*ceilings*) echo asked >> asked; cat ceilings >&3 ;;\n*check*)");
    // A byte is read in 80 µs by the candidate and in 100 µs by the incumbent.
    for (known, measured, asked, ruling) in [
        (None, 1e6, 0, Ruling::Accepted),
        (Some(vec![]), 1e6, 1, Ruling::Accepted),
        (Some(vec![rate("cpu", 1e6), rate("another", 1.1e4)]), 1e6, 0, Ruling::Accepted),
        (Some(vec![rate("another", 1e6)]), 1.1e4, 2, Ruling::IntegrityViolation),
        (Some(vec![rate("cpu", 1.1e4)]), 1.3e4, 1, Ruling::Accepted),
        (Some(vec![rate("cpu", 1.1e4)]), 0.5e4, 1, Ruling::IntegrityViolation),
    ] {
        let ring = Ring::new(&fast, 0.8);
        let reply =
            json!({ "reply": "ceilings", "device": "cpu", "copy_bytes_per_s": measured, "fma_flops_per_s": 1e12 });
        ring.write("ceilings", &reply.to_string());
        let evidence = ring.hold(&Match { ceilings: known.clone(), ..ring.bout() }).unwrap();
        let heard = fs::read_to_string(ring.scratch.path().join("asked")).unwrap_or_default();
        assert_eq!((heard.lines().count(), evidence.verdict.ruling), (asked, ruling), "{known:?}, {measured}");
        assert_eq!(evidence.ceilings.is_some(), known.is_some());
        assert!(evidence.ceilings.iter().all(|one| one.device == "cpu" && one.copy_bytes_per_s >= 1.1e4));
    }
}

#[test]
fn the_time_that_was_agreed_is_kept() {
    let slow = HONEST.replace("s/SEED/$seed/", "s/SEED/$seed/; s/\\\"wall_s\\\":0.1/\\\"wall_s\\\":0.4/");
    let ring = Ring::new(&slow, 0.8);
    let mut bout = ring.bout();
    bout.terms.max_time_s = 1.5;
    let evidence = ring.hold(&bout).unwrap();
    let launches = evidence.verdict.launches;
    assert!(launches < 6, "{launches} launches, of which each takes 0.4 s");
    assert_eq!(evidence.verdict.ruling, Ruling::RolledBackNoise);
    // One launch has no interval: whatever was written can be read again.
    let text = serde_json::to_vec(&evidence).unwrap();
    assert_eq!(evidence::read("it", &text).unwrap().verdict, gate::verdict(&evidence));
}

#[test]
fn what_a_launch_waits_for_a_device_is_not_counted() {
    let waiting = HONEST.replace("*) seed=", "*) sleep 0.3; seed=");
    let ring = Ring::new(&waiting, 0.8);
    let mut bout = ring.bout();
    bout.terms.max_time_s = 2.0;
    let evidence = ring.hold(&bout).unwrap();
    assert_eq!(evidence.verdict.ruling, Ruling::Accepted, "{:?}", evidence.verdict.reasons);
    assert!(evidence.seconds > bout.terms.max_time_s, "{} s: it did not wait", evidence.seconds);
}

#[test]
fn equal_code_needs_no_judge_unless_the_referee_itself_is_tested() {
    let mut ring = Ring::new("exit 3", 1.0);
    ring.entrants[1].side.code = "a".to_owned();
    let evidence = ring.hold(&ring.bout()).unwrap();
    assert!(evidence.identical && evidence.stages.is_empty());
    assert_eq!(evidence.verdict.direction, kopt_schema::evidence::Direction::Same);
    let injection = Injection { contestant: 0, handicap: Handicap { case: None, share: 0.02 } };
    let tested = Match { injected: vec![injection], ..ring.bout() };
    assert!(tested.at_once().is_none());
    assert!(Match { even_if_identical: true, ..ring.bout() }.at_once().is_none());
    // The control is the incumbent's twin, or it would be called disturbed.
    let handicaps: Vec<usize> = tested.bout().contestants.iter().map(|entrant| entrant.handicaps.len()).collect();
    assert_eq!(handicaps, [1, 0, 1]);
}

#[test]
fn a_contestant_that_loses_has_lost_whenever_it_does() {
    let lost = r#"'{"reply":"lost","contestant":1,"case":"2x8","kind":"wrong-values","message":"y[3]"}' >&3"#;
    let scripts = [
        format!("read open; echo {lost}"),
        format!("read open; cat opened >&3; read check; echo {lost}"),
        HONEST.replace("*) seed=", &format!("*) test -e second && {{ echo {lost}; continue; }}; : > second; seed=")),
    ];
    for script in scripts {
        let ring = Ring::new(&script, 1.0);
        let evidence = ring.hold(&ring.bout()).unwrap();
        assert_eq!(evidence.verdict.ruling, Ruling::Incorrect, "{script}");
        assert_eq!(evidence.forfeit.as_ref().unwrap().kind, FailureKind::WrongValues);
        let text = serde_json::to_vec(&evidence).unwrap();
        assert_eq!(evidence::read("it", &text).unwrap().verdict, evidence.verdict);
    }
}

#[test]
fn a_judge_that_cannot_says_why() {
    let failed = |no_device: bool| {
        let reply = json!({ "reply": "failed", "message": "no CUDA device", "no_device": no_device });
        Ring::new(&format!("read open; echo '{reply}' >&3"), 1.0).fails()
    };
    assert_eq!((failed(true).exit(), failed(true).to_string().as_str()), (Exit::NoDevice, "no CUDA device"));
    assert_eq!(failed(false).exit(), Exit::Setup);
}

#[test]
fn a_judge_that_dies_is_a_bug_and_its_last_words_are_shown() {
    for (script, told) in [
        (
            "echo last words >&2; exit 3",
            "the judge exited with 3 instead of answering\nit printed:\nlast words\nthe judge is built from the base",
        ),
        (
            "read open; cat opened >&3; echo last words; kill -9 $$",
            "the judge died of signal 9\nit printed:\nlast words\nthis is a bug",
        ),
        ("read open; exec 3>&-; sleep 600", "the judge closed its channel instead of answering"),
    ] {
        let error = Ring::new(script, 1.0).fails();
        assert_eq!(error.exit(), Exit::Internal);
        assert!(replied(&error).starts_with(told), "{}", replied(&error));
    }
}

#[test]
fn a_judge_that_talks_nonsense_is_not_believed() {
    let other = |from: &str, to: &str| {
        HONEST.replace("sed \"s/SEED/$seed/\"", &format!("sed \"s/SEED/$seed/; s/{from}/{to}/\""))
    };
    for (script, told) in [
        ("read open; echo hello >&3".to_owned(), "answered with something that is no reply"),
        ("read open; cat launch >&3".to_owned(), "answered out of turn: launched"),
        ("read open; sed s/2x8/3x8/ opened >&3".to_owned(), "laid out shapes 1x8, 3x8 instead of 1x8, 2x8"),
        (HONEST.replace("$seed/", "0/"), "measured seed 0 instead of "),
        (other("2x8", "1x8"), "gave a senseless record: shapes 1x8, 1x8 instead of 1x8, 2x8"),
        (other(r"\\[2,0,1\\]", "[2,2,1]"), "gave a senseless record: shape `1x8`: `order` is [2, 2, 1]"),
    ] {
        let error = Ring::new(&script, 1.0).fails();
        assert_eq!(error.exit(), Exit::Internal, "{script}");
        assert!(replied(&error).starts_with(&format!("the judge {told}")), "{}", replied(&error));
    }
}

#[test]
fn a_judge_that_hangs_is_ended_with_everything_it_started() {
    let ring = Ring::new("read open; sleep 600 & echo $! > child; sleep 600", 1.0);
    let mut bout = ring.bout();
    bout.limits.open = Duration::from_secs(3);
    let error = ring.hold(&bout).unwrap_err();
    assert!(error.to_string().contains("did not answer within 3 s"), "{error}");
    let child: i32 = fs::read_to_string(ring.scratch.path().join("child")).unwrap().trim().parse().unwrap();
    let is_gone = || {
        let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    let gone = (0..1000).any(|_| {
        crate::process::pause();
        is_gone()
    });
    assert!(gone, "process {child} still runs");
}

#[test]
fn a_judge_that_prints_much_is_not_stopped_by_it() {
    let chatty =
        HONEST.replace("read open;", "yes chatter | head -c 1000000; read open; yes more | head -c 1000000 >&2;");
    let ring = Ring::new(&chatty, 0.8);
    assert_eq!(ring.hold(&ring.bout()).unwrap().verdict.ruling, Ruling::Accepted);
    let ring = Ring::new("yes chatter | head -c 1000000; echo the end; exit 3", 1.0);
    let told = replied(&ring.fails());
    assert!(told.contains("\nthe end\n") && told.len() < 10_000, "{} bytes", told.len());
}
