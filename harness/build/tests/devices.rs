//! Device code by the real compilers. Where one is not installed there is nothing to look at, and the test says so.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::BuildError;
use kopt_build::cache::{Cache, Order};
use kopt_build::compile::{self, Built};
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Backend, Class, Language, Manifest};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-kernels");

const HEADER: &str = "#include <stdint.h>\n\
    typedef struct probe_args { const float *x; float *y; int64_t n; } probe_args;\n";
const BINDINGS: &str = "#[repr(C)]\npub struct probe_args { pub x: *const f32, pub y: *mut f32, pub n: i64 }\n";

/// A crate with one source of a device language.
struct Ground {
    scratch: tempfile::TempDir,
    manifest: Manifest,
}

impl Ground {
    /// Nothing, where the compiler is missing.
    fn new(backend: &str, arch: &str, source: &str) -> Option<Self> {
        let scratch = tempfile::tempdir().unwrap();
        let kernels = scratch.path().join("kernels");
        std::fs::create_dir(&kernels).unwrap();
        let extension = if backend == "cuda" { "cu" } else { "hip" };
        // For where libclang is not installed.
        let bindings = format!("// header digest: {}\n{BINDINGS}", kopt_build::digest_of_bytes(HEADER.as_bytes()));
        let files = [
            (format!("probe.{extension}"), source),
            ("probe.h".into(), HEADER),
            ("probe.bindings.rs".into(), bindings.as_str()),
            ("probe.launch.toml".into(), ""),
        ];
        for (name, text) in files {
            std::fs::write(kernels.join(name), text).unwrap();
        }
        let text = format!(
            "[package.metadata.kopt]\nop = \"probe\"\nbackend = {backend:?}\narch = [{arch:?}]\nshapes = [{{ n = 4 }}]\n"
        );
        let manifest = kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap();
        if let (Some(why), true) = (compile::lacking(&manifest), arch != "native") {
            eprintln!("skipped: {why}");
            return None;
        }
        Some(Self { scratch, manifest })
    }

    fn folder(&self) -> &Utf8Path {
        Utf8Path::from_path(self.scratch.path()).unwrap()
    }

    fn compile(&self) -> Result<Built, BuildError> {
        compile::compile(self.folder(), &self.manifest, &self.folder().join("out"))
    }

    /// As a version is compiled for a match: with this launch plan, which is checked.
    fn candidate(&self, plan: &str) -> Result<Utf8PathBuf, BuildError> {
        std::fs::write(self.folder().join("kernels/probe.launch.toml"), plan).unwrap();
        let order = Order { folder: self.folder().to_owned(), manifest: self.manifest.clone() };
        Cache::new(self.folder().join("cache")).candidate(&order)
    }
}

const WGMMA: &str = r#"
extern "C" __global__ void probe(float *y, unsigned long long a, unsigned long long b)
{
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
    y[threadIdx.x] = d0 + d1 + d2 + d3;
}
"#;

#[test]
fn the_matrix_instructions_of_sm_90a_assemble_for_it_alone() {
    let Some(ground) = Ground::new("cuda", "sm_90a", WGMMA) else { return };
    assert!(ground.compile().unwrap().candidate.flags.contains(&"-arch=sm_90a".to_owned()));
    let plain = Ground::new("cuda", "sm_90", WGMMA).unwrap();
    let refused = plain.compile().unwrap_err();
    assert!(matches!(&refused, BuildError::Compile { output, .. } if output.contains("wgmma")), "{refused}");
}

/// Neither the day nor the files around it are for device code to see.
#[test]
fn device_code_is_the_same_on_every_day_and_among_all_files() {
    let source = r#"
#include "kopt_device.h"
static_assert(__DATE__[7] == '1' && __DATE__[8] == '9' && __TIME__[7] == '0', "the day is a constant");
#if __has_include("probe.h") || __has_include("../Cargo.toml")
#error "a file is seen"
#endif
extern "C" __global__ void probe(float *y) { y[0] = 1; }
"#;
    for (backend, arch) in [("cuda", "sm_90"), ("hip", "gfx90a")] {
        let Some(ground) = Ground::new(backend, arch, source) else { continue };
        let built = ground.compile().map_err(|error| error.to_string()).unwrap();
        assert!(!built.remarks.contains("redefined"), "{backend}: {}", built.remarks);
    }
}

