//! Shapes by rounds: where a change helped, and where it cost.

use super::{ROWS, short, svg, write};
use crate::page::axis::place;
use crate::page::markup::Markup;

/// A round's column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its number.
    pub round: u32,
    /// Whether it stands.
    pub accepted: bool,
    /// The gain on each shape over the version before, where it was measured.
    pub gains: Vec<Option<f64>>,
}

/// Gains from which a colour holds, and their ratios' mirror images for losses.
const STEPS: [f64; 4] = [0.005, 0.02, 0.1, 0.4];

/// The classes, from the worst to the best.
const CLASSES: [&str; 9] = ["h-4", "h-3", "h-2", "h-1", "h0", "h1", "h2", "h3", "h4"];

/// Width of the plot.
const WIDTH: f64 = 920.0;

/// Height of a row.
const ROW: f64 = 26.0;

/// Columns narrower than this have no numbers in them.
const ROOM: f64 = 38.0;

/// The plot of `shapes` by `columns`.
#[must_use]
pub fn heat(shapes: &[String], columns: &[Column]) -> Markup {
    let shapes = &shapes[..shapes.len().min(ROWS)];
    let names: Vec<String> = shapes.iter().map(|shape| short(shape, 22)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let left = 24.0 + 7.0 * longest as f64;
    let wide = ((WIDTH - left - 8.0) / columns.len().max(1) as f64).min(64.0);
    let top = 24.0;
    let bottom = top + ROW * shapes.len() as f64;
    let gap = if wide > 12.0 { 2.0 } else { 0.5 };
    let words = "One column a round, one row a shape: blue is faster than the version before it, orange slower, grey neither, \
                 an outline not measured. A dot above a column marks an accepted round.";
    svg([WIDTH, bottom + 72.0], "Shapes by rounds", words, |svg| {
        for (row, name) in names.iter().enumerate() {
            write(svg, "end name", [left - 10.0, top + ROW * (row as f64 + 0.5) + 4.0], name);
        }
        let cell = |column: usize, row: usize| {
            let (x, y) = (left + wide * column as f64, top + ROW * row as f64);
            format!("M{} {}h{}v{}h-{}z", place(x), place(y), place(wide - gap), place(ROW - 2.0), place(wide - gap))
        };
        let cells = || {
            columns.iter().enumerate().flat_map(|(at, column)| {
                (0..shapes.len()).map(move |row| (at, row, column.gains.get(row).copied().flatten()))
            })
        };
        // One path a colour: a thousand cells take a few dozen bytes each.
        for class in CLASSES.iter().chain(&["none"]) {
            let path: String = cells()
                .filter(|(_, _, gain)| gain.map_or("none", class_of) == *class)
                .map(|(column, row, _)| cell(column, row))
                .collect();
            if !path.is_empty() {
                svg.single("path", &[("class", class), ("d", &path)]);
            }
        }
        if wide >= ROOM {
            for (column, row, gain) in cells() {
                let Some(gain) = gain.filter(|gain| gain.is_finite()) else { continue };
                let at = [left + wide * (column as f64 + 0.5) - gap / 2.0, top + ROW * (row as f64 + 0.5) + 3.0];
                write(svg, ink(class_of(gain)), at, &told(gain));
            }
        }
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|step| wide * f64::from(*step) >= 24.0).unwrap_or(100);
        for (at, column) in columns.iter().enumerate() {
            let x = left + wide * (at as f64 + 0.5) - gap / 2.0;
            if column.accepted {
                svg.element("g", &[("class", "good")], |group| {
                    let r = place((wide / 3.0).clamp(1.5, 4.5));
                    group.single(
                        "circle",
                        &[("class", "mark"), ("cx", &place(x)), ("cy", &place(top - 10.0)), ("r", &r)],
                    );
                });
            }
            if column.round.is_multiple_of(step) {
                write(svg, "mid", [x, bottom + 15.0], &column.round.to_string());
            }
        }
        write(svg, "end", [left - 10.0, bottom + 15.0], "round");
        legend(svg, left, bottom + 34.0);
    })
}

/// `+12`, in per cent; large ones without a fraction.
fn told(gain: f64) -> String {
    let percent = 100.0 * gain;
    match percent.abs() {
        size if size < 0.05 => "0".to_owned(),
        size if size < 9.95 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

/// The colour of a gain. A loss has that of the gain which would make up for it.
fn class_of(gain: f64) -> &'static str {
    if gain.is_nan() {
        return "none";
    }
    let size = gain.ln_1p().abs().exp_m1();
    // Minus one hundred per cent and less has no logarithm, and is as bad as it gets.
    let steps = if size.is_nan() { STEPS.len() } else { STEPS.iter().filter(|step| size >= **step).count() };
    CLASSES[if gain < 0.0 { 4 - steps } else { 4 + steps }]
}

/// Letters that can be read on it.
fn ink(class: &str) -> &'static str {
    match class {
        "h-4" | "h-3" | "h3" | "h4" => "cell on-deep",
        _ => "cell name",
    }
}

/// The colours, with the gains at which one passes into the next.
fn legend(svg: &mut Markup, left: f64, y: f64) {
    let borders = ["−29 %", "−9 %", "−2 %", "−0.5 %", "+0.5 %", "+2 %", "+10 %", "+40 %"];
    write(svg, "end", [left - 10.0, y + 10.0], "slower");
    for (at, class) in CLASSES.iter().enumerate() {
        let path = format!("M{} {}h58v13h-58z", place(left + 58.0 * at as f64), place(y));
        svg.single("path", &[("class", class), ("d", &path)]);
    }
    for (at, border) in borders.into_iter().enumerate() {
        write(svg, "mid", [left + 58.0 * (at as f64 + 1.0), y + 28.0], border);
    }
    write(svg, "", [left + 532.0, y + 10.0], "faster than the version before");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_symmetric_in_ratios_and_total() {
        assert_eq!(class_of(1.0), "h4");
        assert_eq!(class_of(-0.5), "h-4", "twice as slow is as bad as twice as fast is good");
        assert_eq!((class_of(0.03), class_of(-0.029)), ("h2", "h-2"));
        assert_eq!((class_of(0.0), class_of(0.004), class_of(-0.001)), ("h0", "h0", "h0"));
        assert_eq!(
            (class_of(f64::NAN), class_of(f64::INFINITY), class_of(-1.0), class_of(-3.0)),
            ("none", "h4", "h-4", "h-4")
        );
        assert_eq!((told(0.0001), told(0.031), told(-0.123)), ("0".into(), "+3.1".into(), "-12".into()));
    }
}
