//! Which trials a crate has: every entry on the listed shapes, on shapes that the manifest does not list, and on shapes
//! that nobody knows beforehand, small ones and such as are close to the listed, each under the operator's distributions.
//!
//! Names are the same in every run and every process, so that filters and nextest work; the sizes of a `random-N` or a
//! `near-…` case come from the secret seed and are told when it fails.

use std::collections::BTreeSet;

use kopt_schema::manifest::{Manifest, Shape};

use crate::distribution::Distribution;
use crate::kernel::{Buffer, Case, Kernel};
use crate::package::{EntryLayout, Package};
use crate::tensor::Draw;

/// Random shapes an entry.
const RANDOM_SHAPES: usize = 4;

/// Beyond this many flops or elements the f64 reference takes a noticeable part of a second.
const HEAVY: f64 = 1e8;
const HEAVY_ELEMENTS: usize = 2_000_000;

/// What a heavy case is checked on: the distributions that between them catch precision, sign and range mistakes. What is added
/// to keep a sum from zero shows only where all is tiny, and a maximum that nobody subtracts where all is large.
const HEAVY_DISTRIBUTIONS: [Distribution; 5] =
    [Distribution::Uniform, Distribution::Negative, Distribution::Outlier, Distribution::Large, Distribution::Tiny];

/// And these, where the reference is cheap for its size: a kernel may have a path of its own for what is large.
const LARGE_DISTRIBUTIONS: [Distribution; 4] =
    [Distribution::Masked, Distribution::Few, Distribution::Infinite, Distribution::NotANumber];

/// What a shape close to a listed one is checked on: zeros beyond an edge must not count as a maximum either.
const NEAR_DISTRIBUTIONS: [Distribution; 2] = [Distribution::Uniform, Distribution::Negative];

/// The sizes of a trial.
#[derive(Debug, Clone)]
pub(crate) enum Sizes {
    Given(Shape),
    /// Close to this one.
    Near(Shape),
    Random,
}

/// One trial.
#[derive(Debug, Clone)]
pub(crate) struct TrialSpec {
    pub name: String,
    pub layout: &'static EntryLayout,
    /// The forward entry, whose struct a preparation is given.
    pub forward: &'static EntryLayout,
    pub sizes: Sizes,
    pub distribution: Distribution,
    /// Bytes of its buffers; of a shape that nobody knows yet, of the one that it is close to, or none.
    pub bytes: usize,
    pub heavy: bool,
}

impl TrialSpec {
    /// The case for a seed.
    pub(crate) fn case(&self, kernel: &dyn Kernel, manifest: &Manifest, seed: u64) -> Case {
        let shape = match &self.sizes {
            Sizes::Given(shape) => shape.clone(),
            Sizes::Near(shape) => kernel.near(shape, &mut Draw::new(seed, "shape")).unwrap_or_else(|| shape.clone()),
            Sizes::Random => kernel.random_shape(&mut Draw::new(seed, "shape")),
        };
        Case { shape, dtype: manifest.dtype }
    }
}

/// The entries that the crate has, in the operator's order.
pub(crate) fn entries(package: &Package, kernel: &dyn Kernel) -> Result<Vec<&'static EntryLayout>, String> {
    let known = kernel.entries();
    for layout in package.entries {
        if !known.iter().any(|entry| entry == layout.symbol) {
            let text = known.join(", ");
            return Err(format!(
                "the header declares `{}_args`, but operator {} has entries {text}",
                layout.symbol,
                kernel.op()
            ));
        }
    }
    Ok(known.iter().filter_map(|entry| package.entries.iter().find(|layout| layout.symbol == entry)).collect())
}

