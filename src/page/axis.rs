//! From values to places along an axis, and the round values that are written at it.

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Evenly.
    Linear,
    /// By their logarithms.
    Log,
    /// Gains, by the logarithms of their ratios: twice as fast is as far from nothing as half as fast.
    Gain,
}

/// An axis. Values outside of it are put at its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    spread: Spread,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// A ratio from which round gains in per cent are too close at one end: then ratios are written.
const WIDE: f64 = 4.0;

impl Axis {
    /// An axis that holds all of `values`, with some room at both ends, between two places. What is no number, or has no
    /// place on such an axis, is left out.
    #[must_use]
    pub fn around(spread: Spread, values: impl IntoIterator<Item = f64>, places: [f64; 2]) -> Self {
        let known: Vec<f64> =
            values.into_iter().map(|value| spread.of(value)).filter(|value| value.is_finite()).collect();
        let low = known.iter().copied().fold(f64::INFINITY, f64::min);
        let high = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match low <= high {
            true => (low, high),
            false => (spread.of(spread.middle()), spread.of(spread.middle())),
        };
        let least = match spread {
            Spread::Linear => 1e-9 + 0.02 * high.abs().max(low.abs()),
            Spread::Log => 0.7,
            Spread::Gain => 0.01,
        };
        let room = (0.06 * (high - low)).max((least - (high - low)) / 2.0);
        Self { spread, low: low - room, high: high + room, from: places[0], to: places[1] }
    }

    /// An axis from one value to another.
    #[must_use]
    pub fn between(spread: Spread, ends: [f64; 2], places: [f64; 2]) -> Self {
        Self { spread, low: spread.of(ends[0]), high: spread.of(ends[1]), from: places[0], to: places[1] }
    }

    /// Where a value is.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let value = self.spread.of(value);
        // Minus infinity and what is below a gain of -100 % lie at the lower end.
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        self.from + (self.to - self.from) * (value - self.low) / (self.high - self.low)
    }

    /// Whether it is on the axis.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&self.spread.of(value))
    }

    /// The ends, as values.
    #[must_use]
    pub fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|end| self.spread.back(end))
    }

    /// Round values on it, at most about `most`, each with what is written there; `write` is given a value and the
    /// distance to the next.
    #[must_use]
    pub fn ticks(&self, most: usize, write: impl Fn(f64, f64) -> String) -> Vec<(f64, String)> {
        let [low, high] = self.ends();
        let wide = (self.high - self.low).exp();
        let most = most.max(2);
        let values: Vec<(f64, f64)> = match self.spread {
            Spread::Linear => even(low, high, most),
            Spread::Gain if wide < WIDE => even(low, high, most),
            Spread::Gain => {
                round_ratios(1.0 + low, 1.0 + high, most).into_iter().map(|ratio| (ratio - 1.0, 0.1)).collect()
            }
            Spread::Log => round_ratios(low, high, most).into_iter().map(|value| (value, value)).collect(),
        };
        values
            .into_iter()
            .filter(|(value, _)| self.holds(*value))
            .map(|(value, step)| (value, write(value, step)))
            .collect()
    }
}

impl Spread {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.ln(),
            Self::Gain => value.ln_1p(),
        }
    }

    fn back(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => place.exp(),
            Self::Gain => place.exp_m1(),
        }
    }

    const fn middle(self) -> f64 {
        match self {
            Self::Linear | Self::Gain => 0.0,
            Self::Log => 1.0,
        }
    }
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten, with the step between them.
fn even(low: f64, high: f64, most: usize) -> Vec<(f64, f64)> {
    let raw = (high - low) / most as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= 0.8 * raw)
        .unwrap_or(raw);
    if !(step.is_finite() && step > 0.0) {
        return Vec::new();
    }
    let first = (low / step).ceil();
    // Never endless, whatever the numbers are.
    (0..=2 * most).map(|index| ((first + index as f64) * step, step)).take_while(|(value, _)| *value <= high).collect()
}

