//! Where a compiler works: the folders it sees, the walls around it, and the commands that it is given.

use std::process::Command;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Class, Language, Manifest};

use crate::cache::Found;
use crate::end;
use crate::error::{Blame, BuildError};
use crate::recipe::OUR_DOING;
use crate::sandbox::Walls;
use crate::toolchain::Compiler;

/// What a source needs to serve CUDA and HIP alike. It is on the include path of both.
pub(crate) const DEVICE_HEADER: &str = include_str!("include/kopt_device.h");

/// How objects are linked. Undefined names are refused here, with the linker's message, and not at load time. Without the
/// toolchain's start files an object has no constructor and no writable byte but what its sources put there, and all of it is
/// read-only once it is loaded: whatever the audit finds is the candidate's own.
pub(crate) const LINK: [&str; 8] = [
    "-shared",
    "-nostartfiles",
    "-Wl,-Bsymbolic",
    "-Wl,-z,defs",
    "-Wl,--as-needed",
    "-Wl,-z,now",
    "-Wl,-z,relro",
    "-Wl,-z,separate-code",
];

/// How objects of class `launcher` are linked: with the start files that register device code, and for CUDA with a runtime of
/// their own.
pub(crate) const CUDA_LINK: [&str; 5] =
    ["-shared", "-cudart=static", "-Xlinker=-Bsymbolic", "-Xlinker=-zdefs", "-Xlinker=-znow"];
pub(crate) const HIP_LINK: [&str; 4] = ["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,now"];

/// Variables that compilers take flags, folders of headers and other compilers from: those belong to the harness, and would mix in
/// another installation's. `NVCC_CCBIN` is heard where nvcc is looked for.
const UNHEARD: [&str; 10] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIPCC_LINK_FLAGS_APPEND",
    "HIPCC_VERBOSE",
    "CCC_OVERRIDE_OPTIONS",
];

/// Code of a candidate that runs while it is compiled has so long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where a compiler works, and with what.
pub(crate) struct Site<'a> {
    pub folder: &'a Utf8Path,
    pub manifest: &'a Manifest,
    pub compiler: &'a Compiler,
    pub flags: &'a [String],
    walls: Walls,
    pub out: &'a Utf8Path,
}

impl<'a> Site<'a> {
    pub(crate) fn new(
        folder: &'a Utf8Path,
        manifest: &'a Manifest,
        compiler: &'a Compiler,
        flags: &'a [String],
        out: &'a Utf8Path,
        scratch: &Utf8Path,
    ) -> Self {
        let walls = Walls::new(folder, manifest, compiler, out, scratch);
        Self { folder, manifest, compiler, flags, walls, out }
    }

    /// Compiles one source; the object, and what the compiler said.
    pub(crate) fn compile(&self, source: &str) -> Result<(Utf8PathBuf, String), BuildError> {
        let stem = source.replace('/', "-");
        let (object, dependencies) = (self.out.join(format!("{stem}.o")), self.out.join(format!("{stem}.d")));
        let mut command = self.command();
        command.args(self.flags);
        let is_cubin = self.manifest.class == Class::Device && self.manifest.language == Language::Cuda;
        if is_cubin && !source.ends_with(".cu") {
            command.args(["-x", "cu"]);
        }
        command.arg(source).arg("-o").arg(&object);
        if self.manifest.class != Class::Device {
            command.arg("-c");
        }
        command.args(["-MMD", "-MF"]).arg(&dependencies);
        let include = self.out.join("include");
        if self.manifest.class != Class::Native {
            std::fs::create_dir_all(&include).map_err(BuildError::file(&include))?;
            let header = include.join("kopt_device.h");
            std::fs::write(&header, DEVICE_HEADER).map_err(BuildError::file(&header))?;
            command.arg(format!("-I{include}"));
        }
        let keep = self.out.join("keep");
        if is_cubin {
            std::fs::create_dir_all(&keep).map_err(BuildError::file(&keep))?;
            command.args(["-keep", "-keep-dir"]).arg(&keep);
        }
        check_beside(self.folder, self.manifest, source)?;
        let said = self.run(command, source)?;
        let said = said.lines().filter(|line| !line.starts_with(OUR_DOING)).flat_map(|line| [line, "\n"]).collect();
        check_includes(self.folder, self.manifest, self.compiler, source, &dependencies, &include)?;
        if is_cubin {
            keep_ptx(&keep, &object)?;
        }
        Ok((object, said))
    }

