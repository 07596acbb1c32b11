//! Which share of the device's measured ceiling each shape reaches, before and after.

use super::rows::Rows;
use super::{ROWS, Tone, line, ring_and_dot, write};
use crate::page::axis::{Axis, Spread, place};
use crate::page::markup::Markup;

/// A shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Its name.
    pub shape: String,
    /// Its share before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// Whether that is a difference.
    pub tone: Tone,
}

/// The plot.
#[must_use]
pub fn ceiling(shapes: &[Shares]) -> Markup {
    let shapes = &shapes[..shapes.len().min(ROWS)];
    let frame = Rows::new(shapes.iter().map(|shape| (shape.shape.as_str(), false)), 25.0, 18.0);
    let most = shapes
        .iter()
        .flat_map(|shape| [shape.before, shape.after])
        .filter(|share| share.is_finite())
        .fold(1.0, f64::max);
    let axis = Axis::between(Spread::Linear, [0.0, most * 1.04], frame.places());
    let words = [
        "Share of the ceiling by shape",
        "One row a shape: a ring before, a dot after. The dashed line is the measured ceiling.",
        "share of the measured ceiling",
    ];
    let written = |share: f64, _: f64| format!("{:.0} %", 100.0 * share);
    frame.plot(words, &axis, written, |svg| {
        line(svg, "least", [axis.at(1.0), 4.0], [axis.at(1.0), frame.bottom()]);
        for (row, Shares { before, after, tone, .. }) in shapes.iter().enumerate() {
            let (y, from, to) = (frame.middle(row), axis.at(*before), axis.at(*after));
            svg.element("g", &[("class", tone.class())], |group| {
                let bar = format!("M{} {}H{}", place(from), place(y), place(to));
                group.single("path", &[("class", "bar"), ("d", &bar)]);
                ring_and_dot(group, [from, y], [to, y]);
            });
            // Beside the point, on the side where nothing is.
            let told = format!("{:.0} %", 100.0 * after);
            match to.max(from) + 42.0 < frame.places()[1] {
                true => write(svg, "name", [to.max(from) + 11.0, y + 4.0], &told),
                false => write(svg, "end name", [to.min(from) - 11.0, y + 4.0], &told),
            }
        }
    })
}
