//! A repository with a kernel crate that says how long it takes, campaigns in it, and what they left.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use serde_json::Value;

use crate::history;
use crate::sandbox::{Ran, Sandbox};

/// The kernel's source, relative to the crate.
pub const SOURCE: &str = "kernels/softmax.c";

/// Names of things that a campaign must leave as they were.
#[derive(Debug, PartialEq, Eq)]
pub struct Checkout {
    head: String,
    branch: Option<String>,
    index: Vec<u8>,
    files: Vec<(String, Vec<u8>)>,
    stash: Option<Oid>,
}

/// A repository with one commit, and the tool in it.
pub struct Stage {
    pub sandbox: Sandbox,
    /// The crate, relative to the repository; empty at its root.
    inside: &'static str,
    /// Agents, queues of patches and temporary files: nothing that git sees.
    aside: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        Self::below("")
    }

    /// The crate in a folder of the repository.
    pub fn below(inside: &'static str) -> Self {
        let stage = Self { sandbox: Sandbox::empty(), inside, aside: tempfile::tempdir().unwrap() };
        stage.add_crate(inside);
        stage.sandbox.write(".gitignore", "target\n");
        Repository::init(stage.sandbox.path("")).unwrap();
        stage.commit("first");
        stage
    }

    /// Another copy of the crate, whose kernel takes 1.
    pub fn add_crate(&self, inside: &str) {
        let fixture = Sandbox::of("bout");
        for path in fixture.files() {
            self.sandbox.write(&join(inside, &path), &fixture.read(&path));
        }
        let path = join(inside, SOURCE);
        let text = self.sandbox.read(&path);
        let mark = "#include \"softmax.h\"\n\n__attribute__((used)) static const char mark[] = \"TIME=1.000;\";\n";
        self.sandbox.write(&path, &text.replace("#include \"softmax.h\"\n", mark));
        self.sandbox.write(&join(inside, "judge"), "marked\nnoise 0.002\n");
    }

    pub fn commit(&self, message: &str) -> String {
        history::commit(&self.repository(), message)
    }

    pub fn repository(&self) -> Repository {
        Repository::open(self.sandbox.path("")).unwrap()
    }

    /// A file of the crate.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.sandbox.path(&join(self.inside, inside))
    }

    /// A file that is no part of the repository.
    pub fn aside(&self, name: &str) -> PathBuf {
        self.aside.path().join(name)
    }

    pub fn source(&self) -> String {
        fs::read_to_string(self.path(SOURCE)).unwrap()
    }

    /// The tool, ready to run in the crate's folder.
    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.sandbox.command(arguments);
        command.current_dir(self.path("")).stdin(std::process::Stdio::null());
        command
    }

    pub fn kopt(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// A campaign that nobody has to confirm.
    pub fn optimize(&self, arguments: &[&str]) -> Ran {
        self.kopt(&[&["optimize", "--yes"], arguments].concat())
    }

    /// Every campaign's name, the oldest first: names end in when they began.
    pub fn campaigns(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path(".kopt/campaigns")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().join("events.jsonl").exists())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The newest campaign.
    #[track_caller]
    pub fn last(&self) -> Campaign<'_> {
        self.campaign(self.campaigns().last().expect("a campaign"))
    }

    pub fn campaign(&self, name: &str) -> Campaign<'_> {
        Campaign { stage: self, name: name.to_owned() }
    }

    /// Everything of the user's that a campaign must not touch.
    pub fn checkout(&self) -> Checkout {
        let repository = self.repository();
        let head = repository.find_reference("HEAD").unwrap();
        let files = self.sandbox.files().into_iter().filter(|path| {
            !["target/", ".kopt/", ".git/"].iter().any(|own| path.starts_with(own) || path.contains(&format!("/{own}")))
        });
        Checkout {
            head: repository.head().unwrap().peel_to_commit().unwrap().id().to_string(),
            branch: head.symbolic_target().ok().flatten().map(str::to_owned),
            index: fs::read(repository.path().join("index")).unwrap(),
            files: files.map(|path| (path.clone(), fs::read(self.sandbox.path(&path)).unwrap())).collect(),
            stash: repository.refname_to_id("refs/stash").ok(),
        }
    }
}

fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// What came of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub round: u64,
    /// `accepted`, or the reason it was rolled back for.
    pub what: String,
    pub message: String,
}

/// A campaign, as it lies on disk and in git.
pub struct Campaign<'a> {
    stage: &'a Stage,
    pub name: String,
}

