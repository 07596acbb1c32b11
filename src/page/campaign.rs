//! The page of a campaign: the result first, then how it came about round by round, then what each point rests on.

use std::collections::BTreeMap;

use kopt_schema::campaign::Target;
use kopt_schema::campaign::event::ShapeTime;
use kopt_schema::evidence::{Estimate, Evidence};

use super::exhibit::Exhibit;
use super::markup::Markup;
use super::plots::heat::{Column, heat};
use super::plots::score::score;
use super::{frame, rounds, within_budget, words};
use crate::ledger::{Phase, State};
use crate::records::{Report, numbers, training_words};

/// Everything the page tells of. Evidence comes from files, which may be gone, changed or broken.
#[derive(Debug, Clone, Copy)]
pub struct CampaignFacts<'a> {
    /// What the campaign is after.
    pub target: &'a Target,
    /// Where it stands.
    pub state: &'a State,
    /// What came of it, once it is over.
    pub report: Option<&'a Report>,
    /// The evidence of each round; that of the baseline is round 1's.
    pub evidence: &'a BTreeMap<u32, Filed>,
    /// The last version against the first.
    pub total: Option<&'a Filed>,
}

/// A file of evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Filed {
    /// Relative to the workspace.
    pub file: String,
    /// SHA-256, as the events have it.
    pub digest: String,
    /// What it says, or why it cannot be shown.
    pub evidence: Result<Evidence, String>,
}

impl Filed {
    /// As it is shown, if it can be.
    pub(super) fn exhibit(&self, ruled: bool) -> Result<Exhibit<'_>, &str> {
        let evidence = self.evidence.as_ref().map_err(String::as_str)?;
        Ok(Exhibit { evidence, file: &self.file, digest: Some(&self.digest), differences: &[], ruled })
    }
}

impl CampaignFacts<'_> {
    /// The gain of the whole: measured, or else the product of the accepted rounds, and whether it was measured.
    fn gain(&self) -> Option<(Estimate, bool)> {
        let measured = self.state.reported.as_ref().and_then(|reported| reported.total);
        let chain = self.state.chain_gain().map(|(gain, low, high)| Estimate {
            gain,
            low,
            high,
            confidence: 0.95,
            launch_sigma: 0.0,
            launches: 0,
        });
        measured.map(|total| (total, true)).or(chain.map(|chain| (chain, false)))
    }

    /// Shares of the ceiling before and after, as geometric means over the shapes that have them.
    fn shares(&self) -> Option<(f64, f64)> {
        let before = self.state.baseline.as_ref().map_or(&[][..], |baseline| &baseline.shapes);
        let known = || Some((mean_share(before)?, mean_share(self.state.latest_times())?));
        self.report.and_then(Report::ceiling_shares).or_else(known)
    }
}

fn mean_share(times: &[ShapeTime]) -> Option<f64> {
    let shares: Vec<f64> = times.iter().filter_map(|time| time.ceiling_share).filter(|share| *share > 0.0).collect();
    let mean = (shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len().max(1) as f64).exp();
    (!shares.is_empty() && mean.is_finite()).then_some(mean)
}

/// The page.
#[must_use]
pub fn campaign(facts: &CampaignFacts<'_>) -> String {
    within_budget(facts.evidence.len() + 1, |extra| made(facts, extra))
}

fn made(facts: &CampaignFacts<'_>, extra: usize) -> String {
    let target = facts.target;
    let title = format!("{} on {}", target.target_op, target.target_backend.name());
    let mut body = Markup::default();
    head(&mut body, facts, &title);
    frame::section(&mut body, "score", "Score over rounds", |section| rising(section, facts));
    frame::section(&mut body, "shapes", "Shapes by rounds", |section| shapes(section, facts));
    frame::section(&mut body, "attribution", "Does it transfer to training", |section| {
        attribution(section, facts);
        let training = facts.report.and_then(|report| report.training.as_ref());
        if let Some(training) = training.map(|training| training.total.as_ref().unwrap_or(&training.baseline)) {
            let said = format!("Measured training-step gain: {}.", training_words(training));
            section.leaf("p", &[], &words::sentence(&said));
        }
    });
    frame::section(&mut body, "rounds", "Rounds", |section| rounds::table(section, facts.state));
    frame::section(&mut body, "tips", "What was learned", |section| learned(section, facts));
    frame::section(&mut body, "verify", "How to verify", |section| verify(section, facts));
    frame::section(&mut body, "total", "The whole campaign, measured", |section| total(section, facts, extra));
    frame::section(&mut body, "evidence", "Evidence behind each point", |section| {
        section.leaf(
            "p",
            &[("class", "soft")],
            "Each round compares its version with the one that stood before it. What is folded can be opened.",
        );
        rounds::evidence(section, facts, extra);
    });
    body.element("footer", &[], |footer| {
        let tool = facts.state.began.as_ref().map_or("", |began| &began.tool);
        let reported = facts.report.map_or("", |report| &report.target.reported);
        let made = format!(
            "Campaign {}, begun {} UTC, reported {reported}, cargo-kopt {tool}.",
            target.campaign, target.created
        );
        footer.leaf("p", &[], &words::name(&made.replace(", reported ,", ",")));
        footer.leaf("p", &[], "This page is one file. It holds no script and loads nothing.");
    });
    frame::document(&words::name(&format!("{title}: campaign {}", target.campaign)), &body)
}

