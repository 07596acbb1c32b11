//! Launches: three fresh trainers each, who steps when, and what is asked of them after the last step.

use std::time::{Duration, Instant};

use kopt_schema::training::{
    CallTime, Filling, StepTaken, TRAINING_VERSION, TrainingReply, TrainingRequest, TrainingStep,
};

use super::contestant::{Contestant, Trouble};
use super::figures::{self, Curve, Launch, WARM_UP};
use super::trainer::Trainer;
use super::{Contest, Event, Outcome, filling};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::Interrupts;

/// Incumbent, candidate, and the incumbent again.
const WHO: [&str; 3] = ["the incumbent", "the candidate", "the incumbent"];
const CANDIDATE: usize = 1;
/// Steps of a launch after the first, in which the loss curves are compared: more launches say more about the gain than
/// longer ones.
const SHORT: usize = 24;
/// Runs with rounding noise: how far losses drift by rounding alone.
const NOISY: u64 = 2;
/// Seconds for which the op's calls of a step are repeated, what comes between them included.
const REPEATED_S: f64 = 0.15;

/// A trouble, and whose.
type Found<T> = std::result::Result<T, (usize, Trouble)>;

/// Trains both versions and says what came of it.
pub(super) fn train(
    context: &Context,
    interrupts: &Interrupts,
    trainer: &Trainer,
    contest: &Contest<'_>,
    hear: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    let start = Instant::now();
    let slot = super::slot(contest.kernel)?;
    let preset = contest.terms.preset.clone().unwrap_or_else(|| slot.to_owned());
    let [incumbent, candidate] = [contest.incumbent, contest.candidate].map(|file| filling(contest.kernel, slot, file));
    let (incumbent, candidate) = (incumbent?, candidate?);
    let seed = u64::from_str_radix(&contest.seed.memory(), 16).unwrap_or(0);
    let mut course = Course {
        context,
        interrupts,
        trainer,
        preset: preset.clone(),
        seed,
        patience: Duration::from_secs_f64(contest.terms.patience_s),
        facts: (0, 0),
    };
    let outcome = course.hold(contest, [&incumbent, &candidate], start, hear);
    let (launches, noisy) = match outcome {
        Ok(held) => held,
        Err((_, Trouble::Error(error))) => return Err(error),
        Err((CANDIDATE, Trouble::Lost(why))) => return Ok(Outcome::Lost(why)),
        Err((who, Trouble::Lost(why))) => {
            return Err(Error::setup(format!("{} does not get through a training step", WHO[who])).cause(why));
        }
    };
    let (parameters, tokens) = course.facts;
    let losses = figures::losses(&launches, &noisy);
    let times = figures::step_times(&launches);
    Ok(Outcome::Taken(Box::new(TrainingStep {
        kernel: contest.kernel.member.name.clone(),
        op: contest.kernel.manifest.op.clone(),
        trainer: kopt_schema::training::Trainer::Model { preset, parameters, tokens },
        seed: contest.seed.text().to_owned(),
        launches: launches.len(),
        steps: contest.terms.steps,
        incumbent_s: times[0],
        candidate_s: times[1],
        gain: figures::gain(&launches, 1),
        control: Some(figures::gain(&launches, 2)),
        prediction: figures::prediction(&launches),
        losses,
        seconds: start.elapsed().as_secs_f64(),
    })))
}

struct Course<'a> {
    context: &'a Context,
    interrupts: &'a Interrupts,
    trainer: &'a Trainer,
    preset: String,
    seed: u64,
    patience: Duration,
    facts: (usize, usize),
}

impl<'a> Course<'a> {
    fn hold(
        &mut self,
        contest: &Contest<'_>,
        fillings: [&Filling; 2],
        start: Instant,
        hear: &mut dyn FnMut(Event),
    ) -> Found<(Vec<Launch>, Vec<Curve>)> {
        let (least, most) = contest.terms.launches;
        let least = least.max(2);
        let mut launches: Vec<Launch> = Vec::new();
        let mut noisy = Vec::new();
        while launches.len() < most.max(least) {
            let number = launches.len();
            let steps = if number == 0 { contest.terms.steps } else { SHORT };
            let order = u64::from_str_radix(&contest.seed.launch(number), 16).unwrap_or(0);
            launches.push(self.launch(fillings, steps, order)?);
            if number == 0 {
                noisy = self.noisy(fillings[0], steps)?;
                let so_far = figures::losses(&launches, &noisy);
                if !so_far.agree {
                    // What does not learn the same need not be timed; two launches make an interval that can be told.
                    launches.push(self.launch(fillings, SHORT, !order)?);
                    break;
                }
            }
            hear(Event::Launch { number: launches.len(), gain: figures::launch_gain(&launches[number], 1) });
            let gain = (launches.len() >= least).then(|| figures::gain(&launches, 1));
            let known = gain.is_some_and(|gain| gain.high - gain.low <= 2.0 * contest.terms.half_width);
            let late = start.elapsed().as_secs_f64() > contest.terms.max_time_s;
            if launches.len() >= least && (known || late) {
                break;
            }
        }
        Ok((launches, noisy))
    }

