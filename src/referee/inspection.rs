//! A compiled version before the auditor: what `audit` is given of it, and of this machine.

use std::collections::HashSet;
use std::sync::OnceLock;

use camino::Utf8Path;
use kopt_schema::audit::Audit;
use kopt_schema::candidate::Candidate;
use object::{Object as _, ObjectSymbol as _};

use crate::audit::{self, Subject};
use crate::error::{Error, Result};
use crate::manifest::Kernel;

/// Audits the candidate that `file`, its `candidate.json`, tells of. What is let pass is what `allow` says, and so never the
/// candidate's own wish.
///
/// # Errors
/// When the object is gone.
pub fn inspect(kernel: &Kernel, file: &Utf8Path, candidate: &Candidate, allow: &[String]) -> Result<Audit> {
    let path = file.with_file_name(candidate.object.as_deref().unwrap_or_default());
    let object = std::fs::read(&path)
        .map_err(|error| Error::setup(format!("cannot read the compiled kernel `{path}`")).because(&error))?;
    let ptx = std::fs::read_to_string(path.with_extension("ptx")).ok();
    let audited = audit::audit(&Subject {
        class: candidate.class,
        op: &kernel.manifest.op,
        object: &object,
        parts: &parts(file),
        ptx: ptx.as_deref(),
        allow,
        is_taken: &is_taken,
    });
    // Evidence goes where nobody sees this machine's warnings.
    let scope = match &candidate.unconfined {
        Some(lacking) => format!("{}; compiled by a compiler that was not confined: {lacking}", audited.scope),
        None => audited.scope,
    };
    Ok(Audit { scope, ..audited })
}

/// The object files beside a candidate.
fn parts(file: &Utf8Path) -> Vec<Vec<u8>> {
    let Some(Ok(entries)) = file.parent().map(Utf8Path::read_dir_utf8) else { return Vec::new() };
    let paths = entries.filter_map(std::result::Result::ok).filter(|entry| entry.path().extension() == Some("o"));
    paths.filter_map(|entry| std::fs::read(entry.path()).ok()).collect()
}

/// Whether a library that every process has loaded defines this name.
fn is_taken(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(names_of_this_process).contains(name)
}

/// What the libraries that this process has loaded export: the C library, its mathematics, the loader.
fn names_of_this_process() -> HashSet<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files: HashSet<&str> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| path.contains(".so"))
        .collect();
    let mut names = HashSet::new();
    for bytes in files.into_iter().filter_map(|path| std::fs::read(path).ok()) {
        if let Ok(file) = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes.as_slice()) {
            let exported = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
            names.extend(exported.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
        }
    }
    names
}
