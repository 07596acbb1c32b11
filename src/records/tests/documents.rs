//! Trend, log, attribution and report of a campaign.

use kopt_schema::campaign::event::{Reason, Termination};
use kopt_schema::manifest::{Backend, Language};

use super::report_data::{
    AppliedRound, Cost, FORMAT, Remaining, RolledBackRound, ShapeTotal, TargetSummary, Total, TrainingSummary,
};
use super::*;

fn contribution(bucket: Bucket, log_gain: f64) -> Contribution {
    Contribution { round: 2, bucket, log_gain, standard_error: 0.001, prepare_share: None }
}

#[test]
fn the_trend_has_the_columns_of_the_rules_and_gaps_for_what_is_not_there() {
    let row = TrendRow {
        round: 2,
        status: "ACCEPTED".to_owned(),
        description: "a | b\nc".to_owned(),
        forward: Some(Pace { average: Quantity::Seconds(12.34e-6), peak: Quantity::CeilingShare(0.61) }),
        backward: None,
        combined: Some(Quantity::Flops(45.12e9)),
        versus_baseline: Some(estimate(0.123, 0.013)),
        finding: String::new(),
    };
    let text = trend(&[row]);
    let table = rows(&text);
    assert_eq!(
        table[0].join(" | "),
        "Round | Status | Description | Fwd avg | Fwd peak | Bwd avg | Bwd peak | Combined step | vs baseline | Key finding"
    );
    let wanted = [
        "2",
        "ACCEPTED",
        "a \0 b c",
        "12.3 µs",
        "61 % of ceiling",
        "-",
        "-",
        "45.1 GFLOP/s",
        "+12.3 % [+11.0, +13.6]",
        "-",
    ];
    assert_eq!(table[1], wanted);
}

fn log_facts() -> LogFacts {
    LogFacts {
        target: target(),
        baseline: None,
        history: Vec::new(),
        best: None,
        directions: Vec::new(),
        ineffective: Vec::new(),
        elapsed_s: 125.0,
        termination: None,
        finale: None,
    }
}

#[test]
fn the_log_has_its_sections_from_the_first_moment_to_the_last() {
    let sections = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect()
    };
    let begun = log(&log_facts());
    let mut facts = log_facts();
    facts.baseline = Some(baseline());
    facts.history.push(HistoryRow {
        round: 2,
        at: "2026-11-15 06:00".to_owned(),
        status: "ROLLED BACK".to_owned(),
        title: "## not | a section".to_owned(),
        proposer: "by hand".to_owned(),
        gain: Some(estimate(-0.05, 0.01)),
    });
    facts.best = Some(Best { round: 3, commit: "abc".into(), chain: estimate(0.2, 0.02), shapes: baseline().shapes });
    facts.directions.push(OpenDirection {
        title: "layout".to_owned(),
        category: Some(Category::Layout),
        source: "catalogue".to_owned(),
        known_gain: Some(0.1),
    });
    facts.ineffective.push(Ineffective { round: 2, title: "no".to_owned(), reason: Reason::Slower, gain: None });
    facts.termination = Some(Termination::MaxTime);
    let audit = vec![AuditRow { round: 3, transfer: accepted().transfer }];
    facts.finale = Some(Finale { total: Some(estimate(0.2, 0.01)), attribution: None, audit });
    let ended = log(&facts);
    let wanted = [
        "Basic information",
        "Baseline",
        "History",
        "Current best",
        "Directions to try",
        "Verified ineffective directions",
        "Termination check",
        "Final report",
    ];
    assert_eq!(sections(&begun), wanted);
    assert_eq!(sections(&ended), wanted);
    assert!(begun.contains("The campaign goes on.") && !begun.contains("**held**"));
    assert!(ended.contains("| T3: the time is used up | 2 min 5 s of 1 h 0 min | **held** |"));
    assert_eq!(ended.matches("**held**").count(), 1);
    assert!(
        ended.contains(
            "| 2 | 2026-11-15 06:00 | ROLLED BACK | \\## not \\| a section | by hand | -5.0 % [-6.0, -4.0] |"
        )
    );
    let audit = rows(&ended).into_iter().find(|row| row[0] == "3").unwrap();
    assert_eq!(audit[1..4], ["K1 (presumed)", "not established", "not run"]);
    assert_eq!(audit.len(), 10);
}

