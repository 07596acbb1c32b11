//! Which versions of what a kernel depends on differ between two lock files.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::Deserialize;

use super::{Aspect, Package, Reason, Snapshot};

/// Versions that are named one by one.
const NAMED: usize = 3;

#[derive(Debug, Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Debug, Clone, Deserialize)]
struct Locked {
    name: String,
    version: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Name and version of a package, and where it is from.
type Identity = (String, String, Option<String>, Option<String>);

pub(super) fn reasons(snapshots: [&Snapshot; 2], kernels: [Option<&Package>; 2], path: &Utf8Path) -> Vec<Reason> {
    let told = |why: String| vec![Reason { path: path.to_owned(), aspect: Aspect::Judging, why }];
    let [Some(old), Some(new)] = kernels else { return Vec::new() };
    let sets = [(snapshots[0], old), (snapshots[1], new)].map(|(snapshot, kernel)| {
        let lock: Lock = toml::from_str(snapshot.lock.as_deref()?).ok()?;
        Some(closure(&lock, &kernel.name))
    });
    let [Some(before), Some(after)] = sets else { return told("fixes the versions of its dependencies".to_owned()) };
    // The kernel's own version, and those of the workspace, are not what a lock file is for.
    let outside = |one: &&Identity| one.2.is_some();
    let changed: BTreeMap<&String, &String> =
        after.difference(&before).filter(outside).map(|one| (&one.0, &one.1)).collect();
    let gone: Vec<&Identity> =
        before.difference(&after).filter(outside).filter(|one| !changed.contains_key(&one.0)).collect();
    let mut names: Vec<String> = changed.iter().map(|(name, version)| format!("{name} {version}")).collect();
    names.extend(gone.iter().map(|one| format!("without {}", one.0)));
    if names.is_empty() {
        return Vec::new();
    }
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    told(format!("changes what it depends on: {}{more}", names.join(", ")))
}

/// Everything that package `name` depends on.
fn closure(lock: &Lock, name: &str) -> BTreeSet<Identity> {
    let mut found: BTreeSet<Identity> = BTreeSet::new();
    let mut open: Vec<&Locked> = lock.package.iter().filter(|package| package.name == name).collect();
    while let Some(package) = open.pop() {
        let identity =
            (package.name.clone(), package.version.clone(), package.source.clone(), package.checksum.clone());
        if !found.insert(identity) {
            continue;
        }
        for dependency in &package.dependencies {
            // `name`, `name version` or `name version (source)`: as much as is needed to tell two apart.
            let mut words = dependency.split(' ');
            let (name, version) = (words.next().unwrap_or_default(), words.next());
            let meant = |other: &&Locked| other.name == name && version.is_none_or(|version| other.version == version);
            open.extend(lock.package.iter().filter(meant));
        }
    }
    found
}