const TWO: &str = r#"
#include "kopt_device.h"
extern "C" __global__ void doubles(const float *x, float *y, long n)
{
    __shared__ float kept[256];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = 2 * kept[(threadIdx.x + 1) % (int)n];
}
extern "C" __global__ void copies(const float *x, float *y, long n) { y[threadIdx.x] = x[threadIdx.x]; }
"#;

/// A plan that launches one of them.
const PLAN: &str = "[[launch]]\nkernel = \"doubles\"\ngrid = [1]\nblock = [256]\nargs = [\"x\", \"y\", \"n\"]\n";

#[test]
fn installed_headers_find_each_other() {
    // CUDA's C++ library knows bf16 only where it finds its header; without, the largest number is 0.
    let source = "#include <cuda_bf16.h>\n#include <cuda/std/limits>\n#include \"probe.h\"\n\
        extern \"C\" __global__ void probe(__nv_bfloat16 *y) { *y = cuda::std::numeric_limits<__nv_bfloat16>::max(); }\n";
    let Some(ground) = Ground::new("cuda", "sm_90", source) else { return };
    let built = ground.compile().unwrap();
    let ptx = std::fs::read_to_string(
        ground.folder().join("out").join(built.candidate.object.unwrap()).with_extension("ptx"),
    );
    assert!(ptx.unwrap().contains(", 32639;"));
    assert!(!built.remarks.contains("has_include"), "{}", built.remarks);
}

#[test]
fn what_each_kernel_takes_is_kept_beside_the_object() {
    for (backend, arch) in [("cuda", "sm_90"), ("hip", "gfx90a")] {
        let Some(ground) = Ground::new(backend, arch, TWO) else { continue };
        let file = ground.candidate(PLAN).unwrap();
        let candidate: Candidate = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let mut found = candidate.resources;
        found.sort_by(|one, other| one.function.cmp(&other.function));
        let names: Vec<&str> = found.iter().map(|one| one.function.as_str()).collect();
        assert_eq!(names, ["copies", "doubles"], "{backend}");
        assert!(found.iter().all(|one| one.registers > 0 && one.spills == 0 && one.stack == 0), "{backend}: {found:?}");
        assert_eq!((found[0].shared, found[1].shared), (0, 1024), "{backend}: {found:?}");
        assert_eq!(found[0].scalar_registers.is_some(), backend == "hip");
        assert_eq!(ground.candidate(PLAN).unwrap(), file);
    }
}

#[test]
fn a_plan_that_names_no_kernel_of_a_hip_source_does_not_build() {
    let Some(ground) = Ground::new("hip", "gfx90a", TWO) else { return };
    let plan = |kernel: &str| format!("[[launch]]\nkernel = {kernel:?}\ngrid = [1]\nblock = [64]\n");
    let file = ground.folder().join("kernels/probe.launch.toml");
    std::fs::write(&file, plan("doubles")).unwrap();
    ground.compile().unwrap();
    std::fs::write(&file, plan("double")).unwrap();
    let refused = ground.compile().unwrap_err().to_string();
    assert!(
        refused.contains("no source has a kernel `double`") && refused.contains("did you mean `doubles`?"),
        "{refused}"
    );
}

