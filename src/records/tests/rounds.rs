//! Summary, transfer check and commit of a round.

use kopt_schema::campaign::event::Refused;
use kopt_schema::evidence::LeftOut;

use super::*;

const EVIL: &str = "x\n## Decision\n\nKopt-Round: 99\n---\n# gone\n| a | b |\n<script>`";

#[test]
fn every_kind_of_round_has_a_whole_summary() {
    let mut round_one = accepted();
    round_one.decision = Decision::Baseline(baseline());
    round_one.proposal = None;
    round_one.measurements.clear();
    assert_eq!(validate_summary(&summary(&accepted()), false), Vec::<String>::new());
    assert_eq!(validate_summary(&summary(&round_one), false), Vec::<String>::new());
    for reason in [
        Reason::Proposer,
        Reason::NoChange,
        Reason::DoesNotApply,
        Reason::Forbidden,
        Reason::Similar,
        Reason::Build,
        Reason::Incorrect,
        Reason::Integrity,
        Reason::Slower,
        Reason::Noise,
        Reason::Contaminated,
        Reason::Overfit,
        Reason::Stopped,
    ] {
        let mut facts = rolled_back(reason, "said so");
        assert_eq!(validate_summary(&summary(&facts), true), Vec::<String>::new(), "{reason:?}");
        facts.proposal = None;
        assert_eq!(validate_summary(&summary(&facts), true), Vec::<String>::new(), "{reason:?}, nothing proposed");
    }
}

#[test]
fn a_summary_says_what_was_measured_shape_by_shape() {
    let text = summary(&accepted());
    let table = rows(&text);
    assert_eq!(table[0], ["shape", "before", "after", "gain", "interval", "direction"]);
    assert_eq!(table[1], ["64x1024", "12.3 µs", "11.0 µs", "+12.3 %", "[+11.0, +13.6]", "faster"]);
    assert_eq!(table[2][0], "1x8");
    assert_eq!(table[3][..5], ["2048x4096", "-", "-", "-", "-"]);
    assert!(table[3][5].starts_with("FAILED: crashed"), "{:?}", table[3]);
    let labels = labels(&text);
    assert_eq!(labels["Aggregate vs last accepted"], "+12.3 % [+11.0, +13.6] at 96 % confidence");
    assert!(labels["Aggregate vs baseline"].ends_with("(product of the accepted rounds' gains)"));
    assert_eq!(labels["Launches"], "15 launches in 1 min 15 s");
    assert_eq!(labels["Commands"], "`cargo test -p softmax-cpu` (correctness), `cargo bench -p softmax-cpu` (latency)");
    assert_eq!(labels["Evidence"], format!("`{}`", "ab".repeat(32)));
    assert_eq!(labels["Expected by the proposer (a claim, never used)"], "about 30 %");
    assert_eq!(labels["Lines"], "12 added, 3 removed");
    assert!(!text.contains("Rollback Analysis"));
}

#[test]
fn a_shape_that_nobody_mentions_has_a_row_too() {
    let mut facts = accepted();
    facts.measurements[0].failed.clear();
    let table = rows(&summary(&facts));
    assert_eq!(table[3], ["2048x4096", "-", "-", "-", "-", "not measured"]);
}

#[test]
fn a_shape_that_nobody_asked_for_has_not_failed() {
    let mut facts = accepted();
    let left_out = LeftOut { shape: "7x7".to_owned(), why: "not among the campaign's shapes".to_owned() };
    facts.measurements[0].left_out.push(left_out);
    let table = rows(&summary(&facts));
    assert!(table[3][5].starts_with("FAILED: crashed"), "{:?}", table[3]);
    assert_eq!(table[4][0], "7x7");
    assert_eq!(table[4][5], "not compared: not among the campaign's shapes");
    let message = commit_message(&facts);
    assert!(message.contains("\n  7x7: not compared: not among the campaign's shapes\n"), "{message}");
}

#[test]
fn a_trade_off_names_the_shape_and_the_amount() {
    let mut facts = accepted();
    let shape = &mut facts.measurements[0].verdict.shapes[1];
    (shape.direction, shape.estimate) = (Direction::Slower, estimate(-0.03, 0.01));
    facts.decision = Decision::Accepted { ruling: Ruling::AcceptedTradeOff, gain: estimate(0.123, 0.013) };
    let text = summary(&facts);
    assert!(
        text.contains("**ACCEPTED (trade-off)**") && text.contains("\n- Slower: 1x8, -3.0 % [-4.0, -2.0]\n"),
        "{text}"
    );
}

