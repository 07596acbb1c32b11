//! Packages that a workspace takes by their path and that are no members of it, as their manifests say. Cargo is not asked: it
//! refuses a manifest that lies below another workspace's and is not named there, and builds it all the same where somebody
//! depends on it.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use toml::{Table, Value};

use super::links::Links;

/// Tables of a manifest that name dependencies.
const TABLES: [&str; 5] =
    ["dependencies", "build-dependencies", "build_dependencies", "dev-dependencies", "dev_dependencies"];

/// A package that is no member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// The text of its manifest.
    pub manifest: String,
    /// What it depends on.
    pub links: Links,
    /// The folder of the workspace's manifest that it inherits from.
    pub inherits: Option<Utf8PathBuf>,
}

/// Follows `folders` from manifest to manifest. Members, which are known already, and what lies outside of `root` are left out.
#[must_use]
pub fn outside(root: &Utf8Path, members: &[&Utf8Path], folders: &[Utf8PathBuf]) -> Vec<Outside> {
    let mut found: Vec<Outside> = Vec::new();
    let mut open = folders.to_vec();
    while let Some(folder) = open.pop() {
        let known = members.contains(&folder.as_path()) || found.iter().any(|one| one.folder == folder);
        if known || !folder.starts_with(root) {
            continue;
        }
        let one = Outside::read(root, folder);
        open.extend(one.links.folders.iter().cloned());
        found.push(one);
    }
    found
}

/// Folders that the manifest of a workspace puts in the place of packages from elsewhere, for whoever depends on those.
#[must_use]
pub fn patched(manifest: &str, folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let Ok(table) = manifest.parse::<Table>() else { return Vec::new() };
    let sources = table.get("patch").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = sources.chain(table.get("replace")).filter_map(Value::as_table);
    tables.flat_map(Table::values).filter_map(|one| path(one, folder)).collect()
}

impl Outside {
    fn read(root: &Utf8Path, folder: Utf8PathBuf) -> Self {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let table = manifest.parse::<Table>().unwrap_or_default();
        let name = table.get("package").and_then(|package| package.get("name")?.as_str());
        let name = name.or_else(|| folder.file_name()).unwrap_or_default().to_owned();
        let above = || {
            let below_root = folder.ancestors().take_while(|above| above.starts_with(root));
            below_root.map(Utf8Path::to_owned).find_map(|above| {
                let text = std::fs::read_to_string(above.join("Cargo.toml")).ok()?;
                Some((above, text.parse::<Table>().ok().filter(|table| table.contains_key("workspace"))?))
            })
        };
        // Where nothing is inherited, whatever lies above says nothing of it.
        let workspace = manifest.contains("workspace").then(above).flatten();
        let mut links = Links::default();
        for (key, value) in dependencies(&table) {
            let shared = workspace.as_ref().filter(|_| value.get("workspace").is_some()).and_then(|(above, table)| {
                Some((above, table.get("workspace")?.get("dependencies")?.get(key.as_str())?))
            });
            let (from, value) = shared.unwrap_or((&folder, &value));
            links.folders.extend(path(value, from));
            links.names.push(value.get("package").and_then(Value::as_str).map_or(key, str::to_owned));
        }
        let inherits = workspace.map(|(above, _)| above).filter(|above| *above != folder);
        Self { name, folder, manifest, links, inherits }
    }
}

/// Everything that a manifest depends on, for tests and builds and on whatever platform.
fn dependencies(manifest: &Table) -> Vec<(String, Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let tables = places.flat_map(|place| TABLES.iter().filter_map(|name| place.get(*name)?.as_table()));
    tables.flat_map(|table| table.iter().map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// The folder that a dependency names, without `..` in it.
fn path(dependency: &Value, from: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut whole = Utf8PathBuf::new();
    for part in from.join(dependency.get("path")?.as_str()?).components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => drop(whole.pop()),
            other => whole.push(other),
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_followed_from_manifest_to_manifest_and_through_what_they_inherit() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let write = |folder: &str, text: &str| {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("Cargo.toml"), text).unwrap();
        };
        write("common", "[workspace]\n[workspace.dependencies]\nbounds = { path = \"bounds\" }\n");
        write(
            "common/ops",
            "[package]\nname = \"ops\"\n[dependencies]\nbounds.workspace = true\nserde = \"1\"\n[target.'cfg(unix)'.build-dependencies]\nown = { path = \"../../kernels/own\" }\n",
        );
        write("common/bounds", "[package]\nname = \"bounds\"\n[dependencies]\nops = { path = \"../ops\" }\n");
        let members = [root.join("kernels/own")];
        let members: Vec<&Utf8Path> = members.iter().map(|member| member.as_path()).collect();
        let found = outside(root, &members, &[root.join("common/ops"), root.join("kernels/own"), "/elsewhere".into()]);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["ops", "bounds"]);
        assert_eq!(found[0].links.names, ["bounds", "serde", "own"]);
        assert_eq!(found[0].inherits.as_deref(), Some(root.join("common").as_path()));
        assert_eq!(found[1].inherits, None);
    }

    #[test]
    fn patches_name_folders() {
        let text = "[patch.crates-io]\nharness = { path = \"../vendor/harness\" }\nother = { git = \"x\" }\n";
        assert_eq!(patched(text, Utf8Path::new("/ws")), ["/vendor/harness"]);
    }
}
