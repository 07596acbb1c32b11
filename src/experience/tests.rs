//! Tips on real files: learned, learned again, contradicted, edited by people, written by two at once.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_knowledge::Kind;
use kopt_schema::campaign::Bucket;
use kopt_schema::campaign::event::Reason;
use kopt_schema::evidence::Ruling;
use kopt_schema::manifest::{Backend, Language, Shape, ShapeValue};

use super::*;
use crate::records::facts::{Decision, Robustness};
use crate::records::tests::{accepted, estimate, rolled_back};

fn temporary() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().join("tips")).unwrap();
    (folder, path)
}

fn evidence(round: u32, gain: f64, shape: &str) -> TipEvidence {
    TipEvidence {
        date: "2026-11-15".to_owned(),
        device: "Some \"Core\" 9".to_owned(),
        toolchain: "gcc\n14".to_owned(),
        shapes: vec![shape.to_owned()],
        gain: Some(gain),
        low: Some(gain - 0.01),
        high: Some(gain + 0.01),
        observations: 1,
        campaign: "c".to_owned(),
        round,
        commit: Some("abc".to_owned()),
        finding: None,
    }
}

fn tip(kind: Kind, evidence: TipEvidence) -> Tip {
    Tip {
        title: "Two rows_at a *time* | fast".to_owned(),
        kind,
        bucket: Some(Bucket::K1),
        uniform_only: false,
        do_not_retry: false,
        context: "softmax on cpu".to_owned(),
        signal: "latency".to_owned(),
        takeaway: "- Kind: nonsense\n## Not a heading".to_owned(),
        applicability: "softmax".to_owned(),
        evidence: vec![evidence],
        history: Vec::new(),
    }
}

fn text(folder: &Utf8Path) -> String {
    fs::read_to_string(folder.join(FILE)).unwrap()
}

#[test]
fn what_is_learned_reads_back() {
    let (_guard, folder) = temporary();
    assert_eq!(read(&folder).unwrap(), []);
    assert_eq!(learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap(), Learnt::Added);
    let tips = read(&folder).unwrap();
    assert_eq!(tips.len(), 1);
    assert_eq!((tips[0].title.as_str(), tips[0].kind), ("Two rows_at a *time* | fast", Kind::Technique));
    assert_eq!(tips[0].takeaway, "- Kind: nonsense ## Not a heading");
    assert_eq!(tips[0].bucket, Some(Bucket::K1));
    assert_eq!(
        tips[0].evidence[0],
        TipEvidence { toolchain: "gcc 14".to_owned(), low: Some(0.09), ..evidence(2, 0.1, "a") }
    );
}

#[test]
fn the_same_title_is_observed_again_and_the_same_round_only_once() {
    let (_guard, folder) = temporary();
    learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap();
    let mut again = tip(Kind::Technique, evidence(5, 0.2, "a"));
    again.title = "two ROWS at a time: fast".to_owned();
    assert_eq!(learn(&folder, &tip(Kind::Technique, evidence(5, 0.2, "a"))).unwrap(), Learnt::Observed);
    assert_eq!(learn(&folder, &again).unwrap(), Learnt::Observed);
    let before = text(&folder);
    assert_eq!(learn(&folder, &tip(Kind::Technique, evidence(5, 0.2, "a"))).unwrap(), Learnt::Observed);
    assert_eq!(text(&folder), before);
    let tips = read(&folder).unwrap();
    assert_eq!((tips.len(), tips[0].observations()), (1, 2));
    assert!((tips[0].measured_gain().unwrap() - ((1.1f64 * 1.2).sqrt() - 1.0)).abs() < 1e-9);
}

