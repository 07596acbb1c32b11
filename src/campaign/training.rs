//! The training step in a campaign: the baseline against itself, under policy `training` each version that is about to be
//! accepted, and the end against the beginning. Only for crates that declare a slot or a script; of others it is said that
//! they do not. What was trained is an event, and is not trained again by whoever takes the campaign up.
//!
//! Both versions are compiled from git in a folder of their own, as before every accept, and the trainer is built from the
//! campaign's base, as the judge is.

use kopt_schema::campaign::trained::Trained;
use kopt_schema::campaign::{Event, Training};
use kopt_schema::exit::Exit;
use kopt_schema::manifest::TransferSettings;
use kopt_schema::training::TrainingStep;
use kopt_stats::Policy;

use super::anew::Anew;
use super::{Campaign, folder};
use crate::error::{Error, Result};
use crate::records::report_data::TrainingSummary;
use crate::records::{EstimatedGain, TransferFacts};
use crate::referee::seeds::Master;
use crate::referee::trusted;
use crate::revision::{Revision, Revisions};
use crate::transfer::trainer::Trainer;
use crate::transfer::{self, Contest, Outcome, Terms};

/// Launches of the baseline against itself: it is only asked what a step takes, what of it the op does, and whether it trains.
const BASELINE_LAUNCHES: usize = 2;
/// Their steps: losses of one version against itself are compared in passing.
const BASELINE_STEPS: usize = 24;
/// Seconds after which the end against the beginning, and a candidate against the version that stands, begin no further
/// launch.
const REPORT_S: f64 = 20.0;
const ACCEPT_S: f64 = 40.0;

/// A trainer, in a place where no build replaces it.
pub(super) struct KeptTrainer {
    trainer: Trainer,
    /// SHA-256 of its executable.
    digest: String,
}

/// What is trained, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Baseline,
    Round(u32),
    Report,
}

impl Occasion {
    const fn round(self) -> Option<u32> {
        match self {
            Self::Baseline => Some(1),
            Self::Round(round) => Some(round),
            Self::Report => None,
        }
    }

    fn terms(self) -> Terms {
        let usual = Terms::default();
        match self {
            Self::Baseline => {
                Terms { launches: (BASELINE_LAUNCHES, BASELINE_LAUNCHES), steps: BASELINE_STEPS, ..usual }
            }
            Self::Round(_) => Terms { max_time_s: ACCEPT_S, ..usual },
            Self::Report => Terms { max_time_s: REPORT_S, ..usual },
        }
    }
}

