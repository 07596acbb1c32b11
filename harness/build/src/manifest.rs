//! A kernel crate's manifest, read from disk: the text checks of `kopt-schema`, and that the files it names are there.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::diagnostic::{Diagnostic, Step};
use kopt_schema::manifest::{self, Manifest, NotAKernel};

/// Reads the manifest of the crate in `folder`. `workspace` is the workspace's root; messages name files as they
/// are reached from `shown_from`.
///
/// # Errors
/// Everything that is wrong, each pointing into its file. A crate without the table is `Ok(Err(NotAKernel))`.
pub fn load(
    folder: &Utf8Path,
    workspace: Option<&Utf8Path>,
    shown_from: &Utf8Path,
) -> Result<Result<Manifest, NotAKernel>, Vec<Diagnostic>> {
    let read = |path: &Utf8Path| {
        std::fs::read_to_string(path)
            .map_err(|error| vec![Diagnostic::file(shown(path, shown_from), error.to_string())])
    };
    let path = folder.join("Cargo.toml");
    let text = read(&path)?;
    let root = match workspace.map(|root| root.join("Cargo.toml")) {
        Some(root) if root != path => Some((shown(&root, shown_from).to_owned(), read(&root)?)),
        // A crate may be its own workspace's root.
        Some(_) => Some((shown(&path, shown_from).to_owned(), text.clone())),
        None => None,
    };
    let inherited = root.as_ref().map(|(file, text)| (file.as_str(), text.as_str()));
    let Ok(manifest) = manifest::parse(shown(&path, shown_from), &text, inherited)? else {
        return Ok(Err(NotAKernel));
    };
    let missing = missing_files(folder, shown(&path, shown_from), &text, &manifest);
    if missing.is_empty() { Ok(Ok(manifest)) } else { Err(missing) }
}

/// The workspace that the crate in `folder` belongs to: the nearest ancestor whose `Cargo.toml` has `[workspace]`.
#[must_use]
pub fn workspace_root(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    folder
        .ancestors()
        .find(|ancestor| {
            std::fs::read_to_string(ancestor.join("Cargo.toml"))
                .ok()
                .and_then(|text| text.parse::<toml::Table>().ok())
                .is_some_and(|table| table.contains_key("workspace"))
        })
        .map(Utf8Path::to_owned)
}

fn shown<'a>(path: &'a Utf8Path, from: &Utf8Path) -> &'a str {
    path.strip_prefix(from).unwrap_or(path).as_str()
}

fn missing_files(folder: &Utf8Path, file: &str, text: &str, manifest: &Manifest) -> Vec<Diagnostic> {
    let mut missing = Vec::new();
    let mut look = |path: &str, keys: &[Step]| {
        let found = folder.join(path);
        if found.exists() {
            return;
        }
        let mut whole: Vec<Step> = ["package", "metadata", "kopt"].map(Step::from).into();
        whole.extend_from_slice(keys);
        let wrong = Diagnostic::at_path(file, text, &whole, format!("`{path}` does not exist"));
        missing.push(match nearest_file(&found) {
            Some(near) => wrong.hint(format!("did you mean `{}`?", Utf8Path::new(path).with_file_name(near))),
            None => wrong,
        });
    };
    for (index, source) in manifest.sources.iter().enumerate() {
        look(source, &["sources".into(), index.into()]);
    }
    look(&manifest.header, &["header".into()]);
    for (index, root) in manifest.include_roots.iter().enumerate() {
        look(root, &["include_roots".into(), index.into()]);
    }
    missing
}

/// One of the same kind: a header is never what was meant by a source.
fn nearest_file(path: &Utf8Path) -> Option<String> {
    let there = path.parent()?.read_dir_utf8().ok()?.filter_map(|entry| Some(entry.ok()?.file_name().to_owned()));
    let names: Vec<String> = there.filter(|name| Utf8Path::new(name).extension() == path.extension()).collect();
    kopt_schema::nearest(path.file_name()?, names.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_source_is_named_with_the_file_that_was_meant() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir(root.join("kernels")).unwrap();
        std::fs::write(root.join("kernels/softmax.h"), "").unwrap();
        std::fs::write(root.join("kernels/sofmtax.c"), "").unwrap();
        let text = "[package.metadata.kopt]\nop = \"softmax\"\nbackend = \"cpu\"\nsources = [\"kernels/softmax.c\"]\nshapes = [{ rows = 1, cols = 1 }]\n";
        std::fs::write(root.join("Cargo.toml"), text).unwrap();
        let findings = load(root, None, root).unwrap_err();
        assert_eq!(findings[0].position, Some((4, 12)));
        assert_eq!(findings[0].hint.as_deref(), Some("did you mean `kernels/sofmtax.c`?"));
    }
}