#[test]
fn a_loss_on_the_same_shapes_turns_a_technique_and_keeps_its_evidence() {
    let (_guard, folder) = temporary();
    learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap();
    let before: Vec<String> = text(&folder).lines().map(str::to_owned).collect();
    assert_eq!(learn(&folder, &tip(Kind::AntiPattern, evidence(5, -0.1, "a"))).unwrap(), Learnt::Contradicted);
    let tips = read(&folder).unwrap();
    assert_eq!((tips[0].kind, tips[0].evidence.len()), (Kind::AntiPattern, 2));
    assert!(tips[0].history[0].starts_with("was a technique until it was found: slower on a (2026-11-15, -10.0 %"));
    let after = text(&folder);
    let lost: Vec<&String> = before.iter().filter(|line| !after.contains(line.as_str())).collect();
    assert_eq!(lost, ["- Kind: technique"]);
}

#[test]
fn a_loss_elsewhere_changes_the_conditions_only() {
    let (_guard, folder) = temporary();
    learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap();
    assert_eq!(learn(&folder, &tip(Kind::AntiPattern, evidence(5, -0.1, "b"))).unwrap(), Learnt::Contradicted);
    let tips = read(&folder).unwrap();
    assert_eq!(tips[0].kind, Kind::Technique);
    assert_eq!(tips[0].applicability, "softmax It did not help on b (2026-11-15, -10.0 %).");
    // And a gain does not make a recommendation of what has failed: it says where it does not hold.
    let mut other = tip(Kind::AntiPattern, evidence(6, -0.1, "a"));
    other.title = "Other".to_owned();
    learn(&folder, &other).unwrap();
    other = Tip { kind: Kind::Technique, evidence: vec![evidence(7, 0.1, "b")], ..other };
    assert_eq!(learn(&folder, &other).unwrap(), Learnt::Contradicted);
    let tips = read(&folder).unwrap();
    assert_eq!(tips[1].kind, Kind::AntiPattern);
    assert!(tips[1].applicability.contains("It helped all the same on b"), "{}", tips[1].applicability);
}

#[test]
fn no_tip_recommends_what_only_a_benchmark_rewards() {
    let (_guard, folder) = temporary();
    for (round, bucket, uniform_only) in [(1, Some(Bucket::W2), false), (2, Some(Bucket::W3), false), (3, None, true)] {
        let mut bad = tip(Kind::Technique, evidence(round, 2.0, "a"));
        (bad.title, bad.bucket, bad.uniform_only) = (format!("cache {round}"), bucket, uniform_only);
        assert_eq!(learn(&folder, &bad).unwrap(), Learnt::Added);
    }
    // A technique turns when it is found to be one of these.
    learn(&folder, &tip(Kind::Technique, evidence(4, 0.1, "a"))).unwrap();
    let mut found_out = tip(Kind::Technique, evidence(5, 2.0, "b"));
    found_out.bucket = Some(Bucket::W3);
    assert_eq!(learn(&folder, &found_out).unwrap(), Learnt::Contradicted);
    let mut cheat = tip(Kind::Technique, evidence(6, 0.1, "a"));
    cheat.title = "Third".to_owned();
    learn(&folder, &cheat).unwrap();
    (cheat.kind, cheat.do_not_retry, cheat.evidence) = (Kind::AntiPattern, true, vec![evidence(7, 0.1, "b")]);
    assert_eq!(learn(&folder, &cheat).unwrap(), Learnt::Contradicted);
    let tips = read(&folder).unwrap();
    assert_eq!(tips.len(), 5);
    assert!(tips.iter().all(|tip| tip.kind == Kind::AntiPattern && tip.is_forbidden()), "{tips:?}");
    assert!(tips[..3].iter().all(|tip| tip.takeaway.starts_with("Do not retry: ")));
}