fn head(to: &mut Markup, facts: &CampaignFacts<'_>, title: &str) {
    let (target, state) = (facts.target, facts.state);
    to.leaf("h1", &[], &words::name(title));
    let about = format!("{} · {} · campaign {}", target.kernel, target.target_device, target.campaign);
    to.leaf("p", &[("class", "soft")], &words::name(&about));
    if !matches!(state.phase(), Phase::Over) {
        to.element("div", &[("class", "warning")], |warning| {
            warning.leaf(
                "p",
                &[],
                "The campaign is not over: this is how it stands, and the total is not measured yet.",
            );
        });
    }
    let accepted = state.accepted().count();
    let decided = state.rounds.iter().filter(|round| round.outcome.is_some()).count();
    to.element("div", &[("class", "cards")], |cards| {
        match facts.gain() {
            Some((gain, measured)) => {
                let how = if measured {
                    "last version against the first, measured"
                } else {
                    "product of the accepted rounds"
                };
                let interval = format!(
                    "{} % at {} confidence",
                    numbers::interval(gain.low, gain.high),
                    numbers::probability(gain.confidence)
                );
                card(cards, "Total gain", &numbers::gain(gain.gain), &[&interval, how]);
            }
            None => card(cards, "Total gain", "none", &["no change was accepted"]),
        }
        match facts.shares() {
            Some((before, after)) => {
                let value = format!("{} → {}", numbers::share(Some(before)), numbers::share(Some(after)));
                card(
                    cards,
                    "Share of the ceiling",
                    &value,
                    &["before and after, of what the device was measured to do"],
                );
            }
            None => card(cards, "Share of the ceiling", "not known", &["the device's ceilings were not measured"]),
        }
        let rolled_back =
            format!("accepted of {}, {} rolled back", numbers::count(decided, "round", "rounds"), decided - accepted);
        card(cards, "Rounds", &accepted.to_string(), &[&rolled_back]);
        let bound = numbers::probability(state.false_accept_bound());
        card(cards, "Any false accept", &format!("≤ {bound}"), &["probability, over all rounds together"]);
    })
    .line();
    let ended =
        state.ended.as_ref().map_or_else(String::new, |ended| format!(" Ended by {}.", ended.termination.name()));
    let took = format!("It ran for {}.{ended}", numbers::duration(state.elapsed_s));
    to.leaf("p", &[], &took);
    to.leaf(
        "p",
        &[("class", "soft")],
        "A gain is the time before divided by the time after, minus one: +100 % is twice as fast. Brackets hold the \
         interval in which the true gain lies at the confidence named.",
    );
}

fn card(to: &mut Markup, name: &str, value: &str, under: &[&str]) {
    to.element("div", &[("class", "card")], |card| {
        card.leaf("span", &[], name);
        card.leaf("b", &[], value);
        for line in under {
            card.leaf("span", &[], line);
        }
    });
}

