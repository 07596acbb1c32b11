//! What an operator computes, and on what: everything the harness must know to check and time a kernel it has never seen.

use kopt_schema::DType;
use kopt_schema::manifest::Shape;
use kopt_schema::message::Cost;
use kopt_schema::operator::Parameter;

use crate::distribution::Distribution;
use crate::error_model::Rounding;
use crate::product::{Multiply, Unmultiplied};
use crate::tensor::{Draw, Expected, Tensors};

/// One set of sizes at one element type.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The sizes.
    pub shape: Shape,
    /// Element type of the main buffers.
    pub dtype: DType,
}

impl Case {
    /// A size of the shape.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        self.shape.size(name)
    }
}

/// What a buffer is in training, and so how long its contents live. The transfer check rests on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Changes once a step.
    Weight,
    /// New in every step.
    Activation,
    /// New in every step.
    Gradient,
    /// Quantisation scales: new in every step.
    Scale,
    /// Written by forward for the backward of the same step.
    Saved,
    /// A result.
    Output,
    /// Scratch.
    Workspace,
}

/// A buffer of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// The field of the args struct.
    pub name: &'static str,
    /// What it is in training.
    pub role: Role,
    /// Whether the entry writes it.
    pub written: bool,
    /// Element type.
    pub dtype: DType,
    /// Elements.
    pub len: usize,
    /// Elements of one row, for maps of wrong elements and for distributions that work by row.
    pub row: usize,
    /// Alignment of its first byte.
    pub align: usize,
}

impl Buffer {
    /// A buffer the entry reads: `rows × row` elements.
    #[must_use]
    pub const fn input(name: &'static str, role: Role, dtype: DType, rows: usize, row: usize) -> Self {
        Self { name, role, written: false, dtype, len: rows * row, row, align: 256 }
    }

    /// A buffer the entry writes: `rows × row` elements.
    #[must_use]
    pub const fn output(name: &'static str, role: Role, dtype: DType, rows: usize, row: usize) -> Self {
        Self { written: true, ..Self::input(name, role, dtype, rows, row) }
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }
}

/// What may be done to an entry's inputs such that its outputs are known without being computed again. The referee deals
/// every timed call data that the process has not seen, and a reference takes longer than the call.
///
/// Turning an axis round moves every index along it by the same amount, the last ones to the front, in all buffers that
/// have the axis. Rows may be turned because they are independent; what is summed over may be turned because the order
/// of a sum does not matter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Symmetry {
    /// The axes of buffers, read and written, outermost first. A buffer that is not named stays as it is.
    pub tensors: Vec<(&'static str, Vec<Axis>)>,
    /// Inputs that may be multiplied, and the outputs that are multiplied with each.
    pub scaled: Vec<(&'static str, Vec<&'static str>)>,
}

/// One axis of a buffer, and its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// May be turned round, together with all others of this name.
    Turns(&'static str, usize),
    /// Stays as it is.
    Stays(usize),
}

/// An operator. The standard ones are in [`crate::operators`]; a crate with one of its own implements this and passes
/// the value to [`crate::kernel!`].
pub trait Kernel: Send + Sync {
    /// The name: `op` of the manifest, and the symbol of the forward entry.
    fn op(&self) -> &str;

    /// What a shape gives.
    fn parameters(&self) -> Vec<Parameter>;

    /// Symbols that a kernel may export, forward first. Those its header has an args struct for are the ones it has.
    fn entries(&self) -> Vec<String> {
        vec![self.op().to_owned()]
    }

    /// The buffers of an entry; their names are fields of its args struct.
    fn buffers(&self, entry: &str, case: &Case) -> Vec<Buffer>;

    /// The `float` fields of the args struct. The `int64_t` fields are the shape's sizes.
    fn scalars(&self, entry: &str, case: &Case) -> Vec<(&'static str, f32)> {
        let _ = (entry, case);
        Vec::new()
    }

    /// Kinds of input that make sense for the operator.
    fn distributions(&self) -> Vec<Distribution> {
        Distribution::FINITE.to_vec()
    }

    /// And for one of its entries.
    fn distributions_of(&self, _entry: &str) -> Vec<Distribution> {
        self.distributions()
    }

