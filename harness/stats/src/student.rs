//! Student's t distribution.

/// The value that a t variable with `freedom` degrees stays below with `probability`.
#[must_use]
pub fn quantile(probability: f64, freedom: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if probability < 0.5 {
        return -quantile(1.0 - probability, freedom);
    }
    // Bisection on a monotone function: slow (a microsecond or two) and cannot go wrong.
    let (mut low, mut high) = (0.0, 1.0);
    while cumulative(high, freedom) < probability && high < 1e15 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle, freedom) < probability { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that a t variable with `freedom` degrees is below `t`.
#[must_use]
pub fn cumulative(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The regularised incomplete beta function by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let tiny = 1e-300;
    let guard = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-16 {
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
    use statrs::distribution::{ContinuousCDF, StudentsT};

    #[test]
    fn quantiles_agree_with_an_independent_implementation() {
        for freedom in [1.0, 2.0, 5.0, 7.5, 30.0, 200.0] {
            let other = StudentsT::new(0.0, 1.0, freedom).unwrap();
            for probability in [0.001, 0.01, 0.025, 0.2, 0.5, 0.9, 0.975, 0.99, 0.9995] {
                let (ours, theirs) = (quantile(probability, freedom), other.inverse_cdf(probability));
                let scale = theirs.abs().max(1.0);
                assert!((ours - theirs).abs() < 1e-6 * scale, "{probability} {freedom}: {ours} {theirs}");
                assert!((cumulative(ours, freedom) - probability).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn tabulated_values() {
        for (probability, freedom, value) in [(0.975, 5.0, 2.5706), (0.99, 10.0, 2.7638), (0.995, 59.0, 2.6618)] {
            assert!((quantile(probability, freedom) - value).abs() < 5e-5);
        }
        assert!(quantile(0.0, 5.0).is_nan() && quantile(0.5, 0.0).is_nan());
    }
}
