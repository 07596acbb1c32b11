//! Copies of `tests/fixtures`: whoever changes a fixture changes its own.

use std::fs;
use std::path::Path;

/// Copies the fixture of this name into a folder.
pub fn copy(name: &str, to: &Path) {
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name), to);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
