//! `optimize.md`: the campaign as it stands, for whoever opens the folder.

use kopt_schema::campaign::event::{Baseline, Reason, ShapeTime, Termination};
use kopt_schema::campaign::target::Goal;
use kopt_schema::campaign::{Category, Target};
use kopt_schema::evidence::Estimate;

use super::attribution::Attribution;
use super::facts::TransferFacts;
use super::{numbers, report, text, transfer};

/// What the log is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFacts {
    /// What the campaign is after.
    pub target: Target,
    /// Round 1, once it is measured.
    pub baseline: Option<Baseline>,
    /// Every round after it, in order.
    pub history: Vec<HistoryRow>,
    /// The last accepted version; none while the baseline stands.
    pub best: Option<Best>,
    /// What has not been tried, the best first.
    pub directions: Vec<OpenDirection>,
    /// What was tried and did not help.
    pub ineffective: Vec<Ineffective>,
    /// Seconds that the campaign has run, pauses left out.
    pub elapsed_s: f64,
    /// Why it ended; none while it runs.
    pub termination: Option<Termination>,
    /// What came of it; none before the report.
    pub finale: Option<Finale>,
}

/// A round in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRow {
    /// Its number.
    pub round: u32,
    /// When it was decided, `YYYY-MM-DD HH:MM`.
    pub at: String,
    /// What became of it, as [`super::Decision::status`] says it.
    pub status: String,
    /// The change.
    pub title: String,
    /// Who proposed it.
    pub proposer: String,
    /// Gain over the last accepted version, where it was measured.
    pub gain: Option<Estimate>,
}

/// The version that stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The round it comes from.
    pub round: u32,
    /// Its commit.
    pub commit: String,
    /// The product of the accepted gains.
    pub chain: Estimate,
    /// What each shape takes.
    pub shapes: Vec<ShapeTime>,
}

/// A direction that is open.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenDirection {
    /// In a few words.
    pub title: String,
    /// What it belongs to.
    pub category: Option<Category>,
    /// Where it comes from: a tip, a proposer.
    pub source: String,
    /// The gain it had where it was measured before.
    pub known_gain: Option<f64>,
}

/// A change that did not help.
#[derive(Debug, Clone, PartialEq)]
pub struct Ineffective {
    /// The round.
    pub round: u32,
    /// The change.
    pub title: String,
    /// Why it was rolled back.
    pub reason: Reason,
    /// What was measured.
    pub gain: Option<Estimate>,
}

/// What came of the campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Finale {
    /// The last accepted version against the baseline, measured; none where nothing was accepted.
    pub total: Option<Estimate>,
    /// Which share of it is real.
    pub attribution: Option<Attribution>,
    /// The transfer check of every accepted round.
    pub audit: Vec<AuditRow>,
}

/// An accepted round in the audit.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// Its number.
    pub round: u32,
    /// Its transfer check.
    pub transfer: TransferFacts,
}

/// The whole file.
#[must_use]
pub fn log(facts: &LogFacts) -> String {
    let sections = [
        ("Basic information", basics(&facts.target)),
        ("Baseline", facts.baseline.as_ref().map_or_else(|| "Not measured yet.\n".to_owned(), baseline)),
        ("History", history(&facts.history)),
        ("Current best", best(facts.best.as_ref())),
        ("Directions to try", directions(&facts.directions)),
        ("Verified ineffective directions", ineffective(&facts.ineffective)),
        ("Termination check", termination(facts)),
        ("Final report", finale(facts.finale.as_ref())),
    ];
    let told: String = sections.iter().map(|(name, body)| format!("\n## {name}\n\n{body}")).collect();
    format!("# Campaign {}\n{told}", text::inline(&facts.target.campaign))
}

fn basics(target: &Target) -> String {
    let goal = match target.performance_target {
        Some(Goal::Gain(gain)) => format!("a gain of {} over the baseline", numbers::gain(gain)),
        Some(Goal::Latency(seconds)) => format!("{} a call", numbers::seconds(seconds)),
        Some(Goal::Peak(share)) => format!("{} of the measured ceiling", numbers::share(Some(share))),
        None => "none; as fast as it gets".to_owned(),
    };
    let listed = |names: &[String]| match names.is_empty() {
        true => "all".to_owned(),
        false => names.iter().map(|name| text::inline(name)).collect::<Vec<_>>().join(", "),
    };
    let proposers: Vec<String> = target.proposers.iter().map(|source| text::inline(&source.name())).collect();
    let lines = [
        ("Kernel", text::code(&target.kernel)),
        ("Operator, backend", format!("{}, {}", text::inline(&target.target_op), target.target_backend.name())),
        ("Device", text::inline(&target.target_device)),
        ("Shapes", listed(&target.target_shapes)),
        ("Representative shapes", listed(&target.representative_shapes)),
        ("Core shapes", listed(&target.core_shapes)),
        ("Target", goal),
        ("Least gain of an accept", numbers::gain(target.min_gain)),
        ("Policy", text::inline(&target.policy)),
        ("Sources", target.kernel_sources.iter().map(|source| text::code(source)).collect::<Vec<_>>().join(", ")),
        ("Correctness", text::code(&target.test_command)),
        ("Latency", text::code(&target.benchmark_command)),
        ("Base", text::code(&target.base)),
        ("Branch", target.git_branch.as_deref().map_or_else(|| "none; nothing is committed".to_owned(), text::code)),
        ("Proposers", proposers.join(", ")),
        ("Created", text::inline(&target.created)),
    ];
    lines.iter().map(|(label, said)| format!("- {label}: {said}\n")).collect()
}