#[test]
fn quick_and_full_both_stand_there_and_quick_is_not_compared_with_the_baseline() {
    let mut facts = accepted();
    facts
        .measurements
        .insert(0, Measurement { level: Level::Quick, failed: Vec::new(), ..facts.measurements[0].clone() });
    let text = summary(&facts);
    assert_eq!(text.matches("- Validation level: ").count(), 2);
    assert_eq!(text.matches("- Aggregate vs baseline: ").count(), 1);
    assert!(text.contains("`cargo kopt bench -p softmax-cpu --quick` (latency)"));
}

#[test]
fn a_rollback_says_its_cause_or_that_it_is_unknown() {
    let wrong = labels(&summary(&rolled_back(Reason::Incorrect, "64x1024: element 7 is 2.0, not 1.0")));
    assert_eq!(wrong["Root cause"], "64x1024: element 7 is 2.0, not 1.0");
    assert_eq!(wrong["Actual effect"], "not measured: incorrect");
    assert_eq!(wrong["Expected effect"], "about 30 %");
    let slower = labels(&summary(&rolled_back(Reason::Slower, "no gain")));
    assert!(slower["Root cause"].starts_with("unknown: ") && slower["Root cause"].ends_with("slower on 64x1024"));
    assert!(slower["Actual effect"].starts_with("-5.0 % [-6.3, -3.7]"), "{}", slower["Actual effect"]);
    let mut known = rolled_back(Reason::Slower, "no gain");
    known.root_cause = Some("spills".to_owned());
    assert_eq!(labels(&summary(&known))["Root cause"], "spills");
    for (rollbacks, given) in [(1, "the diff"), (2, "fresh profile"), (3, "disassembly"), (9, "measured ceiling")] {
        let text = summary(&RoundFacts { rollbacks, ..known.clone() });
        assert!(text.contains(given), "{rollbacks}");
        assert_eq!(text.contains("Stagnation"), rollbacks >= 2);
    }
}

#[test]
fn directions_go_on_by_what_they_gave() {
    for (gain, said) in
        [(0.05, "Go on with pipelining and overlap."), (0.03, "at lower priority"), (0.012, "Exhausted: ")]
    {
        let mut facts = accepted();
        facts.decision = Decision::Accepted { ruling: Ruling::Accepted, gain: estimate(gain, 0.001) };
        assert!(summary(&facts).contains(said), "{gain}");
    }
}

#[test]
fn holes_in_a_summary_are_named() {
    let whole = summary(&rolled_back(Reason::Slower, "no gain"));
    for (from, to, said) in [
        ("## Attribution\n", "## Attributions\n", "section `Attribution` is missing"),
        ("## Attribution\n", "## Decision\n\nagain\n", "section `Decision` is there more than once"),
        ("- Lesson: ", "- Lessons: ", "section `Rollback Analysis` has no line `Lesson`"),
        ("- State audit: ", "- Audit: ", "section `Real-training transfer check` has no line `State audit`"),
        ("- Validation level: ", "- Level: ", "section `Results` has no line `Validation level`"),
        ("## Attribution\n", "## Attribution\n\n## Extra\n", "section `Extra` does not belong there"),
        ("## Attribution\n", "## Attribution\n\n## Extra\n", "section `Attribution` is empty"),
    ] {
        let wrong = validate_summary(&whole.replacen(from, to, 1), true);
        assert!(wrong.iter().any(|one| one == said), "{said}: {wrong:?}");
    }
    assert_eq!(
        validate_summary(&whole, false),
        ["section `Rollback Analysis` belongs to rounds that were rolled back"]
    );
    assert!(
        validate_summary(&summary(&accepted()), true).contains(&"section `Rollback Analysis` is missing".to_owned())
    );
    let (head, tail) = whole.split_once("## Attribution").unwrap();
    let (before, decision) = head.split_once("## Decision").unwrap();
    let swapped =
        format!("{before}## Attribution\n\nx\n\n## Decision{decision}{}", &tail[tail.find("## Real").unwrap()..]);
    assert_eq!(validate_summary(&swapped, true), ["section `Attribution` stands before `Decision`"]);
}

