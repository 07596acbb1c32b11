//! Contestants by the judge's clock: what one says of its time must be possible, and one that takes far longer than the
//! incumbent is not waited for until the referee takes the judge for a broken one.

use kopt_schema::message::FailureKind;

use super::INCUMBENT;
use crate::runner::contestant::Loss;

/// In a launch or a trace a contestant may take this many seconds in all.
const BEARABLE_S: f64 = 60.0;

/// And this many times what the incumbent takes, if that is more.
const TIMES_THE_INCUMBENT: f64 = 20.0;

/// By a contestant's clock a request takes no longer than by the judge's, but for its handicap.
pub(super) fn possible(device_s: f64, wall_s: f64, handicap: f64) -> Result<(), Loss> {
    if !device_s.is_finite() || device_s < 0.0 || device_s > wall_s * (1.0 + handicap) {
        let message = format!("says it took {device_s:e} s, but the whole request took {wall_s:e} s");
        return Err(Loss::new(FailureKind::Protocol, message));
    }
    Ok(())
}

/// Seconds that each contestant has taken so far.
pub(super) struct Taken(Vec<f64>);

impl Taken {
    pub(super) fn new(contestants: usize) -> Self {
        Self(vec![0.0; contestants])
    }

    /// Adds what a request took; a contestant that has taken far too long by now has lost.
    pub(super) fn add(&mut self, contestant: usize, wall_s: f64) -> Result<(), Loss> {
        self.0[contestant] += wall_s;
        let (taken, incumbent) = (self.0[contestant], self.0[INCUMBENT]);
        // Until the incumbent has had a turn there is nothing to compare with; the first turns are short.
        let far_too_long = incumbent > 0.0 && taken > BEARABLE_S.max(TIMES_THE_INCUMBENT * incumbent);
        if far_too_long {
            let message = format!("took {taken:.1} s so far, and the incumbent {incumbent:.3} s: it is far too slow");
            return Err(Loss::new(FailureKind::TooSlow, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_fits_into_its_request() {
        for (device_s, wall_s, handicap, is_possible) in [
            (0.0, 1.0, 0.0, true),
            (1.0, 1.0, 0.0, true),
            (1.01, 1.0, 0.0, false),
            (1.01, 1.0, 0.02, true),
            (1e7, 1.0, 0.0, false),
            (-1e-9, 1.0, 0.0, false),
            (f64::NAN, 1.0, 0.0, false),
            (f64::INFINITY, 1.0, 0.0, false),
        ] {
            let kind = possible(device_s, wall_s, handicap).err().map(|loss| loss.kind);
            assert_eq!(kind, (!is_possible).then_some(FailureKind::Protocol), "{device_s} of {wall_s} {handicap}");
        }
    }

    #[test]
    fn a_minute_is_too_long_where_the_incumbent_takes_seconds() {
        let mut taken = Taken::new(3);
        assert!(taken.add(1, 61.0).is_ok(), "the incumbent had no turn");
        taken.add(INCUMBENT, 2.0).unwrap();
        let loss = taken.add(1, 1.0).unwrap_err();
        assert_eq!(loss.kind, FailureKind::TooSlow);
        assert!(loss.message.contains("62.0 s") && loss.message.contains("2.000 s"), "{}", loss.message);
        assert!(taken.add(2, 59.0).is_ok(), "a minute is borne");
        taken.add(INCUMBENT, 2.0).unwrap();
        assert!(taken.add(1, 1.0).is_ok(), "not twenty times as long");
        assert!(taken.add(1, 18.0).is_err());
        assert!(taken.add(INCUMBENT, 1000.0).is_ok(), "never the incumbent");
    }
}
