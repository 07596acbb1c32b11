//! Sizes of the model. In each preset one op has a share of the step that is worth measuring: a kernel's gain in an op
//! that takes a hundredth of the step cannot be seen in the step.

/// Sizes of a model and of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Width of the residual stream.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Width of a head.
    pub head: usize,
    /// Width inside the feed-forward part, of each expert where there are several.
    pub hidden: usize,
    /// Experts, to one of which a token is given; with 1 the feed-forward part is dense.
    pub experts: usize,
    /// Whether what a part of a layer adds to the stream is normalised too.
    pub sandwich: bool,
    /// Characters in a piece of text.
    pub length: usize,
    /// Pieces in a step.
    pub batch: usize,
}

impl Sizes {
    /// Tokens in a step.
    #[must_use]
    pub const fn tokens(&self) -> usize {
        self.length * self.batch
    }

    /// Width of queries, keys or values.
    #[must_use]
    pub const fn attention(&self) -> usize {
        self.heads * self.head
    }
}

/// Every preset by its name, which is that of the op it is for; `tiny` is for tests.
pub const PRESETS: [(&str, Sizes); 5] = [
    // A wide stream with narrow parts and a normalisation before and after each of them.
    (
        "rmsnorm",
        Sizes {
            width: 768,
            layers: 4,
            heads: 2,
            head: 8,
            hidden: 16,
            experts: 1,
            sandwich: true,
            length: 32,
            batch: 4,
        },
    ),
    // Long pieces of text and narrow heads.
    (
        "softmax",
        Sizes {
            width: 64,
            layers: 2,
            heads: 4,
            head: 8,
            hidden: 64,
            experts: 1,
            sandwich: false,
            length: 256,
            batch: 1,
        },
    ),
    // The usual proportions.
    (
        "matmul",
        Sizes {
            width: 128,
            layers: 2,
            heads: 4,
            head: 32,
            hidden: 256,
            experts: 1,
            sandwich: false,
            length: 32,
            batch: 4,
        },
    ),
    // A mixture of experts, each token to one of them.
    (
        "grouped_matmul",
        Sizes {
            width: 128,
            layers: 2,
            heads: 4,
            head: 16,
            hidden: 256,
            experts: 8,
            sandwich: false,
            length: 64,
            batch: 4,
        },
    ),
    (
        "tiny",
        Sizes { width: 16, layers: 2, heads: 2, head: 4, hidden: 12, experts: 3, sandwich: true, length: 12, batch: 3 },
    ),
];

/// The sizes of that name.
///
/// # Errors
/// Names the presets there are.
pub fn sizes(name: &str) -> Result<Sizes, String> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, sizes)| *sizes).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|(known, _)| *known).collect();
        format!("no preset `{name}`: there are {}", known.join(", "))
    })
}