    /// Three fresh trainers, one step each in turn on the same processor; every order is followed by its reverse, so that who
    /// comes first and who comes last is the same in the end.
    fn launch(&mut self, fillings: [&Filling; 2], steps: usize, order: u64) -> Found<Launch> {
        let mut order = Order(order);
        let mut contestants = Vec::new();
        for who in 0..WHO.len() {
            contestants.push(self.load(who, fillings[who % 2], None)?);
        }
        let here = rustix::thread::sched_getcpu();
        contestants.iter().for_each(|contestant| contestant.keep_on(here));
        let mut launch = Launch::default();
        let mut turn = [0, 1, 2];
        for step in 0..WARM_UP.max(2) + steps {
            if step % 2 == 0 {
                order.shuffle(&mut turn)
            } else {
                turn.reverse()
            }
            for who in turn {
                launch.steps[who].extend(self.stepped(&mut contestants[who], who)?);
            }
        }
        for who in [0, 1, 1, 0] {
            let times = self.repeated(&mut contestants[who], who)?;
            figures::add_times(&mut launch.repeated[who], &times);
        }
        Ok(launch)
    }

    /// Losses of the incumbent with rounding noise.
    fn noisy(&mut self, filling: &Filling, steps: usize) -> Found<Vec<Curve>> {
        let mut noisy = Vec::new();
        for noise in 1..=NOISY {
            let mut contestant = self.load(0, filling, Some(noise))?;
            let mut losses = Vec::new();
            for _ in 0..WARM_UP.max(2) + steps {
                losses.extend(self.stepped(&mut contestant, 0)?.iter().map(|step| step.loss));
            }
            noisy.push(losses);
        }
        Ok(noisy)
    }

    fn load(&mut self, who: usize, filling: &Filling, noise: Option<u64>) -> Found<Contestant<'a>> {
        let started = Contestant::start(self.context, self.interrupts, self.trainer);
        let mut contestant = started.map_err(|error| (who, Trouble::Error(error)))?;
        let request = TrainingRequest::Load {
            version: TRAINING_VERSION,
            preset: self.preset.clone(),
            seed: self.seed,
            slots: vec![filling.clone()],
            noise,
        };
        match contestant.ask(request, self.patience).map_err(|trouble| (who, trouble))? {
            (TrainingReply::Loaded { parameters, tokens, .. }, _) => {
                self.facts = (parameters, tokens);
                Ok(contestant)
            }
            _ => Err((who, Trouble::Lost("answered something else than was asked".to_owned()))),
        }
    }

    /// One step. Times are told by the process that runs the kernel: they cannot be more than what has passed here.
    fn stepped(&self, contestant: &mut Contestant<'_>, who: usize) -> Found<Vec<StepTaken>> {
        let asked = contestant.ask(TrainingRequest::Step { steps: 1 }, self.patience);
        let (reply, wall_s) = asked.map_err(|trouble| (who, trouble))?;
        let TrainingReply::Stepped { steps } = reply else {
            return Err((who, Trouble::Lost("answered something else than was asked".to_owned())));
        };
        let sane = |step: &StepTaken| {
            let inside: f64 = step.calls.iter().map(|call| call.seconds).sum();
            step.seconds > 0.0 && step.seconds <= wall_s && inside >= 0.0 && inside <= step.seconds
        };
        if steps.len() != 1 || !steps.iter().all(sane) {
            return Err((who, Trouble::Lost(format!("tells of times that cannot be: {wall_s} s passed"))));
        }
        Ok(steps)
    }

    fn repeated(&self, contestant: &mut Contestant<'_>, who: usize) -> Found<Vec<CallTime>> {
        let request = TrainingRequest::Benchmark { seconds: REPEATED_S };
        match contestant.ask(request, self.patience).map_err(|trouble| (who, trouble))? {
            (TrainingReply::Benchmarked { calls }, _) => Ok(calls),
            _ => Err((who, Trouble::Lost("answered something else than was asked".to_owned()))),
        }
    }
}

/// Orders that follow from a seed.
struct Order(u64);

impl Order {
    fn below(&mut self, limit: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit).unwrap_or(0)
    }

    fn shuffle(&mut self, turn: &mut [usize; 3]) {
        turn.swap(2, self.below(3));
        turn.swap(1, self.below(2));
    }
}
