//! Gains with their intervals, a row each: the shapes, all of them together, and the incumbent against itself.

use kopt_schema::evidence::{Estimate, Verdict};

use super::rows::Rows;
use super::{ROWS, Tone, is_drawn, line, mark, write};
use crate::page::axis::{Axis, Spread, gain, place};
use crate::page::markup::Markup;
use crate::records::numbers;

/// The plot; `least` is the gain that is drawn as a line: the least of an accept, or the slowdown that fails a gate.
#[must_use]
pub fn intervals(verdict: &Verdict, least: f64) -> Markup {
    let mut rows: Vec<(&str, Tone, Option<&Estimate>, bool)> = verdict
        .shapes
        .iter()
        .take(ROWS)
        .map(|shape| (shape.shape.as_str(), Tone::of(shape.direction), Some(&shape.estimate), false))
        .collect();
    if let Some(aggregate) = &verdict.aggregate {
        rows.push(("all shapes", Tone::of(verdict.direction), Some(aggregate), true));
    }
    if let Some(control) = &verdict.control {
        rows.push(("control", Tone::Even, Some(control), false));
    }
    let frame = Rows::new(rows.iter().map(|row| (row.0, row.3)), 25.0, 66.0);
    let drawn = rows.iter().filter_map(|row| row.2).filter(|estimate| is_drawn(estimate));
    let values = drawn.flat_map(|estimate| [estimate.low, estimate.gain, estimate.high]).chain([0.0]);
    let axis = Axis::around(Spread::Gain, values, frame.places());
    let words = [
        "Gains by shape, with intervals",
        "One row a shape: the estimate as a mark, its interval as a bar. Right of the solid line is faster.",
        "gain: time before / time after − 1",
    ];
    frame.plot(words, &axis, gain, |svg| {
        line(svg, "zero", [axis.at(0.0), 4.0], [axis.at(0.0), frame.bottom()]);
        if axis.holds(least) && least != 0.0 {
            line(svg, "least", [axis.at(least), 4.0], [axis.at(least), frame.bottom()]);
        }
        for (row, (_, tone, estimate, strong)) in rows.iter().enumerate() {
            let (Some(estimate), y) = (estimate, frame.middle(row)) else { continue };
            svg.element("g", &[("class", tone.class())], |group| {
                if is_drawn(estimate) {
                    let (low, high) = (axis.at(estimate.low), axis.at(estimate.high));
                    let (low, high, y) = (place(low), place(high), place(y));
                    let bar = format!("M{low} {y}H{high}M{low} {y}m0 -4v8M{high} {y}m0 -4v8");
                    group.single("path", &[("class", "bar"), ("d", &bar)]);
                    mark(group, *tone, [axis.at(estimate.gain), frame.middle(row)], if *strong { 5.5 } else { 4.0 });
                }
                let class = if *strong { "end strong" } else { "end name" };
                write(group, class, [458.0, frame.middle(row) + 4.0], &numbers::gain(estimate.gain));
            });
        }
    })
}
