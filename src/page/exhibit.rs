//! One comparison as a section: what was found, what it rests on, and where it was found.

use kopt_schema::evidence::{Evidence, Ruling, ShapeVerdict, StageKind};

use super::launches::{ShapeLaunches, by_shape};
use super::markup::Markup;
use super::plots::ceiling::{Shares, ceiling};
use super::plots::intervals::intervals;
use super::plots::roofline::roofline;
use super::plots::strip::strip;
use super::plots::{ROWS, Tone};
use super::{frame, words};
use crate::gate;
use crate::records::{numbers, text};
use crate::shell::units;

/// Evidence, and what is known of the file it came from.
#[derive(Debug, Clone, Copy)]
pub struct Exhibit<'a> {
    /// The evidence; its verdict is what is shown.
    pub evidence: &'a Evidence,
    /// Where a reader finds the file.
    pub file: &'a str,
    /// SHA-256 of the file, where it is known.
    pub digest: Option<&'a str>,
    /// Where the recorded verdict was not what the data gives.
    pub differences: &'a [String],
    /// Whether its ruling decides anything: the baseline against itself and the end against the beginning are measured only
    /// to be told.
    pub ruled: bool,
}

/// How much of the raw data is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Intervals, and every table but that of the launches.
    Intervals,
    /// And every launch.
    Launches,
    /// And every block, and the plots of the roofline.
    Blocks,
}

