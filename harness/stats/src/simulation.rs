//! The bars that the referee must reach, simulated with a fixed seed: how often no-ops pass, how often true gains are
//! found, how often a loss hidden in one shape is caught. The launches here are normal and independent; what real
//! launches do is measured elsewhere. Heavy tails make false accepts rarer (0.2 to 0.4 % instead of 1.1 % at the screen);
//! skew would make them more frequent, but a no-op's gains are symmetric as long as its two sides are exchangeable.

use crate::effect::{Effect, combine};
use crate::generator::Generator;
use crate::rule::{Policy, Rule};
use crate::sequential::Schedule;
use crate::standing::{LEAST_TO_CONFIRM, Levels, Shape, Standing, launches_to_confirm, standing};

/// A candidate with known effects on a machine with known noise.
pub(crate) struct World {
    /// The true `ln(t_old / t_new)` of each shape.
    pub(crate) effects: Vec<f64>,
    /// What moves all shapes of a launch together, and what moves each alone: standard deviations.
    pub(crate) common: f64,
    pub(crate) own: f64,
    /// The share of a shape's launches that something else disturbs, six times as much as they vary.
    pub(crate) disturbed: f64,
}

impl World {
    /// Four shapes with the same true gain; the launch deviation of their aggregate is `sigma`, half of its variance
    /// common to the shapes. One shape alone then varies by 1.6 sigma.
    fn uniform(gain: f64, sigma: f64) -> Self {
        Self {
            effects: vec![f64::ln_1p(gain); 4],
            common: sigma * 0.5f64.sqrt(),
            own: sigma * 2f64.sqrt(),
            disturbed: 0.0,
        }
    }

    /// One more launch of every shape.
    pub(crate) fn launch(&self, gains: &mut [Vec<f64>], generator: &mut Generator) {
        let common = self.common * generator.normal();
        for (gains, effect) in gains.iter_mut().zip(&self.effects) {
            let own = self.own * generator.normal();
            let hit = self.disturbed > 0.0 && (generator.below(1000) as f64) < 1000.0 * self.disturbed;
            gains.push(effect + common + if hit { 6.0 * own } else { own });
        }
    }

    /// Launches until a look decides, or the last has passed.
    fn screen(&self, rule: &Rule, generator: &mut Generator) -> (Standing, Vec<Vec<f64>>) {
        let schedule = Schedule::standard();
        let mut gains = vec![Vec::new(); self.effects.len()];
        for &look in schedule.looks() {
            while gains[0].len() < look {
                self.launch(&mut gains, generator);
            }
            let standing = stand(&gains, rule, schedule.alpha_per_look());
            if standing != Standing::Undecided {
                return (standing, gains);
            }
        }
        (Standing::Undecided, gains)
    }

    /// Fresh launches, as many as the screen's say, and more where these leave it undecided; the standing, the estimate of the
    /// aggregate, and how many they were.
    fn confirm(&self, screened: &[Vec<f64>], rule: &Rule, generator: &mut Generator) -> (Standing, f64, usize) {
        let schedule = Schedule::standard();
        let (most, alpha) = (schedule.confirmation(screened[0].len()), schedule.alpha() / 2.0);
        let enough = launches_to_confirm(&shapes(screened), rule, alpha, LEAST_TO_CONFIRM..=most);
        let mut gains = vec![Vec::new(); self.effects.len()];
        let mut standing = Standing::Undecided;
        for look in schedule.looks_to_confirm(enough, 2) {
            while gains[0].len() < look {
                self.launch(&mut gains, generator);
            }
            standing = stand(&gains, rule, alpha);
            if standing != Standing::Undecided {
                break;
            }
        }
        let slices: Vec<&[f64]> = gains.iter().map(Vec::as_slice).collect();
        (standing, Effect::of(&combine(&slices)).mean, gains[0].len())
    }
}

fn shapes(gains: &[Vec<f64>]) -> Vec<Shape<'_>> {
    gains.iter().map(|gains| Shape { name: "", core: true, gains, weights: &[] }).collect()
}

fn stand(gains: &[Vec<f64>], rule: &Rule, accept: f64) -> Standing {
    standing(&shapes(gains), rule, Levels { accept, give_up: 0.1 })
}

/// What became of a number of rounds, as shares; launches are those of the screen.
#[derive(Debug, Default)]
struct Shares {
    screened: f64,
    confirmed: f64,
    rejected: f64,
    undecided: f64,
    launches: f64,
    /// Mean estimate of the confirmations, whatever became of them, and their launches.
    confirmation: f64,
    fresh: f64,
}

