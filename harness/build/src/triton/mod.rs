//! Python sources to device code, ahead of time: a generator compiles what a source lists and tells what each launch needs to
//! know; the launch plan is the crate's, completed with that.
//!
//! The generator runs the candidate's own Python, so that it is trusted with nothing: it works inside walls, with a folder of
//! its own, and what it leaves there is read once. For CUDA that is PTX, which is assembled here: the cubin is what the
//! audit has read.
//!
//! | module | what |
//! |---|---|
//! | `plan` | the crate's launch plan, completed |
//! | `ptx` | PTX of several kernels in one module |

mod plan;
mod ptx;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Backend, Manifest};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;

use crate::environment;
use crate::error::BuildError;
use crate::sandbox::Walls;
use crate::site::Site;
use crate::toolchain::{self, Compiler};

/// The harness's own generator.
pub(crate) const GENERATOR: &str = include_str!("generate.py");

/// The most bytes that the code of a kernel has.
const LARGEST: u64 = 256 << 20;

/// What was made of a source.
pub(crate) struct Made {
    pub object: Utf8PathBuf,
    pub plan: String,
    pub said: String,
}

/// What a generator prints, in the last line of its output.
#[derive(Debug, Deserialize)]
struct Generated {
    kernels: Vec<Kernel>,
}

/// A kernel that was compiled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    /// The name that a launch uses.
    name: String,
    /// PTX for CUDA, a code object for HIP.
    file: String,
    warps: u32,
    warp_size: u32,
    /// Blocks of a cluster.
    #[serde(default = "one")]
    cluster: u32,
    /// Bytes of dynamic shared memory.
    shared: u64,
    /// Fields of the args struct, in the kernel's order.
    arguments: Vec<String>,
    /// Pointers that must be multiples of so many bytes.
    #[serde(default)]
    aligned: BTreeMap<String, u64>,
    /// Sizes that must be multiples of so many.
    #[serde(default)]
    divisible: BTreeMap<String, u64>,
    /// Further arguments: pointers to so many bytes a block.
    #[serde(default)]
    scratch: Vec<u64>,
    /// Products and sums may be fused.
    #[serde(default = "yes")]
    fused: bool,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

/// What runs the generator: an interpreter with Triton, or a program of the crate's choice.
pub(crate) fn compiler(manifest: &Manifest) -> Result<Compiler, String> {
    match manifest.generator.first() {
        Some(word) if !is_script(word) => {
            let program = toolchain::program(word)?;
            // Whoever makes PTX, Triton's assembler takes it.
            Ok(Compiler { roots: toolchain::triton()?.compiler().roots, ..program })
        }
        _ => toolchain::triton().map(|python| python.compiler()),
    }
}

fn is_script(word: &str) -> bool {
    Utf8Path::new(word).extension() == Some("py")
}

/// The target as Triton names it: `cuda:90`, `hip:gfx942`.
pub(crate) fn target(backend: Backend, arch: &str) -> String {
    let bare = arch.strip_prefix("sm_").map_or(arch, |number| number.trim_end_matches(['a', 'f']));
    format!("{}:{bare}", backend.name())
}

/// Runs the generator and makes an object and a plan of what it gives.
pub(crate) fn compile(site: &Site<'_>, scratch: &Utf8Path, candidate: &Candidate) -> Result<Made, BuildError> {
    let manifest = site.manifest;
    let sources: Vec<&str> =
        manifest.compiled().filter(|path| !manifest.generator.iter().any(|word| word == path)).collect();
    let [source] = sources.as_slice() else {
        return Err(wrong("Cargo.toml", format!("language triton takes one compiled source, not {}", sources.len())));
    };
    let folder = scratch.join("generated");
    std::fs::create_dir_all(&folder).map_err(BuildError::file(&folder))?;
    let [printed, mut said] = generate(site, source, &folder, candidate)?;
    let last = printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let generated: Generated = serde_json::from_str(last)
        .map_err(|error| wrong(source, format!("the generator's last line describes no kernels: {error}: `{last}`")))?;
    let read = |kernel: &Kernel| made(&folder, &kernel.file, source);
    let code = generated.kernels.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let plan = plan::complete(&generated.kernels, candidate.plan.as_deref().unwrap_or_default())
        .map_err(|reason| wrong(manifest.launch.as_deref().unwrap_or("launch plan"), reason))?;
    let stem = site.out.join(source.replace('/', "-"));
    let object = match manifest.backend {
        Backend::Hip => {
            let object = stem.with_extension("py.hsaco");
            let [only] = code.as_slice() else {
                let reason = format!("a code object holds one kernel of Triton, KERNELS lists {}", code.len());
                return Err(wrong(source, reason));
            };
            std::fs::write(&object, only).map_err(BuildError::file(&object))?;
            object
        }
        _ => {
            let object = stem.with_extension("py.o");
            let texts = code.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect::<Vec<_>>();
            let module =
                ptx::joined(&generated.kernels, &texts, site.folder).map_err(|reason| wrong(source, reason))?;
            said.push_str(&assemble(site, &generated.kernels, &module, &object)?);
            object
        }
    };
    Ok(Made { object, plan, said })
}

