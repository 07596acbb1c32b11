//! What a person reads about latencies: one row a case and entry, hot and cold side by side, never mixed.

use kopt_schema::message::{Cache, Ceilings, Latency};

use crate::shell::table::{Align, Table};
use crate::shell::units;

/// Above this many flops a byte, arithmetic is what a kernel is rated by.
const COMPUTE_BOUND: f64 = 10.0;

/// One row a case and entry, in the order in which they were measured.
pub fn table(latencies: &[Latency]) -> Table {
    let mut table = Table::new(&[
        ("case", Align::Left),
        ("entry", Align::Left),
        ("hot", Align::Right),
        ("cold", Align::Right),
        ("rate", Align::Right),
        ("roofline", Align::Right),
    ]);
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for latency in latencies {
        let row = (latency.case.as_str(), latency.entry.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for (case, entry) in rows {
        let find = |cache| {
            latencies
                .iter()
                .find(|latency| (latency.case.as_str(), latency.entry.as_str(), latency.cache) == (case, entry, cache))
        };
        let (hot, cold) = (find(Cache::Hot), find(Cache::Cold));
        let time = |latency: Option<&Latency>| {
            latency.map_or(String::new(), |latency| units::interval(latency.median_s, latency.low_s, latency.high_s))
        };
        let share = cold.and_then(|latency| latency.roofline_share).map_or(String::new(), units::percent);
        table.row([case.to_owned(), entry.to_owned(), time(hot), time(cold), cold.map_or(String::new(), rate), share]);
    }
    table
}

/// Bytes or flops a second, whichever the operator is about.
fn rate(latency: &Latency) -> String {
    let (bytes, flops) = (latency.cost.bytes(), latency.cost.flops);
    match flops > COMPUTE_BOUND * bytes {
        _ if latency.median_s <= 0.0 => String::new(),
        true => units::rate(flops / latency.median_s, "FLOP"),
        false => units::rate(bytes / latency.median_s, "B"),
    }
}

/// `AMD EPYC: copy 21.3 GB/s, arithmetic 98.4 GFLOP/s (measured)`.
pub fn ceilings(ceilings: &Ceilings) -> String {
    let copy = units::rate(ceilings.copy_bytes_per_s, "B");
    let fma =
        ceilings.fma_flops_per_s.map(|rate| format!(", arithmetic {}", units::rate(rate, "FLOP"))).unwrap_or_default();
    format!("{}: copy {copy}{fma} (measured in this run; rate and roofline are of the cold time)", ceilings.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kopt_schema::message::Cost;

    fn latency(entry: &str, cache: Cache, median_s: f64, flops: f64) -> Latency {
        Latency {
            kernel: "k".to_owned(),
            entry: entry.to_owned(),
            case: "64x64".to_owned(),
            cache,
            device: "cpu".to_owned(),
            object: String::new(),
            samples: Vec::new(),
            calls: Vec::new(),
            median_s,
            low_s: median_s * 0.99,
            high_s: median_s * 1.01,
            cost: Cost { bytes_read: 1000.0, bytes_written: 1000.0, flops },
            roofline_share: Some(0.5),
        }
    }

    #[test]
    fn hot_and_cold_share_a_row_and_the_cold_one_is_rated() {
        let text = table(&[
            latency("f", Cache::Hot, 1e-6, 10.0),
            latency("f", Cache::Cold, 2e-6, 10.0),
            latency("g", Cache::Cold, 2e-6, 1e6),
        ])
        .render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].contains("1.00 µs [0.99–1.01]  2.00 µs [1.98–2.02]") && lines[1].contains("1.00 GB/s"),
            "{text}"
        );
        assert!(lines[2].contains("500 GFLOP/s"), "{text}");
    }
}
