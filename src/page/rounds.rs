//! The rounds of a campaign: as points, as a table, and each with the evidence behind it.

use kopt_schema::campaign::event::{Measured, ShapeTime};
use kopt_schema::evidence::Estimate;

use super::campaign::CampaignFacts;
use super::exhibit::badge;
use super::markup::Markup;
use super::plots::Tone;
use super::plots::heat::Column;
use super::plots::score::{Fate, Point};
use super::{frame, words};
use crate::ledger::{Outcome, Round, State, chain};
use crate::records::numbers;

/// What was measured of a round last: what its evidence is of.
fn measured(round: &Round) -> Option<&Measured> {
    round.verdict()
}

/// The gain of a round over the version that stood.
fn gain(round: &Round) -> Option<Estimate> {
    round.accepted().map(|accepted| accepted.gain).or_else(|| measured(round)?.aggregate)
}

fn title(round: &Round) -> String {
    round.said().map_or_else(|| "nothing was handed in".to_owned(), |proposal| words::name(&proposal.title))
}

/// What came of a round, as mark and word.
pub const fn fate(fate: Fate) -> (Tone, &'static str) {
    match fate {
        Fate::Accepted => (Tone::Good, "accepted"),
        Fate::RolledBack => (Tone::Bad, "rolled back"),
        Fate::Open => (Tone::Even, "open"),
    }
}

const fn fate_of(round: &Round) -> Fate {
    match round.outcome {
        Some(Outcome::Accepted(_)) => Fate::Accepted,
        Some(Outcome::RolledBack(_)) => Fate::RolledBack,
        None => Fate::Open,
    }
}

/// The rounds as points of the score.
pub fn points(state: &State) -> Vec<Point> {
    let mut accepted: Vec<Estimate> = Vec::new();
    let mut points = Vec::new();
    for round in &state.rounds {
        let before = chain(&accepted).map_or(0.0, |(gain, _, _)| gain);
        let on_top = |gain: f64| (1.0 + before) * (1.0 + gain) - 1.0;
        let score = gain(round).map(|own| Estimate {
            gain: on_top(own.gain),
            low: on_top(own.low),
            high: on_top(own.high),
            ..own
        });
        points.push(Point { round: round.number, title: title(round), fate: fate_of(round), before, score });
        accepted.extend(round.accepted().map(|accepted| accepted.gain));
    }
    points
}

/// Shapes, and what each round did to them. Gains come from the evidence, or where it is gone from the times in the events.
pub fn columns(facts: &CampaignFacts<'_>) -> (Vec<String>, Vec<Column>) {
    let state = facts.state;
    let mut standing: &[ShapeTime] = state.baseline.as_ref().map_or(&[][..], |baseline| &baseline.shapes);
    let shapes: Vec<String> = match standing.is_empty() {
        true => facts.target.target_shapes.clone(),
        false => standing.iter().map(|time| time.shape.clone()).collect(),
    };
    let mut columns = Vec::new();
    for round in &state.rounds {
        let evidence = facts.evidence.get(&round.number).and_then(|filed| filed.evidence.as_ref().ok());
        let time = |times: &[ShapeTime], shape: &str| Some(times.iter().find(|time| time.shape == shape)?.seconds);
        let gain = |shape: &String| match evidence {
            Some(evidence) => {
                let found = evidence.verdict.shapes.iter().find(|one| one.shape == *shape)?;
                Some(found.estimate.gain)
            }
            None => Some(time(standing, shape)? / time(&measured(round)?.shapes, shape)? - 1.0),
        };
        columns.push(Column {
            round: round.number,
            accepted: round.is_accepted(),
            gains: shapes.iter().map(gain).collect(),
        });
        if let (true, Some(full)) = (round.is_accepted(), round.full()) {
            standing = &full.shapes;
        }
    }
    (shapes, columns)
}

/// One row a round: what was tried and why, what came of it and why.
pub fn table(to: &mut Markup, state: &State) {
    if state.rounds.is_empty() {
        to.leaf("p", &[], "No round has begun yet.");
        return;
    }
    to.element("table", &[("class", "words")], |table| {
        table.element("thead", &[], |head| {
            head.element("tr", &[], |row| {
                for name in ["round", "change and hypothesis", "verdict", "gain, %", "reason"] {
                    row.leaf("th", &[("scope", "col")], name);
                }
            });
        });
        table.element("tbody", &[], |rows| {
            for round in &state.rounds {
                rows.element("tr", &[], |row| one(row, round)).line();
            }
        });
    });
}

fn one(row: &mut Markup, round: &Round) {
    row.element("th", &[("scope", "row")], |cell| {
        cell.leaf("a", &[("href", &format!("#round-{}", round.number))], &format!("Round {}", round.number));
    });
    row.element("td", &[], |cell| {
        cell.leaf("p", &[], &title(round));
        if let Some(proposal) = round.said() {
            cell.leaf(
                "p",
                &[("class", "soft")],
                &crate::records::text::cut(&words::sentence(&proposal.hypothesis), 320),
            );
        }
    });
    row.element("td", &[], |cell| {
        let (tone, word) = fate(fate_of(round));
        words::badge(cell, tone, word);
    });
    let told = gain(round).as_ref().map_or_else(|| "-".to_owned(), numbers::estimate);
    row.leaf("td", &[("class", "figure"), ("data-name", "gain")], &told);
    row.leaf("td", &[("data-name", "reason")], &reason(round));
}

