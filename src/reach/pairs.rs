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

/// A crate that a commit has, whichever workspace it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// Its name; none where its manifest is broken, and it may be any.
    pub name: Option<String>,
}

/// The crates of a commit, by all of its manifests, each with its folder.
#[must_use]
pub fn crates(manifests: &[(Utf8PathBuf, String)]) -> Vec<Crate> {
    let read = |(folder, text): &(Utf8PathBuf, String)| {
        let name = match text.parse::<Table>() {
            Ok(table) => table.get("package")?.get("name").and_then(Value::as_str).map(str::to_owned),
            Err(_) => None,
        };
        Some(Crate { folder: folder.clone(), name })
    };
    manifests.iter().filter_map(read).collect()
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

/// Where a kernel that only one commit's workspace knows is in the other commit all the same, and so neither new nor gone: any
/// crate in its folder, one of its name that has come there or gone from there, and one that files which make the kernel went to
/// or came from. What both commits have under its name in another folder is another crate.
#[must_use]
pub fn still_in(
    pair: &Pair,
    [before, after]: [&Snapshot; 2],
    [old, new]: [&[Crate]; 2],
    changes: &[Changed],
) -> Option<Utf8PathBuf> {
    let (package, own, other, others) = match pair {
        Pair::Both { .. } => return None,
        Pair::Removed(name) => (before.package(name)?, old, after, new),
        Pair::Added(name) => (after.package(name)?, new, before, old),
    };
    let in_place = |one: &&Crate| one.folder == package.folder;
    let by_name = |one: &&Crate| one.name.as_deref() == Some(package.name.as_str()) && !own.contains(one);
    let by_files = |change: &Changed| {
        let (was, is) = (change.before.as_deref()?, change.after.as_deref()?);
        let (here, there) = if matches!(pair, Pair::Removed(_)) { (was, is) } else { (is, was) };
        let makes_it = here.strip_prefix(&package.folder).is_ok_and(|inside| makes(package, inside));
        let holders = others.iter().filter(|one| there.starts_with(&one.folder));
        let holder = holders.max_by_key(|one| one.folder.as_str().len())?;
        // A kernel of that workspace is looked at by itself.
        let is_known = other.kernels().any(|kernel| kernel.folder == holder.folder);
        (makes_it && was != is && !is_known).then_some(holder)
    };
    let found = others.iter().find(in_place).or_else(|| others.iter().find(by_name));
    found.or_else(|| changes.iter().find_map(by_files)).map(|one| one.folder.clone())
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