impl Exhibit<'_> {
    /// The section, with as much raw data as takes up to that many bytes more than the least there can be.
    #[must_use]
    pub fn within(&self, extra: usize) -> (Markup, Detail) {
        let least = self.section(Detail::Intervals);
        let richer = [Detail::Blocks, Detail::Launches].map(|detail| (self.section(detail), detail));
        let fits = richer.into_iter().find(|(section, _)| section.len() <= least.len().saturating_add(extra));
        fits.unwrap_or((least, Detail::Intervals))
    }

    /// The section: ruling and reasons, plots with their numbers, and the facts of the measurement. It has no heading of its
    /// own: the page knows what it is about.
    #[must_use]
    pub fn section(&self, detail: Detail) -> Markup {
        let mut to = Markup::default();
        self.ruling(&mut to);
        if !self.evidence.verdict.shapes.is_empty() {
            to.element("div", &[("class", "pair")], |pair| {
                pair.element("div", &[], |half| self.gains(half));
                pair.element("div", &[], |half| self.launches(half, detail));
            });
            self.ceilings(&mut to, detail);
        }
        to.element("details", &[("class", "numbers")], |details| {
            details.leaf("summary", &[], "Machine, versions, seeds and digests");
            frame::facts(details, &self.facts());
        });
        to
    }

    fn ruling(&self, to: &mut Markup) {
        let (evidence, verdict) = (self.evidence, &self.evidence.verdict);
        // Figures of a match that came to nothing are none, whether something was to be ruled or not.
        let ruled = self.ruled || !verdict.ruling.is_measured();
        to.element("p", &[], |line| {
            if ruled {
                badge(line, verdict.ruling);
                line.text(" ");
            }
            if let Some(aggregate) = &verdict.aggregate {
                line.leaf("strong", &[], &numbers::estimate(aggregate));
                line.text(&format!(" at {} confidence, over all shapes.", numbers::probability(aggregate.confidence)));
            }
        });
        if !self.differences.is_empty() {
            to.element("div", &[("class", "warning"), ("role", "alert")], |warning| {
                warning.leaf(
                    "p",
                    &[],
                    "The recorded verdict is not what the raw data gives; shown is what the data gives:",
                );
                frame::list(warning, &self.differences.iter().map(|one| words::sentence(one)).collect::<Vec<_>>());
            });
        }
        let reasons = verdict.reasons.iter().filter(|_| ruled || verdict.aggregate.is_none());
        let mut notes: Vec<String> = reasons.map(|reason| words::sentence(reason)).collect();
        if let Some(forfeit) = &evidence.forfeit {
            let on = forfeit.case.as_deref().map(|case| format!(" on {case}")).unwrap_or_default();
            notes.push(words::sentence(&format!("lost{on}: {}", forfeit.message)));
        }
        if evidence.identical {
            notes.push("Both versions compile to the same code: nothing was timed.".to_owned());
        }
        for injection in &evidence.injected {
            let who = if injection.contestant == 0 { "the incumbent" } else { "the candidate" };
            let share = numbers::probability(injection.handicap.share);
            notes.push(format!("A self-test, no comparison: {who} is slowed down by {share}."));
        }
        notes.extend(
            evidence.left_out.iter().map(|one| words::sentence(&format!("not compared: {}, {}", one.shape, one.why))),
        );
        frame::list(to, &notes);
    }

    fn gains(&self, to: &mut Markup) {
        let (verdict, terms) = (&self.evidence.verdict, &self.evidence.terms);
        let (least, what) = match gate::is_gate(terms) {
            true => (1.0 / (1.0 + terms.max_regression) - 1.0, "what fails where it is shown"),
            false => (terms.min_gain, "the least gain of an accept"),
        };
        let mut caption = format!("Gain by shape with its interval. Dashed: {what}, {}.", numbers::gain(least));
        if verdict.shapes.len() > ROWS {
            caption.push_str(&format!(" The first {ROWS} of {} shapes.", verdict.shapes.len()));
        }
        frame::figure(to, false, &caption, &intervals(verdict, least));
        let row = |shape: &ShapeVerdict| {
            vec![
                words::name(&shape.shape),
                numbers::seconds(shape.incumbent_s),
                numbers::seconds(shape.candidate_s),
                numbers::gain(shape.estimate.gain),
                numbers::interval(shape.estimate.low, shape.estimate.high),
                format!("{}{}", shape.direction.name(), if shape.core { "" } else { ", not core" }),
            ]
        };
        let mut rows: Vec<Vec<String>> = verdict.shapes.iter().map(row).collect();
        let whole = [("all shapes", &verdict.aggregate), ("control", &verdict.control)];
        rows.extend(whole.into_iter().filter_map(|(name, estimate)| {
            let estimate = estimate.as_ref()?;
            let (gain, interval) = (numbers::gain(estimate.gain), numbers::interval(estimate.low, estimate.high));
            Some([name, "", "", &gain, &interval, ""].map(str::to_owned).to_vec())
        }));
        let heads = ["shape", "before", "after", "gain", "interval, %", "verdict"];
        frame::numbers(to, "Intervals as numbers", &heads, &rows);
    }

    fn launches(&self, to: &mut Markup, detail: Detail) {
        let shapes = by_shape(self.evidence);
        let count: usize = self.evidence.stages.iter().map(|stage| stage.launches.len()).sum();
        let blocks: usize = shapes.iter().flat_map(|shape| &shape.launches).map(|launch| launch.blocks.len()).sum();
        if shapes.is_empty() {
            return;
        }
        if detail == Detail::Intervals {
            let left = format!(
                "{} with {blocks} blocks are left out to keep this page small: they are in the evidence.",
                numbers::count(count, "launch", "launches")
            );
            to.leaf("p", &[("class", "soft")], &left);
            return;
        }
        let (plot, beyond) = strip(&shapes, detail == Detail::Blocks);
        let mut caption =
            "Each launch is a dot, from the first at the top to the last: round to find a change, square to confirm it."
                .to_owned();
        caption.push_str(&match (detail, beyond) {
            (Detail::Blocks, 0) => " Small dots are its blocks.".to_owned(),
            (Detail::Blocks, beyond) => {
                format!(" Small dots are its blocks; {beyond} of {blocks} lie beyond the axis.")
            }
            _ => format!(" {blocks} blocks are left out to keep this page small: they are in the evidence."),
        });
        frame::figure(to, false, &caption, &plot);
        let heads = ["shape", "to find a change", "to confirm it"];
        frame::numbers(to, "Launches as numbers, gains in %", &heads, &launch_rows(&shapes));
    }

    fn ceilings(&self, to: &mut Markup, detail: Detail) {
        let (evidence, verdict) = (self.evidence, &self.evidence.verdict);
        let shares = shares(evidence);
        let (Some(ceilings), false) = (&evidence.ceilings, shares.is_empty()) else {
            to.leaf("p", &[("class", "soft")], "The device's ceilings are not known, so its roofline is not shown.");
            return;
        };
        if detail == Detail::Blocks {
            to.element("div", &[("class", "pair")], |pair| {
                pair.element("div", &[], |half| {
                    let caption = "Share of the device's measured ceiling: a ring before, a dot after.";
                    frame::figure(half, false, caption, &ceiling(&shares));
                });
                if let Some(plot) = roofline(evidence, verdict) {
                    let caption = format!(
                        "roofline: work by the operator's cost model, ceilings measured {}.",
                        ceilings.measured
                    );
                    pair.element("div", &[], |half| frame::figure(half, false, &words::name(&caption), &plot));
                }
            });
        }
        let row = |shares: &Shares| {
            let told = [words::name(&shares.shape), share(shares.before), share(shares.after)];
            told.into_iter().chain(rates(evidence, &shares.shape)).collect()
        };
        let rows: Vec<Vec<String>> = shares.iter().map(row).collect();
        let heads = ["shape", "of the ceiling before", "after", "FLOP a byte", "before", "after"];
        frame::numbers(to, "Roofline position as numbers", &heads, &rows);
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let evidence = self.evidence;
        let machine = &evidence.machine;
        let device = evidence.arrangement.as_ref().map_or("", |arrangement| &arrangement.device);
        let launches = |kind| {
            let stages = evidence.stages.iter().filter(move |stage| stage.kind == kind);
            stages.map(|stage| stage.launches.len()).sum::<usize>()
        };
        let side = |side: &kopt_schema::evidence::Side| {
            let knobs: String = side.knobs.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
            words::sentence(&format!("{}, revision {}, code {}{knobs}", side.name, side.revision, side.code))
        };
        let mut rows = vec![
            (
                "Kernel",
                words::name(&format!("{}, operator {}, {}", evidence.kernel, evidence.op, evidence.backend.name())),
            ),
            ("Before", side(&evidence.incumbent)),
            ("After", side(&evidence.candidate)),
            ("Compiler", words::name(&evidence.candidate.compiler)),
            ("Flags", words::name(&evidence.candidate.flags.join(" "))),
            ("Device", words::name(device)),
            ("Machine", words::name(&format!("{}, {} cores, {}", machine.processor, machine.cores, machine.system))),
            ("Load", format!("{:.2} before, {:.2} after", machine.load_before, machine.load_after)),
            ("Measured", words::name(&format!("{}, in {}", evidence.started, numbers::duration(evidence.seconds)))),
            (
                "Launches",
                format!("{} to find, {} to confirm", launches(StageKind::Screen), launches(StageKind::Confirmation)),
            ),
            ("Trials passed", evidence.trials.to_string()),
            ("Terms", words::name(&agreed(evidence))),
            ("Seed", words::name(&evidence.seed)),
            ("Tool", words::name(&format!("cargo-kopt {}", evidence.tool))),
            ("File", words::name(self.file)),
        ];
        rows.extend(self.digest.map(|digest| ("SHA-256", words::name(digest))));
        rows.extend(evidence.verdict.detectable.map(|least| {
            ("Resolution", format!("a gain of {} is shown four times of five", numbers::probability(least)))
        }));
        rows.retain(|(_, said)| !said.is_empty());
        rows
    }
}

