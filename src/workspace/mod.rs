//! Packages as cargo sees them. Facts only: which of them are kernel crates is for `manifest` to say.

pub mod links;
pub mod outside;
pub mod selection;

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Metadata, MetadataCommand, TargetKind};
use kopt_schema::exit::Exit;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::process;

/// A workspace, or a lone package, which is one too.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the root manifest.
    pub root: Utf8PathBuf,
    /// Where cargo builds.
    pub target: Utf8PathBuf,
    /// Its packages, by name.
    pub members: Vec<Member>,
}

/// A package of the workspace.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How cargo names it in messages.
    pub id: String,
    /// The folder of its manifest.
    pub folder: Utf8PathBuf,
    /// Whether its manifest has `[package.metadata.kopt]`.
    pub is_kernel: bool,
    /// Names of its test targets.
    pub tests: Vec<String>,
    /// Names of its bench targets.
    pub benches: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace around `manifest`, or around the current folder.
    ///
    /// # Errors
    /// When cargo cannot be run or refuses.
    pub fn find(context: &Context, manifest: Option<&Utf8Path>) -> Result<Self> {
        let metadata = metadata(context, manifest)?;
        let mut members: Vec<Member> = metadata.packages.iter().map(Member::of).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { root: metadata.workspace_root, target: metadata.target_directory, members })
    }

    /// The innermost package that holds `folder`.
    #[must_use]
    pub fn around(&self, folder: &Utf8Path) -> Option<&Member> {
        let holders = self.members.iter().filter(|member| folder.starts_with(&member.folder));
        holders.max_by_key(|member| member.folder.as_str().len())
    }

    /// The package of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl Member {
    fn of(package: &cargo_metadata::Package) -> Self {
        let targets = |kind: &TargetKind| {
            let of_kind = package.targets.iter().filter(|target| target.kind.contains(kind));
            of_kind.map(|target| target.name.clone()).collect()
        };
        let manifest = &package.manifest_path;
        Self {
            name: package.name.to_string(),
            version: package.version.to_string(),
            id: package.id.repr.clone(),
            folder: manifest.parent().unwrap_or(manifest).to_owned(),
            is_kernel: package.metadata.get("kopt").is_some(),
            tests: targets(&TargetKind::Test),
            benches: targets(&TargetKind::Bench),
        }
    }
}

/// What cargo says of the workspace around `manifest`, without its dependencies.
fn metadata(context: &Context, manifest: Option<&Utf8Path>) -> Result<Metadata> {
    let mut asked = MetadataCommand::new();
    asked.no_deps().cargo_path(&context.cargo).current_dir(&context.cwd);
    if let Some(manifest) = manifest {
        asked.manifest_path(context.absolute(manifest));
    }
    let mut command: Command = asked.cargo_command();
    process::withhold(&mut command, context);
    let answer = process::capture(command)?;
    if !answer.status.success() {
        return Err(refused(&answer.stderr));
    }
    MetadataCommand::parse(&answer.stdout)
        .map_err(|error| Error::new(Exit::MetadataFailed, "cannot read `cargo metadata`").because(&error))
}

fn refused(said: &str) -> Error {
    let said = said.trim();
    let error = Error::new(Exit::MetadataFailed, "`cargo metadata` failed")
        .cause(said.strip_prefix("error: ").unwrap_or(said).to_owned());
    let is_of_an_export = ["/kopt/revisions/", "/kopt/trusted/"].iter().any(|folder| said.contains(folder));
    if said.contains("could not find `Cargo.toml`") {
        error.hint("start it inside a package or workspace, or say which with --manifest-path; `cargo kopt new NAME` makes one")
    } else if is_of_an_export && said.contains("failed to read") {
        error.hint("versions are exported as git has them: a path that leads out of the repository (`path = \"../…\"`) is not there; \
                    name it absolutely, or depend on it by `git`")
    } else {
        error
    }
}
