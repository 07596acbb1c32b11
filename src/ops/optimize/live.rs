//! What is told while a campaign goes on: a line when something is decided, a bar on a terminal in between, and every event
//! for programs.

use kopt_schema::campaign::event::{Accepted, Baseline, Event, RolledBack};
use kopt_schema::campaign::{Entry, Target};
use kopt_schema::evidence::Ruling;
use kopt_schema::message::{CampaignEvent, Message};

use crate::campaign::Audience;
use crate::error::Result;
use crate::ledger::State;
use crate::ops::compare::live::{name_of, words};
use crate::ops::compare::report;
use crate::records;
use crate::referee;
use crate::shell::{BAD, GOOD, Shell, TOLD, count, units};

/// Follows a campaign.
pub struct Live<'a> {
    shell: &'a mut Shell,
    /// What the bar says after everything else: accepted rounds, gain, what is left.
    so_far: String,
}

impl<'a> Live<'a> {
    pub fn new(shell: &'a mut Shell) -> Self {
        Self { shell, so_far: String::new() }
    }
}

impl Audience for Live<'_> {
    fn shell(&mut self) -> &mut Shell {
        self.shell.progress().finish();
        self.shell
    }

    fn event(&mut self, target: &Target, state: &State, entry: &Entry) -> Result<()> {
        self.shell.progress().finish();
        self.so_far = so_far(target, state);
        if let Some((word, style, line)) = line(target, state, &entry.event) {
            self.shell.status(&word, style, &line);
        }
        let campaign = target.campaign.clone();
        self.shell.message(&Message::Campaign(CampaignEvent { campaign, entry: entry.clone() }))
    }

    fn bout(&mut self, event: &referee::Event<'_>) -> Result<()> {
        let bar = self.shell.progress();
        match event {
            referee::Event::Opening => bar.at(0, "inputs and expected values"),
            referee::Event::MeasuringCeilings => bar.at(0, "what the device can do at most"),
            referee::Event::Checking => bar.at(0, "every trial of the candidate"),
            referee::Event::Opened(_)
            | referee::Event::Ceilings(_)
            | referee::Event::Checked(_)
            | referee::Event::Again(_) => {}
            referee::Event::Tracing(shape) => bar.at(0, &format!("{shape}: steps of training with fresh tensors")),
            referee::Event::Launched(progress) => {
                bar.length(progress.next_look.unwrap_or(progress.launches));
                let now = format!("{}: {}; {}", name_of(progress.stage), words(progress), self.so_far);
                bar.at(progress.launches, &now);
            }
        }
        Ok(())
    }

    fn doing(&mut self, words: &str) {
        self.shell.progress().start(words, None);
        self.shell.progress().at(0, &self.so_far);
    }
}

/// `2 accepted, +85.3 %, 1 h 52 min and 7.50 USD left`.
fn so_far(target: &Target, state: &State) -> String {
    let gain = state.chain_gain().map(|(gain, ..)| format!(", {:+.1} %", 100.0 * gain)).unwrap_or_default();
    let spent = state.spent().cost_usd.unwrap_or(0.0);
    let money = target.max_cost_usd.map(|most| format!(" and {:.2} USD", (most - spent).max(0.0))).unwrap_or_default();
    let time = units::duration((target.max_time_s - state.elapsed_s).max(0.0));
    format!("{} accepted{gain}, {time}{money} left", state.accepted().count())
}

/// A line for people, where the event is worth one.
fn line(target: &Target, state: &State, event: &Event) -> Option<(String, anstyle::Style, String)> {
    let told = |word: &str, text: String| Some((word.to_owned(), TOLD, text));
    match event {
        Event::Began(_) => {
            let branch =
                target.git_branch.as_ref().map_or_else(|| "no branch".to_owned(), |name| format!("branch {name}"));
            told("Campaign", format!("{} on {branch}", target.campaign))
        }
        Event::Resumed(resumed) => {
            let repaired = resumed.repaired.iter().map(|one| format!("; {one}")).collect::<String>();
            told("Resumed", format!("{}{repaired}", target.campaign))
        }
        Event::TipsRead(tips) => {
            told("Tips", format!("{} of the catalogue apply, {} of this repository", tips.entries.len(), tips.own))
        }
        Event::Baseline(baseline) => told("Baseline", of_baseline(baseline)),
        Event::Trained(trained) => told("Training", records::training_words(&trained.training)),
        Event::Proposed(proposed) => {
            let from = proposed.proposal.source.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            let again = match refused_before(state, proposed.attempt) {
                Some(reason) => format!(", attempt {} (the last one: {reason})", proposed.attempt),
                None => String::new(),
            };
            told(&format!("Round {}", proposed.round), format!("{}{from}{again}", proposed.proposal.title))
        }
        Event::Accepted(accepted) => Some(("ACCEPTED".to_owned(), GOOD, of_accepted(state, accepted))),
        Event::RolledBack(rolled_back) => Some(("ROLLED BACK".to_owned(), BAD, of_rollback(state, rolled_back))),
        Event::StopAsked(_) => told("Stopping", "as asked; the report follows".to_owned()),
        Event::Ended(ended) => told("Ended", ended.termination.name().to_owned()),
        _ => None,
    }
}

/// Why the attempt before this one went no further.
fn refused_before(state: &State, attempt: u32) -> Option<&'static str> {
    let attempts = &state.rounds.last()?.attempts;
    let before = attempts.iter().rev().find(|one| one.number < attempt)?;
    before.refused.as_ref().map(|refused| refused.reason.name())
}

fn of_baseline(baseline: &Baseline) -> String {
    let times: Vec<String> =
        baseline.shapes.iter().map(|time| format!("{} {}", time.shape, units::seconds(time.seconds))).collect();
    let noise = report::share(baseline.launch_sigma);
    format!("{} passed, noise {noise} a launch: {}", count(baseline.trials, "trial"), times.join(", "))
}

fn of_accepted(state: &State, accepted: &Accepted) -> String {
    let total = state.chain_gain().map(|(gain, ..)| format!("; {:+.1} % so far", 100.0 * gain)).unwrap_or_default();
    let how = if accepted.ruling == Ruling::AcceptedTradeOff { " (trade-off)" } else { "" };
    let commit = &accepted.commit[..accepted.commit.len().min(10)];
    format!("{}{how}, commit {commit}{total}", report::gain(&accepted.gain))
}

fn of_rollback(state: &State, rolled_back: &RolledBack) -> String {
    let round = state.rounds.iter().rev().find(|round| round.number == rolled_back.round);
    let measured = round.and_then(|round| round.verdict()).and_then(|measured| measured.aggregate);
    let gain = measured.map(|gain| format!(" [{}]", report::gain(&gain))).unwrap_or_default();
    let first = rolled_back.message.lines().next().unwrap_or_default();
    format!("{}: {first}{gain}", rolled_back.reason.name())
}
