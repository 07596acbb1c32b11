//! References on a device. What is expected of a large product of matrices takes the host minutes; the device that the
//! kernel is checked on has a second for it, in f64 too.
//!
//! A device's word counts only where it is certified: before it is used for an entry under a distribution, it has computed
//! the operator's odd shapes there, and agreed with the host on every element and every bound. Of each large product some
//! rows are computed by the host again. A device that disagrees fails the trial and says so; one that is not there, or cannot,
//! leaves the work to the host. It runs in the process that judges, which never loads a candidate.

mod device;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use kopt_schema::DType;
use kopt_schema::manifest::Backend;

use self::device::Multiplier;
use super::contestant::Loss;
use crate::distribution::Distribution;
use crate::kernel::{Case, Kernel};
use crate::product::{Multiply, Product, Unmultiplied};
use crate::tensor::{Draw, Expected, Tensors};

/// Flops from which on a device is asked: below, the host has them within a second.
const LARGE: f64 = 1e9;

/// How far the device may be from the host, relative to the number; the order of additions is the same, so that it should
/// not be at all.
const APART: f64 = 1e-12;

/// The same in shares of an element's bound, for numbers in which larger ones cancel out: nothing that a kernel could use.
const SHARE: f64 = 1e-6;

/// Rows of each product that the host computes too.
const ROWS: usize = 4;

/// What is expected of an entry's outputs: by the device for what is large, where there is one, by the host otherwise.
pub(crate) fn expect(
    kernel: &dyn Kernel,
    backend: Backend,
    entry: &str,
    case: &Case,
    inputs: &Tensors,
    distribution: Distribution,
) -> Result<Vec<Expected>, Loss> {
    static DEVICE: OnceLock<Option<Reference<Multiplier>>> = OnceLock::new();
    if backend != Backend::Cuda || kernel.cost(entry, case).flops < LARGE {
        return Ok(kernel.expect(entry, case, inputs, distribution.rounding()));
    }
    let device = || DEVICE.get_or_init(|| Multiplier::open().ok().map(Reference::new)).as_ref();
    expect_by(device, kernel, entry, case, inputs, distribution)
}

/// What is expected, by a device that is asked for once there is something to multiply.
fn expect_by<'a, M: Multiplies + 'a>(
    device: impl Fn() -> Option<&'a Reference<M>>,
    kernel: &dyn Kernel,
    entry: &str,
    case: &Case,
    inputs: &Tensors,
    distribution: Distribution,
) -> Result<Vec<Expected>, Loss> {
    let multiply: Multiply<'_> = &|left, right, sizes| {
        let device = device().ok_or_else(|| Unmultiplied::Failed("no device".to_owned()))?;
        device.certify(kernel, entry, case.dtype, distribution)?;
        device.product(left, right, sizes)
    };
    match kernel.expect_by(entry, case, inputs, distribution.rounding(), multiply) {
        Some(Ok(expected)) => Ok(expected),
        Some(Err(Unmultiplied::Disagrees(what))) => Err(Loss::of_judge(what)),
        Some(Err(Unmultiplied::Failed(_))) | None => Ok(kernel.expect(entry, case, inputs, distribution.rounding())),
    }
}

/// What multiplies matrices somewhere else.
trait Multiplies {
    /// `left` is `rows × inner`, `right` is `inner × cols`, none of them empty but for `inner`.
    fn multiply(&self, left: &[f32], right: &[f32], sizes: [usize; 3]) -> Result<Product, String>;
}

