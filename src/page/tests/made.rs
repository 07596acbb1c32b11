//! Campaigns and evidence made by hand, as large and as strange as a test wants them.

use std::collections::BTreeMap;

use kopt_schema::bout::{Arrangement, BlockRecord, CaseInfo, CaseRecord, LaunchRecord};
use kopt_schema::campaign::event::{
    Accepted, Baseline, Began, Ended, Learned, Level, Measured, Prepared, Proposed, Reason, Refused, Reported,
    RolledBack, RoundBegan, ShapeTime, Termination, TipsRead,
};
use kopt_schema::campaign::{Bucket, Event, Proposal};
use kopt_schema::evidence::{Ceilings, Estimate, Evidence, Machine, Ruling, Side, Stage, StageKind};
use kopt_schema::manifest::{Backend, Class};
use kopt_schema::message::Cost;
use kopt_schema::sandbox::Sandbox;

use crate::gate;
use crate::ledger::State;
use crate::page::Filed;

/// The shapes of everything made here.
pub const SHAPES: [&str; 8] = ["1x8", "64x1024", "100x1000", "512x512", "2048x4096", "odd-7x33", "prefill", "decode"];

/// Evidence of a candidate that takes `share` of the incumbent's time, with fifteen launches of ten blocks.
pub fn evidence(share: f64, words: &str) -> Evidence {
    let side = |code: &str| Side {
        revision: format!("rev {words}"),
        name: words.to_owned(),
        object: "00".to_owned(),
        code: code.to_owned(),
        compiler: format!("cc {words}"),
        flags: vec!["-O3".to_owned(), words.to_owned()],
        knobs: BTreeMap::new(),
        audit: None,
        prepares: false,
    };
    let case = |name: &str| CaseInfo {
        name: format!("{name}{words}"),
        cost: Cost { bytes_read: 1e6, bytes_written: 1e6, flops: 5e6 },
        places: 8,
        contents: 100,
        routing: None,
    };
    let mut made = Evidence {
        format: 1,
        tool: "0".to_owned(),
        kernel: format!("softmax-cpu{words}"),
        op: "softmax".to_owned(),
        backend: Backend::Cpu,
        class: Class::Native,
        started: "2026-11-15 05:01".to_owned(),
        seconds: 30.0,
        incumbent: side("00"),
        candidate: side("01"),
        machine: Machine { processor: words.to_owned(), cores: 2, ..Machine::default() },
        terms: gate::terms("default", None, false).unwrap(),
        seed: "5eed".to_owned(),
        injected: Vec::new(),
        without: Vec::new(),
        identical: false,
        arrangement: Some(Arrangement {
            device: format!("Some Core 9{words}"),
            huge_pages: true,
            sandbox: Sandbox::default(),
            cases: SHAPES.map(case).to_vec(),
        }),
        left_out: Vec::new(),
        trials: 9,
        ceilings: Some(Ceilings {
            device: "Some Core 9".to_owned(),
            measured: "2026-11-15 05:00".to_owned(),
            copy_bytes_per_s: 2e10,
            read_bytes_per_s: None,
            write_bytes_per_s: None,
            fma_flops_per_s: Some(1e11),
        }),
        stages: vec![stage(StageKind::Screen, 6, share, words), stage(StageKind::Confirmation, 9, share, words)],
        trace: Vec::new(),
        forfeit: None,
        called_off: None,
        verdict: gate::placeholder(),
    };
    made.verdict = gate::verdict(&made);
    made
}

fn stage(kind: StageKind, launches: usize, share: f64, words: &str) -> Stage {
    let launch = |number: usize| {
        let case = |at: usize| {
            let block = |index: usize| {
                let noise = 1.0 + 0.004 * ((number * 7 + at * 3 + index * 5) % 11) as f64;
                let times = [1e6, 1e6 * share * noise, 1e6 * (2.0 - noise).max(0.9)].map(|time| [time as u64; 2]);
                BlockRecord {
                    order: vec![0, 1, 2],
                    device_ns: times.to_vec(),
                    wall_ns: times.to_vec(),
                    cpu_ns: times.to_vec(),
                }
            };
            CaseRecord {
                case: format!("{}{words}", SHAPES[at]),
                warmed_up: vec![0, 1, 2],
                calls: 10,
                ladder: Vec::new(),
                blocks: (0..10).map(block).collect(),
                throttled: 0,
                stood_still: 0,
                megahertz: None,
                checked: 2,
            }
        };
        LaunchRecord {
            seed: format!("{number:x}"),
            started: vec![0, 1, 2],
            ended: vec![0, 1, 2],
            outputs: vec![0, 1, 2],
            processor: Some(1),
            wall_s: 0.1,
            idle_s: vec![0.0; 3],
            cases: (0..SHAPES.len()).map(case).collect(),
        }
    };
    Stage { kind, launches: (0..launches).map(launch).collect() }
}

