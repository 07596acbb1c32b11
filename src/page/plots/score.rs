//! The score over rounds: what stands, what was tried on top of it and kept, and what was tried and rolled back.

use kopt_schema::evidence::Estimate;

use super::{Tone, is_drawn, line, write};
use crate::page::axis::{Axis, Spread, gain, place};
use crate::page::markup::Markup;
use crate::records::{numbers, text};

/// What came of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stands.
    Accepted,
    /// It does not.
    RolledBack,
    /// It is not decided.
    Open,
}

/// A round.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its number.
    pub round: u32,
    /// What was tried.
    pub title: String,
    /// What came of it.
    pub fate: Fate,
    /// The gain over the baseline before it, as the accepted rounds have it.
    pub before: f64,
    /// The gain over the baseline with it, where it was measured: what stood before, times its own gain.
    pub score: Option<Estimate>,
}

/// Size of the plot.
const SIZE: [f64; 2] = [920.0, 330.0];

/// Left, right, upper and lower end of the area.
const AREA: [f64; 4] = [66.0, 850.0, 34.0, 276.0];

/// The plot; `total` is the last version against the first, measured.
#[must_use]
pub fn score(points: &[Point], total: Option<&Estimate>) -> Markup {
    let last = points.iter().map(|point| point.round).max().unwrap_or(1).max(2);
    let x = Axis::between(Spread::Linear, [0.5, f64::from(last) + 0.5], [AREA[0], AREA[1]]);
    let y = height(points, total);
    let words = "One mark a round over the standing version: filled circles were accepted, crosses rolled back, bars are intervals. \
                 Ticks at the lower edge are rounds that came to no measurement.";
    let mut plot = Markup::default();
    let view = format!("0 0 {} {}", SIZE[0], SIZE[1]);
    // Its points lead to the rounds: to a screen reader it is a group of links and no image.
    plot.element("svg", &[("viewBox", &view), ("role", "group"), ("aria-label", "Score over rounds")], |svg| {
        svg.leaf("desc", &[], words);
        for (value, told) in y.ticks(7, gain) {
            line(svg, "grid", [AREA[0], y.at(value)], [AREA[1], y.at(value)]);
            write(svg, "end", [AREA[0] - 8.0, y.at(value) + 4.0], &told);
        }
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|step| last / step <= 20).unwrap_or(100);
        for round in (1..=last).filter(|round| *round == 1 || round.is_multiple_of(step)) {
            write(svg, "mid", [x.at(f64::from(round)), AREA[3] + 18.0], &round.to_string());
        }
        write(svg, "", [AREA[0], AREA[3] + 40.0], "round (1 is the baseline)");
        write(svg, "", [AREA[0], 14.0], "gain over the baseline");
        line(svg, "zero", [AREA[0], y.at(0.0)], [AREA[1], y.at(0.0)]);
        standing(svg, points, &x, &y);
        svg.element("g", &[("class", "even")], |group| {
            let (cx, cy) = (place(x.at(1.0)), place(y.at(0.0)));
            group.single("circle", &[("class", "hollow"), ("cx", &cx), ("cy", &cy), ("r", "4.5")]);
        });
        for point in points {
            draw(svg, point, &x, &y);
        }
        if let Some(total) = total.filter(|total| is_drawn(total)) {
            end(svg, total, &y);
        }
        legend(svg);
    });
    plot
}

/// Everything that stands must be seen; what was rolled back may stretch the axis by as much again, and no more.
fn height(points: &[Point], total: Option<&Estimate>) -> Axis {
    let ends = |of: &Estimate| [of.low, of.gain, of.high];
    let drawn = |point: &&Point| point.score.as_ref().is_some_and(is_drawn);
    let kept = points.iter().filter(|point| point.fate == Fate::Accepted).filter(drawn);
    let standing = points.iter().map(|point| point.before).filter(|before| before.is_finite());
    let kept =
        kept.filter_map(|point| point.score.as_ref()).chain(total.filter(|total| is_drawn(total))).flat_map(ends);
    let logs: Vec<f64> = kept.chain(standing).chain([0.0]).map(f64::ln_1p).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = (high - low).max(0.05);
    let others = points.iter().filter(drawn).filter_map(|point| point.score.as_ref()).flat_map(ends).map(f64::ln_1p);
    let others: Vec<f64> = others.filter(|log| (low - room..=high + room).contains(log)).collect();
    let all = logs.iter().chain(&others).map(|log| log.exp_m1());
    Axis::around(Spread::Gain, all, [AREA[3] - 12.0, AREA[2]])
}