    /// Links objects into one shared object.
    pub(crate) fn link(&self, objects: &[Utf8PathBuf]) -> Result<Utf8PathBuf, BuildError> {
        let shared = self.out.join("kernel.so");
        let mut command = self.command();
        match (self.manifest.class, self.manifest.language) {
            (Class::Launcher, Language::Cuda) => {
                command.args(CUDA_LINK);
                // Where NVIDIA's packages of PyPI have it.
                let beside = self.compiler.path.parent().and_then(Utf8Path::parent).map(|home| home.join("lib"));
                command.args(beside.filter(|folder| folder.is_dir()).map(|folder| format!("-L{folder}")));
            }
            (Class::Launcher, _) => drop(command.args(HIP_LINK)),
            _ => drop(command.args(LINK)),
        }
        command.args(objects).arg("-lm").arg("-o").arg(&shared);
        self.run(command, "the linked object")?;
        Ok(shared)
    }

    /// The compiler, with what it is told whatever it is to do.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.compiler.path);
        // Where nvcc is on PATH, hipcc would hand on to it.
        command.current_dir(self.folder).env("HIP_PLATFORM", "amd");
        command.args(self.compiler.host.as_ref().map(|host| format!("-ccbin={host}")));
        command
    }

    /// What of the walls the system could not put up.
    pub(crate) fn lacking(&self) -> Option<String> {
        self.walls.lacking()
    }

    /// Runs a command inside the site's walls; what it said on standard error.
    pub(crate) fn run(&self, command: Command, source: &str) -> Result<String, BuildError> {
        self.hear(None, command, source).map(|[_, said]| said)
    }

    /// Runs code of the candidate inside walls of its own; what it said on standard output and error.
    pub(crate) fn run_inside(&self, walls: &Walls, command: Command, source: &str) -> Result<[String; 2], BuildError> {
        self.hear(Some(walls), command, source)
    }

    /// Runs a command inside the site's walls, or inside `own`, which are for code of the candidate.
    fn hear(&self, own: Option<&Walls>, mut command: Command, source: &str) -> Result<[String; 2], BuildError> {
        let failed = |output: String, blame: Blame, command: &Command| BuildError::Compile {
            source_file: source.to_owned(),
            command: format!("{command:?}").replace('"', ""),
            output,
            blame,
        };
        // Compilers speak the user's language otherwise, and messages are compared and searched.
        command.env("LC_ALL", "C");
        // A `cc` that is ccache could not reach its own folders inside the walls; versions are kept here once they are compiled.
        command.env("CCACHE_DISABLE", "1");
        for name in UNHEARD {
            command.env_remove(name);
        }
        let ended_before = end::ended_for_memory();
        let (walls, output) = match own {
            Some(walls) => (walls, walls.run_within(&mut command, PATIENCE)),
            None => (&self.walls, self.walls.run(&mut command)),
        };
        let output = output.map_err(|error| failed(error.to_string(), end::of_none(&error), &command))?;
        self.walls.lack(walls.lacking());
        let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        if output.status.success() {
            return Ok([printed, said]);
        }
        let blame = end::of_failed(output.status, &said, own.is_some(), end::ended_for_memory() > ended_before);
        let said = end::told(said, output.status, blame);
        Err(match walls.stumbled(self.folder, &said) {
            Some(included) => BuildError::Include { source_file: source.to_owned(), included },
            None => failed(said, blame, &command),
        })
    }
}

/// Of what nvcc leaves on its way only the PTX stays, beside the object that was assembled from it: there an audit can read
/// the instructions.
fn keep_ptx(keep: &Utf8Path, object: &Utf8Path) -> Result<(), BuildError> {
    let left = keep.read_dir_utf8().map_err(BuildError::file(keep))?.filter_map(Result::ok);
    let ptx: Vec<_> = left.filter(|entry| entry.path().extension() == Some("ptx")).collect();
    if let [ptx] = ptx.as_slice() {
        std::fs::rename(ptx.path(), object.with_extension("ptx")).map_err(BuildError::file(ptx.path()))?;
    }
    std::fs::remove_dir_all(keep).map_err(BuildError::file(keep))
}

