//! The statistics of `cargo kopt`: pure functions from numbers to numbers. No I/O, no clock, no randomness but a seed
//! passed in.
//!
//! | module | what |
//! |---|---|
//! | [`order`] | medians, quantiles, and the interval of a median from order statistics |
//! | [`interval`] | means with Student's intervals; gains as logarithms |
//! | [`student`] | the t distribution |

pub mod interval;
pub mod order;
pub mod student;

pub use interval::{Interval, gain_of_log, mean_interval};
pub use order::{median, median_interval};