/// Powers of ten, with 2 and 5 times them, or 3 times, as far as there is room.
fn round_ratios(low: f64, high: f64, most: usize) -> Vec<f64> {
    let decades = (low.log10().floor() as i32).max(-30)..=(high.log10().ceil() as i32).min(30);
    let of = |factors: &[f64], every: usize| -> Vec<f64> {
        let powers = decades.clone().filter(|power| power.rem_euclid(every as i32) == 0);
        let values = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        values.filter(|value| (low..=high).contains(value)).collect()
    };
    let choices: [(&[f64], usize); 5] =
        [(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], 1), (&[1.0, 2.0, 5.0], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 3)];
    let all = choices.map(|(factors, every)| of(factors, every));
    let chosen = all.iter().find(|values| values.len() <= most).unwrap_or(&all[4]);
    // Hundreds of decades: some of them.
    chosen.iter().copied().step_by(chosen.len().div_ceil(most).max(1)).collect()
}

/// A place, to a tenth: `12.5`.
#[must_use]
pub fn place(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() { format!("{}", if rounded == 0.0 { 0.0 } else { rounded }) } else { "0".to_owned() }
}

/// A gain at an axis: `+5 %`, with as many digits as the step needs.
#[must_use]
pub fn gain(value: f64, step: f64) -> String {
    let is_whole = |digits: &usize| {
        let steps = 100.0 * step * 10f64.powi(*digits as i32);
        steps > 0.5 && (steps - steps.round()).abs() < 1e-6
    };
    let digits = (0..4).find(is_whole).unwrap_or(4);
    match value.abs() < step / 1000.0 {
        true => "0 %".to_owned(),
        false => format!("{:+.*} %", digits, 100.0 * value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most, gain).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis::around(Spread::Gain, [-0.01, 0.12], [0.0, 100.0]);
        assert_eq!(written(&axis, 3), ["0 %", "+5 %", "+10 %"]);
        assert_eq!(written(&axis, 5), ["0 %", "+2.5 %", "+5.0 %", "+7.5 %", "+10.0 %", "+12.5 %"]);
        assert_eq!(
            written(&Axis::around(Spread::Gain, [0.0, 9.0], [0.0, 1.0]), 4),
            ["0 %", "+100 %", "+400 %", "+900 %"]
        );
        let tiny = Axis::around(Spread::Gain, [0.0101, 0.0102], [0.0, 1.0]);
        assert_eq!(written(&tiny, 4), ["+0.75 %", "+1.00 %", "+1.25 %", "+1.50 %"]);
        let log = Axis::between(Spread::Log, [0.02, 3e4], [0.0, 1.0]);
        let values: Vec<f64> = log.ticks(8, |_, _| String::new()).into_iter().map(|(value, _)| value).collect();
        assert_eq!(values.len(), 6, "{values:?}");
    }

    #[test]
    fn what_is_no_number_has_a_place_and_breaks_nothing() {
        for spread in [Spread::Linear, Spread::Log, Spread::Gain] {
            for values in [vec![], vec![f64::NAN], vec![f64::INFINITY, -3.0], vec![0.0], vec![1e300, 1e-300]] {
                let axis = Axis::around(spread, values.clone(), [10.0, 20.0]);
                for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, -2.0, 1e308] {
                    assert!((10.0..=20.0).contains(&axis.at(value)), "{spread:?} {values:?}: {value}");
                }
                assert!(axis.ticks(6, gain).len() <= 13, "{spread:?} {values:?}");
            }
        }
        assert_eq!((place(f64::NAN), place(-0.01), place(12.34)), ("0".into(), "0".into(), "12.3".into()));
    }

    #[test]
    fn an_axis_that_points_down_is_one_too() {
        let axis = Axis::between(Spread::Linear, [0.0, 10.0], [100.0, 0.0]);
        assert_eq!((axis.at(0.0), axis.at(10.0), axis.at(2.5)), (100.0, 0.0, 75.0));
        assert!(axis.holds(10.0) && !axis.holds(10.1));
    }
}
