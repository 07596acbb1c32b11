//! The HIP backend against the stand-in: what goes wrong in the library is told by the function's and the error's name.
//! That it does what every backend must is in `conformance.rs`, and that the judge's kernels do, in the deck's tests.

use kopt_schema::wire::{Blame, EntryCall};

use super::super::super::conformance::{self, Judges};
use super::super::super::{Backend as _, BackendError, Timing};
use super::super::Gpu;
use super::super::table::Table;
use super::standin::{StandIn, object};
use super::{compiler, library};

/// Whatever the backend can do: a judge's memory, a kernel that is loaded, called and timed, and ceilings.
fn everything(standin: &StandIn) -> Result<(), BackendError> {
    let mut backend = Gpu::open(standin.driver())?;
    assert_eq!(backend.device()?, "stand-in 0");
    backend.load(object("scale").as_str(), &["scale_whole".to_owned()])?;
    let judges = Judges::new(Table::over(standin.driver())?)?;
    let (arena, entry) = (conformance::arena(1), conformance::whole());
    judges.attach(&mut backend, vec![entry.clone()])?;
    let (inputs, outputs) = conformance::files(&arena);
    backend.attach(&arena.wire(vec![entry]), inputs, outputs)?;
    for arena in 0..2 {
        backend.call(arena, 0, 0)?;
        let (entries, windows) = (&[0][..], &[0][..]);
        let timing = Timing { arena, entries, windows, cold: true, calls: 1, processor: false, handicap: 0.0 };
        backend.time(&timing)?;
    }
    backend.ceilings()?;
    // Kernels of the judge, and memory within the device.
    judges.table.pattern(judges.outputs.pages.address, 64, 1)?;
    judges.table.copy(judges.outputs.pages.address, judges.inputs.pages.address, 64)?;
    judges.table.device.synchronize()
}

fn names() -> Vec<&'static str> {
    let spoken = ["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"];
    let all = library::Functions::NAMES.iter().chain(compiler::Functions::NAMES).copied();
    all.filter(|name| !spoken.contains(name)).collect()
}

#[test]
fn everything_works_and_is_given_back() {
    for version in [60_000_000, 70_100_000] {
        let standin = StandIn::new();
        standin.version(version);
        everything(&standin).unwrap();
        for name in names() {
            assert!(standin.calls(name) > 0, "{name} is never called");
        }
        assert_eq!(standin.live(), 0, "with runtime {version}");
    }
}

#[test]
fn a_call_that_fails_is_named_with_its_error() {
    for name in names() {
        let standin = StandIn::new();
        standin.fail(name, 999);
        let found = everything(&standin);
        // What cannot be given back ends with the process.
        if ["hipFree", "hipMemUnmap", "hipMemAddressFree"].contains(&name) {
            found.unwrap();
            continue;
        }
        let error = found.expect_err(name).to_string();
        let word = if name.starts_with("hiprtc") { "HIPRTC_ERROR_COMPILATION" } else { "hipErrorUnknown" };
        assert!(error.contains(&format!("HIP, {name}")) && error.contains(word), "{name}: {error}");
    }
}

#[test]
fn the_compiler_is_quoted() {
    let standin = StandIn::new();
    standin.fail("hiprtcCompileProgram", 6);
    let error = Table::over(standin.driver()).unwrap_err().to_string();
    assert!(error.contains("table.cu: what the compiler says"), "{error}");
    standin.fail("hiprtcGetProgramLog", 1);
    assert!(Table::over(standin.driver()).is_err());
}

