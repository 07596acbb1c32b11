//! Versions of the kernel, compiled. A version is the base's tree with the declared sources of one commit: the files are
//! written into a folder that nobody else touches, so that what is compiled is what git has, whatever lies in a worktree.

use std::fs;
use std::time::SystemTime;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::manifest::{Found, Kernel};
use crate::referee::entrant::{self, Entrant, Version};
use crate::referee::trusted;
use crate::revision::Export;
use crate::shell::Shell;
use crate::workspace::Workspace;

/// Where versions are compiled.
#[derive(Debug)]
pub struct Stand {
    /// The crate there.
    kernel: Kernel,
    /// Where compiled versions are kept.
    candidates: Utf8PathBuf,
    files: Export,
}

impl Stand {
    /// Makes it in `folder` from the base's files.
    ///
    /// # Errors
    /// When the files cannot be written, or are no workspace with that kernel.
    pub fn make(
        context: &Context,
        shell: &mut Shell,
        base: &Export,
        name: &str,
        folder: &Utf8Path,
        candidates: &Utf8Path,
    ) -> Result<Self> {
        trusted::mirror(base.root.as_std_path(), folder.as_std_path(), None, SystemTime::now())
            .map_err(|error| cannot(folder, &error))?;
        let inside = base.workspace.strip_prefix(&base.root).unwrap_or(Utf8Path::new(""));
        let files = Export { root: folder.to_owned(), workspace: folder.join(inside), left_out: Vec::new() };
        let kernel = kernel_in(context, shell, &files.workspace, name)?;
        Ok(Self { kernel, candidates: candidates.to_owned(), files })
    }

    /// Compiles the version of `commit`, or takes it from what was compiled before.
    ///
    /// # Errors
    /// When it does not compile ([`Exit::BuildFailed`], with the compiler's words), or cannot be.
    pub fn compile(&self, lineage: &Lineage, commit: &str, name: &str) -> Result<Entrant> {
        self.lay_out(lineage, commit)?;
        self.built(&self.candidates, commit, name)
    }

    /// The files of the version of `commit`, laid out.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn files(&self, lineage: &Lineage, commit: &str) -> Result<&Export> {
        self.lay_out(lineage, commit)?;
        Ok(&self.files)
    }

    /// The crate, with the version of `commit` laid out in it.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn kernel(&self, lineage: &Lineage, commit: &str) -> Result<&Kernel> {
        self.lay_out(lineage, commit)?;
        Ok(&self.kernel)
    }

    fn built(&self, folder: &Utf8Path, commit: &str, name: &str) -> Result<Entrant> {
        let version = Version {
            kernel: &self.kernel,
            revision: commit.to_owned(),
            name: name.to_owned(),
            shown: name.to_owned(),
        };
        let one = entrant::compile(folder, &[version])?.into_iter().next();
        one.ok_or_else(|| Error::new(Exit::Internal, "a version did not compile to a candidate"))
    }

    fn lay_out(&self, lineage: &Lineage, commit: &str) -> Result<()> {
        for source in &self.kernel.manifest.sources {
            let place = self.kernel.member.folder.join(source);
            match lineage.file(commit, &super::round::relative(&self.kernel.path, source))? {
                Some(bytes) if fs::read(&place).is_ok_and(|there| there == bytes) => {}
                Some(bytes) => {
                    let folder = place.parent().unwrap_or(&self.kernel.member.folder);
                    fs::create_dir_all(folder)
                        .and_then(|()| fs::write(&place, bytes))
                        .map_err(|error| cannot(&place, &error))?;
                }
                None => match fs::remove_file(&place) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(&place, &error)),
                    _ => {}
                },
            }
        }
        Ok(())
    }
}

/// The kernel crate `name` of the workspace in `root`.
///
/// # Errors
/// When there is none, or its manifest is wrong.
pub fn kernel_in(context: &Context, shell: &mut Shell, root: &Utf8Path, name: &str) -> Result<Kernel> {
    let workspace = Workspace::find(context, Some(&root.join("Cargo.toml")))?;
    let member = workspace
        .member(name)
        .ok_or_else(|| Error::new(Exit::NoKernel, format!("the campaign's base has no package `{name}`")))?;
    let mut found = Found::read(context, &workspace, &[member]);
    match found.kernels.pop() {
        Some(kernel) => Ok(kernel),
        None => {
            found.complain(shell)?;
            Err(Error::setup(format!("the manifest of `{name}` is wrong in the campaign's base")))
        }
    }
}

fn cannot(path: &Utf8Path, error: &std::io::Error) -> Error {
    Error::new(Exit::Output, format!("cannot write `{path}`")).because(error)
}
