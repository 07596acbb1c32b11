//! What a gain was worth in a training step, in words: one line for a round, and a part of the report.

use kopt_schema::campaign::Training;
use kopt_schema::campaign::trained::TrainingFigures;
use kopt_schema::training::LEAST_SHARE;

use super::report_data::TrainingSummary;
use super::{numbers, text};

/// One line.
#[must_use]
pub fn words(training: &Training) -> String {
    match training {
        Training::NotMeasured { why } => format!("not measured: {why}"),
        Training::Lost { why } => format!("none, the candidate does not get through: {why}"),
        Training::Taken(figures) => {
            let gain = numbers::with_confidence(&figures.gain);
            format!("{gain}{}; {}", predicted(figures), losses(figures))
        }
    }
}

/// What the op's share of the step lets expect.
fn predicted(figures: &TrainingFigures) -> String {
    let Some(predicted) = &figures.predicted else { return String::new() };
    let held = if predicted.covered { "" } else { ", which the interval does NOT meet" };
    let (gain, share) = (numbers::gain(predicted.gain.gain), numbers::share(Some(predicted.share)));
    format!(", predicted {gain} from a share of {share} of the step{held}")
}

fn losses(figures: &TrainingFigures) -> String {
    let agree = if figures.losses_agree { "agree" } else { "do NOT agree" };
    format!("losses {agree}, {}", figures.losses)
}

/// A part of the report.
pub(super) fn report(summary: Option<&TrainingSummary>, accepted: bool) -> String {
    let Some(summary) = summary else { return "\nTraining step: not run.\n".to_owned() };
    let mut told = "\nIn a training step, forward, backward and optimizer:\n\n".to_owned();
    let mut line = |label: &str, said: &str| told.push_str(&format!("- {label}: {}\n", text::inline(said)));
    match &summary.baseline {
        Training::Taken(figures) => {
            let takes = numbers::seconds(figures.incumbent_s);
            let share = figures.predicted.as_ref().map(|predicted| {
                let small = if predicted.share < LEAST_SHARE { ", too little to be seen in it" } else { "" };
                format!(", of which the op takes {}{small}", numbers::share(Some(predicted.share)))
            });
            line("A step at the baseline", &format!("{takes}{}", share.unwrap_or_default()));
            line("The baseline against itself", &numbers::with_confidence(&figures.gain));
        }
        other => line("At the baseline", &words(other)),
    }
    match &summary.total {
        Some(total) => {
            line("Measured training-step gain, last accepted version against the baseline", &words(total));
            if let Training::Taken(figures) = total {
                let (before, after) = (numbers::seconds(figures.incumbent_s), numbers::seconds(figures.candidate_s));
                line("A step before and after", &format!("{before}, {after}"));
            }
        }
        None if accepted => line("Measured training-step gain", "not run"),
        None => line("Measured training-step gain", "nothing was accepted"),
    }
    told
}
