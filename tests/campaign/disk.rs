//! Disks that are full or cannot be written: the campaign says so, loses nothing, and goes on when there is room.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agents::agent;
use crate::begin::one_gain;
use crate::sandbox::{Ran, TOOL};
use crate::stage::{SOURCE, Stage};

/// A file system of so many KiB, gone when dropped.
struct Small(PathBuf);

impl Small {
    /// None where the system does not let us.
    fn mount(place: &Path, kib: u32) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let mount = |arguments: &[&str]| {
            let mut command = Command::new("mount");
            command.args(arguments).arg(place).output().is_ok_and(|output| output.status.success())
        };
        mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).then(|| Self(place.to_owned()))
    }

    fn grow(&self) {
        let done = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&self.0).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn a_disk_that_runs_full_costs_nothing_that_was_decided() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    let mut full = 0;
    // The baseline's evidence fits, that of the first round does not, or less does: wherever it ends, it must go on.
    for kib in [8, 40, 80, 120, 160, 200] {
        let Some(small) = Small::mount(&stage.path(".kopt"), kib) else {
            eprintln!("skipped: no file system can be mounted here");
            return;
        };
        let ran = stage.optimize(&["--patches", &patches]);
        if ran.code == 0 {
            continue;
        }
        assert!([96, 110].contains(&ran.code), "{kib} KiB: {}", ran.stderr);
        assert!(ran.stderr.contains("o space left on device"), "{}", ran.stderr);
        full += 1;
        small.grow();
        let begun = stage.campaigns().iter().any(|name| !stage.campaign(name).read("events.jsonl").is_empty());
        if begun {
            stage.kopt(&["resume"]).exits(0);
        } else {
            stage.optimize(&["--patches", &patches]).exits(0);
        }
        assert_eq!(stage.last().words(), ["accepted"], "{kib} KiB");
        stage.last().is_over();
    }
    assert!(full > 0, "there was always room");
}

#[test]
fn files_that_cannot_grow_stop_a_try_and_the_next_one_gets_on_with_it() {
    let stage = Stage::new();
    stage.optimize(&["--by-hand"]).exits(0);
    let campaign = stage.last();
    let path = stage.path(&format!(".kopt/worktrees/{}/{SOURCE}", campaign.name));
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("TIME=1.000", "TIME=0.900")).unwrap();
    let limited = |blocks: u32| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {TOOL} try --hypothesis 'Eight lanes'");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(stage.path(""));
        Ran::of(&mut command)
    };
    let ran = limited(1);
    assert!([96, 110].contains(&ran.code) && ran.stderr.contains("File too large"), "{}: {}", ran.code, ran.stderr);
    assert_eq!(campaign.all("accepted").len(), 0);
    stage.kopt(&["try", "--hypothesis", "Eight lanes"]).exits(0);
    stage.kopt(&["stop"]).exits(0);
    assert_eq!(campaign.words(), ["accepted"]);
    campaign.is_over();
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn a_folder_that_cannot_be_written_is_named() {
    let stage = Stage::new();
    let patches = one_gain(&stage);
    fs::write(stage.path(".kopt"), "a file of somebody's").unwrap();
    stage.optimize(&["--patches", &patches]).exits(110).says("cannot write").says(".kopt");
    fs::remove_file(stage.path(".kopt")).unwrap();
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped in part: root writes where nobody may");
        return;
    }
    fs::create_dir(stage.path(".kopt")).unwrap();
    fs::set_permissions(stage.path(".kopt"), fs::Permissions::from_mode(0o555)).unwrap();
    stage.optimize(&["--patches", &patches]).exits(110).says("ermission denied");
    fs::set_permissions(stage.path(".kopt"), fs::Permissions::from_mode(0o755)).unwrap();
    stage.optimize(&["--patches", &patches]).exits(0);
}

#[test]
fn a_machine_on_which_no_version_passes_its_tests_is_not_charged_to_a_candidate() {
    let stage = Stage::new();
    let broken = stage.aside("broken");
    let test = fs::read_to_string(stage.path("tests/correctness.rs")).unwrap();
    let fails =
        format!("{{\n    assert!(!std::path::Path::new({:?}).exists(), \"no room\");", broken.display().to_string());
    fs::write(stage.path("tests/correctness.rs"), test.replacen('{', &fails, 1)).unwrap();
    stage.commit("a test that needs the machine");
    let agent = agent(&stage, &format!("touch '{}'; takes 0.900; say 'Eight lanes' 'Side by side.'", broken.display()));
    let ran = stage.optimize(&["--agent", &agent, "--max-rounds", "2"]).exits(96);
    ran.says("of the version that stands fails, too").says("no room");
    assert_eq!(stage.last().words(), Vec::<String>::new(), "nothing is decided");
    fs::remove_file(broken).unwrap();
    stage.kopt(&["resume"]).exits(0);
    assert_eq!(stage.last().words(), ["accepted"]);
    stage.last().is_over();
}
