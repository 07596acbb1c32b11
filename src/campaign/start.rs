//! PREPARE, READ_TIPS and BASELINE: what a campaign does before its first round.

use kopt_schema::audit::Finding;
use kopt_schema::campaign::Event;
use kopt_schema::campaign::event::{Baseline, Prepared, TipsRead};
use kopt_schema::evidence::{Evidence, Ruling};
use kopt_schema::exit::Exit;
use kopt_schema::message::FailureKind;
use kopt_stats::Effect;

use super::bouts::{self, Bouts, Purpose};
use super::folder::digest;
use super::stand::{self, Stand};
use super::{Campaign, Tools, told};
use crate::audit;
use crate::error::{Error, Result};
use crate::experience;
use crate::referee::evidence;
use crate::revision::{Revision, Revisions};

impl Campaign<'_> {
    /// PREPARE: the judge is built from the base, and the stand laid out.
    pub(super) fn prepare(&mut self) -> Result<()> {
        self.audience.doing("building the judge");
        let base = Revision { name: "the campaign's base".to_owned(), commit: self.target.base.clone() };
        let revisions = Revisions::around(&self.root, &self.own.join("revisions"))?;
        let export = revisions.export(&base)?;
        let kernel = stand::kernel_in(self.context, self.audience.shell(), &export.workspace, &self.target.kernel)?;
        let folder = self.own.join("campaigns").join(&self.target.campaign);
        let bouts = Bouts::prepare(self.context, self.audience, &export, kernel, &self.own, &folder, &self.root)?;
        let stand = Stand::make(
            self.context,
            self.audience.shell(),
            &export,
            &self.target.kernel,
            &folder.join("stand"),
            &self.own.join("candidates"),
        )?;
        let judge = bouts.digest.clone();
        self.tools = Some(Tools { bouts, stand, trainer: None });
        if self.state().ended.is_some() {
            // Only the report is owed: nothing is judged any more but the end against the beginning.
            return Ok(());
        }
        self.add(Event::Prepared(Prepared { judge }))
    }

    /// What measuring needs, made again where this process has taken the campaign up.
    pub(super) fn tools(&mut self) -> Result<()> {
        if self.tools.is_none() { self.prepare() } else { Ok(()) }
    }

    /// READ_TIPS: what is known of such kernels, in the catalogue and in this repository.
    pub(super) fn read_tips(&mut self) -> Result<()> {
        let known = self.known()?;
        let catalogue = known.iter().filter(|tip| tip.origin == experience::Origin::Catalogue);
        let entries: Vec<String> = catalogue.map(|tip| tip.id.clone()).collect();
        let own = known.len() - entries.len();
        self.add(Event::TipsRead(TipsRead { entries, own }))
    }

    pub(super) fn known(&self) -> Result<Vec<experience::KnownTip>> {
        let manifest = &self.kernel.manifest;
        let own = experience::read(&self.tips_folder())?;
        let device = &self.target.target_device;
        Ok(experience::known(&manifest.op, manifest.backend, manifest.language, &manifest.shapes, device, &own))
    }

    /// Where tips on such kernels are kept.
    pub(super) fn tips_folder(&self) -> camino::Utf8PathBuf {
        let manifest = &self.kernel.manifest;
        experience::folder(&self.root, &self.target.target_device, &manifest.op, manifest.backend)
    }

    /// BASELINE, round 1: the version at the start, checked, and measured against itself.
    pub(super) fn baseline(&mut self) -> Result<()> {
        self.tools()?;
        let base = self.target.base.clone();
        self.base_is_clean(&base)?;
        let path = self.folder.round(1).join("evidence.json");
        let found = self.hold([&base, &base], Purpose::Baseline, &path)?;
        if let Some(forfeit) = &found.forfeit {
            let (exit, hint) = match forfeit.kind {
                FailureKind::NoMemory => (Exit::Setup, "free some of it, or name another device: `--device N`"),
                FailureKind::Setup => (Exit::Setup, "`cargo kopt check` and `cargo kopt doctor` say what is missing"),
                _ => (
                    Exit::Incorrect,
                    "a campaign starts from a kernel that is right: `cargo kopt check` shows what is wrong with it",
                ),
            };
            let what = format!("the version that `{}` starts from fails", self.target.kernel);
            return Err(Error::new(exit, what).cause(forfeit.message.clone()).hint(hint));
        }
        if found.verdict.ruling == Ruling::Contaminated {
            self.audience.shell().warn(&format!(
                "the baseline differs from itself: {}; verdicts will take longer, or not be given",
                found.verdict.reasons.first().map_or("", String::as_str)
            ));
        }
        let launches: Vec<_> = found.stages.iter().flat_map(|stage| &stage.launches).collect();
        if launches.len() < 2 {
            let taken = launches.first().map_or(0.0, |launch| launch.wall_s);
            let wrong = format!(
                "`{}` is too slow for a campaign: one launch through its shapes takes {taken:.0} s",
                self.target.kernel
            );
            return Err(Error::setup(wrong).hint("fewer or smaller shapes: `--shapes A,B`"));
        }
        let launch_s = launches.iter().map(|launch| launch.wall_s).sum::<f64>() / launches.len().max(1) as f64;
        self.base_is_vetted(&base)?;
        self.train_baseline()?;
        self.add(Event::Baseline(Baseline {
            evidence: told::digest_of(&path)?,
            trials: found.trials,
            shapes: bouts::times(&found, false),
            launch_sigma: sigma(&found),
            launch_s,
        }))?;
        self.write_baseline(&found)
    }
}

