//! Class `device`: cubins of the real nvcc. Where it is not installed there is nothing to look at, and the tests say so.

use std::fs;

use camino::Utf8Path;
use kopt_schema::audit::{Audit, Severity, Stateless};
use kopt_schema::manifest::Language;
use kopt_schema::queue::Truth;

use super::{ROOT, audit_in, queue};

/// Compiles a kernel as the harness does; none without nvcc.
fn audited(source: &str) -> Option<Audit> {
    if let Err(why) = kopt_build::toolchain::nvcc() {
        eprintln!("skipped: {why}");
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    fs::create_dir(folder.join("kernels")).unwrap();
    fs::write(folder.join("kernels/probe.cu"), source).unwrap();
    fs::write(folder.join("kernels/probe.h"), "typedef struct { const float *x; float *y; int n; } probe_args;\n")
        .unwrap();
    fs::write(folder.join("kernels/probe.launch.toml"), "").unwrap();
    let text = "[package]\nname = \"probe\"\n[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cuda\"\nshapes = [{ n = 4 }]\n";
    let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let out = folder.join("out");
    let built = kopt_build::compile::compile(folder, &manifest, &out).unwrap();
    Some(audit_in(&out, built.candidate.object.as_deref().unwrap(), &manifest, &[]))
}

fn kernel(before: &str, body: &str) -> String {
    format!(
        "{before}\nextern \"C\" __global__ void probe(const float *x, float *y, int n) {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    float v = i < n ? x[i] : 0.0f;\n    {body}\n    if (i < n) y[i] = v;\n}}\n"
    )
}

#[test]
fn device_code_that_remembers_or_looks_at_the_clock_is_found() {
    let timer = "unsigned long long t; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t)); v += (float)t;";
    let discard = "asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(y));";
    let label = "unsigned t; asm volatile(\"{ here: mov.u32 /* not a comment's end */\\n %0,\\n %%clock; }\" : \"=r\"(t)); v += (float)t;";
    let number = "unsigned long long g; asm volatile(\"mov.u64 %0, %%gridid;\" : \"=l\"(g)); v += (float)g;";
    // Places end without a semicolon, and what begins like one need not be one.
    let behind_a_place =
        "unsigned t; asm volatile(\"\\n.loc 1 5 0 mov.u32 %0, %%clock;\\n\" : \"=r\"(t)); v += (float)t;";
    let split_place =
        "unsigned t; asm volatile(\"\\n.loc 1\\n5 0\\nmov.u32 %0, %%clock;\\n\" : \"=r\"(t)); v += (float)t;";
    let behind_a_label = "asm volatile(\"{ here:\\n.loc 1 5 0\\n there: discard.global.L2 [%0], 128; }\" :: \"l\"(y));";
    let behind_a_spaced_predicate = "asm volatile(\"{ .reg .pred p; setp.ne.s32 p, %1, 0; @ p discard.global.L2 [%0], 128; }\" :: \"l\"(y), \"r\"(n));";
    let behind_local =
        "unsigned t; asm volatile(\"{\\n.local .b8 z[4]; mov.u32 %0, %%clock;\\n}\" : \"=r\"(t)); v += (float)t;";
    let cases = [
        ("", behind_a_place, "device-clock", "%clock"),
        ("", split_place, "device-clock", "%clock"),
        ("", behind_a_label, "device-cache-policy", "discard.global.L2"),
        ("", behind_local, "device-clock", "%clock"),
        ("", behind_a_spaced_predicate, "device-cache-policy", "discard.global.L2"),
        ("", label, "device-clock", "%clock"),
        ("", number, "device-clock", "%gridid"),
        ("__device__ int calls;", "v += atomicAdd(&calls, 1);", "device-global", "calls"),
        ("__device__ float last[2] = {1, 2};", "v += last[i & 1]; last[i & 1] = v;", "device-global", "last"),
        ("", "v += (float)clock64();", "device-clock", "%clock64"),
        (
            "",
            "unsigned t; asm volatile(\"mov.u32 %0, %%clock;\" : \"=r\"(t)); v += (float)t;",
            "device-clock",
            "%clock",
        ),
        ("", timer, "device-clock", "%globaltimer"),
        ("", "float *p = (float *)malloc(4 * n); p[n - 1] = v; v += p[i]; free(p);", "device-allocation", "malloc"),
        ("#include <cstdio>", "printf(\"%d\\n\", i);", "device-output", "vprintf"),
        ("", discard, "device-cache-policy", "discard.global.L2"),
    ];
    for (before, body, rule, what) in cases {
        let Some(audit) = audited(&kernel(before, body)) else { return };
        assert_eq!(audit.stateless, Stateless::Violated, "{rule} {what}");
        let found = audit.findings.iter().find(|finding| finding.rule == rule && finding.what == what);
        let found = found.unwrap_or_else(|| panic!("{rule} {what}: {:#?}", audit.findings));
        assert!(found.symbol.is_some(), "{found:?}");
        if found.instruction.is_some() {
            assert!(found.source.is_some(), "{found:?}");
        }
    }
}

#[test]
fn hints_to_the_cache_are_noted_and_fine() {
    let policy = "unsigned long long p; asm volatile(\"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\" : \"=l\"(p)); v += (float)p;";
    let hint = "unsigned long long p = 0x14F0000000000000ull; asm volatile(\"ld.global.L2::cache_hint.f32 %0, [%1], %2;\" : \"=f\"(v) : \"l\"(x), \"l\"(p));";
    let last = "asm volatile(\"ld.global.L1::evict_last.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));";
    let cases = [
        (last, "ld.global.L1::evict_last.f32"),
        (policy, "createpolicy.fractional.L2::evict_last.b64"),
        (hint, "ld.global.L2::cache_hint.f32"),
    ];
    for (body, what) in cases {
        let Some(audit) = audited(&kernel("", body)) else { return };
        let found = audit.findings.iter().find(|finding| finding.rule == "device-cache-hint" && finding.what == what);
        let found = found.unwrap_or_else(|| panic!("{what}: {:#?}", audit.findings));
        assert_eq!(found.severity, Severity::Note, "{found:?}");
        assert_ne!(audit.stateless, Stateless::Violated, "{:#?}", audit.findings);
    }
}

/// The same for a launcher.
fn launcher(source: &str) -> Option<Audit> {
    if let Err(why) = kopt_build::toolchain::nvcc() {
        eprintln!("skipped: {why}");
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    fs::create_dir(folder.join("kernels")).unwrap();
    fs::write(folder.join("kernels/probe.cu"), source).unwrap();
    fs::write(folder.join("kernels/probe.h"), "typedef struct { const float *x; float *y; long n; } probe_args;\n")
        .unwrap();
    let text = "[package]\nname = \"probe\"\n[package.metadata.kopt]\nop = \"probe\"\nbackend = \"cuda\"\nclass = \"launcher\"\nshapes = [{ n = 4 }]\n";
    let manifest = kopt_schema::manifest::parse("Cargo.toml", text, None).unwrap().unwrap();
    let out = folder.join("out");
    let built = kopt_build::compile::compile(folder, &manifest, &out).unwrap();
    Some(audit_in(&out, built.candidate.object.as_deref().unwrap(), &manifest, &[]))
}

const LAUNCHED: &str = r#"
#include "probe.h"
static __global__ void halve(probe_args args) { if (threadIdx.x < args.n) args.y[threadIdx.x] = 0.5f * args.x[threadIdx.x]; }
"#;

#[test]
fn a_launcher_that_does_more_than_launch_is_found() {
    let entry = |before: &str, body: &str| {
        format!(
            "{LAUNCHED}{before}\nextern \"C\" int probe(const probe_args *args, cudaStream_t stream) {{\n    {body}\n    return cudaPeekAtLastError() != cudaSuccess;\n}}\n"
        )
    };
    let honest = [
        "halve<<<1, 256, 0, stream>>>(*args);",
        "float *part; cudaMallocAsync(&part, 64, stream); cudaMemsetAsync(part, 0, 64, stream); halve<<<1, 256, 0, stream>>>(*args); cudaFreeAsync(part, stream);",
        "cudaFuncSetAttribute(halve, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536); halve<<<1, 256, 65536, stream>>>(*args);",
    ];
    for body in honest {
        let Some(audit) = launcher(&entry("", body)) else { return };
        assert_eq!(audit.stateless, Stateless::NotAudited, "{body}: {:#?}", audit.findings);
        assert!(audit.findings.is_empty(), "{body}: {:#?}", audit.findings);
    }
    let own = "static cudaStream_t own; if (!own) cudaStreamCreate(&own); halve<<<1, 256, 0, own>>>(*args);";
    let cases = [
        ("", own, "launcher-import", "cudaStreamCreate"),
        ("", own, "launcher-data", "own"),
        (
            "",
            "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20); halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-import",
            "cudaDeviceSetLimit",
        ),
        (
            "#include <dlfcn.h>",
            "dlopen(\"libcublas.so\", 2); halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-import",
            "dlopen",
        ),
        (
            "static long calls;",
            "calls += 1; if (calls % 2) halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-data",
            "calls",
        ),
        (
            "__attribute__((constructor)) static void first() { cudaGetLastError(); }",
            "halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-constructor",
            ".init_array",
        ),
        (
            "__attribute__((constructor(200))) static void first() { cudaGetLastError(); }",
            "halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-constructor",
            ".init_array",
        ),
        (
            "static char own__cudaFatCubinHandle[4096];",
            "own__cudaFatCubinHandle[args->n] += 1; halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-data",
            "own__cudaFatCubinHandle",
        ),
        (
            "asm(\".section .data.a,\\\"aw\\\"\\n.zero 60\\n.section .data.b,\\\"aw\\\"\\n.zero 60\\n.text\");",
            "halve<<<1, 256, 0, stream>>>(*args);",
            "launcher-data",
            "bytes of",
        ),
        ("", "cudaLaunchHostFunc(stream, 0, 0);", "launcher-import", "cudaLaunchHostFunc"),
    ];
    for (before, body, rule, what) in cases {
        let Some(audit) = launcher(&entry(before, body)) else { return };
        assert_eq!(audit.stateless, Stateless::Violated, "{rule} {what}");
        let is_it = |finding: &&kopt_schema::audit::Finding| finding.rule == rule && finding.what.contains(what);
        assert!(audit.findings.iter().any(|finding| is_it(&finding)), "{rule} {what}: {:#?}", audit.findings);
    }
}

#[test]
fn honest_device_code_is_proven_stateless() {
    let cases = [
        ("__constant__ float table[4] = {1, 2, 3, 4};", "v *= table[i & 3];", Stateless::Proven),
        (
            "",
            "__shared__ float s[32]; s[threadIdx.x & 31] = v; __syncthreads(); v += s[0]; __stcs(y, v);",
            Stateless::Proven,
        ),
        ("", "v = __expf(v) + tanhf(v) + rsqrtf(v); if (n < 0) __trap();", Stateless::Proven),
        ("", "asm volatile(\"ld.global.L1::evict_first.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));", Stateless::Proven),
        // Nobody clears local memory, which an array is in whose index is computed.
        ("", "float a[8]; for (int k = 0; k < 8; k++) a[(k * n) & 7] = v * k; v += a[i & 7];", Stateless::Presumed),
        // The compiler's tables lie in memory that could be written.
        ("", "v = sinf(v) + (float)cos((double)v);", Stateless::Presumed),
    ];
    for (before, body, stateless) in cases {
        let Some(audit) = audited(&kernel(before, body)) else { return };
        assert_eq!(audit.stateless, stateless, "{body}: {:#?} {:#?}", audit.findings, audit.allowed);
    }
}

/// Every state of the queue of one example, or only its ends.
fn example_is_proven_stateless(package: &str, whole: bool) {
    let (folder, manifest) = queue::example(Utf8Path::new(ROOT), package).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let applied = queue::apply_all(&folder, Utf8Path::from_path(scratch.path()).unwrap()).unwrap();
    let compiles = applied.iter().filter(|patch| patch.truth != Truth::NoBuild);
    let all = std::iter::once(&applied[0].before).chain(compiles.map(|patch| &patch.after));
    let last = applied.iter().rfind(|patch| patch.truth == Truth::Helps).unwrap();
    for folder in all.filter(|folder| whole || [&applied[0].before, &last.after].contains(folder)) {
        let out = folder.join("out");
        let built = kopt_build::compile::compile(folder, &manifest, &out).unwrap();
        let begun = std::time::Instant::now();
        let audit = audit_in(&out, built.candidate.object.as_deref().unwrap(), &manifest, &[]);
        eprintln!("{folder}: {} in {:.1} ms", audit.scope, 1e3 * begun.elapsed().as_secs_f64());
        // Local memory, if the compiler gives it any, is all that may be said of it.
        let is_local = |one: &kopt_schema::audit::Allowed| one.what.starts_with("local memory");
        assert!(audit.allowed.iter().all(is_local), "{folder}: {:#?}", audit.allowed);
        let expected = if audit.allowed.is_empty() { Stateless::Proven } else { Stateless::Presumed };
        assert_eq!(audit.stateless, expected, "{folder}: {:#?}", audit.findings);
    }
}

#[test]
fn the_cuda_examples_are_proven_stateless_and_one_with_every_patch() {
    if let Err(why) = kopt_build::toolchain::nvcc() {
        eprintln!("skipped: {why}");
        return;
    }
    for package in queue::examples(Utf8Path::new(ROOT), |manifest| manifest.language == Language::Cuda).unwrap() {
        example_is_proven_stateless(&package, package == "softmax-cuda");
    }
}
