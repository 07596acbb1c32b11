//! The compiler, the architecture and the flags that a manifest asks for. Flags belong to the harness; what a crate adds is
//! declared in its manifest and shown.

use camino::Utf8Path;
use kopt_schema::manifest::{Class, Language, Manifest};

use crate::asks;
use crate::error::BuildError;
use crate::sandbox;
use crate::toolchain::{self, Compiler};
use crate::triton;

/// The word that asks for the device that is here.
const NATIVE: &str = "native";

/// The compiler and flags a manifest asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub compiler: Result<Compiler, String>,
    pub flags: Vec<String>,
}

/// The compiler's own words for the moment and for a file's age, as constants: what was judged is what others build, on another
/// day. A source cannot get them back: a name that is undefined once stays undefined.
const SAME_ANYWHERE: [&str; 3] =
    ["-D__DATE__=\"Jan-01-1970\"", "-D__TIME__=\"00:00:00\"", "-D__TIMESTAMP__=\"Thu-Jan-01-00:00:00-1970\""];
/// And those for whether a file is there, in a crate that [could ask](asks::could).
const NO_FILES: [&str; 3] = ["-D__has_include(file)=0", "-D__has_include_next(file)=0", "-D__has_embed(file)=0"];
/// What libstdc++ from version 13 on looks for before it includes it, and then finds missing: it is there already.
const INTEGERS: [&str; 2] = ["-include", "stdint.h"];
/// What a compiler says to that in spite of [`QUIET`].
pub(crate) const OUR_DOING: &str = "<command-line>: warning: \"__has_include";
const QUIET: &str = "-Wno-builtin-macro-redefined";

/// nvcc, with what its assembler tells of each kernel.
const CUDA: [&str; 5] = ["-O3", "-std=c++17", "-lineinfo", "-cubin", "-Xptxas=-v"];

/// hipcc, into one plain code object, with the same.
const HIP: [&str; 6] = [
    "-O3",
    "-std=c++17",
    "-gline-tables-only",
    "--genco",
    "--no-gpu-bundle-output",
    "-Rpass-analysis=kernel-resource-usage",
];

/// The same for class `launcher`: objects with host code, to be linked.
const CUDA_LAUNCHER: [&str; 5] = ["-O3", "-std=c++17", "-lineinfo", "-Xcompiler=-fPIC", "-Xptxas=-v"];
const HIP_LAUNCHER: [&str; 5] =
    ["-O3", "-std=c++17", "-gline-tables-only", "-fPIC", "-Rpass-analysis=kernel-resource-usage"];

/// What keeps a kernel from being compiled here: a compiler that is missing, or a device that it is to be compiled for.
#[must_use]
pub fn lacking(manifest: &Manifest) -> Option<String> {
    Recipe::of(Utf8Path::new("."), manifest).ok()?.compiler.err()
}

impl Recipe {
    pub(crate) fn of(folder: &Utf8Path, manifest: &Manifest) -> Result<Self, BuildError> {
        let mut flags: Vec<String> = Vec::new();
        let mut compiler = match (manifest.class, manifest.language) {
            (Class::Native, language) => {
                let cpp = language == Language::Cpp;
                flags.extend([if cpp { "-std=gnu++17" } else { "-std=gnu11" }, "-O3"].map(str::to_owned));
                flags.extend(native_flag());
                // No errno from sqrt and its like: nothing reads it, and it keeps loops from being vectorised.
                flags.extend(["-fPIC", "-g1", "-Wall", "-Wextra", "-fno-math-errno"].map(str::to_owned));
                // The same bytes wherever the crate lies.
                flags.push(format!("-ffile-prefix-map={folder}=."));
                Ok(toolchain::host(cpp)?)
            }
            (Class::Device, Language::Cuda) => {
                flags.extend(CUDA.map(str::to_owned));
                toolchain::nvcc()
            }
            (Class::Device, Language::Hip) => {
                flags.extend(HIP.map(str::to_owned));
                toolchain::hipcc()
            }
            (Class::Device, Language::Triton) => triton::compiler(manifest),
            (Class::Launcher, Language::Cuda) => {
                flags.extend(CUDA_LAUNCHER.map(str::to_owned));
                toolchain::nvcc()
            }
            (Class::Launcher, Language::Hip) => {
                flags.extend(HIP_LAUNCHER.map(str::to_owned));
                toolchain::hipcc()
            }
            (class, _) => Err(format!(
                "backend {} with class {} cannot be compiled by this version",
                manifest.backend.name(),
                class.name()
            )),
        };
        if manifest.class != Class::Native {
            match architecture(manifest) {
                Ok(name) => flags.push(match manifest.language {
                    Language::Cuda => format!("-arch={name}"),
                    Language::Hip => format!("--offload-arch={name}"),
                    _ => format!("--target={}", triton::target(manifest.backend, &name)),
                }),
                // Without a compiler it does not matter what for.
                Err(error) => compiler = compiler.and(Err(error.to_string())),
            }
        }
        if manifest.language != Language::Triton {
            flags.push(if manifest.language == Language::Cuda {
                format!("-Xcompiler={QUIET}")
            } else {
                QUIET.to_owned()
            });
            flags.extend(SAME_ANYWHERE.map(str::to_owned));
            if asks::could(folder, manifest) {
                flags.extend(NO_FILES.map(str::to_owned));
                if manifest.language != Language::C {
                    flags.extend(INTEGERS.map(str::to_owned));
                }
            }
            flags.extend(manifest.include_roots.iter().map(|root| format!("-I{root}")));
            // Not for the assembler, which would look there for what is not in the crate's own folder.
            flags.push(if manifest.class == Class::Native { "-iquotekernels" } else { "-Ikernels" }.to_owned());
        }
        if let Some((flag, why)) = manifest.flags.iter().find_map(|flag| Some((flag, sandbox::refused(flag)?))) {
            let reason = format!("the flag `{flag}` {why}: remove it from `flags`");
            return Err(BuildError::Header { header: "Cargo.toml".to_owned(), reason });
        }
        flags.extend(manifest.flags.iter().cloned());
        Ok(Self { compiler, flags })
    }

