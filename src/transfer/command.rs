//! The user's own training script instead of the harness's: started anew for incumbent and candidate in turn, told by a
//! variable which object to use, and read for its `METRIC` lines.

use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kopt_schema::candidate::Candidate;
use kopt_schema::exit::Exit;
use kopt_schema::manifest;
use kopt_schema::training::{LEAST_STEPS, Losses, Trainer, TrainingStep};
use kopt_stats::median;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::contestant::Trouble;
use super::figures::{self, WARM_UP};
use super::{Contest, Event, Outcome};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::{self, Group, Interrupts};

/// The object that the script is to use.
pub const OBJECT_VARIABLE: &str = "KOPT_OBJECT";
/// Its `candidate.json`: a script that uses the harness takes the kernel from there by itself.
pub const CANDIDATE_VARIABLE: &str = "KOPT_CANDIDATE";
/// A script that prints more than this is not read further.
const LONGEST: usize = 16 << 20;
const WHO: [&str; 2] = ["incumbent", "candidate"];

/// What one run of the script told.
#[derive(Debug, Clone, Default, PartialEq)]
struct Run {
    steps_s: Vec<f64>,
    losses: Vec<Option<f64>>,
}

impl Run {
    /// Reads the lines `METRIC step_ms=12.3` and `METRIC loss=4.56`; all others are the script's own.
    fn read(text: &str) -> std::result::Result<Self, String> {
        let mut run = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.trim().strip_prefix("METRIC ").and_then(|rest| rest.split_once('=')) else {
                continue;
            };
            let number = value.trim().parse::<f64>();
            match (name.trim(), number) {
                ("step_ms", Ok(number)) if number.is_finite() && number > 0.0 => run.steps_s.push(number / 1e3),
                ("loss", Ok(number)) => run.losses.push(Some(number).filter(|number| number.is_finite())),
                ("step_ms" | "loss", _) => return Err(format!("`{}` is no measurement", line.trim())),
                _ => {}
            }
        }
        let missing = |name: &str| format!("it printed no line `METRIC {name}=…`");
        match (run.steps_s.is_empty(), run.losses.is_empty()) {
            (true, _) => Err(missing("step_ms")),
            (_, true) => Err(missing("loss")),
            _ => Ok(run),
        }
    }

    /// Seconds of a step: the median, without the first steps where there are enough.
    fn step_s(&self) -> f64 {
        let settled = if self.steps_s.len() > 2 * WARM_UP { &self.steps_s[WARM_UP..] } else { &self.steps_s };
        median(settled)
    }
}

/// Runs the script for both versions, in alternating order, until enough is known.
pub(super) fn train(
    context: &Context,
    interrupts: &Interrupts,
    contest: &Contest<'_>,
    settings: &manifest::Script,
    hear: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    let start = Instant::now();
    let script = Script { context, interrupts, contest, settings };
    let (least, most) = (contest.terms.launches.0.max(3), contest.terms.launches.1.max(3));
    let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
    let mut gains = Vec::new();
    while gains.len() < most {
        // ABBA: a machine that gets slower or faster meanwhile does so for both.
        let order = if gains.len() % 2 == 0 { [0, 1] } else { [1, 0] };
        for who in order {
            match script.run(who) {
                Ok(run) => runs[who].push(run),
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::Lost(why)) if who == 1 => return Ok(Outcome::Lost(why)),
                Err(Trouble::Lost(why)) => return Err(script.wrong(&why)),
            }
        }
        let last = [0, 1].map(|who| runs[who].last().map_or(f64::NAN, Run::step_s));
        gains.push((last[0] / last[1]).ln());
        hear(Event::Launch { number: gains.len(), gain: gains[gains.len() - 1] });
        let gain = figures::estimate(&gains);
        let known = gain.high - gain.low <= 2.0 * contest.terms.half_width;
        if gains.len() >= least && (known || start.elapsed().as_secs_f64() > contest.terms.max_time_s) {
            break;
        }
    }
    let times = [0, 1].map(|who: usize| median(&runs[who].iter().map(Run::step_s).collect::<Vec<_>>()));
    let losses = losses(&runs, settings.loss_tolerance);
    Ok(Outcome::Taken(Box::new(TrainingStep {
        kernel: contest.kernel.member.name.clone(),
        op: contest.kernel.manifest.op.clone(),
        trainer: Trainer::Command { command: settings.command.clone() },
        seed: contest.seed.text().to_owned(),
        launches: gains.len(),
        steps: losses.incumbent.len(),
        incumbent_s: times[0],
        candidate_s: times[1],
        gain: figures::estimate(&gains),
        control: None,
        prediction: None,
        losses,
        seconds: start.elapsed().as_secs_f64(),
    })))
}

