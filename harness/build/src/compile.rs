//! Sources to a candidate: one object and `candidate.json`, the same bytes inside and outside cargo.
//!
//! Flags belong to the harness (`recipe`) and do not follow the cargo profile: a kernel that is checked in a debug build is
//! the kernel that is timed.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::candidate::Candidate;
use kopt_schema::manifest::{Class, Language, Manifest};
use kopt_schema::plan::PlanTable;
use kopt_schema::{FORMAT_VERSION, knobs};

use crate::bindings::{self, Bindings};
use crate::error::BuildError;
use crate::plan::Subject;
use crate::recipe::Recipe;
pub use crate::recipe::lacking;
pub use crate::sandbox::unconfined;
use crate::site::{self, Site};
use crate::{code, digest, environment, resources, triton};

/// Begins the remark that walls were missing.
pub(crate) const UNCONFINED: &str = "the compiler could read and write other files than the crate's";

/// What compiling gave.
#[derive(Debug, Clone)]
pub struct Built {
    /// The candidate, as written to `candidate.json`.
    pub candidate: Candidate,
    /// `candidate.json`.
    pub file: Utf8PathBuf,
    /// The compiler's object files, to be archived for whoever links the crate (class `native`).
    pub objects: Vec<Utf8PathBuf>,
    /// What the compiler said without refusing.
    pub remarks: String,
}

/// Said of a crate that [could ask](crate::asks).
const HIDES_FILES: &str = "note: this crate could ask which files are there (`__has_include`): it is told that there are none, and so are the headers \
     that it includes\n";

/// Compiles the crate in `folder` into `out`, which is made. A missing GPU compiler gives a candidate without an
/// object that says why, so that the crate still builds. The launch plan is taken as it is, for whoever makes launches of
/// their own: a cache and a build script check it.
///
/// # Errors
/// When a source does not compile, includes what it may not, or a file cannot be written.
pub fn compile(folder: &Utf8Path, manifest: &Manifest, out: &Utf8Path) -> Result<Built, BuildError> {
    unchecked(folder, manifest, &Recipe::of(folder, manifest)?, out)
}

/// The same with its launch plan checked.
pub(crate) fn compile_recipe(
    folder: &Utf8Path,
    manifest: &Manifest,
    recipe: &Recipe,
    out: &Utf8Path,
) -> Result<Built, BuildError> {
    if manifest.launch.is_none() {
        return unchecked(folder, manifest, recipe, out);
    }
    match bindings::load(folder, manifest, false) {
        // Nothing of it can be run here, and what its plan is held against cannot be made here either: no fault of the crate.
        Err(BuildError::Bindings { .. }) if recipe.compiler.is_err() => unchecked(folder, manifest, recipe, out),
        bindings => checked(folder, manifest, &bindings?, recipe, out),
    }
}

/// The same for whoever has the bindings already.
pub(crate) fn checked(
    folder: &Utf8Path,
    manifest: &Manifest,
    bindings: &Bindings,
    recipe: &Recipe,
    out: &Utf8Path,
) -> Result<Built, BuildError> {
    let Some(file) = &manifest.launch else { return unchecked(folder, manifest, recipe, out) };
    let subject = Subject { folder, manifest, bindings };
    subject.written(file, &plan_text(folder, file)?)?;
    let built = unchecked(folder, manifest, recipe, out)?;
    subject.compiled(file, &built)?;
    Ok(built)
}

