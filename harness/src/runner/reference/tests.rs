use std::path::Path;
use std::process::Command;

use kopt_schema::manifest::{Shape, ShapeValue};
use libloading::os::unix::Library;
use sha2::{Digest as _, Sha256};

use super::device::{Matrices, PTX};
use super::*;
use crate::operators::{GroupedMatmul, Matmul};

const SOURCE: &str = include_str!("product.cu");
const DIGEST: &str = "// source digest: ";

fn digest() -> String {
    Sha256::digest(SOURCE).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/runner/reference"))
}

#[test]
fn the_ptx_is_that_of_the_source() {
    let first = PTX.lines().next().unwrap();
    assert_eq!(first.strip_prefix(DIGEST), Some(digest().as_str()), "renew it; product.cu says how");
    assert!(PTX.contains(".visible .entry product("));
    assert!(PTX.contains(&format!("product_param_0[{}]", size_of::<Matrices>())), "the kernel takes another struct");
    // A fused operation rounds once where the host rounds twice.
    assert!(!PTX.contains("fma."), "fused operations");
}

/// Not a test: writes `product.ptx`. Needs nvcc.
#[test]
#[ignore = "renews a file of the repository"]
fn renew_the_reference() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("product.ptx");
    let mut nvcc = Command::new("nvcc");
    nvcc.args(["-ptx", "-arch=compute_75", "-fmad=false", "-o"]).arg(&out).arg(folder().join("product.cu"));
    assert!(nvcc.status().unwrap().success());
    let text = format!("{DIGEST}{}\n{}", digest(), std::fs::read_to_string(&out).unwrap());
    std::fs::write(folder().join("product.ptx"), text).unwrap();
}

/// The kernel's source, compiled for the host: its threads one after the other.
struct Compiled {
    library: Library,
    _folder: tempfile::TempDir,
}

impl Compiled {
    fn new() -> Self {
        let folder_of_library = tempfile::tempdir().unwrap();
        let object = folder_of_library.path().join("product.so");
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&object);
        assert!(cc.arg(folder().join("product.cu")).status().unwrap().success());
        #[allow(unsafe_code, reason = "calls what was compiled")]
        // SAFETY: a library of one function, without constructors.
        let library = unsafe { Library::open(Some(object), libloading::os::unix::RTLD_NOW) }.unwrap();
        Self { library, _folder: folder_of_library }
    }
}

impl Multiplies for Compiled {
    #[allow(unsafe_code, reason = "calls what was compiled")]
    fn multiply(&self, left: &[f32], right: &[f32], [rows, inner, cols]: [usize; 3]) -> Result<Product, String> {
        // Neither zero nor NaN: an element that nobody writes is seen.
        let mut product = Product { values: vec![7.5; rows * cols], magnitudes: vec![7.5; rows * cols] };
        let matrices = Matrices {
            left: left.as_ptr().expose_provenance() as u64,
            right: right.as_ptr().expose_provenance() as u64,
            values: product.values.as_mut_ptr().expose_provenance() as u64,
            magnitudes: product.magnitudes.as_mut_ptr().expose_provenance() as u64,
            rows: rows as u64,
            inner: inner as u64,
            cols: cols as u64,
        };
        // SAFETY: the function has this type, and the slices are as long as the sizes say.
        unsafe {
            let function = self.library.get::<unsafe extern "C" fn(*const Matrices)>(b"product").unwrap();
            function(&raw const matrices);
        }
        Ok(product)
    }
}

/// The host's product, changed.
struct Changed<F>(F);

impl<F: Fn(&mut Product, [usize; 3]) -> Result<(), String>> Multiplies for Changed<F> {
    fn multiply(&self, left: &[f32], right: &[f32], sizes: [usize; 3]) -> Result<Product, String> {
        let mut product = Product::new(left, right, sizes);
        (self.0)(&mut product, sizes)?;
        Ok(product)
    }
}

fn case() -> Case {
    let sizes = [("m", 70), ("n", 65), ("k", 33)].map(|(name, size)| (name.to_owned(), ShapeValue::Size(size)));
    Case { shape: Shape::unnamed(sizes.to_vec()), dtype: DType::Bf16 }
}

/// What comes of a product on such a device.
fn expected(
    change: impl Fn(&mut Product, [usize; 3]) -> Result<(), String>,
    distribution: Distribution,
) -> Result<Vec<Expected>, Loss> {
    let reference = Reference::new(Changed(change));
    let inputs = Matmul.inputs("matmul", &case(), distribution, &mut Draw::new(1, "inputs"));
    expect_by(|| Some(&reference), &Matmul, "matmul", &case(), &inputs, distribution)
}