#[test]
fn no_device_is_said_by_its_type() {
    let standins = [(); 3].map(|()| StandIn::new());
    standins[0].devices(0);
    standins[1].fail("hipInit", 100);
    standins[2].version(50_221_153);
    for (standin, word) in standins.iter().zip(["hipErrorNoDevice", "hipErrorNoDevice", "6.0"]) {
        for error in [Gpu::open(standin.driver()).err(), Table::over(standin.driver()).err()] {
            assert!(matches!(&error, Some(BackendError::NoDevice(why)) if why.contains(word)), "{error:?}");
        }
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_and_not_a_fault() {
    for bytes in [0, 1 << 12, 1 << 20] {
        let standin = StandIn::new();
        standin.memory(bytes);
        let error = everything(&standin).unwrap_err();
        let BackendError::NoMemory(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("hipErrorOutOfMemory (out of memory)"), "{text}");
        assert_eq!(error.blame(), Blame::NoMemory);
        assert_eq!(standin.live(), 0, "what was there is given back");
    }
}

#[test]
fn what_is_no_code_object_and_what_it_lacks_are_told() {
    let standin = StandIn::new();
    let mut backend = Gpu::open(standin.driver()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("object");
    std::fs::write(&path, [7; 256]).unwrap();
    let error = backend.load(path.to_str().unwrap(), &[]).unwrap_err().to_string();
    assert!(
        error.contains("the code object does not load here: HIP, hipModuleLoadData: hipErrorInvalidImage"),
        "{error}"
    );
    let error = backend.load(object("scale").as_str(), &["no_such_kernel".to_owned()]).unwrap_err().to_string();
    assert_eq!(error, "the code object has no kernel `no_such_kernel`; is it extern \"C\"?");
}

#[test]
fn a_call_apart_has_an_allocation_for_each_buffer_and_gives_all_back() {
    let standin = StandIn::new();
    let mut backend = Gpu::open(standin.driver()).unwrap();
    backend.load(object("scale").as_str(), &["scale_whole".to_owned()]).unwrap();
    let bytes = 4 * conformance::LEN;
    let before = (standin.calls("hipMalloc"), standin.live());
    backend.call_apart(&conformance::whole(), &[(bytes, Some(vec![0; bytes])), (bytes, None)]).unwrap();
    assert_eq!((standin.calls("hipMalloc"), standin.live()), (before.0 + 2, before.1));
    standin.fail("hipModuleLaunchKernel", 719);
    let error = backend.call_apart(&conformance::whole(), &[(bytes, None), (bytes, None)]).unwrap_err();
    assert!(matches!(error, BackendError::Fault(_)), "{error:?}");
}

#[test]
fn clusters_are_refused() {
    let standin = StandIn::new();
    let mut backend = Gpu::open(standin.driver()).unwrap();
    backend.load(object("scale").as_str(), &["scale_whole".to_owned()]).unwrap();
    let arena = conformance::arena(1);
    let mut entry = conformance::whole();
    entry.launches[0].cluster = Some([2, 1, 1]);
    let (inputs, outputs) = conformance::files(&arena);
    backend.attach(&arena.wire(vec![entry]), inputs, outputs).unwrap();
    let error = backend.call(0, 0, 0).unwrap_err().to_string();
    assert!(error.contains("clusters") && error.contains("hipErrorNotSupported"), "{error}");
}

#[test]
fn cooperative_launches_are_the_runtimes_own() {
    let standin = StandIn::new();
    let mut backend = Gpu::open(standin.driver()).unwrap();
    backend.load(object("scale").as_str(), &["scale_whole".to_owned()]).unwrap();
    let bytes = 4 * conformance::LEN;
    let mut entry = conformance::whole();
    entry.launches[0].cooperative = true;
    backend.call_apart(&entry, &[(bytes, Some(vec![0; bytes])), (bytes, None)]).unwrap();
    let calls = ["hipModuleLaunchCooperativeKernel", "hipModuleLaunchKernel"].map(|name| standin.calls(name));
    assert_eq!(calls, [1, 0]);
    standin.fail("hipModuleLaunchCooperativeKernel", 720);
    let error = backend.call_apart(&entry, &[(bytes, None), (bytes, None)]).unwrap_err().to_string();
    assert!(error.contains("HIP, hipModuleLaunchCooperativeKernel: hipErrorCooperativeLaunchTooLarge"), "{error}");
}

#[test]
fn tensor_maps_are_refused() {
    let standin = StandIn::new();
    let mut backend = Gpu::open(standin.driver()).unwrap();
    backend.load(object("scale").as_str(), &["scale_whole".to_owned()]).unwrap();
    let bytes = 4 * conformance::LEN;
    let tensor_maps = super::super::tests::tiles().tensor_maps;
    let entry = EntryCall { tensor_maps, ..conformance::whole() };
    let error = backend.call_apart(&entry, &[(bytes, None), (bytes, None)]).unwrap_err().to_string();
    assert!(error.contains("tensor map `x_tiles`") && error.contains("hipErrorNotSupported"), "{error}");
}

/// Runs the real compiler, if it is here; `source` is read as HIP.
fn hipcc(arguments: &[&str], source: &camino::Utf8Path) {
    let Ok(hipcc) = kopt_build::toolchain::hipcc() else { return };
    let mut command = std::process::Command::new(hipcc.path);
    command.env("HIP_PLATFORM", "amd").args(["-std=c++17", "--offload-arch=gfx90a"]).args(arguments);
    let output = command.args(["-x", "hip"]).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_judges_kernels_compile_for_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("table.co");
    let source = camino::Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("src/runner/backend/gpu/table.cu");
    // What hiprtc includes by itself.
    let arguments = ["-include", "hip/hip_runtime.h", "-ffp-contract=off", "--genco", "--no-gpu-bundle-output", "-o"];
    hipcc(&[&arguments[..], &[object.to_str().unwrap()]].concat(), &source);
}

#[test]
fn numbers_are_those_of_the_headers() {
    let numbers = [
        ("hipStreamNonBlocking", i64::from(super::STREAM_NON_BLOCKING)),
        ("hipEventDefault", i64::from(super::EVENT_DEFAULT)),
        ("hipDeviceAttributeL2CacheSize", super::ATTRIBUTE_L2_CACHE_SIZE.into()),
        ("hipMemAllocationTypePinned", super::ALLOCATION_PINNED.into()),
        ("hipMemHandleTypePosixFileDescriptor", super::HANDLE_FILE_DESCRIPTOR.into()),
        ("hipMemLocationTypeDevice", super::LOCATION_DEVICE.into()),
        ("hipMemAllocationGranularityRecommended", super::GRANULARITY_RECOMMENDED.into()),
        ("hipMemAccessFlagsProtRead", super::ACCESS_READ.into()),
        ("hipMemAccessFlagsProtReadWrite", super::ACCESS_READ_WRITE.into()),
        ("hipErrorNotSupported", super::NOT_SUPPORTED.into()),
        ("hipErrorNoDevice", 100),
        ("hipErrorInvalidDevice", 101),
        ("hipErrorNotFound", 500),
        ("hipErrorIllegalAddress", 700),
        ("hipErrorLaunchTimeOut", 702),
        ("hipErrorAssert", 710),
        ("hipErrorLaunchFailure", 719),
    ];
    let asserts = numbers.map(|(name, number)| format!("static_assert((long)({name}) == {number}, \"{name}\");\n"));
    let rights =
        "static_assert(sizeof(hipMemAccessDesc) == 12 && sizeof(hipMemGenericAllocationHandle_t) == 8, \"\");\n";
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("numbers.cpp");
    std::fs::write(&source, format!("#include <hip/hip_runtime_api.h>\n{}{rights}", asserts.concat())).unwrap();
    hipcc(&["-fsyntax-only"], camino::Utf8Path::from_path(&source).unwrap());
}
