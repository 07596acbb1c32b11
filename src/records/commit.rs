//! The message of an accepted round's commit, and its trailers read back.
//!
//! What a proposer wrote stands indented in the body: no line of it starts at the margin, so that none can be taken for
//! a trailer, a comment that git strips, or the line that ends a message. Only the last paragraph holds trailers.

use kopt_schema::campaign::Bucket;
use kopt_schema::evidence::Evidence;

use super::established::established;
use super::facts::{BucketFinding, Grounds, RoundFacts};
use super::{numbers, text, transfer};

/// Characters of a subject at most.
const SUBJECT: usize = 100;

/// Characters of a line of the body at most.
const WIDTH: usize = 72;

/// Characters of a hypothesis that a commit repeats; the rest is in the summary.
const HYPOTHESIS: usize = 2000;

/// What the body indents by.
const INDENT: &str = "  ";

const CAMPAIGN: &str = "Kopt-Campaign";
const ROUND: &str = "Kopt-Round";
const GAIN: &str = "Kopt-Gain";
const INTERVAL: &str = "Kopt-Interval";
const BUCKET: &str = "Kopt-Bucket";
const EVIDENCE: &str = "Kopt-Evidence";

/// What the trailers of a commit say. Figures are those of the message, to a tenth of a per cent; the evidence has all
/// digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Trailers {
    /// The campaign's name.
    pub campaign: String,
    /// The round.
    pub round: u32,
    /// The confirmed gain.
    pub gain: f64,
    /// Its interval.
    pub interval: (f64, f64),
    /// The bucket and how it is known; none where nothing was even claimed.
    pub bucket: Option<BucketFinding>,
    /// SHA-256 of the evidence.
    pub evidence: String,
}

impl Trailers {
    /// What the trailers say and the evidence does not: the gain, its interval, and the bucket, which a claim decides only
    /// among those of the kernel.
    #[must_use]
    pub fn contradictions(&self, evidence: &Evidence) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |name: &str, said: String, found: String| {
            if said != found {
                wrong.push(format!("{name} of the commit is `{said}`, and the evidence has `{found}`"));
            }
        };
        let found = evidence.verdict.aggregate.as_ref();
        let none = || "none".to_owned();
        compare(GAIN, numbers::gain(self.gain), found.map_or_else(none, |gain| numbers::gain(gain.gain)));
        let (low, high) = self.interval;
        let interval = found.map_or_else(none, |gain| numbers::interval(gain.low, gain.high));
        compare(INTERVAL, numbers::interval(low, high), interval);
        let claims = std::iter::once(None).chain(Bucket::ALL.map(Some));
        let mut buckets: Vec<String> = claims.map(|claimed| bucket(established(evidence, claimed).bucket)).collect();
        buckets.dedup();
        let said = bucket(self.bucket);
        if !buckets.contains(&said) {
            compare(BUCKET, said, buckets.join("` or `"));
        }
        wrong
    }
}

/// The whole message.
#[must_use]
pub fn commit_message(facts: &RoundFacts) -> String {
    let target = &facts.target;
    let title = text::line(facts.title());
    // A title is said after a colon: what looks like an option there only confuses.
    let title = title.trim_start_matches(['-', ' ']);
    let title = if title.is_empty() { "a change without a title" } else { title };
    let (op, backend) = (text::line(&target.target_op), target.target_backend.name());
    let subject = text::cut(&format!("[optimize] {op} {backend} round-{}: {title}", facts.round), SUBJECT);
    let sections =
        [("Hypothesis", hypothesis(facts)), ("Result", result(facts)), ("Real-training transfer check", check(facts))];
    let body: String = sections.iter().map(|(heading, said)| format!("{heading}:\n\n{said}\n")).collect();
    format!("{subject}\n\n{body}{}", trailer_lines(facts))
}

fn hypothesis(facts: &RoundFacts) -> String {
    let said = facts.proposal.as_ref().map(|proposal| proposal.hypothesis.trim()).unwrap_or_default();
    let kept = text::cut(said, HYPOTHESIS);
    // Paragraphs are kept; lines within them are filled again.
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in kept.lines() {
        match (text::line(line), paragraphs.last_mut()) {
            (line, Some(last)) if !line.is_empty() => last.push_str(&format!("{line} ")),
            _ => paragraphs.push(String::new()),
        }
    }
    let wrapped: Vec<String> = paragraphs.iter().map(|one| text::wrap(one, WIDTH, INDENT)).collect();
    let wrapped: Vec<&str> = wrapped.iter().map(String::as_str).filter(|one| !one.is_empty()).collect();
    if wrapped.is_empty() { format!("{INDENT}none was given\n") } else { wrapped.join("\n") }
}

