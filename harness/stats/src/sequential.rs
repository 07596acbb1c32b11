//! When the launches are looked at, and what that costs. Stopping at the first good-looking number would accept noise
//! sooner or later; here every look has its own share of the error, fixed before the first launch.

/// Looks at growing numbers of launches, with a total error probability split evenly over them.
///
/// The split is a union bound: whatever the dependence between the looks (they share launches), a true null is rejected
/// at any of them with probability at most the total. Sharper boundaries exist, but they assume the dependence of
/// normal increments, and the launches of a shared machine are not that tidy.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    looks: Vec<usize>,
    alpha_per_look: f64,
}

impl Schedule {
    /// Looks after these numbers of launches, spending `alpha` in all.
    ///
    /// # Panics
    /// When there is no look, when the looks do not grow, when the first has fewer than 2 launches (nothing is known of
    /// their spread then), or when `alpha` is not between 0 and 1.
    #[must_use]
    pub fn new(looks: Vec<usize>, alpha: f64) -> Self {
        assert!(looks.first().is_some_and(|&first| first >= 2), "the first look needs 2 launches or more: {looks:?}");
        assert!(looks.is_sorted_by(|earlier, later| earlier < later), "looks must grow: {looks:?}");
        assert!(alpha > 0.0 && alpha < 1.0, "alpha must be between 0 and 1: {alpha}");
        let alpha_per_look = alpha / looks.len() as f64;
        Self { looks, alpha_per_look }
    }

    /// The referee's: 6, 9, 14, 21, 32 and 48 launches, half as many again each time, spending 0.02.
    #[must_use]
    pub fn standard() -> Self {
        Self::new(vec![6, 9, 14, 21, 32, 48], 0.02)
    }

    /// The gate's: one look more, at 72 launches. A gate has to be sure of every shape, and single shapes vary more than
    /// their aggregate: with eight that vary by 3 % each, 48 launches leave 11 % of equal versions undecided, 72 less than
    /// 1 % (simulated).
    #[must_use]
    pub fn gate() -> Self {
        Self::new(vec![6, 9, 14, 21, 32, 48, 72], 0.02)
    }

    /// The level of the test at each look.
    #[must_use]
    pub fn alpha_per_look(&self) -> f64 {
        self.alpha_per_look
    }

    /// What all looks together spend: after [`truncated`](Self::truncated), less than the schedule was made with.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha_per_look * self.looks.len() as f64
    }

    /// The numbers of launches that are looked at, growing.
    #[must_use]
    pub fn looks(&self) -> &[usize] {
        &self.looks
    }

    /// Which look, from 0, is due after exactly this many launches.
    #[must_use]
    pub fn look_at(&self, launches: usize) -> Option<usize> {
        self.looks.binary_search(&launches).ok()
    }

    /// The number of launches of the last look: after it, what is undecided stays so.
    #[must_use]
    pub fn last(&self) -> usize {
        // Never empty: `new` and `truncated` see to it.
        self.looks.last().copied().unwrap_or_default()
    }

    /// Most launches of the confirmation of a screen that passed after `screened`: the next look's number.
    /// [`launches_to_confirm`](crate::launches_to_confirm) says how many it needs. Stopping the confirmation early, by its own
    /// launches, would bias its estimate upwards as it does the screen's (2.2 % for a true 2 % at sigma 2 %).
    #[must_use]
    pub fn confirmation(&self, screened: usize) -> usize {
        self.looks.iter().copied().find(|look| *look > screened).unwrap_or_else(|| self.last())
    }

    /// Looks of a gain's confirmation, which share its error: what the screen says is enough and, where that leaves it undecided,
    /// three times as many. A launch that was disturbed spoils a short series: one of five on one shape is enough, whatever the
    /// others show.
    #[must_use]
    pub fn looks_to_confirm(&self, enough: usize, count: usize) -> Vec<usize> {
        let mut looks = [1, 3].map(|times| (times * enough).min(self.last().max(enough))).to_vec();
        looks.truncate(count.max(1));
        looks.dedup();
        looks
    }

    /// Looks of a gate's confirmation, which share its error: the same number, twice and four times as many. A launch that
    /// was disturbed spoils a short series, and what is slower must not pass for that. Nobody books what a gate measures:
    /// that an early stop makes it look larger does no harm there.
    #[must_use]
    pub fn confirmations(&self, screened: usize) -> Vec<usize> {
        let first = self.confirmation(screened);
        let mut looks = [1, 2, 4].map(|times| (times * first).min(self.last())).to_vec();
        looks.dedup();
        looks
    }

    /// The looks of at most `max_launches`, each at the level it had: a budget may end a comparison early, but must not
    /// make it easier to pass. `None` where no look is left.
    #[must_use]
    pub fn truncated(&self, max_launches: usize) -> Option<Self> {
        let looks: Vec<usize> = self.looks.iter().copied().take_while(|&look| look <= max_launches).collect();
        (!looks.is_empty()).then_some(Self { looks, alpha_per_look: self.alpha_per_look })
    }
}

