//! The tables of `harness/README.md`, from the rows.

use std::fmt::Write as _;

use camino::Utf8Path;
use kopt_schema::evidence::Ruling;
use kopt_schema::queue::{PatchTruth, Truth};
use kopt_stats::{clopper_pearson, median};

use super::queue::Failure;
use super::rows::{Row, Rows};
use super::scenario::{self, Versions};
use super::worth::{self, Wanted};

/// Where two per cent must be found: the launch deviation of the aggregate of equal code.
const QUIET: f64 = 0.015;

/// What must be reached, and on which shapes.
struct Bars {
    shapes: &'static str,
    seconds: &'static str,
    equal: &'static str,
    two: &'static str,
}

const ON_PROCESSOR: Bars =
    Bars { shapes: "4 shapes below 1 ms", seconds: "median ≤ 30", equal: "0", two: "≥ 80 %" };
const ON_GPU: Bars =
    Bars { shapes: "all shapes of the crate", seconds: "median ≤ 20", equal: "0 of 200", two: "≥ 95 %" };

/// All tables, as Markdown.
pub fn tables(root: &Utf8Path, all: &Rows) -> Result<String, Failure> {
    let (gpu, rows): (Vec<Row>, Vec<Row>) = all.all().iter().cloned().partition(Row::on_gpu);
    let rows = &rows[..];
    let mut text = bars(rows, &ON_PROCESSOR);
    text.push('\n');
    text += &peers(rows);
    if !gpu.is_empty() {
        text += "\nOn a GPU:\n\n";
        text += &bars(&gpu, &ON_GPU);
        text.push('\n');
        text += &peers(&gpu);
    }
    text.push('\n');
    text += &queue(root, all)?;
    Ok(text)
}

fn of<'a>(rows: &'a [Row], kind: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.scenario.split(' ').next() == Some(kind)).collect()
}

/// `3 of 300 (1.0 %, 0.2 to 2.9 %)`: a share and its exact 95 % interval.
fn share(count: usize, all: usize) -> String {
    let (low, high) = clopper_pearson(count as u64, all as u64, 0.95);
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    format!(
        "{count} of {all} ({} %, {} to {} %)",
        percent(count as f64 / all.max(1) as f64),
        percent(low),
        percent(high)
    )
}

fn bars(rows: &[Row], wanted: &Bars) -> String {
    let mut text = String::from("| what | bar | measured, exact 95 % interval |\n|---|---|---|\n");
    let mut line = |what: &str, bar: &str, found: String| {
        let _ = writeln!(text, "| {what} | {bar} | {found} |");
    };
    let count =
        |rows: &[&Row], holds: &dyn Fn(&Row) -> bool| share(rows.iter().filter(|row| holds(row)).count(), rows.len());
    let equal = of(rows, "aa");
    line("equal code accepted by the screen", "≤ 1 %", count(&equal, &Row::screened));
    line("equal code accepted, screen and confirmation", wanted.equal, count(&equal, &Row::accepted));
    line(
        "equal code: no verdict, the control fired",
        "0.5 % by design",
        count(&equal, &|row| row.ruling.starts_with("NO")),
    );
    line("true 5 % gain found", "≥ 95 %", count(&of(rows, "gain-5"), &Row::accepted));
    let two = of(rows, "gain-2");
    let (quiet, loud): (Vec<&Row>, Vec<&Row>) = two.into_iter().partition(|row| row.control_sigma <= QUIET);
    line("true 2 % gain found, launch σ of equal code ≤ 1.5 %", wanted.two, count(&quiet, &Row::accepted));
    line("true 2 % gain found, launch σ above", "told beforehand", count(&loud, &Row::accepted));
    let lost = of(rows, "loss-in-one");
    line(
        "5 % loss in one of eight shapes, +10 % in the others: rolled back",
        "≥ 95 %",
        format!(
            "{}; of these without showing the loss: {}",
            count(&lost, &|row| !row.accepted()),
            lost.iter().filter(|row| row.ruling == Ruling::RolledBackNoise.name()).count()
        ),
    );
    let short: Vec<f64> =
        ["aa", "gain-2", "gain-5"].iter().flat_map(|kind| of(rows, kind)).map(|row| row.seconds).collect();
    if !short.is_empty() {
        let longest = short.iter().copied().fold(0.0, f64::max);
        line(
            &format!("seconds a decision, {}", wanted.shapes),
            wanted.seconds,
            format!("median {:.1}, longest {longest:.1}, n = {}", median(&short), short.len()),
        );
    }
    let timed: Vec<&Row> = rows.iter().filter(|row| row.own_s > 0.0 && row.seconds > 0.0).collect();
    if !timed.is_empty() {
        let sum = |of: fn(&Row) -> f64| timed.iter().map(|row| of(row)).sum::<f64>();
        let own = 100.0 * sum(|row| row.own_s) / sum(|row| row.seconds);
        line(
            "the referee's own processor time in a decision",
            "< 5 % of a core",
            format!("{own:.2} %, n = {}", timed.len()),
        );
    }
    let sigmas: Vec<f64> = equal.iter().map(|row| 100.0 * row.control_sigma).filter(|sigma| *sigma > 0.0).collect();
    if !sigmas.is_empty() {
        let _ = writeln!(
            text,
            "\nLaunch σ of the aggregate of equal code: median {:.2} %, highest {:.2} %.",
            median(&sigmas),
            sigmas.iter().copied().fold(0.0, f64::max)
        );
    }
    text
}

