//! Reports made by hand, with names that try to be something else.

use kopt_schema::evidence::{Direction, Estimate, Ruling, ShapeVerdict, Verdict};
use kopt_schema::message::{GateAffected, GateKernel, GateOutcome, GateReason, GateResult, GateScope};
use quick_junit::{NonSuccessKind, Report, TestCaseStatus};

use super::annotations::annotations;
use super::junit::junit;
use super::markdown::{MARK, markdown};
use super::{GateReport, Weight, time_change, weight};

const NASTY: &str = "a|b <script>alert(1)</script> `x` @everyone ]]> & \u{1b}[31m\n## heading\n::error::no";

fn estimate(gain: f64) -> Estimate {
    Estimate { gain, low: gain - 0.01, high: gain + 0.01, confidence: 0.99, launch_sigma: 0.01, launches: 9 }
}

pub fn kernel(name: &str, outcome: GateOutcome) -> GateKernel {
    let shape = |name: &str, gain: f64| ShapeVerdict {
        shape: name.to_owned(),
        core: true,
        direction: Direction::Slower,
        estimate: estimate(gain),
        incumbent_s: 1e-4,
        candidate_s: 1.2e-4,
    };
    let verdict = Verdict {
        ruling: Ruling::RolledBack,
        direction: Direction::Slower,
        reasons: Vec::new(),
        aggregate: Some(estimate(-0.05)),
        shapes: vec![shape("64x64", 0.0), shape("8x|8", -0.2)],
        control: None,
        detectable: None,
        launches: 15,
        false_accept: 0.0004,
    };
    GateKernel {
        kernel: name.to_owned(),
        renamed_from: None,
        outcome,
        text: "no shape is slower".to_owned(),
        notes: Vec::new(),
        judging: Vec::new(),
        audit: Vec::new(),
        allowed: None,
        trials: 12,
        tried_by_base: true,
        verdict: Some(verdict),
        evidence: None,
        file: Some("kernels/a,b:c.c".to_owned()),
        line: Some(7),
        seconds: 1.5,
    }
}

pub fn scope() -> GateScope {
    let reason = GateReason { path: "kernels/a.c".to_owned(), aspect: "kernel".to_owned(), why: NASTY.to_owned() };
    GateScope {
        base: "0123456789abcdef".to_owned(),
        head: "fedcba9876543210".to_owned(),
        files: 1,
        kernels: Some(3),
        affected: vec![GateAffected { kernel: "a".to_owned(), reasons: vec![reason] }],
        notes: Vec::new(),
    }
}

pub fn result(inconclusive: &str) -> GateResult {
    GateResult {
        exit_code: 0,
        text: "1 kernel passed".to_owned(),
        tolerance: 0.02,
        inconclusive: inconclusive.to_owned(),
        undecided: Vec::new(),
        seconds: 3.0,
    }
}

