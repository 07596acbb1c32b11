//! `performance_trend.md`: one row a round, so that a campaign is seen at a glance.

use kopt_schema::evidence::Estimate;

use super::{numbers, text};
use crate::shell::units;

/// A round in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct TrendRow {
    /// Its number.
    pub round: u32,
    /// What became of it, as [`super::Decision::status`] says it.
    pub status: String,
    /// The change.
    pub description: String,
    /// The forward entry; none where it was not measured.
    pub forward: Option<Pace>,
    /// The backward entry; none for forward-only ops.
    pub backward: Option<Pace>,
    /// Both in one step.
    pub combined: Option<Quantity>,
    /// The gain over the baseline.
    pub versus_baseline: Option<Estimate>,
    /// What one takes from it.
    pub finding: String,
}

/// How fast an entry is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Over all shapes, as a geometric mean.
    pub average: Quantity,
    /// On the shape where it does best.
    pub peak: Quantity,
}

/// A figure in the campaign's metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// Seconds a call.
    Seconds(f64),
    /// Floating-point operations a second.
    Flops(f64),
    /// Bytes a second.
    Bytes(f64),
    /// Share of the measured ceiling.
    CeilingShare(f64),
}

impl Quantity {
    /// With its unit.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Seconds(value) => numbers::seconds(value),
            Self::Flops(rate) => units::rate(rate, "FLOP"),
            Self::Bytes(rate) => units::rate(rate, "B"),
            Self::CeilingShare(share) => format!("{} of ceiling", units::percent(share)),
        }
    }
}

/// Columns of the table.
const COLUMNS: [&str; 10] = [
    "Round",
    "Status",
    "Description",
    "Fwd avg",
    "Fwd peak",
    "Bwd avg",
    "Bwd peak",
    "Combined step",
    "vs baseline",
    "Key finding",
];

/// The whole file.
#[must_use]
pub fn trend(rows: &[TrendRow]) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(row).collect();
    format!("# Performance trend\n\n{}", text::table(&COLUMNS, &cells))
}

fn row(row: &TrendRow) -> Vec<String> {
    let shown = |quantity: Option<Quantity>| quantity.map_or_else(|| "-".to_owned(), Quantity::shown);
    vec![
        row.round.to_string(),
        text::cell(&row.status),
        text::cell(&row.description),
        shown(row.forward.map(|pace| pace.average)),
        shown(row.forward.map(|pace| pace.peak)),
        shown(row.backward.map(|pace| pace.average)),
        shown(row.backward.map(|pace| pace.peak)),
        shown(row.combined),
        row.versus_baseline.as_ref().map_or_else(|| "-".to_owned(), numbers::estimate),
        text::cell(&row.finding),
    ]
}
