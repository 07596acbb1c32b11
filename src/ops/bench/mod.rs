//! `bench`: builds the latency executables, runs them, and shows times, rates and shares of the roofline.

mod report;

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;
use kopt_schema::message::{Ceilings, Latency, Message, Outcome, Summary, Trial};

use super::Target;
use crate::build::{self, Role};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::runner::{Ended, Heard, Job, Runner};
use crate::shell::{GOOD, MIND, Shell, count, units};

/// What to measure, and how.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Which kernels.
    pub target: Target,
    /// Only cases whose names contain one of these.
    pub filters: Vec<String>,
    /// Fewer samples: enough to see a number, not to compare two.
    pub quick: bool,
}

/// What one executable reported.
#[derive(Debug, Default)]
struct Measured {
    planned: Option<usize>,
    latencies: Vec<Latency>,
    ceilings: Option<Ceilings>,
    /// Cases that cannot be measured here, with the reason.
    ignored: Vec<Trial>,
}

impl Measured {
    fn hear(&mut self, message: &Message) {
        match message {
            Message::Plan(plan) => self.planned = Some(self.planned.unwrap_or(0) + plan.trials),
            Message::Latency(latency) => self.latencies.push(latency.clone()),
            Message::Ceilings(ceilings) => self.ceilings = Some(ceilings.clone()),
            Message::Trial(trial) if trial.outcome == Outcome::Ignored => self.ignored.push(trial.clone()),
            _ => {}
        }
    }

    fn reported(&self) -> usize {
        self.latencies.len() + self.ignored.len()
    }

    /// What is wrong with the executable itself: a case without a number is no measurement.
    /// A filter leaves cases out after they are planned, so that only without one their number must be right.
    fn trouble(&self, kernel: &str, filtered: bool, ended: &Ended) -> Option<Error> {
        let how = ended.trouble();
        let reported = self.reported();
        let wrong = match (self.planned, &how) {
            (None, None) => "reported nothing".to_owned(),
            (Some(planned), None) if planned > reported && !filtered => {
                format!("measured {reported} of {planned} cases")
            }
            (_, None) if ended.garbled.is_some() => "reported something that is no message".to_owned(),
            (_, None) => return None,
            (Some(planned), Some(how)) => format!("{how} after {reported} of {planned} cases"),
            (None, Some(how)) => how.clone(),
        };
        let mut error = Error::setup(format!("{kernel}: the bench executable {wrong}"));
        if let Some(garbled) = &ended.garbled {
            error = error.cause(format!("in its messages: {garbled}"));
        }
        if !ended.printed.trim().is_empty() {
            error = error.cause(format!("it printed:\n{}", ended.printed.trim()));
        }
        Some(error.hint(format!("`cargo bench -p {kernel} --bench latency` runs it without cargo kopt")))
    }
}

/// Measures the selected kernels.
///
/// # Errors
/// When they cannot be found, built or run.
pub fn bench(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let (workspace, kernels) = request.target.kernels(context, shell)?;
    let executables = build::executables(context, shell.manner(), &workspace, &kernels, Role::Latency)?;
    let reports = context.criterion_home.clone().unwrap_or_else(|| workspace.target.join("criterion"));
    let runner = Runner::new(context)?;
    let (mut measured, mut ignored, mut broken) = (0, 0, false);
    for (kernel, executable) in kernels.iter().zip(&executables) {
        let job = Job {
            kernel,
            executable,
            arguments: arguments(&request.filters),
            environment: environment(request, &reports),
        };
        let (result, ended) = run(shell, &runner, &job)?;
        measured += result.latencies.len();
        ignored += result.ignored.len();
        tell(shell, &job, &result, &ended)?;
        if let Some(trouble) = result.trouble(&kernel.member.name, !request.filters.is_empty(), &ended) {
            shell.error(&trouble)?;
            broken = true;
        }
    }
    match (broken, measured, ignored) {
        (true, ..) => Ok(Exit::Setup),
        (_, 0, 0) => Err(Error::new(Exit::NoKernel, format!("no case matches `{}`", request.filters.join("`, `")))
            .hint("a filter is a part of a case's name: of the kernel, the entry, the shape, or `hot` and `cold`")),
        (_, 0, _) => {
            shell.say(&format!("{MIND}nothing measured{MIND:#}: no case can be run here\n"));
            Ok(Exit::NoDevice)
        }
        _ => {
            let page = reports.join("report/index.html");
            let shown = if page.exists() { &page } else { &reports };
            shell.status("Reports", GOOD, &format!("of criterion in {}", context.shown(shown)));
            Ok(Exit::Ok)
        }
    }
}