    /// The inputs of a trial. By default every input is drawn from `distribution`.
    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        let mut tensors = Tensors::default();
        for buffer in self.buffers(entry, case).iter().filter(|buffer| !buffer.written) {
            tensors.insert(buffer.name, draw.buffer(buffer, distribution));
        }
        tensors
    }

    /// The exact outputs, computed in f64 from the rounded inputs, each with the bound on an honest kernel's error.
    fn expect(&self, entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected>;

    /// The same, with the products of matrices in it by `multiply`; nothing by default, for references without any. Large
    /// ones take the host minutes, and a device a second.
    fn expect_by(
        &self,
        entry: &str,
        case: &Case,
        inputs: &Tensors,
        rounding: Rounding,
        multiply: Multiply<'_>,
    ) -> Option<Result<Vec<Expected>, Unmultiplied>> {
        let _ = (entry, case, inputs, rounding, multiply);
        None
    }

    /// What a call must move and compute. By default every input is read once and every output written once.
    fn cost(&self, entry: &str, case: &Case) -> Cost {
        let mut cost = Cost::default();
        for buffer in self.buffers(entry, case) {
            let bytes = if buffer.written { &mut cost.bytes_written } else { &mut cost.bytes_read };
            *bytes += buffer.bytes() as f64;
        }
        cost
    }

    /// The same on these inputs, where less is needed than what is known before they are drawn.
    fn cost_on(&self, entry: &str, case: &Case, inputs: &Tensors) -> Cost {
        let _ = inputs;
        self.cost(entry, case)
    }

    /// What may be done to the inputs at no cost to the reference. By default nothing: each content is evaluated.
    fn symmetry(&self, entry: &str, case: &Case) -> Symmetry {
        let _ = (entry, case);
        Symmetry::default()
    }

    /// The number that adds nothing to the operator's sums when it stands in an input: 0 for products, minus infinity for
    /// exponentials. Certification drops terms with it.
    fn neutral(&self) -> f32 {
        0.0
    }

    /// Shapes that no manifest lists and every kernel must get right: 1, primes, tile sizes ± 1.
    fn odd_shapes(&self) -> Vec<Shape>;

    /// A shape that nobody can know beforehand.
    fn random_shape(&self, draw: &mut Draw) -> Shape;

    /// A shape close to a listed one that nobody can know beforehand either: what a kernel does for large sizes must be
    /// right for others than those that it is timed on. Nothing by default; only the operator knows which sizes go together.
    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        let _ = (shape, draw);
        None
    }

    /// The shape with fewer of what it merely repeats, rows or a batch, until `fits`; nothing by default, or if none does.
    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        let _ = (shape, fits);
        None
    }
}

/// References are shared: an operator may be kept behind one.
impl<K: Kernel + ?Sized> Kernel for Box<K> {
    fn op(&self) -> &str {
        (**self).op()
    }
    fn parameters(&self) -> Vec<Parameter> {
        (**self).parameters()
    }
    fn entries(&self) -> Vec<String> {
        (**self).entries()
    }
    fn buffers(&self, entry: &str, case: &Case) -> Vec<Buffer> {
        (**self).buffers(entry, case)
    }
    fn scalars(&self, entry: &str, case: &Case) -> Vec<(&'static str, f32)> {
        (**self).scalars(entry, case)
    }
    fn distributions(&self) -> Vec<Distribution> {
        (**self).distributions()
    }
    fn distributions_of(&self, entry: &str) -> Vec<Distribution> {
        (**self).distributions_of(entry)
    }
    fn inputs(&self, entry: &str, case: &Case, distribution: Distribution, draw: &mut Draw) -> Tensors {
        (**self).inputs(entry, case, distribution, draw)
    }
    fn expect(&self, entry: &str, case: &Case, inputs: &Tensors, rounding: Rounding) -> Vec<Expected> {
        (**self).expect(entry, case, inputs, rounding)
    }
    fn expect_by(
        &self,
        entry: &str,
        case: &Case,
        inputs: &Tensors,
        rounding: Rounding,
        multiply: Multiply<'_>,
    ) -> Option<Result<Vec<Expected>, Unmultiplied>> {
        (**self).expect_by(entry, case, inputs, rounding, multiply)
    }
    fn cost(&self, entry: &str, case: &Case) -> Cost {
        (**self).cost(entry, case)
    }
    fn cost_on(&self, entry: &str, case: &Case, inputs: &Tensors) -> Cost {
        (**self).cost_on(entry, case, inputs)
    }
    fn symmetry(&self, entry: &str, case: &Case) -> Symmetry {
        (**self).symmetry(entry, case)
    }
    fn neutral(&self) -> f32 {
        (**self).neutral()
    }
    fn odd_shapes(&self) -> Vec<Shape> {
        (**self).odd_shapes()
    }
    fn random_shape(&self, draw: &mut Draw) -> Shape {
        (**self).random_shape(draw)
    }
    fn near(&self, shape: &Shape, draw: &mut Draw) -> Option<Shape> {
        (**self).near(shape, draw)
    }
    fn fewer(&self, shape: &Shape, fits: &dyn Fn(&Shape) -> bool) -> Option<Shape> {
        (**self).fewer(shape, fits)
    }
}
