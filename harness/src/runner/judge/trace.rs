//! The trace: incumbent and candidate through eight steps of a training run, each in a process that has made no call before.
//!
//! In every step activations and gradients are new and lie where nothing lay before; weights stay and have new contents, as
//! an optimizer leaves them. After a step some of it comes again: the addresses, the weights, the contents, or all of it.
//! Who remembers nothing takes as long and is as right as before; what is flushed before a call, and which memory it
//! touches, is the same for all calls that are compared. Who is wrong here and right in a process of its own remembers too.

use std::time::{Duration, Instant};

use kopt_schema::bout::{Forfeit, Probe, STEPS, TraceRecord, TraceSide, TracedCall};
use kopt_schema::wire::Request;

use super::Judge;
use super::clock::{self, Taken};
use super::deck::Deck;
use super::launch::CHECKED_ONE_IN;
use super::ready;
use crate::runner::contestant::{Contestant, Loss};
use crate::runner::{prepare, processor};
use crate::tensor::Draw;

/// Incumbent and candidate: the first two contestants of a bout.
const SIDES: usize = 2;

/// Seconds that a contestant's probes take, if that is enough for the least of them.
const PROBES_S: f64 = 0.4;

/// Steps with probes at least: fewer say nothing.
const LEAST_PROBES: usize = 4;

/// A step that takes longer is not repeated at other addresses as well.
const LONG_S: f64 = 0.02;

/// Why there is no record.
pub(super) enum Stopped {
    /// A contestant lost.
    Lost(Forfeit),
    /// It cannot be done.
    Failed(String),
}

impl From<Forfeit> for Stopped {
    fn from(forfeit: Forfeit) -> Self {
        Self::Lost(forfeit)
    }
}

/// A trace as it goes on.
struct Trace<'a> {
    judge: &'a Judge,
    case: usize,
    deck: Deck,
    contestants: Vec<Contestant>,
    draw: Draw,
    sides: Vec<TraceSide>,
    taken: Taken,
    /// Somebody was found to remember: there is nothing more to learn.
    found: bool,
}

/// Traces a shape. The memory of the shape that was traced last is kept: that of a large one takes seconds to lay out.
pub(super) fn run(judge: &mut Judge, seed: &str, number: u64, case: &str) -> Result<TraceRecord, Stopped> {
    let index = judge.cases.iter().position(|one| one.shape.name == case);
    let Some(index) = index.filter(|_| judge.entrants.len() >= SIDES) else {
        return Err(Stopped::Failed(format!("there is nothing to trace on `{case}`")));
    };
    let mut draw = Draw::new(number, "trace");
    let deck = match judge.traced.take().filter(|(traced, _)| *traced == index) {
        Some((_, mut deck)) => {
            deck.shuffle();
            deck
        }
        None => {
            let deck = judge.decks[index].of_training(STEPS, SIDES, draw.bits());
            deck.map_err(|loss| Stopped::Failed(loss.message))?
        }
    };
    let contestants = start(judge, &deck, index, &order(&mut draw))?;
    if judge.halts() {
        processor::keep_here(&contestants.iter().map(Contestant::id).collect::<Vec<_>>());
    }
    let sides = (0..SIDES).map(|side| TraceSide { entries: names(judge, side), uses: Vec::new(), calls: Vec::new() });
    let (sides, taken) = (sides.collect(), Taken::new(SIDES));
    let mut trace = Trace { judge: &*judge, case: index, deck, contestants, draw, sides, taken, found: false };
    trace.steps()?;
    trace.ended()?;
    for side in 0..SIDES {
        trace.sides[side].uses = trace.uses(side)?;
    }
    let Trace { deck, sides, .. } = trace;
    judge.traced = Some((index, deck));
    Ok(TraceRecord { seed: seed.to_owned(), case: case.to_owned(), sides })
}

/// What a step of a contestant calls.
fn names(judge: &Judge, side: usize) -> Vec<String> {
    let prepare = judge.entrants[side].candidate.prepares.iter().map(|op| format!("{op}_prepare"));
    prepare.chain(judge.layouts.iter().map(|layout| layout.symbol.to_owned())).collect()
}

