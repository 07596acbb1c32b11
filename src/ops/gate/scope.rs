//! What the change can reach: both commits' packages, which kernel of one is which of the other, and why each is reached.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::message::{GateAffected, GateReason, GateScope};

use super::range::Range;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::manifest::{Found, Kernel};
use crate::reach::{self, Aspect, Changed, Package, Pair, Reason, Snapshot};
use crate::revision::{Export, Revision, Revisions};
use crate::workspace::Workspace;
use crate::workspace::links::links;
use crate::workspace::outside::{outside, patched};

/// A commit with its files and kernels.
#[derive(Debug)]
pub struct Side {
    /// The commit.
    pub revision: Revision,
    /// Its files; none where it has no workspace here.
    pub export: Option<Export>,
    /// Its kernels by name, or what is wrong with their manifests.
    pub kernels: BTreeMap<String, Result<Kernel, String>>,
    /// Other repositories in it, whose files nobody has.
    submodules: Vec<Utf8PathBuf>,
    snapshot: Snapshot,
}

/// A kernel that is reached.
#[derive(Debug)]
pub struct Reached {
    /// Which.
    pub pair: Pair,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Where the other commit has the crate all the same, of a kernel that only one commit's workspace has.
    pub elsewhere: Option<Utf8PathBuf>,
}

/// Everything that is known before anything is built.
#[derive(Debug)]
pub struct Scope {
    /// The version that stands.
    pub base: Side,
    /// The version that is gated.
    pub head: Side,
    /// The kernels that are reached.
    pub reached: Vec<Reached>,
    /// Kernels in all.
    pub kernels: usize,
}

impl Scope {
    /// Finds out.
    ///
    /// # Errors
    /// When a commit cannot be exported, or cargo refuses its workspace.
    pub fn find(context: &Context, revisions: &Revisions, range: &Range, changes: &[Changed]) -> Result<Self> {
        let base = Side::find(context, revisions, &range.base, "the base")?;
        let head = Side::find(context, revisions, &range.head, "the head")?;
        let pairs = reach::pairs(&base.snapshot, &head.snapshot, changes);
        let kernels = pairs.len();
        let alone = pairs.iter().any(|pair| !matches!(pair, Pair::Both { .. }));
        let crates = |revision: &Revision| match alone {
            true => revisions.manifests(revision).map(|found| reach::crates(&found)),
            false => Ok(Vec::new()),
        };
        let (of_base, of_head) = (crates(&range.base)?, crates(&range.head)?);
        let snapshots = [&base.snapshot, &head.snapshot];
        let reached = pairs.into_iter().filter_map(|pair| {
            let reasons = reach::reasons(&base.snapshot, &head.snapshot, changes, &pair);
            // One that was added, removed or renamed is told of even where no file of it differs.
            let renamed = pair.before() != pair.after();
            let elsewhere = reach::still_in(&pair, snapshots, [&of_base, &of_head], changes);
            (renamed || !reasons.is_empty()).then_some(Reached { pair, reasons, elsewhere })
        });
        let reached = reached.collect();
        Ok(Self { base, head, reached, kernels })
    }

    /// What of either commit nobody looks at, in words.
    pub fn left_out(&self) -> Vec<String> {
        let exports = [&self.base, &self.head].into_iter().filter_map(|side| side.export.as_ref());
        let mut told: Vec<String> = exports.flat_map(|export| export.left_out.iter().cloned()).collect();
        told.sort();
        told.dedup();
        told
    }

    /// As it is told.
    pub fn message(&self, range: &Range, changes: &[Changed]) -> GateScope {
        let reason = |reason: &Reason| GateReason {
            path: reason.path.to_string(),
            aspect: aspect(reason.aspect).to_owned(),
            why: reason.why.clone(),
        };
        let affected = |reached: &Reached| GateAffected {
            kernel: reached.pair.name().to_owned(),
            reasons: reached.reasons.iter().map(reason).collect(),
        };
        GateScope {
            base: range.base.commit.clone(),
            head: range.head.commit.clone(),
            files: changes.len(),
            kernels: Some(self.kernels),
            affected: self.reached.iter().map(affected).collect(),
            notes: range.notes.clone(),
        }
    }
}

impl Reached {
    /// Files of the change that judge this kernel.
    pub fn judging(&self) -> Vec<String> {
        let judging = self.reasons.iter().filter(|reason| reason.aspect == Aspect::Judging);
        let mut files: Vec<String> = judging.map(|reason| reason.path.to_string()).collect();
        files.dedup();
        files
    }

    /// Whether the toolchain is another.
    pub fn toolchain(&self) -> bool {
        self.reasons.iter().any(|reason| reason.aspect == Aspect::Toolchain)
    }
}

