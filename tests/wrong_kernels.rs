//! The classes of wrong kernel, and that `cargo kopt check` catches each for every CPU example and for softmax in CUDA,
//! with the right kind of failure and a message that one can work with.
//!
//! `wrong-kernels/<op>.c` is an honest plain kernel with one mistake, chosen by a macro; `softmax.cu` is the same for a
//! device, ignored where there is no compiler or no device. It is compiled as a candidate of the example crate and
//! checked by the real binary, on a shape with odd sizes and, where it matters, on a listed one. One test an example and
//! mistake: `cargo test --test wrong_kernels softmax-cpu/bf16`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/check.rs"]
mod check;
#[path = "support/queue.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod queue;

use std::fs;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_build::manifest;
use kopt_schema::exit::Exit;
use kopt_schema::manifest::{Backend, Manifest};
use kopt_schema::message::FailureKind::{
    self, Crashed, Exited, InputModified, OutOfBounds, ReturnedError, TimedOut, Unwritten, WrongValues,
};
use kopt_schema::message::{Outcome, Trial};
use libtest_mimic::{Arguments, Completion, Failed};

use Found::{Always, AtOddSizes, Never, OnMasks, OnPlainInputs, Once, OnlyNearListed};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Tests at a time. Those of a hang only wait, for the time limit that they set.
const THREADS: usize = 6;

/// Inputs that tell every mistake from the right result. Others need not: on constant rows the mean is right, and
/// infinities hide what is added to them.
const PLAIN: [&str; 3] = ["uniform", "normal", "negative"];

/// An operator, its example, and the cases that are checked.
struct Operator {
    op: &'static str,
    /// The kernel with the mistakes, in `wrong-kernels`.
    source: &'static str,
    package: &'static str,
    entries: &'static [&'static str],
    outputs: &'static [&'static str],
    /// A shape that the manifest does not list, all of whose sizes are odd.
    odd: &'static str,
    /// A listed one, all of whose sizes are multiples of a tile.
    listed: &'static str,
}

const OPERATORS: [Operator; 5] = [
    Operator {
        op: "rmsnorm",
        source: "rmsnorm.c",
        package: "rmsnorm-cpu",
        entries: &["rmsnorm", "rmsnorm_backward"],
        outputs: &["y", "inv_rms", "dx", "dweight"],
        odd: "odd-7x33",
        listed: "64x1024",
    },
    Operator {
        op: "softmax",
        source: "softmax.c",
        package: "softmax-cpu",
        entries: &["softmax"],
        outputs: &["y"],
        odd: "odd-7x33",
        listed: "64x1024",
    },
    Operator {
        op: "matmul",
        source: "matmul.c",
        package: "matmul-cpu",
        entries: &["matmul", "matmul_backward"],
        outputs: &["c", "da", "db"],
        odd: "odd-33x31x65",
        listed: "64x256x256",
    },
    Operator {
        op: "grouped_matmul",
        source: "grouped_matmul.c",
        package: "grouped-matmul-cpu",
        entries: &["grouped_matmul"],
        outputs: &["y"],
        odd: "odd-33x7x17x31-ragged",
        listed: "decode",
    },
    Operator {
        op: "softmax",
        source: "softmax.cu",
        package: "softmax-cuda",
        entries: &["softmax"],
        outputs: &["y"],
        odd: "odd-7x33",
        listed: "64x1024",
    },
];

/// A mistake: its name in `mistakes.h`, and what `check` must make of it.
struct Mistake {
    name: &'static str,
    constant: &'static str,
    found: Found,
    /// Operators that can make it; all if empty.
    only: &'static [&'static str],
    /// What it is on a device.
    on_device: OnDevice,
}

