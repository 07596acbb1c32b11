//! What `build.rs` does: manifest, bindings, compile, then one generated file that `kopt_harness::kernel!` includes.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::{Class, Manifest};

use crate::bindings::{self, Bindings, FieldType};
use crate::compile::{self, Built};
use crate::environment;
use crate::error::BuildError;
use crate::recipe::{self, Recipe};
use crate::{manifest, sandbox};

/// Variables that every build hears.
const HEARD: [&str; 5] = ["CC", "CXX", "LIBCLANG_PATH", "KOPT_BINDINGS", "KOPT_BUILD_VERBOSE"];

/// Variables that decide which compiler of device code is found. `PATH` differs between a shell and a cargo inside cargo, so that
/// crates that do not need it must not be rebuilt for it.
const SEARCHED: [&str; 10] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "ROCM_PATH",
    "HIP_PATH",
    "PATH",
    "NVCC_CCBIN",
    "VIRTUAL_ENV",
    "KOPT_PYTHON",
    "XDG_DATA_HOME",
    "HOME",
];

/// Variables that decide which device is here.
const VISIBLE: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"];

/// The whole of a kernel crate's `build.rs`. Ends the process with a message when the kernel cannot be built.
#[allow(clippy::print_stderr, clippy::print_stdout, reason = "a build script talks to cargo through its output")]
pub fn build() {
    match run() {
        Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

fn run() -> Result<Vec<String>, BuildError> {
    let variable = |name: &str| {
        environment::path(name).ok_or_else(|| BuildError::NoCompiler(format!("{name} is not set: not a build script?")))
    };
    let (folder, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?.join("kopt"));
    let workspace = manifest::workspace_root(&folder);
    let shown_from = workspace.clone().unwrap_or_else(|| folder.clone());
    let Ok(manifest) = manifest::load(&folder, workspace.as_deref(), &shown_from).map_err(BuildError::Manifest)? else {
        let reason = "has no [package.metadata.kopt] table, which says what the kernel is".to_owned();
        return Err(BuildError::Header { header: "Cargo.toml".to_owned(), reason });
    };
    let write = environment::text("KOPT_BINDINGS").is_some_and(|word| word == "write");
    let bindings = bindings::load(&folder, &manifest, write)?;
    let built = compile::checked(&folder, &manifest, &bindings, &Recipe::of(&folder, &manifest)?, &out)?;
    let write_file = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(BuildError::file(path))
    };
    write_file("bindings.rs", &bindings.text)?;
    write_file("kernel.rs", &generated(&folder, &manifest, &bindings, &built)?)?;
    let mut lines = vec![format!("cargo:rerun-if-changed={}", folder.join("Cargo.toml"))];
    lines.extend(workspace.map(|root| format!("cargo:rerun-if-changed={}", root.join("Cargo.toml"))));
    // What a compiler can read beside the sources; the whole crate is looked at by nobody. A folder that is not there would
    // have this run each time.
    let kernels = std::iter::once(folder.join("kernels")).filter(|folder| folder.is_dir());
    let is_below = |beside: &Utf8PathBuf| beside.is_dir() && beside.starts_with(&folder) && *beside != folder;
    let beside = sandbox::of_sources(&folder, &manifest).filter(is_below);
    lines.extend(kernels.chain(beside).map(|folder| format!("cargo:rerun-if-changed={folder}")));
    let named = manifest.sources.iter().chain([&manifest.header]).chain(&manifest.include_roots);
    let named = named.chain(manifest.generator.iter().filter(|word| folder.join(word).is_file()));
    lines.extend(named.map(|path| format!("cargo:rerun-if-changed={}", folder.join(path))));
    lines.extend(variables(&manifest).iter().map(|name| format!("cargo:rerun-if-env-changed={name}")));
    lines.extend(bindings.stale.iter().map(|warning| format!("cargo:warning={warning}")));
    if manifest.class == Class::Native {
        lines.extend(built.remarks.lines().map(|line| format!("cargo:warning={line}")));
    } else {
        // Compilers of device code say much that is no warning; that they were not confined is one.
        let shown = |line: &&str| compile::verbose() || line.starts_with(compile::UNCONFINED);
        lines.extend(built.remarks.lines().filter(shown).map(|line| format!("cargo:warning={line}")));
    }
    archive(&manifest, &built);
    Ok(lines)
}

/// Variables that what is built depends on.
fn variables(manifest: &Manifest) -> Vec<&'static str> {
    let mut names = Vec::from(HEARD);
    if manifest.class != Class::Native {
        names.extend(SEARCHED);
    }
    if recipe::asks_for_device(manifest) {
        names.extend(VISIBLE);
    }
    names
}

