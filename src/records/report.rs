//! The report of a campaign as people read it: first the result in a sentence, then how to check it, then the tables.
//! Whoever reads it may never have seen the tool before, and need not believe it.

use kopt_schema::campaign::event::Reason;
use kopt_schema::evidence::Estimate;

use super::attribution::Attribution;
use super::facts::{BucketFinding, Grounds};
use super::report_data::{AppliedRound, Cost, Report, RolledBackRound, ShapeTotal, Total};
use super::{numbers, text, training, transfer};
use crate::ledger;

/// The whole text.
#[must_use]
pub fn report_markdown(report: &Report) -> String {
    let target = &report.target;
    let mut told = format!("# {} on {}\n\n{}\n", text::inline(&target.op), target.backend.name(), headline(report));
    told.push_str(
        "\nA gain is the old time divided by the new time, minus one: +100 % is twice as fast. Brackets hold the interval \
         in which the true gain lies at the confidence named.\n",
    );
    let sections = [
        ("How to check this", checks(report)),
        ("What was measured", total(report)),
        ("Rounds that were accepted", applied(&report.applied)),
        ("Rounds that were rolled back", rolled_back(&report.rolled_back)),
        (
            "Does it transfer to training",
            format!(
                "{}{}",
                attribution(report.attribution.as_ref()),
                training::report(report.training.as_ref(), !report.applied.is_empty())
            ),
        ),
        ("How sure this is", certainty(report)),
        ("What remains", remaining(report)),
        ("Cost and end", end(report)),
        ("The campaign", campaign(report)),
    ];
    told.extend(sections.iter().map(|(name, body)| format!("\n## {name}\n\n{body}")));
    told
}

/// The result in one sentence.
fn headline(report: &Report) -> String {
    let target = &report.target;
    let on = format!("{} ({}, {})", text::code(&target.kernel), target.backend.name(), text::inline(&target.device));
    match (&report.total, &report.chain) {
        (Some(Total { gain, shapes, .. }), _) => {
            let over = numbers::count(shapes.len(), "shape", "shapes");
            let result = match gain {
                gain if gain.low > 0.0 => "is faster than at the start of the campaign",
                gain if gain.high < 0.0 => "is slower than at the start of the campaign",
                _ => "is not credibly faster than at the start of the campaign",
            };
            format!(
                "**{on} {result}: {}**, the last accepted version measured against the first over {over}.",
                numbers::with_confidence(gain)
            )
        }
        (None, Some(chain)) => {
            let why = report.unmeasured.as_ref().map(|why| format!(" ({})", text::inline(why))).unwrap_or_default();
            format!(
                "**{on}: the total was not measured**{why}; the product of the accepted rounds' gains is {}.",
                numbers::with_confidence(chain)
            )
        }
        (None, None) => format!("**{on} is as it was: no change was accepted.**"),
    }
}

fn checks(report: &Report) -> String {
    let mut told = String::new();
    if let Some(head) = &report.target.head {
        let command = text::code(&format!("cargo kopt verify {head} --all"));
        told.push_str(&format!(
            "- {command} checks every accepted commit against the evidence stored with it, and measures it once more.\n"
        ));
    }
    if let Some(total) = &report.total {
        let command = text::code(&format!("cargo kopt verdict {}", total.evidence_file));
        let digest = text::code(&total.evidence);
        told.push_str(&format!("- {command} computes the total again from the raw times, in the campaign's folder.\n"));
        told.push_str(&format!("- The SHA-256 of that file must be {digest}.\n"));
    }
    if told.is_empty() {
        told.push_str(
            "Nothing was accepted, so there is nothing to check; the evidence of each round is in its folder.\n",
        );
    }
    told
}

