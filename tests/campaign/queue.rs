//! A queue with a patch of every kind: what comes of each, and that the history it leaves can be trusted.

use std::fs;

use git2::Oid;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::history::somebody;
use crate::stage::{Campaign, Queue, Stage, header};

/// Every kind of patch, in the order of rounds from 2 on, and what comes of it.
const KINDS: [(&str, &str); 12] = [
    ("helps", "accepted"),
    ("slows down", "slower"),
    ("does not apply", "does-not-apply"),
    ("does not compile", "build"),
    ("touches the manifest", "forbidden"),
    ("is wrong", "incorrect"),
    ("changes a comment", "no-change"),
    ("remembers activations", "overfit"),
    ("is the one that slows down, again", "slower"),
    ("fails the crate's own test", "incorrect"),
    ("helps more", "accepted"),
    ("counts its calls", "overfit"),
];

fn every_kind(stage: &Stage) -> String {
    let mut queue = Queue::new(stage);
    let slower = header("Prefetch the next row", "Rows are read twice and the second read misses.");
    queue
        .gains(&header("Vectorise the loop", "Eight lanes do the work of one."), "TIME=1.000", "TIME=0.900")
        .tries(&slower, "TIME=0.900", "TIME=0.990")
        .misses(&header("Unroll by hand", "Branches cost more than code."))
        .tries(&header("Drop the return", "Nobody looks at it."), "return 0;", "return zero;")
        .strays(&header("Newer edition", "Compilers improve."), "Cargo.toml", "0.1.0", "0.2.0")
        .tries(&header("Skip the last column", "Who sees it?"), "TIME=0.900;", "TIME=0.500;WRONG;")
        .tries(&header("Explain it better", "Readers are faster then."), "/* Never", "/* Not ever")
        .tries(
            &format!("{}Bucket: W2\n", header("Keep results of inputs seen before", "Benchmarks repeat them.")),
            "TIME=0.900",
            "TIME=0.100",
        )
        .tries(&slower, "TIME=0.900", "TIME=0.980")
        .tries(
            &header("Trust the caller", "Checks are for others."),
            "\"TIME=0.900;\";",
            "\"TIME=0.700;\"; /* FAILS ITS OWN TEST */",
        )
        .gains(&header("Fuse both passes", "Memory is read once."), "TIME=0.900", "TIME=0.800")
        .tries(
            &header("Start where the last call ended", "What is still near is read first."),
            "\"TIME=0.800;\";",
            "\"TIME=0.300;\";\n__attribute__((used)) static int calls;",
        );
    queue.folder().to_owned()
}

#[test]
fn each_patch_gets_what_it_deserves_and_the_history_can_be_trusted() {
    let stage = Stage::new();
    let folder = every_kind(&stage);
    let before = stage.checkout();
    let ran = stage.optimize(&["--patches", &folder]).exits(0);
    assert_eq!(ran.stdout, "");
    let ran = ran.says("ACCEPTED").says("ROLLED BACK").says("nobody has anything more to propose");
    assert!(ran.stderr.contains("Report"), "{}", ran.stderr);
    assert_eq!(stage.checkout(), before, "the user's checkout, index, HEAD and stash");
    let campaign = stage.last();
    let kinds: Vec<&str> = KINDS.iter().map(|(_, what)| *what).collect();
    assert_eq!(campaign.words(), kinds, "{:#?}", campaign.outcomes());
    campaign.is_over();
    assert_eq!(campaign.termination(), "nothing-proposed");
    reads_as_a_story(&stage, &campaign);
    can_be_verified(&stage, &campaign);
}

#[test]
fn what_the_sanitizers_find_is_not_accepted() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    let one_too_many = "\"TIME=0.900;\";\n#define rows rows + 1";
    queue.tries(&header("Run over the end", "The next row is there anyway."), "\"TIME=1.000;\";", one_too_many);
    let folder = queue.folder().to_owned();
    stage.optimize(&["--patches", &folder]).exits(0).says("heap-buffer-overflow");
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["incorrect"], "{:#?}", campaign.outcomes());
    assert!(campaign.commits().is_empty());
}

#[test]
fn two_queues_may_name_their_patches_alike() {
    let stage = Stage::new();
    let (mut one, mut other) = (Queue::named(&stage, "one"), Queue::named(&stage, "other"));
    one.tries(&header("Prefetch the next row", "The second read misses."), "TIME=1.000", "TIME=1.100");
    other.gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900");
    stage.optimize(&["--patches", one.folder(), "--patches", other.folder()]).exits(0);
    let campaign = stage.last();
    assert_eq!(campaign.words(), ["slower", "accepted"], "{:#?}", campaign.outcomes());
    campaign.is_over();
}

