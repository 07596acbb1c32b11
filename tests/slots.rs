//! Slots filled with the objects of the example kernels, compiled for real: the model learns the same as in plain Rust, and
//! a kernel that is wrong, or only less precise, shows in the losses.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/queue.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod queue;
#[path = "support/training.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod subjects;

use camino::Utf8Path;
use kopt_build::cache::{Cache, Order};
use kopt_schema::manifest::{Backend, TransferSettings};
use kopt_schema::training::{CallTime, Filling};
use kopt_train::preset::{Sizes, sizes};
use kopt_train::slots::Slots;
use kopt_train::training::Training;
use subjects::{ROOT, copied};

const STEPS: usize = 20;

/// A copy of an example crate, changed, and compiled.
struct Kernel {
    _folder: tempfile::TempDir,
    filling: Filling,
}

impl Kernel {
    fn new(package: &str, op: &str, change: impl Fn(String) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let to = Utf8Path::from_path(folder.path()).unwrap();
        let from = Utf8Path::new(ROOT).join("example-kernels").join(package);
        copied(&from, to, &change).unwrap();
        let manifest = kopt_build::manifest::load(to, Some(Utf8Path::new(ROOT)), to).unwrap().unwrap();
        let entries = kopt_build::bindings::load(to, &manifest, false).unwrap().layouts().unwrap();
        let order = Order { folder: to.to_owned(), manifest };
        let candidate = Cache::new(to.join("out")).candidate(&order).unwrap().into();
        let filling = Filling { op: op.to_owned(), backend: Backend::Cpu, candidate, entries };
        Self { _folder: folder, filling }
    }

    fn filling(&self) -> Filling {
        self.filling.clone()
    }
}

fn example(package: &str, op: &str) -> Kernel {
    Kernel::new(package, op, |text| text)
}

/// The examples that have a place in the model, and which.
fn examples() -> Vec<(String, String)> {
    let (root, mut slots) = (Utf8Path::new(ROOT), Vec::new());
    for package in queue::examples(root, |manifest| manifest.backend == Backend::Cpu).unwrap() {
        if let Some(TransferSettings::Slot(op)) = queue::example(root, &package).unwrap().1.transfer {
            slots.push((package, op));
        }
    }
    assert!(!slots.is_empty());
    slots
}

/// Small, with experts, and each op in it.
fn small() -> Sizes {
    Sizes { width: 64, layers: 2, heads: 2, head: 16, hidden: 32, experts: 4, sandwich: true, length: 24, batch: 4 }
}

fn losses(slots: Slots) -> Vec<f64> {
    let mut training = Training::new(small(), 11, slots);
    (0..STEPS).map(|_| training.step().unwrap().loss.unwrap_or(f64::NAN)).collect()
}

/// The largest relative difference.
fn apart(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| (left - right).abs() / left).fold(0.0, f64::max)
}

/// How far losses drift by rounding alone: the same kernel with noise of that size.
fn yardstick(kernel: &Kernel, of: &[f64]) -> f64 {
    let noisy = |seed| losses(Slots::load(&[kernel.filling()], Some(seed)).unwrap());
    apart(of, &noisy(1)).max(apart(of, &noisy(2)))
}

#[test]
fn example_kernels_learn_what_plain_rust_learns() {
    let plain = losses(Slots::default());
    for (package, op) in examples() {
        let kernel = example(&package, &op);
        let filled = losses(Slots::load(&[kernel.filling()], None).unwrap());
        let (drift, bound) = (apart(&plain, &filled), yardstick(&kernel, &plain));
        println!("{package}: {drift:.2e}, by noise {bound:.2e}");
        assert!(bound > 0.0 && bound < 1e-2, "{package}: rounding alone moves losses by {bound}");
        assert!(drift < 10.0 * bound, "{package}: {drift} apart, and {bound} by rounding alone");
    }
}

#[test]
fn all_slots_at_once_and_every_call_is_counted() {
    let kernels = [example("rmsnorm-cpu", "rmsnorm"), example("matmul-cpu", "matmul")];
    let slots = Slots::load(&kernels.each_ref().map(Kernel::filling), None).unwrap();
    assert_eq!(slots.filled(), ["rmsnorm", "rmsnorm_backward", "matmul", "matmul_backward"]);
    let mut training = Training::new(small(), 11, slots);
    let step = training.step().unwrap();
    let calls = |entry: &str| step.calls.iter().filter(|call| call.entry == entry).map(|call| call.calls).sum::<u64>();
    // Four normalisations a layer and the last one; qkv and out of each layer, and the head.
    assert_eq!((calls("rmsnorm"), calls("rmsnorm_backward")), (9, 9));
    assert_eq!((calls("matmul"), calls("matmul_backward")), (5, 5));
    assert!(step.calls.iter().all(|call| call.seconds > 0.0 && call.seconds < step.seconds));
    training.slots().keep_calls();
    training.step().unwrap();
    let repeated = training.slots().benchmark(1e-4, 1 << 20).unwrap();
    assert_eq!(repeated.len(), step.calls.len());
    assert!(repeated.iter().map(|call| call.seconds).sum::<f64>() > 0.0);
    // Every call of the step, the same number of times.
    let ratio = |(repeated, once): (&CallTime, &CallTime)| repeated.calls / once.calls;
    let ratios: Vec<u64> = repeated.iter().zip(&step.calls).map(ratio).collect();
    assert!(ratios[0] > 0 && ratios.iter().all(|ratio| *ratio == ratios[0]), "{ratios:?}");
}

