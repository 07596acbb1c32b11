//! The roofline: floating-point operations a byte against operations a second, under what the device can do at most.

use kopt_schema::evidence::{Ceilings, Evidence, Verdict};
use kopt_schema::message::Cost;

use super::{Tone, line, ring_and_dot, short, svg, write};
use crate::page::axis::{Axis, Spread, place};
use crate::page::markup::Markup;

/// Size of the plot.
const SIZE: [f64; 2] = [460.0, 300.0];

/// Left, right, upper and lower end of the area.
const AREA: [f64; 4] = [58.0, 448.0, 12.0, 258.0];

/// Shapes that are named at most; more would cover each other.
const NAMED: usize = 8;

/// Height of a line of names.
const LETTER: f64 = 13.0;

/// A shape under the roof.
struct Point<'a> {
    name: &'a str,
    intensity: f64,
    before: f64,
    after: f64,
    tone: Tone,
}

/// The plot; none where ceilings or operations are not known.
#[must_use]
pub fn roofline(evidence: &Evidence, verdict: &Verdict) -> Option<Markup> {
    let ceilings = evidence.ceilings.as_ref()?;
    let peak = ceilings.fma_flops_per_s.filter(|peak| is_rate(*peak))?;
    let points = points(evidence, verdict);
    if points.is_empty() || !is_rate(ceilings.copy_bytes_per_s) {
        return None;
    }
    let ridge = peak / ceilings.copy_bytes_per_s;
    let across = points.iter().map(|point| point.intensity).chain([ridge / 3.0, ridge * 3.0]);
    let x = Axis::around(Spread::Log, across, [AREA[0], AREA[1]]);
    let up = points.iter().flat_map(|point| [point.before, point.after]).chain([peak * 1.2]);
    let y = Axis::around(Spread::Log, up, [AREA[3], AREA[2]]);
    let words = "One pair a shape: a ring before, a dot after, under the measured ceilings of memory and arithmetic.";
    Some(svg(SIZE, "Roofline", words, |svg| {
        for (value, text) in x.ticks(6, |value, _| plain(value)) {
            line(svg, "grid", [x.at(value), AREA[2]], [x.at(value), AREA[3]]);
            write(svg, "mid", [x.at(value), AREA[3] + 16.0], &text);
        }
        for (value, text) in y.ticks(6, |value, _| plain(value / 1e9)) {
            line(svg, "grid", [AREA[0], y.at(value)], [AREA[1], y.at(value)]);
            write(svg, "end", [AREA[0] - 6.0, y.at(value) + 4.0], &text);
        }
        write(svg, "mid", [(AREA[0] + AREA[1]) / 2.0, SIZE[1] - 6.0], "FLOP a byte");
        let turned = format!("rotate(-90 12 {})", place((AREA[2] + AREA[3]) / 2.0));
        let at = [place(12.0), place((AREA[2] + AREA[3]) / 2.0)];
        svg.leaf("text", &[("class", "mid"), ("transform", &turned), ("x", &at[0]), ("y", &at[1])], "GFLOP/s");
        roof(svg, ceilings, peak, &x, &y);
        for point in &points {
            svg.element("g", &[("class", point.tone.class())], |group| {
                let at = x.at(point.intensity);
                line(group, "bar", [at, y.at(point.before)], [at, y.at(point.after)]);
                ring_and_dot(group, [at, y.at(point.before)], [at, y.at(point.after)]);
            });
        }
        if points.len() <= NAMED {
            names(svg, &points, &x, &y);
        }
    }))
}

/// The two ceilings, up to where they meet.
fn roof(svg: &mut Markup, ceilings: &Ceilings, peak: f64, x: &Axis, y: &Axis) {
    let [left, right] = x.ends();
    let lowest = y.ends()[0];
    let from = left.max(lowest / ceilings.copy_bytes_per_s);
    let ridge = peak / ceilings.copy_bytes_per_s;
    let at = |intensity: f64, rate: f64| format!("{} {}", place(x.at(intensity)), place(y.at(rate)));
    let path = format!("M{}L{}L{}", at(from, from * ceilings.copy_bytes_per_s), at(ridge, peak), at(right, peak));
    svg.single("path", &[("class", "roof"), ("d", &path)]);
    let told =
        format!("copy {} GB/s, arithmetic {} GFLOP/s", plain(ceilings.copy_bytes_per_s / 1e9), plain(peak / 1e9));
    write(svg, "end", [AREA[1] - 4.0, AREA[3] - 8.0], &told);
}

/// Names right of the points, moved apart where they would cover each other.
fn names(svg: &mut Markup, points: &[Point<'_>], x: &Axis, y: &Axis) {
    let mut placed: Vec<(f64, f64, &str)> =
        points.iter().map(|point| (y.at(point.after), x.at(point.intensity), point.name)).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Down from above where it is crowded, then up again from the lower edge.
    for at in 1..placed.len() {
        placed[at].0 = placed[at].0.max(placed[at - 1].0 + LETTER);
    }
    let mut lowest = AREA[3] - 22.0;
    for label in placed.iter_mut().rev() {
        label.0 = label.0.min(lowest);
        lowest = label.0 - LETTER;
    }
    for (at, across, name) in placed {
        let left = across > AREA[1] - 110.0;
        let (class, x) = if left { ("end name", across - 11.0) } else { ("name", across + 11.0) };
        write(svg, class, [x, at + 4.0], &short(name, 16));
    }
}

fn points<'a>(evidence: &Evidence, verdict: &'a Verdict) -> Vec<Point<'a>> {
    let cost = |name: &str| -> Option<Cost> {
        let cases = &evidence.arrangement.as_ref()?.cases;
        Some(cases.iter().find(|case| case.name == name)?.cost)
    };
    let point = |shape: &'a kopt_schema::evidence::ShapeVerdict| {
        let cost = cost(&shape.shape)?;
        let point = Point {
            name: &shape.shape,
            intensity: cost.flops / cost.bytes(),
            before: cost.flops / shape.incumbent_s,
            after: cost.flops / shape.candidate_s,
            tone: Tone::of(shape.direction),
        };
        [point.intensity, point.before, point.after].into_iter().all(is_rate).then_some(point)
    };
    verdict.shapes.iter().filter_map(point).collect()
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// `0.5`, `20`, `1500`: at most three digits that say something.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => trimmed(format!("{value:.1}")),
        size if size >= 0.001 => trimmed(format!("{value:.3}")),
        _ => format!("{value:.0e}"),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
