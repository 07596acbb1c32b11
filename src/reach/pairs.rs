//! Which kernel crate of the base is which of the head: by name, else by folder, else by where its files went, else by what it
//! computes, and where: one that is gone and one that is new would pass without a comparison.

use camino::{Utf8Path, Utf8PathBuf};
use toml::{Table, Value};

use super::files::makes;
use super::{Changed, Package, Snapshot};

/// A kernel crate of the base, of the head, or of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pair {
    /// In both, under these names.
    Both {
        /// Its name in the base.
        before: String,
        /// Its name in the head.
        after: String,
    },
    /// Only in the head.
    Added(String),
    /// Only in the base.
    Removed(String),
}

impl Pair {
    /// Its name, in the head where it has one.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Both { after, .. } => after,
            Self::Added(name) | Self::Removed(name) => name,
        }
    }

    /// Its name in the base.
    #[must_use]
    pub fn before(&self) -> Option<&str> {
        match self {
            Self::Both { before, .. } => Some(before),
            Self::Removed(name) => Some(name),
            Self::Added(_) => None,
        }
    }

    /// Its name in the head.
    #[must_use]
    pub fn after(&self) -> Option<&str> {
        match self {
            Self::Both { after, .. } => Some(after),
            Self::Added(name) => Some(name),
            Self::Removed(_) => None,
        }
    }
}

/// Whether two packages are one.
type Way<'a> = &'a dyn Fn(&Package, &Package) -> bool;

/// Every kernel crate of either commit, once, by name.
#[must_use]
pub fn pairs(before: &Snapshot, after: &Snapshot, changes: &[Changed]) -> Vec<Pair> {
    let mut old: Vec<&Package> = before.kernels().collect();
    let mut new: Vec<&Package> = after.kernels().collect();
    let mut found = Vec::new();
    let ways: [Way<'_>; 4] = [
        &|old, new| old.name == new.name,
        &|old, new| old.folder == new.folder,
        &|old, new| moved(old, new, changes) > 0,
        &does_the_same,
    ];
    for way in ways {
        new.retain(|new| {
            let best = (0..old.len()).filter(|&index| way(old[index], new));
            let Some(index) = best.max_by_key(|&index| moved(old[index], new, changes)) else { return true };
            let old = old.remove(index);
            found.push(Pair::Both { before: old.name.clone(), after: new.name.clone() });
            false
        });
    }
    found.extend(new.into_iter().map(|new| Pair::Added(new.name.clone())));
    found.extend(old.into_iter().map(|old| Pair::Removed(old.name.clone())));
    found.sort_by(|one, other| one.name().cmp(other.name()));
    found
}

/// The folder in which another commit has this crate, by all of its manifests: a crate of its name, or any in its folder. A kernel
/// that only one commit's workspace knows is neither new nor gone where the other has it all the same.
#[must_use]
pub fn still_in(package: &Package, manifests: &[(Utf8PathBuf, String)]) -> Option<Utf8PathBuf> {
    let is_it = |(folder, text): &&(Utf8PathBuf, String)| match text.parse::<Table>() {
        Ok(table) => table.get("package").is_some_and(|other| {
            let name = other.get("name").and_then(Value::as_str);
            *folder == package.folder || name == Some(package.name.as_str())
        }),
        // One that is broken may be anything.
        Err(_) => *folder == package.folder,
    };
    manifests.iter().find(is_it).map(|(folder, _)| folder.clone())
}

fn does_the_same(old: &Package, new: &Package) -> bool {
    let does = |package: &Package| package.kernel.as_ref().map(|kernel| (kernel.op.clone(), kernel.backend));
    does(old).is_some_and(|old| Some(old) == does(new))
}

/// How many of the files that make `old` went to `new`.
fn moved(old: &Package, new: &Package, changes: &[Changed]) -> usize {
    let went = |change: &&Changed| match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            let inside = |path: &Utf8Path, package: &Package| {
                path.strip_prefix(&package.folder).is_ok_and(|inside| makes(package, inside))
            };
            before != after && inside(before, old) && inside(after, new)
        }
        _ => false,
    };
    changes.iter().filter(went).count()
}
