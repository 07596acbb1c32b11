//! Targets that cannot be.

use kopt_schema::campaign::target::Goal;

use super::*;
use crate::ledger::check;

/// The one thing that is wrong with the target after `change`.
fn wrong(change: impl FnOnce(&mut Target)) -> String {
    let mut target = target();
    change(&mut target);
    let mut found = check(&target);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_target_that_can_be_run_has_nothing_wrong() {
    assert_eq!(check(&target()), Vec::<String>::new());
    let other = Target {
        git_commit: false,
        git_branch: None,
        max_rounds: 119,
        min_gain: 0.0,
        roofline_share: 1.0,
        representative_shapes: Vec::new(),
        core_shapes: vec!["large".to_owned()],
        performance_target: Some(Goal::Peak(1.0)),
        max_cost_usd: Some(5.0),
        policy: "training".to_owned(),
        ..target()
    };
    assert_eq!(check(&other), Vec::<String>::new());
}

#[test]
fn rounds_are_from_1_to_119() {
    for rounds in [0, 120, 1000] {
        let words = wrong(|target| target.max_rounds = rounds);
        assert!(words.starts_with(&format!("`max_rounds` is {rounds}")), "{words}");
    }
}

#[test]
fn numbers_outside_of_their_range_are_named() {
    for bad in [-0.01, 1.0, f64::NAN] {
        assert!(wrong(|target| target.min_gain = bad).starts_with("`min_gain`"));
    }
    for bad in [0.0, 1.01, f64::NAN] {
        assert!(wrong(|target| target.roofline_share = bad).starts_with("`roofline_share`"));
        assert!(wrong(|target| target.performance_target = Some(Goal::Peak(bad))).starts_with("`performance_target`"));
    }
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(wrong(|target| target.max_time_s = bad).starts_with("`max_time_s`"));
        assert!(wrong(|target| target.round_time_s = bad).starts_with("`round_time_s`"));
        assert!(wrong(|target| target.max_cost_usd = Some(bad)).starts_with("`max_cost_usd`"));
        assert!(wrong(|target| target.performance_target = Some(Goal::Gain(bad))).contains("a gain of"));
        assert!(wrong(|target| target.performance_target = Some(Goal::Latency(bad))).contains("a latency of"));
    }
}

#[test]
fn shapes_are_those_of_the_target() {
    assert!(wrong(|target| target.target_shapes.clear()).starts_with("`target_shapes` is empty"));
    let words = wrong(|target| target.representative_shapes = vec!["smal".to_owned()]);
    assert_eq!(
        words,
        "`representative_shapes` names `smal`, which is not among `target_shapes`; did you mean `small`?"
    );
    let words = wrong(|target| target.core_shapes = vec!["elsewhere".to_owned()]);
    assert_eq!(words, "`core_shapes` names `elsewhere`, which is not among `target_shapes`");
    assert!(wrong(|target| target.target_shapes.push("small".to_owned())).ends_with("names `small` twice"));
}

#[test]
fn only_files_of_the_package_may_change() {
    assert!(wrong(|target| target.kernel_sources.clear()).starts_with("`kernel_sources` is empty"));
    for bad in ["/etc/passwd", "kernels/../../x.c", "..", " "] {
        assert!(wrong(|target| target.kernel_sources.push(bad.to_owned())).starts_with("`kernel_sources` holds"));
    }
    let mut fine = target();
    fine.kernel_sources.push("kernels/a..b.c".to_owned());
    assert!(check(&fine).is_empty());
}

#[test]
fn names_that_nothing_has_are_refused() {
    assert!(wrong(|target| target.policy = "Tile".to_owned()).starts_with("`policy`: no policy is called `Tile`"));
    assert!(wrong(|target| target.git_branch = None).contains("`git_branch` names no branch"));
    assert!(wrong(|target| target.base.clear()).starts_with("`base` is empty"));
    assert!(wrong(|target| target.proposers.clear()).starts_with("`proposers` is empty"));
}

#[test]
fn a_newer_format_is_refused() {
    assert!(wrong(|target| target.format = 2).starts_with("`format` is 2"));
    assert!(wrong(|target| target.format = 0).starts_with("`format` is 0"));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let mut bad = target();
    (bad.max_rounds, bad.min_gain, bad.max_time_s) = (0, 2.0, 0.0);
    assert_eq!(check(&bad).len(), 3);
}
