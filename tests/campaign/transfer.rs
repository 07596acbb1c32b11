//! The transfer check in a campaign: what remembers, what prepares, and what the records say of it.

use serde_json::Value;

use crate::stage::{Queue, SOURCE, Stage, header};

/// The two functions that make a kernel one that prepares.
const PREPARE: &str = "#include \"softmax.h\"\n\nint64_t softmax_prepare_size(const softmax_args *args) { return 8 * args->cols; }\nint softmax_prepare(const softmax_args *args, void *prepared) { (void)args; (void)prepared; return 0; }\n";

/// Puts the fixture's trace mark behind its time, and what else belongs to it.
fn patch(queue: &mut Queue<'_>, title: &str, hypothesis: &str, time: &str, prepares: bool) {
    let from = if prepares { "#include \"softmax.h\"\n" } else { "TIME=1.000;" };
    let to = if prepares { PREPARE } else { time };
    match prepares {
        false => queue.tries(&header(title, hypothesis), from, to),
        true => queue.tries_both(&header(title, hypothesis), [(from, to), ("TIME=1.000;", time)]),
    };
}

#[test]
fn what_remembers_is_rejected_as_overfit_and_what_prepares_twice_is_accepted_with_an_asterisk() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    patch(
        &mut queue,
        "Keep what the last call computed",
        "Benchmarks repeat themselves.",
        "TIME=0.800;AGAIN=0.500;",
        false,
    );
    patch(&mut queue, "Trust the address", "A pointer says what it points to.", "TIME=0.700;STALE;", false);
    patch(
        &mut queue,
        "Lay columns out in panels",
        "Forward reads panels in order.",
        "TIME=0.600;PREPARE=0.100;USES=softmax;",
        true,
    );
    patch(
        &mut queue,
        "Transpose once a step",
        "Both passes walk the other way then.",
        "TIME=0.500;PREPARE=0.100;USES=softmax,softmax_backward;",
        true,
    );
    let folder = queue.folder().to_owned();
    stage.optimize(&["--patches", &folder]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["overfit", "overfit", "overfit", "accepted"], "{:#?}", campaign.outcomes());
    let messages: Vec<String> = campaign.outcomes().into_iter().map(|outcome| outcome.message).collect();
    assert!(messages[0].contains("REJECT-as-overfit, bucket W2"), "{}", messages[0]);
    assert!(messages[1].contains("right in a process that has made no call before"), "{}", messages[1]);
    assert!(messages[2].contains("only softmax uses what it prepares: a hit rate of 0 %"), "{}", messages[2]);

    let summary = campaign.read("rounds/round-2/summary.md");
    for line in ["- Bucket: W2\n", "- Estimated real-training gain: +0.0 %; ", "- Decision: REJECT-as-overfit\n"] {
        assert!(summary.contains(line), "no `{line}` in\n{summary}");
    }
    let summary = campaign.read("rounds/round-5/summary.md");
    for line in [
        "- Bucket: W1\n",
        "- Cache key: the weights of a step, through prepare\n",
        "- State audit: stateless (presumed): ",
        "- Hit rate over 8 steps: activations and gradients 0 %, weights 50 %\n",
        "- Estimated real-training gain: +10.0 %; at most prepare time saved / step time = +10.0 %",
        "- Measured training-step gain: not measured: the crate declares no slot\n",
        "- Decision: ACCEPT-with-asterisk, bounded\n",
    ] {
        assert!(summary.contains(line), "no `{line}` in\n{summary}");
    }
    let repository = stage.repository();
    let commit = repository.find_commit(campaign.commits()[0]).unwrap();
    assert!(commit.message().unwrap().contains("\nKopt-Bucket: W1\n"), "{}", commit.message().unwrap());
    assert!(stage.source().contains("TIME=1.000"), "the user's own {SOURCE} is as it was");

    // Twice as fast, of which a tenth is what keeping the prepared weights can be worth.
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    let attribution = &report["attribution"];
    assert_eq!(attribution["s_real"], 0.0);
    assert!((attribution["w_real"].as_f64().unwrap() - 0.1).abs() < 0.002, "{attribution}");
    assert!((attribution["inflation"].as_f64().unwrap() - (2.0 / 1.1 - 1.0)).abs() < 0.02, "{attribution}");
    assert_eq!((&attribution["inflated"], &attribution["rounds"]), (&true.into(), &serde_json::json!([5])));

    let evidence = campaign.path("rounds/round-2/evidence.json");
    stage.kopt(&["verdict", evidence.to_str().unwrap()]).exits(106).says("REJECT-as-overfit");
    let text = std::fs::read_to_string(&evidence).unwrap();
    let cut = stage.aside("cut.json");
    // Whoever takes the trace out is left with an accept that nothing shows.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value.as_object_mut().unwrap().remove("trace");
    std::fs::write(&cut, value.to_string()).unwrap();
    stage.kopt(&["verdict", cut.to_str().unwrap()]).exits(106).says("ruling");
}

#[test]
fn a_kernel_that_keeps_nothing_says_so_in_every_line() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    patch(&mut queue, "Vectorise the loop", "Eight lanes do the work of one.", "TIME=0.800;", false);
    let folder = queue.folder().to_owned();
    stage.optimize(&["--patches", &folder]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["accepted"], "{:#?}", campaign.outcomes());
    let summary = campaign.read("rounds/round-2/summary.md");
    for line in [
        "- Bucket: K1\n",
        "- Cache key: none\n",
        "- Hit rate over 8 steps: activations and gradients 0 %, nothing of a weight kept\n",
        "of the op, 1:1: 8 steps with fresh tensors show +25.",
        "- Decision: ACCEPT-as-real\n",
    ] {
        assert!(summary.contains(line), "no `{line}` in\n{summary}");
    }
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    assert!((report["attribution"]["s_real"].as_f64().unwrap() - 0.25).abs() < 0.01, "{report}");
    assert_eq!(report["attribution"]["inflated"], false);
}