fn rising(to: &mut Markup, facts: &CampaignFacts<'_>) {
    let points = rounds::points(facts.state);
    if points.is_empty() {
        to.leaf("p", &[], "No round has begun yet.");
        return;
    }
    let total = facts.gain().filter(|(_, measured)| *measured).map(|(gain, _)| gain);
    let caption = "Each point is a version measured against the one that stood, on top of the gain of that one: circles were \
                   accepted and the line goes on from them, crosses were rolled back, arrows lie beyond the axis. Bars are \
                   the intervals of the round itself. Logarithmic. A point leads to its evidence.";
    frame::figure(to, true, caption, &score(&points, total.as_ref()));
    let row = |point: &super::plots::score::Point| {
        vec![
            point.round.to_string(),
            rounds::fate(point.fate).1.to_owned(),
            numbers::gain(point.before),
            point.score.as_ref().map_or_else(|| "-".to_owned(), |score| numbers::gain(score.gain)),
            point.score.as_ref().map_or_else(|| "-".to_owned(), |score| numbers::interval(score.low, score.high)),
        ]
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    let heads = ["round", "outcome", "stood before", "with it", "interval, %"];
    frame::numbers(to, "Scores as numbers, gains over the baseline", &heads, &rows);
}

fn shapes(to: &mut Markup, facts: &CampaignFacts<'_>) {
    let (shapes, columns) = rounds::columns(facts);
    if columns.iter().all(|column| column.gains.iter().all(Option::is_none)) {
        to.leaf("p", &[], "Nothing was measured after the baseline.");
        return;
    }
    let caption = "Gain of each shape over the version that stood, in %. Outlined cells were not measured; a dot marks accepted rounds.";
    frame::figure(to, true, caption, &heat(&shapes, &columns));
    let heads: Vec<String> =
        std::iter::once("round".to_owned()).chain(shapes.iter().map(|shape| words::name(shape))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let told = |gain: &Option<f64>| match gain {
        Some(gain) if gain.is_finite() => format!("{:+.1}", 100.0 * gain),
        _ => "-".to_owned(),
    };
    let row = |column: &Column| -> Vec<String> {
        let name = format!("{}{}", column.round, if column.accepted { " accepted" } else { "" });
        std::iter::once(name).chain(column.gains.iter().map(told)).collect()
    };
    let rows: Vec<Vec<String>> = columns.iter().map(row).collect();
    frame::numbers(to, "Gains as numbers, in %", &heads, &rows);
}

fn attribution(to: &mut Markup, facts: &CampaignFacts<'_>) {
    let Some(found) = facts.report.and_then(|report| report.attribution.as_ref()) else {
        to.leaf(
            "p",
            &[],
            "Not established: which part of the gain exists outside of a benchmark is told at the end of a campaign whose \
             rounds' buckets are known from more than a claim.",
        );
        return;
    };
    let rows = [
        ("S_real", "changes inside the kernel, count whole", numbers::gain(found.s_real)),
        ("W_real", "caches of weights, bounded by what preparing them saves", numbers::gain(found.w_real)),
        ("R_real", "anything else", numbers::gain(found.r_real)),
        (
            "Inflation",
            "what the headline has beyond these, 90 % interval in brackets",
            format!(
                "{} {}",
                numbers::gain(found.inflation),
                numbers::interval(found.inflation_low, found.inflation_high)
            ),
        ),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, what, worth)| vec![name.to_owned(), worth, what.to_owned()]).collect();
    frame::table(to, "Parts of the gain", &["part", "worth", "of"], &rows);
    if found.inflated {
        let rounds: Vec<String> = found.rounds.iter().map(ToString::to_string).collect();
        to.element("div", &[("class", "warning")], |warning| {
            let told = match rounds.is_empty() {
                true => "Inflated: the total exceeds what its rounds measured, and no round explains it.".to_owned(),
                false => format!("Inflated by rounds that do not count whole: {}.", rounds.join(", ")),
            };
            warning.leaf("p", &[], &told);
        });
    }
}

fn learned(to: &mut Markup, facts: &CampaignFacts<'_>) {
    let tips: Vec<(u32, &str)> = facts
        .state
        .rounds
        .iter()
        .filter_map(|round| Some((round.number, round.learned.as_ref()?.tip.as_deref()?)))
        .collect();
    if tips.is_empty() {
        to.leaf("p", &[], "No round has left a tip.");
    } else {
        to.element("ul", &[], |list| {
            for (round, tip) in tips {
                list.element("li", &[], |item| {
                    item.text(&words::sentence(tip)).text(" (");
                    item.leaf("a", &[("href", &format!("#round-{round}"))], &format!("round {round}")).text(")");
                });
            }
        });
    }
    let Some(report) = facts.report else { return };
    for (heading, items) in [
        ("Directions without a round", &report.remaining.directions),
        ("Tips that no round took up", &report.remaining.tips),
    ] {
        if !items.is_empty() {
            to.leaf("h3", &[], heading);
            frame::list(to, &items.iter().map(|item| words::sentence(item)).collect::<Vec<_>>());
        }
    }
}

fn verify(to: &mut Markup, facts: &CampaignFacts<'_>) {
    to.leaf("p", &[], "Nobody has to believe this page. In the repository:");
    let mut commands: Vec<(String, String)> = Vec::new();
    if facts.state.last_accepted().is_some() {
        let head = facts.state.incumbent();
        commands.push((
            format!("cargo kopt verify {head} --all"),
            "checks every accepted commit against its evidence, and measures it once more".to_owned(),
        ));
    }
    if let Some(total) = facts.total {
        let what = format!("computes the total again from the raw times; the file's SHA-256 must be {}", total.digest);
        commands.push((format!("cargo kopt verdict {}", total.file), what));
    } else if let Some(filed) = facts.evidence.values().next_back() {
        commands.push((
            format!("cargo kopt verdict {}", filed.file),
            "computes a verdict again from the raw times".to_owned(),
        ));
    }
    commands.push((format!("cargo kopt report {} --html", facts.target.campaign), "makes this page again".to_owned()));
    to.element("ul", &[], |list| {
        for (command, what) in commands {
            list.element("li", &[], |item| {
                item.leaf("code", &[], &words::name(&command)).text(" ");
                item.text(&words::name(&what)).text(".");
            });
        }
    });
}

fn total(to: &mut Markup, facts: &CampaignFacts<'_>, extra: usize) {
    match facts.total.map(|total| total.exhibit(false)) {
        Some(Ok(exhibit)) => {
            to.put(&exhibit.within(extra).0);
        }
        Some(Err(why)) => rounds::missing(to, why),
        None => {
            to.leaf("p", &[], "The last version was not measured against the first.");
        }
    }
}