/// Losses of all runs against those of the incumbent's first. No noise can be put into a script, so that the manifest says
/// how far they may be apart; a script whose own losses vary by more from run to run is allowed as much again.
fn losses(runs: &[Vec<Run>; 2], tolerance: f64) -> Losses {
    let curve = |run: Option<&Run>| run.map(|run| run.losses.clone()).unwrap_or_default();
    let (incumbent, candidate) = (curve(runs[0].first()), curve(runs[1].first()));
    let repeatable = runs[0].iter().all(|run| run.losses == incumbent);
    let mut allowed = vec![tolerance; incumbent.len()];
    for run in &runs[0] {
        for ((allowed, first), again) in allowed.iter_mut().zip(&incumbent).zip(&run.losses) {
            if let (Some(first), Some(again)) = (first, again) {
                *allowed = allowed.max(2.0 * (first - again).abs() / first.abs().max(f64::MIN_POSITIVE));
            }
        }
    }
    let count = |run: &&Run| run.losses.len() != incumbent.len();
    let found = match runs.iter().flatten().find(count) {
        Some(run) => Some(format!("one run told {} losses and another {}", incumbent.len(), run.losses.len())),
        None => runs[1].iter().find_map(|run| figures::disagreement(&incumbent, &run.losses, &allowed)),
    };
    let few =
        if incumbent.len() < LEAST_STEPS { format!("; {LEAST_STEPS} steps would say more") } else { String::new() };
    let why = found.clone().unwrap_or_else(|| format!("within {tolerance:.1e} over {} steps{few}", incumbent.len()));
    Losses { agree: found.is_none(), why, incumbent, candidate, allowed, repeatable }
}

struct Script<'a> {
    context: &'a Context,
    interrupts: &'a Interrupts,
    contest: &'a Contest<'a>,
    settings: &'a manifest::Script,
}

