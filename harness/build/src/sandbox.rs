//! Compilers run confined: they write to their scratch folder only, read the system's folders, those of the crate's sources and
//! its declared include roots, and reach no TCP port. A source can then neither include nor embed a file from elsewhere, whatever
//! directive it uses, and nothing that a compiler is made to start does more.
//!
//! Landlock confines a thread and what it starts: the compiler is started from a thread that is made for it.

mod cell;

use std::io::{ErrorKind, Read as _, Seek as _};
use std::num::NonZero;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, path_beneath_rules,
};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

pub use cell::Cell;

use crate::toolchain::Compiler;

/// The newest version that is asked for: with files, truncation and TCP.
const ABI_WANTED: ABI = ABI::V5;

/// What the system installs, and what programs need to start. Of `/etc`, only the loader's list of libraries.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/sys/devices/system/cpu",
];

/// Devices that any program may use.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];

/// Folders of the crate in `folder` that a compiler may read: those of its sources and header, the include roots, and that of
/// a script which makes its device code.
pub(crate) fn of_sources<'a>(folder: &'a Utf8Path, manifest: &'a Manifest) -> impl Iterator<Item = Utf8PathBuf> + 'a {
    let files = manifest.sources.iter().chain([&manifest.header]);
    let beside = files.filter_map(|file| Utf8Path::new(file).parent());
    let scripts =
        manifest.generator.iter().filter_map(|word| Utf8Path::new(word).parent()).filter(|parent| *parent != "");
    let roots = manifest.include_roots.iter().map(Utf8Path::new);
    beside.chain(scripts).chain(roots).map(|path| folder.join(path))
}

/// Processor time that each process of a compiler has, of all its threads together: templates and unrolled loops take minutes, and
/// a source on which a compiler never comes to an end would keep everybody waiting.
const PROCESSOR_TIME: Duration = Duration::from_secs(900);

/// Bytes that are heard of what a candidate's code prints while it is compiled.
const HEARD: u64 = 16 << 20;

/// The most that one file may have which code of a candidate writes while it is compiled.
const WRITTEN: u64 = 1 << 30;

/// Starts a command that may use so much processor time and write so large files, and so may each process that it starts.
fn limited(command: &mut Command, time: Duration, written: Option<u64>) -> std::io::Result<Child> {
    let child = command.spawn()?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // A limit of this process would hold for all that it does beside, and so the other's is set from outside, when the program runs
    // already: what it could start in that moment has none, and where it is a candidate's it is ended with its group. One
    // that has ended by now needs none.
    let limit = |resource, soft: u64, hard: u64| {
        let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
        let _ = process.map(|process| prlimit(Some(process), resource, limit));
    };
    let seconds = time.as_secs().max(1);
    // The first ends it with a word, the second also where the word is ignored.
    limit(Resource::Cpu, seconds, seconds + 5);
    if let Some(bytes) = written {
        limit(Resource::Fsize, bytes, bytes);
    }
    Ok(child)
}

/// What a compiler may touch.
#[derive(Debug)]
pub(crate) struct Walls {
    readable: Vec<Utf8PathBuf>,
    out: Utf8PathBuf,
    /// For temporary files, in `out`.
    scratch: Utf8PathBuf,
    lacking: Mutex<Option<String>>,
}

impl Walls {
    /// Around the sources of the crate in `folder`, its include roots, the compiler, and a folder to write to.
    pub(crate) fn new(
        folder: &Utf8Path,
        manifest: &Manifest,
        compiler: &Compiler,
        out: &Utf8Path,
        scratch: &Utf8Path,
    ) -> Self {
        let mut readable: Vec<Utf8PathBuf> = SYSTEM.iter().map(Utf8PathBuf::from).collect();
        readable.extend(of_sources(folder, manifest));
        readable.sort();
        readable.dedup();
        // Compilers may be installed elsewhere.
        readable.extend(compiler.home());
        readable.extend(compiler.roots.iter().cloned());
        // The whole system is no folder of a compiler.
        readable.retain(|path| path != "/");
        Self { readable, out: out.to_owned(), scratch: scratch.to_owned(), lacking: Mutex::default() }
    }

    /// The same, and one more file to read.
    pub(crate) fn and_read(mut self, file: Utf8PathBuf) -> Self {
        self.readable.push(file);
        self
    }

    /// Whether a file is outside of all of it.
    fn shuts_out(&self, path: &Utf8Path) -> bool {
        let real = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
        let inside = self.readable.iter().chain([&self.out]).map(|root| real(root));
        let path = real(path);
        path.exists() && !inside.into_iter().any(|root| path.starts_with(root))
    }

    /// The file outside that a compiler stumbled over, if that is why it failed.
    pub(crate) fn stumbled(&self, folder: &Utf8Path, output: &str) -> Option<String> {
        let refusals = ["denied", "not found", "not find", "t open", "No such file"];
        let lines = output.lines().filter(|line| refusals.iter().any(|words| line.contains(words)));
        let words =
            lines.flat_map(|line| line.split([' ', ':', ',', '\'', '"', '`', '\u{2018}', '\u{2019}', '<', '>']));
        words
            .filter(|word| word.contains('/'))
            .find(|word| [folder.join(word), folder.join("kernels").join(word)].iter().any(|path| self.shuts_out(path)))
            .map(str::to_owned)
    }

