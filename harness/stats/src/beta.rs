//! The regularised incomplete beta function, which both Student's t and the exact binomial interval are read from. It
//! has a file of its own so that the two cannot drift apart; it is not part of the public surface.

/// The continued fraction needs about `sqrt(max(a, b))` steps: 10,000 is enough for 10^8 trials.
const STEPS: u32 = 10_000;

/// The regularised incomplete beta function by its continued fraction (Lentz).
pub(crate) fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let tiny = 1e-300;
    let guard = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            fraction *= c * d;
        }
        // A product may stay one rounding (1.1e-16) off 1 for ever: a smaller tolerance would run all the steps.
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// Logarithm of the gamma function: Stirling's series after shifting the argument above 15.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut z = x;
    while z < 15.0 {
        shift += z.ln();
        z += 1.0;
    }
    let inverse = 1.0 / (z * z);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / z;
    (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::function::beta::beta_reg;

    proptest! {
        #[test]
        fn agrees_with_an_independent_implementation(x in 0.0..1.0f64, a in 0.1..200.0f64, b in 0.1..200.0f64) {
            let (ours, theirs) = (incomplete_beta(x, a, b), beta_reg(a, b, x));
            prop_assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
        }

        #[test]
        fn both_sides_make_one(x in 0.0..1.0f64, a in 0.1..2e4f64, b in 0.1..2e4f64) {
            let sum = incomplete_beta(x, a, b) + incomplete_beta(1.0 - x, b, a);
            prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn a_power_of_x_where_one_parameter_is_one() {
        // I_x(a, 1) = x^a.
        for (x, a) in [(0.5f64, 3.0f64), (0.999, 300.0), (0.01, 2.0)] {
            assert!((incomplete_beta(x, a, 1.0) / x.powf(a) - 1.0).abs() < 1e-11);
        }
    }
}
