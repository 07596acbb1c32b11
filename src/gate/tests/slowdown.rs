//! The verdicts of a gate for pull requests.

use kopt_schema::evidence::{Direction, Evidence, Ruling, Stage, StageKind};

use super::super::{Next, gate_terms, next, terms, unsettled, verdict, wants_a_second};
use super::{MS, Times, empty, launch, play};

/// Evidence of a gate with these times of the head on the two shapes, per cent of the base's.
fn gated(small: u64, large: u64) -> Evidence {
    let evidence = Evidence { terms: gate_terms(0.02).unwrap(), ..empty() };
    let times = |percent: u64| Times::honest([MS, MS * percent / 100, MS]);
    play(evidence, times(small), times(large))
}

#[test]
fn a_gate_passes_what_is_equal_or_faster_and_says_which() {
    for (times, direction) in [(100, Direction::Same), (90, Direction::Faster)] {
        let evidence = gated(times, times);
        assert_eq!((evidence.verdict.ruling, evidence.verdict.direction), (Ruling::Accepted, direction));
        assert_eq!(evidence.verdict.reasons, ["no shape is slower by 2 % or more"]);
        assert_eq!(evidence.stages.len(), 1, "nothing to confirm");
    }
}

#[test]
fn a_gate_fails_what_is_slower_twice_in_all_shapes_or_in_one() {
    for (small, large, named) in [(105, 105, "small"), (105, 90, "small"), (100, 120, "large")] {
        let evidence = gated(small, large);
        assert_eq!(evidence.verdict.ruling, Ruling::RolledBack, "{:?}", evidence.verdict.reasons);
        assert_eq!(evidence.stages.len(), 2, "confirmed by fresh launches");
        assert!(evidence.verdict.reasons[0].contains(named), "{:?}", evidence.verdict.reasons);
        let mut once = evidence;
        once.stages[1].launches.truncate(3);
        let told = verdict(&once);
        assert_eq!(told.ruling, Ruling::RolledBackNoise);
        assert!(told.reasons[0].contains("it was not confirmed"), "{:?}", told.reasons);
    }
}

#[test]
fn what_takes_more_than_twice_as_long_is_slower_though_the_time_is_over() {
    let cut = |percent: u64, launches: usize| {
        let mut evidence = gated(percent, 100);
        evidence.stages.truncate(1);
        evidence.stages[0].launches.truncate(launches);
        evidence
    };
    let told = verdict(&cut(300, 2));
    assert_eq!(told.ruling, Ruling::RolledBack, "{:?}", told.reasons);
    assert!(told.reasons[0].contains("small") && !told.reasons[0].contains("large"), "{:?}", told.reasons);
    // One launch proves nothing by itself, and asks for another.
    assert_eq!(verdict(&cut(300, 1)).ruling, Ruling::RolledBackNoise);
    assert!(wants_a_second(&cut(300, 1)) && !wants_a_second(&cut(300, 2)));
    assert_eq!(verdict(&cut(150, 2)).ruling, Ruling::RolledBackNoise);
    assert!(!wants_a_second(&cut(150, 1)) && !wants_a_second(&cut(100, 1)));
    let gain = Evidence { terms: terms("default", None, false).unwrap(), ..cut(300, 1) };
    assert!(!wants_a_second(&gain), "who looks for gains has no use for it");
}

#[test]
fn a_slowdown_that_fresh_launches_rule_out_passes() {
    let mut evidence = gated(105, 105);
    let honest = gated(100, 100);
    for launch in &mut evidence.stages[1].launches {
        launch.cases.clone_from(&honest.stages[0].launches[0].cases);
    }
    let told = verdict(&evidence);
    assert_eq!(told.ruling, Ruling::Accepted, "{:?}", told.reasons);
    assert!(told.reasons[0].contains("rule it out"), "{:?}", told.reasons);
}

#[test]
fn a_disturbed_launch_makes_a_confirmation_longer_and_hides_no_slowdown() {
    let confirmed = gated(105, 105);
    let mut evidence = Evidence { stages: confirmed.stages.clone(), ..confirmed.clone() };
    let first = evidence.stages[1].launches.len();
    // One in which the head seems to be faster by a tenth.
    let disturbed = Times::honest([MS, MS * 9 / 10, MS]);
    evidence.stages[1].launches[0] = launch(first, disturbed, disturbed);
    assert_eq!(verdict(&evidence).ruling, Ruling::RolledBackNoise);
    assert_eq!(next(&evidence), Next::Measure, "not the end of it");
    let slower = Times::honest([MS, MS * 105 / 100, MS]);
    let mut number = 2 * first;
    while next(&evidence) == Next::Measure {
        evidence.stages[1].launches.push(launch(number, slower, slower));
        number += 1;
    }
    let told = verdict(&evidence);
    assert_eq!(told.ruling, Ruling::RolledBack, "{:?}", told.reasons);
    assert!(evidence.stages[1].launches.len() > first);
}

#[test]
fn a_gate_gives_no_verdict_on_a_disturbed_machine_and_none_for_a_tolerance_without_sense() {
    let evidence = Evidence { terms: gate_terms(0.02).unwrap(), ..empty() };
    let disturbed = |control: u64| Times::honest([MS, MS * 105 / 100, control]);
    let told = play(evidence.clone(), disturbed(MS * 103 / 100), disturbed(MS * 103 / 100)).verdict;
    assert_eq!(told.ruling, Ruling::Contaminated);
    // A quarter of the tolerance neither makes nor hides a slowdown.
    let told = play(evidence, disturbed(MS * 1003 / 1000), disturbed(MS * 1003 / 1000)).verdict;
    assert_eq!(told.ruling, Ruling::RolledBack);
    assert!(gate_terms(0.0).is_err() && gate_terms(1.0).is_err() && gate_terms(f64::NAN).is_err());
    assert_eq!(gate_terms(0.05).unwrap().max_regression, 0.05);
    assert!(!terms("gate", None, false).unwrap().trace && terms("default", None, false).unwrap().trace);
}

