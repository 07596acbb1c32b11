//! The patch queue of an example crate, applied for real: what `truth` measures and `patch_queues` tests.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;
use kopt_schema::queue::{PatchHeader, Truth};

pub type Failure = Box<dyn std::error::Error>;

/// A patch, applied on top of the helping patches before it.
pub struct Applied {
    /// The patch's file name.
    pub name: String,
    pub truth: Truth,
    /// A copy of the crate without it.
    pub before: Utf8PathBuf,
    /// And with it.
    pub after: Utf8PathBuf,
}

/// An example crate and its manifest.
pub fn example(root: &Utf8Path, package: &str) -> Result<(Utf8PathBuf, Manifest), Failure> {
    let folder = root.join("example-kernels").join(package);
    let loaded = kopt_build::manifest::load(&folder, Some(root), root);
    let manifest = loaded.map_err(|findings| findings[0].to_string())?.map_err(|_| "not a kernel crate")?;
    Ok((folder, manifest))
}

/// Names of the example crates whose manifests are wanted: a new crate is in every test that goes over them.
#[allow(dead_code, reason = "benchmarks name those that they want")]
pub fn examples(root: &Utf8Path, wanted: impl Fn(&Manifest) -> bool) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in root.join("example-kernels").read_dir_utf8()? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() && wanted(&example(root, entry.file_name())?.1) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    match names.is_empty() {
        true => Err("no example crate is wanted".into()),
        false => Ok(names),
    }
}

/// Applies the whole queue of the crate in `folder` into copies under `scratch`, in order.
pub fn apply_all(folder: &Utf8Path, scratch: &Utf8Path) -> Result<Vec<Applied>, Failure> {
    let mut patches: Vec<Utf8PathBuf> = folder
        .join("patches")
        .read_dir_utf8()?
        .map(|entry| Ok(entry?.into_path()))
        .collect::<Result<_, std::io::Error>>()?;
    patches.retain(|path| path.extension() == Some("patch"));
    patches.sort();
    let mut before = scratch.join("baseline");
    copy_crate(folder, &before)?;
    let mut applied = Vec::new();
    for patch in patches {
        let name = patch.file_name().unwrap_or_default().to_owned();
        let header =
            PatchHeader::parse(&std::fs::read_to_string(&patch)?).map_err(|error| format!("{name}: {error}"))?;
        let truth = header.truth.ok_or_else(|| format!("{name}: no Truth"))?;
        let after = scratch.join(&name);
        copy_crate(&before, &after)?;
        apply(&patch, &after)?;
        applied.push(Applied { name, truth, before: before.clone(), after: after.clone() });
        if truth == Truth::Helps {
            before = after;
        }
    }
    Ok(applied)
}

/// Folders and files of a crate that a copy has.
pub const PARTS: [&str; 2] = ["kernels", "src"];
/// See [`PARTS`].
pub const FILES: [&str; 2] = ["Cargo.toml", "build.rs"];

fn copy_crate(from: &Utf8Path, to: &Utf8Path) -> Result<(), Failure> {
    for part in PARTS {
        std::fs::create_dir_all(to.join(part))?;
        for entry in from.join(part).read_dir_utf8()? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(part).join(entry.file_name()))?;
        }
    }
    for file in FILES {
        std::fs::copy(from.join(file), to.join(file))?;
    }
    Ok(())
}

fn apply(patch: &Utf8Path, folder: &Utf8Path) -> Result<(), Failure> {
    // Inside a repository git would take the paths as its own, find none of them, and succeed without a change.
    let ceiling = folder.parent().unwrap_or(folder);
    let mut command = Command::new("git");
    command.args(["apply", "-p1"]).arg(patch).current_dir(folder).env("GIT_CEILING_DIRECTORIES", ceiling);
    let output = command.output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{patch}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
