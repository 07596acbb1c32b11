//! What every backend must do alike: one suite, run on each. Where a backend has no device, that it says so is tested.

#![cfg(test)]

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::DType;
use kopt_schema::manifest::Backend as Kind;
use kopt_schema::plan::{Fill, Launch};
use kopt_schema::wire::{ArgField, EntryCall, Scratch};

use super::cuda::memory::{self, Exported};
use super::cuda::table::Table;
use super::{Backend, BackendError, Timing};
use crate::kernel::{Buffer, Role};
use crate::runner::arena::Arena;
use crate::runner::blueprint::Blueprint;
use crate::runner::memory::{Given as _, Layout};
use crate::tensor::{Tensors, Values, decode};

const HEADER: &str = "#include <stdint.h>
typedef struct { const float *x; float *y; int64_t n; float factor; } scale_args;
#ifndef __CUDACC__
int scale(const scale_args *args);
#endif
";
const C: &str = "#include \"scale.h\"
int scale(const scale_args *a) {
    if (a->factor == 0.0f) return 7;
    for (int64_t i = 0; i < a->n; i++) a->y[i] = a->factor * a->x[i];
    return 0;
}
";
const CUDA: &str = "#include \"scale.h\"
extern \"C\" __global__ void scale_whole(scale_args a) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < a.n) a.y[i] = a.factor * a.x[i];
}
extern \"C\" __global__ void scale_input(scale_args a) { ((float *)a.x)[0] = a.factor; }
extern \"C\" __global__ void scale_first(const float *x, float *scratch, int64_t n) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) scratch[i] += x[i];
}
extern \"C\" __global__ void scale_second(const float *scratch, float *y, int64_t n, float factor) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = factor * scratch[i];
}
";
const LEN: usize = 1000;
const FACTOR: f32 = 3.0;

/// The suite.
fn conform(backend: &mut dyn Backend, object: &Utf8Path, symbols: &[&str], entries: Vec<EntryCall>) {
    let names: Vec<String> = symbols.iter().map(|symbol| (*symbol).to_owned()).collect();
    let missing = backend.load(object.as_str(), &["no_such_entry".to_owned()]);
    assert!(missing.unwrap_err().to_string().contains("no_such_entry"), "a missing function is named");
    assert!(!backend.device().unwrap().is_empty(), "the device has a name");
    backend.load(object.as_str(), &names).unwrap();

    let buffers = vec![
        Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
        Buffer::output("y", Role::Output, DType::F32, 1, LEN),
    ];
    let mut arena = Arena::new(buffers, 2, Layout::Fenced, 4, 0).unwrap();
    for window in 0..2 {
        let mut tensors = Tensors::default();
        tensors.insert("x", Values::Float((0..LEN).map(|index| (index + 5000 * window) as f32).collect()));
        arena.fill(window, 0, &tensors);
        arena.poison(window);
    }
    let before = arena.input_sum();
    let count = entries.len();
    let wire = arena.wire(entries);
    backend.attach(&wire, arena.inputs.descriptor(false).unwrap(), arena.outputs.descriptor(true).unwrap()).unwrap();

    for entry in 0..count {
        arena.poison(0);
        arena.poison(1);
        assert_eq!(backend.call(0, entry, 1).unwrap(), 0);
        let got: Vec<f64> = (0..LEN).map(|index| decode(arena.output("y", 1), index, DType::F32)).collect();
        let wanted: Vec<f64> = (0..LEN).map(|index| f64::from(FACTOR) * (index + 5000) as f64).collect();
        assert_eq!(got, wanted, "entry {entry}");
        let untouched = |index| {
            arena.output("y", 0)[4 * index..4 * index + 4] == arena.blueprint.poison_of(index, DType::F32).to_le_bytes()
        };
        assert!((0..LEN).all(untouched), "a call touches its own window only");
        assert_eq!(arena.trespass(), None);
    }
    assert_eq!(arena.input_sum(), before);

    for cold in [false, true] {
        let timing =
            Timing { arena: 0, entries: &[0], windows: &[0, 1], cold, calls: 70, processor: cold, handicap: 0.0 };
        let seconds = backend.time(&timing).unwrap();
        assert!(seconds.is_finite() && seconds > 0.0, "{seconds}");
    }
    assert!(backend.ceilings().unwrap().copy_bytes_per_s > 1e6);
    assert!(backend.call(9, 0, 0).is_err() && backend.call(0, 9, 0).is_err(), "what is not there is refused");
}

fn entry(factor: f32, launches: Vec<Launch>, workspace: Vec<Scratch>) -> EntryCall {
    let mut args = vec![0; 32];
    args[16..24].copy_from_slice(&(LEN as i64).to_le_bytes());
    args[24..28].copy_from_slice(&factor.to_le_bytes());
    let field = |name: &str, offset, size, buffer| ArgField { name: name.to_owned(), offset, size, buffer };
    let fields = vec![
        field("x", 0, 8, Some(0)),
        field("y", 8, 8, Some(1)),
        field("n", 16, 8, None),
        field("factor", 24, 4, None),
    ];
    EntryCall { symbol: "scale".to_owned(), args, fields, second: None, launches, workspace }
}