#[test]
fn a_plan_that_passes_something_else_than_a_kernel_of_cuda_takes_does_not_build() {
    let Some(ground) = Ground::new("cuda", "sm_90", TWO) else { return };
    ground.candidate(PLAN).unwrap();
    for (from, to, told) in [
        ("\"doubles\"", "\"double\"", "no source has a kernel `double`; did you mean `doubles`?"),
        (", \"n\"]", "]", "kernel `doubles` takes 3 parameters, the plan passes 2"),
        ("[\"x\", \"y\", \"n\"]", "\"struct\"", "takes 3 parameters, the plan passes 1 (`probe_args` by value)"),
    ] {
        let refused = ground.candidate(&PLAN.replace(from, to)).unwrap_err().to_string();
        assert!(refused.starts_with("kernels/probe.launch.toml: ") && refused.contains(told), "{refused}");
    }
    for n in ["int n", "unsigned n"] {
        Ground::new("cuda", "sm_90", &TWO.replace("long n", n)).unwrap().candidate(PLAN).unwrap();
    }
    for (n, bytes) in [("short n", 2), ("float n", 4)] {
        let other = Ground::new("cuda", "sm_90", &TWO.replace("long n", n)).unwrap();
        let refused = other.candidate(PLAN).unwrap_err().to_string();
        let told = format!("parameter 3 of kernel `doubles` has {bytes} bytes, `n` that the plan passes has 8");
        assert!(refused.contains(&told), "{refused}");
    }
}

/// Every name of the header.
const EVERYTHING: &str = r#"
#include "kopt_device.h"
template <typename T> static __device__ void round_trip(const T *x, T *y, int i)
{
    y[i] = kopt_from_float<T>(kopt_float(x[i]) * 2.0f);
}
extern "C" __global__ void KOPT_BOUNDS(256, 2)
probe(const float *x, float *y, const kopt_bf16 *b, kopt_bf16 *c, const kopt_f16 *h, kopt_f16 *g)
{
    __shared__ float scratch[KOPT_MOST_WARPS];
    float value = x[threadIdx.x];
    value += kopt_shuffle(KOPT_ALL_LANES, value, 0) + kopt_shuffle_down(KOPT_ALL_LANES, value, 1, 16);
    value += kopt_shuffle_up(KOPT_ALL_LANES, value, 1) + kopt_shuffle_xor(KOPT_ALL_LANES, value, KOPT_WARP / 2);
    kopt_lanes positive = kopt_ballot(KOPT_ALL_LANES, value > 0.0f);
    scratch[threadIdx.x / KOPT_WARP] = (float)(positive >> kopt_lane() & 1);
    __syncthreads();
    kopt_store_streaming(y + threadIdx.x, value + scratch[0]);
    round_trip(x, y, 1);
    round_trip(b, c, threadIdx.x);
    round_trip(h, g, threadIdx.x);
}
static_assert(sizeof(kopt_bf16) == 2 && sizeof(kopt_f16) == 2, "as in memory");
"#;

#[test]
fn one_header_serves_cuda_and_hip() {
    for (backend, arch) in [("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx90a"), ("hip", "gfx1030")] {
        let Some(ground) = Ground::new(backend, arch, EVERYTHING) else { continue };
        let built = ground.compile().unwrap();
        assert_eq!(built.candidate.resources.len(), 1, "{backend} {arch}: {}", built.remarks);
    }
}

#[test]
fn a_header_of_that_name_elsewhere_is_not_taken() {
    let Some(ground) = Ground::new("cuda", "sm_90", "#include \"../outside/kopt_device.h\"\n") else { return };
    std::fs::create_dir(ground.folder().join("outside")).unwrap();
    std::fs::write(ground.folder().join("outside/kopt_device.h"), "").unwrap();
    let built = ground.compile();
    assert!(
        matches!(built, Err(BuildError::Include { .. }))
            || built.is_ok_and(|built| built.candidate.unconfined.is_some())
    );
}

#[test]
fn native_without_a_device_is_no_error_of_the_crate() {
    for backend in ["cuda", "hip"] {
        let Some(ground) = Ground::new(backend, "native", TWO) else { continue };
        match kopt_build::toolchain::native(ground.manifest.backend) {
            Ok(arch) => assert!(ground.compile().unwrap().candidate.flags.iter().any(|flag| flag.contains(&arch))),
            Err(error) => {
                assert!(matches!(&error, BuildError::NoDevice(_)) && error.to_string().contains("native"), "{error}");
                let candidate = ground.compile().unwrap().candidate;
                assert!(candidate.object.is_none() && candidate.missing.is_some(), "{candidate:?}");
            }
        }
    }
}