impl Campaign<'_> {
    pub fn path(&self, inside: &str) -> PathBuf {
        self.stage.path(&format!(".kopt/campaigns/{}/{inside}", self.name))
    }

    pub fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap_or_else(|error| panic!("{inside}: {error}"))
    }

    pub fn events(&self) -> Vec<Value> {
        self.read("events.jsonl").lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Those of one kind.
    pub fn all(&self, event: &str) -> Vec<Value> {
        self.events().into_iter().filter(|one| one["event"] == event).collect()
    }

    /// What came of each round after the baseline.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let events = self.events();
        let decided = events.iter().filter(|one| one["event"] == "accepted" || one["event"] == "rolled-back");
        let outcome = |one: &Value| Outcome {
            round: one["round"].as_u64().unwrap(),
            what: one["reason"].as_str().unwrap_or("accepted").to_owned(),
            message: one["message"].as_str().unwrap_or_default().to_owned(),
        };
        decided.map(outcome).collect()
    }

    /// `accepted`, or why not, a word a round.
    pub fn words(&self) -> Vec<String> {
        self.outcomes().into_iter().map(|outcome| outcome.what).collect()
    }

    /// Why attempts of a round were refused.
    pub fn refusals(&self, round: u64) -> Vec<String> {
        let refused = self.all("refused").into_iter().filter(|one| one["round"] == round);
        refused.map(|one| one["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Why it ended.
    pub fn termination(&self) -> String {
        let ended = self.all("ended");
        assert_eq!(ended.len(), 1, "one end");
        ended[0]["termination"].as_str().unwrap().to_owned()
    }

    /// Commits that it accepted, the oldest first, as its branch has them.
    pub fn commits(&self) -> Vec<Oid> {
        self.commits_of(&format!("refs/heads/kopt/{}", self.name))
    }

    pub fn commits_of(&self, reference: &str) -> Vec<Oid> {
        let repository = self.stage.repository();
        let mut walk = repository.revwalk().unwrap();
        walk.push_ref(reference).unwrap();
        walk.hide(Oid::from_str(self.all("began")[0]["base"].as_str().unwrap()).unwrap()).unwrap();
        let mut commits: Vec<Oid> = walk.flatten().collect();
        commits.reverse();
        commits
    }

    /// The first lines of their messages.
    pub fn subjects(&self) -> Vec<String> {
        let repository = self.stage.repository();
        let subject = |id: &Oid| repository.find_commit(*id).unwrap().summary().unwrap().unwrap().to_owned();
        self.commits().iter().map(subject).collect()
    }

    /// A file of the campaign's evidence, as git keeps it.
    pub fn stored(&self, path: &str) -> Option<Vec<u8>> {
        let repository = self.stage.repository();
        let commit = repository.find_reference(&format!("refs/kopt/{}/evidence", self.name)).ok()?;
        let tree = commit.peel_to_tree().unwrap();
        let entry = tree.get_path(Path::new(path)).ok()?;
        Some(repository.find_blob(entry.id()).unwrap().content().to_owned())
    }

    /// Asserts what holds of every campaign that is over: the branch has the accepted rounds and nothing else, each changes
    /// the declared source only, everything is on record, and nothing is left to clean up.
    #[track_caller]
    pub fn is_over(&self) {
        let repository = self.stage.repository();
        let accepted: Vec<String> =
            self.all("accepted").iter().map(|one| one["commit"].as_str().unwrap().to_owned()).collect();
        let commits: Vec<String> = self.commits().iter().map(Oid::to_string).collect();
        assert_eq!(commits, accepted, "the branch has the accepted rounds and nothing else");
        for id in self.commits() {
            let commit = repository.find_commit(id).unwrap();
            assert_eq!(commit.parent_count(), 1);
            let before = commit.parent(0).unwrap().tree().unwrap();
            let diff = repository.diff_tree_to_tree(Some(&before), Some(&commit.tree().unwrap()), None).unwrap();
            let files: Vec<PathBuf> = diff.deltas().map(|delta| delta.new_file().path().unwrap().to_owned()).collect();
            assert_eq!(files, [Path::new(&join(self.stage.inside, SOURCE))], "only the declared source");
        }
        assert_eq!(self.all("reported").len(), 1);
        assert!(self.read("report.md").contains(&self.name));
        let report: Value = serde_json::from_str(&self.read("report.json")).unwrap();
        assert_eq!(report["applied"].as_array().unwrap().len(), accepted.len());
        for round in 1..=self.outcomes().len() + 1 {
            let summary = self.read(&format!("rounds/round-{round}/summary.md"));
            let is_rollback = self.outcomes().get(round.wrapping_sub(2)).is_some_and(|one| one.what != "accepted");
            assert_eq!(cargo_kopt::records::validate_summary(&summary, is_rollback), Vec::<String>::new(), "{summary}");
            assert_eq!(self.stored(&format!("round-{round}/summary.md")).unwrap(), summary.as_bytes());
        }
        assert_eq!(self.stored("events.jsonl").unwrap(), self.read("events.jsonl").as_bytes());
        let here = self.stage.sandbox.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        for name in ["events.jsonl", "report.json", "report.md", "optimize.md"] {
            let published = String::from_utf8(self.stored(name).unwrap()).unwrap();
            let named: Vec<&str> = published.lines().filter(|line| line.contains(&here)).collect();
            assert_eq!(named, Vec::<&str>::new(), "{name} goes to others, and names folders of this machine");
        }
        assert!(!self.stage.path(&format!(".kopt/worktrees/{}", self.name)).exists(), "the worktree is gone");
        assert!(!repository.path().join("worktrees").join(format!("kopt-{}", self.name)).exists());
        assert_eq!(self.locks(), Vec::<PathBuf>::new());
    }

    /// Lock files of git that are left.
    fn locks(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.stage.repository().path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.path().extension().is_some_and(|end| end == "lock") => found.push(entry.path()),
                    false => {}
                }
            }
        }
        found
    }
}

