//! The candidate that a test or bench binary runs: the one its crate was built with, or the one named by
//! `KOPT_CANDIDATE`. The object is taken only if its digest is the one that was recorded when it was compiled.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::FORMAT_VERSION;
use kopt_schema::candidate::Candidate;
use kopt_schema::json::Json as _;
use kopt_schema::manifest::{Class, Manifest};
use kopt_schema::plan::Plan;
use kopt_schema::sandbox::Defence;
use sha2::{Digest as _, Sha256};

use super::{arguments, environment};
use crate::package::Package;

/// A candidate, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub class: Class,
    pub object: Utf8PathBuf,
    pub digest: String,
    pub plan: Option<Plan>,
    pub kernels: Vec<String>,
    pub knobs: BTreeMap<String, i64>,
    /// Defences that it runs without, for tests of these.
    pub without: Vec<Defence>,
    /// The op whose weights it prepares, if it does.
    pub prepares: Option<String>,
}

/// Why there is nothing to run.
#[derive(Debug, Clone)]
pub(crate) enum Absent {
    /// The compiler was missing when the crate was built, or nothing runs what it made: trials are ignored.
    NotCompiled(String),
    /// Something is wrong: trials fail.
    Wrong(String),
}

impl Loaded {
    /// The crate's own candidate, or the one that the environment names.
    pub(crate) fn of(package: &Package, manifest: &Manifest) -> Result<Self, Absent> {
        match environment::candidate() {
            Some(file) => Self::read(&file, None, package, manifest),
            None => Self::read(Utf8Path::new(package.candidate), Some(package.digest), package, manifest),
        }
    }

    /// Reads a `candidate.json`; its object must have the digest it states, and `digest` if one is given.
    pub(crate) fn read(
        file: &Utf8Path,
        digest: Option<&str>,
        package: &Package,
        manifest: &Manifest,
    ) -> Result<Self, Absent> {
        let wrong = |message: String| Absent::Wrong(format!("{file}: {message}"));
        let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
        let candidate = Candidate::from_json(&text).map_err(|error| wrong(error.to_string()))?;
        if candidate.format > FORMAT_VERSION {
            return Err(wrong(format!("format {} is newer than {FORMAT_VERSION}", candidate.format)));
        }
        if candidate.class == Class::Launcher && candidate.prepares {
            return Err(wrong("a launcher cannot prepare weights".to_owned()));
        }
        let Some(object) = &candidate.object else {
            return Err(Absent::NotCompiled(candidate.missing.unwrap_or_else(|| "not compiled".to_owned())));
        };
        let object = file.with_file_name(object);
        let bytes = std::fs::read(&object).map_err(|error| wrong(format!("{object}: {error}")))?;
        let found = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        if found != candidate.digest || digest.is_some_and(|digest| digest != found) {
            return Err(wrong(format!("{object} is not the object that was compiled (digest {found})")));
        }
        let plan = match &candidate.plan {
            Some(text) => Some(arguments::read_plan(text, manifest, package.entries).map_err(wrong)?),
            None => None,
        };
        let kernels = plan.iter().flat_map(Plan::kernels).map(str::to_owned).collect();
        let prepares = candidate.prepares.then(|| manifest.op.clone());
        Ok(Self {
            class: candidate.class,
            object,
            digest: found,
            plan,
            kernels,
            knobs: candidate.knobs,
            without: Vec::new(),
            prepares,
        })
    }
}
