//! A machine: what its processor is called, and `machine.json`, what was measured of it, kept with everything that can be
//! made again.

use serde::{Deserialize, Serialize};

use crate::evidence::Ceilings;
use crate::manifest::Backend;

/// What a processor is called, by the system's list of them: as it names itself or, on Arm, by its implementer and part. In
/// virtual machines that is often a name without a number, which generations of processors share; then also by its family and
/// model, as figures of one of them say nothing of another.
#[must_use]
pub fn processor(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let arm = || Some(format!("CPU implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    let Some(name) = value("model name") else { return arm().unwrap_or_else(|| std::env::consts::ARCH.to_owned()) };
    match (value("cpu family"), value("model")) {
        (Some(family), Some(model)) if !name.contains(|letter: char| letter.is_ascii_digit()) => {
            format!("{name} (family {family}, model {model})")
        }
        _ => name.to_owned(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_as_they_name_themselves_and_by_their_model_where_that_says_nothing() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags: x\n"), "Some CPU @ 2 GHz");
        let generic =
            |model| format!("cpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: Intel(R) Xeon(R) Processor\n");
        assert_eq!(processor(&generic(143)), "Intel(R) Xeon(R) Processor (family 6, model 143)");
        assert_ne!(processor(&generic(143)), processor(&generic(173)));
        assert_eq!(processor("model name\t: Some Processor\n"), "Some Processor");
        assert_eq!(processor("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "CPU implementer 0x41 part 0xd0c");
        assert_eq!(processor(""), std::env::consts::ARCH);
    }
}
