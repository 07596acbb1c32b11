//! What a launch plan asks of a GPU beyond a grid: that all blocks are there at once, and tensor maps. Real plans, and kernels
//! (`harness/tests/cuda`) that are wrong or stop without what they ask for. That results are right, for every window, is
//! in `conformance.rs`; here is what is refused, and what tools that watch memory see. Without a device nothing runs.

use std::collections::BTreeMap;

use kopt_schema::DType;
use kopt_schema::expression::Value;
use kopt_schema::plan::{self, Extent, PlanContext};
use kopt_schema::wire::{EntryCall, Scratch};

use super::super::conformance::{self, Bay, Bench, LEN, whole};
use super::super::{Backend as _, BackendError};

/// Every block reads what others have written, after all have.
const TOGETHER: &str = r#"
[[launch]]
kernel = "scale_together"
cooperative = true
grid = [8]
block = [64]
args = ["x", "turned", "y", "n", "factor"]

[[workspace]]
name = "turned"
bytes = "n * 4"
"#;

/// 25 rows of 40, eight rows at a time: the last tile ends outside.
const TILES: &str = r#"
[[launch]]
kernel = "scale_tiles"
grid = ["ceil_div(n / 40, 8)"]
block = [64]
args = ["x_tiles", "y", "n", "factor"]

[[tensor_map]]
name = "x_tiles"
buffer = "x"
sizes = [40, "n / 40"]
box = [40, 8]
l2 = "128"
"#;

fn planned(text: &str) -> EntryCall {
    let context = PlanContext {
        entries: vec![("scale".to_owned(), ["x", "y", "n", "factor"].map(str::to_owned).into())],
        integers: vec!["n".to_owned()],
        texts: Vec::new(),
    };
    let plan = plan::parse("scale.launch.toml", text, &context).unwrap();
    let scope: BTreeMap<String, Value> = [("n".to_owned(), Value::Int(LEN as i64))].into();
    let launches = plan.resolve("scale", &scope).unwrap();
    let extent = |_: &str| Ok(Some(Extent { dtype: DType::F32, bytes: 4 * LEN }));
    let tensor_maps = plan.tensor_maps(&launches, &scope, &extent).unwrap();
    let scratch = |buffer: plan::Workspace| Scratch { name: buffer.name, bytes: buffer.bytes, fill: buffer.fill };
    let workspace = plan.workspace_of(&launches, &scope).unwrap().into_iter().map(scratch).collect();
    EntryCall { launches, workspace, tensor_maps, ..whole() }
}

/// A cooperative call.
pub(crate) fn together() -> EntryCall {
    planned(TOGETHER)
}

/// One that takes a tensor map.
pub(crate) fn tiles() -> EntryCall {
    planned(TILES)
}

/// A GPU of CUDA's with the kernels of a call, where there is one.
fn with(entry: &EntryCall) -> Option<Bay> {
    let mut bay = Bench::Cuda.bay()?;
    let kernels: Vec<String> = entry.launches.iter().map(|launch| launch.kernel.clone()).collect();
    bay.backend.load(bay.object.as_str(), &kernels).unwrap();
    Some(bay)
}

#[test]
fn more_blocks_than_a_device_holds_are_refused_with_what_it_holds() {
    let mut entry = together();
    entry.launches[0].grid = [1 << 20, 1, 1];
    let Some(bay) = with(&entry) else { return };
    let error = bay.backend.call_apart(&entry, &[(4 * LEN, None), (4 * LEN, None)]).unwrap_err();
    let BackendError::Failed(text) = &error else { panic!("{error:?}") };
    let told = text.contains("`scale_together` is cooperative and has 1048576 blocks, of which the device holds ");
    assert!(told && !text.contains("holds 0 "), "{text}");
}

#[test]
fn calls_apart_may_be_cooperative_and_take_tensor_maps() {
    for entry in [together(), tiles()] {
        let Some(bay) = with(&entry) else { return };
        let numbers = vec![0; 4 * LEN];
        bay.backend.call_apart(&entry, &[(4 * LEN, Some(numbers)), (4 * LEN, None)]).unwrap();
    }
}

#[test]
fn a_map_of_what_is_not_aligned_is_refused_before_the_driver_sees_it() {
    let entry = tiles();
    let Some(mut bay) = with(&entry) else { return };
    let arena = conformance::arena(1);
    let mut wire = arena.wire(vec![entry]);
    wire.buffers[0].offsets[0] += 4;
    let (inputs, outputs) = conformance::files(&arena);
    let error = bay.backend.attach(&wire, inputs, outputs).unwrap_err().to_string();
    assert!(error.contains("tensor map `x_tiles`: `x` begins at 0x") && error.contains("no multiple of 16"), "{error}");
}

#[test]
fn what_the_driver_refuses_of_a_map_names_it() {
    let mut entry = tiles();
    entry.tensor_maps[0].tile = vec![512, 1];
    let Some(bay) = with(&entry) else { return };
    let error = bay.backend.call_apart(&entry, &[(4 * LEN, None), (4 * LEN, None)]).unwrap_err().to_string();
    assert!(error.contains("cuTensorMapEncodeTiled (tensor map `x_tiles`)"), "{error}");
}