/// A bound on the probability that any of `tries` no-ops passes all `stages`, each with its own fresh launches and its
/// total alpha: the product over the stages, since their launches are independent, times the tries.
///
/// Screen 0.02, confirmation 0.02: 0.0004 a try, and 4.8 % for the 120 tries of the longest campaign.
#[must_use]
pub fn false_accept_bound(stages: &[f64], tries: u32) -> f64 {
    (stages.iter().product::<f64>() * f64::from(tries)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_standard_schedule() {
        let schedule = Schedule::standard();
        assert!((schedule.alpha_per_look() - 0.02 / 6.0).abs() < 1e-15 && (schedule.alpha() - 0.02).abs() < 1e-15);
        assert_eq!(schedule.last(), 48);
        assert_eq!([6, 9, 32, 48].map(|screened| schedule.confirmation(screened)), [9, 14, 48, 48]);
        let gate = Schedule::gate();
        let looks: Vec<Vec<usize>> = [6, 14, 32, 48].map(|screened| gate.confirmations(screened)).into();
        assert_eq!(looks, [vec![9, 18, 36], vec![21, 42, 72], vec![48, 72], vec![72]]);
        assert_eq!((schedule.look_at(6), schedule.look_at(48)), (Some(0), Some(5)));
        assert_eq!((schedule.look_at(5), schedule.look_at(7), schedule.look_at(49)), (None, None, None));
    }

    #[test]
    fn a_smaller_budget_keeps_the_bar() {
        let (whole, short) = (Schedule::standard(), Schedule::standard().truncated(20).unwrap());
        assert_eq!(short.looks(), [6, 9, 14]);
        assert_eq!((short.alpha_per_look(), short.last()), (whole.alpha_per_look(), 14));
        assert!((short.alpha() - 0.01).abs() < 1e-15);
        assert_eq!(whole.truncated(5), None);
        assert_eq!(whole.truncated(1000), Some(whole));
    }

    #[test]
    fn the_longest_campaign_stays_under_five_per_cent() {
        let alpha = Schedule::standard().alpha();
        assert!((false_accept_bound(&[alpha, alpha], 1) - 0.0004).abs() < 1e-12);
        assert!(false_accept_bound(&[alpha, alpha], 120) < 0.05);
        assert_eq!(false_accept_bound(&[alpha], 120), 1.0);
    }

    #[test]
    fn schedules_that_cannot_be() {
        for (looks, alpha) in [(vec![], 0.02), (vec![1, 6], 0.02), (vec![6, 6], 0.02), (vec![6], 0.0), (vec![6], 1.0)] {
            assert!(std::panic::catch_unwind(|| Schedule::new(looks, alpha)).is_err());
        }
    }

    proptest! {
        #[test]
        fn the_shares_add_up_whatever_the_looks(steps in prop::collection::vec(2..20usize, 1..12), alpha in 0.001..0.2f64) {
            let looks: Vec<usize> = steps.iter().scan(0, |sum, step| { *sum += step; Some(*sum) }).collect();
            let schedule = Schedule::new(looks.clone(), alpha);
            prop_assert!((schedule.alpha() - alpha).abs() < 1e-12);
            prop_assert!(looks.iter().enumerate().all(|(index, &look)| schedule.look_at(look) == Some(index)));
        }
    }
}
