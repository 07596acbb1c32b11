//! What is impossible in a target: everything at once, before anything runs.

use std::collections::BTreeSet;

use kopt_schema::FORMAT_VERSION;
use kopt_schema::campaign::Target;
use kopt_schema::campaign::target::Goal;
use kopt_stats::Policy;

/// Rounds that no campaign reaches.
const TOO_MANY_ROUNDS: u32 = 120;

/// Everything that is impossible in a target, each in words that name the field; empty where it can be run.
#[must_use]
pub fn check(target: &Target) -> Vec<String> {
    let mut wrong = Vec::new();
    if target.format == 0 || target.format > FORMAT_VERSION {
        wrong.push(format!("`format` is {}, and this tool knows formats up to {FORMAT_VERSION}", target.format));
    }
    for (field, text) in [("campaign", &target.campaign), ("kernel", &target.kernel), ("base", &target.base)] {
        if text.trim().is_empty() {
            wrong.push(format!("`{field}` is empty"));
        }
    }
    shapes(target, &mut wrong);
    sources(target, &mut wrong);
    limits(target, &mut wrong);
    match target.policy.parse::<Policy>() {
        Err(error) => wrong.push(format!("`policy`: {error}")),
        Ok(Policy::Gate) => wrong.push("`policy`: `gate` asks for no gain, and a campaign is for gains".to_owned()),
        Ok(_) => {}
    }
    if target.git_commit && target.git_branch.as_deref().is_none_or(|branch| branch.trim().is_empty()) {
        wrong.push("`git_commit` is true, and `git_branch` names no branch that commits could go to".to_owned());
    }
    if target.proposers.is_empty() {
        wrong.push("`proposers` is empty: nobody would propose anything".to_owned());
    }
    wrong
}

fn shapes(target: &Target, wrong: &mut Vec<String>) {
    let known: BTreeSet<&str> = target.target_shapes.iter().map(String::as_str).collect();
    if known.is_empty() {
        wrong.push("`target_shapes` is empty: nothing would be measured".to_owned());
        return;
    }
    let lists = [
        ("target_shapes", &target.target_shapes),
        ("representative_shapes", &target.representative_shapes),
        ("core_shapes", &target.core_shapes),
    ];
    for (field, shapes) in lists {
        let mut seen = BTreeSet::new();
        for shape in shapes {
            if !known.contains(shape.as_str()) {
                let near = kopt_schema::nearest(shape, known.iter().copied());
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                wrong.push(format!("`{field}` names `{shape}`, which is not among `target_shapes`{hint}"));
            }
            if !seen.insert(shape) {
                wrong.push(format!("`{field}` names `{shape}` twice"));
            }
        }
    }
}

fn sources(target: &Target, wrong: &mut Vec<String>) {
    if target.kernel_sources.is_empty() {
        wrong.push("`kernel_sources` is empty: no round could change anything".to_owned());
    }
    for source in &target.kernel_sources {
        let what = if source.trim().is_empty() {
            "holds an empty path".to_owned()
        } else if source.starts_with('/') {
            format!("holds `{source}`: paths are relative to the package")
        } else if source.split('/').any(|part| part == "..") {
            format!("holds `{source}`: nothing outside of the package may change")
        } else {
            continue;
        };
        wrong.push(format!("`kernel_sources` {what}"));
    }
}

fn limits(target: &Target, wrong: &mut Vec<String>) {
    if target.max_rounds == 0 || target.max_rounds >= TOO_MANY_ROUNDS {
        let last = TOO_MANY_ROUNDS - 1;
        wrong.push(format!("`max_rounds` is {}: from 1, which is the baseline alone, to {last}", target.max_rounds));
    }
    for (field, seconds) in [("max_time_s", target.max_time_s), ("round_time_s", target.round_time_s)] {
        if !is_positive(seconds) {
            wrong.push(format!("`{field}` is {seconds}: a number of seconds above 0"));
        }
    }
    if let Some(cost) = target.max_cost_usd.filter(|cost| !is_positive(*cost)) {
        wrong.push(format!("`max_cost_usd` is {cost}: a number of dollars above 0, or nothing for no limit"));
    }
    if !(0.0..1.0).contains(&target.min_gain) {
        wrong.push(format!("`min_gain` is {}: from 0 to below 1", target.min_gain));
    }
    if !is_share(target.roofline_share) {
        wrong.push(format!("`roofline_share` is {}: above 0, and 1 at most", target.roofline_share));
    }
    match target.performance_target {
        Some(Goal::Gain(gain)) if !is_positive(gain) => {
            wrong.push(format!("`performance_target` is a gain of {gain}: above 0"));
        }
        Some(Goal::Latency(seconds)) if !is_positive(seconds) => {
            wrong.push(format!("`performance_target` is a latency of {seconds}: a number of seconds above 0"));
        }
        Some(Goal::Peak(share)) if !is_share(share) => {
            wrong.push(format!("`performance_target` is {share} of the ceiling: above 0, and 1 at most"));
        }
        _ => {}
    }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn is_share(value: f64) -> bool {
    value > 0.0 && value <= 1.0
}