    /// What of the walls the system could not put up.
    pub(crate) fn lacking(&self) -> Option<String> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what other walls, for another step of the same work, lacked.
    pub(crate) fn lack(&self, what: Option<String>) {
        if let Some(what) = what {
            *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        }
    }

    /// Runs a command inside. It stays in this process's group, so that what interrupts one interrupts the other.
    pub(crate) fn run(&self, command: &mut Command) -> std::io::Result<Output> {
        command.env("TMPDIR", &self.scratch).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.inside(|| limited(command, PROCESSOR_TIME, None))?;
        child.wait_with_output()
    }

    /// Runs a command inside that runs code of a candidate: for so long at most, and what it started ends with it, unless that
    /// has left its process group. An error of kind [`ErrorKind::TimedOut`] is that its time was over.
    pub(crate) fn run_within(&self, command: &mut Command, limit: Duration) -> std::io::Result<Output> {
        command.env("TMPDIR", &self.scratch).process_group(0).stdin(Stdio::null());
        // Files: a pipe is open for as long as anyone holds it.
        let [mut said, mut complained] = [tempfile::tempfile()?, tempfile::tempfile()?];
        command.stdout(said.try_clone()?).stderr(complained.try_clone()?);
        // The limit is this process's to keep; where it does not live so long, the system keeps another, of processor time: that
        // adds up over threads, of which each processor runs one.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let of_all = limit.saturating_mul(u32::try_from(processors).unwrap_or(u32::MAX));
        let mut child = self.inside(|| limited(command, of_all, Some(WRITTEN)))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = Instant::now() + limit;
        let status = loop {
            match child.try_wait()? {
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                ended => break ended,
            }
        };
        // Fails only where nobody is left in the group.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let Some(status) = status else {
            child.wait()?;
            let text = format!("it did not end within {} s", limit.as_secs_f64());
            return Err(std::io::Error::new(ErrorKind::TimedOut, text));
        };
        let mut text = [Vec::new(), Vec::new()];
        for (file, text) in [&mut said, &mut complained].into_iter().zip(&mut text) {
            file.rewind()?;
            file.take(HEARD).read_to_end(text)?;
        }
        let [stdout, stderr] = text;
        Ok(Output { status, stdout, stderr })
    }

    /// Does something in a thread that is confined.
    fn inside<T: Send>(&self, work: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
        let lost = |_| Err(std::io::Error::other("the compiler's thread was lost"));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let lacking = match self.put_up() {
                    Ok(lacking) => lacking,
                    Err(error) => Some(format!("no landlock: {error}")),
                };
                *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = lacking;
                work()
            });
            thread.join().unwrap_or_else(lost)
        })
    }

    /// Confines this thread and whatever it starts.
    fn put_up(&self) -> Result<Option<String>, RulesetError> {
        let all = AccessFs::from_all(ABI_WANTED);
        let status = Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(ABI_WANTED))?
            .create()?
            .add_rules(path_beneath_rules(&self.readable, AccessFs::from_read(ABI_WANTED)))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(ABI_WANTED)))?
            .add_rules(path_beneath_rules([&self.out], all))?
            .restrict_self()?;
        Ok(match (status.ruleset, status.landlock) {
            (RulesetStatus::FullyEnforced, _) => None,
            (_, LandlockStatus::Available { effective_abi, .. }) => {
                Some(format!("landlock {} lacks part of it", effective_abi as i32))
            }
            _ => Some("the system has no landlock".to_owned()),
        })
    }
}

/// What of the walls around compilers this system cannot put up; nothing, where it can put up all of them.
#[must_use]
pub fn unconfined() -> Option<String> {
    let nowhere = Utf8PathBuf::from("/nowhere");
    let walls = Walls { readable: Vec::new(), out: nowhere.clone(), scratch: nowhere, lacking: Mutex::default() };
    match walls.inside(|| Ok(())) {
        Ok(()) => walls.lacking(),
        Err(error) => Some(error.to_string()),
    }
}

/// Why a flag of a manifest is refused. Flags that name programs, plugins or files of further flags would make the compiler
/// run what is not the compiler; those that say where to write belong to the harness.
pub(crate) fn refused(flag: &str) -> Option<&'static str> {
    const PROGRAMS: [&str; 22] = [
        "-fplugin",
        "-fpass-plugin",
        "-iplugindir",
        "-wrapper",
        "--wrapper",
        "-specs",
        "--specs",
        "-fuse-ld",
        "--ld-path",
        "-plugin",
        "--plugin",
        "-load",
        "-ccbin",
        "--compiler-bindir",
        "-optf",
        "--options-file",
        "--config",
        "-dynamic-linker",
        "--dynamic-linker",
        "-gcc-toolchain",
        "--gcc-toolchain",
        "--sysroot",
    ];
    const PLACES: [&str; 5] = ["-o", "--output", "-MF", "-MJ", "--dependency-output"];
    if flag.starts_with("-B") || flag.starts_with("--prefix") {
        return Some("names a folder of programs");
    }
    // What is passed on to parts of the compiler comes in pieces: -Wl,-plugin,x.
    for part in flag.split([',', '=']) {
        if flag.starts_with('@') || PROGRAMS.iter().any(|prefix| part.starts_with(prefix)) {
            return Some("names a program, a plugin or a file of flags");
        }
    }
    PLACES.iter().any(|prefix| flag.starts_with(prefix)).then_some("says where to write")
}

#[cfg(test)]
pub(crate) mod tests;
