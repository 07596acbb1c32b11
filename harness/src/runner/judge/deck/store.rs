//! Where a deck's memory is: in files of the host, or on a device.
//!
//! All contestants read one file of inputs. Each has a file of outputs of its own, so that none can spoil another's, and
//! between batches every byte of it is that of one *image*: poison where outputs are, a pattern elsewhere.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use kopt_schema::DType;

use crate::runner::blueprint::Blueprint;
use crate::runner::contestant::Loss;
use crate::runner::judge::deal::Within;
use crate::runner::memory::Given;
use crate::tensor::Expected;

/// An input of a base, to be written under a symmetry.
pub(super) struct Put<'a> {
    /// Number of the base's input, and its bytes.
    pub number: usize,
    pub bytes: &'a [u8],
    /// Where it goes in the file of inputs.
    pub span: Range<usize>,
    pub dtype: DType,
    /// Its axes: extent and turn of each.
    pub axes: Vec<(usize, usize)>,
    /// A power of two, or its negative.
    pub factor: Option<f64>,
}

/// What is expected of an output under a symmetry.
pub(super) struct Claim<'a> {
    /// Number of the base's output, and what is expected of it.
    pub number: usize,
    pub expected: &'a Expected,
    /// What is within its bounds; found out by the first who asks.
    pub within: &'a OnceLock<Within>,
    /// Its buffer, and where it stands in a file of outputs.
    pub buffer: usize,
    pub span: Range<usize>,
    pub dtype: DType,
    pub axes: Vec<(usize, usize)>,
    pub factor: f64,
}

/// The memory of a deck. Outputs are numbered by file.
pub(super) trait Store: Send + Sync {
    /// More memory for the same bases, laid out in another way.
    fn beside(&self, blueprint: &Blueprint, contestants: usize) -> Result<Box<dyn Store>, Loss>;

    /// The file of inputs and one of outputs, as a contestant gets them.
    fn files(&self, outputs: usize) -> (&dyn Given, &dyn Given);

    /// Whether they are on the device, and how long each is.
    fn lens(&self) -> (bool, [usize; 2]);

    /// Whether the memory has huge pages.
    fn huge_pages(&self) -> bool;

    /// Writes inputs.
    fn put(&mut self, inputs: &[Put<'_>]) -> Result<(), Loss>;

    /// Which of these outputs are not right, or need a closer look.
    fn doubtful(&mut self, outputs: usize, claims: &[Claim<'_>]) -> Result<Vec<usize>, Loss>;

    /// Empties the processor's caches of these ranges of inputs and outputs. A device's are emptied by who calls there.
    fn flush(&self, _outputs: usize, _spans: [&[Range<usize>]; 2]) {}

    /// Puts the image back over these ranges.
    fn restore(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<(), Loss>;

    /// The first of these ranges that is not as the image.
    fn changed(&mut self, outputs: usize, spans: &[Range<usize>]) -> Result<Option<usize>, Loss>;

    /// Bytes of a file of outputs, for a closer look.
    fn read(&self, outputs: usize, span: Range<usize>) -> Result<Cow<'_, [u8]>, Loss>;

    /// The whole image.
    fn image(&self) -> Result<Cow<'_, [u8]>, Loss>;

    /// Bytes of the inputs.
    #[cfg(test)]
    fn input(&self, span: Range<usize>) -> Vec<u8>;

    /// Puts another output in place of the one that a base has.
    #[cfg(test)]
    fn teach(&mut self, number: usize, expected: &Expected);

    /// Writes to outputs, as a kernel would.
    #[cfg(test)]
    fn write(&mut self, outputs: usize, at: usize, bytes: &[u8]);
}