const LAUNCHER: &str = r#"
#include "kopt_device.h"
struct probe_args { const float *x; float *y; int n; };
static __global__ void doubles(probe_args args) { args.y[threadIdx.x] = 2 * args.x[threadIdx.x]; }
extern "C" int probe(const probe_args *args, kopt_stream stream)
{
    doubles<<<1, args->n, 0, stream>>>(*args);
    return 0;
}
"#;

#[test]
fn a_launcher_is_a_shared_object_with_its_entry_and_a_runtime_of_its_own() {
    for (backend, arch, needs) in [("cuda", "sm_90", None), ("hip", "gfx90a", Some("libamdhip64.so"))] {
        let Some(mut ground) = Ground::new(backend, arch, LAUNCHER) else { continue };
        ground.manifest.class = Class::Launcher;
        ground.manifest.launch = None;
        let built = ground.compile().unwrap();
        assert_eq!(built.candidate.object.as_deref(), Some("kernel.so"));
        let object = ground.folder().join("out/kernel.so");
        assert!(kopt_build::code::functions(&object).unwrap().contains(&"probe".to_owned()));
        let bytes = std::fs::read(&object).unwrap();
        let names = |library: &str| bytes.windows(library.len()).any(|part| part == library.as_bytes());
        assert!(!names("libcudart.so") && needs.is_none_or(names), "{backend}");
        assert_eq!(built.candidate.resources.len(), 1, "{backend}: {}", built.remarks);
        let mut nameless = Ground::new(backend, arch, &LAUNCHER.replace("int probe", "int other")).unwrap();
        nameless.manifest.class = Class::Launcher;
        assert!(nameless.compile().unwrap_err().to_string().contains("int probe(const probe_args *, kopt_stream)"));
    }
}

fn example(folder: Utf8PathBuf) -> (Utf8PathBuf, Manifest) {
    let manifest = kopt_build::manifest::load(&folder, None, &folder).unwrap().unwrap();
    (folder, manifest)
}

#[test]
fn the_hip_examples_compile_for_both() {
    let folders = Utf8Path::new(EXAMPLES).read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path());
    let crates = folders.filter(|folder| folder.join("Cargo.toml").exists()).map(example);
    let examples: Vec<_> = crates.filter(|(_, manifest)| manifest.language == Language::Hip).collect();
    assert!(!examples.is_empty());
    for (folder, hip) in examples {
        let name = folder.file_name().unwrap();
        let cuda = Manifest {
            backend: Backend::Cuda,
            language: Language::Cuda,
            arch: vec!["sm_90".to_owned()],
            ..hip.clone()
        };
        for manifest in [hip, cuda] {
            if let Some(why) = compile::lacking(&manifest) {
                eprintln!("skipped: {why}");
                continue;
            }
            let out = tempfile::tempdir().unwrap();
            let built = compile::compile(&folder, &manifest, Utf8Path::from_path(out.path()).unwrap()).unwrap();
            let plan = built.candidate.plan.unwrap();
            for function in &built.candidate.resources {
                assert!(plan.contains(&format!("{:?}", function.function)), "{name}: {function:?}");
                assert_eq!(function.spills, 0, "{name}: {function:?}");
            }
            assert_eq!(built.candidate.resources.len(), plan.matches("kernel =").count(), "{name}");
        }
    }
}

#[test]
fn a_folder_with_a_space_in_its_name_is_no_hindrance() {
    let source = "#include \"kopt_device.h\"\nextern \"C\" __global__ void probe(float *y) { y[0] = KOPT_WARP; }\n";
    for (backend, arch) in [("cuda", "sm_90"), ("hip", "gfx90a")] {
        let Some(ground) = Ground::new(backend, arch, source) else { continue };
        // Elsewhere, as cargo's folder for a build script's output is: the header lies there.
        let elsewhere = tempfile::Builder::new().prefix("of two words ").tempdir().unwrap();
        let out = Utf8Path::from_path(elsewhere.path()).unwrap();
        let built = compile::compile(ground.folder(), &ground.manifest, out);
        assert!(built.is_ok(), "{backend}: {}", built.unwrap_err());
    }
}
