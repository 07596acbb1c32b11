//! The records of a campaign, on disk and in git. The truth is `events.jsonl`: everything here can be written again.

use kopt_schema::campaign::event::{Reason, ShapeTime};
use kopt_schema::campaign::target::Metric;
use kopt_schema::evidence::{Estimate, Evidence};

use super::told::of_chain;
use super::{Campaign, bouts, bug, folder};
use crate::error::Result;
use crate::experience::KnownTip;
use crate::ledger::{self, Outcome, Round};
use crate::machine::Moment;
use crate::records::report_data::{
    AppliedRound, Cost, FORMAT, Remaining, Report, RolledBackRound, ShapeTotal, TargetSummary, Total,
};
use crate::records::{
    self, AuditRow, Best, Contribution, Decision, Finale, Grounds, HistoryRow, Ineffective, LogFacts, OpenDirection,
    Pace, Quantity, RoundFacts, TransferFacts, TrendRow,
};

/// What is stored of a round.
const FILES: [&str; 6] =
    ["summary.md", "proposal.toml", "candidate.diff", "evidence.json", "evidence-quick.json", "training.json"];

impl Campaign<'_> {
    /// `summary.md` of a round. One that lacks a section is a bug, and stops the campaign.
    pub(super) fn write_summary(&self, facts: &RoundFacts) -> Result<()> {
        let text = records::summary(facts);
        let missing = records::validate_summary(&text, facts.decision.is_rollback());
        if !missing.is_empty() {
            return Err(bug("a summary that lacks something").cause(missing.join("; ")));
        }
        folder::write(&self.folder.round(facts.round).join("summary.md"), text.as_bytes())
    }

    /// The files of round 1.
    pub(super) fn write_baseline(&self, found: &Evidence) -> Result<()> {
        let Some(baseline) = self.state().baseline.clone() else { return Ok(()) };
        let facts = RoundFacts {
            target: self.target.clone(),
            round: 1,
            at: Moment::now().minute(),
            toolchain: found.candidate.compiler.clone(),
            proposer: "the crate as it is".to_owned(),
            proposal: None,
            files: Vec::new(),
            lines: [0, 0],
            refused: Vec::new(),
            measurements: vec![records::Measurement::of(
                kopt_schema::campaign::event::Level::Full,
                found,
                &baseline.evidence,
            )],
            versus_baseline: None,
            decision: Decision::Baseline(baseline),
            transfer: TransferFacts {
                state_audit: found.candidate.audit.as_ref().map(crate::audit::words::line),
                training_step: self.state().trained(Some(1)).cloned(),
                ..TransferFacts::default()
            },
            root_cause: None,
            rollbacks: 0,
            directions: Vec::new(),
        };
        self.write_summary(&facts)?;
        self.write_logs()?;
        self.store_round(1)
    }

    /// `logs/`, written whole.
    pub(super) fn write_logs(&self) -> Result<()> {
        folder::write(&self.folder.log("performance_trend.md"), records::trend(&self.trend()).as_bytes())?;
        folder::write(&self.folder.log("optimize.md"), records::log(&self.log()).as_bytes())
    }

    fn trend(&self) -> Vec<TrendRow> {
        let state = self.state();
        let Some(baseline) = &state.baseline else { return Vec::new() };
        let mut rows = vec![TrendRow {
            round: 1,
            status: "BASELINE".to_owned(),
            description: "the crate as it is".to_owned(),
            forward: self.pace(&baseline.shapes),
            backward: None,
            combined: None,
            versus_baseline: None,
            finding: format!("noise {:.2} % a launch", 100.0 * baseline.launch_sigma),
        }];
        let mut chain: Vec<Estimate> = Vec::new();
        for round in state.rounds.iter().filter(|round| round.outcome.is_some()) {
            chain.extend(round.accepted().map(|accepted| accepted.gain));
            rows.push(TrendRow {
                round: round.number,
                status: round.name(),
                description: title(round),
                forward: round.verdict().and_then(|measured| self.pace(&measured.shapes)),
                backward: None,
                combined: None,
                versus_baseline: ledger::chain(&chain).map(of_chain),
                finding: finding(round),
            });
        }
        rows
    }

    /// Times are of a whole call: all entries of the op together.
    fn pace(&self, times: &[ShapeTime]) -> Option<Pace> {
        let seconds: Vec<f64> = times.iter().map(|time| time.seconds).filter(|seconds| *seconds > 0.0).collect();
        if seconds.is_empty() {
            return None;
        }
        let shares: Option<Vec<f64>> = times.iter().map(|time| time.ceiling_share).collect();
        let mean = |values: &[f64]| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp();
        match (self.target.primary_metric, shares) {
            (Metric::TeraFlops | Metric::GigaBytes, Some(shares)) => Some(Pace {
                average: Quantity::CeilingShare(mean(&shares)),
                peak: Quantity::CeilingShare(shares.iter().copied().fold(0.0, f64::max)),
            }),
            _ => Some(Pace {
                average: Quantity::Seconds(mean(&seconds)),
                peak: Quantity::Seconds(seconds.iter().copied().fold(f64::INFINITY, f64::min)),
            }),
        }
    }

    fn log(&self) -> LogFacts {
        let state = self.state();
        let decided = || state.rounds.iter().filter(|round| round.outcome.is_some());
        let best = state.last_accepted().and_then(|round| {
            Some(Best {
                round: round.number,
                commit: round.accepted()?.commit.clone(),
                chain: of_chain(state.chain_gain()?),
                shapes: state.latest_times().to_vec(),
            })
        });
        let open = |direction: &ledger::DirectionState| OpenDirection {
            title: direction.category.name().to_owned(),
            category: Some(direction.category),
            source: if direction.untried { "untried".to_owned() } else { format!("tried {} times", direction.tried) },
            known_gain: direction.best_gain,
        };
        let ineffective = |round: &Round| {
            let rolled_back = round.rolled_back()?;
            Some(Ineffective {
                round: round.number,
                title: title(round),
                reason: rolled_back.reason,
                gain: round.verdict().and_then(|measured| measured.aggregate),
            })
        };
        let teaches = |round: &&Round| {
            let reasons = [Reason::Slower, Reason::Incorrect, Reason::Integrity, Reason::Overfit, Reason::NoChange];
            round.rolled_back().is_some_and(|rolled_back| reasons.contains(&rolled_back.reason))
        };
        LogFacts {
            target: self.target.clone(),
            baseline: state.baseline.clone(),
            history: decided().map(history).collect(),
            best,
            directions: ledger::directions(state).iter().map(open).collect(),
            ineffective: decided().filter(teaches).filter_map(ineffective).collect(),
            elapsed_s: self.journal.elapsed_s(),
            termination: state.ended.as_ref().map(|ended| ended.termination),
            finale: state.reported.as_ref().map(|reported| Finale {
                total: reported.total,
                attribution: self.attribution(reported.total),
                audit: self.audit(),
            }),
        }
    }

    fn audit(&self) -> Vec<AuditRow> {
        let rounds = self.state().accepted();
        let row =
            |round: &Round| Some(AuditRow { round: round.number, transfer: self.decided(round.number).ok()?.transfer });
        rounds.filter_map(row).collect()
    }

    /// Which share of the gain is real, by the buckets of the accepted rounds. As long as buckets are only claimed there is
    /// nothing to attribute.
    fn attribution(&self, total: Option<Estimate>) -> Option<records::Attribution> {
        let established = |round: &Round| {
            let transfer = self.decided(round.number).ok()?.transfer;
            let bucket = transfer.bucket.filter(|finding| finding.grounds != Grounds::Claimed)?;
            let prepare_share = transfer.prepare_share;
            Some(Contribution {
                prepare_share,
                ..Contribution::of(round.number, bucket.bucket, &round.accepted()?.gain)
            })
        };
        let rounds: Option<Vec<Contribution>> = self.state().accepted().map(established).collect();
        let rounds = rounds.filter(|rounds| !rounds.is_empty())?;
        Some(records::Attribution::of(&rounds, &total?))
    }

    /// `report.json`. `unmeasured` says why the end could not be held against the beginning, where that was tried.
    pub(super) fn whole_report(
        &self,
        found: Option<&(String, Evidence)>,
        unmeasured: Option<String>,
    ) -> Result<Report> {
        let state = self.state();
        let target = &self.target;
        let ended = state.ended.as_ref().ok_or_else(|| bug("a report before the end"))?;
        let of_measured =
            |found: &&(String, Evidence)| found.1.verdict.ruling.is_measured() && found.1.forfeit.is_none();
        let without_verdict = found.filter(|found| !of_measured(found)).map(|(_, evidence)| {
            let verdict = &evidence.verdict;
            format!("{}: {}", verdict.ruling.name(), verdict.reasons.join("; "))
        });
        let total = found.filter(of_measured).and_then(|(digest, evidence)| {
            let (before, after) = (bouts::times(evidence, false), bouts::times(evidence, true));
            let share = |times: &[ShapeTime], shape: &str| times.iter().find(|time| time.shape == shape)?.ceiling_share;
            let shape = |shape: &kopt_schema::evidence::ShapeVerdict| ShapeTotal {
                shape: shape.shape.clone(),
                before_s: shape.incumbent_s,
                after_s: shape.candidate_s,
                gain: shape.estimate,
                direction: shape.direction,
                ceiling_before: share(&before, &shape.shape),
                ceiling_after: share(&after, &shape.shape),
            };
            Some(Total {
                gain: evidence.verdict.aggregate?,
                shapes: evidence.verdict.shapes.iter().map(shape).collect(),
                evidence: digest.clone(),
                evidence_file: "evidence-total.json".to_owned(),
            })
        });
        let directions = ledger::directions(state);
        let untried = directions.iter().filter(|direction| direction.untried);
        let spent = state.spent();
        let proposed = |round: &Round| {
            round
                .attempts
                .iter()
                .map(|attempt| {
                    attempt.proposed.as_ref().map_or(0.0, |proposed| proposed.seconds)
                        + attempt.refused.as_ref().map_or(0.0, |refused| refused.seconds)
                })
                .sum::<f64>()
        };
        Ok(Report {
            format: FORMAT,
            target: TargetSummary {
                campaign: target.campaign.clone(),
                kernel: target.kernel.clone(),
                op: target.target_op.clone(),
                backend: target.target_backend,
                language: target.target_lang,
                device: target.target_device.clone(),
                policy: target.policy.clone(),
                min_gain: target.min_gain,
                base: target.base.clone(),
                head: state.last_accepted().map(|_| state.incumbent().to_owned()),
                began: target.created.clone(),
                reported: Moment::now().minute(),
            },
            attribution: self.attribution(total.as_ref().map(|total| total.gain)),
            total,
            unmeasured: unmeasured.or(without_verdict),
            training: self.training_summary(),
            chain: state.chain_gain().map(of_chain),
            applied: state.accepted().filter_map(|round| self.applied(round)).collect(),
            rolled_back: state.rounds.iter().filter_map(rolled_back).collect(),
            false_accept: state.false_accept_bound(),
            remaining: Remaining {
                directions: untried.map(|direction| direction.category.name().to_owned()).collect(),
                tips: self.untried_tips()?,
            },
            cost: Cost {
                seconds: self.journal.elapsed_s(),
                proposing_s: state.rounds.iter().map(proposed).sum(),
                input_tokens: spent.input_tokens,
                output_tokens: spent.output_tokens,
                dollars: spent.cost_usd,
            },
            termination: ended.termination,
        })
    }

    fn applied(&self, round: &Round) -> Option<AppliedRound> {
        let accepted = round.accepted()?;
        let finding = self.decided(round.number).ok()?.transfer.bucket;
        Some(AppliedRound {
            round: round.number,
            title: title(round),
            proposer: round.proposer.clone(),
            commit: accepted.commit.clone(),
            ruling: accepted.ruling,
            gain: accepted.gain,
            bucket: finding.map(|finding| finding.bucket),
            grounds: finding.map(|finding| finding.grounds),
            evidence: round.full()?.evidence.clone(),
        })
    }

    /// Techniques that apply here, that were not learned from a patch of a round, and whose words no round took up.
    fn untried_tips(&self) -> Result<Vec<String>> {
        let tips = self.known()?.into_iter().filter(|tip| tip.kind == kopt_knowledge::Kind::Technique);
        let titles: Vec<String> = self.state().rounds.iter().map(|round| title(round).to_lowercase()).collect();
        let patches: Vec<String> = self
            .state()
            .rounds
            .iter()
            .filter_map(|round| Some(format!("/{}/patches/{}", self.target.kernel, round.said()?.source.as_ref()?)))
            .collect();
        let taken = |tip: &KnownTip| {
            let title = tip.title.to_lowercase();
            let words: Vec<&str> = title.split_whitespace().filter(|word| word.len() > 4).collect();
            let in_words =
                |title: &String| words.iter().filter(|word| title.contains(**word)).count() * 2 > words.len();
            titles.iter().any(in_words)
                || tip.sources.iter().any(|source| patches.iter().any(|patch| source.ends_with(patch)))
        };
        Ok(tips.filter(|tip| !taken(tip)).map(|tip| tip.title).collect())
    }

    /// The files of a round and the events so far, under the campaign's references.
    pub(super) fn store_round(&self, number: u32) -> Result<()> {
        let folder = self.folder.round(number);
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for name in FILES {
            if let Ok(bytes) = std::fs::read(folder.join(name)) {
                files.push((format!("round-{number}/{name}"), bytes));
            }
        }
        self.store(files, &format!("round {number}"))
    }

    /// The report and the last events, and what is missing of rounds: a process that was killed, or somebody who removed
    /// the reference, may have left it so. What is there stays: a file on disk may have been changed since.
    pub(super) fn store_end(&self) -> Result<()> {
        let mut files = Vec::new();
        for round in 1..self.state().next_round() {
            for name in FILES {
                let path = format!("round-{round}/{name}");
                if let Ok(bytes) = std::fs::read(self.folder.round(round).join(name))
                    && self.lineage.stored(&path)?.is_none()
                {
                    files.push((path, bytes));
                }
            }
        }
        for name in ["report.md", "report.json", "evidence-total.json", "training-total.json"] {
            if let Ok(bytes) = std::fs::read(self.folder.path.join(name)) {
                files.push((name.to_owned(), bytes));
            }
        }
        self.store(files, "report")
    }

    fn store(&self, mut files: Vec<(String, Vec<u8>)>, what: &str) -> Result<()> {
        let own = [("manifest.toml", self.folder.manifest()), ("events.jsonl", self.folder.events())];
        let logs = ["optimize.md", "performance_trend.md"].map(|name| (name, self.folder.log(name)));
        for (name, path) in own.into_iter().chain(logs) {
            if let Ok(bytes) = std::fs::read(path) {
                files.push((name.to_owned(), bytes));
            }
        }
        self.lineage.store(&files, &format!("{}: {what}", self.target.campaign)).map(drop)
    }
}

