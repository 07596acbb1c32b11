//! Looks beyond those that were planned: where a gain is shown, and all that is open is the loss of a single shape; and where
//! the gain of a screen is ruled out before its confirmation is over.

use kopt_schema::evidence::{Evidence, Ruling, Stage, StageKind, Terms};

use super::super::{Next, next};
use super::{MS, Times, empty, launch, play_each};

#[test]
fn a_gain_that_a_noisy_shape_holds_up_is_looked_at_further() {
    // The large shape gains; the small one does not, and is disturbed in every launch, to and fro.
    let large = Times::honest([MS, MS * 7 / 10, MS]);
    let small = |number: usize, part: u64| {
        let ns = if number.is_multiple_of(2) { MS * (100 + part) / 100 } else { MS * 100 / (100 + part) };
        Times::honest([MS, ns, MS])
    };
    let held = |terms: Terms, part: u64| {
        let evidence = Evidence { terms, ..empty() };
        let played = play_each(evidence, |number| launch(number, small(number, part), large));
        let launches = played.stages.iter().map(|stage| stage.launches.len()).collect::<Vec<_>>();
        (played.verdict, launches)
    };
    let terms = empty().terms;
    let (found, launches) = held(terms.clone(), 16);
    assert_eq!((found.ruling, launches), (Ruling::Accepted, vec![72, 72]), "{:?}", found.reasons);
    let (found, launches) = held(Terms { further_looks: 0, ..terms.clone() }, 16);
    assert_eq!((found.ruling, launches), (Ruling::RolledBackNoise, vec![48]));
    assert!(found.reasons[0].contains("48 launches show a gain"), "{:?}", found.reasons);
    let (found, launches) = held(terms.clone(), 21);
    assert_eq!((found.ruling, launches), (Ruling::Accepted, vec![108, 108]), "{:?}", found.reasons);
    // What 108 launches would not settle is left at 48.
    let (found, launches) = held(terms.clone(), 35);
    assert_eq!((found.ruling, launches), (Ruling::RolledBackNoise, vec![48]));
    // What has no gain gets no more than it had.
    let no_gain = |number| launch(number, small(number, 16), small(number + 1, 16));
    let launches = (0..48).map(no_gain).collect();
    let evidence = Evidence { stages: vec![Stage { kind: StageKind::Screen, launches }], terms, ..empty() };
    assert_eq!(next(&evidence), Next::Done);
}

#[test]
fn a_confirmation_that_a_shape_holds_up_is_looked_at_before_all_its_launches_are_made() {
    // The small shape, which does not gain, is disturbed once the screen is over.
    let large = Times::honest([MS, MS * 7 / 10, MS]);
    let small = |number: usize| match number {
        0..6 => Times::honest([MS; 3]),
        _ if number.is_multiple_of(2) => Times::honest([MS, MS * 105 / 100, MS]),
        _ => Times::honest([MS, MS * 100 / 105, MS]),
    };
    let held = |further_looks: usize| {
        let evidence = Evidence { terms: Terms { further_looks, ..empty().terms }, ..empty() };
        let played = play_each(evidence, |number| launch(number, small(number), large));
        assert_eq!(played.verdict.ruling, Ruling::Accepted, "{:?}", played.verdict.reasons);
        played.stages.iter().map(|stage| stage.launches.len()).collect::<Vec<_>>()
    };
    assert_eq!(held(2), [6, 12]);
    assert_eq!(held(0), [6, 15], "as it was planned");
}

/// A number of a normal distribution, nearly: the sum of twelve shares of a simple generator.
fn normal(seed: u64) -> f64 {
    let share = |index: u64| {
        let mixed = (12 * seed + index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..12).map(share).sum::<f64>() - 6.0
}

#[test]
fn a_loss_of_five_per_cent_in_a_shape_hardly_ever_passes_all_the_looks() {
    // The large shape gains, the small one loses 5 %, and launches differ by 3 %.
    let large = Times::honest([MS, MS * 7 / 10, MS]);
    let accepted = (0..400u64).filter(|trial| {
        let played = play_each(empty(), |number| {
            let ns = MS as f64 * 1.05 * (0.03 * normal(1000 * trial + number as u64)).exp();
            launch(number, Times::honest([MS, ns as u64, MS]), large)
        });
        matches!(played.verdict.ruling, Ruling::Accepted | Ruling::AcceptedTradeOff)
    });
    assert!(accepted.count() <= 4, "one in a hundred is a multiple of what both stages miss");
}

#[test]
fn a_confirmation_ends_as_soon_as_the_gain_of_its_screen_is_ruled_out() {
    // Barely a gain, to and fro, until the screen has passed; then none.
    let both = |number: usize| match number {
        0..14 if number.is_multiple_of(2) => Times::honest([MS, MS * 978 / 1000, MS]),
        14.. if number.is_multiple_of(2) => Times::honest([MS, MS * 1001 / 1000, MS]),
        _ => Times::honest([MS; 3]),
    };
    let held = |gives_up_early: bool| {
        let evidence = Evidence { terms: Terms { gives_up_early, ..empty().terms }, ..empty() };
        let played = play_each(evidence, |number| launch(number, both(number), both(number)));
        let verdict = &played.verdict;
        assert_eq!(verdict.ruling, Ruling::RolledBackNoise, "{:?}", verdict.reasons);
        assert!(verdict.reasons[1].contains("is ruled out"), "{:?}", verdict.reasons);
        played.stages.iter().map(|stage| stage.launches.len()).collect::<Vec<_>>()
    };
    assert_eq!(held(true), [14, 6]);
    assert_eq!(held(false), [14, 21], "as it was planned");
}

#[test]
fn a_gain_of_two_per_cent_is_not_given_up_early() {
    let accepted = |gives_up_early: bool| {
        let held = |trial: u64| {
            let evidence = Evidence { terms: Terms { gives_up_early, ..empty().terms }, ..empty() };
            let played = play_each(evidence, |number| {
                let part = |shape: u64| {
                    let noise = 0.02 * normal(10_000 * trial + 2 * number as u64 + shape);
                    Times::honest([MS, (MS as f64 * (noise - 0.02).exp()) as u64, MS])
                };
                launch(number, part(0), part(1))
            });
            played.verdict.ruling == Ruling::Accepted
        };
        (0..200).filter(|trial| held(*trial)).count()
    };
    let (early, late) = (accepted(true), accepted(false));
    assert!(early >= 180 && early + 1 >= late, "{early} and {late} of 200");
}
