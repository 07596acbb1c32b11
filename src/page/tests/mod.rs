//! Pages of campaigns, comparisons and gates, well-formed whatever they are made of.

mod gates;
pub mod made;
mod strict;

use kopt_schema::evidence::Estimate;
use made::{SHAPES, Told};

use super::*;
use crate::records::tests::{estimate, target};

/// Words that try to be more than words.
const HOSTILE: [&str; 12] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</title></style></svg></details><h1>mine</h1>",
    "]]><!-- --><![CDATA[",
    "&#60;script&#62; &lt;b&gt; &bogus",
    "javascript:alert(1)",
    "{{7*7}} ${x} <%= y %>",
    "\u{202e}gnirts\u{200b}\u{feff}",
    "\u{0}\u{1b}[31m\u{7}\r\n\t",
    "日本語 🦀 ﷽ a\u{301}\u{302}\u{303}",
    "url(https://example.org/x) @import",
];

fn page_of(told: &Told) -> String {
    let (target, total) = (target(), None);
    campaign(&CampaignFacts { target: &target, state: &told.state, report: None, evidence: &told.evidence, total })
}

#[test]
fn a_campaign_of_which_nothing_is_known_yet_is_a_page() {
    let page = strict::read(&page_of(&Told::default()));
    assert!(page.text.contains("No round has begun yet") && page.text.contains("not over"), "{}", page.text);
    let page = strict::read(&page_of(&Told::begun()));
    assert_eq!(page.count("h1"), 1);
    assert!(page.text.contains("against itself"), "the baseline is shown:\n{}", page.text);
    assert!(!page.text.contains("ROLLED BACK"), "a version against itself is not rolled back");
}

#[test]
fn a_whole_campaign_has_its_plots_tables_and_commands() {
    let mut told = Told::begun();
    (0..12).for_each(|_| told.round(""));
    told.over(Some(estimate(0.12, 0.01)));
    let target = target();
    let filed = told.evidence[&3].clone();
    let facts = CampaignFacts {
        target: &target,
        state: &told.state,
        report: None,
        evidence: &told.evidence,
        total: Some(&filed),
    };
    let html = campaign(&facts);
    let page = strict::read(&html);
    for part in [
        "+12.0 %",
        "[+11.0, +13.0] % at 96 % confidence",
        "Score over rounds",
        "Shapes by rounds",
        "Because of this.",
        "So it is",
        "expected `;`",
        "What round 3 taught",
        "cargo kopt verify c12 --all",
        "cargo kopt verdict .kopt/campaigns/softmax_cpu/rounds/round-3/evidence.json",
        "5eed",
        "Some Core 9",
    ] {
        assert!(page.text.contains(part), "no `{part}`");
    }
    // Score, heat map, and four plots for the whole, the baseline, and each round that was measured: 7 did not compile.
    assert_eq!(page.count("svg"), 2 + 4 * (1 + 1 + 11));
    for (round, name) in told.state.rounds.iter().map(|round| (round.number, format!("#round-{}", round.number))) {
        let links = page.attributes.iter().filter(|(key, value)| key == "href" && *value == name).count();
        assert!(links >= 2, "round {round} is linked from the plot and the table");
    }
    assert!(!html.contains("script>") && !html.contains("style=\""), "no script, no style but the one");
    assert!(html.contains("default-src 'none'") || html.contains("default-src &#39;none&#39;"));
    assert!(!html.contains("http://") && !html.contains("https://"), "nothing outside is named");
}

#[test]
fn strangers_words_stay_words() {
    let mut told = Told::begun();
    HOSTILE.iter().for_each(|words| told.round(words));
    let html = page_of(&told);
    let page = strict::read(&html);
    for seen in
        ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "javascript:alert(1)", "{{7*7}}", "日本語 🦀"]
    {
        assert!(page.text.contains(seen), "`{seen}` is shown as it is");
    }
    assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}') && !html.contains('\u{0}'));
    for words in HOSTILE {
        let evidence = made::evidence(0.9, words);
        let differences = vec![words.to_owned()];
        let exhibit =
            Exhibit { evidence: &evidence, file: words, digest: Some(words), differences: &differences, ruled: true };
        let exhibits = [(words.to_owned(), exhibit), (words.to_owned(), exhibit)];
        strict::read(&comparisons(&Comparisons { title: words, lead: &differences, exhibits: &exhibits }));
    }
}

