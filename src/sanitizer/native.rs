//! Host code: kopt-build compiles its sources with the sanitizers of the C compiler, the judge's executable writes the calls,
//! and the program that makes these calls either ends well or says what it found, and where. It runs confined: it is the
//! candidate's own code, outside of the worker that confines itself.

use std::process::Command;
use std::time::Duration;

use camino::Utf8Path;
use kopt_build::bindings;
use kopt_build::sanitize::{self, Sanitized, idle, sanitized};
use kopt_schema::bout::EXERCISE_ARGUMENT;

use super::{Finding, Subject};
use crate::error::{Error, Result};
use crate::process;
use crate::referee::entrant;

/// The calls take a second or so.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn run(subject: &Subject<'_>) -> Result<Finding> {
    let Subject { context, folder, manifest, judge, scratch, .. } = *subject;
    let interface = bindings::load(folder, manifest, false)
        .map_err(|error| Error::setup("cannot read the kernel's interface").because(&error))?;
    let entries: Vec<String> = interface.entries.iter().map(|entry| entry.symbol.clone()).collect();
    let cell = match sanitized(folder, manifest, &entries, &scratch.join("build")) {
        Ok(Sanitized::Program(cell)) => cell,
        Ok(Sanitized::Shunned(what)) => {
            return Ok(Finding::Found(format!("{what} keeps them from looking at part of it")));
        }
        Ok(Sanitized::Unavailable(why)) => return Ok(Finding::Unavailable(why)),
        Err(error) if entrant::is_of_the_machine(&error) => return Err(super::not_here(&error)),
        // It did without them: whatever else keeps it from being looked at is the version's own.
        Err(error) => return Ok(Finding::Found(format!("it does not compile with them: {error}"))),
    };
    let calls = scratch.join("calls");
    let mut command = Command::new(judge);
    process::withhold(&mut command, context);
    command.current_dir(folder).arg(EXERCISE_ARGUMENT).arg(&calls);
    let written = process::capture(command)?;
    if !written.status.success() {
        let cause = written.stderr.trim().to_owned();
        return Err(Error::setup("the judge wrote no calls for the sanitizers").cause(cause));
    }
    let cell = cell.and_read(&calls);
    let mut command = sanitize::command(&cell);
    command.arg(&calls);
    let found = match subject.watched_in(Some(&cell), command, LIMIT)? {
        Some((status, _)) if status.success() => return Ok(Finding::Clean),
        Some((_, said)) => told(&said, scratch),
        None => format!("not done within {} s", LIMIT.as_secs()),
    };
    Ok(match why_nothing_runs(subject)? {
        Some(why) => Finding::Unavailable(format!("no program with sanitizers runs here: {why}")),
        None => Finding::Found(found),
    })
}

/// What an empty program under the sanitizers says that does not run either. Asked only where something was found. One that is not
/// done in time tells nothing, and what was found stands.
fn why_nothing_runs(subject: &Subject<'_>) -> Result<Option<String>> {
    let Subject { folder, manifest, scratch, .. } = *subject;
    let Some(cell) = idle(folder, manifest, &scratch.join("build")) else { return Ok(None) };
    let ended = subject.watched_in(Some(&cell), sanitize::command(&cell), LIMIT)?;
    Ok(ended.filter(|(status, _)| !status.success()).map(|(_, said)| told(&said, scratch)))
}

fn told(text: &str, scratch: &Utf8Path) -> String {
    super::told(text, scratch, |line| line.contains("ERROR: ") || line.contains("runtime error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_begins_with_what_was_found() {
        let said = "hello\n=================\n==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6\nREAD of size 4\n\n    #0 0x5 in softmax kernels/softmax.c:12\n";
        let found = told(said, Utf8Path::new("/scratch"));
        assert!(found.starts_with("==12==ERROR: AddressSanitizer: heap-buffer-overflow"), "{found}");
        assert!(found.ends_with("kernels/softmax.c:12"), "{found}");
        assert_eq!(told("\n", Utf8Path::new("/scratch")), "it ended without saying why");
    }
}