impl Campaign<'_> {
    /// BASELINE: whether it trains at all, what a step takes, and the op's share of it.
    pub(super) fn train_baseline(&mut self) -> Result<()> {
        let base = self.target.base.clone();
        if let Err(error) = self.trained(Occasion::Baseline, [&base, &base], None) {
            self.go_on()?;
            if self.accepts_by_training() {
                return Err(error.hint(format!(
                    "policy `training` needs a training step that the version at the start gets through; `cargo kopt \
                     train-step -p {}` shows what is wrong",
                    self.target.kernel
                )));
            }
            // The verdicts do not rest on it.
            self.not_measured(Occasion::Baseline, &error)?;
        }
        Ok(())
    }

    /// A version that is about to be accepted; why it may not be, where it may not. Only policy `training` asks.
    pub(super) fn training_objects(&mut self, anew: &Anew, round: u32, candidate: &str) -> Result<Option<String>> {
        if !self.accepts_by_training() {
            return Ok(None);
        }
        let incumbent = self.state().incumbent().to_owned();
        let training = self.trained(Occasion::Round(round), [&incumbent, candidate], Some(anew))?;
        Ok(training.objection())
    }

    /// REPORT: the end against the beginning.
    pub(super) fn train_report(&mut self, [base, head]: [&str; 2]) -> Result<()> {
        if let Err(error) = self.trained(Occasion::Report, [base, head], None) {
            self.go_on()?;
            // Everything is decided: a report without it is better than none.
            self.not_measured(Occasion::Report, &error)?;
        }
        Ok(())
    }

    /// What training steps said at both ends.
    pub(super) fn training_summary(&self) -> Option<TrainingSummary> {
        let baseline = self.state().trained(Some(1))?.clone();
        Some(TrainingSummary { baseline, total: self.state().trained(None).cloned() })
    }

    /// What is known of a round's worth in training: what was measured, or why nothing was; and what follows from the op's
    /// share of the step at the baseline.
    pub(super) fn add_training(&self, round: u32, facts: &mut TransferFacts) {
        let state = self.state();
        let baseline = state.trained(Some(1));
        let not_measured = baseline.filter(|training| matches!(training, Training::NotMeasured { .. }));
        facts.training_step = state.trained(Some(round)).or(not_measured).cloned();
        let share = baseline.and_then(Training::figures).and_then(|figures| figures.predicted).map(|one| one.share);
        if let (Some(share), Some(gain)) = (share, facts.benchmark) {
            let before = state.accepted().filter(|accepted| accepted.number < round);
            let faster: f64 = before.filter_map(|round| round.accepted()).map(|one| 1.0 + one.gain.gain).product();
            // What was accepted before has made the op a smaller part of a shorter step.
            let now = share / faster / (1.0 - share + share / faster);
            let of_op = facts.estimated.take();
            let step = EstimatedGain::from_share(now, of_op.as_ref().map_or(gain.gain, |op| op.gain));
            let derivation = of_op.into_iter().map(|op| op.derivation);
            let derivation = std::iter::once(step.derivation).chain(derivation).collect::<Vec<_>>().join("; ");
            facts.estimated = Some(EstimatedGain { derivation, ..step });
        }
    }

    fn accepts_by_training(&self) -> bool {
        self.target.policy.parse() == Ok(Policy::Training)
    }

    fn not_measured(&mut self, occasion: Occasion, error: &Error) -> Result<()> {
        let failure = error.failure();
        let told = std::iter::once(failure.message.clone()).chain(failure.causes).collect::<Vec<_>>().join(": ");
        self.audience.shell().warn(&format!("no training step: {told}"));
        let training = Training::NotMeasured { why: failure.message };
        self.add(Event::Trained(Trained { round: occasion.round(), training }))
    }

    /// What the training step says, now or when it was run before.
    fn trained(&mut self, occasion: Occasion, versions: [&str; 2], anew: Option<&Anew>) -> Result<Training> {
        if let Some(training) = self.state().trained(occasion.round()) {
            return Ok(training.clone());
        }
        let training = self.train(occasion, versions, anew)?;
        self.go_on()?;
        self.add(Event::Trained(Trained { round: occasion.round(), training: training.clone() }))?;
        Ok(training)
    }

    fn train(&mut self, occasion: Occasion, versions: [&str; 2], anew: Option<&Anew>) -> Result<Training> {
        self.tools()?;
        let Some(tools) = self.tools.as_ref() else { return Err(super::bug("no judge was prepared")) };
        let kernel = tools.stand.kernel(&self.lineage, versions[1])?;
        if let Some(why) = transfer::why_not(kernel) {
            return Ok(Training::NotMeasured { why });
        }
        if matches!(kernel.manifest.transfer, Some(TransferSettings::Slot(_))) {
            self.make_trainer()?;
        }
        self.audience.doing(&match occasion {
            Occasion::Baseline => "the baseline in a training step".to_owned(),
            Occasion::Round(round) => format!("round {round}: training step"),
            Occasion::Report => "the end against the beginning in a training step".to_owned(),
        });
        let own;
        let anew = match anew {
            Some(anew) => anew,
            None => {
                own = self.anew()?;
                &own
            }
        };
        match self.contest(anew, occasion, versions)? {
            Outcome::Lost(why) => Ok(Training::Lost { why }),
            Outcome::Taken(step) => Ok(Training::of(&step, self.keep(occasion, &step)?)),
        }
    }

    fn contest(&mut self, anew: &Anew, occasion: Occasion, versions: [&str; 2]) -> Result<Outcome> {
        let (kernel, [incumbent, candidate]) = anew.both(&self.lineage, versions)?;
        let terms = occasion.terms();
        let seed = Master::secret()?;
        let contest = Contest { kernel, incumbent: &incumbent.file, candidate: &candidate.file, seed, terms };
        // Others wait as they do for a match: each would disturb the other.
        let _lock = trusted::lock(self.audience.shell(), &self.own)?;
        let (context, interrupts) = (self.context, self.interrupts);
        match (&kernel.manifest.transfer, self.tools.as_ref().and_then(|tools| tools.trainer.as_ref())) {
            (Some(TransferSettings::Script(script)), _) => {
                transfer::with_script(context, interrupts, script, &contest, &mut |_| {})
            }
            (_, Some(kept)) => {
                kept.is_unchanged()?;
                transfer::with_trainer(context, interrupts, &kept.trainer, &contest, &mut |_| {})
            }
            (_, None) => Err(super::bug("no trainer was built")),
        }
    }

    /// Builds the trainer from the base, once a process.
    fn make_trainer(&mut self) -> Result<()> {
        if self.tools.as_ref().is_some_and(|tools| tools.trainer.is_some()) {
            return Ok(());
        }
        self.audience.doing("building the trainer");
        let base = Revision { name: "the campaign's base".to_owned(), commit: self.target.base.clone() };
        let export = Revisions::around(&self.root, &self.own.join("revisions"))?.export(&base)?;
        let (context, kernel) = (self.context, &self.target.kernel);
        let built = Trainer::of_base(context, self.audience.shell(), &export, kernel, &self.own, &self.root)?;
        let kept = KeptTrainer::of(&built, &self.own.join("campaigns").join(&self.target.campaign))?;
        if let Some(tools) = self.tools.as_mut() {
            tools.trainer = Some(kept);
        }
        Ok(())
    }

    /// Keeps everything that was told in `training.json`; its SHA-256.
    fn keep(&self, occasion: Occasion, step: &TrainingStep) -> Result<String> {
        let path = match occasion.round() {
            Some(round) => self.folder.round(round).join("training.json"),
            None => self.folder.path.join("training-total.json"),
        };
        let text =
            serde_json::to_vec_pretty(step).map_err(|error| super::bug("a training step as JSON").because(&error))?;
        folder::write(&path, &text)?;
        Ok(folder::digest(&text))
    }
}

