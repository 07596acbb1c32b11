//! nvcc, NVIDIA's sanitizer, hipcc and HIP's runtime: where they are looked for, and each of these places in words for when nothing is there.

use camino::{Utf8Path, Utf8PathBuf};

use super::{Compiler, python, version_of};
use crate::environment;

/// nvcc, from `CUDA_HOME` or `CUDA_PATH`, `PATH`, the usual folder, or a package of a Python that is here; with the compiler of host
/// code that `NVCC_CCBIN` names: where the system's own is too new for it, it compiles nothing without. That variable is read
/// here alone.
///
/// # Errors
/// Each place that was looked at, or why what is named there is of no use.
pub fn nvcc() -> Result<Compiler, String> {
    let mut search = Search::new("nvcc");
    let found = search
        .home("CUDA_HOME")
        .or_else(|| search.home("CUDA_PATH"))
        .or_else(|| search.path())
        .or_else(|| search.folder("/usr/local/cuda/bin"))
        .or_else(|| search.packages());
    let nvcc = search.end(found, Some("cuda"))?;
    match environment::text("NVCC_CCBIN") {
        Some(named) => with_host(nvcc, &named),
        None => Ok(nvcc),
    }
}

/// nvcc with a compiler of host code: a program, one of `PATH`, or the folder of a gcc. What that is and where it lies is as much a
/// part of nvcc as its own version.
fn with_host(nvcc: Compiler, named: &str) -> Result<Compiler, String> {
    let wrong = |why: String| {
        format!("NVCC_CCBIN names `{named}`, which is of no use: {why}; name another compiler there, or unset it")
    };
    let place = match named.contains('/') {
        true => camino::absolute_utf8(named).map_err(|error| wrong(error.to_string()))?,
        false => super::program(named).map_err(wrong)?.path,
    };
    let path = if place.is_dir() { place.join("gcc") } else { place.clone() };
    let version = version_of(&path).map_err(|error| wrong(format!("{path} does not run: {error}")))?;
    let host = Compiler { path, version, roots: Vec::new(), host: None };
    let version = format!("{}\nwith {place}: {}", nvcc.version, host.version);
    Ok(Compiler { version, roots: host.home().into_iter().collect(), host: Some(place), ..nvcc })
}

/// NVIDIA's sanitizer of device code, from the places of [`nvcc`] that hold a whole toolkit.
///
/// # Errors
/// Each place that was looked at.
pub fn compute_sanitizer() -> Result<Compiler, String> {
    let mut search = Search::new("compute-sanitizer");
    let found = search
        .home("CUDA_HOME")
        .or_else(|| search.home("CUDA_PATH"))
        .or_else(|| search.path())
        .or_else(|| search.folder("/usr/local/cuda/bin"));
    search.end(found, None)
}

/// hipcc, from `ROCM_PATH` or `HIP_PATH`, `PATH`, or the usual folder.
///
/// # Errors
/// Each place that was looked at.
pub fn hipcc() -> Result<Compiler, String> {
    let mut search = Search::new("hipcc");
    let found = search
        .home("ROCM_PATH")
        .or_else(|| search.home("HIP_PATH"))
        .or_else(|| search.path())
        .or_else(|| search.folder("/opt/rocm/bin"));
    search.end(found, Some("hip"))
}

/// The library that HIP kernels run by, `libamdhip64`: where the harness's backend would load it from. It is not loaded here; its
/// version is in the name of the file that it is a link to.
///
/// # Errors
/// Where it was looked for.
pub fn hip_runtime() -> Result<Compiler, String> {
    const RELEASES: [&str; 4] = [".7", ".6", ".5", ""];
    let system = ["/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/lib"].map(Utf8PathBuf::from);
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = environment::path("ROCM_PATH").map(|home| home.join("lib")).into_iter();
    let folders = folders.chain(environment::folders("LD_LIBRARY_PATH")).chain([Utf8PathBuf::from(multiarch)]);
    let folders = folders.chain(system).chain([Utf8PathBuf::from("/opt/rocm/lib")]);
    let files = folders.flat_map(|folder| RELEASES.map(|release| folder.join(format!("libamdhip64.so{release}"))));
    let Some(path) = files.into_iter().find(|file| file.is_file()) else {
        let looked = "ROCM_PATH, LD_LIBRARY_PATH, the system's libraries, /opt/rocm/lib";
        return Err(format!("libamdhip64 was not found, looked at: {looked}"));
    };
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.clone());
    Ok(Compiler { version: real.file_name().unwrap_or_default().to_owned(), path, roots: Vec::new(), host: None })
}

