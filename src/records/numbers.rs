//! Numbers as records show them: gains with a sign, intervals in brackets, durations in the unit that fits. What is no
//! number is said to be none.

use kopt_schema::evidence::Estimate;

use crate::shell::units;

/// What stands in place of a number that is none.
const UNKNOWN: &str = "not known";

/// `+12.3 %`.
pub fn gain(gain: f64) -> String {
    if gain.is_finite() { format!("{} %", signed(gain)) } else { UNKNOWN.to_owned() }
}

/// `[+11.0, +13.6]`, in per cent.
pub fn interval(low: f64, high: f64) -> String {
    let end = |end: f64| if end.is_finite() { signed(end) } else { UNKNOWN.to_owned() };
    format!("[{}, {}]", end(low), end(high))
}

/// `+12.3 % [+11.0, +13.6]`.
pub fn estimate(of: &Estimate) -> String {
    format!("{} {}", gain(of.gain), interval(of.low, of.high))
}

/// `+12.3 % [+11.0, +13.6] at 96 % confidence`.
pub fn with_confidence(of: &Estimate) -> String {
    format!("{} at {} confidence", estimate(of), probability(of.confidence))
}

/// `12.3 µs`.
pub fn seconds(value: f64) -> String {
    if value.is_finite() { units::seconds(value) } else { UNKNOWN.to_owned() }
}

/// `61 %` of a ceiling, or `-`.
pub fn share(share: Option<f64>) -> String {
    share.filter(|share| share.is_finite()).map_or_else(|| "-".to_owned(), units::percent)
}

/// `4.8 %`, `0.04 %`: as many digits as say something.
pub fn probability(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let percent = 100.0 * value;
    let text = if percent >= 1.0 { format!("{percent:.1}") } else { format!("{percent:.3}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{} %", if text.is_empty() { "0" } else { text })
}

/// `43 s`, `12 min 5 s`, `3 h 7 min`.
pub fn duration(seconds: f64) -> String {
    if !(seconds.is_finite() && seconds >= 0.0) {
        return UNKNOWN.to_owned();
    }
    // Past 64 bits of seconds the universe has other troubles: the cast saturates.
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// `1 launch`, `7 launches`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Per cent with a sign; what rounds to nothing is not below it.
fn signed(share: f64) -> String {
    let percent = 100.0 * share;
    format!("{:+.1}", if percent.abs() < 0.05 { 0.0 } else { percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!((gain(0.1234), gain(-0.05), gain(-0.0001)), ("+12.3 %".into(), "-5.0 %".into(), "+0.0 %".into()));
        assert_eq!(gain(f64::NAN), "not known");
        assert_eq!(interval(0.11, f64::INFINITY), "[+11.0, not known]");
        for (value, text) in [(0.96, "96 %"), (0.048, "4.8 %"), (0.0004, "0.04 %"), (0.0, "0 %"), (1.0, "100 %")] {
            assert_eq!(probability(value), text);
        }
        assert_eq!(
            (duration(42.6), duration(725.0), duration(11_240.0)),
            ("43 s".into(), "12 min 5 s".into(), "3 h 7 min".into())
        );
        assert_eq!((share(Some(0.614)), share(None)), ("61 %".into(), "-".into()));
    }
}