#[test]
fn what_is_clear_is_not_measured_any_further_and_still_told() {
    let evidence = gated(80, 110);
    assert_eq!(evidence.verdict.ruling, Ruling::RolledBack, "{:?}", evidence.verdict.reasons);
    let names = |stage: usize| {
        let cases = evidence.stages[stage].launches.iter().map(|launch| &launch.cases);
        cases.map(|cases| cases.iter().map(|case| case.case.as_str()).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert!(names(0).iter().all(|names| names == &["small", "large"]), "{:?}", names(0));
    assert!(names(1).iter().all(|names| names == &["large"]), "{:?}", names(1));
    let told: Vec<(&str, bool)> =
        evidence.verdict.shapes.iter().map(|shape| (shape.shape.as_str(), shape.estimate.gain > 0.0)).collect();
    assert_eq!(told, [("small", true), ("large", false)]);
    assert!(evidence.verdict.aggregate.is_some_and(|aggregate| aggregate.gain > 0.0));
}

#[test]
fn a_noisy_shape_is_measured_on_alone() {
    let mut evidence = Evidence { terms: gate_terms(0.02).unwrap(), ..empty() };
    evidence.stages.push(Stage { kind: StageKind::Screen, launches: Vec::new() });
    assert!(unsettled(&evidence).is_empty(), "all of them");
    for number in 0..6 {
        // Too noisy for six launches, and as often slower as faster.
        let large = if number % 2 == 0 { MS * 103 / 100 } else { MS * 97 / 100 };
        let launch = launch(number, Times::honest([MS; 3]), Times::honest([MS, large, MS]));
        evidence.stages[0].launches.push(launch);
    }
    assert_eq!(unsettled(&evidence), ["large"]);
    let whole = Evidence { terms: terms("default", None, false).unwrap(), ..evidence };
    assert!(unsettled(&whole).is_empty(), "a comparison always goes through all");
}

/// Six launches that go through everything, a block of `large` each, which seems slower or faster by 3 % in turn, and
/// then launches of it alone with sixteen blocks, in which the head takes as long as the base, or `percent` of that.
fn looked_at_closely(percent: u64, weighted: bool) -> Evidence {
    let mut evidence = Evidence { terms: gate_terms(0.02).unwrap(), ..empty() };
    evidence.terms.weighted = weighted;
    evidence.stages.push(Stage { kind: StageKind::Screen, launches: Vec::new() });
    for number in 0..9 {
        let large = MS * percent / 100;
        let noise = |number: usize| if number.is_multiple_of(2) { 1031 } else { 969 };
        let large = if number < 6 { large * noise(number) / 1000 } else { large };
        let mut launch = launch(number, Times::honest([MS; 3]), Times::honest([MS, large, MS]));
        let blocks = if number < 6 { 1 } else { 16 };
        launch.cases[1].blocks = vec![launch.cases[1].blocks[0].clone(); blocks];
        launch.cases.retain(|case| number < 6 || case.case == "large");
        evidence.stages[0].launches.push(launch);
    }
    evidence
}

#[test]
fn a_launch_counts_by_how_closely_it_looked() {
    let equal = looked_at_closely(100, true);
    let told = verdict(&equal);
    assert_eq!(told.ruling, Ruling::Accepted, "{:?}", told.reasons);
    assert!(told.shapes[1].estimate.high - told.shapes[1].estimate.low < 0.03, "{:?}", told.shapes[1]);
    // The same launches, each as much as any other, as older evidence has it.
    assert_eq!(verdict(&looked_at_closely(100, false)).ruling, Ruling::RolledBackNoise);
    let older = serde_json::to_value(&equal).unwrap();
    let mut older = older.as_object().unwrap().clone();
    older["terms"].as_object_mut().unwrap().remove("weighted");
    let older: Evidence = serde_json::from_value(older.into()).unwrap();
    assert_eq!(verdict(&older).ruling, Ruling::RolledBackNoise);
    // And no slowdown hides behind the first ones.
    let slower = looked_at_closely(106, true);
    assert_eq!(next(&slower), Next::Confirm, "{:?}", verdict(&slower).reasons);
}

#[test]
fn the_head_is_compared_with_both_processes_of_the_base() {
    let mut evidence = Evidence { terms: gate_terms(0.02).unwrap(), ..empty() };
    evidence.stages.push(Stage { kind: StageKind::Screen, launches: Vec::new() });
    for number in 0..6 {
        // One of them is faster by 3 % in every other launch, the other in the rest.
        let [first, second] = if number % 2 == 0 { [MS * 97 / 100, MS] } else { [MS, MS * 97 / 100] };
        let times = Times::honest([first, MS * 985 / 1000, second]);
        evidence.stages[0].launches.push(launch(number, times, times));
    }
    let told = verdict(&evidence);
    assert_eq!(told.ruling, Ruling::Accepted, "{:?}", told.reasons);
    let one =
        Evidence { terms: kopt_schema::evidence::Terms { weighted: false, ..evidence.terms.clone() }, ..evidence };
    assert_eq!(verdict(&one).ruling, Ruling::RolledBackNoise);
}
