//! What is told while a match goes on: a bar on a terminal, a message for each look.

use kopt_schema::evidence::{Estimate, StageKind};
use kopt_schema::message::{Look, Message};

use super::report;
use crate::error::Result;
use crate::referee::{Event, Progress};
use crate::shell::{GOOD, Shell, count};

/// Follows a match.
pub struct Live<'a> {
    shell: &'a mut Shell,
    kernel: &'a str,
    stage: Option<StageKind>,
}

impl<'a> Live<'a> {
    pub fn new(shell: &'a mut Shell, kernel: &'a str) -> Self {
        Self { shell, kernel, stage: None }
    }

    /// Tells what happened.
    pub fn hear(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Opening => {
                self.shell.progress().start("opening", None);
                self.shell.progress().at(0, "inputs and expected values");
                Ok(())
            }
            Event::Opened(arrangement) => {
                self.shell.progress().finish();
                let pages = if arrangement.huge_pages { "huge pages" } else { "no huge pages" };
                let shapes = count(arrangement.cases.len(), "shape");
                self.shell.status("Measuring", GOOD, &format!("{shapes} on {} ({pages})", arrangement.device));
                Ok(())
            }
            Event::MeasuringCeilings => {
                self.shell.progress().start("ceilings", None);
                self.shell.progress().at(0, "what the device can do at most");
                Ok(())
            }
            Event::Ceilings(ceilings) => {
                self.shell.progress().finish();
                self.shell.status("Ceilings", GOOD, &report::ceilings(ceilings));
                Ok(())
            }
            Event::Checking => {
                self.shell.progress().start("checking", None);
                self.shell.progress().at(0, "every trial of the candidate");
                Ok(())
            }
            Event::Checked(trials) => {
                self.shell.progress().finish();
                self.shell.status("Checked", GOOD, &format!("{} of the candidate passed", count(*trials, "trial")));
                self.shell.progress().start(name_of(StageKind::Screen), None);
                Ok(())
            }
            Event::Launched(progress) => self.launched(progress),
            Event::Tracing(shape) => {
                self.shell.progress().start("tracing", None);
                self.shell.progress().at(0, &format!("{shape}: steps of training with fresh tensors"));
                Ok(())
            }
            Event::Again(why) => {
                self.shell.progress().finish();
                self.shell.warn(&format!("{why}; measuring once more"));
                self.stage = None;
                Ok(())
            }
        }
    }

    fn launched(&mut self, progress: &Progress) -> Result<()> {
        if self.stage != Some(progress.stage) {
            self.shell.progress().start(name_of(progress.stage), None);
            self.stage = Some(progress.stage);
        }
        let next = progress.next_look.unwrap_or(progress.launches);
        self.shell.progress().length(next);
        self.shell.progress().at(progress.launches, &words(progress));
        if !progress.looked {
            return Ok(());
        }
        self.shell.message(&Message::Look(Look {
            kernel: self.kernel.to_owned(),
            stage: progress.stage,
            launches: progress.launches,
            next_look: progress.next_look,
            aggregate: progress.aggregate,
            control: progress.control,
            seconds: progress.seconds,
        }))
    }

    pub fn finish(self) {
        self.shell.progress().finish();
    }
}

/// `screen`, `confirmation`.
pub const fn name_of(stage: StageKind) -> &'static str {
    match stage {
        StageKind::Screen => "screen",
        StageKind::Confirmation => "confirmation",
    }
}

/// `gain +3.12 % [+2.01, +4.25], control -0.04 % [-0.40, +0.31]`: the gain first, where a narrow terminal shows it.
/// How many launches there were, and how many to the next look, stands beside the bar.
pub fn words(progress: &Progress) -> String {
    let told = |name: &str, estimate: Option<&Estimate>| estimate.map(|one| format!("{name} {}", report::gain(one)));
    let both = [told("gain", progress.aggregate.as_ref()), told("control", progress.control.as_ref())];
    let both: Vec<String> = both.into_iter().flatten().collect();
    if both.is_empty() { "launches to the next look".to_owned() } else { both.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_the_gain_and_the_control_as_soon_as_there_are_any() {
        let estimate = |gain: f64| Estimate {
            gain,
            low: gain - 0.01,
            high: gain + 0.01,
            confidence: 0.99,
            launch_sigma: 0.02,
            launches: 3,
        };
        let mut progress = Progress {
            stage: StageKind::Screen,
            launches: 1,
            looked: false,
            next_look: Some(6),
            aggregate: None,
            control: None,
            seconds: 1.0,
        };
        assert_eq!(words(&progress), "launches to the next look");
        progress.aggregate = Some(estimate(0.0312));
        progress.control = Some(estimate(-0.0004));
        assert_eq!(words(&progress), "gain +3.12 % [+2.12, +4.12], control -0.04 % [-1.04, +0.96]");
    }
}
