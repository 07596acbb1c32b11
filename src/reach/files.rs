//! What a file is to a kernel, by where it lies.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;

use super::{Aspect, Package, Snapshot};

/// Text for people: changes no code, unless a source includes it, of a kernel or in Rust.
const DOCUMENTS: [&str; 4] = ["md", "markdown", "rst", "adoc"];
const DOCUMENT_NAMES: [&str; 6] = ["LICENSE", "COPYING", "NOTICE", "README", "CHANGELOG", "AUTHORS"];

/// Folders of a package whose files only its own tests, benches and examples are built from.
const OF_ITSELF: [&str; 3] = ["tests", "benches", "examples"];

/// Folders of a package with Rust code, which may include whatever lies beside it.
const OF_CODE: [&str; 3] = ["src", "tests", "benches"];

/// Files that compilers of kernels are given, or include.
const SOURCES: [&str; 13] = ["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "inc", "cu", "cuh", "hip", "py", "s"];

/// Whether a file of this name may be a part of a kernel.
#[must_use]
pub fn is_source(name: &str) -> bool {
    Utf8Path::new(name).extension().is_some_and(|end| SOURCES.contains(&end.to_ascii_lowercase().as_str()))
}

/// Whether a file is only read by people.
#[must_use]
pub fn is_document(path: &Utf8Path) -> bool {
    let stem = path.file_name().unwrap_or_default().split(['.', '-']).next().unwrap_or_default();
    let by_name = DOCUMENT_NAMES.contains(&stem) && path.extension().is_none_or(|end| end == "txt");
    by_name || path.extension().is_some_and(|end| DOCUMENTS.contains(&end))
}

/// Whether Rust code may include a document at `path`, as far as the path alone tells: nothing is known of packages yet.
#[must_use]
pub fn is_beside_code(path: &Utf8Path) -> bool {
    path.components().any(|part| OF_CODE.contains(&part.as_str()))
}

/// What the file at `path` is to `kernel`, if anything. What manifests and lock files say is looked into elsewhere.
pub(super) fn role(snapshot: &Snapshot, kernel: &Package, path: &Utf8Path) -> Option<(Aspect, String)> {
    // A name says nothing of what is included: beside sources a document is one of them, and so is a manifest.
    let found = surroundings(snapshot, kernel, path).or_else(|| compiled(kernel, path));
    let read_elsewhere = (is_document(path) && !is_in_code(snapshot, path)) || is_cargos(snapshot, path);
    let found = found.or_else(|| owned(snapshot, kernel, path).filter(|_| !read_elsewhere));
    found.or_else(|| readable(kernel, path))
}

/// Whether a file lies where a package has its Rust code.
fn is_in_code(snapshot: &Snapshot, path: &Utf8Path) -> bool {
    let inside = snapshot.owner(path).and_then(|owner| path.strip_prefix(&owner.folder).ok());
    let first = inside.and_then(|inside| inside.components().next());
    first.is_some_and(|first| OF_CODE.contains(&first.as_str()))
}

/// Whether it is a manifest or the lock file, which cargo reads. Other files may be called so.
fn is_cargos(snapshot: &Snapshot, path: &Utf8Path) -> bool {
    let folders = snapshot.packages.iter().map(|package| &package.folder).chain([&snapshot.workspace]);
    *path == snapshot.workspace.join("Cargo.lock")
        || folders.into_iter().any(|folder| *path == folder.join("Cargo.toml"))
}

/// Folders that some crate of a commit may include from, by all of its manifests, each with its folder: for a first look, before
/// anything is known of packages.
#[must_use]
pub fn include_roots(manifests: &[(Utf8PathBuf, String)]) -> Vec<Utf8PathBuf> {
    let of = |(folder, text): &(Utf8PathBuf, String)| -> Vec<Utf8PathBuf> {
        named_roots(text).iter().map(|root| plain(&folder.join(root))).collect()
    };
    manifests.iter().flat_map(of).collect()
}

/// The include roots of a manifest, as it names them, whatever else is wrong with it.
#[must_use]
pub fn named_roots(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let kernel = table.get("package").and_then(|package| package.get("metadata")?.get("kopt"));
    let roots = kernel.and_then(|kernel| kernel.get("include_roots")?.as_array());
    roots.into_iter().flatten().filter_map(|root| Some(root.as_str()?.to_owned())).collect()
}

/// Where a source lies in the root of the crate, its compiler can read all of it: a document, or a queue of changes.
fn readable(kernel: &Package, path: &Utf8Path) -> Option<(Aspect, String)> {
    let manifest = kernel.kernel.as_ref()?;
    path.strip_prefix(&kernel.folder).ok()?;
    let mut folders = source_folders(manifest);
    folders.any(|folder| folder == "").then(|| (Aspect::Kernel, "lies where its compiler can read it".to_owned()))
}

/// Toolchain and cargo's configuration: they lie in a folder around what they are about.
fn surroundings(snapshot: &Snapshot, kernel: &Package, path: &Utf8Path) -> Option<(Aspect, String)> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    let (aspect, around, what) = match name {
        "rust-toolchain" | "rust-toolchain.toml" => (Aspect::Toolchain, folder, "names the toolchain"),
        "config.toml" | "config" if folder.file_name() == Some(".cargo") => {
            (Aspect::Judging, folder.parent()?, "configures cargo")
        }
        _ => return None,
    };
    let reaches = kernel.folder.starts_with(around) || snapshot.workspace.starts_with(around);
    reaches.then(|| (aspect, what.to_owned()))
}

