//! Benchmarks that want hours: each runs for the minutes that it is given and appends a row a decision to a file in the
//! repository, so that the next run goes on where it was.

use std::io::Write as _;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde::Serialize;
use serde::de::DeserializeOwned;

type Failure = Box<dyn std::error::Error>;

/// What such a benchmark is asked.
#[derive(Debug, Default)]
pub struct Arguments {
    pub minutes: f64,
    /// A part of the names of what is wanted.
    pub only: Option<String>,
    /// Print the tables.
    pub report: bool,
    /// Rows of this very version alone count, and not those that are as good.
    pub own: bool,
}

impl Arguments {
    /// Those of this process.
    pub fn read() -> Result<Self, Failure> {
        let mut arguments = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--minutes" => arguments.minutes = value()?.parse()?,
                "--only" => arguments.only = Some(value()?),
                "--report" => arguments.report = true,
                "--own" => arguments.own = true,
                // cargo bench says so itself.
                "--bench" => {}
                other => return Err(format!("unknown argument {other}").into()),
            }
        }
        if arguments.minutes == 0.0 && !arguments.report {
            // A plain `cargo bench` runs every benchmark; these want hours and a quiet machine.
            eprintln!("nothing to do; say how long: --minutes 30, or --report");
        }
        Ok(arguments)
    }

    /// When the time is up.
    pub fn until(&self) -> Instant {
        Instant::now() + Duration::from_secs_f64(60.0 * self.minutes)
    }

    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

/// The rows of a file that count.
pub fn rows<R: DeserializeOwned>(file: &Utf8Path, counts: impl Fn(&R) -> bool) -> Result<Vec<R>, Failure> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let all: Vec<R> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(counts).collect())
}

pub fn append(file: &Utf8Path, row: &impl Serialize) -> Result<(), Failure> {
    let mut out = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    // In one piece: another run may append at the same time.
    Ok(out.write_all((serde_json::to_string(row)? + "\n").as_bytes())?)
}
