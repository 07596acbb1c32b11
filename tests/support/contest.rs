//! A match between an honest softmax and a bad one, held by a referee in a process of its own, in folders of its own, so
//! that it can be killed, and so that everything it leaves behind is found: what `bad_contestants`, `killed` and `exploits` share.

#[path = "judge.rs"]
mod judge;

use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::context::Context;
use cargo_kopt::error::Result as KoptResult;
use cargo_kopt::gate;
use cargo_kopt::manifest::Kernel;
use cargo_kopt::process::Interrupts;
use cargo_kopt::referee::entrant::{self, Entrant, Version};
use cargo_kopt::referee::seeds::Master;
use cargo_kopt::referee::{Limits, Match, evidence};
use cargo_kopt::shell::{Manner, Shell};
use cargo_kopt::workspace::Member;
use kopt_schema::evidence::{Evidence, Side, Terms};
use kopt_schema::manifest::Backend;
use kopt_schema::sandbox::Defence;
use serde::{Deserialize, Serialize};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PACKAGE: &str = "softmax-cpu";

/// A test executable that is started with this argument and a file is the referee of the match in the file.
const REFEREE_ARGUMENT: &str = "--referee";

/// Seconds without an answer after which a contestant hangs: where it is to be found hanging, and where it only must not stop
/// the test. A machine with much to do may let an honest one wait for seconds.
pub const TIMEOUT_S: f64 = 2.0;
const LONG_TIMEOUT_S: f64 = 20.0;

/// A referee that takes longer than this hangs itself. On a device every trial of a launcher has a process and a context of
/// its own.
const PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE_WITH_A_DEVICE: Duration = Duration::from_secs(900);

/// What a referee is told.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    package: String,
    /// Every trial first, as in a comparison.
    check: bool,
    judge: Utf8PathBuf,
    folder: Utf8PathBuf,
    incumbent: (Utf8PathBuf, Side),
    candidate: (Utf8PathBuf, Side),
    shapes: Vec<String>,
    looks: Vec<usize>,
    without: Vec<Defence>,
    timeout_s: f64,
    evidence: Utf8PathBuf,
}

/// What all matches have in common; made once.
pub struct Ground {
    pub judge: Utf8PathBuf,
    pub kernel: Kernel,
}

/// The correctness executable of the example, which serves as the judge, and its crate.
pub static GROUND: LazyLock<Ground> = LazyLock::new(|| ground(PACKAGE));

/// The same of another example.
pub fn ground(package: &str) -> Ground {
    let (kernel, judge) = judge::of(package);
    Ground { judge, kernel }
}

/// Compiles `bad-contestants/softmax.c` with a misdeed, in place of the example's own kernel.
pub fn compile(misdeed: &str) -> Entrant {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    fs::create_dir(folder.join("kernels")).unwrap();
    let (root, example) = (Utf8Path::new(ROOT), &GROUND.kernel.member.folder);
    let fixtures = root.join("tests/bad-contestants");
    for (from, file) in [(&example.join("kernels"), "softmax.h"), (&fixtures, "softmax.c"), (&fixtures, "misdeeds.h")] {
        fs::copy(from.join(file), folder.join("kernels").join(file)).unwrap();
    }
    let mut kernel = GROUND.kernel.clone();
    folder.clone_into(&mut kernel.member.folder);
    kernel.manifest.flags = vec![format!("-DMISDEED={misdeed}")];
    let (revision, name, shown) = (misdeed.to_owned(), misdeed.to_owned(), misdeed.to_owned());
    let cache = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-contestants");
    let mut entrant =
        entrant::compile(&cache, &[Version { kernel: &kernel, revision, name, shown }]).unwrap().remove(0);
    // The audit refuses such objects before they are run; here it is the measurement itself that must find them.
    entrant.side.audit = None;
    entrant
}

/// Folders of a match, all below one that nothing else has, and its executable under a name of its own.
pub struct Ring {
    scratch: tempfile::TempDir,
    package: String,
    check: bool,
    patience: Duration,
    timeout_s: f64,
    shared_before: Vec<String>,
}

impl Ring {
    pub fn new() -> Self {
        Self::on(&GROUND, false)
    }

