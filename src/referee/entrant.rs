//! A version of a kernel, compiled: what a match is given of each side.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::cache::{Cache, Order};
use kopt_build::{Blame, BuildError};
use kopt_schema::candidate::Candidate;
use kopt_schema::evidence::Side;
use kopt_schema::exit::Exit;

use super::inspection;
use crate::audit::rules;
use crate::error::{Error, Result};
use crate::manifest::Kernel;

/// A version to compile.
#[derive(Debug, Clone)]
pub struct Version<'a> {
    /// The crate, as this version has it.
    pub kernel: &'a Kernel,
    /// A commit, or `working tree`.
    pub revision: String,
    /// As the user named it.
    pub name: String,
    /// As errors name it: `BASE (HEAD~1)`.
    pub shown: String,
}

/// A version that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrant {
    /// Its `candidate.json`.
    pub file: Utf8PathBuf,
    /// What evidence says of it.
    pub side: Side,
}

/// Compiles versions, two at a time, into the cache in `folder`, and audits them. What the audit lets pass is the policy of the
/// first one, the version that stands.
///
/// # Errors
/// When one does not compile (with the compiler's words), a compiler is missing, or the policy allows what is no rule; the
/// error says which version.
pub fn compile(folder: &Utf8Path, versions: &[Version<'_>]) -> Result<Vec<Entrant>> {
    let allow = versions.first().map_or(&[][..], |version| &version.kernel.manifest.allow);
    compile_under(folder, versions, allow)
}

/// The same, where the audit lets pass what `allow` names.
///
/// # Errors
/// As [`compile`].
pub fn compile_under(folder: &Utf8Path, versions: &[Version<'_>], allow: &[String]) -> Result<Vec<Entrant>> {
    let order = |version: &Version<'_>| Order {
        folder: version.kernel.member.folder.clone(),
        manifest: version.kernel.manifest.clone(),
    };
    let orders: Vec<Order> = versions.iter().map(order).collect();
    known(allow)?;
    let built = Cache::new(folder).candidates(&orders, 2);
    let entrant = |(version, file): (&Version<'_>, Result<Utf8PathBuf, BuildError>)| {
        file.map_err(|error| failed(version, &error)).and_then(|file| Entrant::of(version, file, allow))
    };
    versions.iter().zip(built).map(entrant).collect()
}

/// Which of the versions were compiled without all of the walls around their compiler, in words; once, where they lack the same.
pub fn unconfined<'a>(entrants: impl IntoIterator<Item = &'a Entrant>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let lacking = entrants.into_iter().filter_map(|entrant| entrant.candidate()?.unconfined);
    for text in lacking.map(|lacking| unconfined_for(&lacking)) {
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

/// The words for walls that are not there.
#[must_use]
pub fn unconfined_for(lacking: &str) -> String {
    format!(
        "the compiler was not confined, and what it ran could read and write other files than the crate's: {lacking}"
    )
}

impl Entrant {
    /// The object's file.
    #[must_use]
    pub fn object(&self) -> Option<Utf8PathBuf> {
        Some(self.file.parent()?.join(self.candidate()?.object?))
    }

    fn candidate(&self) -> Option<Candidate> {
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    fn of(version: &Version<'_>, file: Utf8PathBuf, allow: &[String]) -> Result<Self> {
        let unreadable = |error: &dyn std::error::Error| Error::setup(format!("cannot read `{file}`")).because(error);
        let text = std::fs::read(&file).map_err(|error| unreadable(&error))?;
        let candidate: Candidate = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if let Some(missing) = &candidate.missing {
            return Err(Error::new(Exit::NoDevice, format!("{} cannot be compiled here", version.shown))
                .cause(missing.clone())
                .hint(
                    "both versions are compiled where they are compared: install the compiler, or compare elsewhere",
                ));
        }
        let code = kopt_build::code::of_candidate(&file, &candidate).map_err(|error| failed(version, &error))?;
        let audit = inspection::inspect(version.kernel, &file, &candidate, allow)?;
        let crate_folder = version.kernel.member.folder.as_str();
        let side = Side {
            revision: version.revision.clone(),
            name: version.name.clone(),
            object: candidate.digest,
            code,
            compiler: candidate.compiler,
            flags: candidate.flags.iter().map(|flag| told(flag, crate_folder)).collect(),
            knobs: candidate.knobs,
            audit: Some(audit),
            prepares: candidate.prepares,
        };
        Ok(Self { file, side })
    }
}

/// A policy allows rules that there are.
fn known(allow: &[String]) -> Result<()> {
    let Some(id) = rules::unknown(allow).next() else { return Ok(()) };
    let wrong = Error::setup(format!("`policy.allow` of the manifest names `{id}`, which is no rule of the audit"));
    Err(match kopt_schema::nearest(id, rules::all().iter().map(|rule| rule.id)) {
        Some(near) => wrong.hint(format!("did you mean `{near}`? `cargo kopt audit --list` names all rules")),
        None => wrong.hint("`cargo kopt audit --list` names all rules"),
    })
}

/// A flag as evidence tells it: evidence travels, and names no path of this machine. The prefix map names the folder of
/// whichever version was compiled first to this code.
fn told(flag: &str, crate_folder: &str) -> String {
    const MAP: &str = "-ffile-prefix-map=";
    if flag.starts_with(MAP) { format!("{MAP}.=.") } else { flag.replace(crate_folder, ".") }
}

/// What the system says, by its C library in the language that compilers are asked to speak, when a machine cannot go on.
const OF_THE_MACHINE: [&str; 8] = [
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Read-only file system",
    "Input/output error",
    "Cannot allocate memory",
    "Too many open files",
    "Too many open files in system",
];

/// Whether the machine and not the version is why a file could not be read or written. A file that is not there may be one that
/// the version's generator should have made, and what is no error of the system was found in what it made.
fn is_of_the_system(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some() && error.kind() != std::io::ErrorKind::NotFound
}

/// Whether a compiler could not read or write: that is the end of one of its lines then. A line that shows text of the source proves
/// nothing, nor does an error at a place of it that is not fatal, or a remark: those a source can have say what it likes.
fn could_not_go_on(output: &str) -> bool {
    let is_shown = |line: &str| line.contains(" | ") || line.contains("#error") || line.contains("#warning");
    let is_remark = |line: &str| [": warning: ", ": Warning: ", ": note: "].iter().any(|kind| line.contains(kind));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let is_placed = |line: &str| {
        let place = line.split_once(": error: ").or_else(|| line.split_once(": Error: "));
        place.and_then(|(place, _)| place.rsplit_once(':')).is_some_and(|(_, number)| is_number(number))
    };
    let end = |line: &str| line.rsplit(": ").next().map(|end| end.trim_matches(['\'', '.']).to_owned());
    let says = |line: &str| end(line).is_some_and(|end| OF_THE_MACHINE.contains(&end.as_str()));
    let proves = |line: &str| line.contains(": ") && !is_shown(line) && !is_remark(line) && !is_placed(line);
    output.lines().any(|line| proves(line) && says(line.trim_end()))
}

/// Whether a version was not compiled for the machine's sake, and not for its own.
#[must_use]
pub fn is_of_the_machine(error: &BuildError) -> bool {
    match error {
        BuildError::File { error, .. } => is_of_the_system(error),
        BuildError::Compile { blame, output, .. } => match blame {
            Blame::Machine => true,
            Blame::Version => false,
            Blame::Unclear => could_not_go_on(output),
        },
        _ => false,
    }
}

/// Whether the launch plan is why: it is one of the version's sources, and a mistake in it is one of the version's. Nothing else
/// that is compiled here is read as a manifest.
fn is_of_the_plan(error: &BuildError, plan: Option<&str>) -> bool {
    // Named with what it was held against behind it: a shape, or what a compiler has added.
    let is_plan = |file: &str| plan.is_some_and(|plan| file.starts_with(plan));
    match error {
        BuildError::Manifest(findings) => findings.iter().any(|finding| is_plan(&finding.file)),
        BuildError::Header { header, .. } => is_plan(header),
        _ => false,
    }
}

/// Which version could not be compiled, and why. A compiler that is missing, or a disk that is full, is not the version's fault.
fn failed(version: &Version<'_>, error: &BuildError) -> Error {
    let (exit, what) = match error {
        error if is_of_the_machine(error) => (Exit::Output, "cannot be compiled here"),
        BuildError::Compile { .. } | BuildError::Include { .. } | BuildError::Prepare { .. } => {
            (Exit::BuildFailed, "does not compile")
        }
        error if is_of_the_plan(error, version.kernel.manifest.launch.as_deref()) => {
            (Exit::BuildFailed, "does not compile")
        }
        BuildError::NoCompiler(_) | BuildError::NoDevice(_) => (Exit::NoDevice, "cannot be compiled here"),
        _ => (Exit::Setup, "cannot be compiled"),
    };
    let text = error.to_string();
    let wrong = Error::new(exit, format!("{} {what}", version.shown));
    // The hints of the build are the last lines of its errors; here they have a place of their own.
    match text.rsplit_once("\nhint: ") {
        Some((said, hint)) => wrong.cause(said).hint(hint),
        None => wrong.cause(text),
    }
}

#[cfg(test)]
mod tests {
    use kopt_schema::Diagnostic;

    use super::*;

    #[test]
    fn a_compiler_that_cannot_go_on_is_told_from_a_source_that_is_wrong() {
        for (output, is_the_machine) in [
            (
                "kernels/softmax.c: In function 'f':\ncc1: fatal error: error writing to a.s: No space left on device\n",
                true,
            ),
            (
                "{standard input}: Fatal error: can't write 8 bytes to section .text of a.o: 'No space left on device'",
                true,
            ),
            ("error: unable to open output file 'a.o': 'Read-only file system'\n1 error generated.", true),
            (
                "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status",
                true,
            ),
            ("kernels/softmax.c:1:2: error: #error a: No space left on device", false),
            ("    1 | #error a: No space left on device", false),
            ("kernels/a.c:1:10: fatal error: kernels/a.h: Input/output error\ncompilation terminated.", true),
            ("kernels/a.c:1:1: error: static assertion failed: \"a: Disk quota exceeded\"", false),
            ("kernels/a.cpp:1:1: error: static assertion failed: Disk quota exceeded", false),
            ("kernels/a.c:1:13: warning: Disk quota exceeded\nkernels/a.c:2:1: error: no", false),
            ("kernels/a.c: Assembler messages:\nkernels/a.c:3: Error: Disk quota exceeded", false),
            ("kernels/softmax.c:9:5: error: expected ';' before 'return'", false),
            ("", false),
        ] {
            assert_eq!(could_not_go_on(output), is_the_machine, "{output}");
        }
        let full = std::io::Error::from_raw_os_error(28);
        assert!(is_of_the_system(&full));
        assert!(!is_of_the_system(&std::io::Error::from_raw_os_error(2)), "a generator that made nothing");
        assert!(!is_of_the_system(&std::io::Error::other("no ELF")));
    }

    #[test]
    fn who_is_to_blame_is_asked_of_what_was_said_only_where_the_end_does_not_tell() {
        let full = "cc1: fatal error: error writing to a.s: No space left on device";
        for (blame, output, is_the_machine) in [
            (Blame::Machine, "No such file or directory (os error 2)", true),
            (Blame::Machine, "it was killed", true),
            (Blame::Unclear, full, true),
            (Blame::Unclear, "kernels/a.c:9:5: error: expected ';'", false),
            // It was the candidate's own code that said so.
            (Blame::Version, full, false),
        ] {
            let (source_file, command) = ("kernels/a.c".to_owned(), "cc".to_owned());
            let error = BuildError::Compile { source_file, command, output: output.to_owned(), blame };
            assert_eq!(is_of_the_machine(&error), is_the_machine, "{error:?}");
        }
    }

    #[test]
    fn a_mistake_in_a_launch_plan_is_the_version_s() {
        let header = |file: &str| BuildError::Header { header: file.to_owned(), reason: "is wrong".to_owned() };
        let found = |file: &str| BuildError::Manifest(vec![Diagnostic::file(file, "is wrong")]);
        let plan = "kernels/softmax.launch.toml";
        for (error, is_of_plan) in [
            (found(plan), true),
            (found("kernels/softmax.launch.toml, completed"), true),
            (header("kernels/softmax.launch.toml, shape 64x1024"), true),
            (header(plan), true),
            (header("kernels/softmax.h"), false),
            (found("Cargo.toml"), false),
            (BuildError::NoDevice("none".to_owned()), false),
        ] {
            assert_eq!(is_of_the_plan(&error, Some(plan)), is_of_plan, "{error}");
            assert!(!is_of_the_plan(&error, None), "{error}");
        }
    }
}
