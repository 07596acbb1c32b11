//! Campaigns that are killed with SIGKILL at random moments, taken up again, and killed again: in the end each is what it
//! would have been without. The tool's process group is killed, compilers and cargo with it; the judge and agents have groups
//! of their own and must end by themselves. And campaigns that are interrupted so, as by Ctrl-C in a terminal, which reaches
//! compilers and `cargo test` as well: none of them may be taken for a failure of the candidate.
//!
//! Forty kills, or as many as `KOPT_KILLS` says. The seed of the moments is printed; `KOPT_KILL_SEED` gives it again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::agents::agent;
use crate::chance::{self, Chance};
use crate::stage::{Queue, Stage, header};

/// Kills, if not asked for another number.
const KILLS: u64 = 40;

/// A third of the kills come within this, while the tool gets ready.
const READY: Duration = Duration::from_millis(1000);

/// The others come within this, once it has gone on with the campaign; half of them within an eighth of it. A round takes
/// about a tenth, the baseline half.
const ROUNDS: Duration = Duration::from_millis(4000);

/// Events that a process writes before it goes on: that it has resumed, and prepared.
const FIRST: usize = 2;

/// Whoever has a group of its own ends within this, on a busy machine.
const SURVIVAL: Duration = Duration::from_secs(20);

#[test]
fn a_queue_that_is_killed_again_and_again_comes_to_the_same_end() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    queue
        .gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900")
        .tries(&header("Prefetch", "The second read misses."), "TIME=0.900", "TIME=0.990")
        .tries(&header("Drop the return", "Nobody looks at it."), "return 0;", "return zero;")
        .gains(&header("Fuse both passes", "Memory is read once."), "TIME=0.900", "TIME=0.800")
        .tries(&header("Skip a column", "Who sees it?"), "TIME=0.800;", "TIME=0.500;WRONG;")
        .gains(&header("Wider tile", "Fewer loads."), "TIME=0.800", "TIME=0.700");
    survives(&stage, &["--patches", queue.folder()], Signal::KILL, chance::kills(KILLS) * 2 / 3, 0);
}

#[test]
fn a_queue_that_is_interrupted_again_and_again_comes_to_the_same_end() {
    let stage = Stage::new();
    let mut queue = Queue::new(&stage);
    queue
        .gains(&header("Eight lanes", "Lanes work side by side."), "TIME=1.000", "TIME=0.900")
        .tries(&header("Drop the return", "Nobody looks at it."), "return 0;", "return zero;")
        .gains(&header("Fuse both passes", "Memory is read once."), "TIME=0.900", "TIME=0.800")
        .gains(&header("Wider tile", "Fewer loads."), "TIME=0.800", "TIME=0.700");
    survives(&stage, &["--patches", queue.folder()], Signal::INT, chance::kills(KILLS).div_ceil(4), 2);
}

#[test]
fn an_agent_whose_campaign_is_killed_again_and_again_comes_to_the_same_end() {
    let stage = Stage::new();
    let script = r#"
sleep 0.1
case "$1.$2" in
    2.*) takes 0.900; say "Eight lanes" "Lanes work side by side." ;;
    3.*) takes 0.990; say "Prefetch" "The second read misses." ;;
    4.1) takes "0.800;WRONG"; say "Skip a column" "Columns are many." ;;
    4.*) takes 0.800; say "Fuse both passes" "Memory is read once." ;;
    5.*) echo '# mine' >> Cargo.toml; say "Other flags" "Compilers know better." ;;
    6.*) takes 0.700; say "Wider tile" "Fewer loads." ;;
esac
"#;
    let agent = agent(&stage, script);
    survives(&stage, &["--agent", &agent, "--max-rounds", "6"], Signal::KILL, chance::kills(KILLS).div_ceil(3), 1);
}

