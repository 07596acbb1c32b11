//! The course of a match: the judge is started, asked for one launch after the other, and after each the gate says
//! whether to go on.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use kopt_schema::bout::{Arrangement, JudgeReply, JudgeRequest, LaunchRecord};
use kopt_schema::evidence::{Evidence, Ruling, Stage, StageKind};

use super::judge::Judge;
use super::seeds::Master;
use super::{CANDIDATE, Event, Match, Progress, record};
use crate::context::Context;
use crate::error::Result;
use crate::gate::{self, Next};
use crate::machine;
use crate::process::Interrupts;

/// Who is told what happens.
pub(super) type Told<'a> = &'a mut dyn FnMut(Event<'_>) -> Result<()>;

impl Match<'_> {
    /// Holds the match before the judge `executable`, built from the base, and tells what happens as it happens.
    ///
    /// # Errors
    /// When the judge cannot do its work, or `told` fails. A version that loses is no error.
    pub fn hold(
        &self,
        context: &Context,
        interrupts: &Interrupts,
        executable: &Utf8Path,
        told: Told<'_>,
    ) -> Result<Evidence> {
        match self.at_once() {
            Some(evidence) => Ok(evidence),
            None => self.hold_further(context, interrupts, executable, self.blank(), told),
        }
    }

    /// The same, once more and with other seeds where the control has called it off. By design that happens to one match of
    /// two hundred on a quiet machine, and nothing is learned by it.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub fn hold_twice_if_disturbed(
        &self,
        context: &Context,
        interrupts: &Interrupts,
        executable: &Utf8Path,
        told: Told<'_>,
    ) -> Result<Evidence> {
        let found = self.hold(context, interrupts, executable, told)?;
        if found.verdict.ruling != Ruling::Contaminated || found.forfeit.is_some() {
            return Ok(found);
        }
        told(Event::Again(found.verdict.reasons.first().map_or("the machine was disturbed", String::as_str)))?;
        let again = Match { seed: Master::secret()?, ..self.clone() }.hold(context, interrupts, executable, told)?;
        Ok(Evidence { called_off: Some(Box::new(found)), ..again })
    }

    /// Goes on with a match that was cut off for time, with fresh processes and the seeds that come next. What was checked
    /// is not checked again.
    ///
    /// # Errors
    /// As [`hold`](Self::hold).
    pub fn hold_further(
        &self,
        context: &Context,
        interrupts: &Interrupts,
        executable: &Utf8Path,
        mut evidence: Evidence,
        told: Told<'_>,
    ) -> Result<Evidence> {
        let (begun, before) = (Instant::now(), evidence.seconds);
        told(Event::Opening)?;
        let mut judge = Judge::start(context, interrupts, executable, &self.kernel.member.folder)?;
        if self.open(&mut judge, &mut evidence, told)? {
            // Ceilings and checking have their own time: a kernel with many trials is not to have fewer launches for it.
            let spent = begun.elapsed();
            self.know_ceilings(&mut judge, &mut evidence, told)?;
            if self.check(&mut judge, &mut evidence, told)? {
                self.measure(&mut judge, &mut evidence, begun, spent, told)?;
                // Before the trace: what seems impossible is not traced, and what is not traced is no accept.
                self.doubt_ceilings(&mut judge, &mut evidence, told)?;
                self.trace(&mut judge, &mut evidence, told)?;
            }
        }
        drop(judge);
        evidence.seconds = before + begun.elapsed().as_secs_f64();
        evidence.machine.load_after = machine::load();
        evidence.verdict = gate::verdict(&evidence);
        Ok(evidence)
    }

    /// Whether there is something to measure: a version that cannot even be loaded has lost.
    fn open(&self, judge: &mut Judge<'_>, evidence: &mut Evidence, told: Told<'_>) -> Result<bool> {
        match judge.ask(&JudgeRequest::Open(self.bout()), self.limits.open)? {
            JudgeReply::Opened(arrangement) => {
                self.laid_out(&arrangement).map_err(|wrong| judge.wrong(&wrong))?;
                told(Event::Opened(&arrangement))?;
                evidence.arrangement = Some(arrangement);
                Ok(true)
            }
            JudgeReply::Lost(forfeit) => {
                evidence.forfeit = Some(forfeit);
                Ok(false)
            }
            other => Err(judge.wrong(&format!("answered out of turn: {}", name_of(&other)))),
        }
    }

    /// Whether the candidate is right; correctness comes first.
    fn check(&self, judge: &mut Judge<'_>, evidence: &mut Evidence, told: Told<'_>) -> Result<bool> {
        if !self.check || evidence.trials > 0 {
            return Ok(true);
        }
        told(Event::Checking)?;
        match judge.ask(&JudgeRequest::Check { contestant: CANDIDATE }, self.limits.check)? {
            JudgeReply::Checked { trials } => {
                evidence.trials = trials;
                told(Event::Checked(trials)).map(|()| true)
            }
            JudgeReply::Lost(forfeit) => {
                evidence.forfeit = Some(forfeit);
                Ok(false)
            }
            other => Err(judge.wrong(&format!("answered out of turn: {}", name_of(&other)))),
        }
    }

    /// Launch after launch, until the gate has seen enough or the time is over.
    fn measure(
        &self,
        judge: &mut Judge<'_>,
        evidence: &mut Evidence,
        begun: Instant,
        spent: Duration,
        told: Told<'_>,
    ) -> Result<()> {
        let timeout = Duration::try_from_secs_f64(self.kernel.manifest.check.timeout_s).unwrap_or_default();
        let patience = self.limits.launch.max(timeout);
        // Launches say themselves how long they took: what they waited for a device that others time on is nobody's time.
        let (mut longest, mut measuring) = (0.0f64, 0.0f64);
        let mut number = evidence.stages.iter().map(|stage| stage.launches.len()).sum();
        loop {
            let next = gate::next(evidence);
            // A launch that would not end in time is not begun: the verdict is on what there is.
            let left = self.terms.max_time_s - spent.as_secs_f64() - measuring;
            // A confirmation that has begun is brought to its first look, for which it gets as much time again.
            let goes_on = gate::is_half_confirmed(evidence) && left + self.terms.max_time_s > longest;
            if next == Next::Done || (left <= longest && !goes_on && !gate::wants_a_second(evidence)) {
                return Ok(());
            }
            if next == Next::Confirm {
                evidence.stages.push(Stage { kind: StageKind::Confirmation, launches: Vec::new() });
            }
            let seed = self.seed.launch(number);
            let shapes = gate::unsettled(evidence);
            let request = JudgeRequest::Launch { seed: seed.clone(), shapes: shapes.clone() };
            match judge.ask(&request, patience)? {
                JudgeReply::Launched(record) => {
                    measured(&record, &seed, &shapes, evidence).map_err(|wrong| judge.wrong(&wrong))?;
                    (measuring, longest) = (measuring + record.wall_s, longest.max(record.wall_s));
                    evidence.stages.last_mut().into_iter().for_each(|stage| stage.launches.push(record.clone()));
                }
                JudgeReply::Lost(forfeit) => {
                    evidence.forfeit = Some(forfeit);
                    return Ok(());
                }
                other => return Err(judge.wrong(&format!("answered out of turn: {}", name_of(&other)))),
            }
            number += 1;
            if let Some(progress) = progress(evidence, begun) {
                told(Event::Launched(progress))?;
            }
        }
    }

    /// Shape after shape, as long as the gate asks for one: an accept must hold in steps of training.
    fn trace(&self, judge: &mut Judge<'_>, evidence: &mut Evidence, told: Told<'_>) -> Result<()> {
        while let Some(case) = gate::transfer::next_trace(evidence) {
            told(Event::Tracing(&case))?;
            let seed = self.seed.trace(evidence.trace.len());
            let request = JudgeRequest::Trace { seed: seed.clone(), case: case.clone() };
            match judge.ask(&request, self.limits.launch)? {
                JudgeReply::Traced(record) => {
                    record::trace(&record).map_err(|wrong| judge.wrong(&format!("gave a senseless trace: {wrong}")))?;
                    if record.seed != seed || record.case != case {
                        return Err(judge.wrong("traced something else than it was asked to"));
                    }
                    evidence.trace.push(record);
                }
                // Who lost before has lost for that.
                JudgeReply::Lost(forfeit) => {
                    evidence.forfeit.get_or_insert(forfeit);
                    return Ok(());
                }
                other => return Err(judge.wrong(&format!("answered out of turn: {}", name_of(&other)))),
            }
        }
        Ok(())
    }

    /// The judge has laid out what it was asked to.
    fn laid_out(&self, arrangement: &Arrangement) -> Result<(), String> {
        let mut found: Vec<&str> = arrangement.cases.iter().map(|case| case.name.as_str()).collect();
        let mut wanted: Vec<&str> = self.shapes.iter().map(String::as_str).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        match found == wanted || (wanted.is_empty() && !found.is_empty()) {
            true => Ok(()),
            false => Err(format!("laid out shapes {} instead of {}", found.join(", "), wanted.join(", "))),
        }
    }
}