fn title(round: &Round) -> String {
    match (round.said(), round.attempts.last().and_then(|attempt| attempt.refused.as_ref())) {
        (Some(proposal), _) => proposal.title.clone(),
        (None, Some(refused)) => refused.source.clone().unwrap_or_else(|| "nothing was handed in".to_owned()),
        (None, None) => "nothing was handed in".to_owned(),
    }
}

fn finding(round: &Round) -> String {
    match &round.outcome {
        Some(Outcome::RolledBack(rolled_back)) => rolled_back.message.lines().next().unwrap_or_default().to_owned(),
        Some(Outcome::Accepted(_)) => {
            round.learned.as_ref().and_then(|learned| learned.tip.clone()).unwrap_or_else(|| title(round))
        }
        None => String::new(),
    }
}

fn history(round: &Round) -> HistoryRow {
    // Without the seconds.
    let at = round.ended_at.as_deref().map(|at| at.get(..16).unwrap_or(at).to_owned());
    HistoryRow {
        round: round.number,
        at: at.unwrap_or_default(),
        status: round.name(),
        title: title(round),
        proposer: round.proposer.clone(),
        gain: round.accepted().map(|accepted| accepted.gain).or_else(|| round.verdict()?.aggregate),
    }
}

fn rolled_back(round: &Round) -> Option<RolledBackRound> {
    let rolled_back = round.rolled_back()?;
    Some(RolledBackRound {
        round: round.number,
        title: title(round),
        proposer: round.proposer.clone(),
        reason: rolled_back.reason,
        message: rolled_back.message.clone(),
        gain: round.verdict().and_then(|measured| measured.aggregate),
    })
}