fn unchecked(folder: &Utf8Path, manifest: &Manifest, recipe: &Recipe, out: &Utf8Path) -> Result<Built, BuildError> {
    std::fs::create_dir_all(out).map_err(BuildError::file(out))?;
    let plan = match &manifest.launch {
        Some(file) => Some(plan_text(folder, file)?),
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
        resources: Vec::new(),
    };
    let (mut objects, mut remarks) = (Vec::new(), String::new());
    if recipe.hides_files() {
        remarks.push_str(HIDES_FILES);
    }
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
                Class::Native | Class::Launcher => {
                    for source in manifest.compiled() {
                        let (object, said) = site.compile(source)?;
                        objects.push(object);
                        remarks.push_str(&said);
                    }
                    site.link(&objects)?
                }
                _ if manifest.language == Language::Triton => {
                    let made = triton::compile(&site, scratch, &candidate)?;
                    remarks.push_str(&made.said);
                    candidate.plan = Some(made.plan);
                    made.object
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
            candidate.resources = resources::reported(&remarks);
            if (manifest.class, manifest.language) == (Class::Device, Language::Hip) {
                check_kernels(manifest, &candidate)?;
            }
            candidate.unconfined = site.lacking();
            if let Some(lacking) = &candidate.unconfined {
                remarks.push_str(&format!("{UNCONFINED}: {lacking}\n"));
            }
            candidate.digest = digest::of_file(&object)?;
            candidate.prepares = manifest.class == Class::Native && prepares(&object, &manifest.op)?;
            if manifest.class == Class::Launcher && !code::functions(&object)?.contains(&manifest.op) {
                let reason =
                    format!("no source defines `extern \"C\" int {0}(const {0}_args *, kopt_stream)`", manifest.op);
                return Err(BuildError::Header { header: manifest.sources.join(", "), reason });
            }
            candidate.object = object.file_name().map(str::to_owned);
        }
        Err(reason) => candidate.missing = Some(reason.clone()),
    }
    let file = out.join("candidate.json");
    let json = serde_json::to_vec_pretty(&candidate).map_err(|error| BuildError::file(&file)(error.into()))?;
    std::fs::write(&file, json).map_err(BuildError::file(&file))?;
    Ok(Built { candidate, file, objects, remarks })
}

/// The launch plan as it is written. One that is no text is a plan that is wrong, and no file that cannot be read.
fn plan_text(folder: &Utf8Path, file: &str) -> Result<String, BuildError> {
    site::read(&folder.join(file)).map_err(|error| match error {
        BuildError::File { error, .. } if error.kind() == ErrorKind::InvalidData => {
            let reason = "is no text in UTF-8, which a launch plan is".to_owned();
            BuildError::Header { header: file.to_owned(), reason }
        }
        error => error,
    })
}

/// Kernels that the plan names must be in the object. For CUDA the driver says so when it is loaded; here nothing loads it yet.
fn check_kernels(manifest: &Manifest, candidate: &Candidate) -> Result<(), BuildError> {
    let plan = candidate.plan.as_deref().and_then(|text| toml::from_str::<PlanTable>(text).ok());
    let functions = || candidate.resources.iter().map(|one| one.function.as_str());
    let launches = plan.into_iter().flat_map(|plan| plan.launch);
    match launches.into_iter().find(|launch| !functions().any(|function| function == launch.kernel)) {
        None => Ok(()),
        Some(launch) => {
            let near =
                kopt_schema::nearest(&launch.kernel, functions()).map(|near| format!("; did you mean `{near}`?"));
            let name = launch.kernel;
            let reason =
                format!("no source has a kernel `{name}`{}", near.as_deref().unwrap_or("; is it extern \"C\"?"));
            Err(BuildError::Header { header: manifest.launch.clone().unwrap_or_default(), reason })
        }
    }
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
    let text = if header.exists() { site::read(&header)? } else { String::new() };
    let (defined, mut chosen) = (knobs::defined(&text), BTreeMap::new());
    for (name, knob) in &manifest.knobs {
        if let Some(value) = knobs::unreadable(&text, name) {
            let reason =
                format!("`{name}` is `{value}`: a knob is a plain integer, as in `#define {name} {}`", knob.default);
            return Err(BuildError::Header { header: file, reason });
        }
        let value = defined.get(name).copied().unwrap_or(knob.default);
        if !knob.values.contains(&value) {
            let reason = format!("`{name}` is {value}, which is none of its declared values {:?}", knob.values);
            return Err(BuildError::Header { header: file, reason });
        }
        chosen.insert(name.clone(), value);
    }
    Ok(chosen)
}

/// Whether the variable asks for verbose builds.
pub(crate) fn verbose() -> bool {
    environment::text("KOPT_BUILD_VERBOSE").is_some()
}