const fn aspect(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Kernel => "kernel",
        Aspect::Judging => "judging",
        Aspect::Toolchain => "toolchain",
    }
}

impl Side {
    fn find(context: &Context, revisions: &Revisions, revision: &Revision, word: &str) -> Result<Self> {
        let prefix = revisions.prefix();
        let Some(manifest) = revisions.text(revision, &prefix.join("Cargo.toml"))? else {
            // The workspace is new, or gone: every kernel is.
            let snapshot = Snapshot { workspace: prefix.to_owned(), ..Snapshot::default() };
            let (revision, kernels) = (revision.clone(), BTreeMap::new());
            return Ok(Self { revision, export: None, kernels, submodules: Vec::new(), snapshot });
        };
        let export = revisions.export(revision)?;
        let path = export.workspace.join("Cargo.toml");
        let of_side = |error: Error| {
            let failure = error.failure();
            let named = Error::new(error.exit(), format!("{word}, {}: {}", revision.shown(), failure.message));
            let named = failure.causes.into_iter().fold(named, Error::cause);
            failure.hint.into_iter().fold(named, Error::hint)
        };
        let workspace = Workspace::find(context, Some(&path)).map_err(of_side)?;
        let links = links(context, &path).map_err(of_side)?;
        let mut kernels = BTreeMap::new();
        for member in workspace.members.iter().filter(|member| member.is_kernel) {
            let mut found = Found::read(context, &workspace, &[member]);
            let wrong = || found.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            // Findings name files as they are reached from here; an export's folder tells nobody anything.
            let kernel = found.kernels.pop().ok_or_else(|| wrong().replace(&format!("{}/", export.root), ""));
            kernels.insert(member.name.clone(), kernel.map_err(|text| inside(context, &export.root, &text)));
        }
        // Whoever depends on what is patched may do so through packages from elsewhere: it is everybody's.
        let patched = patched(&manifest, &export.workspace);
        let in_repository = |folders: &[Utf8PathBuf]| -> Vec<Utf8PathBuf> {
            folders.iter().map(|folder| relative(&export.root, folder)).collect()
        };
        let package = |member: &crate::workspace::Member| {
            let links = links.get(&member.name).cloned().unwrap_or_default();
            let manifest = std::fs::read_to_string(member.folder.join("Cargo.toml")).unwrap_or_default();
            Package {
                name: member.name.clone(),
                folder: relative(&export.root, &member.folder),
                include_roots: reach::named_roots(&manifest),
                manifest,
                is_kernel: member.is_kernel,
                kernel: kernels.get(&member.name).and_then(|kernel| Some(kernel.as_ref().ok()?.manifest.clone())),
                dependencies: links.names,
                links: in_repository(&[links.folders, patched.clone()].concat()),
                inherits: None,
            }
        };
        let members: Vec<&Utf8Path> = workspace.members.iter().map(|member| member.folder.as_path()).collect();
        let named: Vec<Utf8PathBuf> =
            links.values().flat_map(|links| &links.folders).chain(&patched).cloned().collect();
        let others = outside(&export.root, &members, &named).into_iter().map(|one| Package {
            name: one.name,
            folder: relative(&export.root, &one.folder),
            include_roots: reach::named_roots(&one.manifest),
            manifest: one.manifest,
            is_kernel: false,
            kernel: None,
            dependencies: one.links.names,
            links: in_repository(&one.links.folders),
            inherits: one.inherits.map(|folder| relative(&export.root, &folder)),
        });
        let snapshot = Snapshot {
            workspace: prefix.to_owned(),
            packages: workspace.members.iter().map(package).chain(others).collect(),
            manifest,
            lock: revisions.text(revision, &prefix.join("Cargo.lock"))?,
        };
        let submodules = revisions.submodules(revision)?;
        Ok(Self { revision: revision.clone(), export: Some(export), kernels, submodules, snapshot })
    }

    /// The submodule that what a kernel is compiled from lies in, if there is one. An export has none of it.
    pub fn submodule_of(&self, kernel: &str) -> Option<&Utf8Path> {
        let package = self.snapshot.package(kernel)?;
        let roots = package.include_roots.iter().map(|root| reach::plain(&package.folder.join(root)));
        let mut places: Vec<Utf8PathBuf> = roots.collect();
        places.push(package.folder.join("kernels"));
        let holds = |submodule: &&Utf8PathBuf| places.iter().any(|place| place.starts_with(submodule));
        self.submodules.iter().find(holds).map(Utf8PathBuf::as_path)
    }
}

/// Text that names files of an export, as the repository has them.
fn inside(context: &Context, root: &Utf8Path, text: &str) -> String {
    text.replace(&format!("{}/", context.shown(root)), "")
}

fn relative(root: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}
