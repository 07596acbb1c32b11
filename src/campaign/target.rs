//! DEFINE_TARGET: every parameter of a campaign, inferred from the crate, then from a target file, then from flags; the
//! later one wins. All of it is a table until the end, so that a file may name any key and a typo is found.

use kopt_schema::FORMAT_VERSION;
use kopt_schema::campaign::Target;
use kopt_schema::campaign::target::{ExecutionMode, Goal, Metric, Source};
use kopt_schema::manifest::{Shape, ShapeValue};
use kopt_stats::Policy;
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::gate;
use crate::ledger;
use crate::machine::{self, Moment};
use crate::manifest::Kernel;

/// What a user may say of the target; the rest is inferred.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// A target file's name and text.
    pub file: Option<(String, String)>,
    /// `target_shapes`.
    pub shapes: Vec<String>,
    /// `representative_shapes`.
    pub representative: Vec<String>,
    /// `core_shapes`.
    pub core: Vec<String>,
    /// `performance_target`.
    pub goal: Option<Goal>,
    /// `primary_metric`.
    pub metric: Option<Metric>,
    /// `git_branch`.
    pub branch: Option<String>,
    /// `git_commit = false`.
    pub no_commit: bool,
    /// `execution_mode = "in-place"`.
    pub in_place: bool,
    /// `max_rounds`.
    pub max_rounds: Option<u32>,
    /// `max_time_s`.
    pub max_time_s: Option<f64>,
    /// `round_time_s`.
    pub round_time_s: Option<f64>,
    /// `max_cost_usd`.
    pub max_cost_usd: Option<f64>,
    /// `min_gain`.
    pub min_gain: Option<f64>,
    /// `policy`.
    pub policy: Option<String>,
    /// `instruction`.
    pub instruction: Option<String>,
    /// `proposers`; those of the file, else of the crate, if empty.
    pub proposers: Vec<Source>,
}

/// The target of a campaign on `kernel` that starts from commit `base`.
///
/// # Errors
/// Names every key that makes no sense.
pub fn define(kernel: &Kernel, base: &str, wishes: &Wishes) -> Result<Target> {
    let mut table = inferred(kernel, base)?;
    if let Some((shown, text)) = &wishes.file {
        merge(&mut table, shown, text)?;
    }
    for (key, value) in said(wishes)? {
        table.insert(key, value);
    }
    finish(&mut table);
    let mut target: Target =
        table.try_into().map_err(|error| Error::setup("the target makes no sense").because(&error).hint(SCHEMA))?;
    if target.representative_shapes.is_empty() {
        let shapes = kernel.manifest.shapes.iter();
        target.representative_shapes =
            representative(&shapes.filter(|shape| target.target_shapes.contains(&shape.name)).collect::<Vec<_>>());
    }
    check(kernel, &target)?;
    Ok(target)
}

const SCHEMA: &str = "`cargo kopt schema target` describes every key";

/// Rounds, the baseline included, where nobody says otherwise; with policy `tile` there are fewer.
const ROUNDS: u32 = 40;

fn inferred(kernel: &Kernel, base: &str) -> Result<Table> {
    let (manifest, name) = (&kernel.manifest, &kernel.member.name);
    let now = Moment::now();
    let device = machine::device(manifest.backend);
    let terms = gate::terms("default", None, false).map_err(Error::setup)?;
    let campaign = format!("{}_{}_{}_{}", manifest.op, manifest.backend.name(), short(&device), now.compact());
    let target = Target {
        format: FORMAT_VERSION,
        campaign,
        created: now.minute(),
        kernel: name.clone(),
        target_op: manifest.op.clone(),
        target_backend: manifest.backend,
        target_lang: manifest.language,
        target_device: device,
        target_shapes: manifest.shapes.iter().map(|shape| shape.name.clone()).collect(),
        representative_shapes: Vec::new(),
        core_shapes: Vec::new(),
        primary_metric: Metric::Latency,
        performance_target: None,
        kernel_sources: manifest.sources.clone(),
        test_command: format!("cargo test -p {name} --test correctness"),
        benchmark_command: format!("cargo bench -p {name}"),
        quick_command: format!("cargo kopt compare HEAD~1 HEAD -p {name} --quick"),
        execution_mode: ExecutionMode::Worktree,
        git_commit: true,
        git_branch: None,
        base: base.to_owned(),
        max_rounds: ROUNDS,
        max_time_s: 2.0 * 3600.0,
        round_time_s: 600.0,
        max_cost_usd: None,
        min_gain: terms.min_gain,
        policy: terms.policy,
        roofline_share: 0.95,
        instruction: None,
        proposers: Vec::new(),
    };
    Table::try_from(target).map_err(|error| Error::setup("the target makes no sense").because(&error))
}

