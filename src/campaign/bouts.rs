//! The matches of a campaign: the baseline against itself, candidates against the version that stands, the end against
//! the beginning. All before one judge, built from the campaign's base.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use kopt_schema::campaign::event::ShapeTime;
use kopt_schema::campaign::target::Target;
use kopt_schema::evidence::{Evidence, LeftOut, Terms};
use kopt_schema::exit::Exit;

use super::Audience;
use super::folder::digest;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::gate::{self, Certificate};
use crate::machine::figures::Store;
use crate::manifest::Kernel;
use crate::process::Interrupts;
use crate::referee::entrant::Entrant;
use crate::referee::seeds::Master;
use crate::referee::trusted::{self, Trusted};
use crate::referee::{Limits, Match};
use crate::revision::Export;
use crate::runner::certify;

/// Launches that the baseline is measured with: enough to tell its noise.
const BASELINE_LAUNCHES: usize = 6;

/// Seconds that a full validation may take. A comparison by hand has two minutes; a campaign has hours, and a gain that was seen
/// and lacks a few launches to be confirmed, on a machine with much to do, is worth some more.
const FULL_S: f64 = 480.0;

/// And a quick one: it only finds what is hopeless, and what is not is measured in full anyway.
const QUICK_S: f64 = 30.0;

/// Launches after which the end against the beginning is first looked at.
const TOTAL_LAUNCHES: usize = 3;

/// The judge, and what its matches have in common.
#[derive(Debug)]
pub struct Bouts {
    /// The crate as the base has it.
    kernel: Kernel,
    /// The judge's executable, in a place where no build replaces it.
    judge: Utf8PathBuf,
    /// SHA-256 of it.
    pub digest: String,
    /// Where the tool keeps its own things.
    own: Utf8PathBuf,
    store: Store,
}

/// What a match is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What the version at the start takes, and how noisy that is.
    Baseline,
    /// Whether a candidate is hopeless.
    Quick,
    /// Whether it is accepted.
    Full,
    /// What the whole campaign is worth. Both versions have passed every trial.
    Total,
}

impl Bouts {
    /// Builds the judge from the base's files and keeps a copy in `folder`.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn prepare(
        context: &Context,
        audience: &mut dyn Audience,
        base: &Export,
        kernel: Kernel,
        own: &Utf8Path,
        folder: &Utf8Path,
        user: &Utf8Path,
    ) -> Result<Self> {
        let trusted = Trusted::build(context, audience.shell(), base, &kernel.member.name, own, user)?;
        let bytes = fs::read(&trusted.executable)
            .map_err(|error| Error::setup(format!("cannot read the judge `{}`", trusted.executable)).because(&error))?;
        let judge = folder.join("judge");
        let failed =
            |error: &std::io::Error| Error::new(Exit::Output, format!("cannot write `{judge}`")).because(error);
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        // Removed first: a judge of a process that was killed may still run, and a busy file cannot be written.
        let _ = fs::remove_file(&judge);
        fs::write(&judge, &bytes)
            .and_then(|()| fs::set_permissions(&judge, std::os::unix::fs::PermissionsExt::from_mode(0o755)))
            .map_err(|error| failed(&error))?;
        Ok(Self { kernel, judge, digest: digest(&bytes), own: own.to_owned(), store: Store::open(own) })
    }

    /// Hands wrong results to the crate's own check.
    ///
    /// # Errors
    /// When the judge cannot do so.
    pub fn certify(&self, context: &Context) -> Result<Certificate> {
        certify::certify(context, &self.kernel, &self.judge, &mut |_| Ok(()))
    }

    /// Holds a match; other comparisons on this machine wait meanwhile.
    ///
    /// # Errors
    /// When the judge cannot do its work.
    pub fn hold(
        &mut self,
        context: &Context,
        interrupts: &Interrupts,
        audience: &mut dyn Audience,
        target: &Target,
        [incumbent, candidate]: [&Entrant; 2],
        purpose: Purpose,
    ) -> Result<Evidence> {
        let _lock = trusted::lock(audience.shell(), &self.own)?;
        self.judge_is_unchanged()?;
        let shapes = if purpose == Purpose::Quick { &target.representative_shapes } else { &target.target_shapes };
        let bout = Match {
            kernel: &self.kernel,
            incumbent,
            candidate,
            shapes: shapes.clone(),
            left_out: left_out(&self.kernel, shapes, purpose),
            terms: terms(target, purpose)?,
            seed: Master::secret()?,
            check: purpose != Purpose::Total,
            injected: Vec::new(),
            without: Vec::new(),
            ceilings: Some(self.store.figures.ceilings.clone()),
            even_if_identical: purpose == Purpose::Baseline,
            limits: Limits::default(),
        };
        let evidence = bout.hold(context, interrupts, &self.judge, &mut |event| audience.bout(&event))?;
        if let Some(ceilings) = &evidence.ceilings
            && self.store.keep_ceilings(ceilings)
        {
            // They can be measured again: a file that cannot be written stops nothing.
            let _ = self.store.write();
        }
        Ok(evidence)
    }
}

