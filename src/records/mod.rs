//! The records of a campaign, for people: every text that a round or a campaign leaves behind. From facts to text and
//! nothing else: no file, no clock, no process. The truth is `events.jsonl`; what is made here is written whole each time.
//!
//! | module | makes | file |
//! |---|---|---|
//! | [`facts`] | | what the others are given |
//! | [`mod@summary`] | a round, in the sections that a validator asks for | `rounds/round-N/summary.md` |
//! | [`mod@established`] | what evidence says of that | |
//! | [`mod@transfer`] | whether a gain exists outside of a benchmark | a section of summary and commit |
//! | [`commit`] | message of an accepted round, and its trailers read back | |
//! | `training` | what a gain was worth in a training step | lines of summary, commit and report |
//! | [`mod@trend`] | one row a round | `logs/performance_trend.md` |
//! | [`mod@log`] | the whole campaign as it stands | `logs/optimize.md` |
//! | [`mod@attribution`] | which share of a gain is real | a part of the report |
//! | [`report_data`], [`report`] | what came of it, as data and as text | `report.json`, `report.md` |
//! | [`gate`] | what came of a gate, as Markdown, annotations and JUnit | wherever the user says |
//! | `text`, `numbers` | words of strangers made harmless, numbers with units | |
//!
//! Titles, hypotheses and messages come from people, agents and compilers that nobody vouches for. They pass through
//! `text` on their way into a document: none can open a section, break a table or pose as a trailer.

pub mod attribution;
pub mod commit;
pub mod established;
pub mod facts;
pub mod gate;
pub mod log;
pub(crate) mod numbers;
pub mod report;
pub mod report_data;
pub mod summary;
pub(crate) mod text;
mod training;
pub mod transfer;
pub mod trend;

#[cfg(test)]
pub(crate) mod tests;

pub use attribution::{Attribution, Contribution, attribute};
pub use commit::{Trailers, commit_message, trailers};
pub use established::established;
pub use facts::{
    BucketFinding, Decision, EstimatedGain, FailedShape, Grounds, HitRate, Measurement, Robustness, RoundFacts,
    TransferDecision, TransferFacts, VersusBaseline,
};
pub use log::{AuditRow, Best, Finale, HistoryRow, Ineffective, LogFacts, OpenDirection, log};
pub use report::report_markdown;
pub use report_data::Report;
pub use summary::{summary, validate_summary};
pub use training::words as training_words;
pub use transfer::transfer;
pub use trend::{Pace, Quantity, TrendRow, trend};
