//! One row a shape, names at the left, an axis below: what several plots have in common.

use super::{line, short, svg, write};
use crate::page::axis::{Axis, place};
use crate::page::markup::Markup;

/// The width of such a plot: it must be read on a phone.
const WIDTH: f64 = 460.0;

/// Letters of a name at most.
const LETTERS: usize = 22;

/// Height of the axis with its name.
const FOOT: f64 = 40.0;

/// The frame of a plot by rows.
pub struct Rows {
    names: Vec<(String, bool)>,
    height: f64,
    from: f64,
    to: f64,
}

impl Rows {
    /// A frame for these names, strong ones set apart, with rows of that height and `margin` left at the right.
    pub fn new<'a>(names: impl IntoIterator<Item = (&'a str, bool)>, height: f64, margin: f64) -> Self {
        let names: Vec<(String, bool)> =
            names.into_iter().map(|(name, strong)| (short(name, LETTERS), strong)).collect();
        let longest = names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        Self { names, height, from: (18.0 + 6.9 * longest as f64).max(60.0), to: WIDTH - margin }
    }

    /// Where the axis begins and ends.
    pub const fn places(&self) -> [f64; 2] {
        [self.from, self.to]
    }

    /// The middle of a row.
    pub fn middle(&self, row: usize) -> f64 {
        6.0 + self.height * (row as f64 + 0.5)
    }

    /// The lower end of the rows.
    pub fn bottom(&self) -> f64 {
        6.0 + self.height * self.names.len() as f64
    }

    /// The plot: names, grid and axis, then what `inside` draws.
    pub fn plot(
        &self,
        words: [&str; 3],
        axis: &Axis,
        written: impl Fn(f64, f64) -> String,
        inside: impl FnOnce(&mut Markup),
    ) -> Markup {
        let [title, description, name] = words;
        let bottom = self.bottom();
        svg([WIDTH, bottom + FOOT], title, description, |svg| {
            let room = ((self.to - self.from) / 70.0).floor().max(2.0) as usize;
            for (value, text) in axis.ticks(room, written) {
                let x = axis.at(value);
                line(svg, "grid", [x, 4.0], [x, bottom]);
                // At the edge it moves inside, where it can be read.
                let half = 3.6 * text.chars().count() as f64;
                write(svg, "mid", [x.min(WIDTH - half), bottom + 15.0], &text);
            }
            write(svg, "mid", [(self.from + self.to) / 2.0, bottom + 33.0], name);
            for (row, (name, strong)) in self.names.iter().enumerate() {
                let class = if *strong { "end strong" } else { "end name" };
                write(svg, class, [self.from - 12.0, self.middle(row) + 4.0], name);
            }
            inside(svg);
            let across = format!("M{} {}H{}", place(self.from), place(bottom), place(self.to));
            svg.single("path", &[("class", "zero"), ("d", &across)]);
        })
    }
}
