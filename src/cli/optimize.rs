//! `cargo kopt optimize`

use camino::Utf8PathBuf;
use kopt_schema::campaign::target::{Goal, Metric, Source};
use kopt_schema::exit::Exit;

use super::quantity;
use crate::campaign::target::Wishes;
use crate::context::Context;
use crate::error::Result;
use crate::gate;
use crate::ops;
use crate::shell::Shell;

const EXAMPLES: &str = "More examples:
  cargo kopt optimize -p softmax-cpu --agent claude --max-rounds 20 --max-cost 10
  cargo kopt optimize -p softmax-cpu --agent 'my-agent --prompt {prompt_file}' --goal 2x
  cargo kopt optimize -p softmax-cpu --patch faster.patch
  cargo kopt optimize -p softmax-cpu --by-hand";

/// Run a campaign: rounds of one change each, accepted as commits or rolled back
///
/// The target is inferred from the crate, shown and confirmed. Then the version at hand is checked and measured, and
/// round after round somebody proposes one change: a queue of patches (the crate's own `patches` folder by default), an
/// agent's command, or you (--by-hand, then `cargo kopt try`). Each change is compiled, checked on every trial and
/// compared with the last accepted version by a referee; it becomes a commit on a branch of the campaign's own, with its
/// evidence, or is rolled back with the reason. Your checkout is not touched. In the end there is a report, and every
/// commit can be verified. A campaign that is killed goes on with `resume`. Exit code 0 when it came to its end, whatever was
/// accepted.
///
/// Example: cargo kopt optimize -p rmsnorm-cpu --yes
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The kernel crate; not needed inside of one
    #[arg(short, long = "package", value_name = "NAME")]
    package: Option<String>,
    /// Take the target as it is shown, and ask nobody
    #[arg(short, long)]
    yes: bool,
    /// Show the target, and do nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Propose the patches of this folder, in the order of their names
    #[arg(long, value_name = "FOLDER", help_heading = "Who proposes")]
    patches: Vec<Utf8PathBuf>,
    /// Propose what this command makes of the prompt: claude, codex, or a template with any of {prompt_file}, {worktree}, {crate}, {round_dir}, {round}, {attempt}, {time_s}
    #[arg(long, value_name = "COMMAND", help_heading = "Who proposes")]
    agent: Vec<String>,
    /// One optimization: this patch
    #[arg(long, value_name = "FILE", conflicts_with_all = ["patches", "agent", "by_hand"], help_heading = "Who proposes")]
    patch: Option<Utf8PathBuf>,
    /// One optimization: what this text asks the agent for
    #[arg(long, value_name = "TEXT", requires = "agent", help_heading = "Who proposes")]
    apply: Option<String>,
    /// Your own edits, through `cargo kopt try`
    #[arg(long, help_heading = "Who proposes")]
    by_hand: bool,
    /// A TOML file with any of the target's keys; flags override it
    #[arg(long, value_name = "FILE", help_heading = "The target")]
    target: Option<Utf8PathBuf>,
    /// Only these shapes
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "The target")]
    shapes: Vec<String>,
    /// The shapes of quick validation
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "The target")]
    representative_shapes: Vec<String>,
    /// The shapes that may not lose; all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "The target")]
    core_shapes: Vec<String>,
    /// Where to stop: 2x, +50%, 120us, or 80%peak
    #[arg(long, value_name = "GOAL", value_parser = goal, help_heading = "The target")]
    goal: Option<Goal>,
    /// What times are told as: latency, tflops or gbps
    #[arg(long, value_name = "METRIC", value_parser = metric, help_heading = "The target")]
    metric: Option<Metric>,
    /// What is accepted: default, tile, service, or training (as default, and it must train to the same losses)
    #[arg(long, value_name = "NAME", value_parser = policy, help_heading = "The target")]
    policy: Option<String>,
    /// Least gain of an accept, such as 1% or 0.01 [default: the policy's, 1%]
    #[arg(long, value_name = "SHARE", value_parser = quantity::share, help_heading = "The target")]
    min_gain: Option<f64>,
    /// Rounds at most, the baseline included: N - 1 proposals [default: 40]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_rounds: Option<u32>,
    /// Time at most, such as 90m or 8h [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, help_heading = "Limits")]
    max_time: Option<f64>,
    /// Time that a proposer has for a round [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, help_heading = "Limits")]
    round_time: Option<f64>,
    /// US dollars at most, where the agent tells what it costs
    #[arg(long, value_name = "USD", help_heading = "Limits")]
    max_cost: Option<f64>,
    /// The branch of accepted rounds; kopt/<campaign> by default
    #[arg(long, value_name = "NAME", conflicts_with = "no_commit", help_heading = "Git")]
    branch: Option<String>,
    /// Record accepted rounds, and commit none
    #[arg(long, help_heading = "Git")]
    no_commit: bool,
    /// Work in this checkout instead of a worktree; it must be clean
    #[arg(long, help_heading = "Git")]
    in_place: bool,
    /// Begin another campaign, though one on this kernel is unfinished
    #[arg(long = "new")]
    another: bool,
}