fn total(report: &Report) -> String {
    let Some(total) = &report.total else { return "Nothing was measured against the baseline.\n".to_owned() };
    let row = |shape: &ShapeTotal| {
        vec![
            text::cell(&shape.shape),
            numbers::seconds(shape.before_s),
            numbers::seconds(shape.after_s),
            numbers::gain(shape.gain.gain),
            numbers::interval(shape.gain.low, shape.gain.high),
            shape.direction.name().to_owned(),
            numbers::share(shape.ceiling_before),
            numbers::share(shape.ceiling_after),
        ]
    };
    let heading = ["shape", "before", "after", "gain", "interval", "direction", "ceiling before", "ceiling after"];
    let table = text::table(&heading, &total.shapes.iter().map(row).collect::<Vec<_>>());
    let mut told = format!("{table}\n- All shapes: {}\n", numbers::with_confidence(&total.gain));
    if let Some(chain) = &report.chain {
        told.push_str(&format!(
            "- Product of the accepted rounds' gains: {}; it should agree with the total within the intervals\n",
            numbers::with_confidence(chain)
        ));
    }
    told.push_str(&match report.ceiling_shares() {
        Some((before, after)) => format!(
            "- Share of the device's measured ceiling: {} before, {} after\n",
            numbers::share(Some(before)),
            numbers::share(Some(after))
        ),
        None => "- Share of the device's measured ceiling: not known\n".to_owned(),
    });
    told
}

fn applied(rounds: &[AppliedRound]) -> String {
    if rounds.is_empty() {
        return "None.\n".to_owned();
    }
    let row = |round: &AppliedRound| {
        let finding = round.bucket.map(|bucket| {
            let grounds = round.grounds.unwrap_or(Grounds::Claimed);
            BucketFinding { bucket, grounds }
        });
        vec![
            round.round.to_string(),
            text::cell(&round.title),
            text::cell(&round.proposer),
            round.ruling.name().to_owned(),
            numbers::estimate(&round.gain),
            transfer::bucket(finding),
            text::code(short(&round.commit)),
        ]
    };
    let heading = ["round", "change", "proposer", "ruling", "gain vs the version before", "bucket", "commit"];
    text::table(&heading, &rounds.iter().map(row).collect::<Vec<_>>())
}

fn rolled_back(rounds: &[RolledBackRound]) -> String {
    if rounds.is_empty() {
        return "None.\n".to_owned();
    }
    let told = |gain: Option<&Estimate>| gain.map_or_else(|| "-".to_owned(), numbers::estimate);
    let row = |round: &RolledBackRound| {
        vec![
            round.round.to_string(),
            text::cell(&round.title),
            text::cell(&round.proposer),
            round.reason.name().to_owned(),
            told(round.gain.as_ref()),
            text::cell(&round.message),
        ]
    };
    let heading = ["round", "change", "proposer", "why", "measured", "in words"];
    text::table(&heading, &rounds.iter().map(row).collect::<Vec<_>>())
}

