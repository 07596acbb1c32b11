//! The classes of wrong kernel, and that `cargo kopt check` catches each for every CPU example, with the right kind of
//! failure and a message that one can work with.
//!
//! `wrong-kernels/<op>.c` is an honest plain kernel with one mistake, chosen by a macro. It is compiled as a candidate
//! of the example crate and checked by the real binary, on a shape with odd sizes and, where it matters, on a listed
//! one. One test an operator and mistake: `cargo test --test wrong_kernels softmax/bf16`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, ExitCode};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_build::manifest;
use kopt_schema::exit::Exit;
use kopt_schema::message::FailureKind::{
    self, Crashed, Exited, InputModified, OutOfBounds, ReturnedError, TimedOut, Unwritten, WrongValues,
};
use kopt_schema::message::{Message, Outcome, Trial};
use libtest_mimic::{Arguments, Failed};

use Found::{Always, AtOddSizes, Never, OnPlainInputs, Once};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Tests at a time. Those of a hang only wait, for the time limit that they set.
const THREADS: usize = 6;

/// Inputs that tell every mistake from the right result. Others need not: on constant rows the mean is right, and
/// infinities hide what is added to them.
const PLAIN: [&str; 3] = ["uniform", "normal", "negative"];

/// An operator, its example, and the cases that are checked.
struct Operator {
    name: &'static str,
    package: &'static str,
    entries: &'static [&'static str],
    outputs: &'static [&'static str],
    /// A shape that the manifest does not list, all of whose sizes are odd.
    odd: &'static str,
    /// A listed one, all of whose sizes are multiples of a tile.
    listed: &'static str,
}

const OPERATORS: [Operator; 4] = [
    Operator {
        name: "rmsnorm",
        package: "rmsnorm-cpu",
        entries: &["rmsnorm", "rmsnorm_backward"],
        outputs: &["y", "inv_rms", "dx", "dweight"],
        odd: "odd-7x33",
        listed: "64x1024",
    },
    Operator {
        name: "softmax",
        package: "softmax-cpu",
        entries: &["softmax"],
        outputs: &["y"],
        odd: "odd-7x33",
        listed: "64x1024",
    },
    Operator {
        name: "matmul",
        package: "matmul-cpu",
        entries: &["matmul", "matmul_backward"],
        outputs: &["c", "da", "db"],
        odd: "odd-33x31x65",
        listed: "64x256x256",
    },
    Operator {
        name: "grouped_matmul",
        package: "grouped-matmul-cpu",
        entries: &["grouped_matmul"],
        outputs: &["y"],
        odd: "odd-33x7x17x31-ragged",
        listed: "decode",
    },
];

/// A mistake: its name in `mistakes.h`, and what `check` must make of it.
struct Mistake {
    name: &'static str,
    constant: &'static str,
    found: Found,
    /// Operators that can make it; all if empty.
    only: &'static [&'static str],
}