/// Fresh processes for these sides, started in this order and returned in that of the sides, ready to call.
fn start(judge: &Judge, deck: &Deck, case: usize, sides: &[usize]) -> Result<Vec<Contestant>, Forfeit> {
    let forfeit = |side: usize, loss| super::forfeit(side, Some(judge.cases[case].shape.name.clone()), loss);
    let mut started = Vec::new();
    for side in sides {
        let mut contestant = Contestant::spawn(&[deck.files(*side)]).map_err(|loss| forfeit(*side, loss))?;
        contestant.memory = judge.bout.memory;
        started.push((*side, contestant));
    }
    started.sort_by_key(|(side, _)| *side);
    let ready = ready::at_once(&mut started, |side, contestant| {
        let shape = std::iter::once((deck, &judge.cases[case]));
        ready::prepare(judge, shape, &judge.entrants[side], contestant)
    });
    ready.map_err(|(side, loss)| forfeit(side, loss))?;
    if judge.halts() {
        started.iter().for_each(|(_, contestant)| contestant.halt());
    }
    Ok(started.into_iter().map(|(_, contestant)| contestant).collect())
}

fn order(draw: &mut Draw) -> [usize; SIDES] {
    if draw.between(0, 1) == 0 { [0, 1] } else { [1, 0] }
}

