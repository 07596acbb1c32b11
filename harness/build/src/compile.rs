//! Sources to a candidate: one object and `candidate.json`, the same bytes inside and outside cargo.
//!
//! Flags belong to the harness and do not follow the cargo profile: a kernel that is checked in a debug build is the
//! kernel that is timed. What a crate adds is declared in its manifest and shown.

use std::collections::BTreeMap;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Class, Language, Manifest};
use kopt_schema::{FORMAT_VERSION, knobs};

use crate::error::BuildError;
use crate::sandbox::{self, Walls};
use crate::toolchain::{self, Compiler};
use crate::{code, digest, environment};

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

/// What compiling gave.
#[derive(Debug, Clone)]
pub struct Built {
    /// The candidate, as written to `candidate.json`.
    pub candidate: Candidate,
    /// `candidate.json`.
    pub file: Utf8PathBuf,
    /// The compiler's object files, to be archived for whoever links the crate (class `native`).
    pub objects: Vec<Utf8PathBuf>,
    /// What the compiler said without refusing; for nvcc the resources each kernel takes.
    pub remarks: String,
}

/// The compiler and flags a manifest asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub compiler: Result<Compiler, String>,
    pub flags: Vec<String>,
}

/// The compiler's own words for the moment and for the file's age, as constants. A source cannot get them back: a name that is
/// undefined once stays undefined.
const SAME_DAY: [&str; 4] = [
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"Jan-01-1970\"",
    "-D__TIME__=\"00:00:00\"",
    "-D__TIMESTAMP__=\"Thu-Jan-01-00:00:00-1970\"",
];

impl Recipe {
    pub(crate) fn of(folder: &Utf8Path, manifest: &Manifest) -> Result<Self, BuildError> {
        let mut flags: Vec<String> = Vec::new();
        let compiler = match (manifest.class, manifest.language) {
            (Class::Native, language) => {
                let cpp = language == Language::Cpp;
                flags.extend([if cpp { "-std=gnu++17" } else { "-std=gnu11" }, "-O3"].map(str::to_owned));
                flags.extend(native_flag());
                // No errno from sqrt and its like: nothing reads it, and it keeps loops from being vectorised.
                flags.extend(["-fPIC", "-g1", "-Wall", "-Wextra", "-fno-math-errno"].map(str::to_owned));
                // The same bytes whenever it is compiled: what was judged is what others build.
                flags.extend(SAME_DAY.map(str::to_owned));
                // The same bytes wherever the crate lies.
                flags.push(format!("-ffile-prefix-map={folder}=."));
                Ok(toolchain::host(cpp)?)
            }
            (Class::Device, Language::Cuda) => {
                flags.extend(["-O3", "-std=c++17", "-lineinfo", "-cubin", "-Xptxas=-v"].map(str::to_owned));
                flags.extend(manifest.arch.first().map(|arch| format!("-arch={arch}")));
                toolchain::nvcc()
            }
            (class, _) => Err(format!(
                "backend {} with class {} cannot be compiled by this version",
                manifest.backend.name(),
                class.name()
            )),
        };
        flags.extend(manifest.include_roots.iter().map(|root| format!("-I{root}")));
        flags.push("-Ikernels".to_owned());
        if let Some((flag, why)) = manifest.flags.iter().find_map(|flag| Some((flag, sandbox::refused(flag)?))) {
            let reason = format!("the flag `{flag}` {why}: remove it from `flags`");
            return Err(BuildError::Header { header: "Cargo.toml".to_owned(), reason });
        }
        flags.extend(manifest.flags.iter().cloned());
        Ok(Self { compiler, flags })
    }
}

fn native_flag() -> Option<String> {
    let flag = if toolchain::target_triple().starts_with("aarch64") { "-mcpu=native" } else { "-march=native" };
    toolchain::is_native().then(|| flag.to_owned())
}

/// Compiles the crate in `folder` into `out`, which is made. A missing GPU compiler gives a candidate without an
/// object that says why, so that the crate still builds.
///
/// # Errors
/// When a source does not compile, includes what it may not, or a file cannot be written.
pub fn compile(folder: &Utf8Path, manifest: &Manifest, out: &Utf8Path) -> Result<Built, BuildError> {
    compile_recipe(folder, manifest, &Recipe::of(folder, manifest)?, out)
}

