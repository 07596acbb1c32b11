//! One timed batch: a contestant's calls on places that were dealt to it, and what is looked at afterwards.

use std::time::{Duration, Instant};

use kopt_schema::bout::Forfeit;
use kopt_schema::wire::Request;

use super::{CHECKED_ONE_IN, Launch, nanoseconds};
use crate::runner::contestant::Loss;
use crate::runner::judge::clock;
use crate::runner::processor::Stay;

/// Its time, by three clocks.
pub(super) struct Batch {
    pub device_s: f64,
    pub wall_s: f64,
    pub cpu_s: f64,
}

/// Seconds of the fastest of these. A clock that stood still says nothing; where all did, the judge's has to do.
pub(super) fn fastest(batches: &[Batch]) -> f64 {
    let told = batches.iter().map(|batch| batch.device_s).filter(|seconds| nanoseconds(*seconds) > 0);
    told.reduce(f64::min).unwrap_or_else(|| batches.iter().map(|batch| batch.wall_s).fold(f64::INFINITY, f64::min))
}

impl Launch<'_> {
    /// One contestant's calls on these places, and perhaps a look at what they wrote.
    pub(super) fn batch(&mut self, contestant: usize, case: usize, places: &[usize]) -> Result<Batch, Forfeit> {
        let name = &self.judge.cases[case].shape.name;
        let handicaps = self.judge.entrants[contestant].handicaps.iter();
        let handicap: f64 = handicaps
            .filter(|handicap| handicap.case.as_ref().is_none_or(|case| case == name))
            .map(|handicap| handicap.share)
            .sum();
        let entries: Vec<usize> = (0..self.judge.calls(contestant)).collect();
        let halted = self.judge.halts();
        let asked = self.runners[contestant].watch.asked();
        // There, too, the judge empties the caches: between two turns the processor does the same for everybody.
        let stay = self.processor.map(Stay::on);
        if halted {
            self.runners[contestant].contestant.let_go();
        }
        let timed = if halted {
            self.one_by_one(contestant, case, places, &entries, handicap)
        } else {
            self.at_once(contestant, case, places, entries, handicap)
        };
        let runner = &mut self.runners[contestant];
        if halted {
            runner.contestant.halt();
        }
        drop(stay);
        let cpu_s = runner.watch.answered(asked);
        let (device_s, wall_s) = timed.map_err(|loss| {
            let loss = self.judge.decks[case].explained(loss, &self.runners[contestant].contestant, case);
            self.forfeit(contestant, case, loss)
        })?;
        clock::possible(device_s, wall_s, handicap).map_err(|loss| self.forfeit(contestant, case, loss))?;
        let outputs = self.runners[contestant].outputs;
        let looked_at = self.draw.between(0, CHECKED_ONE_IN - 1) == 0;
        if looked_at {
            self.checked += 1;
            let checked = self.judge.decks[case].check(outputs, places);
            if let Some(loss) = checked.map_err(|loss| self.trouble(case, loss))? {
                return Err(self.forfeit(contestant, case, loss));
            }
        }
        self.judge.decks[case].restore(outputs, places).map_err(|loss| self.trouble(case, loss))?;
        if looked_at {
            self.look(contestant, case, places)?;
        }
        // Each time: a moment later it could be another one's.
        self.sweep(contestant, Some(case))?;
        Ok(Batch { device_s, wall_s, cpu_s })
    }

    /// All calls of a batch in one request: the device's queue must not run dry. Seconds by its clock and by the judge's.
    fn at_once(
        &mut self,
        contestant: usize,
        case: usize,
        places: &[usize],
        entries: Vec<usize>,
        handicap: f64,
    ) -> Result<(f64, f64), Loss> {
        let (windows, calls) = (places.to_vec(), places.len() as u64);
        let request = Request::Time { arena: case, entries, windows, cold: true, calls, processor: true, handicap };
        self.request(contestant, &request)
    }

    /// Every call of a batch in a request of its own, and before it the judge empties the caches of what the call will touch.
    /// So all that a contestant does is its calls: the system's books of its processor time count these alone, and no call
    /// knows where the next one will be.
    fn one_by_one(
        &mut self,
        contestant: usize,
        case: usize,
        places: &[usize],
        entries: &[usize],
        handicap: f64,
    ) -> Result<(f64, f64), Loss> {
        let (mut device_s, mut wall_s) = (0.0, 0.0);
        for place in places {
            self.judge.decks[case].flush(self.runners[contestant].outputs, *place);
            // Entry by entry: between them the stack is made new, which is none of their time.
            for entry in entries {
                let (entries, windows) = (vec![*entry], vec![*place]);
                let request =
                    Request::Time { arena: case, entries, windows, cold: false, calls: 1, processor: true, handicap };
                let (device, wall) = self.request(contestant, &request)?;
                device_s += device;
                wall_s += wall;
            }
        }
        Ok((device_s, wall_s))
    }

    fn request(&mut self, contestant: usize, request: &Request) -> Result<(f64, f64), Loss> {
        let limit = Duration::from_secs_f64(self.judge.bout.timeout_s);
        let begun = Instant::now();
        let device_s = self.runners[contestant].contestant.time(request, limit)?;
        let wall_s = begun.elapsed().as_secs_f64();
        // Request by request: hundreds of calls of one batch may be what takes too long.
        self.taken.add(contestant, wall_s)?;
        Ok((device_s, wall_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stood_still_is_not_the_fastest() {
        let batch = |device_s: f64, wall_s: f64| Batch { device_s, wall_s, cpu_s: 0.0 };
        assert_eq!(fastest(&[batch(0.0, 0.1), batch(0.002, 0.2), batch(0.001, 0.3)]), 0.001);
        assert_eq!(fastest(&[batch(0.0, 0.2), batch(1e-12, 0.1)]), 0.1);
        assert_eq!(fastest(&[]), f64::INFINITY);
    }
}