impl Campaign<'_> {
    /// What the campaign starts from is clean under the sanitizers and passes its own `cargo test`: otherwise no change of it
    /// could be accepted, however good.
    fn base_is_vetted(&mut self, base: &str) -> Result<()> {
        let anew = self.anew()?;
        self.audience.doing("baseline: sanitizers, and cargo test");
        let (found, tested) = self.vetted(&anew, base)?;
        let Some(found) = found else { return tested };
        self.go_on()?;
        let what = format!("the version that `{}` starts from fails under the sanitizers", self.target.kernel);
        Err(Error::new(Exit::Incorrect, what)
            .cause(found)
            .hint("every change of it would be rolled back for that: mend it, commit, and begin again with `--new`"))
    }

    /// What the campaign starts from breaks no rule of the audit: otherwise every candidate could break it, too.
    fn base_is_clean(&self, base: &str) -> Result<()> {
        let Some(tools) = self.tools.as_ref() else { return Ok(()) };
        let stands = tools.stand.compile(&self.lineage, base, "the version that the campaign starts from")?;
        let Some(audit) = stands.side.audit else { return Ok(()) };
        let found: Vec<&Finding> = audit.violations().collect();
        let Some(first) = found.first() else { return Ok(()) };
        let reasons: Vec<String> = found.iter().map(|finding| audit::words::reason(finding)).collect();
        Err(Error::new(
            Exit::Integrity,
            format!("the version that `{}` starts from does not pass the state audit", self.target.kernel),
        )
        .cause(reasons.join("\n"))
        .hint(format!(
            "`cargo kopt audit -p {}` shows it; change the kernel, or allow the rule in its manifest, which every verdict \
             then shows: [package.metadata.kopt.policy] allow = [\"{}\"]",
            self.target.kernel, first.rule
        )))
    }

    /// The files of round 1, where the process that measured it was killed before it had written them.
    pub(super) fn make_up_baseline(&self) -> Result<()> {
        let folder = self.folder.round(1);
        let Some(baseline) = self.state().baseline.as_ref().filter(|_| !folder.join("summary.md").exists()) else {
            return Ok(());
        };
        let path = folder.join("evidence.json");
        match std::fs::read(&path) {
            Ok(bytes) if digest(&bytes) == baseline.evidence => {
                self.write_baseline(&evidence::read(path.as_str(), &bytes)?)
            }
            _ => Ok(()),
        }
    }
}

/// How much the aggregate varies from launch to launch.
fn sigma(evidence: &Evidence) -> f64 {
    evidence.verdict.aggregate.map_or_else(|| Effect::of(&[]).deviation, |aggregate| aggregate.launch_sigma)
}

impl Campaign<'_> {
    /// Holds a match between two commits and keeps its evidence in `path`.
    pub(super) fn hold(
        &mut self,
        [incumbent, candidate]: [&str; 2],
        purpose: Purpose,
        path: &camino::Utf8Path,
    ) -> Result<Evidence> {
        self.tools()?;
        let Some(tools) = self.tools.as_mut() else {
            return Err(Error::new(Exit::Internal, "no judge was prepared"));
        };
        let incumbent = tools.stand.compile(&self.lineage, incumbent, "the version that stands")?;
        let candidate = tools.stand.compile(&self.lineage, candidate, "the candidate")?;
        let found = tools.bouts.hold(
            self.context,
            self.interrupts,
            self.audience,
            &self.target,
            [&incumbent, &candidate],
            purpose,
        )?;
        evidence::write(path, &found)?;
        Ok(found)
    }
}