/// Compiles the test kernel as a kernel crate's build script would.
fn compiled(backend: Kind, folder: &Utf8Path) -> kopt_build::compile::Built {
    let manifest = format!(
        "[package.metadata.kopt]\nop = \"scale\"\nbackend = \"{}\"\nshapes = [{{ n = {LEN} }}]\n",
        backend.name()
    );
    std::fs::create_dir_all(folder.join("kernels")).unwrap();
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("kernels/scale.h", HEADER),
        ("kernels/scale.c", C),
        ("kernels/scale.cu", CUDA),
        ("kernels/scale.launch.toml", ""),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let manifest = kopt_build::manifest::load(folder, None, folder).unwrap().unwrap();
    kopt_build::compile::compile(folder, &manifest, &folder.join("out")).unwrap()
}

fn scratch() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
    (folder, path)
}

#[test]
fn the_cpu_conforms() {
    let (_keep, folder) = scratch();
    let built = compiled(Kind::Cpu, &folder);
    let object = folder.join("out").join(built.candidate.object.unwrap());
    let mut backend = super::open(Kind::Cpu, &[]).unwrap();
    conform(backend.as_mut(), &object, &["scale"], vec![entry(FACTOR, Vec::new(), Vec::new())]);
}

#[test]
fn the_cpu_passes_on_what_an_entry_returns() {
    let (_keep, folder) = scratch();
    let built = compiled(Kind::Cpu, &folder);
    let object = folder.join("out").join(built.candidate.object.unwrap());
    let mut backend = super::open(Kind::Cpu, &[]).unwrap();
    backend.load(object.as_str(), &["scale".to_owned()]).unwrap();
    let arena = Arena::new(
        vec![
            Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
            Buffer::output("y", Role::Output, DType::F32, 1, LEN),
        ],
        1,
        Layout::Packed,
        4,
        0,
    )
    .unwrap();
    let wire = arena.wire(vec![entry(0.0, Vec::new(), Vec::new())]);
    backend.attach(&wire, arena.inputs.descriptor(false).unwrap(), arena.outputs.descriptor(true).unwrap()).unwrap();
    assert_eq!(backend.call(0, 0, 0).unwrap(), 7);
    let timing =
        Timing { arena: 0, entries: &[0], windows: &[0], cold: false, calls: 1, processor: false, handicap: 0.0 };
    assert!(backend.time(&timing).is_err(), "a failing call has no time");
}

/// A CUDA device, where there is one.
fn cuda() -> Option<Box<dyn Backend>> {
    match super::open(Kind::Cuda, &[]) {
        Ok(backend) => Some(backend),
        Err(error) => {
            assert!(matches!(error, BackendError::NoDevice(_)), "{error}");
            None
        }
    }
}

/// The test kernel's cubin.
fn cubin(folder: &Utf8Path) -> Utf8PathBuf {
    let built = compiled(Kind::Cuda, folder);
    folder.join("out").join(built.candidate.object.expect("a machine with a GPU has nvcc"))
}

fn launch(kernel: &str, grid: u32, fields: Option<&[&str]>, cluster: Option<[u32; 3]>) -> Launch {
    let fields = fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    Launch { kernel: kernel.to_owned(), grid: [grid, 1, 1], block: [256, 1, 1], cluster, shared: 0, fields }
}

/// Buffers on the device, owned here as a judge owns them: two windows, of which the second holds 5000 and up.
struct Judges {
    table: Table,
    layout: Blueprint,
    inputs: Exported,
    outputs: Exported,
}

impl Judges {
    fn new() -> Self {
        let table = Table::open().unwrap();
        let buffers = vec![
            Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
            Buffer::output("y", Role::Output, DType::F32, 1, LEN),
        ];
        let layout = Blueprint::new(buffers, 2, Layout::Packed, 4, 0);
        let [inputs, outputs] = layout.lens.map(|len| Exported::new(&table.device, len).unwrap());
        for window in 0..2 {
            let numbers: Vec<u8> = (0..LEN).flat_map(|index| ((index + 5000 * window) as f32).to_le_bytes()).collect();
            let to = inputs.pages.address + layout.span(0, window).start as u64;
            memory::upload(&table.device, to, &numbers).unwrap();
        }
        Self { table, layout, inputs, outputs }
    }

    fn attach(&self, backend: &mut dyn Backend, entries: Vec<EntryCall>) {
        let wire = self.layout.wire(true, [self.inputs.pages.len, self.outputs.pages.len], entries);
        let (inputs, outputs) = (self.inputs.descriptor(false).unwrap(), self.outputs.descriptor(true).unwrap());
        backend.attach(&wire, inputs, outputs).unwrap();
    }

