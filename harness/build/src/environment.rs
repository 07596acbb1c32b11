//! The only place of this crate that reads the environment.
#![allow(clippy::disallowed_methods, reason = "this is the place")]

use camino::Utf8PathBuf;

/// A variable, if it is set to text.
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable that names a folder or a file.
pub(crate) fn path(name: &str) -> Option<Utf8PathBuf> {
    text(name).map(Utf8PathBuf::from)
}

/// The folders of `PATH`.
pub(crate) fn search_path() -> Vec<Utf8PathBuf> {
    folders("PATH")
}

/// The folders that a variable lists.
pub(crate) fn folders(name: &str) -> Vec<Utf8PathBuf> {
    let paths = std::env::var_os(name).unwrap_or_default();
    std::env::split_paths(&paths).filter_map(|folder| Utf8PathBuf::from_path_buf(folder).ok()).collect()
}

/// The folder of the user's data.
pub(crate) fn data() -> Option<Utf8PathBuf> {
    path("XDG_DATA_HOME").or_else(|| Some(path("HOME")?.join(".local/share")))
}