    /// Whether the crate is told that no file is there.
    pub(crate) fn hides_files(&self) -> bool {
        self.flags.iter().any(|flag| flag == NO_FILES[0])
    }

    /// Whether it is still the recipe for what the crate's files hold.
    pub(crate) fn still_suits(&self, folder: &Utf8Path, manifest: &Manifest) -> bool {
        manifest.language == Language::Triton || self.hides_files() == asks::could(folder, manifest)
    }
}

fn native_flag() -> Option<String> {
    let flag = if toolchain::target_triple().starts_with("aarch64") { "-mcpu=native" } else { "-march=native" };
    toolchain::is_native().then(|| flag.to_owned())
}

/// Whether it is the device here that decides what is compiled for: one architecture that is named is what it is anywhere.
pub(crate) fn asks_for_device(manifest: &Manifest) -> bool {
    manifest.class != Class::Native && only_named(manifest).is_none()
}

fn only_named(manifest: &Manifest) -> Option<&str> {
    match manifest.arch.as_slice() {
        [only] if only != NATIVE => Some(only),
        _ => None,
    }
}

/// The architecture to compile for: of several, the one that the device here is of, else the first. `native` is whatever the
/// device here is.
fn architecture(manifest: &Manifest) -> Result<String, BuildError> {
    if let Some(only) = only_named(manifest) {
        return Ok(only.to_owned());
    }
    let chosen = |device: Option<&str>| choose(&manifest.arch, device).map(str::to_owned);
    match toolchain::native(manifest.backend) {
        Ok(device) => Ok(chosen(Some(&device)).unwrap_or(device)),
        Err(error) => chosen(None).ok_or(error),
    }
}

fn choose<'a>(listed: &'a [String], device: Option<&'a str>) -> Option<&'a str> {
    let fits = |name: &str| device.is_some_and(|device| name == device || Some(name) == device.strip_suffix('a'));
    let names = || listed.iter().map(String::as_str);
    let of_device = names().find_map(|name| if name == NATIVE { device } else { fits(name).then_some(name) });
    of_device.or_else(|| names().find(|name| *name != NATIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_architectures_the_one_of_the_device_is_taken() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cases: [(&[&str], Option<&str>, Option<&str>); 7] = [
            (&["sm_80", "sm_90a"], Some("sm_90a"), Some("sm_90a")),
            (&["sm_80", "sm_90"], Some("sm_90a"), Some("sm_90")),
            (&["sm_80", "sm_90"], Some("sm_100a"), Some("sm_80")),
            (&["sm_80", "sm_90"], None, Some("sm_80")),
            (&["native", "sm_90"], None, Some("sm_90")),
            (&["native", "sm_90"], Some("sm_120a"), Some("sm_120a")),
            (&["native"], None, None),
        ];
        for (listed, device, wanted) in cases {
            assert_eq!(choose(&list(listed), device), wanted, "{listed:?} on {device:?}");
        }
    }
}
