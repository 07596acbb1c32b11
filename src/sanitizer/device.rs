//! Device code of CUDA: compute-sanitizer watches the judge's executable make the calls, once for each of its tools, side
//! by side. The code is the very one that is timed, and every buffer has an allocation of its own.
//!
//! What a tool found is read from its summary, and that it looked at all from the judge's last line: its exit code is the
//! program's own where that failed, and some of its versions give 0 where they could not start it.

use std::process::Command;
use std::time::Duration;

use camino::Utf8Path;
use kopt_build::BuildError;
use kopt_build::cache::{Cache, Order};
use kopt_build::toolchain;
use kopt_schema::bout::{EXERCISE_DEVICE_ARGUMENT, EXERCISE_DONE, EXERCISE_FAULT};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::Backend;

use super::{Finding, Subject};
use crate::error::{Error, Result};
use crate::referee::entrant;

/// One of its tools, what it is told, and how many operations a call may have under it.
struct Tool {
    name: &'static str,
    options: &'static [&'static str],
    flops: Option<f64>,
}

/// Accesses out of bounds, reads of what nobody wrote, races in shared memory, barriers that not all threads reach. Without
/// padding the end of one allocation may be the beginning of the next. Calls of the driver that it refuses are the judge's
/// business, and handled. Racecheck follows every access to shared memory on the host, ten thousand times as slowly as the
/// kernel goes: of a large product it sees as many rows as that allows.
const TOOLS: [Tool; 4] = [
    Tool { name: "memcheck", options: &["--padding", "4096", "--report-api-errors", "no"], flops: None },
    Tool { name: "initcheck", options: &[], flops: None },
    Tool { name: "racecheck", options: &[], flops: Some(9e9) },
    Tool { name: "synccheck", options: &[], flops: None },
];

/// Racecheck keeps ten million hazards where it is told nothing else. One is enough.
const HAZARDS: (&str, &str) = ("NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS", "100000");

/// Releases before this one accuse some code that waits at an mbarrier, and waits rightly: the release notes of 2025.4, 2026.1 and
/// this one tell of corrections.
const SURE_OF_BARRIERS: (u32, u32) = (2026, 3);

/// A tool may take a hundred times as long as the kernels.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn run(subject: &Subject<'_>) -> Result<Finding> {
    let Subject { folder, manifest, scratch, .. } = *subject;
    if manifest.backend != Backend::Cuda {
        return Ok(Finding::Unavailable(format!("there is none for device code of {}", manifest.backend.name())));
    }
    let program = match toolchain::compute_sanitizer() {
        Ok(found) => found,
        Err(why) => return Ok(Finding::Unavailable(why)),
    };
    std::fs::create_dir_all(scratch).map_err(|error| unmade(scratch, &error))?;
    let order = Order { folder: folder.to_owned(), manifest: manifest.clone() };
    let candidate = match Cache::new(scratch.join("build")).candidate(&order) {
        Ok(candidate) => candidate,
        Err(error) if entrant::is_of_the_machine(&error) => return Err(super::not_here(&error)),
        Err(error @ BuildError::Compile { .. }) => return Ok(Finding::Found(format!("it does not compile: {error}"))),
        Err(error) => return Err(Error::setup("cannot compile the kernel for the sanitizers").because(&error)),
    };
    let findings = std::thread::scope(|scope| {
        let (program, candidate) = (&program.path, &candidate);
        let looks = TOOLS.map(|tool| scope.spawn(move || tool.look(subject, program, candidate)));
        let lost = |_| Err(Error::new(Exit::Internal, "a thread that waits for a sanitizer was lost"));
        looks.map(|look| look.join().unwrap_or_else(lost))
    });
    let mut findings = findings.into_iter().collect::<Result<Vec<_>>>()?;
    // Side by side they may have taken the device's memory from each other: who did not see the calls looks again, alone.
    for (tool, finding) in TOOLS.iter().zip(&mut findings) {
        if matches!(finding, Finding::Unavailable(_)) {
            *finding = tool.look(subject, &program.path, &candidate)?;
        }
        if let Finding::Found(what) = finding
            && tool.name == "racecheck"
            && has_barriers(&candidate)
        {
            what.push_str(&doubt(&program.version).unwrap_or_default());
        }
    }
    // What one of them found counts, also where another could not look.
    let found = |finding: &&Finding| matches!(finding, Finding::Found(_));
    let missing = |finding: &&Finding| *finding != &Finding::Clean;
    let worst = findings.iter().find(found).or_else(|| findings.iter().find(missing));
    Ok(worst.cloned().unwrap_or(Finding::Clean))
}

impl Tool {
    fn look(&self, subject: &Subject<'_>, program: &Utf8Path, candidate: &Utf8Path) -> Result<Finding> {
        let Self { name, options, flops } = self;
        // Each writes into a folder of its own.
        let scratch = subject.scratch.join(name);
        std::fs::create_dir_all(&scratch).map_err(|error| unmade(&scratch, &error))?;
        let mut command = Command::new(program);
        command.args(["--tool", name, "--print-limit", "3"]).args(*options).env(HAZARDS.0, HAZARDS.1);
        command.arg(subject.judge).arg(EXERCISE_DEVICE_ARGUMENT).arg(candidate);
        command.args(flops.map(|flops| flops.to_string()));
        let Some((_, said)) = Subject { scratch: &scratch, ..*subject }.watched(command, LIMIT)? else {
            return Ok(Finding::Found(format!("{name}: not done within {} s", LIMIT.as_secs())));
        };
        Ok(match Said::of(&said) {
            Said::Nothing => Finding::Clean,
            Said::Found => Finding::Found(format!("{name}: {}", told(&said, subject.scratch))),
            Said::NotRun => {
                let lines = || said.lines().rev();
                let why = lines().find(|line| line.starts_with("error: ")).or_else(|| lines().next());
                Finding::Unavailable(format!("{name} did not see the calls: {}", why.unwrap_or_default()))
            }
        })
    }
}

