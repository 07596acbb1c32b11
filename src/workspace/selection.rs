//! Which packages a command is about: `-p`, `--workspace`, or the one it was started in.

use camino::Utf8Path;
use glob::Pattern;
use kopt_schema::exit::Exit;

use super::{Member, Workspace};
use crate::error::{Error, Result};

/// What the command line says of packages.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Names or globs of names.
    pub packages: Vec<String>,
    /// All kernel crates.
    pub workspace: bool,
}

impl Selection {
    /// The kernel crates that are meant, by name. `here` is where the tool was started.
    ///
    /// Without a word about it: the crate that `here` is in, if it is a kernel crate, else all of them.
    ///
    /// # Errors
    /// When nothing is meant, or a name is no kernel crate.
    pub fn of<'a>(&self, workspace: &'a Workspace, here: &Utf8Path) -> Result<Vec<&'a Member>> {
        let kernels: Vec<&Member> = workspace.members.iter().filter(|member| member.is_kernel).collect();
        if !self.packages.is_empty() {
            return self.named(workspace, &kernels);
        }
        if kernels.is_empty() {
            return Err(Error::new(Exit::NoKernel, format!("no kernel crate in `{}`", workspace.root)).hint(
                "a kernel crate has [package.metadata.kopt] in its Cargo.toml; `cargo kopt new NAME` makes one",
            ));
        }
        match workspace.around(here) {
            Some(member) if member.is_kernel && !self.workspace => Ok(vec![member]),
            _ => Ok(kernels),
        }
    }

    fn named<'a>(&self, workspace: &'a Workspace, kernels: &[&'a Member]) -> Result<Vec<&'a Member>> {
        let mut wanted = vec![false; kernels.len()];
        for name in &self.packages {
            let pattern = Pattern::new(name)
                .map_err(|error| Error::new(Exit::Usage, format!("`{name}` is no pattern")).because(&error))?;
            let mut any = false;
            for (is, kernel) in wanted.iter_mut().zip(kernels) {
                if pattern.matches(&kernel.name) {
                    (*is, any) = (true, true);
                }
            }
            if !any {
                return Err(unknown(name, workspace, kernels));
            }
        }
        Ok(kernels.iter().zip(wanted).filter(|(_, is)| *is).map(|(kernel, _)| *kernel).collect())
    }
}

fn unknown(name: &str, workspace: &Workspace, kernels: &[&Member]) -> Error {
    if workspace.member(name).is_some() {
        return Error::new(Exit::NoKernel, format!("package `{name}` is not a kernel crate"))
            .hint("a kernel crate has [package.metadata.kopt] in its Cargo.toml; `cargo kopt list` names those of this workspace");
    }
    let error = Error::new(Exit::NoKernel, format!("no kernel crate matches `{name}`"));
    match kopt_schema::nearest(name, kernels.iter().map(|kernel| kernel.name.as_str())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`cargo kopt list` names the kernel crates of this workspace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        let member = |name: &str, is_kernel| Member {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            id: name.to_owned(),
            folder: format!("/w/{name}").into(),
            is_kernel,
            tests: Vec::new(),
            benches: Vec::new(),
        };
        let members = vec![member("matmul-cpu", true), member("other", false), member("softmax-cpu", true)];
        Workspace { root: "/w".into(), target: "/w/target".into(), members }
    }

    fn names(packages: &[&str], all: bool, here: &str) -> Result<Vec<String>> {
        let selection =
            Selection { packages: packages.iter().map(|name| (*name).to_owned()).collect(), workspace: all };
        Ok(selection.of(&workspace(), here.into())?.iter().map(|member| member.name.clone()).collect())
    }

    #[test]
    fn a_name_a_glob_a_place_or_everything() {
        assert_eq!(names(&["softmax-cpu"], false, "/").unwrap(), ["softmax-cpu"]);
        assert_eq!(names(&["*-cpu", "softmax-cpu"], false, "/").unwrap(), ["matmul-cpu", "softmax-cpu"]);
        assert_eq!(names(&[], false, "/w/softmax-cpu/kernels").unwrap(), ["softmax-cpu"]);
        assert_eq!(names(&[], true, "/w/softmax-cpu").unwrap(), ["matmul-cpu", "softmax-cpu"]);
        assert_eq!(names(&[], false, "/w/other").unwrap(), ["matmul-cpu", "softmax-cpu"]);
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_one() {
        let error = names(&["sofmtax-cpu"], false, "/").unwrap_err();
        assert_eq!(error.failure().hint.as_deref(), Some("did you mean `softmax-cpu`?"));
        assert!(names(&["other"], false, "/").unwrap_err().to_string().contains("not a kernel crate"));
        assert_eq!(names(&["gpu-*"], false, "/").unwrap_err().exit(), Exit::NoKernel);
    }
}