#[test]
fn rounds_inside_the_kernel_count_whole_and_leave_no_inflation() {
    let rounds = [contribution(Bucket::K1, 0.1), contribution(Bucket::K3, 0.05)];
    let found = attribute(&rounds, 0.15, 0.001);
    assert!((found.s_real - 0.15f64.exp_m1()).abs() < 1e-12);
    assert_eq!((found.w_real, found.r_real), (0.0, 0.0));
    assert!(found.inflation.abs() < 1e-12 && !found.inflated && found.rounds.is_empty());
    // Three independent errors of a thousandth.
    let reach = 1.644_853_626_951_472 * 0.003f64.sqrt() * 0.001f64.sqrt();
    assert!((found.inflation_high - reach.exp_m1()).abs() < 1e-9, "{}", found.inflation_high);
}

#[test]
fn a_cache_of_weights_counts_up_to_its_bound_and_nothing_without_one() {
    let mut cache = contribution(Bucket::W1, 0.3);
    let found = attribute(&[contribution(Bucket::K1, 0.1), cache], 0.4, 0.001);
    assert!((found.inflation - 0.3f64.exp_m1()).abs() < 1e-12 && found.inflated);
    assert_eq!(found.rounds, [2]);
    cache.prepare_share = Some(0.05);
    let bounded = attribute(&[cache], 0.3, 0.001);
    assert!((bounded.w_real - (1.0 / 0.95 - 1.0)).abs() < 1e-12);
    cache.prepare_share = Some(0.9);
    assert!((attribute(&[cache], 0.3, 0.001).w_real - 0.3f64.exp_m1()).abs() < 1e-12);
    let remembered = attribute(&[contribution(Bucket::W3, 0.3)], 0.3, 0.001);
    assert_eq!((remembered.s_real, remembered.inflated), (0.0, true));
}

#[test]
fn inflation_within_the_noise_is_not_called_so() {
    let found = attribute(&[contribution(Bucket::K1, 0.1)], 0.12, 0.01);
    assert!(found.inflation > 0.01 && !found.inflated);
}

fn report() -> Report {
    Report {
        format: FORMAT,
        target: TargetSummary {
            campaign: "c".to_owned(),
            kernel: "softmax-cpu".to_owned(),
            op: "softmax".to_owned(),
            backend: Backend::Cpu,
            language: Language::C,
            device: "Some Core 9".to_owned(),
            policy: "default".to_owned(),
            min_gain: 0.01,
            base: "1a2b3c".to_owned(),
            head: Some("4d5e6f".to_owned()),
            began: "2026-11-15 05:01".to_owned(),
            reported: "2026-11-15 07:01".to_owned(),
        },
        total: Some(Total {
            gain: estimate(0.2, 0.02),
            shapes: vec![ShapeTotal {
                shape: "64x1024".to_owned(),
                before_s: 12.0e-6,
                after_s: 10.0e-6,
                gain: estimate(0.2, 0.02),
                direction: Direction::Faster,
                ceiling_before: Some(0.5),
                ceiling_after: Some(0.6),
            }],
            evidence: "ef".repeat(32),
            evidence_file: "rounds/final/evidence.json".to_owned(),
        }),
        chain: Some(estimate(0.2, 0.02)),
        applied: vec![AppliedRound {
            round: 2,
            title: "a | b".to_owned(),
            proposer: "by hand".to_owned(),
            commit: "4d5e6f".to_owned(),
            ruling: Ruling::Accepted,
            gain: estimate(0.2, 0.02),
            bucket: Some(Bucket::K1),
            grounds: Some(Grounds::Presumed),
            evidence: "ab".repeat(32),
        }],
        rolled_back: vec![RolledBackRound {
            round: 3,
            title: "c".to_owned(),
            proposer: "by hand".to_owned(),
            reason: Reason::Incorrect,
            message: "wrong\n| here".to_owned(),
            gain: None,
        }],
        unmeasured: None,
        attribution: None,
        training: Some(TrainingSummary { baseline: trained(0.001), total: Some(trained(0.07)) }),
        false_accept: 0.0048,
        remaining: Remaining { directions: vec!["layout".to_owned()], tips: Vec::new() },
        cost: Cost { seconds: 7200.0, proposing_s: 600.0, dollars: Some(1.5), ..Cost::default() },
        termination: Termination::MaxRounds,
    }
}

