//! Which compilers are here. Flags belong to the harness: `CFLAGS` and its like are not read, so that what cargo builds
//! and what a campaign builds are the same.
//!
//! | module | what |
//! |---|---|
//! | `search` | nvcc, hipcc and HIP's runtime, and each place they were looked for in |
//! | `python` | interpreters, the packages they have, and Triton |
//! | `device` | what the device here is, and which CUDA its driver takes |

mod device;
mod python;
mod search;

use std::process::Command;
use std::sync::OnceLock;

use camino::Utf8PathBuf;

pub use device::{native, newer_than_driver, wheels};
pub use python::{Python, own_venv, triton};
pub use search::{compute_sanitizer, hip_runtime, hipcc, nvcc};

use crate::environment;
use crate::error::BuildError;

/// A compiler and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: Utf8PathBuf,
    /// What `--version` says, and that of the compiler of host code that it is told to use.
    pub version: String,
    /// Folders with parts of it, beside the one that it stands in.
    pub roots: Vec<Utf8PathBuf>,
    /// The compiler of host code that nvcc is told to use: a program, or the folder of one. No other compiler has one.
    pub host: Option<Utf8PathBuf>,
}

impl Compiler {
    /// Where it really is: what has no folder in its name is found by `PATH` alone, whatever lies in the current folder.
    pub(crate) fn real(&self) -> Option<Utf8PathBuf> {
        if self.path.as_str().contains('/') {
            return self.path.canonicalize_utf8().ok();
        }
        let places = environment::search_path().into_iter().map(|place| place.join(&self.path));
        places.filter(|path| path.is_file()).find_map(|path| path.canonicalize_utf8().ok())
    }

    /// Where its parts lie beside it: `bin`, `lib`, `include`. The whole system is no folder of a compiler.
    pub(crate) fn home(&self) -> Option<Utf8PathBuf> {
        let home = self.real()?.parent()?.parent()?.to_owned();
        (home != "/").then_some(home)
    }
}

/// The C or C++ compiler, as `cc` finds it.
///
/// # Errors
/// When there is none.
pub fn host(cpp: bool) -> Result<Compiler, BuildError> {
    // `cc` starts the compiler twice to find out what flags it would take, which nobody here asks. Where it is follows from
    // the environment, which stays as it is; what lies there may be replaced at any time.
    static PLACES: [OnceLock<Utf8PathBuf>; 2] = [const { OnceLock::new() }; 2];
    let place = &PLACES[usize::from(cpp)];
    let path = match place.get() {
        Some(path) => path.clone(),
        None => {
            let path = place_of_host(cpp)?;
            place.get_or_init(|| path).clone()
        }
    };
    let version = version_of(&path).map_err(|error| BuildError::NoCompiler(format!("{path}: {error}")))?;
    Ok(Compiler { path, version, roots: Vec::new(), host: None })
}

fn place_of_host(cpp: bool) -> Result<Utf8PathBuf, BuildError> {
    let (triple, host) = (target_triple(), of_cargo("HOST").unwrap_or_else(own_triple));
    let mut build = cc::Build::new();
    build.cpp(cpp).target(&triple).host(&host).opt_level(3).debug(false).cargo_metadata(false).cargo_warnings(false);
    let tool = build.try_get_compiler().map_err(|error| BuildError::NoCompiler(error.to_string()))?;
    Utf8PathBuf::from_path_buf(tool.path().to_owned())
        .map_err(|path| BuildError::NoCompiler(format!("{} is not valid text", path.display())))
}

/// libclang, which bindgen loads. Its version is in the name of the file that it is a link to.
///
/// # Errors
/// Why it cannot be loaded.
pub fn libclang() -> Result<Compiler, String> {
    clang_sys::load().map_err(|error| error.lines().next().unwrap_or_default().to_owned())?;
    let library = clang_sys::get_library().ok_or("it was loaded and is not there")?;
    let path = Utf8PathBuf::from_path_buf(library.path().to_owned())
        .map_err(|path| format!("{} is not valid text", path.display()))?;
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.clone());
    Ok(Compiler { version: real.file_name().unwrap_or_default().to_owned(), path, roots: Vec::new(), host: None })
}

/// A program of `PATH`.
///
/// # Errors
/// When it is not there, or does not run.
pub fn program(name: &str) -> Result<Compiler, String> {
    let path = environment::search_path().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = path.ok_or_else(|| format!("{name} was not found on PATH"))?;
    let version = version_of(&path).map_err(|error| format!("{path} does not run: {error}"))?;
    Ok(Compiler { path, version, roots: Vec::new(), host: None })
}

/// The triple compiled for: cargo's in a build script, this program's own outside.
#[must_use]
pub fn target_triple() -> String {
    of_cargo("TARGET").unwrap_or_else(own_triple)
}

/// A variable that cargo sets for build scripts. Outside of one it may stand for anything.
fn of_cargo(name: &str) -> Option<String> {
    let is_script = ["OUT_DIR", "CARGO_MANIFEST_DIR"].iter().all(|name| environment::text(name).is_some());
    environment::text(name).filter(|_| is_script)
}

fn own_triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Whether the code will run on the machine that compiles it.
#[must_use]
pub fn is_native() -> bool {
    match (of_cargo("TARGET"), of_cargo("HOST")) {
        (Some(target), Some(host)) => target == host,
        _ => true,
    }
}

fn version_of(path: &Utf8PathBuf) -> Result<String, String> {
    // Where nvcc is on PATH, hipcc would ask it.
    let output =
        Command::new(path).arg("--version").env("HIP_PLATFORM", "amd").output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
