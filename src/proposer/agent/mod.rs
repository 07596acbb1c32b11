//! An agent: a command that reads a prompt and edits files. It is trusted with the user's account as any program is that
//! the user names, and with nothing else: it works in the campaign's worktree, has so much time and no more, and whatever
//! it started is ended with it.
//!
//! The round's folder gets `agent-<attempt>.stdout` and `.stderr`, what it printed, up to a bound.

mod presets;
mod run;
mod strays;
mod template;
mod usage;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use kopt_schema::campaign::event::Reason;
use kopt_schema::campaign::target::Source;
use kopt_schema::exit::Exit;

use super::answer::{self, PROPOSAL};
use super::brief::PROMPT;
use super::{Answer, Brief, Outcome, Proposer};
use crate::context::{self, Context};
use crate::error::{Error, Result};
use crate::process::{self, Interrupts};
use run::{End, Ended};
use template::{Place, Template};

/// Variables of cargo's and of ours tell an agent's own calls of cargo something that is not so there.
const KEPT_BACK: [&str; 2] = ["CARGO_", "KOPT_"];
/// Of what it printed, shown where it failed.
const LAST_LINES: usize = 20;

/// What an agent may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one answer. A campaign that has less time left gives less.
    pub time: Duration,
    /// Bytes of each of its outputs that are kept; of the rest only the end is heard.
    pub output: usize,
}

impl Limits {
    /// So many seconds, and 16 MiB of output.
    #[must_use]
    pub fn seconds(seconds: f64) -> Self {
        Self { time: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX), output: 16 << 20 }
    }

    /// What is left of the time where the campaign has `left_s` seconds.
    fn within(&self, left_s: f64) -> Duration {
        Duration::try_from_secs_f64(left_s.max(0.0)).map_or(self.time, |left| left.min(self.time))
    }
}

/// A command that is asked for changes.
#[derive(Debug)]
pub struct Agent {
    command: String,
    template: Template,
    limits: Limits,
}

impl Agent {
    /// An agent by a preset's name or a template.
    ///
    /// Placeholders of a template: `{prompt_file}`, `{worktree}`, `{crate}`, `{round_dir}`, `{round}`, `{attempt}`,
    /// `{time_s}`. Without `{prompt_file}` the prompt is the standard input.
    ///
    /// # Errors
    /// When the template cannot be read.
    pub fn new(command: &str, limits: Limits) -> Result<Self> {
        let line = presets::named(command.trim()).map_or(command, |preset| preset.template);
        Ok(Self { command: command.to_owned(), template: Template::parse(line)?, limits })
    }

    /// Looks the program up, so that a typo fails before a campaign has begun.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn check(&self, context: &Context) -> Result<()> {
        self.program(context).map(drop)
    }

    fn program(&self, context: &Context) -> Result<Utf8PathBuf> {
        let name = self.template.program();
        context::program(context, name).ok_or_else(|| {
            let names = presets::PRESETS.map(|preset| preset.name);
            let hint = match kopt_schema::nearest(name, names) {
                Some(near) if near == name => "install it, or give its path in a template".to_owned(),
                Some(near) => format!("did you mean the preset `{near}`?"),
                None if name.contains('/') => "it must be a file that may be run".to_owned(),
                None => format!("give its path, or one of the presets: {}", names.join(", ")),
            };
            Error::setup(format!("there is no program `{name}` to ask for changes")).hint(hint)
        })
    }

    fn command(
        &self,
        context: &Context,
        brief: &Brief<'_>,
        round_folder: &Utf8PathBuf,
        limit: Duration,
    ) -> Result<Command> {
        let prompt = round_folder.join(PROMPT);
        let mut command = Command::new(self.program(context)?);
        process::withhold(&mut command, context);
        for name in context::variables(&KEPT_BACK) {
            command.env_remove(name);
        }
        command
            .args(self.template.filled(|place| match place {
                Place::PromptFile => prompt.to_string(),
                Place::Worktree => context.absolute(brief.workspace).into_string(),
                Place::Crate => context.absolute(brief.crate_folder).into_string(),
                Place::RoundDir => round_folder.to_string(),
                Place::Round => brief.round.to_string(),
                Place::Attempt => brief.attempt.to_string(),
                Place::TimeS => limit.as_secs().to_string(),
            }))
            .current_dir(brief.crate_folder)
            .env("TERM", "dumb")
            .env("KOPT_CAMPAIGN", &brief.target.campaign)
            .env("KOPT_ROUND", brief.round.to_string())
            .env(strays::MARK, round_folder);
        match self.template.names_prompt() {
            true => command.stdin(Stdio::null()),
            // A file and not a pipe: one that does not read it holds nobody up.
            false => command.stdin(
                File::open(&prompt)
                    .map_err(|error| Error::new(Exit::Output, format!("cannot read `{prompt}`")).because(&error))?,
            ),
        };
        Ok(command)
    }
}

impl Proposer for Agent {
    fn name(&self) -> String {
        Source::Agent { command: self.command.clone() }.name()
    }

    fn propose(&mut self, context: &Context, interrupts: &Interrupts, brief: &Brief<'_>) -> Result<Answer> {
        let round_folder = context.absolute(brief.round_folder);
        let limit = self.limits.within(brief.dossier.time_left_s);
        brief.write(limit.as_secs_f64())?;
        // What an earlier attempt said is not said of this one.
        if let Err(error) = fs::remove_file(round_folder.join(PROPOSAL))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let path = round_folder.join(PROPOSAL);
            return Err(Error::new(Exit::Output, format!("cannot remove `{path}`")).because(&error));
        }
        let command = self.command(context, brief, &round_folder, limit)?;
        let log = round_folder.join(format!("agent-{}", brief.attempt));
        let job = run::Job { command, log: &log, mark: round_folder.as_str(), limit, output: self.limits.output };
        let ended = run::run(job, interrupts)?;
        let heard = usage::hear(&ended.stdout);
        let (outcome, notes) = match self.trouble(&ended, limit) {
            Some(message) => (Outcome::Failed { reason: Reason::Proposer, message }, Vec::new()),
            None => match answer::read(&round_folder, heard.words.as_deref()) {
                Ok(said) => (Outcome::Change(said.proposal), said.notes),
                Err(message) => (Outcome::Failed { reason: Reason::Proposer, message }, Vec::new()),
            },
        };
        let notes = notes.into_iter().chain(ended.notes).collect();
        Ok(Answer { outcome, usage: heard.usage, seconds: ended.seconds, source: None, said: None, notes })
    }
}

impl Agent {
    /// How it failed, in words; nothing where it ended well.
    fn trouble(&self, ended: &Ended, limit: Duration) -> Option<String> {
        use std::os::unix::process::ExitStatusExt as _;
        let how = match &ended.end {
            End::OutOfTime => format!("no answer within {} s", limit.as_secs_f64()),
            End::Exited(status) if status.success() => return None,
            End::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("`{}` exited with {code}", self.template.program()),
                (None, Some(signal)) => format!("`{}` died of signal {signal}", self.template.program()),
                (None, None) => format!("`{}` ended with {status}", self.template.program()),
            },
        };
        let printed = if ended.stderr.trim().is_empty() { &ended.stdout } else { &ended.stderr };
        let last = last_lines(printed);
        Some(if last.is_empty() { how } else { format!("{how}\n{last}") })
    }
}

/// The last lines of a text, each of a length that can be read.
fn last_lines(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| answer::cleaned(line, 400)).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests;