#[test]
fn a_report_begins_with_the_result_and_how_to_check_it() {
    let text = report_markdown(&report());
    let result =
        text.find("is faster than at the start of the campaign: +20.0 % [+18.0, +22.0] at 96 % confidence").unwrap();
    let check = text.find("`cargo kopt verify 4d5e6f --all`").unwrap();
    let again = text.find("`cargo kopt verdict rounds/final/evidence.json`").unwrap();
    let table = text.find("| shape |").unwrap();
    assert!(result < check && check < again && again < table);
    assert_eq!(text.matches("| not established |").count(), 4);
    assert!(text.contains("- Share of the device's measured ceiling: 50 % before, 60 % after\n"));
    assert!(text.contains("is at most 0.48 %"));
    assert!(text.contains("- A step at the baseline: 20.0 ms, of which the op takes 20 %\n"), "{text}");
    assert!(text.contains("against the baseline: +7.0 % [+6.2, +7.8] at 96 % confidence, predicted +7.0 %"), "{text}");
    assert!(text.contains("- Tokens: not said by the proposers\n- Money: $1.50\n"));
    assert!(text.contains("| 3 | c | by hand | incorrect | - | wrong \\| here |"));
}

#[test]
fn a_report_claims_no_more_than_was_found() {
    let mut unsure = report();
    unsure.total.as_mut().unwrap().gain = estimate(0.01, 0.02);
    assert!(report_markdown(&unsure).contains("is not credibly faster"));
    let mut unmeasured = report();
    unmeasured.total = None;
    assert!(report_markdown(&unmeasured).contains("the total was not measured**; the product"));
    unmeasured.unmeasured = Some("NO VERDICT (contaminated): it differs from itself".to_owned());
    let text = report_markdown(&unmeasured);
    assert!(
        text.contains("was not measured** (NO VERDICT (contaminated): it differs from itself); the product"),
        "{text}"
    );
    let nothing = Report { chain: None, applied: Vec::new(), ..unmeasured };
    assert!(report_markdown(&nothing).contains("is as it was: no change was accepted."));
    let mut no_slot = report();
    let why = "the crate declares no slot".to_owned();
    no_slot.training = Some(TrainingSummary { baseline: Training::NotMeasured { why }, total: None });
    assert!(report_markdown(&no_slot).contains("- At the baseline: not measured: the crate declares no slot\n"));
    no_slot.training = None;
    assert!(report_markdown(&no_slot).contains("Training step: not run."));
    let mut inflated = report();
    inflated.attribution = Some(attribute(&[contribution(Bucket::W1, 0.2)], 0.2, 0.001));
    let text = report_markdown(&inflated);
    assert!(text.contains("**Inflated** by rounds that do not count whole: 2."), "{text}");
}

#[test]
fn rounds_in_a_row_that_nothing_explains_are_named() {
    let told = |reasons: &[Reason]| {
        let one = |(index, reason): (usize, &Reason)| RolledBackRound {
            round: index as u32 + 2,
            title: "t".to_owned(),
            proposer: "p".to_owned(),
            reason: *reason,
            message: "m".to_owned(),
            gain: None,
        };
        report_markdown(&Report { rolled_back: reasons.iter().enumerate().map(one).collect(), ..report() })
    };
    let text = told(&[Reason::Slower, Reason::Build, Reason::Noise, Reason::Slower]);
    assert!(
        text.contains("Rounds 2 to 5 were rolled back one after the other. The root cause is unknown for 2, 4, 5:"),
        "{text}"
    );
    assert!(!told(&[Reason::Slower; 3]).contains("root cause is unknown"), "the ladder has a rung left");
    assert!(!told(&[Reason::Build; 4]).contains("root cause is unknown"), "these say why themselves");
}

#[test]
fn the_data_of_a_report_come_back_and_fit_their_schema() {
    let mut whole = report();
    whole.attribution = Some(attribute(&[contribution(Bucket::K1, 0.18)], 0.18, 0.01));
    let value = serde_json::to_value(&whole).unwrap();
    assert_eq!(serde_json::from_value::<Report>(value.clone()).unwrap(), whole);
    let schema = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&value));
    let mut broken = value;
    broken["termination"] = "tired".into();
    assert!(!validator.is_valid(&broken));
}
