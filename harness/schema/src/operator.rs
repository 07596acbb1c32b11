//! Names and parameters of the standard operators. Their mathematics (reference, error model, cost) is in
//! `kopt-harness`; the names stand here so that a manifest can be checked before anything is built.

/// What a shape says of one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A size, an integer of at least zero.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter that every shape of an operator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The key in the shape's table.
    pub name: &'static str,
    /// What it holds.
    pub kind: ParameterKind,
}

/// A standard operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardOperator {
    /// `op = "…"`, and the symbol of the forward entry.
    pub name: &'static str,
    /// One line for `cargo kopt new --list-ops`.
    pub summary: &'static str,
    /// What a shape gives, in the order in which a shape's default name lists it.
    pub parameters: &'static [Parameter],
    /// The symbols a kernel may export, forward first; those its header declares are the ones it has.
    pub entries: &'static [&'static str],
}

const fn size(name: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Size }
}

/// How rows are spread over groups in `grouped_matmul`.
pub const ROUTINGS: &[&str] = &["uniform", "top2-capacity-1.0", "top1-capacity-1.25", "skewed", "empty", "ragged"];

/// Which kinds of routing a set of shapes lacks: a gain on groups of equal size says nothing of a mixture of experts in
/// training.
#[must_use]
pub fn missing_routings<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<&'static str> {
    let kinds: Vec<&str> = kinds.into_iter().collect();
    ROUTINGS.iter().copied().filter(|routing| !kinds.contains(routing)).collect()
}

/// All standard operators.
pub const STANDARD: &[StandardOperator] = &[
    StandardOperator {
        name: "grouped_matmul",
        summary: "y[r] = x[r] * w[group of r], ragged groups as in a mixture of experts",
        parameters: &[
            size("rows"),
            size("groups"),
            size("k"),
            size("n"),
            Parameter { name: "routing", kind: ParameterKind::Choice(ROUTINGS) },
        ],
        entries: &["grouped_matmul"],
    },
    StandardOperator {
        name: "matmul",
        summary: "c = a * b, row major; backward gives da and db",
        parameters: &[size("m"), size("n"), size("k")],
        entries: &["matmul", "matmul_backward"],
    },
    StandardOperator {
        name: "rmsnorm",
        summary: "y = x / rms(x) * weight by rows; backward gives dx and dweight",
        parameters: &[size("rows"), size("cols")],
        entries: &["rmsnorm", "rmsnorm_backward"],
    },
    StandardOperator {
        name: "softmax",
        summary: "softmax over each row",
        parameters: &[size("rows"), size("cols")],
        entries: &["softmax"],
    },
    StandardOperator {
        name: "cross_entropy",
        summary: "loss of each row of logits against its target: log(sum(exp(x))) - x[target]",
        parameters: &[size("rows"), size("cols")],
        entries: &["cross_entropy"],
    },
    StandardOperator {
        name: "decode_attention",
        summary: "attention of the last s positions to all t of them, heads of k and v shared by groups",
        parameters: &[size("b"), size("h"), size("h_kv"), size("s"), size("t"), size("d")],
        entries: &["decode_attention"],
    },
];

/// The standard operator of that name.
#[must_use]
pub fn standard(name: &str) -> Option<&'static StandardOperator> {
    STANDARD.iter().find(|operator| operator.name == name)
}
