//! Which kernels a change can reach, and why: from the files that differ between two commits and what both say of their
//! packages. Pure: trees, manifests and lock files are read by others.
//!
//! | module | what |
//! |---|---|
//! | `files` | what a file is to a kernel |
//! | `manifests` | what of a changed `Cargo.toml` matters |
//! | `locked` | which versions of dependencies changed |
//! | `pairs` | which kernel of the base is which of the head |
//!
//! In doubt a file counts: a kernel that is reached for nothing costs two compilations, and its equal code ends it there.
//! What is not seen: a file outside of the crate that Rust code includes by its path (`include!`, `#[path]`).

mod files;
mod locked;
mod manifests;
mod pairs;

#[cfg(test)]
mod tests;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;

pub use files::{include_roots, is_beside_code, is_document, is_source, named_roots, plain};
pub use pairs::{Crate, Pair, crates, pairs, still_in};

/// A file that differs between two commits, relative to the repository. Both where it was changed or moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Where it was.
    pub before: Option<Utf8PathBuf>,
    /// Where it is.
    pub after: Option<Utf8PathBuf>,
}

impl Changed {
    /// The path as it is, or was.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        self.after.as_deref().or(self.before.as_deref()).unwrap_or(Utf8Path::new(""))
    }
}

/// What a commit says of its packages. Paths are relative to the repository.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The workspace's folder.
    pub workspace: Utf8PathBuf,
    /// Its packages, and after them those that they take by their path from elsewhere in the repository.
    pub packages: Vec<Package>,
    /// The text of its root manifest.
    pub manifest: String,
    /// The text of its lock file, where it has one.
    pub lock: Option<String>,
}

/// A package of the workspace, or one that another takes by its path.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// The text of its manifest.
    pub manifest: String,
    /// The include roots that its manifest names, whatever else is wrong with it.
    pub include_roots: Vec<String>,
    /// Whether it is a kernel crate of the workspace.
    pub is_kernel: bool,
    /// What it says of itself, if it is one and says it right.
    pub kernel: Option<Manifest>,
    /// Names of everything it depends on, for tests and builds too.
    pub dependencies: Vec<String>,
    /// Folders of those that lie in the repository.
    pub links: Vec<Utf8PathBuf>,
    /// The folder of another workspace's manifest that it inherits from.
    pub inherits: Option<Utf8PathBuf>,
}

/// What a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// The kernel itself: what its object is compiled from.
    Kernel,
    /// What judges it: harness, references, tolerances, shapes, and what they are built from.
    Judging,
    /// The toolchain: everything is reached.
    Toolchain,
}

/// Why a kernel is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The file that differs.
    pub path: Utf8PathBuf,
    /// What it is about.
    pub aspect: Aspect,
    /// What the file is to the kernel, in words.
    pub why: String,
}

impl Snapshot {
    /// The package of that name.
    #[must_use]
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The kernel crates.
    pub fn kernels(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_kernel)
    }

    /// The innermost package that holds a file.
    fn owner(&self, path: &Utf8Path) -> Option<&Package> {
        let holders = self.packages.iter().filter(|package| path.starts_with(&package.folder));
        holders.max_by_key(|package| package.folder.as_str().len())
    }

    /// A package and everything of the repository that it depends on, itself first.
    fn closure<'a>(&'a self, package: &'a Package) -> Vec<&'a Package> {
        let mut found = vec![package];
        let mut next = 0;
        while let Some(package) = found.get(next).copied() {
            next += 1;
            for link in &package.links {
                let linked = self.packages.iter().find(|other| other.folder == *link);
                if let Some(linked) = linked.filter(|linked| found.iter().all(|known| known.folder != linked.folder)) {
                    found.push(linked);
                }
            }
        }
        found
    }
}

/// Why the kernel crate `pair` is reached by `changes`: nothing if it is not. Kernel first, then what judges it.
#[must_use]
pub fn reasons(before: &Snapshot, after: &Snapshot, changes: &[Changed], pair: &Pair) -> Vec<Reason> {
    let old = pair.before().and_then(|name| before.package(name));
    let new = pair.after().and_then(|name| after.package(name));
    let mut found: Vec<Reason> = Vec::new();
    for change in changes {
        let sides = [(change.before.as_deref(), before, old), (change.after.as_deref(), after, new)];
        let told = sides.into_iter().filter_map(|(path, snapshot, kernel)| {
            let (path, kernel) = (path?, kernel?);
            let (aspect, why) = files::role(snapshot, kernel, path)?;
            Some(Reason { path: path.to_owned(), aspect, why })
        });
        let mut told: Vec<Reason> = told.collect();
        // A file that was only changed is told once; one that was moved also as what it was before, if that was something else.
        let last = told.pop();
        told.retain(|before| last.as_ref().is_none_or(|last| last.aspect != before.aspect));
        found.extend(last);
        found.extend(told);
        found.extend(manifests::reasons([before, after], [old, new], change));
        if is_lock(before, after, change) {
            found.extend(locked::reasons([before, after], [old, new], change.path()));
        }
    }
    found.sort_by_key(|reason| reason.aspect);
    found.dedup();
    found
}

fn is_lock(before: &Snapshot, after: &Snapshot, change: &Changed) -> bool {
    let is = |path: &Option<Utf8PathBuf>, snapshot: &Snapshot| {
        path.as_deref().is_some_and(|path| *path == snapshot.workspace.join("Cargo.lock"))
    };
    is(&change.before, before) || is(&change.after, after)
}
