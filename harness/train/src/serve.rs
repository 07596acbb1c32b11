//! The process that `cargo kopt` talks to: it obeys requests, one at a time, and decides nothing.
//!
//! Requests come on standard input, replies go to what was standard output at the start. That descriptor is kept under
//! another number before any kernel is loaded, and standard output then leads nowhere: what a kernel prints is lost.

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use kopt_schema::training::{TRAINING_VERSION, TrainingReply, TrainingRequest};
use kopt_schema::wire::Turn;

use crate::preset;
use crate::slots::Slots;
use crate::training::Training;

/// Bytes a parameter: itself, its gradient, and two moments.
const STATE_BYTES: usize = 16;

/// Serves until the requests end.
#[must_use]
pub fn serve() -> ExitCode {
    // Whoever started it may be killed; nobody would want the answers then.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let Some(mut replies) = take_output() else { return ExitCode::FAILURE };
    let mut state = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (turn, says) = match serde_json::from_str::<Turn<TrainingRequest>>(&line) {
            Ok(request) => (request.turn, obey(&mut state, request.says)),
            Err(error) => (0, Err(format!("not a request: {error}"))),
        };
        let says = says.unwrap_or_else(|message| TrainingReply::Failed { message });
        let Ok(mut text) = serde_json::to_string(&Turn { turn, says }) else { break };
        text.push('\n');
        if replies.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Standard output as a file of our own; nothing else writes there afterwards.
fn take_output() -> Option<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).ok()?;
    let nowhere = File::options().write(true).open("/dev/null").ok()?;
    rustix::stdio::dup2_stdout(&nowhere).ok()?;
    Some(File::from(own))
}

fn obey(state: &mut Option<Training>, request: TrainingRequest) -> Result<TrainingReply, String> {
    if let TrainingRequest::Load { version, preset, seed, slots, noise } = request {
        if version != TRAINING_VERSION {
            return Err(format!("protocol {version} is not {TRAINING_VERSION}"));
        }
        let sizes = preset::sizes(&preset)?;
        let slots = Slots::load(&slots, noise)?;
        let filled = slots.filled();
        let training = state.insert(Training::new(sizes, seed, slots));
        return Ok(TrainingReply::Loaded { parameters: training.parameters(), tokens: sizes.tokens(), filled });
    }
    let training = state.as_mut().ok_or("nothing is loaded")?;
    match request {
        TrainingRequest::Load { .. } => unreachable!("handled above"),
        TrainingRequest::Step { steps } => {
            let steps = (0..steps).map(|_| training.step()).collect::<Result<_, _>>()?;
            Ok(TrainingReply::Stepped { steps })
        }
        TrainingRequest::Benchmark { seconds } => {
            if !(seconds.is_finite() && (0.0..=10.0).contains(&seconds)) {
                return Err(format!("{seconds} is no time to repeat a call for"));
            }
            let rest = resident_bytes().unwrap_or(STATE_BYTES * training.parameters());
            // One more step shows the calls; what it learns does not matter any more.
            training.slots().keep_calls();
            training.step()?;
            Ok(TrainingReply::Benchmarked { calls: training.slots().benchmark(seconds, rest)? })
        }
    }
}

/// Bytes of memory that this process has: a step goes through about all of them.
fn resident_bytes() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse::<usize>().ok()?;
    pages.checked_mul(rustix::param::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_another_version_loads_nothing() {
        for version in [TRAINING_VERSION - 1, TRAINING_VERSION + 1] {
            let (preset, slots) = ("tiny".to_owned(), Vec::new());
            let mut state = None;
            let said = obey(&mut state, TrainingRequest::Load { version, preset, seed: 1, slots, noise: None });
            assert_eq!(said.unwrap_err(), format!("protocol {version} is not {TRAINING_VERSION}"));
            assert!(state.is_none());
        }
    }
}
