//! What the tool is told by its surroundings, read once: arguments, current folder, environment. Nothing else in the
//! tool asks for any of these, so that a test can hand it a world of its own.

pub mod device;
pub mod github;

use std::ffi::OsString;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::{Error, Result};

/// Set for the duration of `cargo run`, and then wrong for every other package: handed on, they would make build
/// scripts that watch them run again at each call.
const OF_ANOTHER_PACKAGE: [&str; 6] = [
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_PRIMARY_PACKAGE",
    "OUT_DIR",
];

/// The surroundings of one run.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where the tool was started.
    pub cwd: Utf8PathBuf,
    /// The cargo to call: the one that called us, where one did.
    pub cargo: OsString,
    /// Where the user wants criterion's reports, if not under the target folder.
    pub criterion_home: Option<Utf8PathBuf>,
    /// Variables that child processes must not inherit.
    pub withheld: Vec<OsString>,
}

impl Context {
    /// Reads the process's own surroundings.
    ///
    /// # Errors
    /// When the current folder is gone or its name is not UTF-8.
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    pub fn of_process() -> Result<Self> {
        let cwd =
            std::env::current_dir().map_err(|error| Error::setup("cannot find the current folder").because(&error))?;
        let cwd = Utf8PathBuf::from_path_buf(cwd)
            .map_err(|path| Error::setup(format!("the name of `{}` is not UTF-8", path.display())))?;
        let withheld = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| {
                name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || OF_ANOTHER_PACKAGE.contains(&name))
            })
            .collect();
        let criterion_home = std::env::var("CRITERION_HOME").ok().map(Utf8PathBuf::from);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { cwd, cargo, criterion_home, withheld })
    }

    /// A path of the command line, as seen from where the tool was started.
    #[must_use]
    pub fn absolute(&self, path: &Utf8Path) -> Utf8PathBuf {
        let mut whole = Utf8PathBuf::new();
        for part in self.cwd.join(path).components() {
            match part {
                camino::Utf8Component::CurDir => {}
                camino::Utf8Component::ParentDir => {
                    whole.pop();
                }
                other => whole.push(other),
            }
        }
        whole
    }

    /// A path as the user would write it from here.
    #[must_use]
    pub fn shown<'a>(&self, path: &'a Utf8Path) -> &'a Utf8Path {
        match path.strip_prefix(&self.cwd) {
            Ok(inside) if inside.as_str().is_empty() => Utf8Path::new("."),
            Ok(inside) => inside,
            Err(_) => path,
        }
    }
}

/// The arguments after the program's name. As a subcommand, cargo puts `kopt` before them; `cargo run --` does not.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    own_arguments(std::env::args_os())
}

/// Names of the variables that start with one of `prefixes`: what is to be kept from a child process.
#[must_use]
pub fn variables(prefixes: &[&str]) -> Vec<OsString> {
    let is_meant =
        |name: &OsString| name.to_str().is_some_and(|name| prefixes.iter().any(|start| name.starts_with(start)));
    std::env::vars_os().map(|(name, _)| name).filter(is_meant).collect()
}

/// The program that `name` means: a path, seen from where the tool was started, or a file in a folder of `PATH`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn program(context: &Context, name: &str) -> Option<Utf8PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let can_run = |path: &Utf8PathBuf| {
        path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(context.absolute(Utf8Path::new(name))).filter(can_run);
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .filter_map(|folder| Utf8PathBuf::from_path_buf(folder).ok())
        .map(|folder| context.absolute(&folder).join(name))
        .find(can_run)
}

fn own_arguments(mut all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    all.next();
    let mut arguments: Vec<OsString> = all.collect();
    if arguments.first().is_some_and(|first| first == "kopt") {
        arguments.remove(0);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        own_arguments(line.split(' ').map(OsString::from))
    }

    #[test]
    fn a_call_by_cargo_and_a_direct_call_mean_the_same() {
        assert_eq!(words("cargo-kopt kopt list -q"), words("target/debug/cargo-kopt list -q"));
        assert_eq!(words("cargo-kopt kopt kopt"), ["kopt"]);
        assert_eq!(words("cargo-kopt"), Vec::<OsString>::new());
    }

    #[test]
    fn a_path_is_resolved_without_asking_the_disk() {
        let context = Context { cwd: "/a/b".into(), cargo: "cargo".into(), criterion_home: None, withheld: Vec::new() };
        assert_eq!(context.absolute("../c/./d".into()), "/a/c/d");
        assert_eq!(context.absolute("/x".into()), "/x");
        assert_eq!(context.shown("/a/b/c".into()), "c");
        assert_eq!(context.shown("/a/b".into()), ".");
        assert_eq!(context.shown("/z".into()), "/z");
    }
}
