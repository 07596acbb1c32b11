//! What every backend must do alike: one suite, run on each. Where a backend has no device, that it says so is tested.

#![cfg(test)]

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::DType;
use kopt_schema::manifest::Backend as Kind;
use kopt_schema::plan::{Fill, Launch};
use kopt_schema::wire::{ArgField, EntryCall, Scratch};

use super::gpu::hip::standin::{self, StandIn};
use super::gpu::memory::{self, Exported};
use super::gpu::table::Table;
use super::gpu::{Gpu, driver_of, tests as plans};
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
#include \"planned.cuh\"
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
/// Kernels that ask more of a launch plan.
const PLANNED: &str = include_str!("../../../tests/cuda/planned.cuh");
pub(super) const LEN: usize = 1000;
const FACTOR: f32 = 3.0;

/// A process has one stack for calls on the processor: tests that make such calls take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let (symbol, second, tensor_maps) = ("scale".to_owned(), None, Vec::new());
    EntryCall { symbol, args, fields, second, launches, workspace, tensor_maps }
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
        ("kernels/planned.cuh", PLANNED),
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
    let _turn = alone();
    let (_keep, folder) = scratch();
    let built = compiled(Kind::Cpu, &folder);
    let object = folder.join("out").join(built.candidate.object.unwrap());
    let mut backend = super::open(Kind::Cpu, &[]).unwrap();
    conform(backend.as_mut(), &object, &["scale"], vec![entry(FACTOR, Vec::new(), Vec::new())]);
}

#[test]
fn the_cpu_passes_on_what_an_entry_returns() {
    let _turn = alone();
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

/// GPUs: CUDA's where there is one, and the stand-in for HIP's.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bench {
    Cuda,
    HipStandIn,
}

/// A GPU, what judges on it, and the test kernels as it loads them.
pub(super) struct Bay {
    pub backend: Gpu,
    table: Table,
    pub object: Utf8PathBuf,
    _keep: tempfile::TempDir,
}

impl Bench {
    pub(super) fn bay(self) -> Option<Bay> {
        let (keep, folder) = scratch();
        let (driver, object): (_, fn(&Utf8Path) -> Utf8PathBuf) = match self {
            Self::Cuda => (driver_of(Kind::Cuda), cubin),
            Self::HipStandIn => (Ok(StandIn::new().driver()), |_| standin::object("scale")),
        };
        let opened = driver.and_then(|driver| Ok((Gpu::open(driver)?, Table::over(driver)?)));
        match opened {
            Ok((backend, table)) => Some(Bay { backend, table, object: object(&folder), _keep: keep }),
            Err(error) => {
                assert!(matches!((&error, self), (BackendError::NoDevice(_), Self::Cuda)), "{error}");
                None
            }
        }
    }
}

/// The test kernel's cubin.
fn cubin(folder: &Utf8Path) -> Utf8PathBuf {
    let built = compiled(Kind::Cuda, folder);
    folder.join("out").join(built.candidate.object.expect("a machine with a GPU has nvcc"))
}

/// One call of the test kernel.
pub(super) fn whole() -> EntryCall {
    entry(FACTOR, vec![launch("scale_whole", 4, None, None)], Vec::new())
}

/// Memory of the host for it.
pub(super) fn arena(windows: usize) -> Arena {
    let buffers = vec![
        Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
        Buffer::output("y", Role::Output, DType::F32, 1, LEN),
    ];
    Arena::new(buffers, windows, Layout::Fenced, 4, 0).unwrap()
}

/// Its files, as a worker gets them.
pub(super) fn files(arena: &Arena) -> (OwnedFd, OwnedFd) {
    (arena.inputs.descriptor(false).unwrap(), arena.outputs.descriptor(true).unwrap())
}

fn launch(kernel: &str, grid: u32, fields: Option<&[&str]>, cluster: Option<[u32; 3]>) -> Launch {
    let fields = fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let (kernel, grid, block) = (kernel.to_owned(), [grid, 1, 1], [256, 1, 1]);
    Launch { kernel, grid, block, cluster, shared: 0, fields, cooperative: false }
}

/// Buffers on the device, owned here as a judge owns them: two windows, of which the second holds 5000 and up.
pub(super) struct Judges {
    pub table: Table,
    layout: Blueprint,
    pub inputs: Exported,
    pub outputs: Exported,
}

impl Judges {
    pub(super) fn new(table: Table) -> Result<Self, BackendError> {
        let buffers = vec![
            Buffer::input("x", Role::Activation, DType::F32, 1, LEN),
            Buffer::output("y", Role::Output, DType::F32, 1, LEN),
        ];
        let layout = Blueprint::new(buffers, 2, Layout::Packed, 4, 0);
        let inputs = Exported::new(&table.device, layout.lens[0])?;
        let outputs = Exported::new(&table.device, layout.lens[1])?;
        for window in 0..2 {
            let numbers: Vec<u8> = (0..LEN).flat_map(|index| ((index + 5000 * window) as f32).to_le_bytes()).collect();
            let to = inputs.pages.address + layout.span(0, window).start as u64;
            memory::upload(&table.device, to, &numbers)?;
        }
        Ok(Self { table, layout, inputs, outputs })
    }