fn by_host(distribution: Distribution) -> Vec<Expected> {
    let inputs = Matmul.inputs("matmul", &case(), distribution, &mut Draw::new(1, "inputs"));
    Matmul.expect("matmul", &case(), &inputs, distribution.rounding())
}

#[test]
fn the_kernels_threads_give_the_hosts_product_to_the_last_bit() {
    let reference = Reference::new(Compiled::new());
    let bits = |expected: &[Expected]| -> Vec<u64> {
        let numbers = expected.iter().flat_map(|expected| expected.values.iter().chain(&expected.bounds));
        // Which NaN it is depends on the processor.
        numbers.map(|number| if number.is_nan() { u64::MAX } else { number.to_bits() }).collect()
    };
    let kernels: [(&dyn Kernel, &[&str]); 2] =
        [(&Matmul, &["matmul", "matmul_backward"]), (&GroupedMatmul, &["grouped_matmul"])];
    for (kernel, entries) in kernels {
        for (entry, distribution) in
            entries.iter().flat_map(|entry| kernel.distributions_of(entry).into_iter().map(move |d| (entry, d)))
        {
            for (seed, shape) in kernel.odd_shapes().into_iter().enumerate() {
                let case = Case { shape, dtype: DType::Bf16 };
                let inputs = kernel.inputs(entry, &case, distribution, &mut Draw::new(seed as u64, "device"));
                let got = expect_by(|| Some(&reference), kernel, entry, &case, &inputs, distribution).unwrap();
                let host = kernel.expect(entry, &case, &inputs, distribution.rounding());
                assert_eq!(bits(&got), bits(&host), "{entry} {} {distribution:?}", case.shape.name);
            }
        }
    }
}

#[test]
fn a_device_that_disagrees_is_an_error_and_never_a_pass() {
    let uniform = Distribution::Uniform;
    assert_eq!(expected(|_, _| Ok(()), uniform).unwrap(), by_host(uniform));
    let off_by = |factor: f64| {
        move |product: &mut Product, _: [usize; 3]| {
            let last = product.values.len() - 1;
            product.values[last] *= 1.0 + factor;
            Ok(())
        }
    };
    let loss = expected(off_by(1e-9), uniform).unwrap_err();
    assert!(loss.of_judge, "it is no mistake of the kernel");
    assert!(loss.message.contains("nothing was checked") && loss.message.contains("element ["), "{}", loss.message);
    assert!(expected(off_by(1e-15), uniform).is_ok());
    assert!(expected(off_by(f64::NAN), uniform).is_err());
    let smaller = |product: &mut Product, _: [usize; 3]| {
        product.magnitudes.iter_mut().for_each(|magnitude| *magnitude *= 1.0 + 1e-9);
        Ok(())
    };
    assert!(expected(smaller, uniform).is_err(), "bounds follow from magnitudes");
    let shorter = |product: &mut Product, _: [usize; 3]| {
        product.values.pop();
        Ok(())
    };
    assert!(expected(shorter, uniform).is_err());
}

#[test]
fn what_only_infinities_show_is_found_under_their_distribution() {
    let blind = |product: &mut Product, _: [usize; 3]| {
        product.values.iter_mut().filter(|value| value.is_infinite()).for_each(|value| *value = f64::NAN);
        Ok(())
    };
    assert!(expected(blind, Distribution::Uniform).is_ok());
    assert!(expected(blind, Distribution::Infinite).is_err());
}

#[test]
fn a_device_that_is_right_on_small_products_only_is_found() {
    let wraps = |product: &mut Product, [rows, _, cols]: [usize; 3]| {
        // As many as no odd shape has.
        if rows == 70 {
            product.values[(rows - 1) * cols] = 0.0;
        }
        Ok(())
    };
    let loss = expected(wraps, Distribution::Normal).unwrap_err();
    assert!(loss.message.contains("[69, 0] of a product 70 × 33 × 65"), "{}", loss.message);
}

#[test]
fn the_host_does_what_a_device_cannot() {
    let fails = |_: &mut Product, _: [usize; 3]| Err("out of memory".to_owned());
    assert_eq!(expected(fails, Distribution::Normal).unwrap(), by_host(Distribution::Normal));
    let none = || None::<&Reference<Multiplier>>;
    let (case, normal) = (case(), Distribution::Normal);
    let inputs = Matmul.inputs("matmul", &case, normal, &mut Draw::new(1, "inputs"));
    assert_eq!(expect_by(none, &Matmul, "matmul", &case, &inputs, normal).unwrap(), by_host(normal));
}
