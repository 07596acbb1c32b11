//! A repository with two kernel crates that say how long they take, and pull requests to it.

use std::path::PathBuf;
use std::process::Command;

use git2::build::CheckoutBuilder;
use git2::{Repository, RepositoryInitOptions, ResetType};

use crate::history;
use crate::sandbox::{Ran, Sandbox};

/// Where the first kernel says what it takes.
pub const ALPHA: &str = "crates/alpha/kernels/softmax.c";
/// And the second.
pub const BETA: &str = "crates/beta/kernels/softmax.c";

/// Begins what only the manifest of a workspace's root may have.
const PROFILE: &str = "[profile.bench]\n";

/// What equal kernels say.
pub const MARK: &str = "TIME=1.000;";

const EIGHT: &str = "shapes = [\n    { rows = 1, cols = 64 },\n    { rows = 2, cols = 64 },\n    { rows = 4, cols = 64 },\n    { rows = 8, cols = 64 },\n    { rows = 16, cols = 64 },\n    { rows = 32, cols = 64 },\n    { name = \"tall\", rows = 512, cols = 8 },\n    { rows = 64, cols = 1024 },\n]";

pub struct Stage {
    pub sandbox: Sandbox,
}

impl Stage {
    /// A workspace of two kernels and its first commit, on `main`.
    pub fn new() -> Self {
        let stage = Self { sandbox: Sandbox::empty() };
        let members = "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n";
        stage.write("Cargo.toml", &format!("{members}\n{PROFILE}{}", Self::fixture().1));
        stage.write("README.md", "# Kernels\n");
        stage.write(".gitignore", "/target\nopened\n");
        stage.add("alpha");
        stage.add("beta");
        let mut options = RepositoryInitOptions::new();
        Repository::init_opts(stage.path(""), options.initial_head("main")).unwrap();
        stage.commit("first");
        stage
    }

    /// The manifest of the fixture, and what stands in its table of the profile: only a workspace's root may have that.
    fn fixture() -> (String, String) {
        let manifest = Sandbox::of("bout").read("Cargo.toml");
        let (own, profile) = manifest.split_once(PROFILE).unwrap();
        (own.to_owned(), profile.to_owned())
    }

    /// A kernel crate with eight shapes.
    pub fn add(&self, name: &str) {
        let fixture = Sandbox::of("bout");
        for path in fixture.files() {
            self.write(&format!("crates/{name}/{path}"), &fixture.read(&path));
        }
        let manifest = Self::fixture().0.replace("name = \"bout\"", &format!("name = \"{name}\""));
        let (start, rest) = manifest.split_once("shapes = [").unwrap();
        let end = rest.split_once("\n]").unwrap().1;
        self.write(&format!("crates/{name}/Cargo.toml"), &format!("{start}{EIGHT}{end}").replace("[workspace]\n", ""));
        let source = format!("crates/{name}/kernels/softmax.c");
        let mark = format!("#include \"softmax.h\"\n\n__attribute__((used)) static const char mark[] = \"{MARK}\";\n");
        self.edit(&source, "#include \"softmax.h\"\n", &mark);
        self.write(&format!("crates/{name}/judge"), "marked\nnoise 0.002\n");
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.sandbox.path(inside)
    }

    pub fn write(&self, path: &str, text: &str) {
        self.sandbox.write(path, text);
    }

    #[track_caller]
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        self.sandbox.edit(path, from, to);
    }

    pub fn repository(&self) -> Repository {
        Repository::open(self.path("")).unwrap()
    }

    pub fn commit(&self, message: &str) -> String {
        history::commit(&self.repository(), message)
    }

    /// A commit on top of `main` that nothing checks out: a pull request.
    pub fn request(&self, message: &str, change: impl FnOnce(&Self)) -> String {
        change(self);
        let repository = self.repository();
        let main = repository.find_branch("main", git2::BranchType::Local).unwrap().get().peel_to_commit().unwrap();
        let tree = repository.find_tree(history::tree(&repository)).unwrap();
        let who = history::somebody();
        let commit = repository.commit(None, &who, &who, message, &tree, &[&main]).unwrap();
        let mut force = CheckoutBuilder::new();
        force.force().remove_untracked(true);
        repository.reset(main.as_object(), ResetType::Hard, Some(&mut force)).unwrap();
        commit.to_string()
    }

    /// The tool, with nothing of the surroundings that a gate listens to.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GITHUB_")) {
            command.env_remove(name);
        }
        command
    }

    /// Gates a commit against `main`, with orders that are always the same.
    pub fn gate(&self, head: &str, arguments: &[&str]) -> Ran {
        let fixed = ["gate", "--base", "main", "--head", head, "--seed", "5eed"];
        Ran::of(&mut self.command(&[&fixed, arguments].concat()))
    }
}
