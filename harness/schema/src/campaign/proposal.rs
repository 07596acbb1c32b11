//! What a proposer says of its change. It is recorded before anything is measured and compared with what was measured;
//! no number of it is ever used.

use serde::{Deserialize, Serialize};

use super::direction::{Bucket, Category};

/// One hypothesis, one change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// What changes, in a few words: the subject of the commit.
    pub title: String,
    /// Why it should be faster.
    pub hypothesis: String,
    /// The direction it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// The bucket that is claimed; the one that counts is established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// What its author expects, in any form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<String>,
    /// What is different from a similar one that was rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub different: Option<String>,
    /// What to try next, whatever comes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Where it comes from: a patch's file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Proposal {
    /// The title of a change of which nothing was said.
    pub const UNTITLED: &str = "change by agent";

    /// Whether nothing was said of the change: then there is nothing to compare it by, and nothing to learn.
    #[must_use]
    pub fn is_untitled(&self) -> bool {
        self.title == Self::UNTITLED
    }
}