fn baseline(baseline: &Baseline) -> String {
    let noise = numbers::probability(baseline.launch_sigma);
    let trials = numbers::count(baseline.trials, "trial passed", "trials passed");
    let evidence = text::code(&baseline.evidence);
    format!("{}\n- {trials}\n- Noise: a launch deviates by {noise}\n- Evidence: {evidence}\n", times(&baseline.shapes))
}

fn times(shapes: &[ShapeTime]) -> String {
    let row = |time: &ShapeTime| {
        vec![text::cell(&time.shape), numbers::seconds(time.seconds), numbers::share(time.ceiling_share)]
    };
    text::table(&["shape", "time", "share of ceiling"], &shapes.iter().map(row).collect::<Vec<_>>())
}

fn told(gain: Option<&Estimate>) -> String {
    gain.map_or_else(|| "-".to_owned(), numbers::estimate)
}

fn history(rows: &[HistoryRow]) -> String {
    if rows.is_empty() {
        return "No round after the baseline yet.\n".to_owned();
    }
    let row = |row: &HistoryRow| {
        let words = [&row.at, &row.status, &row.title, &row.proposer].map(|word| text::cell(word));
        let cells = std::iter::once(row.round.to_string()).chain(words);
        cells.chain([told(row.gain.as_ref())]).collect()
    };
    let heading = ["Round", "At", "Status", "Change", "Proposer", "Gain vs last accepted"];
    text::table(&heading, &rows.iter().map(row).collect::<Vec<_>>())
}

fn best(best: Option<&Best>) -> String {
    let Some(best) = best else { return "The baseline.\n".to_owned() };
    let (commit, gain) = (text::code(&best.commit), numbers::with_confidence(&best.chain));
    let head = format!("Round {}, commit {commit}: {gain}, as product of the accepted rounds' gains.\n", best.round);
    format!("{head}\n{}", times(&best.shapes))
}

fn directions(open: &[OpenDirection]) -> String {
    if open.is_empty() {
        return "None is known.\n".to_owned();
    }
    let row = |one: &OpenDirection| {
        let category = one.category.map_or_else(|| "-".to_owned(), |category| category.to_string());
        let gain = one.known_gain.map_or_else(|| "-".to_owned(), numbers::gain);
        vec![text::cell(&one.title), category, text::cell(&one.source), gain]
    };
    text::table(&["Direction", "Category", "From", "Gain elsewhere"], &open.iter().map(row).collect::<Vec<_>>())
}

fn ineffective(tried: &[Ineffective]) -> String {
    if tried.is_empty() {
        return "None yet.\n".to_owned();
    }
    let row = |one: &Ineffective| {
        vec![one.round.to_string(), text::cell(&one.title), one.reason.name().to_owned(), told(one.gain.as_ref())]
    };
    text::table(&["Round", "Change", "Why", "Measured"], &tried.iter().map(row).collect::<Vec<_>>())
}

/// Every condition with its limit, and which of them held.
fn termination(facts: &LogFacts) -> String {
    let target = &facts.target;
    let rounds = facts.history.len() + usize::from(facts.baseline.is_some());
    let roof = numbers::share(Some(target.roofline_share));
    let cost = target.max_cost_usd.map_or_else(|| "no limit of money".to_owned(), |most| format!("${most:.2}"));
    let goal = if target.performance_target.is_some() { "the target above" } else { "no target is set" };
    let (so_far, most) = (numbers::duration(facts.elapsed_s), numbers::duration(target.max_time_s));
    let conditions = [
        (Termination::TargetReached, goal.to_owned()),
        (Termination::AtTheCeiling, format!("{roof} of the measured ceiling")),
        (Termination::MaxRounds, format!("{rounds} of {} rounds", target.max_rounds)),
        (Termination::MaxTime, format!("{so_far} of {most}")),
        (Termination::MaxCost, cost),
        (Termination::NoImprovement, format!("policy {}", text::cell(&target.policy))),
        (Termination::Stopped, "at any time".to_owned()),
        (Termination::NothingProposed, "asked in every round".to_owned()),
    ];
    let row = |(condition, limit): &(Termination, String)| {
        let held = if facts.termination == Some(*condition) { "**held**" } else { "no" };
        vec![condition.name().to_owned(), limit.clone(), held.to_owned()]
    };
    let table = text::table(&["Condition", "Limit", "Held"], &conditions.iter().map(row).collect::<Vec<_>>());
    let end = match facts.termination {
        Some(termination) => format!("The campaign is over: {}.\n", termination.name()),
        None => "The campaign goes on.\n".to_owned(),
    };
    format!("{table}\n{end}")
}

fn finale(finale: Option<&Finale>) -> String {
    let Some(finale) = finale else { return "Not written yet.\n".to_owned() };
    let total = match &finale.total {
        Some(total) => {
            format!("Total: {}, the last accepted version against the baseline.\n", numbers::with_confidence(total))
        }
        None => "Total: nothing was measured against the baseline.\n".to_owned(),
    };
    let table = match finale.audit.is_empty() {
        true => "No round was accepted.\n".to_owned(),
        false => {
            let heading: Vec<&str> = std::iter::once("Round").chain(transfer::LABELS).collect();
            text::table(&heading, &finale.audit.iter().map(audit_row).collect::<Vec<_>>())
        }
    };
    format!("{total}\n### Transfer audit\n\n{table}\n{}", report::attribution(finale.attribution.as_ref()))
}

/// The lines of the check as cells; what does not concern the op is a gap.
fn audit_row(row: &AuditRow) -> Vec<String> {
    let lines = transfer::lines(&row.transfer);
    let cell = |label: &str| {
        let said = lines.iter().find(|(name, _)| *name == label);
        said.map_or_else(|| "-".to_owned(), |(_, said)| text::cell(said))
    };
    std::iter::once(row.round.to_string()).chain(transfer::LABELS.map(cell)).collect()
}