fn with<T>(kernels: &[GateKernel], inconclusive: &str, made: impl Fn(&GateReport<'_>) -> T) -> T {
    let (scope, result) = (scope(), result(inconclusive));
    made(&GateReport { scope: &scope, kernels, result: &result })
}

#[test]
fn a_change_of_time_is_the_gain_turned_round() {
    let (change, low, high) = time_change(&estimate(-0.05));
    assert!((change - 1.0 / 0.95 + 1.0).abs() < 1e-12 && low < change && change < high);
}

#[test]
fn what_cannot_be_told_weighs_as_the_user_says() {
    let kernel = kernel("a", GateOutcome::Inconclusive);
    assert_eq!(["fail", "warn", "pass"].map(|how| weight(&kernel, how)), [Weight::Fails, Weight::Warns, Weight::Fine]);
    let unknown = self::kernel("a", GateOutcome::NotJudged);
    assert_eq!(["fail", "warn", "pass"].map(|how| weight(&unknown, how)), [Weight::Fails; 3]);
    let other = self::kernel("a", GateOutcome::NotCompared);
    assert_eq!(["fail", "warn", "pass"].map(|how| weight(&other, how)), [Weight::Fails; 3]);
    let allowed = self::kernel("a", GateOutcome::NotComparedAllowed);
    assert_eq!(["fail", "warn", "pass"].map(|how| weight(&allowed, how)), [Weight::Warns; 3]);
}

#[test]
fn an_annotation_is_a_command_on_one_line_whatever_the_words() {
    let mut nasty = kernel("a", GateOutcome::Regressed);
    nasty.text = "50 % slower\r\n::error::no".to_owned();
    nasty.judging = vec!["src/lib.rs".to_owned()];
    let lines = with(&[nasty, kernel("b", GateOutcome::Passed)], "fail", annotations);
    assert_eq!(
        lines,
        [
            "::error file=kernels/a%2Cb%3Ac.c,line=7,title=cargo kopt gate%3A a REGRESSED::50 %25 slower%0D%0A::error::no\
          %0Athe change edits what judges it: src/lib.rs"
        ]
    );
    let mut edited = kernel("c", GateOutcome::Passed);
    edited.judging = vec!["src/lib.rs".to_owned()];
    assert!(with(&[edited], "fail", annotations)[0].starts_with("::warning "));
    let unsure = [kernel("d", GateOutcome::Inconclusive)];
    assert!(with(&unsure, "warn", annotations)[0].starts_with("::warning "));
    assert!(with(&unsure, "pass", annotations).is_empty());
}

#[test]
fn what_only_its_own_judge_has_tried_is_not_said_to_be_judged_by_the_bases() {
    let mut edited = kernel("a", GateOutcome::Incorrect);
    edited.judging = vec!["src/lib.rs".to_owned()];
    let said = |kernel: &GateKernel| {
        let text = with(std::slice::from_ref(kernel), "fail", markdown);
        assert!(text.contains("the change edits what judges it"), "{text}");
        text.contains("the base's judged it here")
    };
    assert!(said(&edited));
    assert!(!said(&GateKernel { outcome: GateOutcome::NotJudged, ..edited.clone() }));
    assert!(!said(&GateKernel { tried_by_base: false, ..edited }));
}

/// The rules of the format that readers agree on: attributes that count are what they count, one status a case, names.
#[test]
fn junit_counts_what_it_holds_and_takes_any_words() {
    let mut nasty = kernel("a", GateOutcome::Regressed);
    nasty.text = NASTY.to_owned();
    nasty.notes = vec![NASTY.to_owned()];
    let kernels = [
        nasty,
        kernel("b", GateOutcome::Passed),
        kernel("c", GateOutcome::Inconclusive),
        kernel("d", GateOutcome::NotHere),
    ];
    let text = with(&kernels, "warn", junit).unwrap();
    assert!(
        text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"cargo kopt gate\""),
        "{text}"
    );
    assert!(
        text.contains("<testsuites name=\"cargo kopt gate\" tests=\"4\" skipped=\"2\" failures=\"1\" errors=\"0\""),
        "{text}"
    );
    assert!(text.contains("<testsuite name=\"gate\" tests=\"4\" skipped=\"2\" errors=\"0\" failures=\"1\""), "{text}");
    assert_eq!(text.matches("<testcase ").count(), 4);
    assert_eq!(text.matches("<failure ").count(), 1);
    assert_eq!(text.matches("<skipped ").count(), 2);
    assert_eq!(text.matches("classname=\"kopt.gate\"").count(), 4);
    assert!(!text.contains('\u{1b}') && !text.contains("<script"), "no control characters, no foreign elements");
    let read = Report::deserialize_from_str(&text).unwrap();
    let cases = &read.test_suites[0].test_cases;
    assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let TestCaseStatus::NonSuccess { kind: NonSuccessKind::Failure, message, ty, .. } = &cases[0].status else {
        panic!("{:?}", cases[0].status)
    };
    assert!(message.as_ref().unwrap().contains("<script>alert(1)</script>"), "escaped, not lost: {message:?}");
    assert_eq!(ty.as_ref().unwrap().as_str(), "REGRESSED");
}

#[test]
fn markdown_is_short_when_nothing_is_reached_and_folds_the_rest() {
    let text = with(&[], "fail", markdown);
    assert_eq!(text, format!("{MARK}\n✅ **cargo kopt gate**: 1 kernel passed\n"));
    let text = with(&[kernel("a", GateOutcome::Regressed)], "fail", markdown);
    assert!(text.starts_with(&format!("{MARK}\n❌ **cargo kopt gate**: ")), "{text}");
    let (open, folded) = text.split_once("<details><summary>").unwrap();
    assert!(open.contains("| `a` | **REGRESSED** | +5.26 % [") && !open.contains("64x64"), "{open}");
    assert!(folded.contains("| 64x64 | 100 µs | 120 µs |") && folded.trim_end().ends_with("</details>"), "{folded}");
    assert!(folded.contains("\n\n| shape |"), "a table needs an empty line before it: {folded}");
}

#[test]
fn markdown_stays_what_it_is_whatever_the_words() {
    let mut nasty = kernel("a", GateOutcome::Allowed);
    nasty.text = NASTY.to_owned();
    nasty.allowed = Some(NASTY.to_owned());
    nasty.judging = vec![NASTY.to_owned()];
    nasty.notes = vec![NASTY.to_owned()];
    let text = with(&[nasty], "fail", markdown);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| !line.starts_with('#') && !line.starts_with("::")), "{text}");
    // Every row of a table has as many cells as its heading.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut width = 0;
    for line in lines {
        match line.starts_with('|') {
            true if width == 0 => width = cells(line),
            true => assert_eq!(cells(line), width, "{line}"),
            false => width = 0,
        }
    }
    let bare = text.replace("\\<", "").replace("`", "");
    assert!(!bare.contains("<script>alert(1)</script> x &#64;"), "{text}");
    assert!(!text.contains(" @everyone") || text.contains("` @everyone"), "{text}");
}

#[test]
fn a_comment_fits_whatever_the_number_of_shapes() {
    let mut many = kernel("a", GateOutcome::Passed);
    let verdict = many.verdict.as_mut().unwrap();
    verdict.shapes = (0..5000)
        .map(|number| ShapeVerdict { shape: format!("shape-{number}"), ..verdict.shapes[0].clone() })
        .collect();
    let text = with(&[many], "fail", markdown);
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains(" shapes more\n"));
}
