//! Files, by landlock: a worker can write none, and read its object and the libraries of the system. TCP ports, signals to
//! other processes and abstract sockets go the same way, as far as the system's version has them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use camino::Utf8Path;
use kopt_schema::sandbox::Force;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest version that is asked for: with files, truncation, TCP, ioctl, signals and abstract sockets.
const ABI_WANTED: ABI = ABI::V6;

/// Where the loader looks for libraries and for its list of them.
const LIBRARIES: [&str; 7] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/ld.so.conf"];

/// Restricts this process, which has one thread.
pub(super) fn restrict(object: &Utf8Path) -> (Force, String) {
    let folders = LIBRARIES.iter().map(PathBuf::from).chain(loaded());
    let mut readable: BTreeSet<PathBuf> = folders.collect();
    readable.insert(object.as_std_path().to_owned());
    match confine(&readable) {
        Ok((RulesetStatus::FullyEnforced, version)) => (Force::Whole, version),
        Ok((RulesetStatus::PartiallyEnforced, version)) => (Force::Part, format!("{version} lacks part of it")),
        Ok((RulesetStatus::NotEnforced, version)) => (Force::None, version),
        Err(error) => (Force::None, format!("no landlock: {error}")),
    }
}

fn confine(readable: &BTreeSet<PathBuf>) -> Result<(RulesetStatus, String), RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        .handle_access(AccessNet::from_all(ABI_WANTED))?
        .scope(Scope::from_all(ABI_WANTED))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(ABI_WANTED)))?
        .restrict_self()?;
    let version = match status.landlock {
        LandlockStatus::NotEnabled => "landlock is not enabled".to_owned(),
        LandlockStatus::NotImplemented => "the system has no landlock".to_owned(),
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            format!("landlock {}", kernel_abi.unwrap_or(effective_abi as i32))
        }
    };
    Ok((status.ruleset, version))
}

/// Folders of the libraries that this process has: systems keep them in other places, too.
fn loaded() -> impl Iterator<Item = PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files: Vec<PathBuf> =
        maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..]))).collect();
    let is_library = |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    files.into_iter().filter(is_library).filter_map(|file| file.parent().map(Path::to_owned))
}
