//! Campaigns made by hand and at random, and what must follow from them.

mod lines;
mod random;
mod rules;
mod similar;
mod state;
mod target;
mod trained;

use kopt_schema::campaign::event::{
    Accepted, Baseline, Began, Learned, Level, Measured, Prepared, Proposed, Reason, Refused, RolledBack, RoundBegan,
    ShapeTime, TipsRead,
};
use kopt_schema::campaign::target::{ExecutionMode, Metric, Source};
use kopt_schema::campaign::{Bucket, Category, Entry, Event, Proposal, Target};
use kopt_schema::evidence::{Estimate, Ruling};
use kopt_schema::manifest::{Backend, Language};

use super::State;

/// A campaign that is being told.
#[derive(Default, Clone)]
struct Story {
    state: State,
    entries: Vec<Entry>,
}

impl Story {
    /// As far as the baseline.
    fn measured() -> Self {
        let mut story = Self::default();
        for event in [began(), prepared(), tips_read(), baseline()] {
            story.tell(event);
        }
        story
    }

    /// Tells what must be possible.
    fn tell(&mut self, event: Event) -> &mut Self {
        let entry = self.entry(event);
        self.state.apply(&entry).unwrap();
        self.entries.push(entry);
        self
    }

    /// Tells what may be impossible; nothing has changed then.
    fn try_to(&mut self, event: Event) -> Result<(), String> {
        let before = self.state.clone();
        let entry = self.entry(event);
        let result = self.state.apply(&entry);
        match &result {
            Ok(()) => self.entries.push(entry),
            Err(_) => assert_eq!(self.state, before),
        }
        result
    }

    fn entry(&self, event: Event) -> Entry {
        self.state.entry("2000-01-01 00:00:00", self.entries.len() as f64, event)
    }

    /// Begins the next round.
    fn begin(&mut self) -> u32 {
        let round = self.state.next_round();
        let event = self.round_began(round);
        self.tell(event);
        round
    }

    fn round_began(&self, round: u32) -> Event {
        let (incumbent, rollbacks) = (self.state.incumbent().to_owned(), self.state.rollbacks_in_a_row());
        Event::RoundBegan(RoundBegan { round, incumbent, proposer: "by hand".to_owned(), rollbacks })
    }

    /// A whole round that is accepted.
    fn accept(&mut self, category: Option<Category>, gain: f64) -> &mut Self {
        let round = self.begin();
        let proposal = Proposal { category, ..proposal(&format!("change {round}"), "") };
        self.tell(proposed(round, 1, proposal)).tell(measured(round, 1, Level::Full, Ruling::Accepted));
        self.tell(accepted(round, estimate(gain))).tell(learned(round))
    }

    /// A whole round that is rolled back after it was measured.
    fn roll_back(&mut self, reason: Reason, proposal: Proposal) -> &mut Self {
        let round = self.begin();
        self.tell(proposed(round, 1, proposal)).tell(measured(round, 1, Level::Full, Ruling::RolledBack));
        self.tell(rolled_back(round, reason)).tell(learned(round))
    }
}

fn began() -> Event {
    Event::Began(Began {
        campaign: "softmax_cpu".to_owned(),
        kernel: "softmax-cpu".to_owned(),
        base: "base".to_owned(),
        target: "00".to_owned(),
        tool: "0".to_owned(),
        certificate: None,
    })
}

fn prepared() -> Event {
    Event::Prepared(Prepared { judge: "00".to_owned() })
}

fn tips_read() -> Event {
    Event::TipsRead(TipsRead { entries: vec!["cpu/tiling".to_owned()], own: 0 })
}

fn baseline() -> Event {
    let shapes = vec![time("small", 2e-6, Some(0.5)), time("large", 8e-6, Some(0.5))];
    Event::Baseline(Baseline { evidence: "01".to_owned(), trials: 9, shapes, launch_sigma: 0.01, launch_s: 0.5 })
}

fn time(shape: &str, seconds: f64, ceiling_share: Option<f64>) -> ShapeTime {
    ShapeTime { shape: shape.to_owned(), seconds, ceiling_share }
}

fn proposal(title: &str, hypothesis: &str) -> Proposal {
    Proposal {
        title: title.to_owned(),
        hypothesis: hypothesis.to_owned(),
        category: None,
        bucket: None,
        expected_gain: None,
        different: None,
        next: None,
        source: None,
    }
}

fn proposed(round: u32, attempt: u32, proposal: Proposal) -> Event {
    Event::Proposed(Proposed {
        round,
        attempt,
        proposer: "by hand".to_owned(),
        proposal,
        candidate: format!("candidate-{round}-{attempt}"),
        files: vec!["kernels/softmax.c".to_owned()],
        lines: [3, 1],
        seconds: 1.5,
        usage: None,
    })
}

fn refused(round: u32, attempt: u32, reason: Reason) -> Event {
    let message = "error: expected `;`".to_owned();
    Event::Refused(Refused { round, attempt, reason, message, seconds: 0.5, usage: None, source: None, proposal: None })
}

fn measured(round: u32, attempt: u32, level: Level, ruling: Ruling) -> Event {
    Event::Measured(Measured {
        round,
        attempt,
        level,
        evidence: "02".to_owned(),
        ruling,
        reasons: vec!["so it is".to_owned()],
        aggregate: Some(estimate(0.1)),
        shapes: vec![time("small", 1e-6, Some(0.64)), time("large", 4e-6, Some(0.64))],
        false_accept: 0.015625,
        seconds: 30.0,
    })
}

fn accepted(round: u32, gain: Estimate) -> Event {
    let commit = format!("commit-{round}");
    Event::Accepted(Accepted { round, commit, ruling: Ruling::Accepted, gain, bucket: Bucket::K1 })
}

fn rolled_back(round: u32, reason: Reason) -> Event {
    Event::RolledBack(RolledBack { round, reason, message: "so it is".to_owned() })
}

fn learned(round: u32) -> Event {
    Event::Learned(Learned { round, tip: None })
}

/// A gain with an interval of 1 % each way, at 95 %, from 13 launches.
fn estimate(gain: f64) -> Estimate {
    let (low, high) = ((1.0 + gain) / 1.01 - 1.0, (1.0 + gain) * 1.01 - 1.0);
    Estimate { gain, low, high, confidence: 0.95, launch_sigma: 0.0165, launches: 13 }
}

fn target() -> Target {
    Target {
        format: 1,
        campaign: "softmax_cpu".to_owned(),
        created: "2000-01-01 00:00".to_owned(),
        kernel: "softmax-cpu".to_owned(),
        target_op: "softmax".to_owned(),
        target_backend: Backend::Cpu,
        target_lang: Language::C,
        target_device: "a processor".to_owned(),
        target_shapes: vec!["small".to_owned(), "large".to_owned()],
        representative_shapes: vec!["small".to_owned()],
        core_shapes: Vec::new(),
        primary_metric: Metric::Latency,
        performance_target: None,
        kernel_sources: vec!["kernels/softmax.c".to_owned()],
        test_command: "cargo test".to_owned(),
        benchmark_command: "cargo bench".to_owned(),
        quick_command: "cargo bench small".to_owned(),
        execution_mode: ExecutionMode::Worktree,
        git_commit: true,
        git_branch: Some("kopt/softmax_cpu".to_owned()),
        base: "base".to_owned(),
        max_rounds: 50,
        max_time_s: 3600.0,
        round_time_s: 600.0,
        max_cost_usd: None,
        min_gain: 0.01,
        policy: "default".to_owned(),
        roofline_share: 0.95,
        instruction: None,
        proposers: vec![Source::Hand],
    }
}