enum OnDevice {
    Same,
    As(Found),
    /// Code for a device cannot make it.
    Impossible,
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
    /// In every trial of the listed shape with masked inputs.
    OnMasks(&'static [FailureKind]),
    /// In some trial an entry of shapes close to listed ones, and in none of the odd and of the listed shape.
    OnlyNearListed(&'static [FailureKind]),
    /// In one trial an entry: the process dies or hangs, whatever the inputs.
    Once(&'static [FailureKind]),
}

const HONEST: Mistake = mistake("honest", "NOTHING", Never);

const MISTAKES: [Mistake; 18] = [
    // The slow one first: the others run while it waits.
    mistake("hangs", "HANGS", Once(&[TimedOut])),
    HONEST,
    mistake("zeros", "ZEROS", OnPlainInputs(&[WrongValues])),
    mistake("mean", "MEAN", OnPlainInputs(&[WrongValues])),
    mistake("last-tile-dropped", "LAST_TILE", Always(&[Unwritten])),
    mistake("last-terms-dropped", "LAST_TERMS", OnPlainInputs(&[WrongValues])),
    mistake("off-by-one-at-odd-sizes", "ODD_SIZE", AtOddSizes(&[WrongValues])),
    Mistake {
        only: &["rmsnorm", "softmax"],
        ..mistake("edge-of-large-sizes", "LARGE_EDGE", OnlyNearListed(&[WrongValues]))
    },
    mistake("bf16-inside", "BF16", OnPlainInputs(&[WrongValues])),
    mistake("tf32-inside", "TF32", OnPlainInputs(&[WrongValues])),
    mistake("writes-past-the-end", "PAST_THE_END", Always(&[OutOfBounds])),
    // Adding to a NaN keeps its payload: an element that was added to its own poison reads as one never written.
    mistake("reads-output", "READS_OUTPUT", OnPlainInputs(&[WrongValues, Unwritten])),
    Mistake {
        only: &["softmax"],
        ..mistake("reads-output-in-a-maximum", "MAX_OF_OUTPUT", OnPlainInputs(&[WrongValues]))
    },
    Mistake { only: &["softmax"], ..mistake("stops-at-a-mask", "STOPS_AT_MASK", OnMasks(&[WrongValues])) },
    // Inputs are mapped for reading only there, and the driver tells no address.
    Mistake {
        on_device: OnDevice::As(Always(&[Crashed])),
        ..mistake("writes-input", "WRITES_INPUT", Always(&[InputModified]))
    },
    Mistake { on_device: OnDevice::Impossible, ..mistake("exits", "EXITS", Once(&[Exited, OutOfBounds])) },
    mistake("crashes", "CRASHES", Once(&[Crashed])),
    Mistake { on_device: OnDevice::Impossible, ..mistake("returns-an-error", "FAILS", Once(&[ReturnedError])) },
];

const fn mistake(name: &'static str, constant: &'static str, found: Found) -> Mistake {
    Mistake { name, constant, found, only: &[], on_device: OnDevice::Same }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let all = MISTAKES.iter().flat_map(|mistake| OPERATORS.iter().map(move |operator| (operator, mistake)));
    let possible = all.filter(|(operator, mistake)| mistake.only.is_empty() || mistake.only.contains(&operator.op));
    let test = |(operator, mistake): (&'static Operator, &'static Mistake)| {
        let found = mistake.found_by(operator)?;
        let name = format!("{}/{}", operator.package, mistake.name);
        Some(libtest_mimic::Trial::ignorable_test(name, move || test(operator, mistake, found)))
    };
    let complete = libtest_mimic::Trial::test("every-example-for-a-processor-is-there", every_example_is_there);
    let trials = possible.filter_map(test).chain([complete]);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn every_example_is_there() -> Result<(), Failed> {
    let examples = queue::examples(Utf8Path::new(ROOT), |manifest| manifest.backend == Backend::Cpu);
    let examples = examples.map_err(|error| error.to_string())?;
    let is_missing = |package: &&String| OPERATORS.iter().all(|operator| operator.package != package.as_str());
    match examples.iter().find(is_missing) {
        Some(package) => Err(format!("no wrong kernel for {package}").into()),
        None => Ok(()),
    }
}

impl Mistake {
    /// Where it is found in the operator's kernel; none if that cannot make it.
    const fn found_by(&self, operator: &Operator) -> Option<&Found> {
        match &self.on_device {
            OnDevice::As(found) if operator.is_for_a_device() => Some(found),
            OnDevice::Impossible if operator.is_for_a_device() => None,
            _ => Some(&self.found),
        }
    }
}

impl Operator {
    const fn is_for_a_device(&self) -> bool {
        matches!(self.source.as_bytes(), [.., b'.', b'c', b'u'])
    }
}

/// One at a time on a device: a kernel that hangs would make others time out.
static DEVICE: Mutex<()> = Mutex::new(());

fn test(operator: &Operator, mistake: &Mistake, found: &Found) -> Result<Completion, Failed> {
    let root = Utf8Path::new(ROOT);
    let example = root.join("example-kernels").join(operator.package);
    let manifest = manifest::load(&example, Some(root), root).unwrap().unwrap();
    if let Some(reason) = kopt_build::compile::lacking(&manifest) {
        return Ok(Completion::ignored_with(reason));
    }
    let candidate = compile(operator, &example, manifest.clone(), mistake);
    if !operator.is_for_a_device() {
        judge(operator, &candidate, found)?;
        return Ok(Completion::Completed);
    }
    let _one_at_a_time = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    // An honest kernel tells whether there is a device: of a wrong one, an answer that there is none would be no answer.
    let honest = compile(operator, &example, manifest, &HONEST);
    let checked = check(operator, &honest, &format!("/{}/uniform", operator.odd));
    if checked.found.code == Some(Exit::NoDevice.code().into()) {
        return Ok(Completion::ignored_with("it compiles, and there is no device to run it"));
    }
    judge(operator, &candidate, found)?;
    Ok(Completion::Completed)
}

/// Checks the wrong kernel; the error says what `check` made of it instead.
fn judge(operator: &Operator, candidate: &Utf8Path, found: &Found) -> Result<(), String> {
    let plain = |trial: &Trial| PLAIN.contains(&distribution(trial));
    let every = |_: &Trial| true;
    let none = |_: &Trial| false;
    let (odd, listed) = (format!("/{}/", operator.odd), format!("/{}/", operator.listed));
    let check = |filter: &str| check(operator, candidate, filter);
    match *found {
        Never => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&none, &[])),
        Always(kinds) => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&every, kinds)),
        OnPlainInputs(kinds) => [odd, listed].iter().try_for_each(|shape| check(shape).fails(&plain, kinds)),
        AtOddSizes(kinds) => check(&odd).fails(&plain, kinds).and_then(|()| check(&listed).fails(&none, &[])),
        OnMasks(kinds) => check(&listed).fails(&|trial| distribution(trial) == "masked", kinds),
        OnlyNearListed(kinds) => {
            let failed = |trial: &Trial| trial.outcome == Outcome::Failed;
            check("/near-").fails(&failed, kinds)?;
            [odd, listed].iter().try_for_each(|shape| check(shape).fails(&none, &[]))
        }
        Once(kinds) => check(&format!("{odd}uniform")).fails(&every, kinds),
    }
}

