//! What the device can do at most, asked of the judge: before the first launch where nobody has measured it yet, and
//! again when a time would be impossible by what was known. Noise only ever lowers what is measured, so that of two
//! measurements each figure's better one is nearer to the truth, and an honest kernel at the ceiling is not accused by a
//! ceiling that was measured on a busy machine.

use std::time::Duration;

use kopt_schema::bout::{JudgeReply, JudgeRequest};
use kopt_schema::evidence::{Ceilings, Evidence};

use super::course::{Told, name_of};
use super::judge::Judge;
use super::{Event, Match};
use crate::error::Result;
use crate::gate;
use crate::machine::{Moment, figures};

impl Match<'_> {
    /// The ceilings of the device that was opened: known, or measured now.
    pub(super) fn know_ceilings(&self, judge: &mut Judge<'_>, evidence: &mut Evidence, told: Told<'_>) -> Result<()> {
        let (Some(known), Some(arrangement)) = (&self.ceilings, &evidence.arrangement) else { return Ok(()) };
        evidence.ceilings = match known.iter().find(|ceilings| ceilings.device == arrangement.device) {
            Some(known) => Some(known.clone()),
            None => Some(self.ask_ceilings(judge, told)?),
        };
        Ok(())
    }

    /// Measures the ceilings again if a time is impossible by them, before the verdict says so.
    pub(super) fn doubt_ceilings(&self, judge: &mut Judge<'_>, evidence: &mut Evidence, told: Told<'_>) -> Result<()> {
        if evidence.forfeit.is_some() || gate::below_floor(evidence).is_none() {
            return Ok(());
        }
        let again = self.ask_ceilings(judge, told)?;
        evidence.ceilings = Some(evidence.ceilings.as_ref().map_or(again.clone(), |known| better(known, &again)));
        Ok(())
    }

    fn ask_ceilings(&self, judge: &mut Judge<'_>, told: Told<'_>) -> Result<Ceilings> {
        told(Event::MeasuringCeilings)?;
        // It waits for a device that others time on, as a launch does.
        let found = measure(judge, self.limits.open.max(self.limits.launch))?;
        told(Event::Ceilings(&found))?;
        Ok(found)
    }
}

/// Asks a judge that has opened a bout for the ceilings of its device.
///
/// # Errors
/// When it cannot measure them, or answers with something else.
pub fn measure(judge: &mut Judge<'_>, limit: Duration) -> Result<Ceilings> {
    match judge.ask(&JudgeRequest::Ceilings, limit)? {
        JudgeReply::Ceilings { device, copy_bytes_per_s, read_bytes_per_s, write_bytes_per_s, fma_flops_per_s } => {
            let found = Ceilings {
                device,
                measured: Moment::now().minute(),
                copy_bytes_per_s,
                read_bytes_per_s,
                write_bytes_per_s,
                fma_flops_per_s,
            };
            match figures::are_rates(&found) {
                true => Ok(found),
                false => Err(judge.wrong("gave ceilings that are no rates")),
            }
        }
        other => Err(judge.wrong(&format!("answered out of turn: {}", name_of(&other)))),
    }
}

/// The better of each figure, and the later date.
#[must_use]
pub fn better(one: &Ceilings, other: &Ceilings) -> Ceilings {
    let best = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (known, None) | (None, known) => known,
    };
    Ceilings {
        device: other.device.clone(),
        measured: one.measured.clone().max(other.measured.clone()),
        copy_bytes_per_s: one.copy_bytes_per_s.max(other.copy_bytes_per_s),
        read_bytes_per_s: best(one.read_bytes_per_s, other.read_bytes_per_s),
        write_bytes_per_s: best(one.write_bytes_per_s, other.write_bytes_per_s),
        fma_flops_per_s: best(one.fma_flops_per_s, other.fma_flops_per_s),
    }
}