impl Bouts {
    /// The judge's executable, as it was built.
    ///
    /// # Errors
    /// When it was changed since.
    pub fn judge(&self) -> Result<&Utf8Path> {
        self.judge_is_unchanged()?;
        Ok(&self.judge)
    }

    /// Everybody's verdict rests on it, and its file lies where an agent can write.
    fn judge_is_unchanged(&self) -> Result<()> {
        let bytes = fs::read(&self.judge)
            .map_err(|error| Error::setup(format!("cannot read the judge `{}`", self.judge)).because(&error))?;
        if digest(&bytes) == self.digest {
            return Ok(());
        }
        Err(Error::new(
            Exit::Integrity,
            format!("the judge was changed while the campaign was at work: `{}`", self.judge),
        )
        .hint("find out who writes there; `cargo kopt resume` builds it again from the campaign's base"))
    }
}

fn terms(target: &Target, purpose: Purpose) -> Result<Terms> {
    let terms = gate::terms(&target.policy, Some(target.min_gain), purpose == Purpose::Quick);
    let mut terms = terms.map_err(|wrong| Error::new(Exit::Usage, wrong))?;
    terms.core.clone_from(&target.core_shapes);
    terms.trace = purpose == Purpose::Full;
    match purpose {
        Purpose::Baseline => (terms.looks, terms.further_looks) = (vec![BASELINE_LAUNCHES], 0),
        // Nothing is decided by it, and what a campaign gained is mostly seen at once.
        Purpose::Total => {
            terms.looks.insert(0, TOTAL_LAUNCHES);
            terms.further_looks = 0;
        }
        Purpose::Full => terms.max_time_s = FULL_S,
        // What is not hopeless is measured in full, which shows it and confirms it.
        Purpose::Quick => (terms.max_time_s, terms.confirmation_looks) = (QUICK_S, 0),
    }
    Ok(terms)
}

fn left_out(kernel: &Kernel, shapes: &[String], purpose: Purpose) -> Vec<LeftOut> {
    let why = if purpose == Purpose::Quick { "quick validation" } else { "not among the campaign's shapes" };
    let all = kernel.manifest.shapes.iter().filter(|shape| !shapes.contains(&shape.name));
    all.map(|shape| LeftOut { shape: shape.name.clone(), why: why.to_owned() }).collect()
}

/// What each shape takes with the candidate, or with the incumbent.
#[must_use]
pub fn times(evidence: &Evidence, candidate: bool) -> Vec<ShapeTime> {
    let share = |name: &str, seconds: f64| {
        let arrangement = evidence.arrangement.as_ref()?;
        let case = arrangement.cases.iter().find(|case| case.name == name)?;
        gate::ceiling_share(&case.cost, evidence.ceilings.as_ref()?, seconds)
    };
    let shapes = evidence.verdict.shapes.iter();
    shapes
        .map(|shape| {
            let seconds = if candidate { shape.candidate_s } else { shape.incumbent_s };
            ShapeTime { shape: shape.shape.clone(), seconds, ceiling_share: share(&shape.shape, seconds) }
        })
        .collect()
}
