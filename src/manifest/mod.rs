//! Kernel crates with their manifests, read and checked before anything slow is started.

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::manifest::Manifest;
use kopt_schema::message::KernelInfo;
use kopt_schema::{Diagnostic, diagnostic::Step};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::shell::Shell;
use crate::workspace::{Member, Workspace};

/// A kernel crate.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The package.
    pub member: Member,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its folder, relative to the workspace.
    pub path: Utf8PathBuf,
}

/// What was found in some packages.
#[derive(Debug, Default)]
pub struct Found {
    /// Kernel crates whose manifests are right.
    pub kernels: Vec<Kernel>,
    /// Everything wrong in the others.
    pub findings: Vec<Diagnostic>,
}

impl Found {
    /// Reads the manifests of `members`.
    #[must_use]
    pub fn read(context: &Context, workspace: &Workspace, members: &[&Member]) -> Self {
        let mut found = Self::default();
        for member in members {
            match kopt_build::manifest::load(&member.folder, Some(&workspace.root), &context.cwd) {
                Ok(Ok(manifest)) => {
                    let path = relative(&member.folder, &workspace.root);
                    found.kernels.push(Kernel { member: (*member).clone(), manifest, path });
                }
                // The table was there when cargo looked a moment ago.
                Ok(Err(_)) => found.findings.push(vanished(context, member)),
                // What is wrong in the workspace's own manifest is wrong for every crate, and said once.
                Err(findings) => {
                    for finding in findings {
                        if !found.findings.contains(&finding) {
                            found.findings.push(finding);
                        }
                    }
                }
            }
        }
        found
    }

    /// Prints everything that is wrong.
    ///
    /// # Errors
    /// When output cannot be written.
    pub fn complain(&self, shell: &mut Shell) -> Result<()> {
        self.findings.iter().try_for_each(|finding| shell.error(&Error::from(finding)))
    }
}

impl Kernel {
    /// What a program is told of it.
    #[must_use]
    pub fn info(&self) -> KernelInfo {
        let manifest = &self.manifest;
        KernelInfo {
            kernel: self.member.name.clone(),
            op: manifest.op.clone(),
            backend: manifest.backend.name().to_owned(),
            class: manifest.class.name().to_owned(),
            dtype: manifest.dtype,
            sources: manifest.sources.clone(),
            shapes: manifest.shapes.iter().map(|shape| shape.name.clone()).collect(),
            flags: manifest.flags.clone(),
            path: self.path.to_string(),
        }
    }

    /// What it lacks to show a gain under skew, in words: kinds of routing that no shape of an op with groups has.
    #[must_use]
    pub fn lacks_routings(&self) -> Option<String> {
        let kinds: Vec<String> = self.manifest.shapes.iter().filter_map(|shape| Some(shape.routing()?.kind)).collect();
        let missing = kopt_schema::operator::missing_routings(kinds.iter().map(String::as_str));
        (!kinds.is_empty() && !missing.is_empty()).then(|| {
            format!(
                "no shape of `{}` has routing {}: a gain that may vanish under skew is not accepted without them",
                self.member.name,
                missing.join(", ")
            )
        })
    }

    /// ` (flags: -ffast-math)`, or nothing: flags of its own are shown wherever a kernel is.
    #[must_use]
    pub fn flags_shown(&self) -> String {
        match self.manifest.flags.is_empty() {
            true => String::new(),
            false => format!(" (flags: {})", self.manifest.flags.join(" ")),
        }
    }
}

fn relative(folder: &Utf8Path, root: &Utf8Path) -> Utf8PathBuf {
    match folder.strip_prefix(root) {
        Ok(inside) if inside.as_str().is_empty() => ".".into(),
        Ok(inside) => inside.to_owned(),
        Err(_) => folder.to_owned(),
    }
}

fn vanished(context: &Context, member: &Member) -> Diagnostic {
    let path = member.folder.join("Cargo.toml");
    let table: [Step; 3] = ["package", "metadata", "kopt"].map(Step::from);
    Diagnostic::at_path(context.shown(&path).as_str(), "", &table, "the table is gone")
        .hint("the file was changed while it was read; start again")
}