fn rounds(world: &World, policy: Policy, count: u32, seed: u64) -> Shares {
    let (rule, mut generator) = (policy.rule(), Generator::new(seed));
    let share = 1.0 / f64::from(count);
    let mut shares = Shares::default();
    for _ in 0..count {
        let (screen, launches) = world.screen(&rule, &mut generator);
        shares.launches += share * launches[0].len() as f64;
        match screen {
            Standing::Accept { .. } => {
                shares.screened += share;
                let (confirmation, estimate, fresh) = world.confirm(&launches, &rule, &mut generator);
                shares.confirmation += share * estimate;
                shares.fresh += share * fresh as f64;
                if matches!(confirmation, Standing::Accept { .. }) {
                    shares.confirmed += share;
                }
            }
            Standing::Reject(_) => shares.rejected += share,
            Standing::Undecided => shares.undecided += share,
        }
    }
    shares.confirmation /= shares.screened;
    shares.fresh /= shares.screened;
    println!("{policy}: {shares:.4?}");
    shares
}

#[test]
fn a_no_op_passes_the_screen_in_two_per_cent_and_both_stages_in_two_per_mille() {
    let shares = rounds(&World::uniform(0.0, 0.02), Policy::Default, 4_000, 1);
    assert!(shares.screened <= 0.02 && shares.confirmed <= 0.002, "{shares:?}");
}

#[test]
fn a_true_five_per_cent_is_found() {
    let shares = rounds(&World::uniform(0.05, 0.02), Policy::Default, 500, 2);
    assert!(shares.confirmed >= 0.95, "{shares:?}");
}

#[test]
fn a_true_two_per_cent_is_found_where_launches_vary_by_one_and_a_half() {
    let shares = rounds(&World::uniform(0.02, 0.015), Policy::Default, 500, 3);
    assert!(shares.confirmed >= 0.8, "{shares:?}");
}

#[test]
fn a_disturbed_launch_of_one_shape_does_not_cost_a_clear_gain() {
    // One launch of ten of each shape varies six times as much. Looked at once, 95.8 % of these were confirmed; and of true gains of
    // 2 % 96.6 % where launches vary by 1.5 %, 90.7 % where they vary by 2 %, now 100 and 99.6 %.
    let mut world = World::uniform(0.10, 0.01);
    world.disturbed = 0.1;
    let shares = rounds(&world, Policy::Default, 500, 7);
    assert!(shares.confirmed >= 0.99, "{shares:?}");
}

#[test]
fn what_the_confirmation_records_is_not_biased() {
    let shares = rounds(&World::uniform(0.02, 0.02), Policy::Default, 1_000, 6);
    assert!((shares.confirmation - 0.02f64.ln_1p()).abs() < 0.001, "{shares:?}");
}

/// Eight shapes, seven of them 10 % faster and one slower by `loss`; each varies by 2 % on its own.
fn hidden_loss(loss: f64) -> World {
    let mut effects = vec![1.1f64.ln(); 8];
    effects[3] = -f64::ln_1p(loss);
    World { effects, common: 0.0, own: 0.02, disturbed: 0.0 }
}

#[test]
fn a_loss_of_five_per_cent_in_one_of_eight_shapes_does_not_hide_behind_gains() {
    // A loss of exactly the limit is the hardest: its estimate reaches 5 % at a given look half of the time. The screen
    // rejects 79 %, leaves 18 % undecided (rolled back as noise) and passes 3 %; both stages pass none of 800.
    let shares = rounds(&hidden_loss(0.05), Policy::Default, 800, 4);
    assert!(1.0 - shares.screened >= 0.95 && 1.0 - shares.confirmed >= 0.99, "{shares:?}");
    assert!(shares.rejected >= 0.75, "{shares:?}");
}

#[test]
fn a_loss_of_six_per_cent_in_one_of_eight_shapes_is_named() {
    let shares = rounds(&hidden_loss(0.06), Policy::Default, 300, 5);
    assert!(shares.rejected >= 0.95 && shares.confirmed == 0.0, "{shares:?}");
}

#[test]
fn shapes_that_vary_by_a_tenth_are_not_called_slower() {
    // Four that gain 16 %, four that nothing was done to. At 0.01 for each shape 10 % of such gains were rejected.
    let effects = [1.16f64.ln(), 0.0].repeat(4);
    let shares = rounds(&World { effects, common: 0.0, own: 0.1, disturbed: 0.0 }, Policy::Default, 1_000, 8);
    assert!(shares.rejected <= 0.03, "{shares:?}");
}
