//! A campaign's surroundings in a temporary folder: a repository with a workspace and a crate in it, and a round's folder.
//! Here also what concerns all proposers: the prompt, and which one a target means.

use std::fs;

use camino::Utf8PathBuf;
use git2::Repository;
use kopt_schema::campaign::event::Refused;
use kopt_schema::campaign::target::{ExecutionMode, Goal, Metric};
use kopt_schema::campaign::{Category, Target};
use kopt_schema::evidence::Estimate;
use kopt_schema::manifest::{Backend, Language};
use tempfile::TempDir;

use super::brief::*;
use super::*;

pub struct World {
    _scratch: TempDir,
    /// Holds all of it; its name has a space.
    pub root: Utf8PathBuf,
    pub target: Target,
    pub dossier: Dossier,
    pub context: Context,
    pub used: Vec<String>,
    pub failure: Option<Refused>,
    pub attempt: u32,
}

impl World {
    pub fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(scratch.path().canonicalize().unwrap().join("a folder")).unwrap();
        fs::create_dir_all(root.join("round-2")).unwrap();
        Repository::init(root.join("tree")).unwrap();
        let context = Context {
            cwd: root.clone(),
            cargo: "cargo".into(),
            criterion_home: None,
            withheld: vec!["OUT_DIR".into()],
        };
        let dossier = Dossier { time_left_s: 3600.0, allowed: vec!["kernels/k.c".into()], ..Dossier::default() };
        let world = Self {
            _scratch: scratch,
            root,
            target: target(),
            dossier,
            context,
            used: Vec::new(),
            failure: None,
            attempt: 1,
        };
        world.write("kernels/k.c", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
        world
    }

    pub fn top(&self) -> Utf8PathBuf {
        self.root.join("tree")
    }

    pub fn workspace(&self) -> Utf8PathBuf {
        self.top().join("work")
    }

    pub fn crate_folder(&self) -> Utf8PathBuf {
        self.workspace().join("softmax")
    }

    pub fn round_folder(&self) -> Utf8PathBuf {
        self.root.join("round-2")
    }

    /// Writes a file of the crate.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.crate_folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads one.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.crate_folder().join(path)).unwrap()
    }

    pub fn ask(&self, proposer: &mut dyn Proposer) -> Result<Answer> {
        let (workspace, crate_folder, round_folder) = (self.workspace(), self.crate_folder(), self.round_folder());
        let brief = Brief {
            target: &self.target,
            round: 2,
            attempt: self.attempt,
            incumbent: "0123456789",
            workspace: &workspace,
            crate_folder: &crate_folder,
            round_folder: &round_folder,
            used: &self.used,
            failure: self.failure.as_ref(),
            dossier: &self.dossier,
        };
        proposer.propose(&self.context, &Interrupts::watch().unwrap(), &brief)
    }
}

fn target() -> Target {
    Target {
        format: 1,
        campaign: "softmax_cpu_test".into(),
        created: "2026-01-01 00:00".into(),
        kernel: "softmax".into(),
        target_op: "softmax".into(),
        target_backend: Backend::Cpu,
        target_lang: Language::C,
        target_device: "a device".into(),
        target_shapes: vec!["64x64".into()],
        representative_shapes: vec!["64x64".into()],
        core_shapes: Vec::new(),
        primary_metric: Metric::Latency,
        performance_target: Some(Goal::Gain(0.5)),
        kernel_sources: vec!["kernels/k.c".into()],
        test_command: "cargo test".into(),
        benchmark_command: "cargo bench".into(),
        quick_command: "cargo bench".into(),
        execution_mode: ExecutionMode::Worktree,
        git_commit: true,
        git_branch: None,
        base: "0123456789".into(),
        max_rounds: 20,
        max_time_s: 3600.0,
        round_time_s: 600.0,
        max_cost_usd: None,
        min_gain: 0.01,
        policy: "default".into(),
        roofline_share: 0.95,
        instruction: None,
        proposers: vec![Source::Hand],
    }
}

fn estimate(gain: f64) -> Estimate {
    Estimate { gain, low: gain - 0.01, high: gain + 0.01, confidence: 0.95, launch_sigma: 0.01, launches: 9 }
}

