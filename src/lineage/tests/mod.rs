//! Real repositories in temporary folders, with a space in their path.

mod accept;
mod candidate;
mod changes;
mod edits;
mod evidence;
mod in_place;
mod killed;
mod survey;
mod worktree;

use std::fs;
use std::path::Path;
use std::process::Command;

use git2::{IndexAddOption, RepositoryInitOptions, Signature};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;

const CAMPAIGN: &str = "softmax_cpu_20260101-0000";
const BRANCH: &str = "kopt/softmax_cpu_20260101-0000";
const SOURCE: &str = "kernels/softmax.c";

/// A repository with a workspace of one kernel, and nothing of the machine's git configuration.
struct Ground {
    scratch: TempDir,
    repository: Repository,
    workspace: Utf8PathBuf,
    sources: Vec<Utf8PathBuf>,
    folder: Utf8PathBuf,
}

impl Ground {
    fn new() -> Self {
        Self::with_workspace("")
    }

    /// The workspace lies in `prefix` of the repository.
    fn with_workspace(prefix: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(scratch.path().join("a repository")).unwrap();
        let mut options = RepositoryInitOptions::new();
        let repository = Repository::init_opts(&top, options.initial_head("main").external_template(false)).unwrap();
        plain(&repository);
        let workspace = below(&top, prefix.into());
        let ground = Self {
            folder: workspace.join(".kopt/worktrees").join(CAMPAIGN),
            scratch,
            repository,
            workspace,
            sources: vec![SOURCE.into(), "kernels/softmax.h".into()],
        };
        ground.write("Cargo.toml", "[workspace]\n");
        ground.write(".gitignore", "target\n*.log\n");
        ground.write(SOURCE, "int softmax;\n");
        ground.write("kernels/softmax.h", "struct softmax_args;\n");
        ground.write("src/lib.rs", "// lib\n");
        ground.commit();
        ground
    }

    fn top(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.scratch.path().join("a repository")).unwrap()
    }

    /// Writes a file of the user's workspace.
    fn write(&self, path: &str, text: &str) {
        write(&self.workspace.join(path), text);
    }

    fn commit(&self) -> String {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        commit_index(&self.repository, &mut index)
    }

    fn head(&self) -> String {
        self.repository.head().unwrap().target().unwrap().to_string()
    }

    fn place<'a>(&'a self, base: &'a str) -> Place<'a> {
        Place {
            workspace: &self.workspace,
            campaign: CAMPAIGN,
            branch: Some(BRANCH),
            base,
            mode: ExecutionMode::Worktree,
            folder: &self.folder,
            sources: &self.sources,
        }
    }

    fn begin(&self) -> Lineage {
        Lineage::begin(self.place(&self.head())).unwrap()
    }

    fn open(&self, incumbent: &str) -> (Lineage, Vec<String>) {
        Lineage::open(self.place(&self.head()), incumbent).unwrap()
    }

    /// Captures what the source would be with this text.
    fn capture(&self, lineage: &Lineage, incumbent: &str, round: u32, text: &str) -> Candidate {
        write(&lineage.workspace().join(SOURCE), text);
        lineage.capture(incumbent, round, 1, &self.sources, "a change").unwrap()
    }

    fn target(&self, name: &str) -> Option<String> {
        self.repository.refname_to_id(name).ok().map(|id| id.to_string())
    }

    fn registration(&self) -> std::path::PathBuf {
        self.repository.commondir().join("worktrees").join(format!("kopt-{CAMPAIGN}"))
    }

    /// Everything of the user's that a campaign may not touch.
    fn users(&self) -> Vec<String> {
        let digest = |path: &Path| format!("{:x?}", Sha256::digest(fs::read(path).unwrap_or_default()));
        let git = self.repository.path();
        let mut state = vec![digest(&git.join("HEAD")), digest(&git.join("index")), digest(&git.join("logs/HEAD"))];
        state.push(format!("{:?} {:?}", self.target("refs/heads/main"), self.target("refs/stash")));
        state.push(digest(&git.join("logs/refs/stash")));
        let statuses = self.repository.statuses(None).unwrap();
        let shown = statuses.iter().filter(|entry| entry.status() != git2::Status::IGNORED);
        state.extend(shown.map(|entry| format!("{:?} {:?}", entry.path().unwrap(), entry.status())));
        let mut pending = vec![self.top().into_std_path_buf()];
        while let Some(folder) = pending.pop() {
            let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.retain(|path| !path.ends_with(".git") && !path.ends_with(".kopt"));
            entries.sort();
            for path in entries {
                match path.is_dir() {
                    true => pending.push(path),
                    false => state.push(format!("{} {}", path.display(), digest(&path))),
                }
            }
        }
        state
    }
}

/// Takes nothing from the machine's or the user's configuration.
fn plain(repository: &Repository) {
    let mut config = repository.config().unwrap();
    for (key, value) in [
        ("user.name", "Somebody"),
        ("user.email", "somebody@example.org"),
        ("commit.gpgsign", "false"),
        ("core.autocrlf", "false"),
        ("core.excludesFile", "/dev/null"),
        ("core.hooksPath", ".git/hooks"),
    ] {
        config.set_str(key, value).unwrap();
    }
}

fn commit_index(repository: &Repository, index: &mut git2::Index) -> String {
    let tree = repository.find_tree(index.write_tree_to(repository).unwrap()).unwrap();
    let who = Signature::now("Somebody", "somebody@example.org").unwrap();
    let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
    let parents: Vec<_> = parent.iter().collect();
    repository.commit(Some("HEAD"), &who, &who, "change", &tree, &parents).unwrap().to_string()
}

fn write(path: &Utf8Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(path: &Utf8Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// What the git program says, as a second opinion; nothing, visibly, where there is none.
fn git(folder: &Utf8Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    match command.output() {
        Err(error) => {
            eprintln!("skipped: no git program ({error})");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
    }
}

/// Fails unless the worktree is at the commit and nothing in it differs.
fn assert_clean(lineage: &Lineage, commit: &str) {
    assert_eq!(lineage.changes(commit, &[]).unwrap(), Changes::default());
    let opened = Repository::open(&lineage.folder).unwrap();
    assert_eq!(opened.head().unwrap().target().unwrap().to_string(), commit);
    let statuses = opened.statuses(None).unwrap();
    let dirty = statuses.iter().filter(|entry| entry.status() != git2::Status::IGNORED);
    assert_eq!(dirty.map(|entry| entry.path().unwrap().to_owned()).collect::<Vec<_>>(), Vec::<String>::new());
    if let Some(said) = git(&lineage.folder, &["status", "--porcelain"]) {
        assert_eq!(said, "");
    }
}

/// The words of a refusal: message, causes and hint.
fn refusal<T>(result: Result<T>) -> String {
    let failure = result.err().expect("should be refused").failure();
    assert!(failure.hint.is_some(), "no hint: {}", failure.message);
    format!("{}\n{}\n{}", failure.message, failure.causes.join("\n"), failure.hint.unwrap_or_default())
}
