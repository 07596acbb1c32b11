//! What is told of benches: what the device can do at most, and how long calls take.

use serde::{Deserialize, Serialize};

/// Measured ceilings of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// The package whose bench measured them.
    pub kernel: String,
    /// The device's name.
    pub device: String,
    /// Copy bandwidth out of memory, bytes read and written, in bytes a second.
    pub copy_bytes_per_s: f64,
    /// Bytes read a second, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written a second, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
    /// Fused multiply-adds at f32, or of the matrix units, in flops a second. Unknown on devices where it is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fma_flops_per_s: Option<f64>,
}

/// Whether the data of a timed call was in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// The same buffers again.
    Hot,
    /// Flushed before each call.
    Cold,
}

impl Cache {
    /// The name as it is written in messages and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
        }
    }
}

/// What one call moves and computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Bytes that must be read.
    pub bytes_read: f64,
    /// Bytes that must be written.
    pub bytes_written: f64,
    /// Floating-point operations, a fused multiply-add counted as two.
    pub flops: f64,
}

impl Cost {
    /// Bytes that must cross the memory bus.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }

    /// Of each the less.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            bytes_read: self.bytes_read.min(other.bytes_read),
            bytes_written: self.bytes_written.min(other.bytes_written),
            flops: self.flops.min(other.flops),
        }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            flops: self.flops + other.flops,
        }
    }
}

/// A latency case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The package's name.
    pub kernel: String,
    /// The entry's symbol, or `step` for forward and backward together.
    pub entry: String,
    /// The shape's name.
    pub case: String,
    /// Hot or cold: never compared with each other.
    pub cache: Cache,
    /// The device's name.
    pub device: String,
    /// Digest of the object that was timed.
    pub object: String,
    /// Seconds a call, one number a sample.
    pub samples: Vec<f64>,
    /// Calls in each sample.
    pub calls: Vec<u64>,
    /// Median of the samples, in seconds.
    pub median_s: f64,
    /// 95 % interval of the median, within this process only.
    pub low_s: f64,
    /// Its upper end.
    pub high_s: f64,
    /// What a call moves and computes.
    pub cost: Cost,
    /// Share of what the measured ceilings allow, from 0 to 1, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roofline_share: Option<f64>,
}