/// S_real, W_real, R_real and the inflation, as report and log show them.
pub(super) fn attribution(found: Option<&Attribution>) -> String {
    let share = |of: fn(&Attribution) -> f64| match found {
        Some(found) => numbers::gain(of(found)),
        None => "not established".to_owned(),
    };
    let inflation = found.map_or_else(
        || "not established".to_owned(),
        |found| {
            let interval = numbers::interval(found.inflation_low, found.inflation_high);
            format!("{} {interval} at 90 % confidence", numbers::gain(found.inflation))
        },
    );
    let rows = [
        ("S_real: changes inside the kernel, count whole", share(|found| found.s_real)),
        ("W_real: caches of weights, bounded by what preparing them saves", share(|found| found.w_real)),
        ("R_real: anything else", share(|found| found.r_real)),
        ("Inflation: what the headline has beyond these", inflation),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    let mut told = text::table(&["part of the gain", "worth"], &rows);
    if let Some(found) = found.filter(|found| found.inflated) {
        let rounds: Vec<String> = found.rounds.iter().map(ToString::to_string).collect();
        told.push_str(&match rounds.is_empty() {
            true => {
                "\n**Inflated**: the total exceeds what its rounds measured, and no round explains it. Measure again.\n"
                    .to_owned()
            }
            false => format!(
                "\n**Inflated** by rounds that do not count whole: {}. Roll them back before publishing.\n",
                rounds.join(", ")
            ),
        });
    }
    told
}

fn certainty(report: &Report) -> String {
    let bound = numbers::probability(report.false_accept);
    let least = numbers::gain(report.target.min_gain);
    format!(
        "- Each accept was shown by one set of process launches and confirmed by a second, fresh one; least gain {least}.\n\
         - The probability that any accept of this campaign is of a version without a gain is at most {bound}.\n"
    )
}

fn remaining(report: &Report) -> String {
    let list = |heading: &str, items: &[String]| match items.is_empty() {
        true => format!("{heading}: none is known.\n"),
        false => {
            format!(
                "{heading}:\n\n{}",
                items.iter().map(|item| format!("- {}\n", text::inline(item))).collect::<String>()
            )
        }
    };
    let (directions, tips) = (&report.remaining.directions, &report.remaining.tips);
    format!(
        "{}{}\n{}",
        unexplained(&report.rolled_back),
        list("Directions without a round", directions),
        list("Tips that no round took up", tips)
    )
}

/// Where so many rounds were rolled back one after the other that a proposer has been given all there is, and measuring has not
/// told why.
fn unexplained(rounds: &[RolledBackRound]) -> String {
    let all_is_given = |rows: &&[RolledBackRound]| ledger::ladder(rows.len() as u32) == ledger::Rung::BestKnown;
    let rows = rounds.chunk_by(|one, next| next.round == one.round + 1).filter(all_is_given);
    let told = rows.filter_map(|rows| {
        let is_unknown = |round: &&RolledBackRound| matches!(round.reason, Reason::Slower | Reason::Noise);
        let unknown: Vec<String> = rows.iter().filter(is_unknown).map(|round| round.round.to_string()).collect();
        let (first, last) = (rows.first()?.round, rows.last()?.round);
        (!unknown.is_empty()).then(|| {
            format!(
                "Rounds {first} to {last} were rolled back one after the other. The root cause is unknown for {}: that they do not gain \
                 is measured, not why. Look at these before going on.\n\n",
                unknown.join(", ")
            )
        })
    });
    told.collect()
}

fn end(report: &Report) -> String {
    let Cost { seconds, proposing_s, input_tokens, output_tokens, dollars } = report.cost;
    let said = |number: Option<String>| number.unwrap_or_else(|| "not said by the proposers".to_owned());
    let tokens = match (input_tokens, output_tokens) {
        (None, None) => None,
        (read, written) => Some(format!("{} read, {} written", read.unwrap_or(0), written.unwrap_or(0))),
    };
    let (seconds, proposing) = (numbers::duration(seconds), numbers::duration(proposing_s));
    let lines = [
        ("Ended by", report.termination.name().to_owned()),
        ("Time", format!("{seconds}, of which {proposing} for proposals")),
        ("Tokens", said(tokens)),
        ("Money", said(dollars.map(|dollars| format!("${dollars:.2}")))),
    ];
    lines.iter().map(|(label, said)| format!("- {label}: {said}\n")).collect()
}

fn campaign(report: &Report) -> String {
    let target = &report.target;
    let lines = [
        ("Campaign", text::inline(&target.campaign)),
        ("Kernel", format!("{}, operator {}", text::code(&target.kernel), text::inline(&target.op))),
        ("Device", format!("{}, {}", target.backend.name(), text::inline(&target.device))),
        ("Policy", text::inline(&target.policy)),
        ("From", text::code(&target.base)),
        ("To", target.head.as_deref().map_or_else(|| "the same".to_owned(), text::code)),
        ("Began", text::inline(&target.began)),
        ("Reported", text::inline(&target.reported)),
    ];
    lines.iter().map(|(label, said)| format!("- {label}: {said}\n")).collect()
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