/// Patches that follow each other: each is made against what stands when it is tried.
pub struct Queue<'a> {
    stage: &'a Stage,
    folder: PathBuf,
    /// The source as it stands.
    text: String,
    number: usize,
}

impl<'a> Queue<'a> {
    pub fn new(stage: &'a Stage) -> Self {
        Self::named(stage, "patches")
    }

    pub fn named(stage: &'a Stage, name: &str) -> Self {
        let folder = stage.aside(name);
        fs::create_dir_all(&folder).unwrap();
        Self { stage, folder, text: stage.source(), number: 0 }
    }

    pub fn folder(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    /// A patch that turns `from` into `to` and is rolled back.
    pub fn tries(&mut self, header: &str, from: &str, to: &str) -> &mut Self {
        assert!(self.text.contains(from), "no `{from}` in\n{}", self.text);
        let after = self.text.replace(from, to);
        let diff = diff(SOURCE, &self.text, &after);
        self.write(header, &diff)
    }

    /// A patch of several changes that is rolled back, or the last.
    pub fn tries_both(&mut self, header: &str, changes: [(&str, &str); 2]) -> &mut Self {
        let after = changes.iter().fold(self.text.clone(), |text, (from, to)| {
            assert!(text.contains(from), "no `{from}` in\n{text}");
            text.replace(from, to)
        });
        let diff = diff(SOURCE, &self.text, &after);
        self.write(header, &diff)
    }

    /// One that is accepted: what follows is made against it.
    pub fn gains(&mut self, header: &str, from: &str, to: &str) -> &mut Self {
        self.tries(header, from, to);
        self.text = self.text.replace(from, to);
        self
    }

    /// One that changes another file of the crate.
    pub fn strays(&mut self, header: &str, path: &str, from: &str, to: &str) -> &mut Self {
        let text = fs::read_to_string(self.stage.path(path)).unwrap();
        assert!(text.contains(from));
        let diff = diff(path, &text, &text.replace(from, to));
        self.write(header, &diff)
    }

    /// One that is made against a text which stands nowhere.
    pub fn misses(&mut self, header: &str) -> &mut Self {
        let diff = diff(SOURCE, "int no_such_line;\n", "int no_such_line_either;\n");
        self.write(header, &diff)
    }

    fn write(&mut self, header: &str, diff: &str) -> &mut Self {
        self.number += 1;
        fs::write(self.folder.join(format!("{:02}.patch", self.number)), format!("{header}\n{diff}")).unwrap();
        self
    }
}

/// The header of a patch whose words are its own.
pub fn header(title: &str, hypothesis: &str) -> String {
    format!("Title: {title}\nHypothesis: {hypothesis}\n")
}

/// `git diff` of one file.
pub fn diff(path: &str, before: &str, after: &str) -> String {
    let file = Path::new(path);
    let mut patch =
        git2::Patch::from_buffers(before.as_bytes(), Some(file), after.as_bytes(), Some(file), None).unwrap();
    patch.to_buf().unwrap().as_str().unwrap().to_owned()
}
