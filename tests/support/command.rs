//! `cargo kopt compare` in a repository of its own, killed at random moments: what `killed` does to the command as a
//! whole. The judge is the puppet of `fixtures/bout`, which builds in a second.

#[path = "fixture.rs"]
mod fixture;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use git2::Repository;

use crate::chance::Chance;
use crate::contest::survivors;
use crate::history;

/// Kills come within this, which is about what a first comparison takes.
const COMPARISON: Duration = Duration::from_millis(4000);

/// A kill that comes when the comparison is over is none: it is made again, sooner, this many times at most.
const TRIES: i32 = 6;

/// Cargo and compilers that were at work when the tool was killed finish what they are at; nothing tells them not to.
const BUILD: Duration = Duration::from_secs(30);

/// Kills the command this many times and lets it finish after each; the error says what stood in its way.
#[allow(clippy::print_stderr, reason = "how long survivors take is worth knowing, and nothing to assert on")]
pub fn rounds(kills: u64, seed: u64) -> Result<(), String> {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = Utf8Path::from_path(scratch.path()).unwrap();
    let repository = repository(folder);
    fs::create_dir(folder.join("temporary")).unwrap();
    let (mut chance, mut slowest) = (Chance(seed), Duration::ZERO);
    for kill in 0..kills {
        let moment = (0..TRIES).find_map(|late| {
            // Every second one starts from nothing; the others find what killed ones have left.
            if kill % 2 == 0 {
                let _ = fs::remove_dir_all(repository.join("target"));
            }
            let moment = COMPARISON.mul_f64(chance.share() * 0.5f64.powi(late));
            let mut tool = compare(&repository, folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(moment);
            tool.kill().unwrap();
            tool.wait().unwrap().code().is_none().then_some(moment)
        });
        let moment = moment.ok_or_else(|| format!("kill {kill} came too late {TRIES} times"))?;
        let told = |wrong: String| format!("kill {kill} after {moment:?}: {wrong}");
        let killed = Instant::now();
        let left = survivors(folder, BUILD);
        slowest = slowest.max(killed.elapsed());
        if !left.is_empty() {
            return Err(told(format!("left behind: {}", left.join(", "))));
        }
        let output = compare(&repository, folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(0) || !said.contains("ACCEPTED") {
            return Err(told(format!("the next comparison: {:?}\n{said}", output.status.code())));
        }
        let mut left = survivors(folder, Duration::from_secs(5));
        left.extend(halves(&repository, folder));
        if !left.is_empty() {
            return Err(told(format!("left behind after the next comparison: {}", left.join(", "))));
        }
    }
    eprintln!("Command killed: {kills} times, the last survivor ended {slowest:.1?} later");
    Ok(())
}

/// A comparison that accepts: the puppet's candidate takes 0.9 of the incumbent's time.
fn compare(repository: &Utf8Path, folder: &Utf8Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-kopt"));
    command.args(["compare", "HEAD", "--seed", "5eed"]).current_dir(repository).env("TMPDIR", folder.join("temporary"));
    for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"] {
        command.env_remove(name);
    }
    command
}

fn repository(folder: &Utf8Path) -> Utf8PathBuf {
    let place = folder.join("repository");
    fixture::copy("bout", place.as_std_path());
    fs::write(place.join("judge"), "share * 0.9\nnoise 0.002\n").unwrap();
    fs::write(place.join(".gitignore"), "/target\n").unwrap();
    history::commit(&Repository::init(&place).unwrap(), "first");
    let kernel = place.join("kernels/softmax.c");
    let text = fs::read_to_string(&kernel).unwrap();
    fs::write(kernel, text.replace("* 2.0f", "* 3.0f")).unwrap();
    place
}

/// Things half done: hidden names beside what is kept, lock files and worktrees of git, temporary files. The cache of
/// candidates is left out: a killed build leaves a hidden folder there that nothing ever takes for a candidate. So are the few
/// bytes by which the crate `cc` asks a compiler what it is: it removes them itself, unless it is killed in those milliseconds.
fn halves(repository: &Utf8Path, folder: &Utf8Path) -> Vec<String> {
    let kept = ["evidence", "revisions"].map(|name| repository.join("target/kopt").join(name));
    let hidden = kept.iter().flat_map(|place| names(place)).filter(|path| path.file_name().unwrap().starts_with('.'));
    let git = repository.join(".git");
    let locks = names(&git).into_iter().filter(|path| path.extension() == Some("lock") || path.ends_with("worktrees"));
    let asked = |path: &Utf8PathBuf| path.as_str().ends_with("detect_compiler_family.c");
    let temporary = names(&folder.join("temporary")).into_iter().filter(|path| !asked(path));
    let all = hidden.chain(locks).chain(temporary);
    all.map(|path| path.strip_prefix(folder).unwrap().to_string()).collect()
}

fn names(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    folder.read_dir_utf8().into_iter().flatten().flatten().map(|entry| entry.into_path()).collect()
}
