//! What a patch of an example queue asks of the referee, by what was measured of it.

use camino::Utf8Path;
use kopt_schema::queue::{MachineTruth, PatchTruth, Truth, TruthFile};

/// What was measured of the queue of an example crate, machine by machine; nothing where nobody has.
pub fn truths(root: &Utf8Path, package: &str) -> Result<Vec<MachineTruth>, Box<dyn std::error::Error>> {
    let file = root.join("example-kernels").join(package).join("patches/truth.toml");
    if !file.exists() {
        return Ok(Vec::new());
    }
    let read: TruthFile =
        toml::from_str(&std::fs::read_to_string(&file)?).map_err(|error| format!("{file}: {error}"))?;
    Ok(read.machines)
}

/// How often a patch is to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It does not help.
    Never,
    /// It gains 5 % or more.
    Always,
    /// It gains 2 % or more.
    Mostly,
    /// It gains, and a shape is slower for it, by 5 % or by what may be 5 %: that is taken back, as policies have it, or just not.
    Pays,
    /// It gains less, or nobody has measured it.
    Either,
}

/// What is wanted of a patch.
pub fn wanted(patch: &PatchTruth) -> Wanted {
    // What was measured here has an interval, too: one that ends beyond 5 % does not say which it is.
    let pays = patch.shapes.iter().any(|shape| shape.high < 0.0 && shape.low < -0.05);
    match (patch.truth, patch.aggregate) {
        (Truth::Helps, None) => Wanted::Either,
        (Truth::Helps, Some(aggregate)) if aggregate.high > 0.0 => match aggregate.gain {
            _ if pays => Wanted::Pays,
            0.05.. => Wanted::Always,
            0.02.. => Wanted::Mostly,
            _ => Wanted::Either,
        },
        _ => Wanted::Never,
    }
}