impl Args {
    pub fn run(self, context: &Context, shell: &mut Shell, manifest_path: Option<Utf8PathBuf>) -> Result<Exit> {
        let one_round = self.patch.is_some() || self.apply.is_some();
        let wishes = Wishes {
            file: None,
            proposers: self.proposers(context),
            shapes: self.shapes,
            representative: self.representative_shapes,
            core: self.core_shapes,
            goal: self.goal,
            metric: self.metric,
            branch: self.branch,
            no_commit: self.no_commit,
            in_place: self.in_place,
            max_rounds: self.max_rounds.or(one_round.then_some(2)),
            max_time_s: self.max_time,
            round_time_s: self.round_time,
            max_cost_usd: self.max_cost,
            min_gain: self.min_gain,
            policy: self.policy,
            instruction: self.apply,
        };
        let request = ops::optimize::Request {
            manifest_path,
            package: self.package,
            wishes,
            target: self.target,
            yes: self.yes,
            dry_run: self.dry_run,
            another: self.another,
        };
        ops::optimize::optimize(context, shell, &request)
    }

    fn proposers(&self, context: &Context) -> Vec<Source> {
        let path = |path: &Utf8PathBuf| context.absolute(path).to_string();
        let patches = self.patches.iter().map(|folder| Source::Patches { folder: path(folder) });
        let agents = self.agent.iter().map(|command| Source::Agent { command: command.clone() });
        let patch = self.patch.iter().map(|file| Source::Patch { file: path(file) });
        patches.chain(agents).chain(patch).chain(self.by_hand.then_some(Source::Hand)).collect()
    }
}

/// Only the gate knows which policies there are.
fn policy(text: &str) -> Result<String, String> {
    match text {
        "gate" => Err("`gate` asks for no gain: it is for `cargo kopt gate` and `compare`".to_owned()),
        _ => gate::terms(text, None, false).map(|terms| terms.policy),
    }
}

fn metric(text: &str) -> Result<Metric, String> {
    match text {
        "latency" => Ok(Metric::Latency),
        "tflops" => Ok(Metric::TeraFlops),
        "gbps" => Ok(Metric::GigaBytes),
        _ => Err("latency, tflops or gbps".to_owned()),
    }
}

/// `2x`, `+50%`, `120us`, `80%peak`.
fn goal(text: &str) -> Result<Goal, String> {
    let wrong =
        || format!("`{text}` is no goal: 2x as fast, +50% gain, 120us a call, or 80%peak of the measured ceiling");
    let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    let bare = text.trim();
    if let Some(factor) = bare.strip_suffix('x') {
        return number(factor).filter(|factor| *factor > 1.0).map(|factor| Goal::Gain(factor - 1.0)).ok_or_else(wrong);
    }
    if let Some(share) = bare.strip_suffix("peak") {
        let share = share.trim().strip_suffix('%').and_then(number).map(|percent| percent / 100.0);
        return share.filter(|share| *share <= 1.0).map(Goal::Peak).ok_or_else(wrong);
    }
    if let Some(gain) = bare.strip_prefix('+').and_then(|rest| rest.strip_suffix('%')) {
        return number(gain).map(|percent| Goal::Gain(percent / 100.0)).ok_or_else(wrong);
    }
    for (unit, size) in [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)] {
        if let Some(time) = bare.strip_suffix(unit).and_then(number) {
            return Ok(Goal::Latency(time * size));
        }
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_factors_gains_times_or_shares_of_the_ceiling() {
        assert_eq!(goal("2x"), Ok(Goal::Gain(1.0)));
        assert_eq!(goal("+50%"), Ok(Goal::Gain(0.5)));
        assert_eq!(goal("80%peak"), Ok(Goal::Peak(0.8)));
        assert!(matches!(goal("120us"), Ok(Goal::Latency(time)) if (time - 1.2e-4).abs() < 1e-12));
        for text in ["", "x", "0.5x", "-2x", "50%", "peak", "120%peak", "fast", "1.2.3us", "infx", "nans"] {
            assert!(goal(text).is_err(), "{text}");
        }
    }
}