pub(crate) fn compile_recipe(
    folder: &Utf8Path,
    manifest: &Manifest,
    recipe: &Recipe,
    out: &Utf8Path,
) -> Result<Built, BuildError> {
    std::fs::create_dir_all(out).map_err(BuildError::file(out))?;
    let plan = match &manifest.launch {
        Some(path) => Some(read(&folder.join(path))?),
        None => None,
    };
    let mut candidate = Candidate {
        format: FORMAT_VERSION,
        class: manifest.class,
        object: None,
        prepares: false,
        digest: String::new(),
        missing: None,
        plan,
        knobs: knob_values(folder, manifest)?,
        compiler: String::new(),
        flags: recipe.flags.clone(),
        unconfined: None,
    };
    let (mut objects, mut remarks) = (Vec::new(), String::new());
    // For what compilers leave between their steps; gone when they are done.
    let scratch = tempfile::Builder::new().prefix(".compiling-").tempdir_in(out).map_err(BuildError::file(out))?;
    match &recipe.compiler {
        Ok(compiler) => {
            // nvcc names its release on the fourth line, gcc and clang on the first.
            let mut lines = compiler.version.lines();
            let release = lines.clone().find(|line| line.contains("release")).or_else(|| lines.next());
            candidate.compiler = release.unwrap_or_default().to_owned();
            let scratch = Utf8Path::from_path(scratch.path()).unwrap_or(out);
            let site = Site::new(folder, manifest, compiler, &recipe.flags, out, scratch);
            let object = match manifest.class {
                Class::Native => {
                    for source in manifest.compiled() {
                        let (object, said) = site.compile(source)?;
                        objects.push(object);
                        remarks.push_str(&said);
                    }
                    site.link(&objects)?
                }
                _ => {
                    let sources: Vec<&str> = manifest.compiled().collect();
                    let [source] = sources.as_slice() else {
                        let reason = format!("class device takes one compiled source, not {}", sources.len());
                        return Err(BuildError::Header { header: "Cargo.toml".to_owned(), reason });
                    };
                    let (object, said) = site.compile(source)?;
                    remarks.push_str(&said);
                    object
                }
            };
            candidate.unconfined = site.walls.lacking();
            if let Some(lacking) = &candidate.unconfined {
                remarks
                    .push_str(&format!("the compiler could read and write other files than the crate's: {lacking}\n"));
            }
            candidate.digest = digest::of_file(&object)?;
            candidate.prepares = manifest.class == Class::Native && prepares(&object, &manifest.op)?;
            candidate.object = object.file_name().map(str::to_owned);
        }
        Err(reason) => candidate.missing = Some(reason.clone()),
    }
    let file = out.join("candidate.json");
    let json = serde_json::to_vec_pretty(&candidate).map_err(|error| BuildError::file(&file)(error.into()))?;
    std::fs::write(&file, json).map_err(BuildError::file(&file))?;
    Ok(Built { candidate, file, objects, remarks })
}

/// Whether the object prepares weights: by its exports, since sources are all that a candidate may change.
fn prepares(object: &Utf8Path, op: &str) -> Result<bool, BuildError> {
    let wanted = [format!("{op}_prepare_size"), format!("{op}_prepare")];
    let found = code::functions(object)?;
    match wanted.each_ref().map(|name| found.contains(name)) {
        [true, true] => Ok(true),
        [false, false] => Ok(false),
        [has_size, _] => {
            let [has, lacks] = if has_size { [0, 1] } else { [1, 0] }.map(|index| &wanted[index]);
            Err(BuildError::Prepare { has: has.clone(), lacks: lacks.clone() })
        }
    }
}

/// The chosen value of each declared knob: what the knobs header defines, else the manifest's default.
pub(crate) fn knob_values(folder: &Utf8Path, manifest: &Manifest) -> Result<BTreeMap<String, i64>, BuildError> {
    let file = manifest.knobs_header();
    let header = folder.join(&file);
    let defined = if header.exists() { knobs::defined(&read(&header)?) } else { BTreeMap::new() };
    let mut chosen = BTreeMap::new();
    for (name, knob) in &manifest.knobs {
        let value = defined.get(name).copied().unwrap_or(knob.default);
        if !knob.values.contains(&value) {
            let reason = format!("`{name}` is {value}, which is none of its declared values {:?}", knob.values);
            return Err(BuildError::Header { header: file, reason });
        }
        chosen.insert(name.clone(), value);
    }
    Ok(chosen)
}

