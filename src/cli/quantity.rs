//! Percentages and durations, as people write them on a command line.

/// `1%` or `0.01`: a share of one.
pub fn share(text: &str) -> Result<f64, String> {
    let bare = text.trim();
    let (digits, scale) = match bare.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), 0.01),
        None => (bare, 1.0),
    };
    match plain(digits) {
        Some(number) if scale == 1.0 && number >= 1.0 => {
            Err(format!("`{text}` is {:.0} %; did you mean `{digits}%`?", 100.0 * number))
        }
        Some(number) => Ok(number * scale),
        None => Err(format!("`{text}` is no share: write it as 1% or 0.01")),
    }
}

/// Nothing here is meant to take longer.
const LONGEST_S: f64 = 366.0 * 24.0 * 3600.0;

/// `90s`, `2m`, `1m30s`, `1.5h`: seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no duration: write it as 90s, 2m or 1m30s");
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let number = plain(&rest[..end]).ok_or_else(wrong)?;
        let unit: String = rest[end..].chars().take_while(char::is_ascii_alphabetic).collect();
        let size = match unit.as_str() {
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number * size;
        rest = &rest[end + unit.len()..];
    }
    match total {
        0.0 => Err(format!("`{text}` leaves no time at all; 2m is the usual")),
        _ if total > LONGEST_S => Err(format!("`{text}` is longer than a year")),
        _ => Ok(total),
    }
}

/// A number of digits and at most one point: no sign, no exponent, no `inf`.
fn plain(text: &str) -> Option<f64> {
    let digits = text.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    text.parse().ok().filter(|number: &f64| digits && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_fractions() {
        for (text, value) in [("1%", 0.01), ("0.5 %", 0.005), ("0.01", 0.01), ("0", 0.0), ("150%", 1.5)] {
            assert!((share(text).unwrap() - value).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "-1%", "one", "nan", "inf", "1e-2", "1,5%", "1%%"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!(share("5").unwrap_err(), "`5` is 500 %; did you mean `5%`?");
    }

    #[test]
    fn durations_have_units() {
        for (text, value) in [("90s", 90.0), ("2m", 120.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("3min", 180.0)] {
            assert_eq!(seconds(text).unwrap(), value, "{text}");
        }
        for text in ["", "90", "-5s", "0s", "s", "2 weeks", "1m30", "infs", "ms", "99999999999999999999s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
