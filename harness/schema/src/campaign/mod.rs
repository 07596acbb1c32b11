//! A campaign: rounds of one change each, judged and kept or rolled back.
//!
//! | module | file | what |
//! |---|---|---|
//! | [`target`] | `manifest.toml` | every parameter, written before any work |
//! | [`event`] | `events.jsonl` | everything that happened, append-only; the campaign's state is a fold over it |
//! | [`proposal`] | `proposal.toml` | what a proposer says of its change |
//! | [`trained`] | `training.json` | what training steps said |
//! | [`direction`] | | categories and buckets of changes |

pub mod direction;
pub mod event;
pub mod proposal;
pub mod target;
pub mod trained;

pub use direction::{Bucket, Category};
pub use event::{Entry, Event};
pub use proposal::Proposal;
pub use target::Target;
pub use trained::{Trained, Training};