    /// For a match before the judge of `ground`; with `check`, the candidate must pass every trial first.
    pub fn on(ground: &Ground, check: bool) -> Self {
        // Beside the judge's executable, so that it can be linked to.
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let on_device = ground.kernel.manifest.backend != Backend::Cpu;
        let patience = if on_device { PATIENCE_WITH_A_DEVICE } else { PATIENCE };
        let (package, timeout_s) = (ground.kernel.member.name.clone(), LONG_TIMEOUT_S);
        let ring = Self { scratch, package, check, patience, timeout_s, shared_before: shared_memory() };
        for folder in ["work", "temporary", "evidence"] {
            fs::create_dir(ring.path(folder)).unwrap();
        }
        if fs::hard_link(&ground.judge, ring.judge()).is_err() {
            fs::copy(&ground.judge, ring.judge()).unwrap();
        }
        ring
    }

    /// One in which a contestant is soon taken to hang.
    #[allow(dead_code, reason = "shared with tests in which none hangs")]
    pub fn impatient(self) -> Self {
        Self { timeout_s: TIMEOUT_S, ..self }
    }

    pub fn path(&self, inside: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.scratch.path()).unwrap().join(inside)
    }

    pub fn judge(&self) -> Utf8PathBuf {
        self.path("judge")
    }

    /// Starts a referee that holds the match.
    pub fn start(
        &self,
        incumbent: &Entrant,
        candidate: &Entrant,
        shapes: &[&str],
        looks: &[usize],
        without: &[Defence],
    ) -> Referee {
        let side = |entrant: &Entrant| (entrant.file.clone(), entrant.side.clone());
        let task = Task {
            package: self.package.clone(),
            check: self.check,
            judge: self.judge(),
            folder: self.path("work"),
            incumbent: side(incumbent),
            candidate: side(candidate),
            shapes: shapes.iter().map(|shape| (*shape).to_owned()).collect(),
            looks: looks.to_vec(),
            without: without.to_vec(),
            timeout_s: self.timeout_s,
            evidence: self.path("evidence/evidence.json"),
        };
        let file = self.path("task.json");
        fs::write(&file, serde_json::to_vec(&task).unwrap()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(REFEREE_ARGUMENT).arg(file).env("TMPDIR", self.path("temporary"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Referee { child: command.spawn().unwrap(), evidence: task.evidence, patience: self.patience }
    }

    /// What is left of a match, in words: processes, shared memory and files. Processes get a few seconds to end, and are ended then.
    pub fn left_behind(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut left = survivors(&self.path(""), Duration::from_secs(5));
        // Other programs have theirs for a moment.
        let strays = || shared_memory().into_iter().filter(|name| !self.shared_before.contains(name));
        while strays().next().is_some() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        left.extend(strays());
        for folder in ["work", "temporary"] {
            let files = fs::read_dir(self.path(folder)).unwrap().flatten();
            left.extend(files.map(|file| format!("file {folder}/{}", file.file_name().display())));
        }
        left
    }
}

/// Shared memory that stays when its processes are gone: by name, and by number.
fn shared_memory() -> Vec<String> {
    let named = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let named = named.map(|entry| format!("shared memory {}", entry.file_name().display()));
    let numbered = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let number = |line: &str| line.split_whitespace().nth(1).map(|number| format!("shared memory number {number}"));
    named.chain(numbered.lines().skip(1).filter_map(number)).collect()
}

/// Processes of a folder that are still there when the time is over; they are ended then.
pub fn survivors(folder: &Utf8Path, time: Duration) -> Vec<String> {
    let deadline = Instant::now() + time;
    let mut running = Process::below(folder);
    while !running.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        running = Process::below(folder);
    }
    running.iter().for_each(Process::kill);
    running.iter().map(|process| format!("process {process:?}")).collect()
}

/// A process, as the system lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub id: i32,
    pub parent: i32,
    pub state: String,
    /// Its first argument.
    pub role: String,
}