#[test]
fn what_people_write_is_read_and_left_alone() {
    let (_guard, folder) = temporary();
    fs::create_dir_all(&folder).unwrap();
    let by_hand = "# Ours\r\n\nnotes\n\n## Stream the output\n\nSeen by many.\n\n* **kind**: Anti-Pattern\n\
                   - Takeaway: write past\n  the caches\n- Note: mine\n\n```\n## not a tip\n- Kind: rubbish\n```\n\nend\n\n\n\
                   ## Second\n- Kind: technique\n";
    fs::write(folder.join(FILE), by_hand).unwrap();
    let tips = read(&folder).unwrap();
    assert_eq!(tips.iter().map(|tip| tip.title.as_str()).collect::<Vec<_>>(), ["Stream the output", "Second"]);
    assert_eq!((tips[0].kind, tips[0].takeaway.as_str()), (Kind::AntiPattern, "write past the caches"));
    let mut seen = tip(Kind::AntiPattern, evidence(2, -0.1, "a"));
    seen.title = "stream the output".to_owned();
    assert_eq!(learn(&folder, &seen).unwrap(), Learnt::Observed);
    let after = text(&folder);
    assert!(by_hand.split('\n').all(|line| after.split('\n').any(|kept| kept == line)));
    let at = |needle: &str| after.find(needle).unwrap();
    assert!(at("\nend\n- evidence = ") < at("## Second"));
}

#[test]
fn a_line_that_cannot_be_understood_is_named() {
    let (_guard, folder) = temporary();
    fs::create_dir_all(&folder).unwrap();
    for (wrong, said) in [
        ("- Kind: technik\n", "line 3: `technik` is no kind"),
        ("- Bucket: K7\n- Kind: technique\n", "line 3: `K7` is no bucket: did you mean K1?"),
        ("- Kind: technique\n- evidence = { gian = 0.1 }\n", "line 4: unknown field `gian`"),
        ("- Kind: technique\n- evidence = { gain = 0.1\n", "line 4: "),
        ("nothing\n", "line 1: `A` does not say what kind it is"),
    ] {
        fs::write(folder.join(FILE), format!("## A\n\n{wrong}")).unwrap();
        let error = read(&folder).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.failure().hint.is_some());
        // Nothing is added to a file that is not understood.
        let before = text(&folder);
        learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap_err();
        assert_eq!(text(&folder), before);
    }
    fs::write(folder.join(FILE), "## A\n- Kind: technique\n```\nopen\n").unwrap();
    let error = learn(&folder, &tip(Kind::Technique, evidence(2, 0.1, "a"))).unwrap_err();
    assert!(error.to_string().contains("not closed"), "{error}");
    fs::write(folder.join(FILE), b"\xff\xfe").unwrap();
    assert!(read(&folder).unwrap_err().to_string().starts_with("cannot read the tips"));
}