/// Keys of a file over what was inferred. What only the tool can know may not be said.
fn merge(table: &mut Table, shown: &str, text: &str) -> Result<()> {
    const OWN: [&str; 12] = [
        "format",
        "campaign",
        "created",
        "kernel",
        "target_op",
        "target_backend",
        "target_lang",
        "target_device",
        "test_command",
        "benchmark_command",
        "quick_command",
        "base",
    ];
    const OPTIONAL: [&str; 4] = ["performance_target", "git_branch", "max_cost_usd", "instruction"];
    let given: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::setup(format!("`{shown}` is not TOML")).because(&error))?;
    for (key, value) in given {
        if OWN.contains(&key.as_str()) {
            return Err(Error::setup(format!("`{shown}`: `{key}` cannot be chosen"))
                .hint("leave it out: it follows from the crate, its commit and the machine"));
        }
        if !table.contains_key(&key) && !OPTIONAL.contains(&key.as_str()) {
            let known: Vec<&str> = table.keys().map(String::as_str).chain(OPTIONAL).collect();
            let error = Error::setup(format!("`{shown}`: unknown key `{key}`"));
            return Err(match kopt_schema::nearest(&key, known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(SCHEMA),
            });
        }
        table.insert(key, value);
    }
    Ok(())
}

/// What flags say.
fn said(wishes: &Wishes) -> Result<Vec<(String, Value)>> {
    fn value<T: serde::Serialize>(value: T) -> Result<Value> {
        Value::try_from(value).map_err(|error| Error::setup("a flag makes no sense").because(&error))
    }
    let mut said = Vec::new();
    let mut say = |key: &str, value: Value| said.push((key.to_owned(), value));
    let lists = [
        ("target_shapes", &wishes.shapes),
        ("representative_shapes", &wishes.representative),
        ("core_shapes", &wishes.core),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        say(key, value(list)?);
    }
    if let Some(goal) = wishes.goal {
        say("performance_target", value(goal)?);
    }
    if let Some(metric) = wishes.metric {
        say("primary_metric", value(metric)?);
    }
    if let Some(rounds) = wishes.max_rounds {
        say("max_rounds", value(rounds)?);
    }
    let texts = [("git_branch", &wishes.branch), ("policy", &wishes.policy), ("instruction", &wishes.instruction)];
    for (key, text) in texts {
        if let Some(text) = text {
            say(key, value(text)?);
        }
    }
    let numbers = [
        ("max_time_s", wishes.max_time_s),
        ("round_time_s", wishes.round_time_s),
        ("max_cost_usd", wishes.max_cost_usd),
        ("min_gain", wishes.min_gain),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            say(key, value(number)?);
        }
    }
    if wishes.no_commit {
        say("git_commit", Value::Boolean(false));
    }
    if wishes.in_place {
        say("execution_mode", value(ExecutionMode::InPlace)?);
    }
    if !wishes.proposers.is_empty() {
        say("proposers", value(&wishes.proposers)?);
    }
    Ok(said)
}

/// What follows from other keys.
fn finish(table: &mut Table) {
    let text = |table: &Table, key: &str| table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    // Words for a branch of the campaign's own, and for none: no branch is called so.
    match text(table, "git_branch").as_str() {
        "auto" => drop(table.remove("git_branch")),
        "none" => drop(table.insert("git_commit".to_owned(), Value::Boolean(false))),
        _ => {}
    }
    if table.get("git_commit").and_then(Value::as_bool) == Some(false) {
        table.remove("git_branch");
    } else if !table.contains_key("git_branch") {
        let branch = format!("kopt/{}", text(table, "campaign"));
        table.insert("git_branch".to_owned(), Value::String(branch));
    }
    // What is shown and told to proposers are the rounds that there will be.
    if text(table, "policy").parse() == Ok(Policy::Tile)
        && let Some(rounds) = table.get("max_rounds").and_then(Value::as_integer)
    {
        let most = rounds.min(i64::from(ledger::TILE_ROUNDS));
        table.insert("max_rounds".to_owned(), Value::Integer(most));
    }
}

