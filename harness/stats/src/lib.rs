//! The statistics of `cargo kopt`: pure functions from numbers to numbers. No I/O, no clock, no randomness but a seed
//! passed in.
//!
//! Everything about two versions is on the log scale: a gain is `ln(t_old / t_new)`, one for each launch, and
//! [`gain_of_log`] turns it into the ratio that people read.
//!
//! | module | what |
//! |---|---|
//! | [`order`] | medians, and the interval of a median from order statistics |
//! | [`location`] | the value of a launch from its blocks |
//! | [`interval`] | means with Student's intervals; gains as logarithms |
//! | [`effect`] | a mean over launches: bounds, p values, the smallest effect that could have been shown; the aggregate over shapes |
//! | [`sequential`] | when launches are looked at, and the error that this spends |
//! | [`rule`] | the policies, as data |
//! | [`mod@standing`] | the verdict on a candidate after the launches so far |
//! | [`mod@slowdown`] | the same for a gate: slower than a tolerance, clear, or neither |
//! | [`mod@direction`] | faster, slower, the same, or cannot tell |
//! | [`multiple`] | several tests at once (Holm) |
//! | [`binomial`] | how well a rate is known from counts (Clopper-Pearson) |
//! | [`student`] | the t distribution |
//! | [`rank`], [`bootstrap`] | peers' rules, for comparison on the same traces |

mod beta;
pub mod binomial;
pub mod bootstrap;
pub mod direction;
pub mod effect;
mod generator;
pub mod interval;
pub mod location;
pub mod multiple;
mod normal;
pub mod order;
pub mod rank;
pub mod rule;
pub mod sequential;
#[cfg(test)]
mod simulation;
pub mod slowdown;
#[cfg(test)]
mod slowdown_simulation;
pub mod standing;
pub mod student;

pub use binomial::clopper_pearson;
pub use bootstrap::{PeerVerdict, criterion_verdict};
pub use direction::{Direction, direction, directions};
pub use effect::{Effect, combine};
pub use interval::{Interval, gain_of_log, mean_interval};
pub use location::winsorized_mean;
pub use multiple::holm;
pub use order::{median, median_interval};
pub use rank::mann_whitney;
pub use rule::{Policy, Rule, UnknownPolicy};
pub use sequential::{Schedule, false_accept_bound};
pub use slowdown::{Part, Slowdown, SlowdownLevels, slowdown};
pub use standing::{
    LEAST_TO_CONFIRM, Levels, Reason, Shape, Standing, TRADE_OFF_ALPHA, launches_to_confirm, standing, would_pass,
};
