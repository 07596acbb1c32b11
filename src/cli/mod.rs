//! The command line: one file a command, each its arguments, its help text and one call into `ops`. What is common to
//! all of them is here: global flags, the frame of JSON messages, errors and exit codes.

mod attempt;
mod audit;
mod bench;
mod bindings;
mod campaigns;
mod certify;
mod check;
mod compare;
mod completions;
mod doctor;
mod forget;
mod gate;
mod list;
mod new;
mod optimize;
mod quantity;
mod report;
mod resume;
mod schema;
mod selection;
mod status;
mod stop;
mod train_step;
mod verdict;
mod verify;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum as _};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::exit::Exit;
use kopt_schema::message::{Finished, Message, Started};

use crate::context::{self, Context};
use crate::error::{Error, Result};
use crate::shell::{Color, Format, Manner, Shell, Verbosity};

/// Make kernels faster, and know it
///
/// Kernels are crates: correctness is `cargo test`, latency is `cargo bench`. These commands make such crates, check, time
/// and compare them, run campaigns that make them faster, and keep slower ones out.
#[derive(Debug, Parser)]
#[command(name = "cargo kopt", bin_name = "cargo kopt", version, max_term_width = 120, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Who reads stdout: with `json`, one message a line, each with a `reason`, and all text for people on stderr
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    message_format: Format,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    /// Say more: every failure in full, criterion's own text
    #[arg(short, long, global = true, action = ArgAction::SetTrue, conflicts_with = "quiet")]
    verbose: bool,
    /// Say less: failures and errors only
    #[arg(short, long, global = true, action = ArgAction::SetTrue)]
    quiet: bool,
    /// The GPU to work on, by its number on the bus or by its UUID, where there are several
    #[arg(long, global = true, value_name = "DEVICE", value_parser = context::device::parse)]
    device: Option<String>,
    /// The Cargo.toml of the package or workspace that is meant
    #[arg(long, global = true, value_name = "PATH")]
    manifest_path: Option<Utf8PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Args),
    Doctor(doctor::Args),
    List(list::Args),
    Check(check::Args),
    Certify(certify::Args),
    Audit(audit::Args),
    Bench(bench::Args),
    Compare(compare::Args),
    TrainStep(train_step::Args),
    Verdict(verdict::Args),
    Gate(gate::Args),
    Optimize(optimize::Args),
    Try(attempt::Args),
    Wait(attempt::WaitArgs),
    Status(status::Args),
    Resume(resume::Args),
    Stop(stop::Args),
    Report(report::Args),
    Verify(verify::Args),
    Forget(forget::Args),
    Schema(schema::Args),
    Bindings(bindings::Args),
    Completions(completions::Args),
}

impl Command {
    const fn name(&self) -> &'static str {
        match self {
            Self::New(_) => "new",
            Self::Doctor(_) => "doctor",
            Self::List(_) => "list",
            Self::Check(_) => "check",
            Self::Certify(_) => "certify",
            Self::Audit(_) => "audit",
            Self::Bench(_) => "bench",
            Self::Compare(_) => "compare",
            Self::TrainStep(_) => "train-step",
            Self::Verdict(_) => "verdict",
            Self::Gate(_) => "gate",
            Self::Optimize(_) => "optimize",
            Self::Try(_) => "try",
            Self::Wait(_) => "wait",
            Self::Status(_) => "status",
            Self::Resume(_) => "resume",
            Self::Stop(_) => "stop",
            Self::Report(_) => "report",
            Self::Verify(_) => "verify",
            Self::Forget(_) => "forget",
            Self::Schema(_) => "schema",
            Self::Bindings(_) => "bindings",
            Self::Completions(_) => "completions",
        }
    }

    /// A schema or a script is the only thing on stdout: no frame of messages around it.
    const fn is_document(&self) -> bool {
        matches!(self, Self::Schema(_) | Self::Completions(_))
    }

    fn run(self, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let context = &Context::of_process()?;
        match self {
            Self::New(_) if manifest_path.is_some() => {
                Err(Error::new(Exit::Usage, "`new` makes a manifest, and takes none").hint("--path says where"))
            }
            Self::New(args) => args.run(context, shell),
            Self::Doctor(args) => args.run(context, shell, manifest_path),
            Self::List(args) => args.run(context, shell, manifest_path),
            Self::Check(args) => args.run(context, shell, manifest_path),
            Self::Certify(args) => args.run(context, shell, manifest_path),
            Self::Audit(args) => args.run(context, shell, manifest_path),
            Self::Bench(args) => args.run(context, shell, manifest_path),
            Self::Compare(args) => args.run(context, shell, manifest_path),
            Self::Gate(args) => args.run(context, shell, manifest_path),
            Self::TrainStep(args) => args.run(context, shell, manifest_path),
            Self::Verdict(args) => args.run(context, shell),
            Self::Optimize(args) => args.run(context, shell, manifest_path),
            Self::Try(args) => args.run(context, shell, manifest_path),
            Self::Wait(args) => args.run(context, shell, manifest_path),
            Self::Status(args) => args.run(context, shell, manifest_path),
            Self::Resume(args) => args.run(context, shell, manifest_path),
            Self::Stop(args) => args.run(context, shell, manifest_path),
            Self::Report(args) => args.run(context, shell, manifest_path),
            Self::Verify(args) => args.run(context, shell, manifest_path),
            Self::Forget(args) => args.run(context, shell, manifest_path),
            Self::Schema(args) => args.run(shell),
            Self::Bindings(args) => args.run(context, shell, manifest_path),
            Self::Completions(args) => args.run(shell),
        }
    }
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::iter::once("cargo-kopt".into()).chain(context::arguments()).collect();
    let manner = wanted(&arguments);
    let exit = match command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => run(cli),
        Err(told) => explain(manner, &told),
    };
    ExitCode::from(exit.code())
}

