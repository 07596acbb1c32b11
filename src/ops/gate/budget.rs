//! Time for measuring, shared by need: each kernel gets its share of what is left, what one does not use is there for the
//! others, and what is left in the end goes to those that are not decided.

/// Seconds below which going on is not worth the start of a judge.
const WORTH: f64 = 5.0;

/// What is left.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: f64,
}

impl Budget {
    /// All of it.
    pub const fn new(seconds: f64) -> Self {
        Self { left: seconds }
    }

    /// What one of `kernels` that are still to come may use.
    pub fn share(&self, kernels: usize) -> f64 {
        (self.left / kernels.max(1) as f64).max(0.0)
    }

    /// The same for one that was cut off; none where it is not worth it.
    pub fn more(&self, kernels: usize) -> Option<f64> {
        Some(self.share(kernels)).filter(|share| *share >= WORTH)
    }

    /// Some of it was used.
    pub fn spend(&mut self, seconds: f64) {
        self.left -= seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_does_not_use_is_there_for_the_others() {
        let mut budget = Budget::new(100.0);
        assert_eq!(budget.share(4), 25.0);
        budget.spend(10.0);
        assert_eq!(budget.share(3), 30.0);
        budget.spend(86.0);
        assert_eq!((budget.share(2), budget.more(1), budget.more(0)), (2.0, None, None));
        budget.spend(10.0);
        assert_eq!(budget.share(1), 0.0);
    }
}
