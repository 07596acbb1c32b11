//! What an executable reported, counted, and what follows from it. An executable that dies, or reports fewer trials
//! than it planned, has failed: the absence of a verdict is a failure.

use kopt_schema::exit::Exit;
use kopt_schema::message::{Message, Outcome, Summary, Trial};

use super::with_printed;
use crate::error::Error;
use crate::runner::Ended;

/// The trials of one kernel.
#[derive(Debug)]
pub struct Tally {
    /// The package's name.
    pub kernel: String,
    /// Trials that the executable announced.
    pub planned: Option<usize>,
    /// Trials that it reported.
    pub trials: Vec<Trial>,
    /// What is wrong with the executable itself.
    pub trouble: Option<Error>,
    /// How long it took.
    pub seconds: f64,
    filtered: usize,
    may_be_empty: bool,
}

impl Tally {
    /// Nothing yet. Only a run with filters may have no trial at all.
    pub fn new(kernel: &str, may_be_empty: bool) -> Self {
        let kernel = kernel.to_owned();
        Self { kernel, planned: None, trials: Vec::new(), trouble: None, seconds: 0.0, filtered: 0, may_be_empty }
    }

    /// Counts a message.
    pub fn hear(&mut self, message: &Message) {
        match message {
            Message::Plan(plan) => self.planned = Some(self.planned.unwrap_or(0) + plan.trials),
            Message::Trial(trial) => self.trials.push(trial.clone()),
            Message::Summary(summary) => self.filtered = summary.filtered,
            _ => {}
        }
    }

    /// The executable has ended.
    pub fn end(&mut self, ended: &Ended) {
        self.seconds = ended.seconds;
        let reported = self.trials.len();
        let how = ended.trouble().map(|how| format!("; it {how}")).unwrap_or_default();
        let wrong = match self.planned {
            None => Some(format!("reported no trial{how}")),
            Some(planned) if planned != reported => Some(format!("reported {reported} of {planned} trials{how}")),
            Some(0) if !self.may_be_empty => Some("has no trial".to_owned()),
            Some(_) if ended.garbled.is_some() => Some("reported something that is no message".to_owned()),
            // A failed trial makes it exit with a failure; without one there is no reason to.
            Some(_) if self.failed() == 0 => ended.trouble().map(|how| format!("failed no trial, but {how}")),
            Some(_) => None,
        };
        self.trouble = wrong.map(|wrong| {
            let mut error = Error::new(Exit::Incorrect, format!("{}: the test executable {wrong}", self.kernel));
            if let Some(garbled) = &ended.garbled {
                error = error.cause(format!("in its messages: {garbled}"));
            }
            with_printed(error, ended)
                .hint(format!("`cargo test -p {} --test correctness` runs it without cargo kopt", self.kernel))
        });
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.trials.iter().filter(|trial| trial.outcome == outcome).count()
    }

    /// Trials passed.
    pub fn passed(&self) -> usize {
        self.count(Outcome::Passed)
    }

    /// Trials failed.
    pub fn failed(&self) -> usize {
        self.count(Outcome::Failed)
    }

    /// Trials ignored.
    pub fn ignored(&self) -> usize {
        self.count(Outcome::Ignored)
    }

    /// Trials planned and never heard of again.
    pub fn missing(&self) -> usize {
        self.planned.unwrap_or(0).saturating_sub(self.trials.len())
    }

    /// Whether the kernel has not shown itself to be right.
    pub fn is_wrong(&self) -> bool {
        self.failed() > 0 || self.trouble.is_some()
    }

    /// The counts for a program; trials never heard of have failed.
    pub fn summary(&self) -> Summary {
        Summary {
            kernel: self.kernel.clone(),
            passed: self.passed(),
            failed: self.failed() + self.missing(),
            ignored: self.ignored(),
            filtered: self.filtered,
        }
    }
}

/// What all of it comes to.
pub fn verdict(tallies: &[Tally]) -> Exit {
    let trials: usize = tallies.iter().map(|tally| tally.trials.len()).sum();
    let ignored: usize = tallies.iter().map(Tally::ignored).sum();
    match trials {
        _ if tallies.iter().any(Tally::is_wrong) => Exit::Incorrect,
        0 => Exit::NoKernel,
        _ if trials == ignored => Exit::NoDevice,
        _ => Exit::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kopt_schema::message::TrialPlan;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn tally(planned: Option<usize>, outcomes: &[Outcome], wait_status: i32) -> Tally {
        let mut tally = Tally::new("k", false);
        if let Some(trials) = planned {
            tally.hear(&Message::Plan(TrialPlan { kernel: "k".to_owned(), trials }));
        }
        for outcome in outcomes {
            tally.hear(&Message::Trial(Trial {
                kernel: "k".to_owned(),
                name: "t".to_owned(),
                outcome: *outcome,
                seconds: 0.1,
                seeds: Vec::new(),
                failure: None,
                detail: None,
            }));
        }
        tally.end(&Ended {
            status: ExitStatus::from_raw(wait_status),
            stalled: false,
            garbled: None,
            printed: "boom".to_owned(),
            seconds: 1.0,
        });
        tally
    }

    #[test]
    fn only_all_passed_is_ok() {
        use Outcome::{Failed, Ignored, Passed};
        let failure = 101 << 8;
        let cases = [
            (Some(2), vec![Passed, Passed], 0, Exit::Ok),
            (Some(2), vec![Passed, Ignored], 0, Exit::Ok),
            (Some(2), vec![Ignored, Ignored], 0, Exit::NoDevice),
            (Some(2), vec![Passed, Failed], failure, Exit::Incorrect),
            (Some(2), vec![Passed], 0, Exit::Incorrect),
            (Some(1), vec![Passed, Passed], 0, Exit::Incorrect),
            (Some(2), vec![Passed, Passed], 11, Exit::Incorrect),
            (Some(2), vec![Passed, Passed], failure, Exit::Incorrect),
            (Some(2), vec![Passed, Failed], 0, Exit::Incorrect),
            (Some(0), vec![], 0, Exit::Incorrect),
            (None, vec![], 0, Exit::Incorrect),
        ];
        for (planned, outcomes, status, exit) in cases {
            let one = tally(planned, &outcomes, status);
            assert_eq!(verdict(std::slice::from_ref(&one)), exit, "{planned:?} {outcomes:?} {status}");
        }
    }

    #[test]
    fn a_death_is_told_with_what_was_printed() {
        let failure = tally(Some(3), &[Outcome::Passed], 9).trouble.unwrap().failure();
        assert_eq!(failure.message, "k: the test executable reported 1 of 3 trials; it died of signal 9");
        assert_eq!(failure.causes, ["it printed:\nboom"]);
    }

    #[test]
    fn one_wrong_kernel_spoils_the_verdict_of_all() {
        let good = tally(Some(1), &[Outcome::Passed], 0);
        let bad = tally(Some(1), &[Outcome::Failed], 101 << 8);
        assert_eq!(verdict(&[good, bad]), Exit::Incorrect);
    }
}
