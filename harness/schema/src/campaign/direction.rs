//! What kind of change a round makes: its direction, and what it keeps between calls.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The direction a change belongs to: the six that a campaign chooses between, and one that it may not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub enum Category {
    /// Sizes of tiles, blocks, grids and teams.
    #[serde(rename = "tile and launch shape")]
    Shape,
    /// Where data lies and which way it goes.
    #[serde(rename = "data layout and movement")]
    Layout,
    /// What happens at the same time.
    #[serde(rename = "pipelining and overlap")]
    Overlap,
    /// What is kept close, and how much of it there is.
    #[serde(rename = "occupancy, registers, shared memory")]
    Occupancy,
    /// Another compiler, language or library, or what a reference does.
    #[serde(rename = "other backend or reference")]
    Reference,
    /// Less or other work.
    #[serde(rename = "algorithm and fusion")]
    Algorithm,
    /// Only a benchmark is faster. Anti-patterns only.
    #[serde(rename = "over-fitting")]
    OverFitting,
}

impl Category {
    /// Those that a campaign chooses between.
    pub const DIRECTIONS: [Self; 6] =
        [Self::Shape, Self::Layout, Self::Overlap, Self::Occupancy, Self::Reference, Self::Algorithm];

    /// The name as it is written in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "tile and launch shape",
            Self::Layout => "data layout and movement",
            Self::Overlap => "pipelining and overlap",
            Self::Occupancy => "occupancy, registers, shared memory",
            Self::Reference => "other backend or reference",
            Self::Algorithm => "algorithm and fusion",
            Self::OverFitting => "over-fitting",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a change keeps between calls, and so whether its gain exists outside of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub enum Bucket {
    /// Inside the kernel.
    K1,
    /// A layout variant of the same kernel.
    K2,
    /// Fusion into one launch.
    K3,
    /// Data kept from forward for the same step's backward.
    K4,
    /// A cache of something derived from a weight.
    W1,
    /// A cache of something derived from an activation, gradient or scale.
    W2,
    /// Any other memory of past calls.
    W3,
}

impl Bucket {
    /// Every bucket.
    pub const ALL: [Self; 7] = [Self::K1, Self::K2, Self::K3, Self::K4, Self::W1, Self::W2, Self::W3];

    /// The name as it is written in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::K1 => "K1",
            Self::K2 => "K2",
            Self::K3 => "K3",
            Self::K4 => "K4",
            Self::W1 => "W1",
            Self::W2 => "W2",
            Self::W3 => "W3",
        }
    }

    /// Whether nothing is kept from one step to the next.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::K1 | Self::K2 | Self::K3 | Self::K4)
    }

    /// Whether a gain of this bucket is rejected however large it is.
    #[must_use]
    pub const fn is_overfit(self) -> bool {
        matches!(self, Self::W2 | Self::W3)
    }
}