/// What was agreed before the first launch.
fn agreed(evidence: &Evidence) -> String {
    let terms = &evidence.terms;
    let limit = numbers::probability(terms.max_regression);
    if gate::is_gate(terms) {
        return format!("policy gate: a slowdown beyond {limit} fails, if it is shown twice");
    }
    format!(
        "policy {}, least gain {}, a core shape may lose less than {limit}; without a gain at most {} are accepted",
        terms.policy,
        numbers::gain(terms.min_gain),
        numbers::probability(evidence.verdict.false_accept)
    )
}

/// The ruling as a mark.
pub fn badge(to: &mut Markup, ruling: Ruling) {
    let tone = match ruling {
        Ruling::Accepted | Ruling::AcceptedTradeOff => Tone::Good,
        Ruling::RolledBackNoise | Ruling::Contaminated => Tone::Even,
        Ruling::RolledBack | Ruling::Overfit | Ruling::Incorrect | Ruling::IntegrityViolation => Tone::Bad,
    };
    words::badge(to, tone, ruling.name());
}

/// Shares of the ceiling of every shape that has them.
fn shares(evidence: &Evidence) -> Vec<Shares> {
    let of_shape = |shape: &ShapeVerdict| {
        let cases = &evidence.arrangement.as_ref()?.cases;
        let case = cases.iter().find(|case| case.name == shape.shape)?;
        let of = |seconds| gate::ceiling_share(&case.cost, evidence.ceilings.as_ref()?, seconds);
        let (before, after) = (of(shape.incumbent_s)?, of(shape.candidate_s)?);
        let tone = Tone::of(shape.direction);
        (before.is_finite() && after.is_finite()).then(|| Shares { shape: shape.shape.clone(), before, after, tone })
    };
    evidence.verdict.shapes.iter().filter_map(of_shape).collect()
}

/// A share that is known.
fn share(share: f64) -> String {
    numbers::share(Some(share))
}

/// Work a byte, and work a second before and after, where the cost model knows of any.
fn rates(evidence: &Evidence, shape: &str) -> Vec<String> {
    let case = evidence.arrangement.iter().flat_map(|arrangement| &arrangement.cases).find(|case| case.name == shape);
    let verdict = evidence.verdict.shapes.iter().find(|one| one.shape == shape);
    let (Some(cost), Some(verdict)) = (case.map(|case| case.cost), verdict) else { return Vec::new() };
    let rate = |seconds: f64| match (cost.flops / seconds).is_finite() {
        true => units::rate(cost.flops / seconds, "FLOP"),
        false => "-".to_owned(),
    };
    vec![format!("{:.3}", cost.flops / cost.bytes()), rate(verdict.incumbent_s), rate(verdict.candidate_s)]
}

/// One row a shape: its launches in the order they were made.
fn launch_rows(shapes: &[ShapeLaunches]) -> Vec<Vec<String>> {
    let told = |gain: f64| match gain.is_finite() {
        true => format!("{:+.1}", 100.0 * gain).replace("-0.0", "+0.0"),
        false => "-".to_owned(),
    };
    let row = |shape: &ShapeLaunches| {
        let of = |kind| {
            let own = shape.launches.iter().filter(|launch| launch.stage == kind);
            own.map(|launch| told(launch.gain)).collect::<Vec<_>>().join(" ")
        };
        vec![text::cut(&words::name(&shape.shape), 80), of(StageKind::Screen), of(StageKind::Confirmation)]
    };
    shapes.iter().map(row).collect()
}