/// Whether a rule calls the candidate faster.
type Says<'a> = &'a dyn Fn(&Row) -> bool;

fn peers(rows: &[Row]) -> String {
    let mut text = String::from(
        "| rule, on the same launches | equal code called faster | 2 % found | 5 % found |\n|---|---|---|---|\n",
    );
    let rules: [(&str, Says<'_>); 5] = [
        ("lower mean, A then B", &|row| row.peers.mean),
        ("Mann-Whitney at 5 %, A then B", &|row| row.peers.mann_whitney),
        ("criterion's default, A then B", &|row| row.peers.criterion),
        ("this referee's screen", &Row::screened),
        ("this referee", &Row::accepted),
    ];
    for (name, rule) in rules {
        let cell = |kind: &str| {
            let rows: Vec<&Row> = of(rows, kind).into_iter().filter(|row| row.launches[0] > 1).collect();
            share(rows.iter().filter(|row| rule(row)).count(), rows.len())
        };
        let _ = writeln!(text, "| {name} | {} | {} | {} |", cell("aa"), cell("gain-2"), cell("gain-5"));
    }
    text
}

/// Every patch of the example queues: what it is worth on each machine, and what was decided there.
fn queue(root: &Utf8Path, rows: &Rows) -> Result<String, Failure> {
    let scenarios = scenario::all(root)?;
    let mut machines: Vec<&str> = Vec::new();
    for scenario in &scenarios {
        for row in rows.of(scenario).filter(|row| !row.change.is_empty() && !row.device.is_empty()) {
            if !machines.contains(&row.device.as_str()) {
                machines.push(&row.device);
            }
        }
    }
    machines.sort_unstable();
    let mut text = "| patch |".to_owned();
    machines.iter().for_each(|machine| text += &format!(" {} |", model(machine)));
    text += " rulings |\n|---|";
    machines.iter().for_each(|_| text += "---|");
    text += "---|\n";
    // Decisions, how many of them were accepts, and how many came to no verdict.
    let mut held = [
        (Wanted::Never, "of what does not help, accepted (bar: none)", [0; 3]),
        (Wanted::Always, "of 5 % and more, accepted (bar: all)", [0; 3]),
        (Wanted::Mostly, "of 2 to 5 %, accepted (bar: 80 %)", [0; 3]),
        (Wanted::Pays, "of any gain for which a shape pays 5 %, or what may be 5 %, accepted", [0; 3]),
        (Wanted::Either, "of less, accepted", [0; 3]),
    ];
    let (mut all, mut beside, mut accused) = (0, 0, 0);
    // Of gains in the aggregate, whatever a single shape pays: decisions, and how many showed the gain.
    let mut gains = [0, 0];
    for scenario in &scenarios {
        let Versions::Patch { patch, truths, .. } = &scenario.versions else { continue };
        let decided: Vec<&Row> = rows.of(scenario).collect();
        all += decided.len();
        beside += decided.iter().filter(|row| row.processors == Some(1)).count();
        accused += decided.iter().filter(|row| row.ruling == Ruling::IntegrityViolation.name()).count();
        let mut line = format!("| {}/{} |", scenario.package, patch.trim_end_matches(".patch"));
        for machine in &machines {
            let there: Vec<&Row> = decided.iter().copied().filter(|row| row.device == *machine).collect();
            let truth = truths.iter().find(|(device, _)| device == machine).map(|(_, patch)| patch);
            let Some(truth) = truth.filter(|_| !there.is_empty()) else {
                line += " |";
                continue;
            };
            let accepts = there.iter().filter(|row| row.accepted()).count();
            let undecided = there.iter().filter(|row| row.ruling == Ruling::Contaminated.name()).count();
            for (_, _, [all, accepted, without]) in held.iter_mut().filter(|bar| bar.0 == worth::wanted(truth)) {
                *all += there.len();
                *accepted += accepts;
                *without += undecided;
            }
            if truth.truth == Truth::Helps && truth.aggregate.is_some_and(|aggregate| aggregate.gain >= 0.05) {
                gains[0] += there.len();
                gains[1] += there.iter().filter(|row| row.low > 0.0).count();
            }
            line += &format!(" {} |", decisions(truth, &there, accepts));
        }
        // What no compiler takes was decided on none.
        held[0].2[0] += decided.iter().filter(|row| row.device.is_empty()).count();
        let mut rulings: Vec<&str> = decided.iter().map(|row| row.ruling.as_str()).collect();
        rulings.sort_unstable();
        rulings.dedup();
        let _ = writeln!(text, "{line} {} |", rulings.join(", ").to_lowercase());
    }
    let wanted: usize =
        scenarios.iter().filter(|of| matches!(of.versions, Versions::Patch { .. })).map(|of| of.goal).sum();
    let _ = writeln!(
        text,
        "\n{all} of {wanted} decisions, {beside} of them on one processor while another run had the other one:\n"
    );
    for (_, name, [all, accepts, without]) in held {
        let without = if without == 0 { String::new() } else { format!("; without a verdict: {without}") };
        let _ = writeln!(text, "- {name}: {}{without}", share(accepts, all));
    }
    let _ = writeln!(
        text,
        "- of 5 % and more, whatever a shape pays, shown to be faster over all: {}",
        share(gains[1], gains[0])
    );
    let _ = writeln!(text, "- called a violation, which none is: {}", share(accused, all));
    Ok(text)
}

/// `model 173` of a processor's name with family and model.
fn model(machine: &str) -> &str {
    machine.rsplit_once(", ").map_or(machine, |(_, model)| model.trim_end_matches(')'))
}

/// What a patch is worth on a machine, how often it was accepted there, and the median of what was recorded for it.
fn decisions(truth: &PatchTruth, decided: &[&Row], accepts: usize) -> String {
    let worth = match (truth.truth, truth.aggregate) {
        (Truth::Helps | Truth::Slower | Truth::NoOp, Some(gain)) => format!("{:+.1} %", 100.0 * gain.gain),
        (other, _) => format!("{other:?}").to_lowercase(),
    };
    let accepted: Vec<f64> = decided.iter().filter(|row| row.accepted()).map(|row| 100.0 * row.gain).collect();
    let recorded = if accepted.is_empty() { String::new() } else { format!(", {:+.1} %", median(&accepted)) };
    format!("{worth}: {accepts} of {}{recorded}", decided.len())
}