    /// The whole file of outputs, after it was cleared and `work` was done.
    fn after(&self, work: impl FnOnce()) -> Vec<u8> {
        self.table.clear(self.outputs.pages.address, self.outputs.pages.len).unwrap();
        self.table.device.synchronize().unwrap();
        work();
        let mut bytes = vec![1; self.outputs.pages.len];
        memory::download(&self.table.device, self.outputs.pages.address, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn results_in_memory_of_the_judge_are_seen_there() {
    let Some(mut backend) = cuda() else { return };
    let (_keep, folder) = scratch();
    let names = ["scale_whole".to_owned()];
    backend.load(cubin(&folder).as_str(), &names).unwrap();
    let judges = Judges::new();
    judges.attach(backend.as_mut(), vec![entry(FACTOR, vec![launch("scale_whole", 4, None, None)], Vec::new())]);
    let results = judges.after(|| assert_eq!(backend.call(0, 0, 1).unwrap(), 0));
    let span = judges.layout.span(1, 1);
    let got: Vec<f64> = (0..LEN).map(|index| decode(&results[span.clone()], index, DType::F32)).collect();
    let wanted: Vec<f64> = (0..LEN).map(|index| f64::from(FACTOR) * (index + 5000) as f64).collect();
    assert_eq!(got, wanted);
    assert!(results[..span.start].iter().chain(&results[span.end..]).all(|byte| *byte == 0), "its own window only");
    let (entries, windows) = (&[0][..], &[0, 1][..]);
    let timing = Timing { arena: 0, entries, windows, cold: true, calls: 3, processor: true, handicap: 0.0 };
    let results = judges.after(|| assert!(backend.time(&timing).unwrap() > 0.0));
    assert_eq!(decode(&results[span], 7, DType::F32), f64::from(FACTOR) * 5007.0, "timed calls are calls");
}

/// A fault ends the context of its process: each in one of its own.
#[test]
fn inputs_on_the_device_cannot_be_written() {
    if cuda().is_none() {
        return;
    }
    for test in ["a_write_to_an_input_of_the_judge", "a_write_to_an_input_that_was_copied"] {
        let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--ignored", "--exact", &name]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{name}\n{said}");
    }
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn a_write_to_an_input_of_the_judge() {
    let mut backend = cuda().unwrap();
    let (_keep, folder) = scratch();
    backend.load(cubin(&folder).as_str(), &["scale_input".to_owned()]).unwrap();
    let judges = Judges::new();
    judges.attach(backend.as_mut(), vec![entry(FACTOR, vec![launch("scale_input", 1, None, None)], Vec::new())]);
    let found = backend.call(0, 0, 0);
    assert!(matches!(found, Err(BackendError::Fault(_))), "{found:?}");
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn a_write_to_an_input_that_was_copied() {
    let mut backend = cuda().unwrap();
    let (_keep, folder) = scratch();
    backend.load(cubin(&folder).as_str(), &["scale_input".to_owned()]).unwrap();
    let buffers = vec![
        Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
        Buffer::output("y", Role::Output, DType::F32, 1, LEN),
    ];
    let arena = Arena::new(buffers, 1, Layout::Fenced, 4, 0).unwrap();
    let wire = arena.wire(vec![entry(FACTOR, vec![launch("scale_input", 1, None, None)], Vec::new())]);
    backend.attach(&wire, arena.inputs.descriptor(false).unwrap(), arena.outputs.descriptor(true).unwrap()).unwrap();
    let found = backend.call(0, 0, 0);
    assert!(matches!(found, Err(BackendError::Fault(_))), "{found:?}");
}

#[test]
fn cuda_conforms_or_says_that_there_is_no_device() {
    let Some(mut backend) = cuda() else { return };
    let (_keep, folder) = scratch();
    let object = cubin(&folder);
    let whole = entry(FACTOR, vec![launch("scale_whole", 4, None, None)], Vec::new());
    let clustered = entry(FACTOR, vec![launch("scale_whole", 4, None, Some([2, 1, 1]))], Vec::new());
    let in_two = entry(
        FACTOR,
        vec![
            launch("scale_first", 1, Some(&["x", "sums", "n"]), None),
            launch("scale_second", 1, Some(&["sums", "y", "n", "factor"]), None),
        ],
        vec![Scratch { name: "sums".to_owned(), bytes: 4 * LEN, fill: Fill::Zero }],
    );
    conform(backend.as_mut(), &object, &["scale_whole", "scale_first", "scale_second"], vec![whole, clustered, in_two]);
}

#[test]
fn hip_is_said_to_be_missing() {
    assert!(matches!(super::open(Kind::Hip, &[]).err(), Some(BackendError::NoDevice(_))));
}