/// What the object is compiled from.
fn compiled(kernel: &Package, path: &Utf8Path) -> Option<(Aspect, String)> {
    let manifest = kernel.kernel.as_ref();
    // As they are named: one that lies in a submodule is not there, and the manifest is wrong by that.
    for root in &kernel.include_roots {
        let folder = plain(&kernel.folder.join(root));
        if path.starts_with(&folder) {
            return Some((Aspect::Kernel, format!("is under the include root `{root}`")));
        }
        // What others lie below, and is told of as one that differs, is no folder.
        if folder.starts_with(path) {
            let why = format!("is a submodule or a link that the include root `{root}` lies behind");
            return Some((Aspect::Kernel, why));
        }
    }
    let inside = path.strip_prefix(&kernel.folder).ok()?;
    let why = match manifest {
        Some(manifest) if manifest.launch.as_deref() == Some(inside.as_str()) => "is its launch plan",
        Some(manifest) if manifest.header == inside.as_str() => "is the header with its arguments",
        Some(manifest) if manifest.sources.iter().any(|source| source == inside.as_str()) => "is its source",
        Some(manifest) if manifest.generator.iter().any(|word| word == inside.as_str()) => "makes its device code",
        Some(manifest) if is_beside(manifest, inside) => "lies beside its sources",
        _ if inside.starts_with("kernels") => "lies beside its sources",
        _ => return None,
    };
    Some((Aspect::Kernel, why.to_owned()))
}

/// Whether a file of a kernel crate is one that the kernel is made of. Of a crate with sources in its root that is what looks like
/// one: what else lies there is alike in many crates.
pub(super) fn makes(kernel: &Package, inside: &Utf8Path) -> bool {
    let in_root = |manifest: &Manifest| {
        let is_loose = inside.parent() == Some(Utf8Path::new("")) && inside.file_name().is_some_and(is_source);
        is_loose && source_folders(manifest).any(|folder| folder == "")
    };
    let path = kernel.folder.join(inside);
    compiled(kernel, &path).is_some() || kernel.kernel.as_ref().is_some_and(in_root)
}

/// Whether a compiler can read it as it reads the sources. Of sources in the root of a crate that is everything, and what else
/// a file of the crate is says more.
fn is_beside(manifest: &Manifest, inside: &Utf8Path) -> bool {
    source_folders(manifest).filter(|folder| *folder != "").any(|folder| inside.starts_with(folder))
}

/// Folders of the crate that its sources lie in.
fn source_folders(manifest: &Manifest) -> impl Iterator<Item = &Utf8Path> {
    let scripts = manifest.generator.iter().filter_map(|word| Utf8Path::new(word).parent());
    let files = manifest.sources.iter().chain([&manifest.header]);
    files.filter_map(|file| Utf8Path::new(file).parent()).chain(scripts.filter(|folder| *folder != ""))
}

/// Other files of the crate, and of what it depends on.
fn owned(snapshot: &Snapshot, kernel: &Package, path: &Utf8Path) -> Option<(Aspect, String)> {
    let behind = |package: &&&Package| package.folder.starts_with(path);
    if let Some(package) = snapshot.closure(kernel).iter().find(behind) {
        let why = match package.folder == kernel.folder {
            true => "is a submodule or a link that the crate lies behind".to_owned(),
            false => format!("is a submodule or a link that {} lies behind, which it depends on", package.name),
        };
        return Some((Aspect::Judging, why));
    }
    let owner = snapshot.owner(path)?;
    let inside = path.strip_prefix(&owner.folder).ok()?;
    let first = inside.components().next()?.as_str();
    if owner.folder == kernel.folder {
        let why = match first {
            // A queue of changes that nobody has made yet.
            "patches" | "examples" => return None,
            "src" => "is the operator: its reference, bounds and inputs",
            "tests" | "benches" => "checks and times it",
            "build.rs" => "builds it",
            _ => "is a file of the crate",
        };
        return Some((Aspect::Judging, why.to_owned()));
    }
    if OF_ITSELF.contains(&first) {
        return None;
    }
    let is_linked = snapshot.closure(kernel).iter().any(|package| package.folder == owner.folder);
    is_linked.then(|| (Aspect::Judging, format!("is a part of {}, which it depends on", owner.name)))
}

/// A path without `..` in it.
#[must_use]
pub fn plain(path: &Utf8Path) -> Utf8PathBuf {
    let mut whole = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    whole
}
