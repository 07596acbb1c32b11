//! Proposals that were rolled back before, and those that only sound like it.

use std::fs;
use std::path::Path;

use kopt_schema::queue::PatchHeader;

use super::*;
use crate::ledger::similar;

/// Whether `new` is held for `old`, which was rolled back as slower.
fn is_similar(old: &Proposal, new: &Proposal) -> bool {
    let mut story = Story::measured();
    story.roll_back(Reason::Slower, old.clone());
    similar(&story.state, new) == Some(2)
}

fn prefetch() -> Proposal {
    proposal(
        "Prefetch the next row while writing this one",
        "Each row is read, computed, then written, so memory idles in turn, and hardware prefetching restarts at every \
         page; asking for the next row during the writes overlaps the phases.",
    )
}

#[test]
fn a_hypothesis_too_like_one_already_rolled_back_is_found() {
    let again = [
        prefetch(),
        proposal("prefetching the next ROW, while it writes this one", "Something else entirely."),
        proposal(
            "Prefetch next row during writes",
            "Each row is read, computed, and written in turn, so memory idles; the hardware's prefetching restarts at \
             every page. Asking for the next row while this one is written overlaps both phases.",
        ),
    ];
    for new in &again {
        assert!(is_similar(&prefetch(), new), "{}", new.title);
        assert!(is_similar(new, &prefetch()), "{}", new.title);
    }
}

#[test]
fn another_idea_about_the_same_thing_is_not() {
    let others = [
        proposal(
            "Write each row during the exponentials of the next",
            "Arithmetic and memory still take turns: nothing is stored during the exponentials, nothing computed during \
             the writes. Writing one row behind lets the two overlap.",
        ),
        proposal(
            "Prefetch two rows ahead into L2 only",
            "The row that comes next is too late to ask for at 64 KiB a row; a distance of two hides the whole latency \
             and leaves L1 to the row at hand.",
        ),
        proposal("", ""),
        proposal("the", "of it"),
    ];
    for new in &others {
        assert!(!is_similar(&prefetch(), new), "{}", new.title);
    }
    assert!(!is_similar(&proposal("", ""), &proposal("", "")));
}

#[test]
fn a_proposal_that_says_what_is_different_may_be_tried() {
    let new = |different: &str| Proposal { different: Some(different.to_owned()), ..prefetch() };
    assert!(!is_similar(&prefetch(), &new("with a distance of four rows, after the tile became wider")));
    assert!(is_similar(&prefetch(), &new("  ")));
}

#[test]
fn only_what_failed_for_what_it_is_stands_in_the_way() {
    for (reason, stands) in [
        (Reason::Slower, true),
        (Reason::Incorrect, true),
        (Reason::Integrity, true),
        (Reason::Overfit, true),
        (Reason::Noise, false),
        (Reason::Build, false),
        (Reason::Proposer, false),
        (Reason::Stopped, false),
        (Reason::DoesNotApply, false),
        (Reason::Contaminated, false),
        (Reason::Forbidden, false),
        (Reason::Similar, false),
        (Reason::NoChange, false),
    ] {
        let mut story = Story::measured();
        story.roll_back(reason, prefetch());
        assert_eq!(similar(&story.state, &prefetch()).is_some(), stands, "{reason:?}");
    }
}

#[test]
fn what_stands_or_is_open_is_not_rolled_back_and_the_newest_is_named() {
    let mut story = Story::measured();
    let round = story.begin();
    story.tell(proposed(round, 1, prefetch()));
    assert_eq!(similar(&story.state, &prefetch()), None);
    story.tell(measured(round, 1, Level::Full, Ruling::Accepted)).tell(accepted(round, estimate(0.1)));
    story.tell(learned(round));
    assert_eq!(similar(&story.state, &prefetch()), None);
    story.roll_back(Reason::Slower, prefetch()).roll_back(Reason::Slower, prefetch()).accept(None, 0.1);
    assert_eq!(similar(&story.state, &prefetch()), Some(4));
}

#[test]
fn the_same_file_name_alone_makes_nothing_similar() {
    let named =
        |title: &str, hypothesis: &str| Proposal { source: Some("01.patch".to_owned()), ..proposal(title, hypothesis) };
    assert!(!is_similar(&named("Widen the tile", "More reuse."), &named("Pack the panels", "Fewer cache sets.")));
}

#[test]
fn no_two_patches_of_an_example_queue_are_similar() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("example-kernels");
    let mut queues = 0;
    for kernel in fs::read_dir(kernels).unwrap() {
        let Ok(patches) = fs::read_dir(kernel.unwrap().path().join("patches")) else { continue };
        let mut proposals = Vec::new();
        for patch in patches {
            let path = patch.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                let header = PatchHeader::parse(&fs::read_to_string(&path).unwrap()).unwrap();
                proposals.push(proposal(&header.title, &header.hypothesis));
            }
        }
        queues += 1;
        assert!(proposals.len() > 5);
        for (index, old) in proposals.iter().enumerate() {
            assert!(is_similar(old, old));
            for new in proposals.iter().skip(index + 1) {
                assert!(!is_similar(old, new) && !is_similar(new, old), "{} / {}", old.title, new.title);
            }
        }
    }
    assert!(queues >= 5, "{queues}");
}
