//! The two versions: which crate, which revisions, and what their manifests say.

use camino::Utf8PathBuf;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::{Found, Kernel};
use crate::referee::entrant::Version;
use crate::revision::{Export, Revision, Revisions};
use crate::shell::Shell;
use crate::workspace::Workspace;
use crate::workspace::selection::Selection;
use kopt_schema::exit::Exit;

/// Which crate, and which versions of it.
#[derive(Debug, Clone)]
pub struct Which {
    /// `--manifest-path`.
    pub manifest_path: Option<Utf8PathBuf>,
    /// The kernel crate; the one the user stands in if none is named.
    pub package: Option<String>,
    /// A revision: the version that stands.
    pub base: String,
    /// A revision; the working tree if none is named.
    pub head: Option<String>,
}

/// What evidence calls a version that is no commit.
const WORKING_TREE: &str = "working tree";

/// Both versions.
#[derive(Debug)]
pub struct Sides {
    /// The package's name.
    pub name: String,
    /// The version that stands.
    pub base: Side,
    /// The version that challenges it.
    pub head: Side,
    /// The base's files.
    pub export: Export,
}

/// One of them.
#[derive(Debug)]
pub struct Side {
    /// `BASE` or `HEAD`.
    pub word: &'static str,
    /// The revision; none for the working tree.
    pub revision: Option<Revision>,
    /// The crate as this version has it.
    pub kernel: Kernel,
}

impl Side {
    /// `HEAD~1 (1a2b3c4d5e)` or `the working tree`.
    pub fn shown(&self) -> String {
        shown(self.revision.as_ref())
    }

    fn version(&self) -> Version<'_> {
        let revision = self.revision.as_ref();
        Version {
            kernel: &self.kernel,
            revision: revision.map_or(WORKING_TREE, |revision| &revision.commit).to_owned(),
            name: revision.map_or(WORKING_TREE, |revision| &revision.name).to_owned(),
            shown: format!("{}, {},", self.word, self.shown()),
        }
    }
}

impl Sides {
    /// Finds both versions. Revisions are resolved first: a typo fails before anything is written.
    pub fn find(
        context: &Context,
        shell: &mut Shell,
        workspace: &Workspace,
        revisions: &Revisions,
        request: &Which,
    ) -> Result<Self> {
        let base = revisions.resolve(&request.base)?;
        let head = match request.head.as_deref().filter(|name| *name != ".") {
            Some(name) => Some(revisions.resolve(name)?),
            None => None,
        };
        revisions.keeps_clear(&workspace.target.join("kopt"), head.as_ref())?;
        let name = match &request.package {
            Some(name) => name.clone(),
            None => stands_in(context, workspace, request)?,
        };
        let mut of_revision = |word, revision: &Revision| -> Result<(Side, Export)> {
            let export = revisions.export(revision)?;
            for missing in &export.left_out {
                shell.warn(&format!("{}: {missing}", revision.shown()));
            }
            let place = Workspace::find(context, Some(&export.workspace.join("Cargo.toml")))
                .map_err(|error| of_side(&error, word, &revision.shown()))?;
            Ok((side(context, shell, &place, word, Some(revision.clone()), &name)?, export))
        };
        let (base, export) = of_revision("BASE", &base)?;
        let head = match &head {
            Some(revision) => of_revision("HEAD", revision)?.0,
            None => side(context, shell, workspace, "HEAD", None, &name)?,
        };
        Ok(Self { name, base, head, export })
    }

    /// `softmax-cpu: the working tree against HEAD (1a2b3c4d5e)`.
    pub fn shown(&self) -> String {
        let flags = self.head.kernel.flags_shown();
        format!("{}: {} against {}{flags}", self.name, self.head.shown(), self.base.shown())
    }

    /// Both, to be compiled.
    pub fn versions(&self) -> [Version<'_>; 2] {
        [self.base.version(), self.head.version()]
    }
}

fn shown(revision: Option<&Revision>) -> String {
    revision.map_or_else(|| format!("the {WORKING_TREE}"), Revision::shown)
}

/// The kernel crate that the user stands in, or the only one there is.
fn stands_in(context: &Context, workspace: &Workspace, request: &Which) -> Result<String> {
    let here = request.manifest_path.as_deref().map(|path| context.absolute(path));
    let here = here.as_deref().and_then(camino::Utf8Path::parent).unwrap_or(&context.cwd);
    let kernels = Selection::default().of(workspace, here)?;
    match kernels.as_slice() {
        [one] => Ok(one.name.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|kernel| kernel.name.as_str()).collect();
            Err(Error::new(Exit::Usage, "one kernel at a time is compared")
                .hint(format!("say which with -p: {}", names.join(", "))))
        }
    }
}

/// The package of one version, with a manifest that is right.
fn side(
    context: &Context,
    shell: &mut Shell,
    workspace: &Workspace,
    word: &'static str,
    revision: Option<Revision>,
    name: &str,
) -> Result<Side> {
    let place = shown(revision.as_ref());
    let selection = Selection { packages: vec![glob::Pattern::escape(name)], workspace: false };
    let members = match workspace.member(name) {
        Some(member) if member.is_kernel => vec![member],
        // Not there: the selection says so, and which name is near.
        _ => selection.of(workspace, &workspace.root).map_err(|error| of_side(&error, word, &place))?,
    };
    let mut found = Found::read(context, workspace, &members);
    if !found.findings.is_empty() {
        found.complain(shell)?;
        return Err(Error::setup(format!("{word}, {place}: the manifest of `{name}` is wrong")));
    }
    match found.kernels.pop() {
        Some(kernel) => Ok(Side { word, revision, kernel }),
        None => Err(Error::new(Exit::NoKernel, format!("{word}, {place}: no kernel crate matches `{name}`"))),
    }
}

/// The same error, with the version that it is about.
fn of_side(error: &Error, word: &str, place: &str) -> Error {
    let failure = error.failure();
    let named = Error::new(error.exit(), format!("{word}, {place}: {}", failure.message));
    let named = failure.causes.into_iter().fold(named, Error::cause);
    match failure.hint {
        Some(hint) => named.hint(hint),
        None => named,
    }
}
