//! A copy of a fixture in a folder of its own, and the tool run in it.

#[path = "../support/fixture.rs"]
mod fixture;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The tool under test.
pub const TOOL: &str = env!("CARGO_BIN_EXE_cargo-kopt");

/// A folder that is gone when the test is over.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A copy of `tests/fixtures/<name>`.
    pub fn of(name: &str) -> Self {
        let sandbox = Self::empty();
        fixture::copy(name, &sandbox.path(""));
        sandbox
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    pub fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap()
    }

    pub fn write(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces a part of a file that must be there.
    #[track_caller]
    pub fn edit(&self, inside: &str, from: &str, to: &str) {
        let text = self.read(inside);
        assert!(text.contains(from), "no `{from}` in {inside}:\n{text}");
        self.write(inside, &text.replace(from, to));
    }

    /// Every file, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push(path.strip_prefix(self.path("")).unwrap().to_str().unwrap().to_owned()),
                }
            }
        }
        files.sort();
        files
    }

    /// The tool, ready to run in the sandbox.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(TOOL);
        command.args(arguments).current_dir(self.path(""));
        // Builds stay in the sandbox, and nothing of this test's own run leaks in.
        for name in
            ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "KOPT_SEED", "KOPT_SEEDS", "KOPT_BENCH", "CRITERION_HOME"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Runs the tool.
    pub fn kopt(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// Runs the tool in a folder of the sandbox.
    pub fn kopt_in(&self, inside: &str, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).current_dir(self.path(inside)))
    }
}

/// What a run of the tool left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().expect("the tool was killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts the exit code, showing what was said if it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that people are told this.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no `{text}` in:\n{}", self.stderr);
        self
    }

    /// Asserts that what was asked for has this in it.
    #[track_caller]
    pub fn answers(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no `{text}` in:\n{}", self.stdout);
        self
    }

    /// The JSON lines of stdout.
    #[track_caller]
    pub fn messages(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The `reason` of each.
    pub fn reasons(&self) -> Vec<String> {
        self.messages().iter().map(|message| message["reason"].as_str().unwrap().to_owned()).collect()
    }
}
