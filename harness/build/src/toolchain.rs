//! Which compilers are here. Flags belong to the harness: `CFLAGS` and its like are not read, so that what cargo builds
//! and what a campaign builds are the same.

use std::process::Command;

use camino::Utf8PathBuf;

use crate::environment;
use crate::error::BuildError;

/// A compiler and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: Utf8PathBuf,
    /// The first lines of `--version`.
    pub version: String,
}

/// The C or C++ compiler, as `cc` finds it.
///
/// # Errors
/// When there is none.
pub fn host(cpp: bool) -> Result<Compiler, BuildError> {
    let triple = target_triple();
    let mut build = cc::Build::new();
    build.cpp(cpp).target(&triple).host(&triple).opt_level(3).debug(false).cargo_metadata(false).cargo_warnings(false);
    let tool = build.try_get_compiler().map_err(|error| BuildError::NoCompiler(error.to_string()))?;
    let path = Utf8PathBuf::from_path_buf(tool.path().to_owned())
        .map_err(|path| BuildError::NoCompiler(format!("{} is not valid text", path.display())))?;
    let version = version_of(&path).map_err(|error| BuildError::NoCompiler(format!("{path}: {error}")))?;
    Ok(Compiler { path, version })
}

/// nvcc, from `CUDA_HOME` or `CUDA_PATH`, `PATH`, or the usual folder.
///
/// # Errors
/// Where it was looked for.
pub fn nvcc() -> Result<Compiler, String> {
    let homes =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| environment::path(name)).map(|home| home.join("bin"));
    let usual = Utf8PathBuf::from("/usr/local/cuda/bin");
    let path = homes
        .chain(environment::search_path())
        .chain([usual])
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file());
    let Some(path) = path else {
        return Err("nvcc was not found (looked in CUDA_HOME, CUDA_PATH, PATH and /usr/local/cuda); \
                    pip install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' \
                    'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' and put its bin on PATH"
            .to_owned());
    };
    let version = version_of(&path).map_err(|error| format!("{path} does not run: {error}"))?;
    Ok(Compiler { path, version })
}

/// hipcc, from `ROCM_PATH` or `HIP_PATH`, `PATH`, or the usual folder.
///
/// # Errors
/// Where it was looked for.
pub fn hipcc() -> Result<Compiler, String> {
    let homes =
        ["ROCM_PATH", "HIP_PATH"].iter().filter_map(|name| environment::path(name)).map(|home| home.join("bin"));
    let folders = homes.chain(environment::search_path()).chain([Utf8PathBuf::from("/opt/rocm/bin")]);
    let Some(path) = folders.map(|folder| folder.join("hipcc")).find(|hipcc| hipcc.is_file()) else {
        return Err("hipcc was not found (looked in ROCM_PATH, HIP_PATH, PATH and /opt/rocm)".to_owned());
    };
    let version = version_of(&path).map_err(|error| format!("{path} does not run: {error}"))?;
    Ok(Compiler { path, version })
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
    Ok(Compiler { version: real.file_name().unwrap_or_default().to_owned(), path })
}

/// A program of `PATH`.
///
/// # Errors
/// When it is not there, or does not run.
pub fn program(name: &str) -> Result<Compiler, String> {
    let path = environment::search_path().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path = path.ok_or_else(|| format!("{name} was not found on PATH"))?;
    let version = version_of(&path).map_err(|error| format!("{path} does not run: {error}"))?;
    Ok(Compiler { path, version })
}

/// The triple compiled for: cargo's in a build script, this program's own outside.
#[must_use]
pub fn target_triple() -> String {
    environment::text("TARGET").unwrap_or_else(|| format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
}

/// Whether the code will run on the machine that compiles it.
#[must_use]
pub fn is_native() -> bool {
    match (environment::text("TARGET"), environment::text("HOST")) {
        (Some(target), Some(host)) => target == host,
        _ => true,
    }
}

fn version_of(path: &Utf8PathBuf) -> Result<String, String> {
    let output = Command::new(path).arg("--version").output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