/// The target makes sense by itself and for this crate.
fn check(kernel: &Kernel, target: &Target) -> Result<()> {
    let mut wrong = ledger::check(target);
    let shapes: Vec<&str> = kernel.manifest.shapes.iter().map(|shape| shape.name.as_str()).collect();
    for shape in target.target_shapes.iter().filter(|shape| !shapes.contains(&shape.as_str())) {
        let near = kopt_schema::nearest(shape, shapes.iter().copied());
        let near = near
            .map_or_else(|| format!("; there are {}", shapes.join(", ")), |near| format!("; did you mean `{near}`?"));
        wrong.push(format!("`target_shapes`: there is no shape `{shape}`{near}"));
    }
    if target.kernel_sources.iter().any(|source| !kernel.manifest.sources.contains(source)) {
        wrong.push(format!(
            "`kernel_sources`: only what the crate's manifest declares may change: {}",
            kernel.manifest.sources.join(", ")
        ));
    }
    let is_agent = |source: &Source| matches!(source, Source::Agent { .. });
    if target.proposers.iter().any(is_agent) && target.proposers.contains(&Source::Hand) {
        wrong.push(
            "`proposers`: an agent always has more to propose, and edits by hand would never have their turn; without `hand` (--by-hand) \
             `cargo kopt try` takes an edit of yours all the same, whenever the campaign is paused"
                .to_owned(),
        );
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let error = wrong.into_iter().fold(Error::setup("the target makes no sense"), Error::cause);
    Err(error.hint(SCHEMA))
}

/// Small, medium and large, and one of every choice that an operator has (the routings of a grouped one). A baseline that
/// fails on any shape starts no campaign, so that all of them pass.
#[must_use]
pub fn representative(shapes: &[&Shape]) -> Vec<String> {
    let mut ordered: Vec<&&Shape> = shapes.iter().collect();
    ordered.sort_by(|one, other| volume(one).total_cmp(&volume(other)));
    let mut chosen: Vec<&str> = Vec::new();
    for place in [0, ordered.len() / 2, ordered.len().saturating_sub(1)] {
        if let Some(shape) = ordered.get(place).filter(|shape| !chosen.contains(&shape.name.as_str())) {
            chosen.push(&shape.name);
        }
    }
    let choices = |shape: &Shape| -> Vec<String> {
        let choice = |(name, value): &(String, ShapeValue)| match value {
            ShapeValue::Choice(word) => Some(format!("{name}={word}")),
            ShapeValue::Size(_) => None,
        };
        shape.parameters.iter().filter_map(choice).collect()
    };
    for shape in shapes {
        let has = |choice: &String| {
            shapes.iter().any(|other| chosen.contains(&other.name.as_str()) && choices(other).contains(choice))
        };
        if choices(shape).iter().any(|choice| !has(choice)) {
            chosen.push(&shape.name);
        }
    }
    chosen.into_iter().map(str::to_owned).collect()
}

fn volume(shape: &Shape) -> f64 {
    let size = |value: &ShapeValue| match value {
        ShapeValue::Size(size) => *size as f64,
        ShapeValue::Choice(_) => 1.0,
    };
    shape.parameters.iter().map(|(_, value)| size(value)).product()
}

/// A device's name as part of a file name: `intel-xeon`.
fn short(device: &str) -> String {
    // Not the family and model of a processor.
    let lower = device.split(" (").next().unwrap_or(device).to_lowercase();
    let plain = ["(r)", "(tm)", "processor", "cpu", "@"].iter().fold(lower, |text, word| text.replace(word, " "));
    let words: Vec<String> = plain
        .split_whitespace()
        .map(|word| word.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect::<String>())
        .filter(|word| !word.is_empty())
        .take(3)
        .collect();
    if words.is_empty() { "device".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> Vec<Shape> {
        let text = format!("[package.metadata.kopt]\nop = \"grouped_matmul\"\nbackend = \"cpu\"\nshapes = [{text}]\n");
        kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap().shapes
    }

    #[test]
    fn representative_shapes_are_small_medium_large_and_every_routing() {
        let all = shapes(
            "{ rows = 64, groups = 8, k = 8, n = 8, routing = \"uniform\" }, \
             { rows = 128, groups = 8, k = 8, n = 8, routing = \"uniform\" }, \
             { name = \"s\", rows = 128, groups = 8, k = 8, n = 8, routing = \"skewed\" }, \
             { rows = 256, groups = 8, k = 8, n = 8, routing = \"uniform\" }",
        );
        let chosen = representative(&all.iter().collect::<Vec<_>>());
        assert_eq!(chosen.len(), 3, "{chosen:?}");
        assert!(chosen.contains(&"s".to_owned()), "{chosen:?}");
        assert_eq!(representative(&[&all[0]]).len(), 1);
    }

    #[test]
    fn rounds_that_policy_tile_never_comes_to_are_not_promised() {
        let rounds = |policy: &str, asked: u32| {
            let text = format!("campaign = \"c\"\npolicy = \"{policy}\"\nmax_rounds = {asked}\n");
            let mut table: Table = text.parse().unwrap();
            finish(&mut table);
            table.get("max_rounds").and_then(Value::as_integer)
        };
        assert_eq!([rounds("tile", 40), rounds("tile", 10), rounds("default", 40)], [Some(25), Some(10), Some(40)]);
    }

    #[test]
    fn no_branch_is_called_auto_or_none() {
        let finished = |branch: &str| {
            let mut table: Table = format!("campaign = \"c\"\n{branch}").parse().unwrap();
            finish(&mut table);
            let commits = table.get("git_commit").and_then(Value::as_bool).unwrap_or(true);
            (table.get("git_branch").and_then(Value::as_str).map(str::to_owned), commits)
        };
        let own = (Some("kopt/c".to_owned()), true);
        assert_eq!([finished(""), finished("git_branch = \"auto\"")], [own.clone(), own]);
        assert_eq!(finished("git_branch = \"none\""), (None, false));
        assert_eq!(finished("git_branch = \"mine\""), (Some("mine".to_owned()), true));
    }

    #[test]
    fn devices_make_short_names() {
        assert_eq!(short("Intel(R) Xeon(R) Processor @ 2.10GHz"), "intel-xeon-210ghz");
        assert_eq!(short("Intel(R) Xeon(R) Processor (family 6, model 143)"), "intel-xeon");
        assert_eq!(short("NVIDIA H200"), "nvidia-h200");
        assert_eq!(short("??"), "device");
    }
}
