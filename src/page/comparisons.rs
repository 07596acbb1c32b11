//! A page of comparisons: one, as `verdict` shows it, or a list of them.

use super::exhibit::{Exhibit, badge};
use super::markup::Markup;
use super::{frame, within_budget, words};
use crate::records::numbers;

/// What such a page says.
#[derive(Debug, Clone, Copy)]
pub struct Comparisons<'a> {
    /// What it is about.
    pub title: &'a str,
    /// What came of the whole, in sentences.
    pub lead: &'a [String],
    /// The comparisons, each with its heading.
    pub exhibits: &'a [(String, Exhibit<'a>)],
}

/// The page: an overview where there are several, then a section each.
#[must_use]
pub fn comparisons(page: &Comparisons<'_>) -> String {
    within_budget(page.exhibits.len(), |extra| made(page, extra))
}

fn made(page: &Comparisons<'_>, extra: usize) -> String {
    let mut body = Markup::default();
    body.leaf("h1", &[], &words::name(page.title));
    for sentence in page.lead {
        body.leaf("p", &[], &words::sentence(sentence));
    }
    body.leaf(
        "p",
        &[("class", "soft")],
        "A gain is the time before divided by the time after, minus one: +100 % is twice as fast. Brackets hold the \
         interval in which the true gain lies at the confidence named.",
    );
    if page.exhibits.len() > 1 {
        overview(&mut body, page.exhibits);
    }
    for (number, (heading, exhibit)) in page.exhibits.iter().enumerate() {
        frame::section(&mut body, &format!("comparison-{}", number + 1), &words::name(heading), |section| {
            section.put(&exhibit.within(extra).0);
            section.element("p", &[], |line| {
                line.text("Computed again from the raw data: ");
                line.leaf("code", &[], &words::name(&format!("cargo kopt verdict {}", exhibit.file)));
            });
        });
    }
    frame::document(&words::name(page.title), &body)
}

fn overview(to: &mut Markup, exhibits: &[(String, Exhibit<'_>)]) {
    to.element("div", &frame::scrolls("Overview", "scroll"), |scroll| {
        scroll.element("table", &[("class", "words")], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for name in ["comparison", "verdict", "gain over all shapes"] {
                        row.leaf("th", &[("scope", "col")], name);
                    }
                });
            });
            table.element("tbody", &[], |rows| {
                for (number, (heading, exhibit)) in exhibits.iter().enumerate() {
                    let verdict = &exhibit.evidence.verdict;
                    rows.element("tr", &[], |row| {
                        row.element("th", &[("scope", "row")], |cell| {
                            cell.leaf("a", &[("href", &format!("#comparison-{}", number + 1))], &words::name(heading));
                        });
                        row.element("td", &[], |cell| badge(cell, verdict.ruling));
                        let gain = verdict.aggregate.as_ref().map_or_else(|| "-".to_owned(), numbers::estimate);
                        row.leaf("td", &[("class", "figure")], &gain);
                    });
                }
            });
        });
    })
    .line();
}