impl Trace<'_> {
    fn steps(&mut self) -> Result<(), Forfeit> {
        let (mut probed, mut long) = (STEPS, false);
        for step in 0..STEPS {
            self.deal(|deck, draw| deck.deal_to(step, draw))?;
            let seconds = self.both(step, step, Probe::Fresh)?;
            // The first step of a process is slower than the rest: told by the second.
            if step <= 1 {
                probed = (PROBES_S / (4.0 * seconds.max(1e-9))).clamp(LEAST_PROBES as f64, STEPS as f64) as usize;
                long = seconds > LONG_S;
            }
            if step == 0 || step > probed || self.found {
                continue;
            }
            self.probes(step, long)?;
        }
        Ok(())
    }

    /// What comes again, in an order of its own each time: refilled, the same, and the same weights.
    fn probes(&mut self, step: usize, long: bool) -> Result<(), Forfeit> {
        self.deal(|deck, draw| deck.deal_to(step, draw))?;
        self.both(step, step, Probe::Refilled)?;
        self.both(step, step, Probe::Same)?;
        if self.deck.has_weights() {
            self.deal(|deck, draw| deck.deal_beside_weights(step, draw))?;
            self.both(step, step, Probe::Weight)?;
        }
        if !long {
            self.deal(|deck, _| deck.repeat_at(step, step - 1))?;
            self.both(step, step - 1, Probe::Moved)?;
        }
        Ok(())
    }

    /// A call of each contestant at a place; the longest step of the two, in seconds.
    fn both(&mut self, step: usize, place: usize, probe: Probe) -> Result<f64, Forfeit> {
        let mut longest = 0.0f64;
        for side in order(&mut self.draw) {
            if self.found {
                break;
            }
            let device_ns = self.call(side, place)?;
            longest = longest.max(device_ns.iter().sum::<u64>() as f64 * 1e-9);
            let stale = match self.of_deck(side, |deck| deck.check(side, &[place]))? {
                None => None,
                Some(loss) => Some(self.alone(side, place, loss)?),
            };
            self.of_deck(side, |deck| deck.restore(side, &[place]))?;
            // As in a launch; and all of it when the processes are gone.
            let looked_at = self.draw.between(0, CHECKED_ONE_IN - 1) == 0;
            if looked_at && let Some(loss) = self.of_deck(side, |deck| deck.still(side, &[place]))? {
                return Err(self.forfeit(side, loss));
            }
            self.found |= stale.is_some();
            self.sides[side].calls.push(TracedCall { step, probe, device_ns, stale });
        }
        Ok(longest)
    }

    /// Nanoseconds of each entry of a step. Only the first finds nothing in the caches, as in the benchmark.
    fn call(&mut self, side: usize, place: usize) -> Result<Vec<u64>, Forfeit> {
        let limit = Duration::from_secs_f64(self.judge.bout.timeout_s);
        let halted = self.judge.halts();
        let mut taken = Vec::new();
        if halted {
            self.deck.flush(side, place);
            self.contestants[side].let_go();
        }
        for entry in 0..self.judge.calls(side) {
            let request = Request::Time {
                arena: 0,
                entries: vec![entry],
                windows: vec![place],
                cold: entry == 0 && !halted,
                calls: 1,
                processor: true,
                handicap: 0.0,
            };
            let begun = Instant::now();
            let timed = self.contestants[side].time(&request, limit);
            let wall_s = begun.elapsed().as_secs_f64();
            let timed = timed.and_then(|seconds| {
                clock::possible(seconds, wall_s, 0.0)?;
                self.taken.add(side, wall_s)?;
                Ok(seconds)
            });
            let seconds = timed.map_err(|loss| {
                let loss = self.deck.explained(loss, &self.contestants[side], 0);
                self.forfeit(side, loss)
            })?;
            taken.push((seconds * 1e9).round().max(1.0) as u64);
        }
        if halted {
            self.contestants[side].halt();
        }
        Ok(taken)
    }

    /// It was wrong: whether it is right in a process that has made no call before, with the same contents at the same
    /// addresses. If so, what it did before is what made it wrong.
    fn alone(&mut self, side: usize, place: usize, loss: Loss) -> Result<String, Forfeit> {
        self.of_deck(side, |deck| deck.restore(side, &[place]))?;
        let mut fresh = self.fresh(side)?;
        std::mem::swap(&mut fresh, &mut self.contestants[side]);
        let called = self.call(side, place);
        std::mem::swap(&mut fresh, &mut self.contestants[side]);
        called?;
        match self.of_deck(side, |deck| deck.check(side, &[place]))? {
            None => Ok(loss.message),
            Some(wrong) => Err(self.forfeit(side, wrong)),
        }
    }

    /// One more process for a side.
    fn fresh(&self, side: usize) -> Result<Contestant, Forfeit> {
        let mut started = start(self.judge, &self.deck, self.case, &[side])?;
        let none = || self.forfeit(side, Loss::of_judge("no process was started"));
        started.pop().ok_or_else(none)
    }

    /// The entries that need what was prepared: called without it they are wrong, or fail.
    fn uses(&mut self, side: usize) -> Result<Vec<String>, Forfeit> {
        if self.judge.entrants[side].candidate.prepares.is_none() {
            return Ok(Vec::new());
        }
        let limit = Duration::from_secs_f64(self.judge.bout.timeout_s);
        let mut found = Vec::new();
        for (number, layout) in self.judge.layouts.iter().enumerate() {
            if !layout.fields.iter().any(|field| field.name == prepare::FIELD) {
                continue;
            }
            self.deal(|deck, draw| deck.deal_to(0, draw))?;
            let mut process = self.fresh(side)?;
            process.let_go();
            // The preparation is the first call of a step.
            let called = process.call(0, number + 1, 0, limit);
            process.end();
            if called.is_err() || self.of_deck(side, |deck| deck.check_entry(side, 0, number))?.is_some() {
                found.push(layout.symbol.to_owned());
            }
            self.of_deck(side, |deck| deck.restore(side, &[0]))?;
        }
        Ok(found)
    }

    /// Nobody wrote where it may not.
    fn ended(&mut self) -> Result<(), Forfeit> {
        self.contestants.clear();
        for side in 0..SIDES {
            if let Some(loss) = self.of_deck(side, |deck| deck.intact(side))? {
                return Err(self.forfeit(side, loss));
            }
        }
        Ok(())
    }

    /// Something about the memory. If the judge's own fails, the loss says so, and it is not this one's.
    fn of_deck<T>(&mut self, side: usize, ask: impl FnOnce(&mut Deck) -> Result<T, Loss>) -> Result<T, Forfeit> {
        ask(&mut self.deck).map_err(|loss| self.forfeit(side, loss))
    }

    fn deal(&mut self, deal: impl FnOnce(&mut Deck, &mut Draw) -> Result<(), Loss>) -> Result<(), Forfeit> {
        deal(&mut self.deck, &mut self.draw).map_err(|loss| self.forfeit(0, loss))
    }

    fn forfeit(&self, side: usize, loss: Loss) -> Forfeit {
        super::forfeit(side, Some(self.judge.cases[self.case].shape.name.clone()), loss)
    }
}