/// Where a mistake is found, and as what. Each list of kinds is exhaustive: a failure of another kind fails the test.
enum Found {
    /// Nowhere: the kernel is right.
    Never,
    /// In every trial of the odd and of the listed shape.
    Always(&'static [FailureKind]),
    /// In every trial of both shapes with plain inputs.
    OnPlainInputs(&'static [FailureKind]),
    /// In every trial of the odd shape with plain inputs, and in none of the listed one.
    AtOddSizes(&'static [FailureKind]),
    /// In one trial an entry: the process dies or hangs, whatever the inputs.
    Once(&'static [FailureKind]),
}

const MISTAKES: [Mistake; 16] = [
    // The slow one first: the others run while it waits.
    mistake("hangs", "HANGS", Once(&[TimedOut])),
    mistake("honest", "NOTHING", Never),
    mistake("zeros", "ZEROS", OnPlainInputs(&[WrongValues])),
    mistake("mean", "MEAN", OnPlainInputs(&[WrongValues])),
    mistake("last-tile-dropped", "LAST_TILE", Always(&[Unwritten])),
    mistake("last-terms-dropped", "LAST_TERMS", OnPlainInputs(&[WrongValues])),
    mistake("off-by-one-at-odd-sizes", "ODD_SIZE", AtOddSizes(&[WrongValues])),
    mistake("bf16-inside", "BF16", OnPlainInputs(&[WrongValues])),
    mistake("tf32-inside", "TF32", OnPlainInputs(&[WrongValues])),
    mistake("writes-past-the-end", "PAST_THE_END", Always(&[OutOfBounds])),
    // Adding to a NaN keeps its payload: an element that was added to its own poison reads as one never written.
    mistake("reads-output", "READS_OUTPUT", OnPlainInputs(&[WrongValues, Unwritten])),
    Mistake {
        only: &["softmax"],
        ..mistake("reads-output-in-a-maximum", "MAX_OF_OUTPUT", OnPlainInputs(&[WrongValues]))
    },
    mistake("writes-input", "WRITES_INPUT", Always(&[InputModified])),
    mistake("exits", "EXITS", Once(&[Exited, OutOfBounds])),
    mistake("crashes", "CRASHES", Once(&[Crashed])),
    mistake("returns-an-error", "FAILS", Once(&[ReturnedError])),
];

const fn mistake(name: &'static str, constant: &'static str, found: Found) -> Mistake {
    Mistake { name, constant, found, only: &[] }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let all = MISTAKES.iter().flat_map(|mistake| OPERATORS.iter().map(move |operator| (operator, mistake)));
    let possible = all.filter(|(operator, mistake)| mistake.only.is_empty() || mistake.only.contains(&operator.name));
    let test = |(operator, mistake): (&'static Operator, &'static Mistake)| {
        let name = format!("{}/{}", operator.name, mistake.name);
        libtest_mimic::Trial::test(name, || judge(operator, mistake).map_err(Failed::from))
    };
    libtest_mimic::run(&arguments, possible.map(test).collect()).exit_code()
}

/// Checks the wrong kernel; the error says what `check` made of it instead.
fn judge(operator: &Operator, mistake: &Mistake) -> Result<(), String> {
    let candidate = compile(operator, mistake);
    let plain = |trial: &Trial| PLAIN.contains(&distribution(trial));
    let every = |_: &Trial| true;
    let none = |_: &Trial| false;
    let (odd, listed) = (format!("/{}/", operator.odd), format!("/{}/", operator.listed));
    let check = |filter: &str| check(operator, &candidate, filter);
    match mistake.found {
        Never => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&none, &[])),
        Always(kinds) => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&every, kinds)),
        OnPlainInputs(kinds) => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&plain, kinds)),
        AtOddSizes(kinds) => check(&odd).fails(&plain, kinds).and_then(|()| check(&listed).fails(&none, &[])),
        Once(kinds) => check(&format!("{odd}uniform")).fails(&every, kinds),
    }
}

/// Compiles the wrong kernel in place of the example's own; gives its `candidate.json`.
fn compile(operator: &Operator, mistake: &Mistake) -> Utf8PathBuf {
    let root = Utf8Path::new(ROOT);
    let example = root.join("example-kernels").join(operator.package);
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    fs::create_dir(folder.join("kernels")).unwrap();
    let (header, source) = (format!("{}.h", operator.name), format!("{}.c", operator.name));
    let fixtures = root.join("tests/wrong-kernels");
    for (from, file) in
        [(&example.join("kernels"), header.as_str()), (&fixtures, source.as_str()), (&fixtures, "mistakes.h")]
    {
        fs::copy(from.join(file), folder.join("kernels").join(file)).unwrap();
    }
    let mut manifest = manifest::load(&example, Some(root), root).unwrap().unwrap();
    manifest.flags = vec![format!("-DWRONG={}", mistake.constant)];
    let cache = Cache::new(Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-kernels"));
    cache.candidate(&Order { folder: folder.to_owned(), manifest }).unwrap()
}

/// Runs `cargo kopt check` on the trials whose names contain `filter`.
fn check<'a>(operator: &'a Operator, candidate: &Utf8Path, filter: &str) -> Checked<'a> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kopt"));
    command.args(["check", "-p", operator.package, "--message-format", "json", filter]).current_dir(ROOT);
    let output = command
        .env_remove("KOPT_SEED")
        .env_remove("KOPT_SEEDS")
        .env("KOPT_CANDIDATE", candidate)
        .env("KOPT_TIMEOUT", "3")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let messages = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let trial = |line: &[u8]| match serde_json::from_slice(line).unwrap() {
        Message::Trial(trial) => Some(trial),
        _ => None,
    };
    Checked { operator, code: output.status.code(), trials: messages.filter_map(trial).collect(), said }
}