#[test]
fn losses_that_no_round_shows_add_up_with_policy_tile() {
    for (policy, words) in [("default", ["accepted", "accepted"]), ("tile", ["accepted", "slower"])] {
        let stage = Stage::new();
        let script = fs::read_to_string(stage.path("judge")).unwrap();
        fs::write(stage.path("judge"), format!("{script}swing tall 0.02\n")).unwrap();
        stage.commit("a shape that differs from launch to launch");
        let mut queue = Queue::new(&stage);
        // On `tall` each takes 1.5 % longer than the one before.
        queue
            .gains(&header("Two rows at a time", "One load serves two."), "TIME=1.000;", "TIME=0.900;tall=1.1278;")
            .gains(&header("Four rows", "One serves four."), "TIME=0.900;tall=1.1278;", "TIME=0.800;tall=1.2878;");
        let folder = queue.folder().to_owned();
        let ran = stage.optimize(&["--patches", &folder, "--policy", policy]).exits(0);
        let campaign = stage.last();
        assert_eq!(campaign.words(), words, "{policy}: {:#?}", campaign.outcomes());
        if policy == "tile" {
            ran.says("tall would take");
            let summary = campaign.read("rounds/round-3/summary.md");
            assert!(summary.contains("longer than with the baseline"), "{summary}");
        }
    }
}

fn reads_as_a_story(stage: &Stage, campaign: &Campaign<'_>) {
    let subjects = ["round-2: Vectorise the loop", "round-12: Fuse both passes"];
    assert_eq!(campaign.subjects(), subjects.map(|subject| format!("[optimize] softmax cpu {subject}")));
    let repository = stage.repository();
    // What was accepted before and this round's own.
    let told = [["2", "+11.", "+11."], ["12", "+12.", "+25."]];
    for (id, [round, gain, total]) in campaign.commits().into_iter().zip(told) {
        let commit = repository.find_commit(id).unwrap();
        let message = commit.message().unwrap();
        let versus = message.lines().find(|line| line.contains(" vs baseline")).unwrap();
        assert!(versus.trim_start_matches(['-', '*', ' ']).starts_with(total), "{message}");
        for part in ["\nHypothesis:\n", "\nResult:\n", "\nReal-training transfer check:\n", " over all shapes"] {
            assert!(message.contains(part), "no `{part}` in:\n{message}");
        }
        let trailers = git2::message_trailers_strs(message).unwrap();
        let value = |name: &str| {
            let values: Vec<&str> = trailers.iter().filter(|one| one.0 == name).map(|one| one.1).collect();
            assert_eq!(values.len(), 1, "{name} in:\n{message}");
            values[0].to_owned()
        };
        assert_eq!((value("Kopt-Campaign"), value("Kopt-Round")), (campaign.name.clone(), round.to_owned()));
        assert!(value("Kopt-Gain").starts_with(gain), "{message}");
        assert!(value("Kopt-Interval").starts_with('['), "{message}");
        assert_eq!(value("Kopt-Bucket"), "K1");
        assert!(message.contains("State audit: stateless (presumed)"), "{message}");
        let evidence = campaign.stored(&format!("round-{round}/evidence.json")).unwrap();
        let digest: String = Sha256::digest(&evidence).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(value("Kopt-Evidence"), digest);
        let folder = stage.sandbox.path("");
        assert!(!message.contains(folder.to_str().unwrap()) && !message.contains("/tmp"), "{message}");
    }
    let report: Value = serde_json::from_str(&campaign.read("report.json")).unwrap();
    let total = report["total"]["gain"]["gain"].as_f64().unwrap();
    assert!((0.24..0.26).contains(&total), "1.0 against 0.8, measured: {total}");
    let shown = stage.kopt(&["report", "--message-format", "json"]).exits(0);
    assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap(), report);
    assert_eq!(stage.kopt(&["report"]).exits(0).stdout.trim(), campaign.read("report.md").trim());
    stage.kopt(&["report", "--html"]).exits(0).says("report.html");
    stage.kopt(&["report", "--html", &campaign.name]).exits(2).says("is a campaign");
    assert!(!stage.path(&campaign.name).exists());
    let page = campaign.read("report.html");
    let refused = ["Unroll by hand", "Newer edition"];
    for title in ["Vectorise the loop", "Prefetch the next row", "Fuse both passes", "cargo kopt verify"] {
        assert!(page.contains(title), "no `{title}` in the page");
    }
    // What was never stored is known by its words, too, and what it may stand on is named.
    for (title, round) in refused.into_iter().zip([4, 6]) {
        let summary = campaign.read(&format!("rounds/round-{round}/summary.md"));
        for text in [&page, &summary, &campaign.read("report.md")] {
            assert!(text.contains(title), "no `{title}` in:\n{text}");
        }
        assert_eq!(summary.contains("which was rolled back"), round == 4, "{summary}");
    }
    assert!(!page.contains("cannot be shown"), "all evidence is there");
    let (log, first) = (campaign.read("logs/optimize.md"), &campaign.all("accepted")[0]);
    let at = &first["at"].as_str().unwrap()[..16];
    assert!(log.contains(&format!("| 2 | {at} | ACCEPTED | Vectorise the loop |")), "{log}");
    stage.kopt(&["status"]).exits(0).answers("over").answers("13/40");
}