/// The command line with the exit codes in its help.
fn command() -> clap::Command {
    let codes: String = Exit::ALL.iter().map(|(exit, meaning)| format!("  {:>3}  {meaning}\n", exit.code())).collect();
    let examples = "Examples:\n  cargo kopt new softmax && cd softmax   make a kernel crate\n  cargo kopt doctor                      can this machine judge it?\n  cargo kopt check                       is it right?\n  cargo kopt bench                       how fast is it?\n  cargo kopt compare                     is it faster than what was committed?\n  cargo kopt optimize --agent claude     make it faster, round by round\n  cargo kopt gate                        does this branch make any kernel slower or wrong?\n";
    Cli::command().after_long_help(format!("{examples}\nExit codes:\n{codes}"))
}

/// How a command line that cannot be read wants to be answered.
fn wanted(arguments: &[OsString]) -> Manner {
    let value = |flag: &str| {
        let mut words = arguments.iter().filter_map(|word| word.to_str());
        words.clone().find_map(|word| word.strip_prefix(flag)?.strip_prefix('=')).or_else(|| {
            words.find(|word| *word == flag)?;
            words.next()
        })
    };
    let chosen = |flag| value(flag).and_then(|word| Color::from_str(word, false).ok());
    let format = value("--message-format").and_then(|word| Format::from_str(word, false).ok());
    Manner { color: chosen("--color").unwrap_or_default(), format: format.unwrap_or_default(), ..Manner::default() }
}

/// Help, version or a mistake on the command line, as clap words it.
fn explain(manner: Manner, told: &clap::Error) -> Exit {
    let mut shell = Shell::of_process(manner);
    let text = told.render();
    if told.use_stderr() {
        if manner.format == Format::Json {
            let words = text.to_string();
            let words = words.trim().trim_start_matches("error: ");
            let started = started(String::new());
            return framed(&mut shell, &started, |_| Err(Error::new(Exit::Usage, words)));
        }
        shell.tell(&text.ansi().to_string());
        return Exit::Usage;
    }
    // Asked for, so it goes to stdout, where a pager can take it.
    match shell.document(&text.to_string()) {
        Ok(()) => Exit::Ok,
        Err(error) => error.exit(),
    }
}

fn run(cli: Cli) -> Exit {
    let global = cli.global;
    let verbosity = match (global.quiet, global.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let format = if cli.command.is_document() { Format::Human } else { global.message_format };
    let mut shell = Shell::of_process(Manner { format, verbosity, color: global.color });
    let started = started(cli.command.name().to_owned());
    let device = global.device.as_deref().map_or(Ok(()), context::device::only);
    framed(&mut shell, &started, |shell| device.and_then(|()| cli.command.run(shell, global.manifest_path)))
}

fn started(command: String) -> Started {
    Started { format: FORMAT_VERSION, command, version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Does `work` between the first and the last message, and turns whatever comes of it into an exit code.
fn framed(shell: &mut Shell, started: &Started, work: impl FnOnce(&mut Shell) -> Result<Exit>) -> Exit {
    // A report is one JSON document: lines around it would make it none.
    let lines = started.command != "report";
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if lines {
            shell.message(&Message::Started(started.clone()))?;
        }
        work(shell)
    }));
    shell.progress().finish();
    let outcome = outcome.unwrap_or_else(|_| {
        // The panic itself has been printed by Rust; its code, 101, would read as a failed build.
        Err(Error::new(Exit::Internal, "internal error")
            .hint("this is a bug of cargo kopt; please report it with the text above"))
    });
    let exit = match outcome {
        Ok(exit) => exit,
        Err(error) => {
            let reported = shell.error(&error);
            reported.err().map_or(error.exit(), |worse| worse.exit())
        }
    };
    let last = Finished { exit_code: exit.code(), meaning: exit.meaning().to_owned() };
    match if lines { shell.message(&Message::Finished(last)) } else { Ok(()) } {
        Ok(()) => exit,
        Err(error) => error.exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(work: impl FnOnce(&mut Shell) -> Result<Exit>) -> Exit {
        let started = Started { format: 1, command: "test".to_owned(), version: "0".to_owned() };
        framed(&mut Shell::of_process(Manner::default()), &started, work)
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_panic_is_an_internal_error_and_not_a_failed_build() {
        assert_eq!(outcome(|_| panic!("on purpose")), Exit::Internal);
    }

    #[test]
    fn an_error_ends_with_its_own_code_and_a_verdict_with_its() {
        assert_eq!(outcome(|_| Err(Error::setup("no"))), Exit::Setup);
        assert_eq!(outcome(|_| Ok(Exit::Incorrect)), Exit::Incorrect);
    }
}