/// What `check` found.
struct Checked<'a> {
    operator: &'a Operator,
    code: Option<i32>,
    trials: Vec<Trial>,
    /// What it told people.
    said: String,
}

impl Checked<'_> {
    /// That at least the trials of which `must` is true failed, no trial with anything but one of the `kinds`, and each
    /// with a message that helps; and that the exit code says so.
    fn fails(&self, must: &dyn Fn(&Trial) -> bool, kinds: &[FailureKind]) -> Result<(), String> {
        let expected = if kinds.is_empty() { Exit::Ok } else { Exit::Incorrect };
        if self.code != Some(i32::from(expected as u8)) {
            return Err(format!("exit code {:?} instead of {}\n{}", self.code, expected as u8, self.said));
        }
        for entry in self.operator.entries {
            let prefix = format!("{entry}/");
            let mut trials = self.trials.iter().filter(|trial| trial.name.starts_with(&prefix));
            if !trials.any(|trial| kinds.is_empty() || must(trial)) {
                return Err(format!("no trial of {entry} was run\n{}", self.said));
            }
        }
        self.trials.iter().try_for_each(|trial| self.is_as_expected(trial, must(trial), kinds))
    }

    fn is_as_expected(&self, trial: &Trial, must_fail: bool, kinds: &[FailureKind]) -> Result<(), String> {
        let detail = trial.detail.as_deref().unwrap_or_default();
        match (trial.outcome, trial.failure) {
            (Outcome::Passed, _) if !must_fail => Ok(()),
            (Outcome::Failed, Some(kind)) if kinds.contains(&kind) => match self.lacks(trial, kind) {
                Some(part) => Err(format!("{}: no `{part}` in the message:\n{detail}", trial.name)),
                None => Ok(()),
            },
            (outcome, kind) => Err(format!("{}: {outcome:?} {kind:?} instead of {kinds:?}\n{detail}", trial.name)),
        }
    }

    /// What a failure's message ought to say and does not: which element or what happened, and how to repeat it.
    fn lacks(&self, trial: &Trial, kind: FailureKind) -> Option<String> {
        let detail = trial.detail.as_deref().unwrap_or_default();
        let elements = || self.operator.outputs.iter().map(|output| format!("first {output}[")).collect();
        let place = match kind {
            WrongValues | Unwritten => elements(),
            OutOfBounds => vec!["past the end of `".to_owned(), "that is not its own".to_owned()],
            InputModified => vec!["wrote to an input, byte 0 of `".to_owned()],
            Exited => vec!["exited with code 0".to_owned()],
            TimedOut => vec!["no answer within".to_owned()],
            Crashed => vec!["SIGSEGV at address 0x0".to_owned()],
            _ => vec!["returned 7".to_owned()],
        };
        if !place.iter().any(|part| detail.contains(part)) {
            return place.into_iter().next();
        }
        let seed = trial.seeds.last().map_or("no seed", String::as_str);
        let repeat = format!("KOPT_SEED={seed} cargo test -p {}", self.operator.package);
        (!detail.contains(&repeat)).then_some(repeat)
    }
}

/// The last part of a trial's name.
fn distribution(trial: &Trial) -> &str {
    trial.name.rsplit('/').next().unwrap_or_default()
}