fn can_be_verified(stage: &Stage, campaign: &Campaign<'_>) {
    for id in campaign.commits() {
        stage.kopt(&["verify", &id.to_string(), "--evidence-only"]).exits(0).says("its verdict follows from its data");
    }
    let commits = campaign.commits().len();
    let whole = format!("{commits} of {commits} rounds");
    let newest = campaign.commits()[commits - 1].to_string();
    stage.kopt(&["verify", &newest, "--all", "--evidence-only"]).exits(0).says(&whole);
    stage.kopt(&["verify", &campaign.commits()[0].to_string()]).exits(0).says("ACCEPTED");
    stage.kopt(&["verify", "HEAD"]).exits(96).says("it has no Kopt trailers");
    cannot_be_borrowed(stage, campaign);
    replace_evidence(stage, campaign, 2, |text| text.replacen("\"gain\"", "\"gaim\"", 1));
    let first = campaign.commits()[0].to_string();
    stage.kopt(&["verify", &first, "--evidence-only"]).exits(106).says("is not the one that its commit names");
    let others = format!("{} of {commits} rounds", commits - 1);
    stage.kopt(&["verify", &newest, "--all", "--evidence-only"]).exits(106).says(&others).says("integrity violation");
    // The other round is none the worse, and evidence that is not there is asked for.
    stage.kopt(&["verify", &campaign.commits()[1].to_string(), "--evidence-only"]).exits(0);
    stage.repository().find_reference(&format!("refs/kopt/{}/evidence", campaign.name)).unwrap().delete().unwrap();
    stage.kopt(&["verify", &first]).exits(96).says("git fetch origin 'refs/kopt/*:refs/kopt/*'");
}

/// Puts other evidence of a round into the campaign's reference, as somebody would who wants it to say more.
pub fn replace_evidence(stage: &Stage, campaign: &Campaign<'_>, round: u32, change: impl Fn(&str) -> String) -> Oid {
    let path = format!("round-{round}/evidence.json");
    let text = String::from_utf8(campaign.stored(&path).unwrap()).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text);
    let repository = stage.repository();
    let name = format!("refs/kopt/{}/evidence", campaign.name);
    let parent = repository.find_reference(&name).unwrap().peel_to_commit().unwrap();
    let tree = parent.tree().unwrap();
    let mut update = git2::build::TreeUpdateBuilder::new();
    update.upsert(path, repository.blob(changed.as_bytes()).unwrap(), git2::FileMode::Blob);
    let tree = repository.find_tree(update.create_updated(&repository, &tree).unwrap()).unwrap();
    let who = somebody();
    repository.commit(Some(&name), &who, &who, "other evidence", &tree, &[&parent]).unwrap()
}

/// Trailers that are true of one commit say nothing of another one, and none may be touched up.
fn cannot_be_borrowed(stage: &Stage, campaign: &Campaign<'_>) {
    let repository = stage.repository();
    let [first, second] = [0, 1].map(|index| repository.find_commit(campaign.commits()[index]).unwrap());
    let who = somebody();
    let forged = |message: &str, files: &git2::Commit<'_>, on: &git2::Commit<'_>| {
        let tree = files.tree().unwrap();
        repository.commit(None, &who, &who, message, &tree, &[on]).unwrap().to_string()
    };
    let base = first.parent(0).unwrap();
    let told = first.message().unwrap().to_owned();
    let said = |commit: &str, told: &str| {
        stage.kopt(&["verify", commit, "--evidence-only"]).exits(106).says(told);
    };
    stage.kopt(&["verify", &forged(&told, &first, &base), "--evidence-only"]).exits(0);
    said(&forged(&told, &second, &base), "it differs from what was measured");
    said(&forged(&told, &second, &base), "kernels/softmax.c");
    said(&forged(&told, &first, &second), "the version that it stands on differs from what was measured");
    let line = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    for (name, other) in [
        ("Kopt-Gain", "Kopt-Gain: +99.0 %"),
        ("Kopt-Interval", "Kopt-Interval: [+98.0, +99.9]"),
        ("Kopt-Bucket", "Kopt-Bucket: W1"),
    ] {
        let touched = told.replace(&line(name), other);
        assert_ne!(touched, told);
        said(&forged(&touched, &first, &base), &format!("{name} of the commit is"));
    }
}