/// What a device is certified for: an entry, its element type, the name of a distribution.
type Certified = (String, DType, &'static str);

/// A device, and what came of its certificates.
struct Reference<M> {
    multiplier: M,
    certificates: Mutex<HashMap<Certified, Result<(), Unmultiplied>>>,
}

impl<M: Multiplies> Reference<M> {
    fn new(multiplier: M) -> Self {
        Self { multiplier, certificates: Mutex::default() }
    }

    /// Odd shapes on the device and on the host, once for each entry and distribution.
    fn certify(
        &self,
        kernel: &dyn Kernel,
        entry: &str,
        dtype: DType,
        distribution: Distribution,
    ) -> Result<(), Unmultiplied> {
        let mut certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (entry.to_owned(), dtype, distribution.name());
        if let Some(known) = certificates.get(&key) {
            return known.clone();
        }
        let multiply: Multiply<'_> = &|left, right, sizes| self.product(left, right, sizes);
        let compared = || {
            let seed = getrandom::u64().map_err(|error| Unmultiplied::Failed(error.to_string()))?;
            let mut draw = Draw::new(seed, "certificate");
            for shape in kernel.odd_shapes() {
                let case = Case { shape, dtype };
                let inputs = kernel.inputs(entry, &case, distribution, &mut draw);
                let rounding = distribution.rounding();
                let Some(device) = kernel.expect_by(entry, &case, &inputs, rounding, multiply) else { return Ok(()) };
                let (host, device) = (kernel.expect(entry, &case, &inputs, rounding), device?);
                if let Some(difference) = difference(&host, &device) {
                    let name = &case.shape.name;
                    return Err(disagrees(&format!("{entry}/{name}/{}: {difference}", distribution.name())));
                }
            }
            Ok(())
        };
        certificates.entry(key).or_insert(compared()).clone()
    }

    /// One product, some rows of which the host has computed too.
    fn product(&self, left: &[f32], right: &[f32], sizes: [usize; 3]) -> Result<Product, Unmultiplied> {
        let [rows, inner, cols] = sizes;
        if rows == 0 || cols == 0 {
            return Ok(Product::new(left, right, sizes));
        }
        let product = self.multiplier.multiply(left, right, sizes).map_err(Unmultiplied::Failed)?;
        if product.values.len() != rows * cols || product.magnitudes.len() != rows * cols {
            return Err(disagrees("the product has another size"));
        }
        let secret = getrandom::u64().map_err(|error| Unmultiplied::Failed(error.to_string()))?;
        let mut draw = Draw::new(secret, "rows");
        // The first, the last and some between: that nothing wraps where indices are large.
        let chosen = [0, rows - 1].into_iter().chain((2..ROWS).map(|_| draw.between(0, rows - 1)));
        let chosen: Vec<usize> = chosen.collect();
        let picked: Vec<f32> = chosen.iter().flat_map(|row| &left[row * inner..(row + 1) * inner]).copied().collect();
        let host = Product::new(&picked, right, [chosen.len(), inner, cols]);
        for (place, row) in chosen.into_iter().enumerate() {
            for col in 0..cols {
                let (one, other) = (place * cols + col, row * cols + col);
                let magnitude = host.magnitudes[one];
                let values = agree(host.values[one], product.values[other], APART * magnitude);
                if !values || !agree(magnitude, product.magnitudes[other], APART * magnitude) {
                    let (host, device) = (host.values[one], product.values[other]);
                    return Err(disagrees(&format!(
                        "element [{row}, {col}] of a product {rows} × {inner} × {cols} is {host:e} on the host and {device:e}"
                    )));
                }
            }
        }
        Ok(product)
    }
}

fn disagrees(what: &str) -> Unmultiplied {
    Unmultiplied::Disagrees(format!(
        "the reference on the device is not that of the host, so nothing was checked: {what}"
    ))
}

/// Whether two numbers are the same, or finite and no further apart than that.
fn agree(host: f64, device: f64, apart: f64) -> bool {
    host == device || (host.is_nan() && device.is_nan()) || (host.is_finite() && (host - device).abs() <= apart)
}

/// The first element that two references give differently.
fn difference(host: &[Expected], device: &[Expected]) -> Option<String> {
    if !host.iter().map(|one| (one.name, one.values.len())).eq(device.iter().map(|one| (one.name, one.values.len()))) {
        return Some("other outputs, or of another size".to_owned());
    }
    host.iter().zip(device).find_map(|(host, device)| {
        let name = host.name;
        (0..host.values.len()).find_map(|index| {
            let (value, bound) = (host.values[index], host.bounds[index]);
            let (got, got_bound) = (device.values[index], device.bounds[index]);
            let same = agree(value, got, APART * value.abs() + SHARE * bound);
            let same = same && agree(bound, got_bound, APART * bound.abs());
            (!same)
                .then(|| format!("`{name}`[{index}] is {value:e} ± {bound:e} on the host and {got:e} ± {got_bound:e}"))
        })
    })
}