#[allow(clippy::print_stderr, reason = "whoever runs the test wants to repeat it")]
fn survives(stage: &Stage, arguments: &[&str], signal: Signal, kills: u64, number: u64) {
    let seed = chance::seed();
    eprintln!("{kills} kills, KOPT_KILL_SEED={seed:016x}");
    let mut chance = Chance(seed ^ number);
    stage.optimize(arguments).exits(0);
    let undisturbed = stage.last();
    let (words, subjects) = (undisturbed.words(), undisturbed.subjects());
    let before = stage.checkout();
    let (mut killed, mut campaigns) = (0, 0);
    let mut after = BTreeMap::new();
    while killed < kills {
        killed += disturbed(stage, arguments, signal, kills - killed, &mut chance, &mut after);
        campaigns += 1;
        let campaign = stage.last();
        assert_eq!(campaign.words(), words, "after {killed} kills: {:#?}", campaign.outcomes());
        assert_eq!(campaign.subjects(), subjects, "after {killed} kills");
        campaign.is_over();
        assert_eq!(stage.checkout(), before);
        for commit in campaign.commits() {
            stage.kopt(&["verify", &commit.to_string(), "--evidence-only"]).exits(0);
        }
    }
    stage.kopt(&["status"]).exits(0);
    eprintln!("{killed} kills in {campaigns} campaigns, the last event then: {after:?}");
}

/// A campaign, killed and taken up until it is over, or killed often enough; how many kills that took.
fn disturbed(
    stage: &Stage,
    arguments: &[&str],
    signal: Signal,
    most: u64,
    chance: &mut Chance,
    after: &mut BTreeMap<String, u64>,
) -> u64 {
    let finished = stage.campaigns();
    let mut kills = 0;
    loop {
        let begun = stage.campaigns().into_iter().find(|name| !finished.contains(name) && has_begun(stage, name));
        if begun.as_ref().is_some_and(|name| is_over(stage, name)) {
            return kills;
        }
        let mut command = match &begun {
            Some(name) => stage.command(&["resume", name]),
            None => stage.command(&[&["optimize", "--yes"], arguments].concat()),
        };
        let log = fs::File::create(stage.aside("said")).unwrap();
        command.stdout(Stdio::null()).stderr(log).process_group(0);
        let mut tool = command.spawn().unwrap();
        let early = chance.share() < 0.33 || begun.is_none();
        let (mut moment, pause) =
            (Instant::now() + READY.mul_f64(chance.share()), ROUNDS.mul_f64(chance.share().powi(3)));
        let lines = || begun.as_ref().map_or(0, |name| stage.campaign(name).read("events.jsonl").lines().count());
        let (first, mut under_way) = (lines() + FIRST, early);
        let status = loop {
            if let Some(status) = tool.try_wait().unwrap() {
                break Some(status);
            }
            if !under_way && lines() >= first {
                (under_way, moment) = (true, Instant::now() + pause);
            }
            if kills < most && under_way && Instant::now() >= moment {
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let said = || fs::read_to_string(stage.aside("said")).unwrap();
        if let Some(status) = status {
            assert_eq!(status.code(), Some(0), "after {kills} kills:\n{}", said());
            return kills;
        }
        rustix::process::kill_process_group(Pid::from_child(&tool), signal).unwrap();
        let status = tool.wait().unwrap();
        assert_ne!(status.code(), Some(70), "{}", said());
        kills += 1;
        let last = begun.as_ref().and_then(|name| {
            let text = stage.campaign(name).read("events.jsonl");
            let event: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
            Some(event["event"].as_str()?.to_owned())
        });
        *after.entry(last.unwrap_or_else(|| "none".to_owned())).or_default() += 1;
        let deadline = Instant::now() + SURVIVAL;
        while let Some(survivor) = survivor(&stage.sandbox.path("")) {
            assert!(Instant::now() < deadline, "still there after kill {kills}: {survivor}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn has_begun(stage: &Stage, name: &str) -> bool {
    stage.campaign(name).read("events.jsonl").contains('\n')
}

/// Killed after its last event, a campaign has nothing to be taken up for but its worktree.
fn is_over(stage: &Stage, name: &str) -> bool {
    let campaign = stage.campaign(name);
    campaign.read("events.jsonl").contains("\"event\":\"reported\"")
        && !stage.path(&format!(".kopt/worktrees/{name}")).exists()
        && !stage.path(&format!(".kopt/worktrees/{name}.removed")).exists()
}

/// A process at work below a folder.
fn survivor(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().unwrap();
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let is_below = ["cwd", "exe"]
            .iter()
            .any(|link| fs::read_link(entry.path().join(link)).is_ok_and(|path| path.starts_with(&folder)));
        is_below.then(|| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " "))
    })
}
