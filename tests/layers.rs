//! The layers of `src/`: a lower one never names a higher one, and every module has a place.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each module of the crate's root with its layer. A module that is missing here fails the test: decide where it belongs.
const LAYERS: &[(&str, u8)] = &[
    ("context", 0),
    ("error", 0),
    ("process", 0),
    ("replacement", 0),
    ("shell", 0),
    ("machine", 1),
    ("manifest", 1),
    ("workspace", 1),
    ("audit", 2),
    ("gate", 2),
    ("ledger", 2),
    ("page", 2),
    ("reach", 2),
    ("records", 2),
    ("build", 3),
    ("experience", 3),
    ("lineage", 3),
    ("proposer", 3),
    ("referee", 3),
    ("revision", 3),
    ("runner", 3),
    ("sanitizer", 3),
    ("transfer", 3),
    ("campaign", 4),
    ("ops", 5),
    ("cli", 6),
];

/// The root itself: the map, and the entry.
const ROOTS: [&str; 2] = ["lib.rs", "main.rs"];

#[test]
fn a_lower_layer_never_names_a_higher_one() {
    let mut wrong = Vec::new();
    for (path, module) in files() {
        let Some(layer) = layer_of(&module) else {
            wrong.push(format!("{}: module `{module}` has no layer", path.display()));
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        for named in named_modules(&text, &path) {
            if layer_of(&named).is_some_and(|other| other > layer) {
                wrong.push(format!("{}: `{module}` (layer {layer}) names `{named}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_table_exists() {
    let modules: Vec<String> = files().into_iter().map(|(_, module)| module).collect();
    for (module, _) in LAYERS {
        assert!(modules.iter().any(|found| found == module), "`{module}` is gone");
    }
}

#[test]
fn names_are_found_in_every_form() {
    let text = "use crate::{ops::{self, x}, shell};\n// crate::cli\nlet a = crate::build::b(crate :: runner::c);\n";
    assert_eq!(named_modules(text, Path::new("src/process.rs")), ["ops", "shell", "build", "runner"]);
    assert_eq!(named_modules("use super::cli::x;", Path::new("src/process.rs")), ["cli"]);
    assert_eq!(named_modules("use super::cli::x;", Path::new("src/shell/table.rs")), Vec::<String>::new());
    assert_eq!(named_modules("use super::super::cli::x;", Path::new("src/shell/table.rs")), ["cli"]);
}

fn layer_of(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// Every source file with the root module it belongs to.
fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let inside = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if inside.ends_with(".rs") && !ROOTS.contains(&inside.as_str()) {
                let module = inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
                found.push((path, module));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// Root modules that a file names: by `crate::`, by a group after it, or by as many `super::` as lead to the root.
fn named_modules(text: &str, path: &Path) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let code: String = code.split_whitespace().collect::<Vec<_>>().join(" ").replace(" :: ", "::").replace(":: ", "::");
    let depth = path.components().rev().take_while(|part| part.as_os_str() != "src").count();
    let is_folder_module = path.file_name().is_some_and(|name| name == "mod.rs");
    let to_root = "super::".repeat(if is_folder_module { depth - 1 } else { depth });
    let mut names = Vec::new();
    for prefix in ["crate::", &to_root] {
        for (at, _) in code.match_indices(prefix) {
            // `super::super::` also ends in `super::`, and `$crate::` is another crate's.
            if code[..at].ends_with("super::")
                || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
            {
                continue;
            }
            names.extend(heads(&code[at + prefix.len()..]));
        }
    }
    names
}

/// The first names of a path, or of each path of a group.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()];
    };
    let mut depth = 0;
    let (mut names, mut current) = (Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(c),
            _ => {}
        }
    }
    names.push(current);
    let head = |path: &String| path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    names.iter().map(head).filter(|name| !name.is_empty()).collect()
}

/// Who does not ask for a training step does not compile it: only this package's own tests depend on it, and a plain `cargo
/// build` builds this package alone.
#[test]
fn a_default_build_does_not_compile_the_training_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let own = read(&root.join("Cargo.toml"));
    assert_eq!(own["workspace"]["default-members"].as_array().unwrap(), &[toml::Value::from(".")]);
    let members = own["workspace"]["members"].as_array().unwrap().iter().map(|member| member.as_str().unwrap());
    let folders = members.flat_map(|member| match member.strip_suffix("/*") {
        Some(folder) => fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect(),
        None => vec![root.join(member)],
    });
    let manifests: Vec<PathBuf> =
        folders.chain([root.to_owned()]).map(|folder| folder.join("Cargo.toml")).filter(|path| path.exists()).collect();
    assert!(manifests.len() > 10, "{manifests:?}");
    for path in manifests {
        let manifest = read(&path);
        for table in ["dependencies", "build-dependencies"] {
            let named = manifest.get(table).and_then(|table| table.get("kopt-train"));
            assert!(named.is_none(), "{}: [{table}] names kopt-train", path.display());
        }
    }
}
