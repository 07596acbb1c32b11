//! Campaigns killed for real, at moments that nobody chose.

use std::io::Write as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::*;

/// The file that tells the child that it is one, and where the accepted commits stand: what events are to a campaign.
const EVENTS: &str = "events";

/// The file that tells that the campaign has begun.
const BEGAN: &str = "began";

fn accepted(scratch: &Path) -> Vec<String> {
    let text = fs::read_to_string(scratch.join(EVENTS)).unwrap();
    // A last line without its end was not written whole.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// One process of a campaign: goes on from what stands, round after round, until it is killed.
#[test]
#[ignore = "the other half of `a_campaign_survives_every_kill`, which starts it"]
fn child() {
    let scratch = std::env::current_dir().unwrap();
    if !scratch.join(EVENTS).exists() {
        return;
    }
    let workspace = Utf8PathBuf::from_path_buf(scratch.join("a repository")).unwrap();
    let base = accepted(&scratch)[0].clone();
    let sources = [Utf8PathBuf::from(SOURCE)];
    let folder = workspace.join(".kopt/worktrees").join(CAMPAIGN);
    let place = Place {
        workspace: &workspace,
        campaign: CAMPAIGN,
        branch: Some(BRANCH),
        base: &base,
        mode: ExecutionMode::Worktree,
        folder: &folder,
        sources: &sources,
    };
    for _ in 0..500 {
        let chain = accepted(&scratch);
        let (incumbent, round) = (chain.last().unwrap(), u32::try_from(chain.len()).unwrap() + 1);
        // A round can be accepted before it is told; that the campaign began is told before any round.
        let lineage = match scratch.join(BEGAN).exists() {
            false => Lineage::begin(place).unwrap(),
            true => Lineage::open(place, incumbent).unwrap().0,
        };
        fs::write(scratch.join(BEGAN), "").unwrap();
        let message = format!("round {round}");
        let known = lineage.repository.refname_to_id(&lineage.reference(&format!("round-{round}")));
        let is_done = lineage.tip().unwrap().as_ref() != Some(incumbent);
        let candidate = match known {
            Ok(candidate) if is_done => candidate.to_string(),
            _ => {
                lineage.reset(incumbent).unwrap();
                write(&lineage.workspace().join(SOURCE), &format!("int round_{round};\n"));
                let changes = lineage.changes(incumbent, &sources).unwrap();
                assert_eq!((changes.changed.len(), changes.forbidden.len()), (1, 0), "{changes:?}");
                lineage.capture(incumbent, round, 1, &sources, "a change").unwrap().commit
            }
        };
        let commit = lineage.accept(&candidate, incumbent, &message).unwrap();
        lineage.store(&[(format!("round-{round}"), commit.clone().into_bytes())], &message).unwrap();
        let mut events = fs::OpenOptions::new().append(true).open(scratch.join(EVENTS)).unwrap();
        events.write_all(format!("{commit}\n").as_bytes()).unwrap();
    }
}

#[test]
fn a_campaign_survives_every_kill() {
    let ground = Ground::new();
    let scratch = ground.scratch.path();
    let (base, before) = (ground.head(), ground.users());
    fs::write(scratch.join(EVENTS), format!("{base}\n")).unwrap();
    let mut kill = 0_u64;
    // At least so often, and until some rounds were accepted: a machine with much to do gets more tries.
    while kill < 24 || accepted(scratch).len() < 4 {
        kill += 1;
        assert!(kill < 500, "nothing is ever accepted");
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "lineage::tests::killed::child", "--ignored", "--nocapture"]);
        let mut child = child.current_dir(scratch).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        sleep(Duration::from_millis((20 + 17 * kill % 211) * (1 + kill / 48)));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let said = child.wait_with_output().unwrap().stderr;
        assert!(ended.is_none(), "it ended by itself: {}", String::from_utf8_lossy(&said));
        // Every commit that was told as accepted is on the branch, in order.
        let chain = accepted(scratch);
        let Some(tip) = ground.target(&format!("refs/heads/{BRANCH}")) else { continue };
        let mut walk = ground.repository.revwalk().unwrap();
        walk.push(Oid::from_str(&tip).unwrap()).unwrap();
        let mut on_branch: Vec<String> = walk.map(|id| id.unwrap().to_string()).collect();
        on_branch.reverse();
        assert!(on_branch.starts_with(&chain), "kill {kill}: {chain:?} of {on_branch:?}");
        assert!(on_branch.len() <= chain.len() + 1, "kill {kill}: at most one is ahead");
        assert_eq!(ground.users(), before, "kill {kill}");
    }
    let chain = accepted(scratch);
    let incumbent = chain.last().unwrap();
    let (lineage, _) = Lineage::open(ground.place(&base), incumbent).unwrap();
    let tip = lineage.tip().unwrap().unwrap();
    lineage.reset(&tip).unwrap();
    assert_clean(&lineage, &tip);
    assert_eq!(read(&lineage.workspace().join("src/lib.rs")), "// lib\n");
    if git(&ground.top(), &["fsck", "--strict"]).is_some() {
        git(&ground.top(), &["gc", "-q", "--prune=now"]);
        let (lineage, _) = Lineage::open(ground.place(&base), &tip).unwrap();
        let candidate = ground.capture(&lineage, &tip, 999, "int last;\n");
        assert_clean(&lineage, &lineage.accept(&candidate.commit, &tip, "after gc").unwrap());
    }
}
