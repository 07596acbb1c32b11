//! Whether a version has become slower than a tolerance allows: the mirror image of an accept. A gate has the opposite
//! burden: what is not shown to be slower passes, so that a slowdown must be shown, by its lower bound, and again by fresh
//! launches; and a version is called clear only where its upper bound stays below the tolerance everywhere.
//!
//! The hypotheses are the aggregate and every shape. The screen tests all of them and splits its level over them (Holm),
//! because with eight shapes one of them looks slow by chance eight times as often; the confirmation tests only those that
//! the screen has named, and so keeps its power. One that is clear at a look is settled, and needs no more launches: a quiet
//! shape is not measured on for the sake of a noisy one. It still counts among those that the level is split over. *Clear* is
//! claimed of all of them, and needs no such division: more shapes make a false all-clear rarer.
//!
//! Launches that go through the open shapes alone measure these more closely, and each counts by how closely that was.

use crate::effect::{Effect, combine};
use crate::multiple::holm;
use crate::standing::Shape;

/// What can be slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The geometric mean over all shapes.
    Aggregate,
    /// This shape, by index.
    Shape(usize),
}

/// What the launches so far say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slowdown {
    /// These are slower by more than the tolerance, the slowest first.
    Slower(Vec<Part>),
    /// None of those tested is slower by the tolerance.
    Clear,
    /// Neither is certain of these: launch again, or, where the budget has ended, say that it cannot be told.
    Undecided(Vec<Part>),
}

/// One-sided levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowdownLevels {
    /// At which a slowdown is shown, over all parts together. This is what false alarms rest on.
    pub shown: f64,
    /// At which a slowdown of the tolerance is ruled out, for each part.
    pub ruled_out: f64,
}

/// Where a version stands against `tolerance`, a share of the old time (0.02 is 2 %), in the parts that are `open`; `settled`
/// others were found clear before. The aggregate is over the launches that have all shapes. With fewer than two
/// launches, or no shapes, nothing is decided.
#[must_use]
pub fn slowdown(shapes: &[Shape], tolerance: f64, open: &[Part], settled: usize, levels: SlowdownLevels) -> Slowdown {
    let limit = -tolerance.ln_1p();
    let whole = shapes.iter().map(|shape| shape.gains.len()).min().unwrap_or(0);
    let gains: Vec<&[f64]> = shapes.iter().map(|shape| &shape.gains[..whole]).collect();
    let effect = |part: &Part| match part {
        Part::Aggregate => Effect::of(&combine(&gains)),
        Part::Shape(index) => shapes.get(*index).map_or_else(|| Effect::of(&[]), Shape::effect),
    };
    let effects: Vec<Effect> = open.iter().map(effect).collect();
    let chances = effects.iter().map(|effect| effect.p_below(limit)).chain(std::iter::repeat_n(1.0, settled));
    let shown = holm(&chances.collect::<Vec<_>>(), levels.shown);
    let mut slower: Vec<usize> = (0..open.len()).filter(|&index| shown[index]).collect();
    if !slower.is_empty() {
        slower.sort_by(|&a, &b| effects[a].mean.total_cmp(&effects[b].mean));
        return Slowdown::Slower(slower.into_iter().map(|index| open[index]).collect());
    }
    let is_open = |(_, effect): &(&Part, &Effect)| effect.p_above(limit) >= levels.ruled_out || shapes.is_empty();
    let left: Vec<Part> = open.iter().zip(&effects).filter(is_open).map(|(part, _)| *part).collect();
    if left.is_empty() && !open.is_empty() { Slowdown::Clear } else { Slowdown::Undecided(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: SlowdownLevels = SlowdownLevels { shown: 0.02 / 6.0, ruled_out: 0.02 };

    /// Twelve launches with this mean slowdown and this spread, in per cent.
    fn launches(slower: f64, spread: f64) -> Vec<f64> {
        let mean = -(slower / 100.0).ln_1p();
        (0..12).map(|launch| mean + spread / 100.0 * if launch % 2 == 0 { 1.0 } else { -1.0 }).collect()
    }

    fn every_part(shapes: usize) -> Vec<Part> {
        std::iter::once(Part::Aggregate).chain((0..shapes).map(Part::Shape)).collect()
    }

    fn stand(slower: &[f64], spread: f64, named: Option<&[Part]>) -> Slowdown {
        let gains: Vec<Vec<f64>> = slower.iter().map(|slower| launches(*slower, spread)).collect();
        let shapes: Vec<Shape> =
            gains.iter().map(|gains| Shape { name: "", core: true, gains, weights: &[] }).collect();
        slowdown(&shapes, 0.02, named.unwrap_or(&every_part(slower.len())), 0, LEVELS)
    }

    #[test]
    fn every_line_of_the_table() {
        use Part::{Aggregate, Shape};
        assert_eq!(stand(&[0.0, 0.5], 1.0, None), Slowdown::Clear);
        assert_eq!(stand(&[-10.0, -8.0], 1.0, None), Slowdown::Clear);
        assert_eq!(stand(&[5.0, 6.0], 1.0, None), Slowdown::Slower(vec![Shape(1), Aggregate, Shape(0)]));
        let eight = [0.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(stand(&eight, 1.0, None), Slowdown::Slower(vec![Shape(1)]));
        assert_eq!(stand(&[2.0, 2.0], 1.0, None), Slowdown::Undecided(every_part(2)));
        // What is clear is settled.
        assert_eq!(stand(&[2.0, -9.0], 1.0, None), Slowdown::Undecided(vec![Shape(0)]));
        // A gain elsewhere hides nothing.
        assert_eq!(stand(&[-30.0, 10.0], 1.0, None), Slowdown::Slower(vec![Shape(1)]));
    }

    #[test]
    fn a_confirmation_looks_only_at_what_was_named() {
        let named = [Part::Shape(1)];
        assert_eq!(stand(&[20.0, 0.0], 1.0, Some(&named)), Slowdown::Clear);
        assert_eq!(stand(&[0.0, 20.0], 1.0, Some(&named)), Slowdown::Slower(named.to_vec()));
        assert_eq!(stand(&[0.0, 20.0], 1.0, Some(&[])), Slowdown::Undecided(Vec::new()));
        let unknown = vec![Part::Shape(7)];
        assert_eq!(stand(&[0.0], 1.0, Some(&unknown)), Slowdown::Undecided(unknown));
    }

    #[test]
    fn nothing_measured_is_not_clear() {
        assert_eq!(slowdown(&[], 0.02, &every_part(0), 0, LEVELS), Slowdown::Undecided(every_part(0)));
        let shape = Shape { name: "", core: true, gains: &[-0.5], weights: &[] };
        assert_eq!(slowdown(&[shape], 0.02, &every_part(1), 0, LEVELS), Slowdown::Undecided(every_part(1)));
    }

    #[test]
    fn what_was_settled_still_shares_the_level_and_needs_no_launches() {
        let noisy = launches(3.2, 0.9);
        let shape = |gains| Shape { name: "", core: true, gains, weights: &[] };
        let shapes = [shape(noisy.as_slice()), shape(&noisy[..6])];
        let open = [Part::Shape(0)];
        assert_eq!(slowdown(&shapes, 0.02, &open, 0, LEVELS), Slowdown::Slower(open.to_vec()));
        assert_eq!(slowdown(&shapes, 0.02, &open, 50, LEVELS), Slowdown::Undecided(open.to_vec()));
    }
}