impl Script<'_> {
    fn run(&self, who: usize) -> std::result::Result<Run, Trouble> {
        let file = if who == 0 { self.contest.incumbent } else { self.contest.candidate };
        let unreadable = |error: &dyn std::error::Error| Error::setup(format!("cannot read `{file}`")).because(error);
        let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
        let candidate: Candidate = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        let object = candidate.object.map(|object| file.with_file_name(object));
        let mut command = Command::new("sh");
        process::withhold(&mut command, self.context);
        command.args(["-c", &self.settings.command]).current_dir(&self.contest.kernel.member.folder);
        command.env(CANDIDATE_VARIABLE, file).env(OBJECT_VARIABLE, object.unwrap_or_default());
        let internal = |error: &dyn std::error::Error| Error::new(Exit::Internal, "cannot make a pipe").because(error);
        let (mut output, print) = std::io::pipe().map_err(|error| internal(&error))?;
        command.stdin(Stdio::null()).stdout(print).stderr(Stdio::inherit());
        let mut group = Group::start(command)?;
        let text = self.hear(&mut group, &mut output)?;
        let status = group.end()?;
        let run = match (status.code(), status.signal()) {
            (Some(0), _) => Run::read(&text),
            // What a shell says of a command that a signal ended.
            (Some(code @ 129..=192), _) => Err(format!("it died of signal {}", code - 128)),
            (Some(code), _) => Err(format!("it exited with {code}")),
            (_, signal) => Err(format!("it died of signal {}", signal.unwrap_or(0))),
        };
        run.map_err(|why| Trouble::Lost(format!("`{}` with the {}: {why}", self.settings.command, WHO[who])))
    }

    /// All that it prints until it ends; one that takes too long has lost.
    fn hear(&self, group: &mut Group, output: &mut PipeReader) -> std::result::Result<String, Trouble> {
        let limit = Duration::from_secs_f64(self.settings.timeout_s);
        let deadline = Instant::now() + limit;
        let mut text = Vec::new();
        let mut chunk = [0; 1 << 16];
        loop {
            if let Some(signal) = self.interrupts.signal() {
                let _ = group.end();
                Interrupts::obey(signal);
            }
            if Instant::now() >= deadline || text.len() > LONGEST {
                let _ = group.end();
                let why = if text.len() > LONGEST { "printed without an end" } else { "did not end in time" };
                let told = format!("`{}` {why} ({:.0} s)", self.settings.command, limit.as_secs_f64());
                return Err(Trouble::Lost(told));
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let ready = poll(&mut [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)], Some(&wait));
            if ready.is_ok_and(|ready| ready > 0) {
                match output.read(&mut chunk) {
                    Ok(read) if read > 0 => text.extend_from_slice(&chunk[..read]),
                    // Nobody can print any more: wait for the end, which may still take too long.
                    _ => process::pause(),
                }
            }
            if group.ended().map_err(Trouble::Error)?.is_some() {
                // What was printed last is still in the pipe; nobody holds its other end any more.
                let _ = output.read_to_end(&mut text);
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
        }
    }

    fn wrong(&self, why: &str) -> Error {
        Error::setup("the training script does not get through with the incumbent")
            .cause(why.to_owned())
            .hint(format!("it is started in the crate's folder with the object's path in {OBJECT_VARIABLE}, prints a line `METRIC step_ms=…` and a line `METRIC loss=…` for each step, and ends with 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_and_all_other_lines_left_alone() {
        let run =
            Run::read("epoch 1\nMETRIC step_ms=12.5\nMETRIC loss = 3.25\nMETRIC tokens=7\nMETRIC loss=nan\n").unwrap();
        assert_eq!(run, Run { steps_s: vec![0.0125], losses: vec![Some(3.25), None] });
    }

    #[test]
    fn what_is_missing_or_no_number_is_said() {
        assert_eq!(Run::read("METRIC loss=1\n").unwrap_err(), "it printed no line `METRIC step_ms=…`");
        assert_eq!(Run::read("METRIC step_ms=1\n").unwrap_err(), "it printed no line `METRIC loss=…`");
        for line in ["METRIC step_ms=fast", "METRIC step_ms=-1", "METRIC loss=", "METRIC step_ms=inf"] {
            assert_eq!(Run::read(line).unwrap_err(), format!("`{line}` is no measurement"));
        }
    }

    #[test]
    fn the_first_steps_are_left_out_where_there_are_enough() {
        let run = |steps_s: &[f64]| Run { steps_s: steps_s.to_vec(), losses: Vec::new() }.step_s();
        assert_eq!(run(&[9.0, 9.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(run(&[9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn losses_agree_within_the_tolerance_or_what_the_incumbent_itself_varies_by() {
        let run = |losses: &[f64]| Run { steps_s: vec![1.0], losses: losses.iter().copied().map(Some).collect() };
        let judge = |incumbent: &[&[f64]], candidate: &[f64]| {
            losses(&[incumbent.iter().map(|losses| run(losses)).collect(), vec![run(candidate)]], 1e-3)
        };
        assert!(judge(&[&[4.0, 3.0], &[4.0, 3.0]], &[4.0, 3.002]).agree);
        let far = judge(&[&[4.0, 3.0], &[4.0, 3.0]], &[4.0, 3.01]);
        assert!(!far.agree && far.why.contains("at step 2") && far.repeatable);
        assert!(judge(&[&[4.0, 3.0], &[4.0, 3.02]], &[4.0, 3.01]).agree);
        assert!(judge(&[&[4.0, 3.0]], &[4.0]).why.contains("told 2 losses and another 1"));
    }
}
