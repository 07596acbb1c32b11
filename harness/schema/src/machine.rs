//! `machine.json`: what was measured of a machine, kept with everything that can be made again.

use serde::{Deserialize, Serialize};

use crate::evidence::Ceilings;
use crate::manifest::Backend;

/// What is kept of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Version of this format.
    pub format: u32,
    /// The processor: with its cores, what tells machines apart.
    pub processor: String,
    /// Its cores, as the system counts them.
    pub cores: usize,
    /// What devices can do at most, one entry a device.
    pub ceilings: Vec<Ceilings>,
    /// How much equal code differs from itself, one entry a kernel and device.
    pub noise: Vec<Noise>,
}

/// How much equal code differs from itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Noise {
    /// The kernel that it was measured with.
    pub kernel: String,
    /// Where it ran.
    pub backend: Backend,
    /// The device.
    pub device: String,
    /// When, `YYYY-MM-DD HH:MM`, UTC.
    pub measured: String,
    /// Standard deviation of a launch's aggregate, in logarithms.
    pub launch_sigma: f64,
    /// Launches it rests on.
    pub launches: usize,
    /// Load average at the time.
    pub load: f64,
}
