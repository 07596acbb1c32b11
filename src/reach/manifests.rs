//! What of a changed `Cargo.toml` matters to a kernel.

use toml::{Table, Value};

use super::{Aspect, Changed, Package, Reason, Snapshot};

/// Keys of `[package]` that change nothing that is built.
const DESCRIPTIVE: [&str; 12] = [
    "authors",
    "categories",
    "description",
    "documentation",
    "exclude",
    "homepage",
    "include",
    "keywords",
    "license",
    "license-file",
    "publish",
    "readme",
];

/// Keys of `[package.metadata.kopt]` that judge the kernel, and do not make it.
const JUDGING: [&str; 3] = ["shapes", "check", "policy"];

pub(super) fn reasons(
    [before, after]: [&Snapshot; 2],
    [old, new]: [Option<&Package>; 2],
    change: &Changed,
) -> Vec<Reason> {
    let told = |aspect, why: String| Reason { path: change.path().to_owned(), aspect, why };
    let mut found = Vec::new();
    let is = |path: Option<&camino::Utf8PathBuf>, folder: Option<&camino::Utf8PathBuf>| match (path, folder) {
        (Some(path), Some(folder)) => *path == folder.join("Cargo.toml"),
        _ => false,
    };
    let of =
        |folder: fn(&Package) -> &camino::Utf8PathBuf, package: Option<&Package>, path| is(path, package.map(folder));
    let own = of(|package| &package.folder, old, change.before.as_ref())
        || of(|package| &package.folder, new, change.after.as_ref());
    if let (true, Some(old), Some(new)) = (own, old, new) {
        let (kernel, judging, other) = own_manifest(&old.manifest, &new.manifest);
        found.extend(kernel.into_iter().map(|key| told(Aspect::Kernel, format!("changes `{key}` of the kernel"))));
        found.extend(judging.into_iter().map(|key| told(Aspect::Judging, format!("changes `{key}` of the kernel"))));
        found.extend(other.map(|key| told(Aspect::Judging, format!("changes `{key}` of the crate"))));
    } else if own {
        found.push(told(Aspect::Kernel, "is its manifest".to_owned()));
    }
    let is_root =
        is(change.before.as_ref(), Some(&before.workspace)) || is(change.after.as_ref(), Some(&after.workspace));
    if let (true, Some(kernel)) = (is_root, new.or(old)) {
        let snapshot = if new.is_some() { after } else { before };
        let names: Vec<&str> = snapshot
            .closure(kernel)
            .iter()
            .flat_map(|package| package.dependencies.iter().map(String::as_str))
            .collect();
        for (aspect, key) in root_manifest(&before.manifest, &after.manifest, &names) {
            found.push(told(aspect, format!("changes `{key}` of the workspace")));
        }
    }
    if !own && !is_root {
        let linked = |snapshot: &Snapshot, kernel: Option<&Package>, path: Option<&camino::Utf8PathBuf>| {
            let closure = kernel.map(|kernel| snapshot.closure(kernel)).unwrap_or_default();
            let of = |package: &&Package| is(path, Some(&package.folder)) || is(path, package.inherits.as_ref());
            let found = closure.into_iter().find(of);
            found.map(|package| package.name.clone())
        };
        let name = linked(after, new, change.after.as_ref()).or_else(|| linked(before, old, change.before.as_ref()));
        found.extend(name.map(|name| told(Aspect::Judging, format!("is the manifest of {name}, which it depends on"))));
    }
    found
}

/// Keys of the kernel's table that make it, keys that judge it, and the first other table that differs.
fn own_manifest(before: &str, after: &str) -> (Vec<String>, Vec<String>, Option<String>) {
    let (Ok(mut before), Ok(mut after)) = (before.parse::<Table>(), after.parse::<Table>()) else {
        return (vec!["Cargo.toml".to_owned()], Vec::new(), None);
    };
    let differing = keys_that_differ(&taken(&mut before), &taken(&mut after));
    let (judging, kernel) = differing.into_iter().partition(|key| JUDGING.contains(&key.as_str()));
    for table in [&mut before, &mut after] {
        table.remove("lints");
        // The root manifest's workspace is looked into by itself.
        table.remove("workspace");
        if let Some(Value::Table(package)) = table.get_mut("package") {
            package.retain(|key, _| !DESCRIPTIVE.contains(&key) && key != "metadata" && key != "name");
        }
    }
    (kernel, judging, keys_that_differ(&before, &after).into_iter().next())
}

/// The kernel's table, taken out of the manifest.
fn taken(manifest: &mut Table) -> Table {
    let metadata = manifest.get_mut("package").and_then(|package| package.get_mut("metadata"));
    let metadata = metadata.and_then(Value::as_table_mut);
    match metadata.and_then(|metadata| metadata.remove("kopt")) {
        Some(Value::Table(kernel)) => kernel,
        _ => Table::new(),
    }
}

/// What of a workspace's root manifest matters to a crate that depends on `names`.
fn root_manifest(before: &str, after: &str, names: &[&str]) -> Vec<(Aspect, String)> {
    let (Ok(before), Ok(after)) = (before.parse::<Table>(), after.parse::<Table>()) else {
        return vec![(Aspect::Judging, "Cargo.toml".to_owned())];
    };
    let at = |table: &Table, path: &[&str]| {
        let mut value = table.get(path[0])?;
        for key in &path[1..] {
            value = value.get(key)?;
        }
        Some(value.clone())
    };
    let mut found = Vec::new();
    let defaults = |table: &Table| match at(table, &["workspace", "metadata", "kopt"]) {
        Some(Value::Table(defaults)) => defaults,
        _ => Table::new(),
    };
    for key in keys_that_differ(&defaults(&before), &defaults(&after)) {
        let aspect = if JUDGING.contains(&key.as_str()) { Aspect::Judging } else { Aspect::Kernel };
        found.push((aspect, format!("metadata.kopt.{key}")));
    }
    let paths: [&[&str]; 6] = [
        &["profile"],
        &["patch"],
        &["replace"],
        &["workspace", "resolver"],
        &["workspace", "package", "edition"],
        &["workspace", "package", "rust-version"],
    ];
    for path in paths {
        if at(&before, path) != at(&after, path) {
            found.push((Aspect::Judging, path.last().copied().unwrap_or_default().to_owned()));
        }
    }
    for name in names {
        let path = ["workspace", "dependencies", name];
        if at(&before, &path) != at(&after, &path) && found.iter().all(|(_, key)| key != name) {
            found.push((Aspect::Judging, (*name).to_owned()));
        }
    }
    found
}

fn keys_that_differ(before: &Table, after: &Table) -> Vec<String> {
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}