/// What is wrong with a listed shape of an operator that the manifest's reader does not know: a size that is misspelt would be
/// taken for zero.
fn fits(kernel: &dyn Kernel, shape: &Shape) -> Result<(), String> {
    let known: Vec<&str> = kernel.parameters().iter().map(|parameter| parameter.name).collect();
    let given: Vec<&str> = shape.parameters.iter().map(|(name, _)| name.as_str()).collect();
    let wrong =
        |what: String| Err(format!("shape `{}` {what}; operator {} has {}", shape.name, kernel.op(), known.join(", ")));
    if let Some(name) = given.iter().find(|name| !known.contains(name)) {
        let near = kopt_schema::nearest(name, known.iter().copied()).map(|near| format!(", did you mean `{near}`?"));
        return wrong(format!("gives `{name}`{}", near.unwrap_or_default()));
    }
    match known.iter().find(|name| !given.contains(name)) {
        Some(name) => wrong(format!("does not give `{name}`")),
        None => Ok(()),
    }
}

/// What a listed shape is checked on, and whether it is heavy.
pub(crate) fn distributions(kernel: &dyn Kernel, entry: &str, case: &Case) -> (Vec<Distribution>, bool) {
    let elements: usize = kernel.buffers(entry, case).iter().map(|buffer| buffer.len).sum();
    let (costly, large) = (kernel.cost(entry, case).flops > HEAVY, elements > HEAVY_ELEMENTS);
    let heavy = costly || large;
    let is_tried = |one: &Distribution| {
        !heavy || HEAVY_DISTRIBUTIONS.contains(one) || (!costly && LARGE_DISTRIBUTIONS.contains(one))
    };
    let all = kernel.distributions_of(entry);
    let chosen: Vec<_> = all.iter().copied().filter(is_tried).collect();
    // An operator that has none of these is checked on all of its own: no listed shape goes unchecked.
    (if chosen.is_empty() { all } else { chosen }, heavy)
}

/// All trials of a crate.
pub(crate) fn trials(package: &Package, kernel: &dyn Kernel, manifest: &Manifest) -> Result<Vec<TrialSpec>, String> {
    manifest.shapes.iter().try_for_each(|shape| fits(kernel, shape))?;
    let mut specs = Vec::new();
    let listed: BTreeSet<_> = manifest.shapes.iter().map(|shape| format!("{:?}", shape.parameters)).collect();
    let layouts = entries(package, kernel)?;
    for layout in layouts.iter().copied() {
        let forward = layouts[0];
        let mut push = |case: &str, sizes: &Sizes, distributions: &[Distribution], heavy: bool| {
            let bytes = match sizes {
                Sizes::Given(shape) | Sizes::Near(shape) => {
                    let case = Case { shape: shape.clone(), dtype: manifest.dtype };
                    kernel.buffers(layout.symbol, &case).iter().map(Buffer::bytes).sum()
                }
                Sizes::Random => 0,
            };
            for distribution in distributions {
                let name = format!("{}/{case}/{}", layout.symbol, distribution.name());
                specs.push(TrialSpec {
                    name,
                    layout,
                    forward,
                    sizes: sizes.clone(),
                    distribution: *distribution,
                    bytes,
                    heavy,
                });
            }
        };
        for shape in &manifest.shapes {
            let case = Case { shape: shape.clone(), dtype: manifest.dtype };
            let (chosen, heavy) = distributions(kernel, layout.symbol, &case);
            push(&shape.name, &Sizes::Given(shape.clone()), &chosen, heavy);
            if kernel.near(shape, &mut Draw::new(0, "shape")).is_some() {
                let few: Vec<_> = chosen.iter().copied().filter(|one| NEAR_DISTRIBUTIONS.contains(one)).collect();
                let tried = if few.is_empty() { chosen } else { few };
                push(&format!("near-{}", shape.name), &Sizes::Near(shape.clone()), &tried, heavy);
            }
        }
        for shape in kernel.odd_shapes() {
            if !listed.contains(&format!("{:?}", shape.parameters)) {
                push(
                    &format!("odd-{}", shape.name),
                    &Sizes::Given(shape),
                    &kernel.distributions_of(layout.symbol),
                    false,
                );
            }
        }
        for number in 1..=RANDOM_SHAPES {
            push(&format!("random-{number}"), &Sizes::Random, &kernel.distributions_of(layout.symbol), false);
        }
    }
    Ok(specs)
}
