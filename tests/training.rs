//! Two versions of a kernel in a training step: real trainers in real processes, real kernels from a real compiler. This
//! binary is its own trainer, by the code of `kopt-train`. Nothing is asserted about how long anything takes.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/queue.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod queue;
#[path = "support/training.rs"]
mod subjects;

use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::error::Error;
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::seeds::Master;
use cargo_kopt::shell::Manner;
use cargo_kopt::transfer::trainer::Trainer;
use cargo_kopt::transfer::{self, Contest, Outcome, Terms};
use cargo_kopt::workspace::Workspace;
use kopt_schema::DType;
use kopt_schema::manifest::{Backend, Manifest, Script, TransferSettings};
use kopt_schema::queue::Truth;
use kopt_schema::training::{LEAST_STEPS, TrainingStep};
use libtest_mimic::{Arguments, Failed, Trial};
use subjects::{ROOT, compiled, copied, kernel};

/// With this as its argument this binary trains.
const TRAINER: &str = "--kopt-trainer";

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == TRAINER) {
        return kopt_train::serve::serve();
    }
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("patched_kernels_learn_what_the_baseline_learns", patched),
        trial("a_wrong_kernel_does_not_learn_the_same", wrong),
        trial("what_a_kernel_prints_is_not_heard", printing),
        trial("a_kernel_that_crashes_hangs_or_fails_has_lost", lost),
        trial("a_trainer_that_talks_nonsense_is_an_error_about_the_incumbent", nonsense),
        trial("what_has_no_place_in_the_model_is_said_with_a_way_out", no_place),
        trial("a_script_of_the_users_is_run_for_both_in_turn", script),
        trial("a_script_without_metrics_or_that_crashes_or_hangs", bad_scripts),
        trial("without_a_trainer_the_hint_is_a_script", no_trainer),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, test: fn(&Stage)) -> Trial {
    Trial::test(name, move || std::panic::catch_unwind(|| test(&Stage::new())).map_err(|_| Failed::from("see above")))
}

/// A folder for versions of kernels.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from(self.folder.path().to_str().unwrap())
    }

    /// A version of an example: its folder.
    fn version(&self, package: &str, name: &str, change: impl Fn(String) -> String) -> Utf8PathBuf {
        let to = self.path().join(name);
        copied(&Utf8Path::new(ROOT).join("example-kernels").join(package), &to, &change).unwrap();
        to
    }

    /// Both versions in a training step.
    fn train(
        &self,
        [incumbent, candidate]: [&Utf8Path; 2],
        transfer: Option<TransferSettings>,
    ) -> Result<Outcome, Error> {
        let own = std::env::current_exe().unwrap();
        let trainer = Trainer { program: own.to_str().unwrap().into(), arguments: vec![TRAINER.to_owned()] };
        self.train_in(&trainer, [incumbent, candidate], transfer)
    }

    fn train_in(
        &self,
        trainer: &Trainer,
        [incumbent, candidate]: [&Utf8Path; 2],
        transfer: Option<TransferSettings>,
    ) -> Result<Outcome, Error> {
        let mut subject = kernel("subject", candidate).unwrap();
        let object =
            |folder: &Utf8Path| compiled(&kernel("subject", folder).unwrap(), &self.path().join("objects")).unwrap();
        let (incumbent, candidate) = (object(incumbent), object(candidate));
        let scripted = transfer.is_some();
        if scripted {
            subject.manifest.transfer = transfer;
        }
        let contest = Contest {
            kernel: &subject,
            incumbent: &incumbent,
            candidate: &candidate,
            seed: Master::given("5eed").unwrap(),
            terms: Terms {
                preset: Some("tiny".to_owned()),
                launches: (2, 2),
                patience_s: 10.0,
                max_time_s: 0.0,
                ..Terms::default()
            },
        };
        let (context, interrupts) = (context(), Interrupts::watch().unwrap());
        let mut heard = 0;
        let mut hear = |_| heard += 1;
        match scripted {
            // The workspace is only asked for a trainer, which a script needs not.
            true => {
                let nowhere = Workspace { root: self.path(), target: self.path(), members: Vec::new() };
                transfer::training_step(&context, Manner::default(), &interrupts, &nowhere, &contest, &mut hear)
            }
            false => transfer::with_trainer(&context, &interrupts, trainer, &contest, &mut hear),
        }
    }
}

fn context() -> Context {
    Context { cwd: ROOT.into(), cargo: "cargo".into(), criterion_home: None, withheld: Vec::new() }
}

#[track_caller]
fn taken(outcome: Result<Outcome, Error>) -> TrainingStep {
    match outcome {
        Ok(Outcome::Taken(step)) => *step,
        Ok(Outcome::Lost(why)) => panic!("lost: {why}"),
        Err(error) => panic!("{:?}", error.failure()),
    }
}