#[test]
fn a_kernel_that_is_wrong_or_less_precise_shows_in_the_losses() {
    let kernel = example("matmul-cpu", "matmul");
    let honest = losses(Slots::load(&[kernel.filling()], None).unwrap());
    let bound = yardstick(&kernel, &honest);
    let changes: [(&str, &str, &str); 3] = [
        ("a little too large", "c[j] += a * b[j];", "c[j] += 1.001f * a * b[j];"),
        (
            "a gradient without its last row",
            "for (int64_t i = 0; i < m; i++) {\n        const float *dc = args->dc + i * n;\n        for (int64_t p = 0; p < k; p++) {\n            const float a",
            "for (int64_t i = 0; i < m - 1; i++) {\n        const float *dc = args->dc + i * n;\n        for (int64_t p = 0; p < k; p++) {\n            const float a",
        ),
        (
            "half the digits",
            "const float a = args->a[i * k + p];\n            const float *b",
            "union { float f; unsigned u; } cut = { args->a[i * k + p] }; cut.u &= 0xffff0000u; const float a = cut.f;\n            const float *b",
        ),
    ];
    for (what, from, to) in changes {
        let wrong = Kernel::new("matmul-cpu", "matmul", |text| {
            assert!(text.contains(from), "{what}: the example has changed");
            text.replace(from, to)
        });
        let drift = apart(&honest, &losses(Slots::load(&[wrong.filling()], None).unwrap()));
        println!("{what}: {drift:.2e}, by noise {bound:.2e}");
        assert!(drift > 10.0 * bound, "{what}: {drift} apart, and {bound} by rounding alone");
    }
}

#[test]
fn a_kernel_that_returns_an_error_ends_the_step() {
    let broken = Kernel::new("softmax-cpu", "softmax", |text| text.replace("return 0;", "return 7;"));
    let slots = Slots::load(&[broken.filling()], None).unwrap();
    let error = Training::new(small(), 1, slots).step().unwrap_err();
    assert_eq!(error, "`softmax` returned 7, not 0");
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let kernel = example("softmax-cpu", "softmax");
    let mut filling = kernel.filling();
    filling.op = "convolution".to_owned();
    assert!(Slots::load(&[filling], None).unwrap_err().contains("no op `convolution`; its slots are grouped_matmul"));

    let mut filling = kernel.filling();
    filling.entries[0].symbol = "softmax_backward".to_owned();
    assert!(Slots::load(&[filling], None).unwrap_err().contains("no function `softmax_backward`"));

    let mut filling = kernel.filling();
    filling.entries[0].fields[0].name = "input".to_owned();
    let error = Training::new(small(), 1, Slots::load(&[filling], None).unwrap()).step().unwrap_err();
    assert!(error.contains("field `input` of `softmax_args`"), "{error}");

    let filling = kernel.filling();
    let object = Utf8Path::new(&filling.candidate).parent().unwrap();
    for entry in object.read_dir_utf8().unwrap() {
        let path = entry.unwrap().into_path();
        if path.extension() == Some("so") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.push(0);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    assert!(Slots::load(&[filling], None).unwrap_err().contains("is not the object that was compiled"));
    assert!(sizes("matmul").is_ok());
}

/// Not a test: what a step takes in each preset, and the op's share of it. `cargo test --test slots -- --ignored --nocapture shares`.
#[test]
#[ignore = "a measurement"]
fn shares() {
    for (package, op) in examples() {
        let slots = Slots::load(&[example(&package, &op).filling()], None).unwrap();
        let mut training = Training::new(sizes(&op).unwrap(), 1, slots);
        let steps: Vec<_> = (0..20).map(|_| training.step().unwrap()).collect();
        let whole: f64 = steps.iter().map(|step| step.seconds).sum();
        let inside: f64 = steps.iter().flat_map(|step| &step.calls).map(|call| call.seconds).sum();
        println!("{op}: {:.1} ms a step, {:.0} % of it inside", whole * 50.0, 100.0 * inside / whole);
    }
}
