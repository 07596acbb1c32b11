//! From `events.jsonl` to the campaign's state, and every rule that says what comes next. Text and values in, values
//! out: no clock, no file, no process, no randomness. Who resumes a campaign, reports on it or checks it asks here, and
//! all get the same answer.
//!
//! | module | what |
//! |---|---|
//! | `lines` | text to entries and back; damage, named by its line |
//! | `state` | the campaign as it stands, and what can be asked of it |
//! | `fold` | one entry after the other: what may follow what |
//! | `round` | a round with its attempts and its outcome |
//! | `chain` | the gain over all accepted rounds, with its interval |
//! | `rules` | when a campaign ends; what an accept and a rollback lead to |
//! | `directions` | the six directions, in the order in which they are worth trying |
//! | `similar` | whether a proposal was rolled back before |
//! | `target` | what is impossible in a target |

mod chain;
mod directions;
mod fold;
mod lines;
mod round;
mod rules;
mod similar;
mod state;
mod target;

#[cfg(test)]
mod tests;

pub use chain::chain;
pub use directions::{DirectionState, directions};
pub use lines::{Damage, DamageKind, line, read, read_bytes};
pub use round::{Attempt, Outcome, Round};
pub use rules::{Momentum, Rung, TILE_ROUNDS, after_accept, is_stagnant, ladder, termination, used_up};
pub use similar::similar;
pub use state::{Phase, State};
pub use target::check;
