//! `try`: the edit in a campaign's worktree becomes the candidate of a round, and the answer is short. `wait`: the answer
//! to one that was sent to the background.

use std::process::{Command, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use kopt_schema::campaign::Proposal;
use kopt_schema::campaign::direction::{Bucket, Category};
use kopt_schema::evidence::Ruling;
use kopt_schema::exit::Exit;
use kopt_schema::message::{Message, Tried};

use super::campaigns::{Chosen, Which};
use super::compare::report;
use super::optimize::live::Live;
use crate::campaign::folder::{self, Folder, Home};
use crate::campaign::lock;
use crate::campaign::opening::{self, Surroundings};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ledger::{self, Outcome, Phase, State};
use crate::process::{self, Interrupts};
use crate::shell::{BAD, GOOD, MIND, Shell, TOLD};

/// What is tried.
#[derive(Debug, Clone)]
pub struct Request {
    /// In which campaign.
    pub which: Which,
    /// Why it should be faster.
    pub hypothesis: String,
    /// What changes; the hypothesis' first sentence if left out.
    pub title: Option<String>,
    /// The direction.
    pub category: Option<Category>,
    /// The claimed bucket.
    pub bucket: Option<Bucket>,
    /// What is different from a similar one.
    pub different: Option<String>,
    /// Answer at once, and go on in the background.
    pub detach: bool,
}

/// Tries the edit.
///
/// # Errors
/// When there is no campaign that waits, or something cannot be done. A rollback is no error.
pub fn attempt(context: &Context, shell: &mut Shell, request: &Request) -> Result<Exit> {
    let chosen = request.which.one(context, true)?;
    if chosen.state.phase() == Phase::Over {
        return Err(Error::new(Exit::Locked, format!("campaign {} is over", chosen.folder.name))
            .hint("`cargo kopt optimize --by-hand` begins another one"));
    }
    if request.detach {
        // The answer and the log of a try that runs are its own.
        let home = Home::of(&chosen.workspace.root);
        if let Some(holder) = lock::holder(&home, &chosen.target.kernel) {
            return Err(Error::new(Exit::Locked, format!("somebody works on `{}` already", chosen.target.kernel))
                .cause(holder.words)
                .hint("`cargo kopt wait` has the answer to a try that is under way"));
        }
        // One that was sent off a moment ago may not have come to its lock yet.
        let under_way = tried_in_background(&chosen.folder).is_some_and(is_trying);
        if under_way && !answer_of(&chosen.folder).exists() {
            return Err(Error::new(Exit::Locked, "something is being tried in the background already")
                .hint("`cargo kopt wait` has the answer to it"));
        }
        return detach(context, shell, request, &chosen);
    }
    let answer = answer_of(&chosen.folder);
    let interrupts = Interrupts::watch()?;
    let mut live = Live::new(shell);
    let workspace = &chosen.workspace;
    let around = Surroundings { context, interrupts: &interrupts, audience: &mut live, workspace };
    let name = chosen.folder.name.clone();
    let mut campaign = opening::resume(around, chosen.folder)?;
    // Not before the lock is held: until then the answer may be another's, who is still asked for it.
    let _ = std::fs::remove_file(&answer);
    campaign.take_by_hand(proposal(request))?;
    let tried = of_state(&name, campaign.state());
    let text = serde_json::to_vec_pretty(&tried)
        .map_err(|error| Error::new(Exit::Internal, "cannot write an answer as JSON").because(&error))?;
    // Whoever has the answer may try again at once; but what was decided stands, whatever becomes of a report.
    let over = (campaign.state().phase() == Phase::Report).then_some(campaign);
    folder::write(&answer, &text)?;
    if let Some(Err(error)) = over.map(|mut campaign| campaign.end_by_hand()) {
        shell.warn(&format!(
            "the campaign is over, but its report is not written: {error}; `cargo kopt resume` writes it"
        ));
    }
    tell(shell, tried)
}

/// Waits for the answer to a try that was sent to the background.
///
/// # Errors
/// When there is none, or it takes longer than `limit`.
pub fn wait(context: &Context, shell: &mut Shell, which: &Which, limit: Duration) -> Result<Exit> {
    let chosen = which.one(context, false)?;
    let begun = std::time::Instant::now();
    let answer = answer_of(&chosen.folder);
    loop {
        if let Ok(bytes) = std::fs::read(&answer) {
            let tried: Tried = serde_json::from_slice(&bytes)
                .map_err(|error| Error::setup(format!("`{answer}` is no answer")).because(&error))?;
            return tell(shell, tried);
        }
        let marker = marker_of(&chosen.folder);
        match tried_in_background(&chosen.folder) {
            None => {
                return Err(Error::setup(format!("nothing is being tried in campaign {}", chosen.folder.name))
                    .hint("`cargo kopt try --detach --hypothesis \"…\"` tries something in the background"));
            }
            Some(id) if !is_trying(id) && !answer.exists() => {
                let _ = std::fs::remove_file(&marker);
                let said = std::fs::read_to_string(chosen.folder.path.join("try.log")).unwrap_or_default();
                return Err(without_answer(&said));
            }
            Some(_) if begun.elapsed() > limit => {
                return Err(Error::new(Exit::Inconclusive, "no answer yet")
                    .hint("`cargo kopt wait` again; `cargo kopt status` shows where it is"));
            }
            Some(_) => process::pause(),
        }
    }
}

/// Why a try in the background has no answer: the error that it ended with, or else the last of what it said.
fn without_answer(said: &str) -> Error {
    let (mut error, mut exit, mut lines) = (None, None, Vec::new());
    for line in said.lines() {
        match serde_json::from_str(line) {
            Ok(Message::Error(failure)) => error = Some(failure),
            Ok(Message::Finished(last)) => exit = Exit::of_code(last.exit_code),
            Ok(_) => {}
            Err(_) => lines.push(line),
        }
    }
    if let (Some(failure), Some(exit)) = (error, exit) {
        let error = failure.causes.into_iter().fold(Error::new(exit, failure.message), Error::cause);
        return failure.hint.into_iter().fold(error, Error::hint);
    }
    let from = lines.len().saturating_sub(20);
    Error::new(Exit::Internal, "the try ended without an answer")
        .cause(lines[from..].join("\n"))
        .hint("`cargo kopt resume` finishes the round that it was in")
}

fn proposal(request: &Request) -> Proposal {
    // A sentence ends before a space: a number has a point in it.
    let ends =
        |at: &usize| request.hypothesis[*at..].starts_with([';', '\n']) || request.hypothesis[*at..].starts_with(". ");
    let end = request.hypothesis.char_indices().map(|(at, _)| at).find(ends).unwrap_or(request.hypothesis.len());
    let first = request.hypothesis[..end].trim().trim_end_matches('.');
    Proposal {
        title: request.title.clone().unwrap_or_else(|| first.chars().take(80).collect()),
        hypothesis: request.hypothesis.clone(),
        category: request.category,
        bucket: request.bucket,
        expected_gain: None,
        different: request.different.clone(),
        next: None,
        source: None,
    }
}

fn answer_of(folder: &Folder) -> Utf8PathBuf {
    folder.path.join("try.json")
}

fn marker_of(folder: &Folder) -> Utf8PathBuf {
    folder.path.join("try.process")
}

/// The process that was sent to the background last.
fn tried_in_background(folder: &Folder) -> Option<u32> {
    std::fs::read_to_string(marker_of(folder)).ok()?.trim().parse().ok()
}

/// Whether the process is a try, and not one that has its number now.
fn is_trying(id: u32) -> bool {
    let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"try")
}