/// Why a round ended as it did.
fn reason(round: &Round) -> String {
    let first = || measured(round).and_then(|measured| measured.reasons.first()).map(|reason| words::sentence(reason));
    match &round.outcome {
        Some(Outcome::Accepted(_)) => first().unwrap_or_default(),
        Some(Outcome::RolledBack(rolled_back)) => {
            let said = rolled_back.message.lines().next().unwrap_or_default();
            let name = rolled_back.reason.name();
            let said = crate::records::text::cut(&words::name(said), 160);
            match said.is_empty() || said.starts_with(name) {
                true => words::sentence(if said.is_empty() { name } else { &said }),
                false => words::sentence(&format!("{name}: {said}")),
            }
        }
        None => "Not decided yet".to_owned(),
    }
}

/// What is behind each round, folded; the baseline first.
pub fn evidence(to: &mut Markup, facts: &CampaignFacts<'_>, extra: usize) {
    if facts.state.baseline.is_some() {
        fold(
            to,
            1,
            |summary| {
                summary.text("Round 1 · ");
                words::badge(summary, Tone::Even, "baseline");
                summary.text(" the version that the campaign starts from, against itself");
            },
            |inside| {
                inside.leaf("p", &[], "What differs here is noise of the machine: nothing is ruled.");
                exhibit(inside, facts, 1, extra);
            },
        );
    }
    for round in &facts.state.rounds {
        fold(
            to,
            round.number,
            |summary| {
                let (tone, word) = fate(fate_of(round));
                summary.text(&format!("Round {} · ", round.number));
                words::badge(summary, tone, word);
                let gain = gain(round).map(|gain| format!(" · {}", numbers::gain(gain.gain))).unwrap_or_default();
                summary.text(&format!(" {}{gain}", title(round)));
            },
            |inside| {
                story(inside, round);
                exhibit(inside, facts, round.number, extra);
            },
        );
    }
}

fn fold(to: &mut Markup, round: u32, summary: impl FnOnce(&mut Markup), inside: impl FnOnce(&mut Markup)) {
    to.element("details", &[("class", "round")], |details| {
        details.element("summary", &[], summary);
        // Browsers open what is folded when the target is inside of it.
        details.element("div", &[("id", &format!("round-{round}"))], inside);
    })
    .line();
}

/// What was said of a round, before and after it was measured.
fn story(to: &mut Markup, round: &Round) {
    if let Some(proposal) = round.said() {
        to.leaf("p", &[], &words::sentence(&proposal.hypothesis));
    }
    let mut rows = vec![("Proposer", words::name(&round.proposer))];
    if let Some(proposal) = round.said() {
        let said = [
            ("Patch", proposal.source.clone()),
            ("Direction", proposal.category.map(|category| category.name().to_owned())),
            ("Bucket claimed", proposal.bucket.map(|bucket| bucket.name().to_owned())),
            ("Expected", proposal.expected_gain.clone()),
            ("Different", proposal.different.clone()),
            ("Next", proposal.next.clone()),
        ];
        rows.extend(said.into_iter().filter_map(|(name, said)| Some((name, words::sentence(&said?)))));
    }
    if let Some(proposed) = round.stored() {
        let [added, removed] = proposed.lines;
        let files = proposed.files.iter().take(20).map(|file| words::name(file)).collect::<Vec<_>>().join(", ");
        rows.push(("Files", format!("{files}: {added} lines added, {removed} removed")));
        rows.push(("Candidate", words::name(&proposed.candidate)));
    }
    if let Some(accepted) = round.accepted() {
        rows.push(("Commit", words::name(&accepted.commit)));
        rows.push(("Bucket", accepted.bucket.name().to_owned()));
    }
    if let Some(tip) = round.learned.as_ref().and_then(|learned| learned.tip.as_deref()) {
        rows.push(("Learned", words::sentence(tip)));
    }
    frame::facts(to, &rows);
    for refused in round.attempts.iter().filter_map(|attempt| attempt.refused.as_ref()) {
        to.leaf("p", &[], &format!("Attempt {} was refused: {}.", refused.attempt, refused.reason.name()));
        to.leaf("pre", &[], &words::message(&refused.message));
    }
    if let Some(rolled_back) = round.rolled_back() {
        to.leaf("p", &[], &format!("Rolled back: {}.", rolled_back.reason.name()));
        to.leaf("pre", &[], &words::message(&rolled_back.message));
    }
}

fn exhibit(to: &mut Markup, facts: &CampaignFacts<'_>, round: u32, extra: usize) {
    match facts.evidence.get(&round) {
        Some(filed) => match filed.exhibit(round > 1) {
            Ok(exhibit) => {
                to.put(&exhibit.within(extra).0);
            }
            Err(why) => {
                let measured = facts.state.round(round).and_then(measured);
                if let Some(measured) = measured {
                    to.element("p", &[], |line| {
                        badge(line, measured.ruling);
                        let told = measured.aggregate.as_ref().map_or_else(String::new, numbers::with_confidence);
                        line.text(&format!(" {told}"));
                    });
                }
                missing(to, why);
            }
        },
        None => {
            to.leaf("p", &[("class", "soft")], "It came to no measurement, so there is no evidence.");
        }
    }
}

/// Evidence that cannot be shown.
pub fn missing(to: &mut Markup, why: &str) {
    to.element("div", &[("class", "warning")], |warning| {
        warning.leaf("p", &[], &words::sentence(&format!("the evidence cannot be shown: {why}")));
    });
}