/// The launch is the one that was asked for.
fn measured(record: &LaunchRecord, seed: &str, shapes: &[String], evidence: &Evidence) -> Result<(), String> {
    if record.seed != seed {
        return Err(format!("measured seed {} instead of {seed}", record.seed));
    }
    match &evidence.arrangement {
        Some(arrangement) => {
            record::launch(record, arrangement, shapes).map_err(|wrong| format!("gave a senseless record: {wrong}"))
        }
        None => Err("measured before it had opened".to_owned()),
    }
}

fn progress(evidence: &Evidence, begun: Instant) -> Option<Progress> {
    let stage = evidence.stages.last()?;
    let (launches, looks) = (stage.launches.len(), gate::looks(evidence, stage));
    let so_far = gate::so_far(evidence);
    Some(Progress {
        stage: stage.kind,
        launches,
        looked: looks.contains(&launches),
        next_look: looks.iter().copied().find(|look| *look > launches),
        aggregate: so_far.and_then(|(aggregate, _)| aggregate),
        control: so_far.and_then(|(_, control)| control),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// A reply's kind, for errors: the whole of a record would fill the screen.
pub(super) const fn name_of(reply: &JudgeReply) -> &'static str {
    match reply {
        JudgeReply::Opened(_) => "opened",
        JudgeReply::Checked { .. } => "checked",
        JudgeReply::Traced(_) => "traced",
        JudgeReply::Launched(_) => "launched",
        JudgeReply::Lost(_) => "lost",
        JudgeReply::Ceilings { .. } => "ceilings",
        JudgeReply::Failed { .. } => "failed",
    }
}