    pub(super) fn attach(&self, backend: &mut dyn Backend, entries: Vec<EntryCall>) -> Result<(), BackendError> {
        let wire = self.layout.wire(true, [self.inputs.pages.len, self.outputs.pages.len], entries);
        let (inputs, outputs) = (self.inputs.descriptor(false).unwrap(), self.outputs.descriptor(true).unwrap());
        backend.attach(&wire, inputs, outputs)?;
        Ok(())
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
    [Bench::Cuda, Bench::HipStandIn].into_iter().filter_map(Bench::bay).for_each(results_are_seen);
}

fn results_are_seen(bay: Bay) {
    let Bay { mut backend, table, object, _keep } = bay;
    backend.load(object.as_str(), &["scale_whole".to_owned()]).unwrap();
    let judges = Judges::new(table).unwrap();
    judges.attach(&mut backend, vec![whole()]).unwrap();
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
    let here = [("cuda", Bench::Cuda.bay().is_some()), ("hip", true)];
    for (gpu, _) in here.into_iter().filter(|(_, here)| *here) {
        faults_in_processes_of_their_own(gpu);
    }
}

fn faults_in_processes_of_their_own(gpu: &str) {
    for test in ["a_write_to_an_input_of_the_judge", "a_write_to_an_input_that_was_copied"] {
        let test = format!("{gpu}_{test}");
        let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--ignored", "--exact", &name]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{name}\n{said}");
    }
}

fn of_the_judge(bench: Bench) {
    let Bay { mut backend, table, object, _keep } = bench.bay().unwrap();
    backend.load(object.as_str(), &["scale_input".to_owned()]).unwrap();
    let judges = Judges::new(table).unwrap();
    judges.attach(&mut backend, vec![entry(FACTOR, vec![launch("scale_input", 1, None, None)], Vec::new())]).unwrap();
    let found = backend.call(0, 0, 0);
    assert!(matches!(found, Err(BackendError::Fault(_))), "{found:?}");
}

fn that_was_copied(bench: Bench) {
    let Bay { mut backend, object, _keep, .. } = bench.bay().unwrap();
    backend.load(object.as_str(), &["scale_input".to_owned()]).unwrap();
    let arena = arena(1);
    let wire = arena.wire(vec![entry(FACTOR, vec![launch("scale_input", 1, None, None)], Vec::new())]);
    let (inputs, outputs) = files(&arena);
    backend.attach(&wire, inputs, outputs).unwrap();
    let found = backend.call(0, 0, 0);
    assert!(matches!(found, Err(BackendError::Fault(_))), "{found:?}");
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn cuda_a_write_to_an_input_of_the_judge() {
    of_the_judge(Bench::Cuda);
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn cuda_a_write_to_an_input_that_was_copied() {
    that_was_copied(Bench::Cuda);
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn hip_a_write_to_an_input_of_the_judge() {
    of_the_judge(Bench::HipStandIn);
}

#[test]
#[ignore = "ends the context of its process; inputs_on_the_device_cannot_be_written runs it"]
fn hip_a_write_to_an_input_that_was_copied() {
    that_was_copied(Bench::HipStandIn);
}

/// What a GPU is given to conform with.
fn on_a_gpu(bay: Bay, more: Vec<EntryCall>) {
    let Bay { mut backend, object, _keep, .. } = bay;
    let in_two = entry(
        FACTOR,
        vec![
            launch("scale_first", 1, Some(&["x", "sums", "n"]), None),
            launch("scale_second", 1, Some(&["sums", "y", "n", "factor"]), None),
        ],
        vec![Scratch { name: "sums".to_owned(), bytes: 4 * LEN, fill: Fill::Zero }],
    );
    let entries = [vec![whole(), in_two], more].concat();
    let kernels: Vec<String> = entries.iter().flat_map(|entry| &entry.launches).map(|one| one.kernel.clone()).collect();
    let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
    conform(&mut backend, &object, &kernels, entries);
}

#[test]
fn cuda_conforms_or_says_that_there_is_no_device() {
    let clustered = entry(FACTOR, vec![launch("scale_whole", 4, None, Some([2, 1, 1]))], Vec::new());
    // More than any kernel may have unless it is allowed to; the second must not take from the first what it does not need.
    let [much, less] = [96 << 10, 64 << 10].map(|shared| {
        let launch = Launch { shared, ..launch("scale_whole", 4, None, None) };
        entry(FACTOR, vec![launch], Vec::new())
    });
    if let Some(bay) = Bench::Cuda.bay() {
        on_a_gpu(bay, vec![clustered, much, less, plans::together(), plans::tiles()]);
    }
}

#[test]
fn hip_conforms_on_the_stand_in() {
    let mut together = whole();
    together.launches[0].cooperative = true;
    on_a_gpu(Bench::HipStandIn.bay().unwrap(), vec![together]);
}

/// No AMD device has been seen yet: where there is one, the suite needs a code object for it.
#[test]
fn hip_is_opened_or_said_to_be_missing() {
    match super::open(Kind::Hip, &[]) {
        Ok(mut backend) => assert!(!backend.device().unwrap().is_empty()),
        Err(error) => assert!(matches!(error, BackendError::NoDevice(_)), "{error}"),
    }
}
