//! Numbers with units, three significant digits, as people read them.

/// A unit and how many seconds it has.
const TIMES: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)];

/// `12.3 µs`.
#[must_use]
pub fn seconds(value: f64) -> String {
    let (unit, size) = unit_of(value);
    format!("{} {unit}", digits(value / size))
}

/// `12.3 µs [12.1–12.6]`: an interval in the unit of its middle.
#[must_use]
pub fn interval(middle: f64, low: f64, high: f64) -> String {
    let (unit, size) = unit_of(middle);
    format!("{} {unit} [{}–{}]", digits(middle / size), digits(low / size), digits(high / size))
}

/// `45.1 GB/s`, `4800 GB/s` or `940 TFLOP/s`, from bytes or flops a second.
#[must_use]
pub fn rate(value: f64, of: &str) -> String {
    let (prefix, size) = if value < 1e13 { ("G", 1e9) } else { ("T", 1e12) };
    format!("{} {prefix}{of}/s", digits(value / size))
}

/// `61 %`, from a share of one.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn unit_of(value: f64) -> (&'static str, f64) {
    // Rounded first, so that 999.9 ns is 1.00 µs.
    let rounded = round(value.abs());
    TIMES.into_iter().find(|(_, size)| rounded >= *size * 0.999_999).unwrap_or(("ns", 1e-9))
}

/// To three significant digits.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn digits(value: f64) -> String {
    let rounded = round(value);
    match rounded.abs() {
        size if size >= 100.0 => format!("{rounded:.0}"),
        size if size >= 10.0 => format!("{rounded:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{rounded:.2}"),
        _ => format!("{rounded}"),
    }
}

/// How long something may take, as people say it: `90 s`, `10 min`, `2 h`, `1 h 30 min`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, 1, seconds) => format!("{} s", 60 + seconds),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_as_people_say_them() {
        let told = [0.0, 59.6, 90.0, 600.0, 754.0, 7200.0, 5400.0].map(duration);
        assert_eq!(told, ["0 s", "1 min", "90 s", "10 min", "12 min 34 s", "2 h", "1 h 30 min"]);
    }

    #[test]
    fn three_digits_in_the_unit_that_fits() {
        let cases = [
            (1.234e-9, "1.23 ns"),
            (999.96e-9, "1.00 µs"),
            (12.345e-6, "12.3 µs"),
            (0.1234, "123 ms"),
            (1.0, "1.00 s"),
            (61.25, "61.3 s"),
            (0.0, "0.00 ns"),
        ];
        for (value, text) in cases {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn an_interval_keeps_one_unit() {
        assert_eq!(interval(1.02e-6, 0.98e-6, 1.1e-6), "1.02 µs [0.98–1.10]");
        assert_eq!(rate(45.12e9, "B"), "45.1 GB/s");
        assert_eq!(rate(4.26e12, "B"), "4260 GB/s");
        assert_eq!(rate(9.4e14, "FLOP"), "940 TFLOP/s");
        assert_eq!(percent(0.614), "61 %");
    }
}