#[test]
fn a_hundred_thousand_letters_are_cut() {
    let long = "<x>".repeat(33_000);
    let mut told = Told::begun();
    (0..4).for_each(|_| told.round(&long));
    let html = page_of(&told);
    strict::read(&html);
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn numbers_that_are_none_break_nothing() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -3.0, 1e300, 0.0] {
        let mut told = Told::begun();
        (0..3).for_each(|_| told.round(""));
        let wild = Estimate { gain: odd, low: odd, high: f64::NAN, confidence: odd, launch_sigma: odd, launches: 0 };
        for filed in told.evidence.values_mut() {
            let evidence = filed.evidence.as_mut().unwrap();
            evidence.verdict.aggregate = Some(wild);
            evidence.verdict.shapes.iter_mut().for_each(|shape| shape.estimate = wild);
            evidence.verdict.shapes[0].candidate_s = odd;
            evidence.ceilings.as_mut().unwrap().copy_bytes_per_s = odd;
            evidence.stages[0].launches[0].cases[0].blocks[0].device_ns = vec![[0, 0]; 3];
            evidence.stages[0].launches[1].cases[0].blocks[0].device_ns = Vec::new();
        }
        for round in &mut told.state.rounds {
            round.attempts[0].measured.iter_mut().for_each(|measured| {
                measured.aggregate = Some(wild);
                measured.shapes[0].seconds = odd;
            });
        }
        told.over(Some(estimate(0.1, 0.01)));
        told.state.reported.as_mut().unwrap().total = Some(wild);
        let html = page_of(&told);
        let page = strict::read(&html);
        let drawn =
            page.attributes.iter().filter(|(key, _)| ["d", "x", "y", "cx", "cy", "viewBox"].contains(&key.as_str()));
        for (_, value) in drawn {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{odd}: {value}");
        }
        assert!(!page.text.contains("NaN") && !page.text.contains("inf %"), "{odd}");
    }
}

#[test]
fn evidence_that_is_gone_is_said_to_be_and_the_rest_is_shown() {
    let mut told = Told::begun();
    (0..4).for_each(|_| told.round(""));
    told.evidence.get_mut(&3).unwrap().evidence = Err("rounds/round-3/evidence.json was changed".to_owned());
    told.evidence.remove(&4);
    let html = page_of(&told);
    let page = strict::read(&html);
    assert!(page.text.contains("The evidence cannot be shown: rounds/round-3/evidence.json was changed"));
    assert!(page.text.contains("It came to no measurement"));
    // The heat map goes by the times of the events then.
    assert!(page.text.contains("+3.1"), "0.97 of the time is +3.1 %");
}

#[test]
fn a_long_campaign_stays_small_and_says_what_was_left_out() {
    let mut told = Told::begun();
    (0..100).for_each(|_| told.round(""));
    let html = page_of(&told);
    let page = strict::read(&html);
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
    assert!(page.text.contains("blocks are left out to keep this page small"));
    assert!(page.text.contains("Launches as numbers"), "launches still fit");
    (0..20).for_each(|_| told.round(""));
    let html = page_of(&told);
    strict::read(&html);
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
    let short = Told::begun();
    assert!(!page_of(&short).contains("left out to keep this page small"));
}

#[test]
fn launches_are_those_of_the_evidence() {
    let evidence = made::evidence(0.5, "");
    let shapes = launches::by_shape(&evidence);
    assert_eq!(shapes.iter().map(|shape| shape.shape.as_str()).collect::<Vec<_>>(), SHAPES);
    assert!(shapes.iter().all(|shape| shape.launches.len() == 15));
    for launch in shapes.iter().flat_map(|shape| &shape.launches) {
        assert_eq!(launch.blocks.len(), 10);
        assert!((0.85..=1.01).contains(&launch.gain), "{}", launch.gain);
    }
    let exhibit = Exhibit { evidence: &evidence, file: "evidence.json", digest: None, differences: &[], ruled: true };
    let sizes = [Detail::Blocks, Detail::Launches, Detail::Intervals].map(|detail| exhibit.section(detail).len());
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    assert_eq!(exhibit.within(usize::MAX).1, Detail::Blocks);
    assert_eq!(exhibit.within(0).1, Detail::Intervals);
}