/// The same command without `--detach`, on its own.
fn detach(context: &Context, shell: &mut Shell, request: &Request, chosen: &Chosen) -> Result<Exit> {
    let failed = |error: &std::io::Error| Error::setup("cannot start a try in the background").because(error);
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let _ = std::fs::remove_file(answer_of(&chosen.folder));
    let log = std::fs::File::create(chosen.folder.path.join("try.log")).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    process::withhold(&mut command, context);
    command.args(["kopt", "try", &chosen.folder.name]).arg(format!("--hypothesis={}", request.hypothesis));
    // By its messages `wait` knows what it failed of.
    command.args(["--message-format", "json", "--manifest-path"]).arg(chosen.workspace.root.join("Cargo.toml"));
    let more = [
        ("--title", request.title.clone()),
        ("--category", request.category.map(|one| one.name().to_owned())),
        ("--bucket", request.bucket.map(|one| one.name().to_owned())),
        ("--different", request.different.clone()),
    ];
    for (flag, value) in more.into_iter().filter_map(|(flag, value)| Some((flag, value?))) {
        command.arg(format!("{flag}={value}"));
    }
    let twin = log.try_clone().map_err(|error| failed(&error))?;
    command.stdin(Stdio::null()).stdout(log).stderr(twin);
    // A group of its own: Ctrl-C at the terminal is not meant for it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().map_err(|error| failed(&error))?;
    folder::write(&marker_of(&chosen.folder), child.id().to_string().as_bytes())?;
    shell.status(
        "Trying",
        TOLD,
        &format!("in the background; `cargo kopt wait {}` has the answer", chosen.folder.name),
    );
    Ok(Exit::Ok)
}