/// A search for one program, and where it was not.
struct Search {
    program: &'static str,
    looked: Vec<String>,
}

impl Search {
    const fn new(program: &'static str) -> Self {
        Self { program, looked: Vec::new() }
    }

    /// A folder that a variable names.
    fn home(&mut self, variable: &str) -> Option<Utf8PathBuf> {
        let Some(home) = environment::path(variable) else {
            self.looked.push(format!("{variable} (not set)"));
            return None;
        };
        self.look(&home.join("bin"), || format!("{variable} ({home}/bin)"))
    }

    fn path(&mut self) -> Option<Utf8PathBuf> {
        let folders = environment::search_path();
        let found = folders.iter().map(|folder| folder.join(self.program)).find(|path| path.is_file());
        self.looked.extend(found.is_none().then(|| "PATH".to_owned()));
        found
    }

    fn folder(&mut self, folder: &str) -> Option<Utf8PathBuf> {
        self.look(Utf8Path::new(folder), || folder.to_owned())
    }

    /// NVIDIA's packages of PyPI: `site-packages/nvidia/cu13/bin`.
    fn packages(&mut self) -> Option<Utf8PathBuf> {
        let (pythons, absent) = python::all();
        for python in &pythons {
            for packages in &python.packages {
                let releases = packages.join("nvidia").read_dir_utf8().ok().into_iter().flatten().flatten();
                let mut releases: Vec<_> = releases.filter(|entry| entry.file_name().starts_with("cu")).collect();
                // The newest first.
                releases.sort_by(|one, other| other.file_name().cmp(one.file_name()));
                let mut programs = releases.iter().map(|entry| entry.path().join("bin").join(self.program));
                if let Some(found) = programs.find(|path| path.is_file()) {
                    return Some(found);
                }
            }
            let folders: Vec<&str> = python.packages.iter().map(|folder| folder.as_str()).collect();
            self.looked.push(format!("packages of {} ({})", python.path, folders.join(", ")));
        }
        self.looked.extend(absent);
        None
    }

    fn look(&mut self, folder: &Utf8Path, shown: impl Fn() -> String) -> Option<Utf8PathBuf> {
        let path = folder.join(self.program);
        let found = path.is_file().then_some(path);
        self.looked.extend(found.is_none().then(shown));
        found
    }

    /// `kind` is what `doctor --install` knows it as, if it does.
    fn end(self, found: Option<Utf8PathBuf>, kind: Option<&str>) -> Result<Compiler, String> {
        let Some(path) = found else {
            let hint = kind.map(|kind| format!("; `cargo kopt doctor --install {kind}` prints what fetches it"));
            let looked = self.looked.join(", ");
            return Err(format!("{} was not found, looked at: {looked}{}", self.program, hint.unwrap_or_default()));
        };
        let version = version_of(&path).map_err(|error| format!("{path} does not run: {error}"))?;
        Ok(Compiler { path, version, roots: Vec::new(), host: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_of_host_code_is_part_of_nvcc() {
        let nvcc = || Compiler {
            path: "/cuda/bin/nvcc".into(),
            version: "Cuda compilation tools, release 13.0, V13.0.88".to_owned(),
            roots: Vec::new(),
            host: None,
        };
        let scratch = tempfile::tempdir().unwrap();
        let bin = Utf8Path::from_path(scratch.path()).unwrap().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let cc = super::super::host(false).unwrap();
        let real = cc.real().unwrap();
        std::os::unix::fs::symlink(&real, bin.join("gcc")).unwrap();
        // A program, and the folder of one.
        for named in [real.as_str(), bin.as_str()] {
            let found = with_host(nvcc(), named).unwrap();
            assert_eq!(found.host.as_deref(), Some(Utf8Path::new(named)));
            let (own, of_host) = found.version.split_once(&format!("\nwith {named}: ")).unwrap();
            assert!(own == nvcc().version && !of_host.is_empty(), "{found:?}");
            assert_eq!(found.roots, Vec::from_iter(cc.home()), "{found:?}");
        }
        for named in ["no-such-compiler", "/nowhere/g++"] {
            let why = with_host(nvcc(), named).unwrap_err();
            assert!(why.starts_with(&format!("NVCC_CCBIN names `{named}`, which is of no use: ")), "{why}");
        }
    }
}