/// A campaign that is being told.
#[derive(Default)]
pub struct Told {
    pub state: State,
    pub evidence: BTreeMap<u32, Filed>,
    /// Evidence by share and words: to judge it a hundred times takes a minute.
    judged: BTreeMap<(u64, String), Evidence>,
}

impl Told {
    fn tell(&mut self, event: Event) {
        let entry = self.state.entry("2026-11-15 05:01:00", 60.0 * self.state.next_number as f64, event);
        self.state.apply(&entry).unwrap();
    }

    /// As far as the baseline.
    pub fn begun() -> Self {
        let mut told = Self::default();
        let word = |text: &str| text.to_owned();
        told.tell(Event::Began(Began {
            campaign: word("softmax_cpu"),
            kernel: word("softmax-cpu"),
            base: word("ba5e"),
            target: word("00"),
            certificate: None,
            tool: word("0"),
        }));
        told.tell(Event::Prepared(Prepared { judge: word("00") }));
        told.tell(Event::TipsRead(TipsRead { entries: Vec::new(), own: 0 }));
        let shapes = times(1.0, "");
        told.tell(Event::Baseline(Baseline {
            evidence: word("01"),
            trials: 9,
            shapes,
            launch_sigma: 0.01,
            launch_s: 0.5,
        }));
        told.file(1, evidence(1.0, ""));
        told
    }

    fn file(&mut self, round: u32, evidence: Evidence) {
        let file = format!(".kopt/campaigns/softmax_cpu/rounds/round-{round}/evidence.json");
        self.evidence.insert(round, Filed { file, digest: "ab".repeat(32), evidence: Ok(evidence) });
    }

    /// A round: every seventh does not compile, every third of the others is accepted. `words` are its author's.
    pub fn round(&mut self, words: &str) {
        let round = self.state.next_round();
        let (incumbent, rollbacks) = (self.state.incumbent().to_owned(), self.state.rollbacks_in_a_row());
        self.tell(Event::RoundBegan(RoundBegan { round, incumbent, proposer: words.to_owned(), rollbacks }));
        self.tell(Event::Proposed(Proposed {
            round,
            attempt: 1,
            proposer: words.to_owned(),
            proposal: Proposal {
                title: format!("Change {round} {words}"),
                hypothesis: format!("Because of this. {words}"),
                category: None,
                bucket: None,
                expected_gain: Some(words.to_owned()),
                different: Some(words.to_owned()),
                next: Some(words.to_owned()),
                source: Some(format!("{words}.patch")),
            },
            candidate: "ca".repeat(20),
            files: vec![words.to_owned()],
            lines: [3, 1],
            seconds: 1.5,
            usage: None,
        }));
        if round.is_multiple_of(7) {
            let message = format!("error: expected `;` {words}");
            self.tell(Event::Refused(Refused {
                round,
                attempt: 1,
                reason: Reason::Build,
                message: message.clone(),
                seconds: 0.5,
                usage: None,
                source: None,
                proposal: None,
            }));
            self.tell(Event::RolledBack(RolledBack { round, reason: Reason::Build, message }));
        } else if round.is_multiple_of(3) {
            self.measured(round, 0.97, Ruling::Accepted, words);
        } else {
            self.measured(round, 1.02, Ruling::RolledBack, words);
        }
        self.tell(Event::Learned(Learned { round, tip: Some(format!("What round {round} taught {words}")) }));
    }

    fn measured(&mut self, round: u32, share: f64, ruling: Ruling, words: &str) {
        let key = (share.to_bits(), words.to_owned());
        let found = self.judged.entry(key).or_insert_with(|| evidence(share, words)).clone();
        let gain = found.verdict.aggregate.unwrap();
        self.tell(Event::Measured(Measured {
            round,
            attempt: 1,
            level: Level::Full,
            evidence: "ab".repeat(32),
            ruling,
            reasons: vec![format!("so it is {words}")],
            aggregate: Some(gain),
            shapes: times(share, words),
            false_accept: 0.0004,
            seconds: 30.0,
        }));
        self.file(round, found);
        self.tell(match ruling {
            Ruling::Accepted => {
                Event::Accepted(Accepted { round, commit: format!("c{round}"), ruling, gain, bucket: Bucket::K1 })
            }
            _ => {
                Event::RolledBack(RolledBack { round, reason: Reason::Slower, message: format!("not faster {words}") })
            }
        });
    }

    /// Ends it, with a total of that gain.
    pub fn over(&mut self, total: Option<Estimate>) {
        self.tell(Event::Ended(Ended { termination: Termination::NothingProposed }));
        self.tell(Event::Reported(Reported { evidence: None, total, shapes: times(0.9, "") }));
    }
}

fn times(share: f64, words: &str) -> Vec<ShapeTime> {
    let time = |shape: &str| ShapeTime {
        shape: format!("{shape}{words}"),
        seconds: 1e-4 * share,
        ceiling_share: Some(0.4 / share),
    };
    SHAPES.map(time).to_vec()
}
