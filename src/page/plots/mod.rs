//! Plots, as SVG that is part of the page: colours come from its style, so that light, dark and paper each have their own,
//! and no meaning is told by colour alone.
//!
//! | module | shows |
//! |---|---|
//! | `rows` | what the plots with one row a shape have in common |
//! | [`mod@intervals`] | gains with their intervals |
//! | [`mod@strip`] | every launch, and every block where there is room |
//! | [`mod@ceiling`] | shares of the measured ceiling, before and after |
//! | [`mod@roofline`] | the same in the device's terms: work a byte against work a second |
//! | [`mod@score`] | the gain over the baseline, round by round |
//! | [`mod@heat`] | shapes by rounds |

pub mod ceiling;
pub mod heat;
pub mod intervals;
pub mod roofline;
mod rows;
pub mod score;
pub mod strip;

use kopt_schema::evidence::{Direction, Estimate};

use super::axis::place;
use super::markup::Markup;
use crate::records::text;

/// Rows of a plot at most: more are in the table only.
pub const ROWS: usize = 40;

/// What a mark says besides its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Better: blue, filled, round.
    Good,
    /// Worse: orange, a cross or a square.
    Bad,
    /// Neither: grey, hollow.
    Even,
}

impl Tone {
    /// That of a direction.
    #[must_use]
    pub const fn of(direction: Direction) -> Self {
        match direction {
            Direction::Faster => Self::Good,
            Direction::Slower => Self::Bad,
            Direction::Same | Direction::CannotTell => Self::Even,
        }
    }

    /// Its class in the style.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Even => "even",
        }
    }
}

/// An SVG of that size, which names and describes itself.
fn svg(size: [f64; 2], title: &str, description: &str, inside: impl FnOnce(&mut Markup)) -> Markup {
    let mut plot = Markup::default();
    let view = format!("0 0 {} {}", place(size[0]), place(size[1]));
    plot.element("svg", &[("viewBox", &view), ("role", "img"), ("aria-label", title)], |svg| {
        svg.leaf("desc", &[], description);
        inside(svg);
    });
    plot
}

/// Words at a place.
fn write(to: &mut Markup, class: &str, at: [f64; 2], words: &str) {
    to.leaf("text", &[("class", class), ("x", &place(at[0])), ("y", &place(at[1]))], words);
}

/// A straight line.
fn line(to: &mut Markup, class: &str, from: [f64; 2], end: [f64; 2]) {
    let path = format!("M{} {}L{} {}", place(from[0]), place(from[1]), place(end[0]), place(end[1]));
    to.single("path", &[("class", class), ("d", &path)]);
}

/// The mark of an estimate, by its tone: a filled circle, a square, a hollow circle.
fn mark(to: &mut Markup, tone: Tone, at: [f64; 2], size: f64) {
    let (x, y) = (place(at[0]), place(at[1]));
    match tone {
        Tone::Bad => {
            let (left, top) = (place(at[0] - size * 0.9), place(at[1] - size * 0.9));
            let side = place(size * 1.8);
            to.single("rect", &[("class", "mark"), ("x", &left), ("y", &top), ("width", &side), ("height", &side)]);
        }
        Tone::Good | Tone::Even => {
            let class = if tone == Tone::Good { "mark" } else { "hollow" };
            to.single("circle", &[("class", class), ("cx", &x), ("cy", &y), ("r", &place(size))]);
        }
    }
}

/// Before and after: a ring, and a dot that does not cover it.
fn ring_and_dot(to: &mut Markup, before: [f64; 2], after: [f64; 2]) {
    let [x, y] = before.map(place);
    to.single("circle", &[("class", "ring"), ("cx", &x), ("cy", &y), ("r", "5.5")]);
    let [x, y] = after.map(place);
    to.single("circle", &[("class", "dot"), ("cx", &x), ("cy", &y), ("r", "3.5")]);
}

/// Dots as one path: a dot takes some ten bytes.
fn dots(to: &mut Markup, class: &str, places: impl IntoIterator<Item = [f64; 2]>) {
    let path: String = places.into_iter().map(|[x, y]| format!("M{} {}h0", place(x), place(y))).collect();
    if !path.is_empty() {
        to.single("path", &[("class", class), ("d", &path)]);
    }
}

/// A name in the width of a plot.
fn short(name: &str, most: usize) -> String {
    text::cut(&text::line(name), most)
}

/// Whether all of it can be drawn.
fn is_drawn(of: &Estimate) -> bool {
    [of.gain, of.low, of.high].iter().all(|value| value.is_finite() && *value > -1.0)
}