#[track_caller]
fn is_lost(outcome: Result<Outcome, Error>, told: &str) {
    match outcome {
        Ok(Outcome::Lost(why)) => assert!(why.contains(told), "no `{told}` in: {why}"),
        other => panic!("not lost: {other:?}"),
    }
}

#[track_caller]
fn fails(outcome: Result<Outcome, Error>, told: &[&str]) {
    let failure = outcome.expect_err("no error").failure();
    let text = format!("{} {} {}", failure.message, failure.causes.join(" "), failure.hint.unwrap_or_default());
    told.iter().for_each(|told| assert!(text.contains(told), "no `{told}` in: {text}"));
}

fn patched(stage: &Stage) {
    let root = Utf8Path::new(ROOT);
    let fits = |manifest: &Manifest| manifest.backend == Backend::Cpu && manifest.transfer.is_some();
    for package in queue::examples(root, fits).unwrap() {
        let (folder, manifest) = queue::example(root, &package).unwrap();
        let entries = kopt_build::bindings::load(&folder, &manifest, false).unwrap().layouts().unwrap().len();
        let applied = queue::apply_all(&folder, &stage.path().join(&package)).unwrap();
        let best = &applied.iter().rfind(|patch| patch.truth == Truth::Helps).unwrap().after;
        let step = taken(stage.train([&folder, best], None));
        assert!(step.losses.agree, "{package}: {}", step.losses.why);
        assert!(step.losses.repeatable);
        assert!(step.losses.incumbent.len() >= LEAST_STEPS);
        assert_eq!((step.launches, step.gain.launches), (2, 2));
        let prediction = step.prediction.unwrap();
        assert!(prediction.share > 0.0 && prediction.share < 1.0);
        let mut found: Vec<&str> = prediction.calls.iter().map(|call| call.entry.as_str()).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), entries, "{package}: {found:?}");
    }
}

fn wrong(stage: &Stage) {
    let honest = stage.version("rmsnorm-cpu", "honest", |text| text);
    let change = |text: String| {
        text.replace("y[c] = x[c] * inv_rms * weight[c];", "y[c] = x[c] * inv_rms * weight[c] * 1.0005f;")
    };
    let wrong = stage.version("rmsnorm-cpu", "wrong", change);
    let step = taken(stage.train([&honest, &wrong], None));
    assert!(!step.losses.agree && step.losses.why.contains("with the candidate"), "{}", step.losses.why);
}

fn printing(stage: &Stage) {
    let quiet = stage.version("softmax-cpu", "quiet", |text| text);
    let change = |text: String| {
        let text = text.replace("#include <math.h>", "#include <math.h>\n#include <stdio.h>");
        text.replace("return 0;", "printf(\"{}\\n\"); fflush(stdout); fprintf(stderr, \"!\"); return 0;")
    };
    let loud = stage.version("softmax-cpu", "loud", change);
    let step = taken(stage.train([&quiet, &loud], None));
    assert!(step.losses.agree);
    // It goes through JSON whole: no figure is infinite.
    let text = serde_json::to_string(&step).unwrap();
    assert_eq!(serde_json::from_str::<TrainingStep>(&text).unwrap().losses, step.losses, "{text}");
}

fn lost(stage: &Stage) {
    let honest = stage.version("softmax-cpu", "honest", |text| text);
    for (name, code, told) in [
        ("crash", "*(volatile int *)8 = 1;", "died of signal 11"),
        ("exit", "exit(3);", "exited with 3"),
        ("hang", "for (;;) __asm__ volatile(\"\");", "did not answer within 10 s"),
        ("fail", "return 7;", "`softmax` returned 7, not 0"),
    ] {
        let bad = stage.version("softmax-cpu", name, |text| {
            let text = text.replace("#include <math.h>", "#include <math.h>\n#include <stdlib.h>");
            text.replace("return 0;", &format!("{code} return 0;"))
        });
        is_lost(stage.train([&honest, &bad], None), told);
    }
    let bad = stage.version("softmax-cpu", "first", |text| text.replace("return 0;", "return 7;"));
    fails(stage.train([&bad, &honest], None), &["the incumbent does not get through", "returned 7"]);
}

fn nonsense(stage: &Stage) {
    let honest = stage.version("softmax-cpu", "honest", |text| text);
    for (script, told) in [
        ("echo hello; cat >/dev/null", "answered with something that is no reply: hello"),
        ("echo 'dying' >&2; exit 3", "exited with 3 instead of answering; it printed:\ndying"),
        (
            "echo '{\"turn\":1,\"says\":{\"reply\":\"benchmarked\",\"calls\":[]}}'; cat >/dev/null",
            "answered out of turn",
        ),
        ("exec >&-; cat >/dev/null", "closed its channel"),
    ] {
        let trainer = Trainer { program: "sh".into(), arguments: vec!["-c".to_owned(), script.to_owned()] };
        fails(stage.train_in(&trainer, [&honest, &honest], None), &["the incumbent does not get", told]);
    }
}

