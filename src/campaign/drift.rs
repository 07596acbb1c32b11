//! Policy `tile`: no shape becomes 2 % slower than the baseline, in however many steps. A round is held against the version
//! that stands, so that losses of which none is shown by itself could add up; what all accepted rounds measured of a shape
//! together shows them.

use kopt_schema::evidence::{Evidence, ShapeVerdict};
use kopt_stats::Policy;

use super::Campaign;
use crate::ledger::{self, Outcome};

/// No shape may take this much more time than with the baseline.
const MOST: f64 = 0.02;

impl Campaign<'_> {
    /// Why a candidate of policy `tile` is not accepted, if a shape would be slower than the baseline with it.
    pub(super) fn drift_of(&self, found: &Evidence) -> Option<String> {
        if self.target.policy.parse() != Ok(Policy::Tile) {
            return None;
        }
        let accepted = self.state().rounds.iter().filter(|round| matches!(round.outcome, Some(Outcome::Accepted(_))));
        // Evidence that somebody has removed since is no reason to stop.
        let before = accepted.filter_map(|round| self.evidence_of(round.number, round.full()?).ok());
        let before: Vec<Vec<ShapeVerdict>> = before.map(|evidence| evidence.verdict.shapes).collect();
        let chain: Vec<&[ShapeVerdict]> = before.iter().map(Vec::as_slice).chain([&*found.verdict.shapes]).collect();
        let (shape, slower) = slower(&chain)?;
        Some(format!(
            "{shape} would take {:.1} % longer than with the baseline, by what the accepted rounds and this one measured: \
             policy `tile` allows {:.0} %",
            100.0 * slower,
            100.0 * MOST
        ))
    }
}

/// The shape of the last round that all rounds together made slowest, and by how much; none where that is less than may be, or
/// could be chance.
fn slower(rounds: &[&[ShapeVerdict]]) -> Option<(String, f64)> {
    let last = rounds.last()?;
    let losses = last.iter().filter_map(|shape| {
        let of_it = rounds.iter().flat_map(|round| round.iter().filter(|other| other.shape == shape.shape));
        let (gain, _, high) = ledger::chain(of_it.map(|verdict| &verdict.estimate))?;
        let slower = 1.0 / (1.0 + gain) - 1.0;
        (high < 0.0 && slower >= MOST).then(|| (shape.shape.clone(), slower))
    });
    losses.max_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use kopt_schema::evidence::{Direction, Estimate};

    use super::*;

    fn shape(name: &str, gain: f64, width: f64) -> ShapeVerdict {
        let (low, high) = (gain - width, gain + width);
        ShapeVerdict {
            shape: name.to_owned(),
            core: true,
            direction: Direction::CannotTell,
            estimate: Estimate { gain, low, high, confidence: 0.98, launch_sigma: 0.01, launches: 12 },
            incumbent_s: 1.0,
            candidate_s: 1.0,
        }
    }

    #[test]
    fn losses_that_are_none_by_themselves_add_up() {
        let (tall, wide) = (shape("tall", -0.012, 0.015), shape("wide", 0.1, 0.01));
        let round = [tall.clone(), wide.clone()];
        // One of 1.2 % may be chance, and is less than what is allowed.
        assert_eq!(slower(&[&round]), None);
        let (name, loss) = slower(&[&round, &round, &round]).unwrap();
        assert_eq!(name, "tall");
        assert!((loss - 0.0369).abs() < 1e-3, "{loss}");
        // A round that gave it back counts, too, and so does one that did not measure it.
        let back = [shape("tall", 0.03, 0.015), wide.clone()];
        assert_eq!(slower(&[&round, &back, &round, &round]), None);
        assert!(slower(&[&round, std::slice::from_ref(&wide), &round, &round]).is_some());
        assert_eq!(slower(&[&round, &round, &round, &[wide]]), None);
        assert_eq!(slower(&[]), None);
    }

    #[test]
    fn what_could_be_chance_is_none() {
        let unsure = [shape("tall", -0.012, 0.05)];
        assert_eq!(slower(&[&unsure, &unsure]), None);
        // Shown, and less than what is allowed.
        let little = [shape("tall", -0.004, 0.001)];
        assert_eq!(slower(&[&little, &little, &little]), None);
        // The slowest is named.
        let both = [shape("tall", -0.03, 0.001), shape("wide", -0.04, 0.001)];
        assert_eq!(slower(&[&both]).unwrap().0, "wide");
    }
}