/// What the generator left in `folder` under this name: a file of its own. This process reads outside of the generator's walls, so
/// that a link would lead it to where the generator may not go; and a pipe that nobody writes to would keep it for ever.
fn made(folder: &Utf8Path, file: &str, source: &str) -> Result<Vec<u8>, BuildError> {
    // A name, and no path: what lies elsewhere was not made here.
    let name = Utf8Path::new(file).file_name().unwrap_or_default();
    let path = folder.join(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path.as_std_path(), flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(wrong(source, format!("the generator made `{name}` a link"))),
        opened => File::from(opened.map_err(|error| BuildError::file(&path)(error.into()))?),
    };
    let facts = opened.metadata().map_err(BuildError::file(&path))?;
    if !facts.is_file() {
        return Err(wrong(source, format!("the generator made `{name}` something else than a file")));
    }
    if facts.len() > LARGEST {
        return Err(wrong(
            source,
            format!("the generator's `{name}` has {} bytes: no kernel is so large", facts.len()),
        ));
    }
    let mut bytes = Vec::new();
    opened.take(LARGEST).read_to_end(&mut bytes).map_err(BuildError::file(&path))?;
    Ok(bytes)
}

/// Runs the generator inside walls of its own: it can write to `folder` only.
fn generate(
    site: &Site<'_>,
    source: &str,
    folder: &Utf8Path,
    candidate: &Candidate,
) -> Result<[String; 2], BuildError> {
    let (manifest, compiler) = (site.manifest, site.compiler);
    let mut command = Command::new(&compiler.path);
    match manifest.generator.split_first() {
        None => {
            let own = site.out.join("generate.py");
            std::fs::write(&own, GENERATOR).map_err(BuildError::file(&own))?;
            command.args(["-I", "-B"]).arg(own);
        }
        Some((word, rest)) if is_script(word) => {
            command.args(["-I", "-B", word]).args(rest);
        }
        Some((_, rest)) => {
            command.args(rest);
        }
    }
    let knobs = serde_json::to_string(&candidate.knobs).map_err(|error| BuildError::file("knobs")(error.into()))?;
    command.current_dir(site.folder).arg(source).args(site.flags);
    command.arg("--out").arg(folder).args(["--knobs", &knobs]);
    // What a source is compiled to follows from nothing but itself: no variable of this process reaches it, and nothing of an
    // earlier run.
    let kept = ["PATH", "LD_LIBRARY_PATH"].map(|name| Some((name, environment::text(name)?)));
    command.env_clear().envs(kept.into_iter().flatten());
    command.env("PYTHONHASHSEED", "0").env("TRITON_ALWAYS_COMPILE", "1");
    command.env("HOME", folder).env("TRITON_HOME", folder).env("TRITON_CACHE_DIR", folder.join("cache"));
    let walls = Walls::new(site.folder, manifest, compiler, folder, folder).and_read(site.out.join("generate.py"));
    site.run_inside(&walls, command, source)
}

/// PTX to a cubin, by the assembler that comes with Triton; what it says of registers.
fn assemble(site: &Site<'_>, kernels: &[Kernel], module: &str, object: &Utf8Path) -> Result<String, BuildError> {
    let text = object.with_extension("ptx");
    std::fs::write(&text, module).map_err(BuildError::file(&text))?;
    let architecture = ptx::architecture(module).ok_or_else(|| wrong("PTX", "it names no target".to_owned()))?;
    let newest = architecture.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().unwrap_or(0) >= 100;
    let triton = toolchain::triton().map_err(BuildError::NoCompiler)?;
    let assembler = triton.ptxas(newest).ok_or_else(|| wrong("triton", "it has no assembler".to_owned()))?;
    let mut command = Command::new(assembler);
    command.args(["-v", "-lineinfo"]).arg(format!("--gpu-name={architecture}"));
    if kernels.iter().any(|kernel| !kernel.fused) {
        command.arg("--fmad=false");
    }
    command.current_dir(site.folder).arg(&text).arg("-o").arg(object);
    site.run(command, "the PTX of Triton")
}

fn wrong(file: &str, reason: String) -> BuildError {
    BuildError::Header { header: file.to_owned(), reason }
}

#[cfg(test)]
mod tests;
