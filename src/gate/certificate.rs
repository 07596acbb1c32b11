//! Whether a crate's check can be trusted: what it made of wrong results, and by how much its bounds would have to shrink
//! where it let some pass.

use kopt_schema::message::{Certified, MutantTaken};
use serde::{Deserialize, Serialize};

/// What a crate's check made of mutants of its own reference, one row an entry and shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The rows.
    pub rows: Vec<Certified>,
}

/// Bounds between the kernel's own error and that of the cheapest mutant that passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The kernel's own error, in shares of the present bound.
    pub honest: f64,
    /// The mutant's.
    pub mutant: f64,
    /// What the present bounds are to be multiplied with: as far from the one as from the other.
    pub factor: f64,
    /// How far that is.
    pub margin: f64,
}

impl Certificate {
    /// Mutants that were tried.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.rows.iter().map(|row| row.mutants.len()).sum()
    }

    /// Mutants that passed, and where.
    #[must_use]
    pub fn passed(&self) -> Vec<(&Certified, &MutantTaken)> {
        self.all().filter(|(_, taken)| !taken.caught).collect()
    }

    /// The refused mutant that came nearest to passing.
    #[must_use]
    pub fn nearest(&self) -> Option<(&Certified, &MutantTaken)> {
        let caught = self.all().filter(|(_, taken)| taken.caught);
        caught.min_by(|(_, a), (_, b)| a.excess.total_cmp(&b.excess))
    }

    /// The largest error of the crate's own kernel, in shares of its bound, where it could be run.
    #[must_use]
    pub fn honest(&self) -> Option<f64> {
        self.rows.iter().filter_map(|row| row.honest).reduce(f64::max)
    }

    /// Bounds that would have refused every mutant that passed, and take the kernel; nothing where there are none.
    #[must_use]
    pub fn fit(&self) -> Option<Fit> {
        let passed = self.passed();
        let mutant = passed.iter().map(|(_, taken)| taken.excess).reduce(f64::min)?;
        // Bounds are those of an entry: others need not change.
        let concerned = |row: &&Certified| passed.iter().any(|(weak, _)| weak.entry == row.entry);
        let honest = self.rows.iter().filter(concerned).filter_map(|row| row.honest).reduce(f64::max)?;
        // A kernel without any error still needs a bound to be within.
        let floor = honest.max(mutant * 1e-6);
        (floor < mutant).then(|| Fit {
            honest,
            mutant,
            factor: (floor * mutant).sqrt(),
            margin: (mutant / floor).sqrt(),
        })
    }

    /// What to do about mutants that passed, for people.
    #[must_use]
    pub fn advice(&self) -> String {
        match (self.fit(), self.honest()) {
            (Some(fit), _) => format!(
                "the kernel's own error is at most {} of the bounds, the cheapest of these mutants {}: bounds of {} of what they are would refuse it, with a factor of {} to either side",
                share(fit.honest),
                share(fit.mutant),
                share(fit.factor),
                share(fit.margin)
            ),
            (None, Some(honest)) => format!(
                "no bounds tell it from the kernel, whose own error is {} of the present ones: make the kernel more exact, or the inputs such that the mutant shows",
                share(honest)
            ),
            (None, None) => "the kernel cannot be run here, so that nothing is known of its own error".to_owned(),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&Certified, &MutantTaken)> {
        self.rows.iter().flat_map(|row| row.mutants.iter().map(move |taken| (row, taken)))
    }
}

/// A mutant and where it was tried, for people.
#[must_use]
pub fn told((row, taken): (&Certified, &MutantTaken)) -> String {
    format!("{} of `{}` in {}/{}", taken.mutant, taken.output, row.entry, row.case)
}

/// A number of bounds, with two digits that count.
#[must_use]
pub fn share(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if (0.001..0.01).contains(&value) => format!("{value:.4}"),
        _ if (0.01..0.1).contains(&value) => format!("{value:.3}"),
        _ if (0.1..10.0).contains(&value) => format!("{value:.2}"),
        _ if (10.0..1e5).contains(&value) => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(honest: Option<f64>, mutants: &[(&str, bool, f64)]) -> Certified {
        let taken = |(mutant, caught, excess): &(&str, bool, f64)| MutantTaken {
            mutant: (*mutant).to_owned(),
            output: "y".to_owned(),
            caught: *caught,
            distribution: "uniform".to_owned(),
            excess: *excess,
        };
        Certified {
            kernel: "k".to_owned(),
            entry: "op".to_owned(),
            case: "8x8".to_owned(),
            honest,
            missing: None,
            mutants: mutants.iter().map(taken).collect(),
        }
    }

    #[test]
    fn the_fit_lies_between_the_kernel_and_the_cheapest_mutant_that_passed() {
        let rows = vec![
            row(Some(0.001), &[("zeros", true, 90.0), ("mean", false, 0.4)]),
            row(Some(0.0001), &[("lower-precision", false, 0.1), ("stale-output", true, 3.0)]),
        ];
        let certificate = Certificate { rows };
        assert_eq!(certificate.tried(), 4);
        assert_eq!(certificate.passed().len(), 2);
        assert_eq!(certificate.nearest().map(|(_, taken)| taken.mutant.as_str()), Some("stale-output"));
        let fit = certificate.fit().unwrap();
        assert!((fit.factor - 0.01).abs() < 1e-12 && (fit.margin - 10.0).abs() < 1e-9, "{fit:?}");
        assert!(certificate.advice().contains("bounds of 0.010 of what they are"), "{}", certificate.advice());
    }

    #[test]
    fn a_kernel_as_far_off_as_the_mutant_has_no_fit() {
        let certificate = Certificate { rows: vec![row(Some(0.5), &[("lower-precision", false, 0.5)])] };
        assert_eq!(certificate.fit(), None);
        assert!(certificate.advice().starts_with("no bounds tell"), "{}", certificate.advice());
        let unknown = Certificate { rows: vec![row(None, &[("zeros", false, 0.5)])] };
        assert!(unknown.advice().contains("cannot be run here"));
    }

    #[test]
    fn an_exact_kernel_gets_a_bound_all_the_same() {
        let certificate = Certificate { rows: vec![row(Some(0.0), &[("zeros", false, 0.5)])] };
        let fit = certificate.fit().unwrap();
        assert!(fit.factor > 0.0 && fit.factor < 0.5, "{fit:?}");
    }
}