/// Beside sources nothing may lie that is compiled in their place, or that takes files out of the package: a header that is
/// compiled already, a manifest in a folder below.
fn check_beside(folder: &Utf8Path, manifest: &Manifest, source: &str) -> Result<(), BuildError> {
    let files = manifest.sources.iter().chain([&manifest.header]);
    let mut found = Found::default();
    for beside in files.filter_map(|file| Utf8Path::new(file).parent()).filter(|beside| *beside != "") {
        found.gather(&folder.join(beside))?;
    }
    let is_one =
        |file: &&Utf8PathBuf| matches!(file.extension(), Some("gch" | "pch")) || file.file_name() == Some("Cargo.toml");
    match found.files.iter().find(is_one) {
        None => Ok(()),
        Some(file) => {
            let file = file.strip_prefix(folder).unwrap_or(file).to_owned();
            Err(BuildError::Beside { source_file: source.to_owned(), file })
        }
    }
}

/// What a source includes with quotes must lie in the crate or in a declared include root.
fn check_includes(
    folder: &Utf8Path,
    manifest: &Manifest,
    compiler: &Compiler,
    source: &str,
    dependencies: &Utf8Path,
    own_headers: &Utf8Path,
) -> Result<(), BuildError> {
    let text = read(dependencies)?;
    // What the toolchain installed is not the candidate's to change: the system's headers, and those beside the compiler.
    let installed = compiler.home().into_iter().chain(compiler.roots.iter().cloned());
    let declared = manifest.include_roots.iter().filter_map(|root| folder.join(root).canonicalize_utf8().ok());
    let roots = declared.chain(installed).chain(own_headers.canonicalize_utf8().ok());
    let roots: Vec<Utf8PathBuf> = roots.chain([Utf8PathBuf::from("/usr")]).collect();
    let own = folder.canonicalize_utf8().map_err(BuildError::file(folder))?;
    for included in listed(&text) {
        let path = folder.join(&included);
        let path = path.canonicalize_utf8().unwrap_or(path);
        if !path.starts_with(&own) && !roots.iter().any(|root| path.starts_with(root)) {
            return Err(BuildError::Include { source_file: source.to_owned(), included });
        }
    }
    Ok(())
}

/// The files that a dependency file lists, by their names: there a space, a `#` and a backslash before either stand behind a
/// backslash, a dollar is doubled, and a backslash at the end of a line goes on.
fn listed(text: &str) -> Vec<String> {
    let list = text.split_once(": ").map_or("", |(_, list)| list);
    let (mut files, mut file) = (Vec::new(), String::new());
    let mut rest = list.chars().peekable();
    while let Some(one) = rest.next() {
        let meant = match (one, rest.peek()) {
            ('\\', Some(' ' | '#' | '\\')) | ('$', Some('$')) => rest.next(),
            ('\\', Some('\n' | '\r') | None) => continue,
            _ if one.is_whitespace() => None,
            _ => Some(one),
        };
        match meant {
            Some(meant) => file.push(meant),
            None if file.is_empty() => {}
            None => files.push(std::mem::take(&mut file)),
        }
    }
    files.extend(Some(file).filter(|file| !file.is_empty()));
    files
}

/// The text of a file.
pub(crate) fn read(path: &Utf8Path) -> Result<String, BuildError> {
    std::fs::read_to_string(path).map_err(BuildError::file(path))
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn names_in_a_dependency_file_are_read_as_they_are() {
        let text = "/a\\ b/x.o: kernels/x.cu \\\n /a\\ b/out/include/kopt_device.h \\\n  kernels/$$one\\#2.h\n";
        assert_eq!(listed(text), ["kernels/x.cu", "/a b/out/include/kopt_device.h", "kernels/$one#2.h"]);
        assert_eq!(listed("x.o: a.c b.h"), ["a.c", "b.h"]);
        assert!(listed("x.o:").is_empty() && listed("").is_empty());
    }
}
