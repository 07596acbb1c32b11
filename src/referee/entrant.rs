//! A version of a kernel, compiled: what a match is given of each side.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_build::BuildError;
use kopt_build::cache::{Cache, Order};
use kopt_schema::candidate::Candidate;
use kopt_schema::evidence::Side;
use kopt_schema::exit::Exit;

use super::inspection;
use crate::audit::rules;
use crate::error::{Error, Result};
use crate::manifest::Kernel;

/// A version to compile.
#[derive(Debug, Clone)]
pub struct Version<'a> {
    /// The crate, as this version has it.
    pub kernel: &'a Kernel,
    /// A commit, or `working tree`.
    pub revision: String,
    /// As the user named it.
    pub name: String,
    /// As errors name it: `BASE (HEAD~1)`.
    pub shown: String,
}

/// A version that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrant {
    /// Its `candidate.json`.
    pub file: Utf8PathBuf,
    /// What evidence says of it.
    pub side: Side,
}

/// Compiles versions, two at a time, into the cache in `folder`, and audits them. What the audit lets pass is the policy of the
/// first one, the version that stands.
///
/// # Errors
/// When one does not compile (with the compiler's words), a compiler is missing, or the policy allows what is no rule; the
/// error says which version.
pub fn compile(folder: &Utf8Path, versions: &[Version<'_>]) -> Result<Vec<Entrant>> {
    let allow = versions.first().map_or(&[][..], |version| &version.kernel.manifest.allow);
    compile_under(folder, versions, allow)
}

/// The same, where the audit lets pass what `allow` names.
///
/// # Errors
/// As [`compile`].
pub fn compile_under(folder: &Utf8Path, versions: &[Version<'_>], allow: &[String]) -> Result<Vec<Entrant>> {
    let order = |version: &Version<'_>| Order {
        folder: version.kernel.member.folder.clone(),
        manifest: version.kernel.manifest.clone(),
    };
    let orders: Vec<Order> = versions.iter().map(order).collect();
    known(allow)?;
    let built = Cache::new(folder).candidates(&orders, 2);
    let entrant = |(version, file): (&Version<'_>, Result<Utf8PathBuf, BuildError>)| {
        file.map_err(|error| failed(version, &error)).and_then(|file| Entrant::of(version, file, allow))
    };
    versions.iter().zip(built).map(entrant).collect()
}

/// Which of the versions were compiled without all of the walls around their compiler, in words; once, where they lack the same.
pub fn unconfined<'a>(entrants: impl IntoIterator<Item = &'a Entrant>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let lacking = entrants.into_iter().filter_map(|entrant| entrant.candidate()?.unconfined);
    for text in lacking.map(|lacking| unconfined_for(&lacking)) {
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

/// The words for walls that are not there.
#[must_use]
pub fn unconfined_for(lacking: &str) -> String {
    format!(
        "the compiler was not confined, and what it ran could read and write other files than the crate's: {lacking}"
    )
}

impl Entrant {
    /// The object's file.
    #[must_use]
    pub fn object(&self) -> Option<Utf8PathBuf> {
        Some(self.file.parent()?.join(self.candidate()?.object?))
    }

    fn candidate(&self) -> Option<Candidate> {
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    fn of(version: &Version<'_>, file: Utf8PathBuf, allow: &[String]) -> Result<Self> {
        let unreadable = |error: &dyn std::error::Error| Error::setup(format!("cannot read `{file}`")).because(error);
        let text = std::fs::read(&file).map_err(|error| unreadable(&error))?;
        let candidate: Candidate = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if let Some(missing) = &candidate.missing {
            return Err(Error::new(Exit::NoDevice, format!("{} cannot be compiled here", version.shown))
                .cause(missing.clone())
                .hint(
                    "both versions are compiled where they are compared: install the compiler, or compare elsewhere",
                ));
        }
        let code = kopt_build::code::of_candidate(&file, &candidate).map_err(|error| failed(version, &error))?;
        let audit = inspection::inspect(version.kernel, &file, &candidate, allow)?;
        let crate_folder = version.kernel.member.folder.as_str();
        let side = Side {
            revision: version.revision.clone(),
            name: version.name.clone(),
            object: candidate.digest,
            code,
            compiler: candidate.compiler,
            flags: candidate.flags.iter().map(|flag| told(flag, crate_folder)).collect(),
            knobs: candidate.knobs,
            audit: Some(audit),
            prepares: candidate.prepares,
        };
        Ok(Self { file, side })
    }
}

/// A policy allows rules that there are.
fn known(allow: &[String]) -> Result<()> {
    let Some(id) = rules::unknown(allow).next() else { return Ok(()) };
    let wrong = Error::setup(format!("`policy.allow` of the manifest names `{id}`, which is no rule of the audit"));
    Err(match kopt_schema::nearest(id, rules::all().iter().map(|rule| rule.id)) {
        Some(near) => wrong.hint(format!("did you mean `{near}`? `cargo kopt audit --list` names all rules")),
        None => wrong.hint("`cargo kopt audit --list` names all rules"),
    })
}

/// A flag as evidence tells it: evidence travels, and names no path of this machine. The prefix map names the folder of
/// whichever version was compiled first to this code.
fn told(flag: &str, crate_folder: &str) -> String {
    const MAP: &str = "-ffile-prefix-map=";
    if flag.starts_with(MAP) { format!("{MAP}.=.") } else { flag.replace(crate_folder, ".") }
}

/// Which version could not be compiled, and why. A compiler that is missing is not the version's fault.
fn failed(version: &Version<'_>, error: &BuildError) -> Error {
    let (exit, what) = match error {
        BuildError::Compile { .. } | BuildError::Include { .. } | BuildError::Prepare { .. } => {
            (Exit::BuildFailed, "does not compile")
        }
        BuildError::NoCompiler(_) | BuildError::NoDevice(_) => (Exit::NoDevice, "cannot be compiled here"),
        _ => (Exit::Setup, "cannot be compiled"),
    };
    let text = error.to_string();
    let wrong = Error::new(exit, format!("{} {what}", version.shown));
    // The hints of the build are the last lines of its errors; here they have a place of their own.
    match text.rsplit_once("\nhint: ") {
        Some((said, hint)) => wrong.cause(said).hint(hint),
        None => wrong.cause(text),
    }
}
