//! The only place of the harness that reads the environment, and so the list of its variables.
#![allow(clippy::disallowed_methods, reason = "this is the place")]

use camino::Utf8PathBuf;
use kopt_schema::manifest::Backend;

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// `CUDA_VISIBLE_DEVICES` and `HIP_VISIBLE_DEVICES`: what the driver takes for the first device. `--device` sets them.
pub(crate) fn visible_devices(backend: Backend) -> String {
    let name = if backend == Backend::Hip { "HIP_VISIBLE_DEVICES" } else { "CUDA_VISIBLE_DEVICES" };
    let all = text(name).unwrap_or_else(|| "0".to_owned());
    format!("{} {}", backend.name(), all.split(',').next().unwrap_or_default())
}

/// What says which inputs are drawn: not for candidates to read.
pub(crate) const OF_SEEDS: [&str; 2] = ["KOPT_SEED", "KOPT_SEEDS"];

/// `KOPT_SEED`: repeat this seed, hexadecimal, instead of drawing secret ones.
pub(crate) fn seed() -> Option<Result<u64, String>> {
    let text = text("KOPT_SEED")?;
    let digits = text.trim_start_matches("0x");
    Some(u64::from_str_radix(digits, 16).map_err(|_| format!("KOPT_SEED=`{text}` is not a hexadecimal number")))
}

/// `KOPT_SEEDS`: seeds a trial, instead of the manifest's number.
pub(crate) fn seeds() -> Option<u32> {
    text("KOPT_SEEDS")?.parse().ok()
}

/// `KOPT_TRIALS=few`: of shapes whose reference takes long, one distribution each. For a second look at what has passed all.
pub(crate) fn few_trials() -> bool {
    text("KOPT_TRIALS").is_some_and(|word| word == "few")
}

/// `KOPT_TIMEOUT`: seconds after which a kernel counts as hanging, instead of the manifest's number.
pub(crate) fn timeout_s() -> Option<f64> {
    text("KOPT_TIMEOUT")?.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)
}

/// `KOPT_OUT`: the file that messages are appended to.
pub(crate) fn out() -> Option<Utf8PathBuf> {
    text("KOPT_OUT").map(Utf8PathBuf::from)
}

/// `KOPT_CANDIDATE`: the `candidate.json` to run instead of the one the crate was built with.
pub(crate) fn candidate() -> Option<Utf8PathBuf> {
    text("KOPT_CANDIDATE").map(Utf8PathBuf::from)
}

/// `KOPT_BENCH=quick`: fewer and shorter samples.
pub(crate) fn quick_bench() -> bool {
    text("KOPT_BENCH").is_some_and(|word| word == "quick")
}

/// `KOPT_DUEL`: the order of an interleaved comparison, a JSON file.
pub(crate) fn duel() -> Option<Utf8PathBuf> {
    text("KOPT_DUEL").map(Utf8PathBuf::from)
}

/// `ROCM_PATH`: the folder of ROCm, whose `lib` has HIP's runtime.
pub(crate) fn rocm() -> Option<Utf8PathBuf> {
    text("ROCM_PATH").map(Utf8PathBuf::from)
}