/// What came of the last attempt.
fn of_state(campaign: &str, state: &State) -> Tried {
    let round = state.rounds.last();
    let attempt = round.and_then(|round| round.attempts.last());
    let measured = attempt.and_then(|attempt| attempt.measured.last());
    let gain = measured.and_then(|measured| measured.aggregate);
    let (outcome, why, message, commit) = match round.and_then(|round| round.outcome.as_ref()) {
        Some(Outcome::Accepted(accepted)) => {
            let reasons = measured.map(|measured| measured.reasons.join("; ")).unwrap_or_default();
            ("accepted", None, reasons, Some(accepted.commit.clone()))
        }
        Some(Outcome::RolledBack(rolled_back)) => {
            ("rolled-back", Some(rolled_back.reason), rolled_back.message.clone(), None)
        }
        None => {
            let refused = attempt.and_then(|attempt| attempt.refused.as_ref());
            let message = refused.map(|refused| refused.message.clone()).unwrap_or_default();
            ("refused", refused.map(|refused| refused.reason), message, None)
        }
    };
    Tried {
        campaign: campaign.to_owned(),
        round: round.map_or(1, |round| round.number),
        attempt: attempt.map_or(0, |attempt| attempt.number),
        outcome: outcome.to_owned(),
        why,
        ruling: measured.map(|measured| measured.ruling),
        message,
        gain,
        commit,
        next: next(state),
    }
}

/// What the rules say to try next.
fn next(state: &State) -> Vec<String> {
    if let Some(ended) = &state.ended {
        let why = ended.termination.name();
        return vec![format!("the campaign is over ({why}): `cargo kopt report` shows what came of it")];
    }
    let rung = ledger::ladder(state.rollbacks_in_a_row());
    let mut next = vec![rung.words().to_owned()];
    let directions = ledger::directions(state);
    let untried: Vec<&str> =
        directions.iter().filter(|direction| direction.untried).map(|direction| direction.category.name()).collect();
    if !untried.is_empty() {
        next.push(format!("untried directions: {}", untried.join("; ")));
    }
    next
}

fn tell(shell: &mut Shell, tried: Tried) -> Result<Exit> {
    use kopt_schema::campaign::event::Reason;
    let gain = tried.gain.map(|gain| format!(" {}", report::gain(&gain))).unwrap_or_default();
    let (style, exit) = match (tried.outcome.as_str(), tried.why) {
        ("accepted", _) => (GOOD, Exit::Ok),
        (_, Some(Reason::Build)) => (BAD, Exit::BuildFailed),
        (_, Some(Reason::Incorrect)) => (BAD, Exit::Incorrect),
        (_, Some(Reason::Integrity)) => (BAD, Exit::Integrity),
        // Memory of past calls is one, though its rounds are told apart.
        (_, Some(Reason::Overfit)) if tried.ruling == Some(Ruling::IntegrityViolation) => (BAD, Exit::Integrity),
        (_, Some(Reason::Noise | Reason::Contaminated)) => (MIND, Exit::Inconclusive),
        _ => (BAD, Exit::Regressed),
    };
    shell.status(&tried.outcome.to_uppercase(), style, &format!("round {}:{gain} {}", tried.round, tried.message));
    for line in &tried.next {
        shell.status("Next", TOLD, line);
    }
    shell.message(&Message::Tried(tried))?;
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_that_failed_in_the_background_fails_of_the_same() {
        let said = "    Judging round 2\n\
                    {\"reason\":\"error\",\"message\":\"no room\",\"causes\":[\"the disk is full\"],\"hint\":\"make some\"}\n\
                    {\"reason\":\"finished\",\"exit_code\":110,\"meaning\":\"cannot write output\"}\n";
        let error = without_answer(said);
        assert_eq!(error.exit(), Exit::Output);
        let failure = error.failure();
        assert_eq!(
            (&*failure.message, failure.causes, failure.hint.as_deref()),
            ("no room", vec!["the disk is full".to_owned()], Some("make some"))
        );
    }

    #[test]
    fn of_one_that_was_killed_the_last_words_are_told() {
        let error =
            without_answer("{\"reason\":\"started\",\"format\":1,\"command\":\"try\",\"version\":\"0\"}\nJudging\n");
        assert_eq!(error.exit(), Exit::Internal);
        assert_eq!(error.failure().causes, ["Judging"]);
    }
}
