//! The target, shown before anything runs, and the user's word for it.

use kopt_schema::campaign::Target;
use kopt_schema::campaign::target::{ExecutionMode, Goal};

use crate::error::Result;
use crate::shell::table::{Align, Table};
use crate::shell::{Shell, count, units};

/// Shows the target to who asked for it.
pub fn show(shell: &mut Shell, target: &Target) -> Result<()> {
    shell.answer(&table(target).render())
}

/// Shows the target; whether the user wants it.
pub fn target(shell: &mut Shell, target: &Target, yes: bool) -> Result<bool> {
    shell.say(&table(target).render());
    let agreed = yes || shell.confirm("the target", "Begin with this target?")?;
    if !agreed {
        shell.say(
            "Nothing was begun. Flags and --target FILE change the target; `cargo kopt optimize --help` names them.\n",
        );
    }
    Ok(agreed)
}

fn table(target: &Target) -> Table {
    let mut table = Table::new(&[("target", Align::Left), ("", Align::Left)]);
    for (name, value) in rows(target) {
        table.row([name.to_owned(), value]);
    }
    table
}

fn rows(target: &Target) -> Vec<(&'static str, String)> {
    let all = |names: &[String]| if names.is_empty() { "all".to_owned() } else { names.join(", ") };
    let goal = match target.performance_target {
        None => "none".to_owned(),
        Some(Goal::Gain(gain)) => format!("{:+.0} %", 100.0 * gain),
        Some(Goal::Latency(seconds)) => units::seconds(seconds),
        Some(Goal::Peak(share)) => format!("{:.0} % of the ceiling", 100.0 * share),
    };
    let place = match (target.execution_mode, &target.git_branch) {
        (ExecutionMode::Worktree, Some(branch)) => format!("a worktree of its own, branch {branch}"),
        (ExecutionMode::Worktree, None) => "a worktree of its own, no commits".to_owned(),
        (ExecutionMode::InPlace, Some(branch)) => format!("this checkout, branch {branch}"),
        (ExecutionMode::InPlace, None) => "this checkout, no commits".to_owned(),
    };
    let cost = target.max_cost_usd.map(|cost| format!(", {cost} USD")).unwrap_or_default();
    let limits = format!(
        "{}, {}{cost}; {} for a proposal",
        count(target.max_rounds as usize, "round"),
        units::duration(target.max_time_s),
        units::duration(target.round_time_s)
    );
    let mut rows = vec![
        (
            "kernel",
            format!(
                "{}: {} on {} ({})",
                target.kernel,
                target.target_op,
                target.target_backend.name(),
                target.target_device
            ),
        ),
        ("from", target.base[..target.base.len().min(10)].to_owned()),
        ("sources", target.kernel_sources.join(", ")),
        ("shapes", target.target_shapes.join(", ")),
        ("core shapes", all(&target.core_shapes)),
        ("quick validation", target.representative_shapes.join(", ")),
        ("goal", goal),
        ("accepted", format!("from {:.1} % gain, policy {}", 100.0 * target.min_gain, target.policy)),
        ("proposers", target.proposers.iter().map(|source| source.name()).collect::<Vec<_>>().join(", then ")),
        ("limits", limits),
        ("works in", place),
    ];
    if let Some(instruction) = &target.instruction {
        rows.push(("to do", instruction.clone()));
    }
    rows
}
