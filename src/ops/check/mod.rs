//! `check`: builds the correctness executables, runs them, and says which trials failed and how to repeat them.

mod report;
mod tally;

use kopt_schema::exit::Exit;
use kopt_schema::message::Message;

use super::Target;
use crate::build::{self, Role};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::Kernel;
use crate::runner::{Ended, Heard, Job, Runner};
use crate::shell::{BAD, GOOD, MIND, Shell, units};
use tally::Tally;

/// What to check, and how.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Which kernels.
    pub target: Target,
    /// Only trials whose names contain this. libtest-mimic takes one filter.
    pub filter: Option<String>,
    /// The filter is a whole name.
    pub exact: bool,
    /// Use this seed instead of secret ones.
    pub seed: Option<String>,
    /// Secret seeds a trial.
    pub seeds: Option<u32>,
    /// Trials at the same time.
    pub test_threads: Option<usize>,
}

impl Request {
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.filter.clone().into_iter().collect();
        arguments.extend(self.exact.then(|| "--exact".to_owned()));
        arguments.extend(self.test_threads.map(|threads| format!("--test-threads={threads}")));
        arguments
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let seed = self.seed.clone().map(|seed| ("KOPT_SEED", seed));
        let seeds = self.seeds.map(|seeds| ("KOPT_SEEDS", seeds.to_string()));
        seed.into_iter().chain(seeds).collect()
    }
}

/// Checks the selected kernels.
///
/// # Errors
/// When they cannot be found, built or run. A failed trial is not an error but [`Exit::Incorrect`].
pub fn check(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, kernels) = request.target.kernels(context, shell)?;
    let executables = build::executables(context, shell.manner(), &workspace, &kernels, Role::Correctness)?;
    let runner = Runner::new(context)?;
    let mut tallies = Vec::with_capacity(kernels.len());
    for (kernel, executable) in kernels.iter().zip(&executables) {
        let job = Job { kernel, executable, arguments: request.arguments(), environment: request.environment() };
        if let Some(lacks) = kernel.lacks_routings() {
            shell.warn(&lacks);
        }
        let tally = run(shell, &runner, &job)?;
        tell(shell, kernel, &tally, request)?;
        tallies.push(tally);
    }
    let exit = tally::verdict(&tallies);
    if exit == Exit::NoKernel {
        return Err(Error::new(
            Exit::NoKernel,
            format!("no trial matches `{}`", request.filter.as_deref().unwrap_or_default()),
        )
        .hint(match request.exact {
            true => "--exact takes whole names of trials; leave it out to match a part of one",
            false => "`cargo test -p NAME -- --list` names the trials of a kernel",
        }));
    }
    shell.say(&report::closing(&tallies, exit));
    Ok(exit)
}

/// Runs one executable and counts what it reports.
fn run(shell: &mut Shell, runner: &Runner<'_>, job: &Job<'_>) -> Result<Tally> {
    let mut tally = Tally::new(&job.kernel.member.name, !job.arguments.is_empty());
    shell.progress().start(&job.kernel.member.name, None);
    let ended = runner.run(job, &mut |heard| {
        if let Heard::Message(message) = heard {
            tally.hear(&message);
            if let Some(planned) = tally.planned {
                shell.progress().length(planned);
            }
            shell.progress().at(tally.trials.len(), &report::so_far(&tally));
            // The summary is ours to write: it also counts trials that were never reported.
            if matches!(*message, Message::Plan(_) | Message::Trial(_)) {
                shell.message(&message)?;
            }
        }
        Ok(())
    });
    shell.progress().finish();
    tally.end(&ended?);
    Ok(tally)
}

/// Says how one kernel did.
fn tell(shell: &mut Shell, kernel: &Kernel, tally: &Tally, request: &Request) -> Result<()> {
    shell.message(&Message::Summary(tally.summary()))?;
    let (word, style) = match tally {
        _ if tally.is_wrong() => ("Failed", BAD),
        _ if tally.passed() == 0 => ("Ignored", MIND),
        _ => ("Checked", GOOD),
    };
    let counts = report::counts(tally);
    let (name, time, flags) = (&kernel.member.name, units::seconds(tally.seconds), kernel.flags_shown());
    let line = format!("{name}: {counts} in {time}{flags}");
    match tally.is_wrong() {
        true => shell.tell(&format!("{style}{word:>12}{style:#} {line}\n")),
        false => shell.status(word, style, &line),
    }
    let text = report::failures(tally, shell.verbose(), request);
    shell.tell(&text);
    shell.say(&report::ignored(tally));
    if let Some(trouble) = &tally.trouble {
        shell.error(trouble)?;
    }
    Ok(())
}

/// The end of what an executable printed, as the cause of its trouble.
fn with_printed(error: Error, ended: &Ended) -> Error {
    match ended.printed.trim() {
        "" => error,
        printed => error.cause(format!("it printed:\n{printed}")),
    }
}