fn run(shell: &mut Shell, runner: &Runner<'_>, job: &Job<'_>) -> Result<(Measured, Ended)> {
    let mut measured = Measured::default();
    shell.progress().start(&job.kernel.member.name, None);
    let ended = runner.run(job, &mut |heard| {
        match heard {
            Heard::Message(message) => {
                measured.hear(&message);
                if let Some(planned) = measured.planned {
                    shell.progress().length(planned);
                }
                let now =
                    measured.latencies.last().map_or(String::new(), |last| format!("{} {}", last.entry, last.case));
                shell.progress().at(measured.reported(), &now);
                if !matches!(*message, Message::Summary(_)) {
                    shell.message(&message)?;
                }
            }
            Heard::Printed(text) if shell.verbose() => shell.tell(&text),
            Heard::Printed(_) => {}
        }
        Ok(())
    });
    shell.progress().finish();
    ended.map(|ended| (measured, ended))
}

fn tell(shell: &mut Shell, job: &Job<'_>, measured: &Measured, ended: &Ended) -> Result<()> {
    let kernel = &job.kernel.member.name;
    shell.message(&Message::Summary(Summary {
        kernel: kernel.clone(),
        passed: measured.latencies.len(),
        failed: measured.planned.unwrap_or(0).saturating_sub(measured.reported()),
        ignored: measured.ignored.len(),
        filtered: 0,
    }))?;
    let (cases, time) = (count(measured.latencies.len(), "case"), units::seconds(ended.seconds));
    let flags = job.kernel.flags_shown();
    match measured.ignored.first() {
        Some(first) => {
            let reason = first.detail.as_deref().unwrap_or("no reason given");
            shell.status("Ignored", MIND, &format!("{kernel}: {reason}"));
        }
        None => shell.status("Measured", GOOD, &format!("{kernel}: {cases} in {time}{flags}")),
    }
    if !measured.latencies.is_empty() {
        shell.say(&report::table(&measured.latencies).render());
    }
    if let Some(ceilings) = &measured.ceilings {
        shell.status("Ceilings", GOOD, &report::ceilings(ceilings));
    }
    Ok(())
}

/// Criterion takes one filter, a regular expression; ours are several, and plain text.
fn arguments(filters: &[String]) -> Vec<String> {
    let plain = |filter: &String| -> String {
        let escaped =
            |letter: char| match letter.is_ascii_alphanumeric() || "_-/ ".contains(letter) || !letter.is_ascii() {
                true => letter.to_string(),
                false => format!("\\{letter}"),
            };
        filter.chars().map(escaped).collect()
    };
    let mut arguments = vec!["--bench".to_owned()];
    if !filters.is_empty() {
        arguments.push(filters.iter().map(plain).collect::<Vec<_>>().join("|"));
    }
    arguments
}

fn environment(request: &Request, reports: &Utf8PathBuf) -> Vec<(&'static str, String)> {
    let mut environment = vec![("CRITERION_HOME", reports.to_string())];
    environment.extend(request.quick.then(|| ("KOPT_BENCH", "quick".to_owned())));
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_one_expression_that_means_the_same() {
        assert_eq!(arguments(&[]), ["--bench"]);
        let filters = ["64x1.25".to_owned(), "hot/step".to_owned()];
        assert_eq!(arguments(&filters), ["--bench", r"64x1\.25|hot/step"]);
    }
}