/// Where a compiler works, and with what.
pub(crate) struct Site<'a> {
    folder: &'a Utf8Path,
    manifest: &'a Manifest,
    compiler: &'a Compiler,
    flags: &'a [String],
    walls: Walls,
    out: &'a Utf8Path,
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

    fn compile(&self, source: &str) -> Result<(Utf8PathBuf, String), BuildError> {
        let stem = source.replace('/', "-");
        let (object, dependencies) = (self.out.join(format!("{stem}.o")), self.out.join(format!("{stem}.d")));
        let mut command = Command::new(&self.compiler.path);
        command.current_dir(self.folder).args(self.flags).arg(source).arg("-o").arg(&object);
        if self.manifest.class == Class::Native {
            command.arg("-c");
        }
        command.args(["-MMD", "-MF"]).arg(&dependencies);
        let keep = self.out.join("keep");
        if self.manifest.language == Language::Cuda {
            std::fs::create_dir_all(&keep).map_err(BuildError::file(&keep))?;
            command.args(["-keep", "-keep-dir"]).arg(&keep);
        }
        let said = self.run(command, source)?;
        check_includes(self.folder, self.manifest, self.compiler, source, &dependencies)?;
        if self.manifest.language == Language::Cuda {
            keep_ptx(&keep, &object)?;
        }
        Ok((object, said))
    }

    fn link(&self, objects: &[Utf8PathBuf]) -> Result<Utf8PathBuf, BuildError> {
        let shared = self.out.join("kernel.so");
        let mut command = Command::new(&self.compiler.path);
        command.current_dir(self.folder).args(LINK);
        command.args(objects).arg("-lm").arg("-o").arg(&shared);
        self.run(command, "the linked object")?;
        Ok(shared)
    }

    pub(crate) fn run(&self, mut command: Command, source: &str) -> Result<String, BuildError> {
        let failed = |output: String, command: &Command| BuildError::Compile {
            source_file: source.to_owned(),
            command: format!("{command:?}").replace('"', ""),
            output,
        };
        // Compilers speak the user's language otherwise, and messages are compared and searched.
        command.env("LC_ALL", "C");
        // nvcc looks for its own headers and libraries beside itself; these would mix in another installation's.
        for name in ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"] {
            command.env_remove(name);
        }
        let output = self.walls.run(&mut command).map_err(|error| failed(error.to_string(), &command))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(match self.walls.stumbled(self.folder, &said) {
            Some(included) => BuildError::Include { source_file: source.to_owned(), included },
            None => failed(said, &command),
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

/// What a source includes with quotes must lie in the crate or in a declared include root.
fn check_includes(
    folder: &Utf8Path,
    manifest: &Manifest,
    compiler: &Compiler,
    source: &str,
    dependencies: &Utf8Path,
) -> Result<(), BuildError> {
    let text = read(dependencies)?;
    // What the toolchain installed is not the candidate's to change: the system's headers, and those beside the compiler.
    let installed = compiler.path.canonicalize_utf8().ok();
    let installed = installed.as_deref().and_then(Utf8Path::parent).and_then(Utf8Path::parent).map(Utf8Path::to_owned);
    let declared = manifest.include_roots.iter().filter_map(|root| folder.join(root).canonicalize_utf8().ok());
    let roots: Vec<Utf8PathBuf> = declared.chain(installed).chain([Utf8PathBuf::from("/usr")]).collect();
    let own = folder.canonicalize_utf8().map_err(BuildError::file(folder))?;
    let after_target = text.split_once(": ").map_or("", |(_, list)| list);
    for included in after_target.split_whitespace().filter(|word| *word != "\\") {
        let path = folder.join(included);
        let path = path.canonicalize_utf8().unwrap_or(path);
        if !path.starts_with(&own) && !roots.iter().any(|root| path.starts_with(root)) {
            return Err(BuildError::Include { source_file: source.to_owned(), included: included.to_owned() });
        }
    }
    Ok(())
}

fn read(path: &Utf8Path) -> Result<String, BuildError> {
    std::fs::read_to_string(path).map_err(BuildError::file(path))
}

/// Whether the variable asks for verbose builds.
pub(crate) fn verbose() -> bool {
    environment::text("KOPT_BUILD_VERBOSE").is_some()
}
