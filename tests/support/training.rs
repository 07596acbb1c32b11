//! Versions of example kernels for the training step: copied, changed and compiled for real.

use camino::{Utf8Path, Utf8PathBuf};
use cargo_kopt::manifest::Kernel;
use cargo_kopt::workspace::Member;
use kopt_build::cache::{Cache, Order};

pub type Failure = Box<dyn std::error::Error>;

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A crate in `folder`, as the tool would find it.
pub fn kernel(name: &str, folder: &Utf8Path) -> Result<Kernel, Failure> {
    let loaded = kopt_build::manifest::load(folder, Some(Utf8Path::new(ROOT)), folder);
    let manifest = loaded.map_err(|findings| findings[0].to_string())?.map_err(|_| "not a kernel crate")?;
    let member = Member {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        id: name.to_owned(),
        folder: folder.to_owned(),
        is_kernel: true,
        tests: Vec::new(),
        benches: Vec::new(),
    };
    Ok(Kernel { member, manifest, path: folder.to_owned() })
}

/// Its `candidate.json`.
pub fn compiled(kernel: &Kernel, cache: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let order = Order { folder: kernel.member.folder.clone(), manifest: kernel.manifest.clone() };
    Ok(Cache::new(cache).candidate(&order)?)
}

/// A copy of the crate in `from`, its C source changed.
pub fn copied(from: &Utf8Path, to: &Utf8Path, change: &dyn Fn(String) -> String) -> Result<(), Failure> {
    std::fs::create_dir_all(to.join("kernels"))?;
    std::fs::copy(from.join("Cargo.toml"), to.join("Cargo.toml"))?;
    for entry in from.join("kernels").read_dir_utf8()? {
        let entry = entry?;
        let text = std::fs::read_to_string(entry.path())?;
        let text = if entry.file_name().ends_with(".c") { change(text) } else { text };
        std::fs::write(to.join("kernels").join(entry.file_name()), text)?;
    }
    Ok(())
}
