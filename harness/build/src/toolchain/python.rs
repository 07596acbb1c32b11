//! Interpreters of Python: compilers come as packages of PyPI, and Triton's is one.
//!
//! They are asked in isolated mode, in which Triton's kernels are compiled, too: what the user's own folders and `PYTHONPATH`
//! hold has no part in what is built.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use super::Compiler;
use crate::environment;

/// An interpreter, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Python {
    /// The program.
    pub path: Utf8PathBuf,
    /// Its version.
    pub version: String,
    /// Folders that it and its packages are installed in.
    pub roots: Vec<Utf8PathBuf>,
    /// Where packages are.
    pub packages: Vec<Utf8PathBuf>,
    /// Triton, if it is among them: its version and its folder.
    pub triton: Option<(String, Utf8PathBuf)>,
}

/// Looks at packages without importing them: that takes a second for some.
const ASK: &str = "
import importlib.metadata, importlib.util, json, site, sys
spec = importlib.util.find_spec('triton')
triton = spec and spec.origin and [importlib.metadata.version('triton'), spec.submodule_search_locations[0]]
print(json.dumps({
    'path': sys.executable, 'version': '.'.join(map(str, sys.version_info[:3])),
    'roots': [sys.prefix, sys.base_prefix], 'packages': site.getsitepackages(), 'triton': triton or None,
}))
";

impl Python {
    fn ask(program: &Utf8Path) -> Result<Self, String> {
        let output = Command::new(program).args(["-I", "-c", ASK]).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().map_or_else(|| output.status.to_string(), str::to_owned));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("no answer of a Python: {error}"))
    }

    /// As a compiler of Triton's kernels.
    #[must_use]
    pub fn compiler(&self) -> Compiler {
        let triton = self.triton.as_ref();
        let version = triton.map_or_else(String::new, |(version, _)| format!("triton {version}, "));
        let roots = self.roots.iter().chain(triton.map(|(_, folder)| folder)).cloned().collect();
        Compiler { path: self.path.clone(), version: format!("{version}Python {}", self.version), roots, host: None }
    }

    /// The assembler that comes with Triton; there is another for the devices from compute capability 10.0 on.
    #[must_use]
    pub fn ptxas(&self, newest: bool) -> Option<Utf8PathBuf> {
        let name = if newest { "ptxas-blackwell" } else { "ptxas" };
        self.triton.as_ref().map(|(_, folder)| folder.join("backends/nvidia/bin").join(name))
    }
}

/// The virtual environment that `cargo kopt doctor --install` makes.
#[must_use]
pub fn own_venv() -> Option<Utf8PathBuf> {
    environment::data().map(|data| data.join("kopt/venv"))
}

/// The interpreters that are here, in the order in which they are asked; and, in words, the places without any.
/// `KOPT_PYTHON` is the only one where it is set.
pub(super) fn all() -> (Vec<Python>, Vec<String>) {
    let mut places: Vec<(String, Option<Utf8PathBuf>)> = Vec::new();
    match environment::path("KOPT_PYTHON") {
        Some(python) => places.push(("KOPT_PYTHON".to_owned(), Some(python))),
        None => {
            let of_venv = |venv: Utf8PathBuf| venv.join("bin/python");
            places.push(("VIRTUAL_ENV".to_owned(), environment::path("VIRTUAL_ENV").map(of_venv)));
            let on_path = environment::search_path().into_iter().map(|folder| folder.join("python3"));
            places.push(("python3 on PATH".to_owned(), on_path.into_iter().find(|path| path.is_file())));
            places.extend(own_venv().map(|venv| (venv.to_string(), Some(of_venv(venv)).filter(|path| path.is_file()))));
        }
    }
    let (mut found, mut absent): (Vec<Python>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, program) in places {
        match program.map(|program| Python::ask(&program).map_err(|error| format!("{name} ({program}: {error})"))) {
            Some(Ok(python)) if found.iter().any(|other| other.path == python.path) => {}
            Some(Ok(python)) => found.push(python),
            Some(Err(why)) => absent.push(why),
            None => absent.push(format!("{name} (none)")),
        }
    }
    (found, absent)
}

/// The first interpreter that has Triton.
///
/// # Errors
/// Each place that was looked at.
pub fn triton() -> Result<Python, String> {
    let (pythons, absent) = all();
    let without = pythons.iter().map(|python| format!("packages of {}", python.path));
    let looked: Vec<String> = without.chain(absent).collect();
    pythons.into_iter().find(|python| python.triton.is_some()).ok_or_else(|| {
        format!(
            "Triton was not found, looked at: {}; `cargo kopt doctor --install triton` prints what fetches it",
            looked.join(", ")
        )
    })
}