fn unmade(folder: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot make `{folder}`")).because(error)
}

/// What a tool and the judge's executable say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Found,
    NotRun,
}

impl Said {
    fn of(text: &str) -> Self {
        let errors = text.lines().filter_map(errors).max();
        let fault = text.lines().any(|line| line.starts_with(EXERCISE_FAULT));
        let done = text.lines().any(|line| line == EXERCISE_DONE);
        match errors {
            Some(1..) => Self::Found,
            _ if fault => Self::Found,
            Some(0) if done => Self::Nothing,
            _ => Self::NotRun,
        }
    }
}

/// How many errors a line of a summary counts: `ERROR SUMMARY: 3 errors`, or `RACECHECK SUMMARY: 2 hazards displayed (1 error, 1
/// warning)`, of which warnings are none.
fn errors(line: &str) -> Option<u64> {
    let (_, counted) = line.split_once("SUMMARY: ")?;
    let counted = counted.split_once('(').map_or(counted, |(_, counted)| counted);
    counted.split_whitespace().next()?.parse().ok()
}

/// Whether the code of a candidate waits at mbarriers.
fn has_barriers(candidate: &Utf8Path) -> bool {
    let Some(Ok(entries)) = candidate.parent().map(Utf8Path::read_dir_utf8) else { return false };
    let ptx = entries.filter_map(std::result::Result::ok).filter(|entry| entry.path().extension() == Some("ptx"));
    ptx.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).any(|text| text.contains("mbarrier."))
}

/// What speaks against a race in code with mbarriers: a release that cannot follow them all.
fn doubt(version: &str) -> Option<String> {
    let release = version.split_whitespace().find_map(|word| {
        let mut numbers = word.split('.').map(str::parse::<u32>);
        let release = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (release.0 > 2000).then_some(release)
    })?;
    let (year, number) = SURE_OF_BARRIERS;
    (release < SURE_OF_BARRIERS).then(|| {
        format!(
            "\nThis is compute-sanitizer {}.{}: before {year}.{number} it may call a race what waits rightly at an mbarrier. \
             It may help that every thread arrives for itself instead of one for its \
             warp, or to name a newer toolkit in CUDA_HOME",
            release.0, release.1
        )
    })
}

fn told(text: &str, scratch: &Utf8Path) -> String {
    // That there is more than can be told is not what was found.
    let said = |line: &str| {
        let finding = line.starts_with("========= ")
            && !line.contains("COMPUTE-SANITIZER")
            && !line.contains("Maximum number of");
        line.starts_with(EXERCISE_FAULT) || finding
    };
    let lines = super::told(text, scratch, said);
    lines.lines().map(|line| line.trim_start_matches(['=', ' '])).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINDING: &str = "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n=========     at softmax_rows+0x2d0 in softmax.cu:31\n=========     by thread (5,0,0) in block (0,0,0)\n========= \n========= ERROR SUMMARY: 1 error\n";

    #[test]
    fn a_finding_begins_with_what_was_found() {
        let found = told(FINDING, Utf8Path::new("/scratch"));
        assert!(
            found.starts_with("Invalid __global__ read of size 4 bytes\nat softmax_rows+0x2d0 in softmax.cu:31"),
            "{found}"
        );
        assert!(found.ends_with("ERROR SUMMARY: 1 error"), "{found}");
    }

    #[test]
    fn a_race_is_told_ahead_of_how_many_there_were() {
        let text = "========= COMPUTE-SANITIZER\n========= Warning: Maximum number of hazards reached. Environment variable NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS can be used to increase this count.\n========= Error: Race reported between Write access at ring+0x23f0 in ring.cu:295\n========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n";
        let found = told(text, Utf8Path::new("/scratch"));
        assert!(found.starts_with("Error: Race reported between Write access at ring+0x23f0"), "{found}");
    }

    #[test]
    fn a_release_that_cannot_follow_barriers_is_named() {
        let said = "NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2025 NVIDIA Corporation\nVersion 2025.3.0.0 (build 36398880)";
        let doubt_of = |version: &str| doubt(version).unwrap_or_default();
        assert!(doubt_of(said).starts_with("\nThis is compute-sanitizer 2025.3: before 2026.3 it may call a race"));
        assert!(doubt_of("Version 2026.2.1.0").contains("2026.2"));
        assert_eq!(doubt("Version 2026.3.0.0"), None);
        assert_eq!(doubt("Version unknown of 1.2"), None, "no release, no doubt");
    }

    #[test]
    fn only_calls_that_were_made_are_clean() {
        let done = format!("========= COMPUTE-SANITIZER\n{EXERCISE_DONE}\n");
        let cases = [
            (FINDING.to_owned(), Said::Found),
            (format!("{done}========= ERROR SUMMARY: 0 errors\n"), Said::Nothing),
            (format!("{done}========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"), Said::Nothing),
            (format!("{done}========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)\n"), Said::Nothing),
            (format!("{done}========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n"), Said::Found),
            ("========= ERROR SUMMARY: 0 errors\n".to_owned(), Said::NotRun),
            (done.clone(), Said::NotRun),
            (
                format!("{EXERCISE_FAULT} softmax/3x7: CUDA, cuStreamSynchronize\n========= ERROR SUMMARY: 0 errors\n"),
                Said::Found,
            ),
            ("error: no device: CUDA, cuInit\n".to_owned(), Said::NotRun),
            (String::new(), Said::NotRun),
        ];
        for (text, said) in cases {
            assert_eq!(Said::of(&text), said, "{text}");
        }
    }
}
