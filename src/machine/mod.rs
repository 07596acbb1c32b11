//! The machine and the time, read from the system; [`figures`] keeps what was measured of the machine.

pub mod caches;
pub mod figures;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use kopt_schema::evidence::Machine;
use kopt_schema::manifest::Backend;

/// The machine as it is now; the load afterwards is filled in when the match is over.
#[must_use]
pub fn facts() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let load = load();
    Machine {
        processor: kopt_schema::machine::processor(&cpuinfo),
        cores: std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get),
        system: format!("{} {}", line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")).trim().to_owned(),
        load_before: load,
        load_after: load,
    }
}

/// The device that kernels of a backend run on, as it names itself; the backend's own name where it does not.
#[must_use]
pub fn device(backend: Backend) -> String {
    match backend {
        Backend::Cpu => facts().processor,
        Backend::Cuda => nvidia().unwrap_or_else(|| backend.name().to_owned()),
        Backend::Hip => backend.name().to_owned(),
    }
}

/// The first GPU that NVIDIA's driver lists.
fn nvidia() -> Option<String> {
    let gpus = fs::read_dir("/proc/driver/nvidia/gpus").ok()?.flatten();
    let texts = gpus.filter_map(|gpu| fs::read_to_string(gpu.path().join("information")).ok());
    let model = |text: String| text.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()));
    texts.filter_map(model).next()
}

/// The load average of the last minute; zero where the system does not say.
#[must_use]
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// A moment, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    seconds: u64,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        // A clock before 1970 is no clock: it is told as 1970.
        Self { seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) }
    }

    /// `2026-11-15 05:01`.
    #[must_use]
    pub fn minute(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", self.seconds / 3600 % 24, self.seconds / 60 % 60)
    }

    /// `2026-11-15 05:01:07`.
    #[must_use]
    pub fn second(self) -> String {
        format!("{}:{:02}", self.minute(), self.seconds % 60)
    }

    /// `20261115-050107`: for names of files.
    #[must_use]
    pub fn compact(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second) = (self.seconds / 3600 % 24, self.seconds / 60 % 60, self.seconds % 60);
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }

    /// Year, month and day in the Gregorian calendar, by counting from 1 March of year 0, when leap days come last.
    fn date(self) -> (u64, u64, u64) {
        let days = self.seconds / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(Moment { seconds }.minute(), text);
        }
        assert_eq!(Moment { seconds: 951_782_467 }.compact(), "20000229-000107");
    }
}