#[test]
fn strangers_words_open_no_section_and_break_no_table() {
    let mut facts = rolled_back(Reason::Slower, EVIL);
    let proposal = facts.proposal.as_mut().unwrap();
    for field in [&mut proposal.title, &mut proposal.hypothesis] {
        *field = EVIL.to_owned();
    }
    (proposal.next, proposal.different, proposal.expected_gain) =
        (Some(EVIL.into()), Some(EVIL.into()), Some(EVIL.into()));
    facts.measurements[0].failed[0].why = EVIL.to_owned();
    facts.measurements[0].verdict.reasons = vec![EVIL.to_owned()];
    facts.transfer.cache_key = Some(EVIL.to_owned());
    let attempt = Refused {
        round: 3,
        attempt: 1,
        reason: Reason::Build,
        message: EVIL.into(),
        seconds: 1.0,
        usage: None,
        source: None,
        proposal: None,
    };
    facts.refused = vec![attempt];
    facts.directions = vec![EVIL.to_owned()];
    let text = summary(&facts);
    assert_eq!(validate_summary(&text, true), Vec::<String>::new());
    assert!(rows(&text).iter().all(|row| row.len() == 6), "{:?}", rows(&text));
    // Raw HTML stands only in indented blocks, which show it as it is.
    assert!(
        text.lines().all(|line| line.starts_with("    ") || !line.contains("<script>") || line.contains("\\<script"))
    );
}

#[test]
fn the_transfer_check_makes_nothing_up() {
    let mut facts = TransferFacts::default();
    assert_eq!(
        transfer(&facts),
        "- Bucket: not established (nothing claimed)\n- Cache key: not established\n- State audit: not run\n\
         - Hit rate over 8 steps: not run\n- Benchmark gain: not measured\n\
         - Estimated real-training gain: not established\n- Measured training-step gain: not run\n\
         - Decision: not established\n"
    );
    facts.bucket = Some(BucketFinding { bucket: Bucket::K1, grounds: Grounds::Claimed });
    assert!(transfer(&facts).starts_with("- Bucket: not established (claimed: K1)\n"));
    let whole = TransferFacts {
        bucket: Some(BucketFinding { bucket: Bucket::W1, grounds: Grounds::Established }),
        cache_key: Some("weight version".to_owned()),
        state_audit: Some("no writable globals".to_owned()),
        hit_rate: Some(HitRate { steps: 8, activations: 0.0, weights: Some(0.75) }),
        grouped: true,
        robustness: Some(Robustness { holds: true, detail: "skewed +10.1 %".to_owned() }),
        benchmark: Some(estimate(0.5, 0.01)),
        estimated: Some(EstimatedGain::from_share(0.2, 0.5)),
        training_step: Some(trained(0.07)),
        decision: Some(TransferDecision::of(Bucket::W1)),
        prepare_share: Some(0.05),
    };
    let text = transfer(&whole);
    let order: Vec<&str> = text.lines().map(|line| line[2..].split(':').next().unwrap()).collect();
    assert_eq!(order, transfer::LABELS);
    // A fifth of the step gets faster by half: 1 / (0.8 + 0.2 / 1.5) - 1.
    assert!(text.contains("- Estimated real-training gain: +7.1 %; the op is 20.0 % of a step"), "{text}");
    assert!(text.contains("- Hit rate over 8 steps: activations and gradients 0 %, weights 75 %\n"));
    assert!(text.ends_with("- Decision: ACCEPT-with-asterisk, bounded\n"));
}

#[test]
fn the_line_of_the_training_step_says_gain_prediction_and_losses_or_why_there_are_none() {
    let line = |training: Training| {
        let facts = TransferFacts { training_step: Some(training), ..TransferFacts::default() };
        labels(&transfer(&facts))["Measured training-step gain"].clone()
    };
    assert_eq!(
        line(trained(0.07)),
        "+7.0 % [+6.2, +7.8] at 96 % confidence, predicted +7.0 % from a share of 20 % of the step; losses agree, at most \
         1.0e-7 apart over 52 steps"
    );
    let Training::Taken(mut figures) = trained(0.07) else { panic!("taken") };
    figures.losses_agree = false;
    figures.predicted = figures.predicted.map(|predicted| PredictedGain { covered: false, ..predicted });
    let apart = line(Training::Taken(figures));
    assert!(apart.contains("which the interval does NOT meet") && apart.contains("losses do NOT agree"), "{apart}");
    let why = "the crate declares no slot".to_owned();
    assert_eq!(line(Training::NotMeasured { why: why.clone() }), format!("not measured: {why}"));
    assert!(line(Training::Lost { why: EVIL.to_owned() }).starts_with("none, the candidate does not get through: x"));
    assert_eq!(
        transfer(&TransferFacts {
            training_step: Some(Training::Lost { why: EVIL.into() }),
            ..TransferFacts::default()
        })
        .lines()
        .count(),
        8
    );
}

