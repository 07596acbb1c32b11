//! `train-step`: two versions of a kernel, from git into a training step.

use camino::Utf8PathBuf;
use kopt_schema::exit::Exit;
use kopt_schema::message::Message;
use kopt_schema::training::{LEAST_SHARE, Prediction, Trainer, TrainingStep};

use super::compare::interface;
use super::compare::report::{gain, share};
use super::compare::sides::{Sides, Which};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::Interrupts;
use crate::referee::entrant;
use crate::referee::seeds::Master;
use crate::revision::Revisions;
use crate::shell::table::{Align, Table};
use crate::shell::{BAD, GOOD, MIND, Shell, TOLD, units};
use crate::transfer::{self, Contest, Event, Outcome, Terms};
use crate::workspace::Workspace;

/// What to train with.
#[derive(Debug, Clone)]
pub struct Request {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The kernel crate; the one the user stands in if none is named.
    pub package: Option<String>,
    /// A revision: the version that stands.
    pub base: String,
    /// A revision; the working tree if none is named.
    pub head: Option<String>,
    /// Sizes of the model, by name.
    pub preset: Option<String>,
    /// Seconds after which no further launch is begun.
    pub max_time_s: f64,
    /// The seed to repeat, instead of a secret one.
    pub seed: Option<Master>,
}

/// Runs two versions inside a training step.
///
/// # Errors
/// When a version cannot be found or compiled, or there is nothing to train with.
pub fn train_step(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let seed = request.seed.clone().map_or_else(Master::secret, Ok)?;
    let workspace = Workspace::find(context, request.manifest_path.as_deref())?;
    let own = workspace.target.join("kopt");
    let revisions = Revisions::around(&workspace.root, &own.join("revisions"))?;
    let which = Which {
        manifest_path: request.manifest_path.clone(),
        package: request.package.clone(),
        base: request.base.clone(),
        head: request.head.clone(),
    };
    let sides = Sides::find(context, shell, &workspace, &revisions, &which)?;
    interface::agree(&sides)?;
    shell.status("Training", GOOD, &sides.shown());
    let entrants = entrant::compile(&own.join("candidates"), &sides.versions())?;
    entrant::unconfined(&entrants).iter().for_each(|line| shell.warn(line));
    let [incumbent, candidate] = entrants.as_slice() else {
        return Err(Error::new(Exit::Internal, "two versions did not compile to two candidates"));
    };
    let contest = Contest {
        kernel: &sides.head.kernel,
        incumbent: &incumbent.file,
        candidate: &candidate.file,
        seed,
        terms: Terms { preset: request.preset.clone(), max_time_s: request.max_time_s, ..Terms::default() },
    };
    let (manner, interrupts) = (shell.manner(), Interrupts::watch()?);
    shell.progress().start("training", None);
    let outcome = transfer::training_step(context, manner, &interrupts, &workspace, &contest, &mut |event| {
        let Event::Launch { number, gain } = event;
        let told = format!("step gain {:+.2} % in the last launch", 100.0 * gain.exp_m1());
        shell.progress().at(number, &told);
    });
    shell.progress().finish();
    match outcome? {
        Outcome::Taken(step) => {
            show(shell, &step);
            let agree = step.losses.agree;
            shell.message(&Message::TrainingStep(step))?;
            Ok(if agree { Exit::Ok } else { Exit::Incorrect })
        }
        Outcome::Lost(why) => {
            let error = Error::new(Exit::Incorrect, format!("{}, in a training step, is wrong", sides.head.shown()));
            shell.error(&error.cause(why))?;
            Ok(Exit::Incorrect)
        }
    }
}

/// What a person reads.
fn show(shell: &mut Shell, step: &TrainingStep) {
    if let Some(prediction) = &step.prediction {
        shell.say(&table(prediction).render());
    }
    for (word, line) in lines(step) {
        shell.status(word, TOLD, &line);
    }
    let (style, word) = if step.losses.agree { (GOOD, "agree") } else { (BAD, "do NOT agree") };
    let text = format!("{style}Losses {word}{style:#}: {}\n", step.losses.why);
    if step.losses.agree {
        shell.say(&text)
    } else {
        shell.tell(&text)
    }
    if !step.losses.repeatable {
        let again = "the incumbent, run again, gives other losses: it does not compute the same twice";
        shell.say(&format!("{MIND}note{MIND:#}: {again}\n"));
    }
}

/// One row an entry and shape.
fn table(prediction: &Prediction) -> Table {
    let mut table = Table::new(&[
        ("call", Align::Left),
        ("shape", Align::Left),
        ("a step", Align::Right),
        ("share", Align::Right),
        ("repeated", Align::Right),
        ("in the step", Align::Right),
    ]);
    let signed = |gain: f64| format!("{:+.1} %", 100.0 * gain);
    for call in &prediction.calls {
        table.row([
            call.entry.clone(),
            call.shape.clone(),
            call.calls.to_string(),
            format!("{:.1} %", 100.0 * call.share),
            signed(call.benchmark_gain),
            signed(call.step_gain),
        ]);
    }
    table
}

fn lines(step: &TrainingStep) -> Vec<(&'static str, String)> {
    let model = match &step.trainer {
        Trainer::Model { preset, parameters, tokens } => {
            format!("language model `{preset}`: {parameters} parameters, {tokens} characters a step")
        }
        Trainer::Command { command } => format!("`{command}`"),
    };
    let confidence = share(step.gain.confidence);
    let (old, new) = (units::seconds(step.incumbent_s), units::seconds(step.candidate_s));
    let mut lines = vec![
        ("Model", model),
        ("Step", format!("{old} with the incumbent, {new} with the candidate")),
        (
            "Step gain",
            format!(
                "{} at {confidence}; {} launches in {}",
                gain(&step.gain),
                step.launches,
                units::duration(step.seconds)
            ),
        ),
    ];
    if let Some(prediction) = &step.prediction {
        let (op, whole) = (share(prediction.share), &prediction.predicted);
        let small = if prediction.share < LEAST_SHARE { ": too little to be seen in it" } else { "" };
        lines.push(("Share", format!("{} takes {op} of the incumbent's step{small}", step.op)));
        let met = if prediction.covered {
            "the measured interval meets it"
        } else {
            "the measured interval does NOT meet it"
        };
        let repeated = 100.0 * prediction.benchmark_gain;
        lines.push((
            "Predicted",
            format!("{} from the share and {repeated:+.1} % when calls are repeated: {met}", gain(whole)),
        ));
    }
    if let Some(control) = &step.control {
        lines.push(("Control", format!("{}, the incumbent against itself", gain(control))));
    }
    lines
}