/// The line of what stands.
fn standing(svg: &mut Markup, points: &[Point], x: &Axis, y: &Axis) {
    let mut path = format!("M{} {}", place(x.at(1.0)), place(y.at(0.0)));
    for point in points {
        path.push_str(&format!("H{}", place(x.at(f64::from(point.round)))));
        if let (Fate::Accepted, Some(score)) = (point.fate, &point.score) {
            path.push_str(&format!("V{}", place(y.at(score.gain))));
        }
    }
    path.push_str(&format!("H{}", place(AREA[1])));
    svg.single("path", &[("class", "step"), ("d", &path)]);
}

fn draw(svg: &mut Markup, point: &Point, x: &Axis, y: &Axis) {
    let at = x.at(f64::from(point.round));
    let (tone, word) = match point.fate {
        Fate::Accepted => (Tone::Good, "accepted"),
        Fate::RolledBack => (Tone::Bad, "rolled back"),
        Fate::Open => (Tone::Even, "open"),
    };
    let told = match &point.score {
        Some(score) => format!("{} over the baseline", numbers::estimate(score)),
        None => "not measured".to_owned(),
    };
    let title = format!("Round {}, {word}, {told}: {}", point.round, text::cut(&text::line(&point.title), 100));
    let target = format!("#round-{}", point.round);
    svg.element("a", &[("href", &target), ("class", tone.class()), ("aria-label", &title)], |link| {
        link.leaf("title", &[], &title);
        let wide = (x.at(2.0) - x.at(1.0)).min(30.0);
        let (left, width) = (place(at - wide / 2.0), place(wide));
        let (top, tall) = (place(AREA[2]), place(AREA[3] - AREA[2] + 4.0));
        link.single("rect", &[("class", "hit"), ("x", &left), ("y", &top), ("width", &width), ("height", &tall)]);
        let Some(score) = point.score.as_ref().filter(|score| is_drawn(score)) else {
            return line(link, "bar", [at, AREA[3] - 3.0], [at, AREA[3] + 4.0]);
        };
        let (low, high, middle) = (y.at(score.low), y.at(score.high), y.at(score.gain));
        line(link, "bar", [at, low], [at, high]);
        let (cx, cy) = (place(at), place(middle));
        match (point.fate, y.holds(score.gain)) {
            (Fate::Accepted, _) => {
                link.single("circle", &[("class", "mark"), ("cx", &cx), ("cy", &cy), ("r", "5.5")]);
            }
            // Beyond the axis: an arrow that says where.
            (_, false) => {
                let way = if middle > (AREA[2] + AREA[3]) / 2.0 { 6 } else { -6 };
                let path = format!("M{cx} {cy}m-4 {}l4 {way}l4 {}", -way, -way);
                link.single("path", &[("class", "cross"), ("d", &path)]);
            }
            (Fate::RolledBack, true) => {
                let path = format!("M{cx} {cy}m-4 -4l8 8m0 -8l-8 8");
                link.single("path", &[("class", "cross"), ("d", &path)]);
            }
            (Fate::Open, true) => {
                link.single("circle", &[("class", "hollow"), ("cx", &cx), ("cy", &cy), ("r", "4.5")]);
            }
        }
    });
}

/// The measured total, right of the rounds.
fn end(svg: &mut Markup, total: &Estimate, y: &Axis) {
    let at = AREA[1] + 30.0;
    let (low, high, middle) = (y.at(total.low), y.at(total.high), y.at(total.gain));
    svg.element("g", &[("class", "good")], |group| {
        group.leaf("title", &[], &format!("Total, measured: {}", numbers::estimate(total)));
        line(group, "bar", [at, low], [at, high]);
        let diamond = format!("M{} {}m0 -7l7 7l-7 7l-7 -7z", place(at), place(middle));
        group.single("path", &[("class", "mark"), ("d", &diamond)]);
    });
    write(svg, "mid strong", [at, (high.min(middle - 7.0) - 8.0).max(26.0)], &numbers::gain(total.gain));
    write(svg, "mid", [at, AREA[3] + 18.0], "total");
}

fn legend(svg: &mut Markup) {
    let (y, mut x) = (10.0, AREA[0] + 156.0);
    let entries = [("good", "accepted"), ("bad", "rolled back"), ("bad", "not measured"), ("good", "total, measured")];
    for (index, (tone, name)) in entries.into_iter().enumerate() {
        svg.element("g", &[("class", tone)], |group| {
            let at = format!("M{} {y}", place(x));
            let (class, path) = match index {
                0 => ("mark", format!("{at}m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z")),
                1 => ("cross", format!("{at}m-4 -4l8 8m0 -8l-8 8")),
                2 => ("bar", format!("{at}m0 -4v8")),
                _ => ("mark", format!("{at}m0 -6l6 6l-6 6l-6 -6z")),
            };
            group.single("path", &[("class", class), ("d", &path)]);
        });
        write(svg, "", [x + 11.0, y + 4.0], name);
        x += 36.0 + 7.0 * name.len() as f64;
    }
}