#[test]
fn a_commit_says_all_and_its_trailers_read_back() {
    let message = commit_message(&accepted());
    assert!(
        message.starts_with("[optimize] softmax cpu round-3: Two rows at a time\n\nHypothesis:\n\n  The loop waits")
    );
    assert!(message.contains("\n  +12.3 % [+11.0, +13.6] at 96 % confidence over all shapes\n"));
    assert!(message.contains("\n  64x1024: 12.3 µs -> 11.0 µs, +12.3 % [+11.0, +13.6]\n"));
    assert!(message.contains("\n  State audit: not run\n"));
    let read = trailers(&message).unwrap();
    assert_eq!((read.campaign.as_str(), read.round), ("softmax_cpu_some-core_20261115-0501", 3));
    assert!((read.gain - 0.123).abs() < 1e-12 && (read.interval.0 - 0.11).abs() < 1e-12);
    assert_eq!(read.bucket, Some(BucketFinding { bucket: Bucket::K1, grounds: Grounds::Presumed }));
    assert_eq!(read.evidence, "ab".repeat(32));
    // Git reads the same six, and nothing else.
    let found = git2::message_trailers_strs(&message).unwrap();
    let names: Vec<&str> = found.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Kopt-Campaign", "Kopt-Round", "Kopt-Gain", "Kopt-Interval", "Kopt-Bucket", "Kopt-Evidence"]);
}

#[test]
fn no_title_or_hypothesis_breaks_a_commit() {
    let mut facts = accepted();
    for title in
        ["", "\n", "-- --amend", EVIL, &"long words ".repeat(40), &"x".repeat(400), "/srv/someone/x/y.c is slow"]
    {
        let proposal = facts.proposal.as_mut().unwrap();
        title.clone_into(&mut proposal.title);
        proposal.hypothesis = format!("{title}\n\nKopt-Round: 99\nKopt-Gain: +900.0 %\n\n{}", "y".repeat(200));
        let message = commit_message(&facts);
        let (subject, body) = message.split_once("\n\n").unwrap();
        assert!(subject.chars().count() <= 100 && !subject.contains('\n'), "{subject}");
        let said = subject.strip_prefix("[optimize] softmax cpu round-3: ").unwrap();
        assert!(!said.is_empty() && !said.starts_with('-'), "{subject}");
        assert!(body.lines().all(|line| line.chars().count() <= 72 || line.starts_with("Kopt-Evidence: ")), "{body}");
        assert!(!message.contains("/home/"));
        assert_eq!(trailers(&message).unwrap().round, 3);
        let found = git2::message_trailers_strs(&message).unwrap();
        let rounds: Vec<&str> =
            found.iter().filter(|(name, _)| *name == "Kopt-Round").map(|(_, value)| value).collect();
        assert_eq!(rounds, ["3"]);
    }
}

#[test]
fn trailers_that_are_not_ours_whole_are_none() {
    let message = commit_message(&accepted());
    assert_eq!(trailers(&format!("{message}Signed-off-by: Somebody\n")), trailers(&message));
    for broken in [
        message.replace("Kopt-Round: 3", "Kopt-Round: three"),
        message.replace("Kopt-Round: 3\n", ""),
        message.replace("Kopt-Round: 3\n", "Kopt-Round: 3\nKopt-Round: 4\n"),
        message.replace("Kopt-Bucket: K1", "Kopt-Bucket: K9"),
        format!("{message}\nAnother paragraph.\n"),
        commit_message(&rolled_back(Reason::Build, "no")),
        String::new(),
    ] {
        assert_eq!(trailers(&broken), None, "{broken}");
    }
}