impl Process {
    /// Those whose executable or current folder is in a folder. What contestants fork has both.
    pub fn below(folder: &Utf8Path) -> Vec<Self> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_below = |id: &i32| {
            let link = |name: &str| fs::read_link(format!("/proc/{id}/{name}")).unwrap_or_default();
            link("exe").starts_with(folder) || link("cwd").starts_with(folder)
        };
        numbers.filter(is_below).filter_map(Self::read).collect()
    }

    fn read(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        let role = arguments.split('\0').nth(1).unwrap_or_default().to_owned();
        Some(Self { id, parent, state, role })
    }

    /// Kills it, if it is still the process that was found: numbers are given away again.
    pub fn kill(&self) {
        use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
        let Some(handle) = Pid::from_raw(self.id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
            return;
        };
        if Self::read(self.id).is_some_and(|now| now.role == self.role) {
            // One that has ended meanwhile is as good as killed.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

/// A referee that was started.
pub struct Referee {
    child: Child,
    evidence: Utf8PathBuf,
    patience: Duration,
}

/// How a referee ended.
pub struct Ended {
    /// Its exit code; none if it was killed.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// What it told people.
    pub said: String,
    /// What it found.
    pub evidence: Option<Evidence>,
}

impl Referee {
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end; one that takes too long is killed.
    pub fn wait(mut self) -> Ended {
        let deadline = Instant::now() + self.patience;
        while !self.has_ended() {
            if Instant::now() > deadline {
                self.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let evidence = fs::read(&self.evidence).ok().map(|text| evidence::read("evidence", &text).unwrap());
        let _ = fs::remove_file(&self.evidence);
        Ended { code: status.code(), signal: status.signal(), said, evidence }
    }
}

/// If this process was started as a referee, holds the match and returns.
pub fn serve_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    arguments.next().filter(|argument| argument == REFEREE_ARGUMENT)?;
    let task: Task = serde_json::from_slice(&fs::read(arguments.next()?).unwrap()).unwrap();
    Some(match task.hold() {
        Ok(evidence) => ExitCode::from(evidence.verdict.ruling.exit().code()),
        Err(error) => {
            // As the tool does.
            Shell::of_process(Manner::default()).error(&error).unwrap();
            ExitCode::from(error.exit().code())
        }
    })
}

impl Task {
    fn hold(self) -> KoptResult<Evidence> {
        let entrant = |(file, side): (Utf8PathBuf, Side)| Entrant { file, side };
        let (incumbent, candidate) = (entrant(self.incumbent), entrant(self.candidate));
        let terms = Terms { looks: self.looks, max_time_s: 60.0, ..terms() };
        let kernel = kernel(&self.package, &self.folder, self.timeout_s);
        let bout = Match {
            kernel: &kernel,
            incumbent: &incumbent,
            candidate: &candidate,
            shapes: self.shapes,
            left_out: Vec::new(),
            terms,
            seed: Master::secret()?,
            check: self.check,
            injected: Vec::new(),
            without: self.without,
            ceilings: None,
            even_if_identical: true,
            limits: Limits::default(),
        };
        let found = bout.hold(&Context::of_process()?, &Interrupts::watch()?, &self.judge, &mut |_| Ok(()))?;
        evidence::write(&self.evidence, &found)?;
        Ok(found)
    }
}

/// One whose rows are a power of two, and one whose are not.
pub const SHAPES: [&str; 2] = ["64x1024", "100x1000"];

/// Terms of the shortest comparison: each look at the level that it has in the longest.
fn terms() -> Terms {
    let terms = gate::terms("default", None, false).unwrap();
    // What is found here is found without a trace: `transfer` is about those.
    Terms { screen_alpha: terms.screen_alpha / terms.looks.len() as f64, trace: false, ..terms }
}

/// The example crate as a match needs it, in another folder and with a time limit of its own.
fn kernel(package: &str, folder: &Utf8Path, timeout_s: f64) -> Kernel {
    let root = Utf8Path::new(ROOT);
    let crate_folder = root.join("example-kernels").join(package);
    let mut manifest = kopt_build::manifest::load(&crate_folder, Some(root), root).unwrap().unwrap();
    // First calls on a device are slow: there the manifest's own limit holds.
    if manifest.backend == Backend::Cpu {
        manifest.check.timeout_s = timeout_s;
    }
    let member = Member {
        name: package.to_owned(),
        version: String::new(),
        id: String::new(),
        folder: folder.to_owned(),
        is_kernel: true,
        tests: Vec::new(),
        benches: Vec::new(),
    };
    Kernel { member, manifest, path: Utf8PathBuf::new() }
}
