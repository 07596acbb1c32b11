//! Campaigns, comparisons and gates as pages for a browser: one file that asks for nothing outside of itself, to be read on a
//! phone, in the dark and on paper. From data to text and nothing else: no file, no clock, no process.
//!
//! | module | makes |
//! |---|---|
//! | [`mod@campaign`] | the page of a campaign (`report --html`) |
//! | `rounds` | its rounds: the table, and what is behind each point |
//! | [`mod@comparisons`] | a page of comparisons (`verdict --html`) |
//! | [`mod@gate`] | the page of a gate (`gate --html`) |
//! | [`exhibit`] | one comparison as a section of any of these |
//! | [`plots`] | the plots, as SVG |
//! | [`launches`] | raw data as gains |
//! | [`axis`] | scales and ticks |
//! | `frame`, [`markup`], `words` | the document around it, what is escaped, what is cut |
//!
//! Titles, hypotheses, names of shapes and messages come from people, agents and compilers that nobody vouches for. They
//! reach a page only through [`markup::Markup`], which escapes whatever it is given. There is no script, and the page
//! forbids itself to load anything.

pub mod axis;
pub mod campaign;
pub mod comparisons;
pub mod exhibit;
mod frame;
pub mod gate;
pub mod launches;
pub mod markup;
pub mod plots;
mod rounds;
mod words;

#[cfg(test)]
pub(crate) mod tests;

pub use campaign::{CampaignFacts, Filed, campaign};
pub use comparisons::{Comparisons, comparisons};
pub use exhibit::{Detail, Exhibit};
pub use gate::{GatePage, gate};

/// Bytes that a page is meant to stay below. What is left of them beside everything that must be shown is divided between
/// the comparisons, for their raw data.
const BUDGET: usize = 1_450_000;

/// A page made twice: with the least of raw data, and with what there is room for then.
fn within_budget(exhibits: usize, make: impl Fn(usize) -> String) -> String {
    let least = make(0);
    match BUDGET.saturating_sub(least.len()) / exhibits.max(1) {
        0 => least,
        extra => make(extra),
    }
}
