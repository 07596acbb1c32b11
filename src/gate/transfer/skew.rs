//! Groups of equal size are what a benchmark has and training has not: a gain must hold under every routing.

use kopt_schema::bout::CaseInfo;
use kopt_schema::evidence::{Estimate, Evidence};
use kopt_schema::operator::{self, ROUTINGS};
use kopt_stats::{Effect, gain_of_log};

use crate::gate::series::{CANDIDATE, INCUMBENT, Series};

/// Error of the statement that a gain vanishes, over all kinds.
const ALPHA: f64 = 0.01;

/// Least part of the gain on groups of equal size that must be there under skew.
const HOLDS: f64 = 0.5;

const UNIFORM: &str = "uniform";

/// How a gain holds under skew.
#[derive(Debug, Clone, PartialEq)]
pub struct Skew {
    /// Kinds of routing that no shape has.
    pub missing: Vec<&'static str>,
    /// The gain of each kind.
    pub kinds: Vec<KindGain>,
    /// The kind under which the gain vanishes, in words.
    pub vanishes: Option<String>,
}

/// The gain under one routing, over its shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct KindGain {
    /// The routing.
    pub kind: String,
    /// The gain.
    pub gain: Estimate,
}

/// How the last stage's gain holds; none for ops without groups.
pub(super) fn skew(evidence: &Evidence) -> Option<Skew> {
    let cases = &evidence.arrangement.as_ref()?.cases;
    let kinds = || cases.iter().filter_map(|case| Some(case.routing.as_ref()?.kind.as_str()));
    kinds().next()?;
    let missing = operator::missing_routings(kinds());
    let series = evidence.stages.last().map(|stage| Series::of(evidence, stage, INCUMBENT, CANDIDATE));
    let Some(series) = series.filter(|series| series.cases.iter().all(|case| case.gains.len() > 1)) else {
        return Some(Skew { missing, kinds: Vec::new(), vanishes: None });
    };
    let of_kind = |kind: &str| Effect::of(&mean(&series, cases, |case| is_of(case, kind)));
    let known: Vec<&str> = ROUTINGS.iter().copied().filter(|kind| kinds().any(|one| one == *kind)).collect();
    let told = known
        .iter()
        .map(|kind| KindGain { kind: (*kind).to_owned(), gain: crate::gate::estimate(&of_kind(kind), ALPHA) });
    let kinds = told.filter(|told| crate::gate::is_finite(&told.gain)).collect();
    let skewed: Vec<&str> = known.iter().copied().filter(|kind| *kind != UNIFORM).collect();
    let alpha = ALPHA / skewed.len().max(1) as f64;
    let least = evidence.terms.min_gain;
    let vanishes = skewed.iter().find_map(|kind| vanishes(&series, cases, kind, alpha, least));
    Some(Skew { missing, kinds, vanishes })
}

/// Why an accept of an op with groups does not stand.
pub(super) fn refused(evidence: &Evidence) -> Option<String> {
    let found = skew(evidence)?;
    if !found.missing.is_empty() {
        return Some(format!(
            "the shapes lack {}: whether a gain holds under skew cannot be seen, and without it nothing is accepted",
            found.missing.join(", ")
        ));
    }
    found.vanishes
}

fn is_of(case: &CaseInfo, kind: &str) -> bool {
    case.routing.as_ref().is_some_and(|routing| routing.kind == kind)
}

/// Mean log gain over some shapes, launch by launch.
fn mean(series: &Series, cases: &[CaseInfo], chosen: impl Fn(&CaseInfo) -> bool) -> Vec<f64> {
    let gains: Vec<&[f64]> = series
        .cases
        .iter()
        .zip(cases)
        .filter(|(_, info)| chosen(info))
        .map(|(case, _)| case.gains.as_slice())
        .collect();
    kopt_stats::combine(&gains)
}

/// Whether a gain on groups of equal size is credibly less than half as large, or below the least gain, under `kind`.
/// Shapes that differ in the routing alone are compared; where there are none, nothing is said.
fn vanishes(series: &Series, cases: &[CaseInfo], kind: &str, alpha: f64, least: f64) -> Option<String> {
    let sizes = |kind: &str| -> Vec<String> {
        let routings = cases.iter().filter_map(|case| case.routing.as_ref());
        routings.filter(|routing| routing.kind == kind).map(|routing| routing.sizes.clone()).collect()
    };
    let common: Vec<String> = sizes(kind).into_iter().filter(|size| sizes(UNIFORM).contains(size)).collect();
    let is_common = |case: &CaseInfo| case.routing.as_ref().is_some_and(|routing| common.contains(&routing.sizes));
    if common.is_empty() {
        return None;
    }
    let even = mean(series, cases, |case| is_of(case, UNIFORM) && is_common(case));
    let skewed = mean(series, cases, |case| is_of(case, kind) && is_common(case));
    let short: Vec<f64> = skewed.iter().zip(&even).map(|(skewed, even)| skewed - HOLDS * even).collect();
    let (even, skewed, short) = (Effect::of(&even), Effect::of(&skewed), Effect::of(&short));
    let is_gain = even.lower(alpha) > 0.0 && even.mean >= least.ln_1p();
    let gone = short.upper(alpha) < 0.0 || skewed.upper(alpha) < least.ln_1p();
    (is_gain && gone).then(|| {
        format!(
            "over-fit to groups of equal size: {:+.1} % on {UNIFORM}, {:+.1} % (at most {:+.1} %) under {kind}",
            100.0 * gain_of_log(even.mean),
            100.0 * gain_of_log(skewed.mean),
            100.0 * gain_of_log(skewed.upper(alpha))
        )
    })
}