fn no_place(stage: &Stage) {
    let folder = stage.version("softmax-cpu", "half", |text| text);
    let trainer = Trainer { program: "false".into(), arguments: Vec::new() };
    let mut other = kernel("subject", &folder).unwrap();
    let try_one = |kernel: &cargo_kopt::manifest::Kernel, told: &[&str]| {
        let contest = Contest {
            kernel,
            incumbent: &folder,
            candidate: &folder,
            seed: Master::given("1").unwrap(),
            terms: Terms::default(),
        };
        let interrupts = Interrupts::watch().unwrap();
        fails(transfer::with_trainer(&context(), &interrupts, &trainer, &contest, &mut |_| {}), told);
    };
    other.manifest.dtype = DType::F16;
    try_one(&other, &["computes in f32", "command = "]);
    other.manifest.dtype = DType::F32;
    other.manifest.transfer = Some(TransferSettings::Slot("matmul".to_owned()));
    try_one(&other, &["does not fit into the slot `matmul`", "declares no entry `matmul`"]);
    other.manifest.transfer = None;
    try_one(&other, &["declares no slot", "slot = \"softmax\"", "grouped_matmul, matmul, rmsnorm, softmax"]);
}

fn settings(command: &str) -> Option<TransferSettings> {
    Some(TransferSettings::Script(Script { command: command.to_owned(), timeout_s: 8.0, loss_tolerance: 1e-3 }))
}

fn script(stage: &Stage) {
    let old = stage.version("softmax-cpu", "old", |text| text);
    let new =
        stage.version("softmax-cpu", "new", |text| text.replace("return 0;", "return 0 * 2 + (int)(args->rows * 0);"));
    // Each run notes which object it was given; the candidate's steps are told as a fifth shorter.
    let log = stage.path().join("log");
    let body = format!(
        "test -f \"$KOPT_OBJECT\" && grep -q native \"$KOPT_CANDIDATE\" && echo \"$KOPT_OBJECT\" >> {log}\n\
         ms=10; test \"$(head -n 1 {log})\" = \"$KOPT_OBJECT\" || ms=8\n\
         for loss in 4.0 3.5 3.0; do echo METRIC step_ms=$ms; echo METRIC loss=$loss; done"
    );
    let step = taken(stage.train([&old, &new], settings(&body)));
    assert!((step.gain.gain - 0.25).abs() < 1e-9 && step.losses.agree, "{step:?}");
    assert_eq!((step.incumbent_s, step.candidate_s), (0.01, 0.008));
    assert!(step.losses.why.contains("50 steps would say more") && step.prediction.is_none());
    let log = std::fs::read_to_string(log).unwrap();
    let runs: Vec<bool> = log.lines().map(|line| Some(line) == log.lines().next()).collect();
    assert_eq!(runs, [true, false, false, true, true, false]);
}

fn bad_scripts(stage: &Stage) {
    let old = stage.version("softmax-cpu", "old", |text| text);
    let both = [old.as_path(), old.as_path()];
    let good = "echo METRIC step_ms=1; echo METRIC loss=1";
    fails(stage.train(both, settings("echo METRIC loss=1")), &["METRIC step_ms=…", "KOPT_OBJECT"]);
    fails(stage.train(both, settings("echo METRIC step_ms=1")), &["no line `METRIC loss=…`"]);
    fails(stage.train(both, settings(&format!("{good}; exit 4"))), &["with the incumbent", "it exited with 4"]);
    fails(stage.train(both, settings("kill -9 $$")), &["it died of signal 9"]);
    fails(stage.train(both, settings("sleep 600 & wait")), &["did not end in time (8 s)"]);
    // The first run is the incumbent's, the second the candidate's.
    let second = format!("test -e ran && exit 5; touch ran; {good}");
    is_lost(stage.train(both, settings(&second)), "with the candidate: it exited with 5");
}

fn no_trainer(stage: &Stage) {
    let folder = stage.version("softmax-cpu", "old", |text| text);
    let subject = kernel("subject", &folder).unwrap();
    let object = compiled(&subject, &stage.path().join("objects")).unwrap();
    let contest = Contest {
        kernel: &subject,
        incumbent: &object,
        candidate: &object,
        seed: Master::given("1").unwrap(),
        terms: Terms::default(),
    };
    let nowhere = Workspace { root: stage.path(), target: stage.path(), members: Vec::new() };
    let interrupts = Interrupts::watch().unwrap();
    let outcome = transfer::training_step(&context(), Manner::default(), &interrupts, &nowhere, &contest, &mut |_| {});
    fails(outcome, &["cannot be run here: there is no `kopt-train` in the workspace", "METRIC step_ms"]);
}