fn result(facts: &RoundFacts) -> String {
    let mut lines = vec![match facts.gain() {
        Some(gain) => format!("{} over all shapes", numbers::with_confidence(gain)),
        None => "not measured".to_owned(),
    }];
    if let Some(versus) = &facts.versus_baseline {
        let how = if versus.measured { "measured" } else { "product of the rounds" };
        lines.push(format!("{} vs baseline, {how}", numbers::estimate(&versus.gain)));
    }
    if let Some(measured) = facts.deciding() {
        lines.extend(measured.verdict.shapes.iter().map(|shape| {
            let (before, after) = (numbers::seconds(shape.incumbent_s), numbers::seconds(shape.candidate_s));
            format!("{}: {before} -> {after}, {}", text::line(&shape.shape), numbers::estimate(&shape.estimate))
        }));
        lines.extend(measured.failed.iter().map(|one| format!("{}: {}", text::line(&one.shape), text::line(&one.why))));
        let left_out = measured.left_out.iter();
        lines.extend(left_out.map(|one| format!("{}: not compared: {}", text::line(&one.shape), text::line(&one.why))));
    }
    lines.iter().map(|line| text::wrap(line, WIDTH, INDENT)).collect()
}

fn check(facts: &RoundFacts) -> String {
    let lines = transfer::lines(&facts.transfer).into_iter();
    lines.map(|(label, said)| text::wrap(&format!("{label}: {}", text::line(&said)), WIDTH, INDENT)).collect()
}

fn trailer_lines(facts: &RoundFacts) -> String {
    let gain = facts.gain();
    let evidence = facts.deciding().map_or_else(|| "none".to_owned(), |measured| text::line(&measured.evidence));
    let trailers = [
        (CAMPAIGN, text::line(&facts.target.campaign)),
        (ROUND, facts.round.to_string()),
        (GAIN, gain.map_or_else(|| "not measured".to_owned(), |gain| numbers::gain(gain.gain))),
        (INTERVAL, gain.map_or_else(|| "not measured".to_owned(), |gain| numbers::interval(gain.low, gain.high))),
        (BUCKET, bucket(facts.transfer.bucket)),
        (EVIDENCE, evidence),
    ];
    trailers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn bucket(finding: Option<BucketFinding>) -> String {
    match finding {
        None => "not established".to_owned(),
        Some(BucketFinding { bucket, grounds: Grounds::Established }) => bucket.name().to_owned(),
        Some(BucketFinding { bucket, grounds: Grounds::Presumed }) => format!("{} (presumed)", bucket.name()),
        Some(BucketFinding { bucket, grounds: Grounds::Claimed }) => format!("{} (claimed)", bucket.name()),
    }
}

/// The trailers of `message`; none where one is missing, there twice or cannot be read. Others' trailers may stand
/// among them.
#[must_use]
pub fn trailers(message: &str) -> Option<Trailers> {
    let lines: Vec<&str> = message.trim_end().lines().map(str::trim_end).collect();
    let last = lines.iter().rposition(|line| line.is_empty())?;
    let value = |name: &str| {
        let mut values = lines[last..].iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.next().map(str::trim).filter(|value| !value.is_empty() && values.next().is_none())
    };
    Some(Trailers {
        campaign: value(CAMPAIGN)?.to_owned(),
        round: value(ROUND)?.parse().ok()?,
        gain: per_cent(value(GAIN)?)?,
        interval: {
            let (low, high) = value(INTERVAL)?.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
            (per_cent(low)?, per_cent(high)?)
        },
        bucket: finding(value(BUCKET)?)?,
        evidence: value(EVIDENCE)?.to_owned(),
    })
}

fn per_cent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().trim_end_matches('%').trim().parse().ok()?;
    number.is_finite().then_some(number / 100.0)
}

fn finding(text: &str) -> Option<Option<BucketFinding>> {
    if text == "not established" {
        return Some(None);
    }
    let (name, grounds) = match text.split_once(' ') {
        None => (text, Grounds::Established),
        Some((name, "(presumed)")) => (name, Grounds::Presumed),
        Some((name, "(claimed)")) => (name, Grounds::Claimed),
        Some(_) => return None,
    };
    let bucket = Bucket::ALL.into_iter().find(|bucket| bucket.name() == name)?;
    Some(Some(BucketFinding { bucket, grounds }))
}