/// For whoever links the crate: the same object files, as a static library.
fn archive(manifest: &Manifest, built: &Built) {
    if manifest.class == Class::Native {
        let name = environment::text("CARGO_PKG_NAME").unwrap_or_default();
        cc::Build::new().objects(&built.objects).compile(&format!("{}_kernel", name.replace('-', "_")));
    }
}

/// The file that `kopt_harness::kernel!` includes.
fn generated(folder: &Utf8Path, manifest: &Manifest, bindings: &Bindings, built: &Built) -> Result<String, BuildError> {
    let json = serde_json::to_string(manifest).map_err(|error| BuildError::file(folder)(error.into()))?;
    let name = environment::text("CARGO_PKG_NAME").unwrap_or_default();
    let mut text = String::from("// Generated by kopt-build from the crate's manifest, header and sources.\n");
    text.push_str("#[allow(unsafe_code, non_camel_case_types, missing_docs, dead_code, clippy::all)]\n");
    text.push_str("mod bindings { include!(\"bindings.rs\"); }\npub use bindings::*;\n\n");
    if manifest.class == Class::Device {
        let object = match (&built.candidate.object, built.file.parent()) {
            (Some(object), Some(out)) => format!("Some(include_bytes!({:?}))", out.join(object).as_str()),
            _ => "None".to_owned(),
        };
        let _ = writeln!(text, "/// The device code; none where its compiler was missing when the crate was built.");
        let _ = writeln!(text, "pub static DEVICE_OBJECT: Option<&[u8]> = {object};\n");
    }
    text.push_str("/// What the build script found and made.\npub static PACKAGE: ::kopt_harness::Package = ::kopt_harness::Package {\n");
    let _ = writeln!(
        text,
        "    name: {name:?},\n    manifest: {json:?},\n    candidate: {:?},\n    digest: {:?},",
        built.file, built.candidate.digest
    );
    text.push_str("    entries: &[\n");
    for entry in &bindings.entries {
        let args = &entry.type_name;
        let _ = writeln!(
            text,
            "        ::kopt_harness::EntryLayout {{ symbol: {:?}, size: size_of::<{args}>(), fields: &[",
            entry.symbol
        );
        for field in &entry.fields {
            let kind = match field.kind {
                FieldType::Pointer { writable } => format!("Pointer {{ writable: {writable} }}"),
                FieldType::Int64 => "Int64".to_owned(),
                FieldType::Float32 => "Float32".to_owned(),
            };
            let _ = writeln!(
                text,
                "            ::kopt_harness::Field {{ name: {0:?}, offset: ::core::mem::offset_of!({args}, {0}), kind: ::kopt_harness::FieldKind::{kind} }},",
                field.name
            );
        }
        text.push_str("        ] },\n");
    }
    text.push_str("    ],\n};\n");
    Ok(text)
}

/// Where a crate's checked-in bindings stand.
pub(crate) fn bindings_file(folder: &Utf8Path, manifest: &Manifest) -> Utf8PathBuf {
    folder.join(format!("kernels/{}.bindings.rs", manifest.op))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_repeated_for_another_device_only_where_the_device_decides_what_is_compiled_for() {
        for (table, is_searched, is_asked) in [
            ("backend = \"cpu\"", false, false),
            ("backend = \"cuda\"", true, false),
            ("backend = \"hip\"\narch = [\"gfx90a\"]", true, false),
            ("backend = \"cuda\"\narch = [\"native\"]", true, true),
            ("backend = \"cuda\"\narch = [\"sm_80\", \"sm_90\"]", true, true),
        ] {
            let text = format!("[package.metadata.kopt]\nop = \"probe\"\n{table}\nshapes = [{{ n = 4 }}]\n");
            let manifest = kopt_schema::manifest::parse("Cargo.toml", &text, None).unwrap().unwrap();
            let names = variables(&manifest);
            assert!(names.contains(&"CC"), "{table}");
            assert_eq!(names.contains(&"PATH") && names.contains(&"NVCC_CCBIN"), is_searched, "{table}");
            assert_eq!(names.contains(&"CUDA_VISIBLE_DEVICES"), is_asked, "{table}");
        }
    }
}