#[test]
fn the_prompt_has_everything_that_a_round_rests_on() {
    let mut world = World::new();
    let standing = |shape: &str| ShapeStanding {
        shape: shape.into(),
        baseline_s: 2e-6,
        current_s: 1e-6,
        gain: 1.0,
        ceiling_share: Some(0.5),
    };
    world.dossier = Dossier {
        shapes: vec![standing("64x64"), standing("1x32000")],
        gain: Some(estimate(0.5)),
        last_accepted: Some(LastAccepted { round: 2, title: "Vector exp".into(), gain: estimate(0.4) }),
        rounds: vec![PastRound {
            round: 3,
            title: "Prefetch | next".into(),
            hypothesis: "misses\nin the cache".into(),
            category: Some(Category::Overlap),
            status: "ROLLED BACK".into(),
            gain: Some(estimate(-0.02)),
            reason: Some("not faster".into()),
        }],
        rollbacks: 2,
        rung: "Start from the fresh profile below.".into(),
        stagnation: true,
        directions: vec![DirectionStanding {
            category: Category::Layout,
            tried: 0,
            accepted: 0,
            momentum: "untried".into(),
        }],
        tips: vec![Tip { title: "No memoisation".into(), takeaway: "W2".into(), kind: "anti-pattern".into() }],
        last_rollback: Some(LastRollback {
            round: 3,
            diff: Some("-old\n+```new\n".into()),
            shapes: vec![ShapeChange {
                shape: "64x64".into(),
                before_s: 1e-6,
                after_s: 1.5e-6,
                gain: Some(estimate(-0.33)),
            }],
        }),
        profile: Some("60 % in expf".into()),
        disassembly: Some("vmulps".into()),
        ceilings: Some("30 GB/s".into()),
        compiler: "cc 14".into(),
        flags: vec!["-O3".into(), "-march=native".into()],
        allowed: vec!["kernels/k.c".into()],
        time_left_s: 5400.0,
        cost_left_usd: Some(1.5),
    };
    world.failure = Some(Refused {
        round: 4,
        attempt: 1,
        reason: Reason::Incorrect,
        message: format!("seed 0011223344556677: y[3] differs\n{}THE END", "x".repeat(100_000)),
        seconds: 1.0,
        usage: None,
        source: None,
        proposal: None,
    });
    world.attempt = 2;
    let answer = world.ask(&mut Agent::new("true", Limits::seconds(600.0)).unwrap()).unwrap();
    assert!(matches!(answer.outcome, Outcome::Change(_)), "{answer:?}");
    let prompt = fs::read_to_string(world.round_folder().join(PROMPT)).unwrap();
    let proposal = world.round_folder().join("proposal.toml");
    for part in [
        "# softmax on cpu, round 2, attempt 2",
        "The last attempt of this round failed: incorrect",
        "seed (withheld): y[3] differs",
        "THE END",
        "- `kernels/k.c`\n",
        proposal.as_str(),
        "Do not run git",
        "no number of yours is used",
        "You have 10 min",
        "| device | a device |",
        "| flags | -O3 -march=native |",
        "| goal | +50.0 % over the baseline |",
        "| time left | 1 h 30 min |",
        "| money left | 1.50 US dollars |",
        "30 GB/s",
        "| 1x32000 | 2.00 µs | 1.00 µs | +100.0 % | 50 % |",
        "Over all shapes, against the baseline: +50.0 % [+49.0, +51.0].",
        "Last accepted: round 2, Vector exp",
        "| 3 | Prefetch \\| next | misses in the cache | pipelining and overlap | ROLLED BACK: not faster | -2.0 % [-3.0, -1.0] |",
        "Rollbacks in a row: 2.\nStart from the fresh profile below.",
        "This is stagnation",
        "| data layout and movement | 0 | 0 | untried |",
        "| 64x64 | 1.00 µs | 1.50 µs | -33.0 % [-34.0, -32.0] |",
        "-old\n+```new\n",
        "60 % in expf",
        "vmulps",
        "- No memoisation (anti-pattern): W2",
    ] {
        assert!(prompt.contains(part), "`{part}` is missing in:\n{prompt}");
    }
    assert!(!prompt.contains("0011223344556677") && prompt.len() < 20_000, "{}", prompt.len());
    let json = fs::read_to_string(world.round_folder().join(CONTEXT)).unwrap();
    assert!(!json.contains("0011223344556677"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["format"], &json["round"], &json["attempt"]), (&1.into(), &2.into(), &2.into()));
    assert_eq!(json["target"]["campaign"], "softmax_cpu_test");
    assert_eq!(json["failure"]["reason"], "incorrect");
    assert_eq!(json["rounds"][0]["category"], "pipelining and overlap");
    assert_eq!(json["shapes"][1]["ceiling_share"], 0.5);
    assert_eq!(json["answer_within_s"], 600.0);
}

#[test]
fn a_target_names_its_proposers_and_a_bad_one_fails_before_it_is_asked() {
    let world = World::new();
    fs::create_dir_all(world.root.join("queue")).unwrap();
    let patch = "Title: t\nHypothesis: h\n\n--- a/kernels/k.c\n+++ b/kernels/k.c\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n";
    fs::write(world.root.join("queue/01.patch"), patch).unwrap();
    let made = |source: &Source| of(&world.context, source, &world.root, Limits::seconds(1.0));
    assert!(made(&Source::Hand).unwrap().is_none());
    for (source, name) in [
        (Source::Patches { folder: "queue".into() }, "patches of queue"),
        (Source::Patch { file: world.root.join("queue/01.patch").into_string() }, "patch "),
        (Source::Agent { command: "sh -c true".into() }, "agent sh"),
    ] {
        assert!(made(&source).unwrap().unwrap().name().starts_with(name), "{name}");
    }
    let wrong = |source: Source| made(&source).err().unwrap();
    assert!(wrong(Source::Patches { folder: "nowhere".into() }).to_string().contains("nowhere"));
    assert!(wrong(Source::Patches { folder: "round-2".into() }).to_string().ends_with("has no patches"));
    let missing = wrong(Source::Agent { command: "claud -p".into() });
    assert_eq!(missing.to_string(), "there is no program `claud` to ask for changes");
    assert_eq!(missing.failure().hint.as_deref(), Some("did you mean the preset `claude`?"));
}
