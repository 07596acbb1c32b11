//! Every launch as a dot, and every block behind it where there is room: whether an interval rests on many launches that
//! agree or on one that does not, can be seen.

use kopt_schema::evidence::StageKind;

use super::rows::Rows;
use super::{ROWS, dots, line};
use crate::page::axis::{Axis, Spread, gain};
use crate::page::launches::{Launch, ShapeLaunches};
use crate::page::markup::Markup;

/// Height of a row.
const ROW: f64 = 34.0;

/// How far blocks may stretch the axis beyond the launches, as a part of what those span.
const STRETCH: f64 = 0.75;

/// The plot, and how many blocks lie beyond its axis; none are drawn unless `blocks` asks for them.
#[must_use]
pub fn strip(shapes: &[ShapeLaunches], blocks: bool) -> (Markup, usize) {
    let shapes = &shapes[..shapes.len().min(ROWS)];
    let frame = Rows::new(shapes.iter().map(|shape| (shape.shape.as_str(), false)), ROW, 12.0);
    let launches = || shapes.iter().flat_map(|shape| &shape.launches);
    let gains = || launches().map(|launch| launch.gain).filter(|gain| gain.is_finite() && *gain > -1.0);
    let all = || launches().flat_map(|launch| &launch.blocks).copied().filter(|gain| gain.is_finite());
    let narrow = Axis::around(Spread::Gain, gains().chain([0.0]), frame.places());
    let axis = if blocks { stretched(&narrow, all(), frame.places()) } else { narrow };
    let beyond = if blocks { all().filter(|gain| !axis.holds(*gain)).count() } else { 0 };
    let words = [
        "Launches by shape",
        "One row a shape, one dot a launch, in the order they were made from top to bottom: round ones found the gain, \
         square ones confirmed it. The small dots behind them are blocks.",
        "gain of a launch",
    ];
    let plot = frame.plot(words, &axis, gain, |svg| {
        line(svg, "zero", [axis.at(0.0), 4.0], [axis.at(0.0), frame.bottom()]);
        for (row, shape) in shapes.iter().enumerate() {
            if row > 0 {
                let border = frame.middle(row) - ROW / 2.0;
                line(svg, "grid", [frame.places()[0], border], [frame.places()[1], border]);
            }
            let count = shape.launches.len();
            let middle = frame.middle(row);
            let y = |index: usize| middle + (ROW - 9.0) * ((index as f64 + 0.5) / count as f64 - 0.5);
            let placed = || shape.launches.iter().enumerate();
            if blocks {
                let all = placed().flat_map(|(index, launch)| launch.blocks.iter().map(move |gain| (index, *gain)));
                dots(svg, "blocks", all.filter(|(_, gain)| axis.holds(*gain)).map(|(at, gain)| [axis.at(gain), y(at)]));
            }
            let of = |kind: StageKind| {
                let own = placed().filter(move |(_, launch): &(usize, &Launch)| launch.stage == kind);
                own.filter(|(_, launch)| launch.gain.is_finite())
            };
            dots(svg, "screen", of(StageKind::Screen).map(|(at, launch)| [axis.at(launch.gain), y(at)]));
            dots(svg, "confirmation", of(StageKind::Confirmation).map(|(at, launch)| [axis.at(launch.gain), y(at)]));
        }
    });
    (plot, beyond)
}

/// The axis of the launches, stretched for blocks as far as that leaves the launches to be seen.
fn stretched(narrow: &Axis, blocks: impl Iterator<Item = f64>, places: [f64; 2]) -> Axis {
    let [low, high] = narrow.ends().map(f64::ln_1p);
    let room = STRETCH * (high - low);
    let blocks: Vec<f64> = blocks.map(f64::ln_1p).filter(|gain| gain.is_finite()).collect();
    let least = blocks.iter().copied().fold(low, f64::min).max(low - room);
    let most = blocks.iter().copied().fold(high, f64::max).min(high + room);
    Axis::between(Spread::Gain, [least.exp_m1(), most.exp_m1()], places)
}