#[test]
fn two_campaigns_at_once_lose_nothing() {
    let (_guard, folder) = temporary();
    std::thread::scope(|scope| {
        for campaign in 0..4u32 {
            let folder = &folder;
            scope.spawn(move || {
                for round in 0..5 {
                    let mut one = evidence(round, 0.1, "a");
                    one.campaign = campaign.to_string();
                    learn(folder, &tip(Kind::Technique, one)).unwrap();
                }
            });
        }
    });
    let tips = read(&folder).unwrap();
    assert_eq!((tips.len(), tips[0].observations()), (1, 20));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn rounds_teach_what_can_be_used_again() {
    let technique = tip_of_round(&accepted(), Some("abc")).unwrap();
    assert_eq!((technique.kind, technique.title.as_str()), (Kind::Technique, "Two rows at a time"));
    assert_eq!(technique.evidence[0].gain, Some(0.123));
    assert_eq!(technique.evidence[0].shapes, ["64x1024", "1x8"]);
    assert_eq!(technique.evidence[0].date, "2026-11-15");
    assert_eq!(technique.bucket, Some(Bucket::K1));
    let mut small = accepted();
    small.decision = Decision::Accepted { ruling: Ruling::Accepted, gain: estimate(0.019, 0.001) };
    assert_eq!(tip_of_round(&small, None), None);
    for reason in [Reason::Slower, Reason::Incorrect, Reason::Integrity, Reason::Overfit] {
        let taught = tip_of_round(&rolled_back(reason, "in /srv/someone/x: wrong"), None).unwrap();
        assert_eq!(taught.kind, Kind::AntiPattern);
        assert_eq!(taught.is_forbidden(), [Reason::Integrity, Reason::Overfit].contains(&reason));
        assert!(taught.evidence[0].finding.as_ref().unwrap().ends_with("in …/x: wrong"), "{taught:?}");
    }
    for reason in [Reason::Noise, Reason::Build, Reason::Contaminated, Reason::Proposer, Reason::Stopped] {
        assert_eq!(tip_of_round(&rolled_back(reason, "no"), None), None, "{reason:?}");
    }
    let mut uniform = accepted();
    uniform.transfer.grouped = true;
    uniform.transfer.robustness = Some(Robustness { holds: false, detail: "skewed -20 %".to_owned() });
    assert!(tip_of_round(&uniform, None).unwrap().is_forbidden());
    let mut untitled = accepted();
    untitled.proposal.as_mut().unwrap().title = " ".to_owned();
    assert_eq!(tip_of_round(&untitled, None), None);
}

#[test]
fn the_catalogue_and_own_tips_are_one_list() {
    let shape =
        |rows| Shape::unnamed(vec![("rows".into(), ShapeValue::Size(rows)), ("cols".into(), ShapeValue::Size(4096))]);
    let mut own = vec![tip(Kind::Technique, evidence(1, 50.0, "a")), tip(Kind::Technique, evidence(2, 9.0, "a"))];
    own[1].bucket = Some(Bucket::W2);
    let all = known("softmax", Backend::Cpu, Language::C, &[shape(1), shape(2048)], "", &own);
    assert_eq!((all[0].origin, all[0].kind), (Origin::Own, Kind::Technique));
    let first_bad = all.iter().position(|tip| tip.kind == Kind::AntiPattern).unwrap();
    assert!(all[first_bad..].iter().all(|tip| tip.kind == Kind::AntiPattern));
    assert!(all[first_bad..].iter().any(|tip| tip.origin == Origin::Own));
    let mut ids: Vec<&str> =
        all.iter().filter(|tip| tip.origin == Origin::Catalogue).map(|tip| tip.id.as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    // What applies at one shape of several applies.
    let at = |shapes: &[Shape], id: &str| {
        known("rmsnorm", Backend::Cpu, Language::C, shapes, "", &[]).iter().any(|tip| tip.id == id)
    };
    assert!(!at(&[shape(1)], "prefetch-next-row") && at(&[shape(1), shape(64)], "prefetch-next-row"));
    assert!(at(&[], "prefetch-next-row"));
}

#[test]
fn what_costs_on_this_device_is_nothing_to_do_here() {
    // Measured on two processors: it helps on one and costs the other.
    let entry = kopt_knowledge::all().iter().find(|entry| entry.id == "next-row-reduced-ahead").unwrap();
    let (least, most) = entry.range_of_gains().unwrap();
    assert!(least < 0.0 && most > 0.0);
    let on = |gain: f64| {
        let there = entry.evidence.iter().find(|measured| (measured.gain - gain).abs() < 1e-9).unwrap();
        let all = known("softmax", Backend::Cpu, Language::C, &[], &there.device, &[]);
        all.into_iter().find(|tip| tip.id == entry.id).unwrap()
    };
    assert_eq!((on(most).kind, on(most).gain), (Kind::Technique, Some(most)));
    assert_eq!((on(least).kind, on(least).gain), (Kind::AntiPattern, Some(least)));
}

#[test]
fn folders_are_named_by_device_operator_and_backend() {
    for (device, name) in [
        ("NVIDIA H200", "nvidia-h200"),
        ("Intel(R) Xeon(R) @ 2.8GHz", "intel-r-xeon-r-2-8ghz"),
        ("../..", "unknown"),
        ("", "unknown"),
        ("Ünïcode", "n-code"),
    ] {
        assert_eq!(device_folder(device), name);
    }
    let long = device_folder(&"ab ".repeat(40));
    assert!(long.len() <= 60 && !long.ends_with('-'));
    let place = folder(Utf8Path::new("/w"), "NVIDIA H200", "softmax", Backend::Cuda);
    assert_eq!(place, "/w/.kopt/experience/nvidia-h200/softmax/cuda");
}