impl KeptTrainer {
    fn of(built: &Trainer, place: &camino::Utf8Path) -> Result<Self> {
        let bytes = std::fs::read(&built.program)
            .map_err(|error| Error::setup(format!("cannot read the trainer `{}`", built.program)).because(&error))?;
        let program = place.join("trainer");
        let failed =
            |error: &std::io::Error| Error::new(Exit::Output, format!("cannot write `{program}`")).because(error);
        // Removed first: one of a process that was killed may still run, and a busy file cannot be written.
        let _ = std::fs::remove_file(&program);
        std::fs::create_dir_all(place)
            .and_then(|()| std::fs::write(&program, &bytes))
            .and_then(|()| std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)))
            .map_err(|error| failed(&error))?;
        Ok(Self { trainer: Trainer { program, ..built.clone() }, digest: folder::digest(&bytes) })
    }

    /// Its file lies where an agent can write.
    fn is_unchanged(&self) -> Result<()> {
        let program = &self.trainer.program;
        let bytes = std::fs::read(program)
            .map_err(|error| Error::setup(format!("cannot read the trainer `{program}`")).because(&error))?;
        if folder::digest(&bytes) == self.digest {
            return Ok(());
        }
        Err(Error::new(Exit::Integrity, format!("the trainer was changed while the campaign was at work: `{program}`"))
            .hint("find out who writes there; `cargo kopt resume` builds it again from the campaign's base"))
    }
}