/// Compiles the wrong kernel in place of the example's own; gives its `candidate.json`.
fn compile(operator: &Operator, example: &Utf8Path, mut manifest: Manifest, mistake: &Mistake) -> Utf8PathBuf {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    let kernels = folder.join("kernels");
    fs::create_dir(&kernels).unwrap();
    let fixtures = Utf8Path::new(ROOT).join("tests/wrong-kernels");
    let of_example = files(&example.join("kernels")).into_iter();
    let shared = files(&fixtures).into_iter().filter(|file| file.extension() == Some("h"));
    for file in of_example.chain(shared).chain([fixtures.join(operator.source)]) {
        fs::copy(&file, kernels.join(file.file_name().unwrap())).unwrap();
    }
    manifest.flags = vec![format!("-DWRONG={}", mistake.constant)];
    let cache = Cache::new(Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-kernels"));
    cache.candidate(&Order { folder: folder.to_owned(), manifest }).unwrap()
}

fn files(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()).collect()
}

/// Runs `cargo kopt check` on the trials whose names contain `filter`. Who hangs is asked for one trial, and waited for a little.
fn check<'a>(operator: &'a Operator, candidate: &Utf8Path, filter: &str) -> Checked<'a> {
    let timeout_s = if filter.ends_with("/uniform") { 3 } else { 60 };
    Checked { operator, found: check::check(operator.package, candidate, filter, timeout_s) }
}

/// What `check` found of an operator's kernel.
struct Checked<'a> {
    operator: &'a Operator,
    found: check::Checked,
}

impl Checked<'_> {
    /// That at least the trials of which `must` is true failed, no trial with anything but one of the `kinds`, and each
    /// with a message that helps; and that the exit code says so.
    fn fails(&self, must: &dyn Fn(&Trial) -> bool, kinds: &[FailureKind]) -> Result<(), String> {
        let expected = if kinds.is_empty() { Exit::Ok } else { Exit::Incorrect };
        let check::Checked { code, trials, said } = &self.found;
        if *code != Some(i32::from(expected as u8)) {
            return Err(format!("exit code {code:?} instead of {}\n{said}", expected as u8));
        }
        for entry in self.operator.entries {
            let prefix = format!("{entry}/");
            let mut own = trials.iter().filter(|trial| trial.name.starts_with(&prefix));
            if !own.any(|trial| kinds.is_empty() || must(trial)) {
                return Err(format!("no trial of {entry} was run\n{said}"));
            }
        }
        trials.iter().try_for_each(|trial| self.is_as_expected(trial, must(trial), kinds))
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
            Crashed if self.operator.is_for_a_device() => {
                vec!["memory that it may not, or wrote to an input".to_owned()]
            }
            Crashed => vec!["SIGSEGV at address 0x0".to_owned()],
            _ => vec!["returned 7".to_owned()],
        };
        if !place.iter().any(|part| detail.contains(part)) {
            return place.into_iter().next();
        }
        // On a device several seeds are tried together: any of them may be the one.
        let repeat = |seed: &String| format!("KOPT_SEED={seed} cargo test -p {}", self.operator.package);
        let is_told = trial.seeds.iter().any(|seed| detail.contains(&repeat(seed)));
        (!is_told).then(|| trial.seeds.last().map_or_else(|| "a seed".to_owned(), repeat))
    }
}

/// The last part of a trial's name.
fn distribution(trial: &Trial) -> &str {
    trial.name.rsplit('/').next().unwrap_or_default()
}
